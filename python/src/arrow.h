// The C data, stream and device interfaces of Arrow, as its specification gives them; what comes in
// by them (ArrowInput) and what goes out.
//
// A column that comes in is arrays one behind the other, of one format and on one device, and keeps
// them until it ends. It is taken from `__arrow_c_array__`, `__arrow_c_stream__`,
// `__arrow_c_device_array__` or `__arrow_c_device_stream__`.
//
// Threads. With the GIL.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "arrays.h"

extern "C" {
struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema** children;
  struct ArrowSchema* dictionary;
  void (*release)(struct ArrowSchema*);
  void* private_data;
};
struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;
  void (*release)(struct ArrowArray*);
  void* private_data;
};
struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream*, struct ArrowSchema* out);
  int (*get_next)(struct ArrowArrayStream*, struct ArrowArray* out);
  const char* (*get_last_error)(struct ArrowArrayStream*);
  void (*release)(struct ArrowArrayStream*);
  void* private_data;
};
struct ArrowDeviceArray {
  struct ArrowArray array;
  int64_t device_id;
  int32_t device_type;
  void* sync_event;
  int64_t reserved[3];
};
struct ArrowDeviceArrayStream {
  int32_t device_type;
  int (*get_schema)(struct ArrowDeviceArrayStream*, struct ArrowSchema* out);
  int (*get_next)(struct ArrowDeviceArrayStream*, struct ArrowDeviceArray* out);
  const char* (*get_last_error)(struct ArrowDeviceArrayStream*);
  void (*release)(struct ArrowDeviceArrayStream*);
  void* private_data;
};
}

namespace isotherm::python {

// Kinds of devices, as DLPack numbers them, too.
inline constexpr int32_t arrow_cpu = 1;
inline constexpr int32_t arrow_cuda = 2;
inline constexpr int32_t arrow_cuda_host = 3;
inline constexpr int32_t arrow_cuda_managed = 13;

class ArrowInput {
 public:
  // By the first of the four that the object has; where `on_device`, those of devices come first.
  // `name` is that of the argument, for messages.
  ArrowInput(nb::handle object, const char* name, bool on_device);

  // Less pandas' columns, whose streams are made by pyarrow.
  static bool can_take(nb::handle object);

  const std::string& format() const { return format_; }
  bool has_dictionary() const { return has_dictionary_; }
  int32_t device_type() const { return device_type_; }
  // Without an array there is no number of a device: 0.
  int64_t device_id() const { return arrays_.empty() ? 0 : arrays_.front()->device_id; }
  bool on_host() const { return device_type_ == arrow_cpu || device_type_ == arrow_cuda_host; }
  // Arrays of the host have no event and are ready.
  size_t size() const { return arrays_.size(); }
  size_t rows() const;
  const ArrowDeviceArray& operator[](size_t i) const { return *arrays_[i]; }

 private:
  void take_schema(const ArrowSchema& schema);
  template <class Stream, class Array>
  void take_stream(nb::handle capsule, const char* capsule_name, const char* name);

  nb::object kept_;
  std::string format_;
  bool has_dictionary_ = false;
  int32_t device_type_ = arrow_cpu;
  // Those of a stream are released here; the others belong to their capsules.
  std::vector<std::shared_ptr<const ArrowDeviceArray>> arrays_;
};

// What goes out: a column of large binary whose buffers are bits (or null), offsets and bytes.
struct ArrowParts {
  const void* bits = nullptr;
  const void* offsets = nullptr;
  const void* bytes = nullptr;
  int64_t rows = 0;
  int64_t nulls = 0;  // -1: not known
  int32_t device_type = arrow_cpu;
  int64_t device_id = -1;
  void* event = nullptr;
  // What keeps the buffers and the event; it may end in any thread, without the GIL.
  std::shared_ptr<const void> owner;
};

// The capsules that the four return.
nb::object arrow_array(const ArrowParts& parts);
nb::object arrow_device_array(const ArrowParts& parts);
nb::object arrow_stream(const ArrowParts& parts);
nb::object arrow_device_stream(const ArrowParts& parts);

}  // namespace isotherm::python
