// The class _GpuItems of the module: byte strings in the memory of GPUs, with those verbs of Store
// that tables of bytes use (isotherm/_bytes_table.py), and calls on columns in a GPU's memory
// (isotherm/_gpu_bytes_table.py).
#include <nanobind/stl/array.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "byte_columns.h"
#include "gpu_loader.h"
#include "isotherm/batch.h"
#include "isotherm/gpu/common.h"
#include "isotherm/status.h"
#include "module.h"
#include "one_process.h"

namespace isotherm::python {
namespace {

// A ByteColumn as the offsets and bytes that the table takes.
struct JoinedBytes {
  explicit JoinedBytes(const ByteColumn& column) : offsets{0} {
    offsets.reserve(column.size() + 1);
    for (size_t i = 0; i < column.size(); ++i) {
      offsets.push_back(offsets.back() + static_cast<int64_t>(column[i].size()));
    }
    bytes.reserve(static_cast<size_t>(offsets.back()) + 1);
    for (size_t i = 0; i < column.size(); ++i) {
      bytes.insert(bytes.end(), column[i].begin(), column[i].end());
    }
  }
  gpu::Bytes view() const { return {offsets.data(), bytes.data()}; }

  std::vector<int64_t> offsets;
  std::vector<char> bytes;
};

// What a get has found.
struct Found {
  std::vector<uint8_t> found;
  std::vector<int64_t> offsets;
  std::vector<char> bytes;
  std::vector<uint64_t> versions;  // where they are asked for

  nb::object value(size_t i) const {
    if (found[i] != 1) return nb::none();
    const std::string_view its = (*this)[i];
    return nb::bytes(its.data(), its.size());
  }
  std::string_view operator[](size_t i) const {
    return {bytes.data() + offsets[i], static_cast<size_t>(offsets[i + 1] - offsets[i])};
  }
};

[[noreturn]] void refuse(const char* what) {
  PyErr_SetString(PyExc_NotImplementedError,
                  (std::string("a table of bytes on a GPU has no ") + what).c_str());
  throw nb::python_error();
}

Shape column_shape(size_t rows) {
  Shape shape;
  shape.dims = 1;
  shape.sizes[0] = static_cast<npy_intp>(rows);
  return shape;
}

class GpuByteTable {
 public:
  GpuByteTable(const std::vector<int>& gpus, uint64_t memory, uint64_t host_memory, bool evict) {
    gpu::ItemTableOptions options;
    options.devices = gpus;
    options.gpu_memory = memory;
    options.pinned_item_memory = host_memory;
    options.evict = evict;
    const GilReleased released(GilReleased::worth_bytes);
    items_ = OfOneProcess(gpu_part().make_items(options));
  }

  uint64_t size() const { return stats().entries; }
  uint64_t memory() const {
    const gpu::ItemStats its = stats();
    return its.bytes + its.workspace + its.host_bytes;
  }

  nb::object get_many(nb::handle keys_given) { return listed(gets(keys_given)); }

  // As of a Store: values, and the version of each key, 0 where it is absent.
  nb::object get_versions(nb::handle keys_given) {
    const Found found = gets(keys_given, true);
    nb::object versions = new_array(column_shape(found.versions.size()), NPY_ULONG);
    std::copy(found.versions.begin(), found.versions.end(),
              static_cast<uint64_t*>(PyArray_DATA(as_array(versions))));
    return nb::make_tuple(listed(found), versions);
  }

  nb::object get_rows(nb::handle keys_given, nb::handle out) {
    const Found found = gets(keys_given);
    const size_t rows = found.found.size();
    const auto bytes =
        static_cast<size_t>(PyArray_NBYTES(as_array(out))) / std::max<size_t>(rows, 1);
    auto* const to = static_cast<char*>(PyArray_DATA(as_array(out)));
    Mask mask(column_shape(rows));
    for (size_t i = 0; i < rows; ++i) {
      mask.data()[i] = found.found[i] == 1 ? 1 : 0;
      if (mask.data()[i] != 0) std::memcpy(to + i * bytes, found[i].data(), bytes);
    }
    return mask.give();
  }

  nb::object contains_many(nb::handle keys_given) {
    const ByteColumn keys(keys_given, "keys");
    return replies(keys, nullptr, TableOp::get, [](uint8_t reply) { return reply == 1 ? 1 : 0; });
  }

  // Statuses, a byte a row.
  nb::object put_many(nb::handle keys_given, nb::handle values_given, uint16_t options,
                      int64_t expiry, nb::handle versions) {
    if (expiry != 0) refuse("expiry");
    TableOp op = TableOp::put;
    const uint64_t* expected = nullptr;
    if ((options & option::if_absent) != 0) op = TableOp::put_if_absent;
    if ((options & option::if_version) != 0) {
      op = TableOp::put_if_version;
      if (!PyArray_Check(versions.ptr()) || !PyArray_ISCARRAY_RO(as_array(versions)) ||
          PyArray_TYPE(as_array(versions)) != NPY_ULONG ||
          static_cast<size_t>(PyArray_SIZE(as_array(versions))) != nb::len(keys_given)) {
        throw nb::value_error("versions must be a uint64 array with one for each key");
      }
      expected = static_cast<const uint64_t*>(PyArray_DATA(as_array(versions)));
    }
    const ByteColumn keys(keys_given, "keys");
    const ByteColumn values(values_given, "values");
    if (values.size() != keys.size()) throw nb::value_error("put: wants a value for each key");
    const JoinedBytes joined(values);
    return replies(
        keys, &joined, op,
        [op](uint8_t reply) {
          if (reply == reply_retry) return static_cast<int>(Status::out_of_memory);
          if (reply == gpu::reply_refused) return static_cast<int>(Status::too_large);
          const bool done =
              op == TableOp::put || reply == static_cast<uint8_t>(op == TableOp::put_if_version);
          return static_cast<int>(done ? Status::ok : Status::condition_failed);
        },
        expected);
  }

  nb::object erase_many(nb::handle keys_given, nb::handle /*versions*/) {
    const ByteColumn keys(keys_given, "keys");
    return replies(keys, nullptr, TableOp::erase, [](uint8_t reply) {
      return static_cast<int>(reply == 1 ? Status::ok : Status::not_found);
    });
  }

  // (cursor to go on from, keys)
  nb::object scan(uint64_t cursor, uint64_t count) {
    std::vector<std::string> keys;
    {
      const GilReleased released(GilReleased::worth_bytes);
      cursor = items_->scan(cursor, count, keys);
    }
    nb::list listed;
    for (const std::string& key : keys) listed.append(nb::bytes(key.data(), key.size()));
    return nb::make_tuple(cursor, listed);
  }

  ArrowOutput get_arrow(nb::handle keys_given) {
    Found found = gets(keys_given);
    std::vector<uint8_t> bits((found.found.size() + 7) / 8);
    int64_t nulls = 0;
    for (size_t i = 0; i < found.found.size(); ++i) {
      const bool its = found.found[i] == 1;
      bits[i / 8] |= static_cast<uint8_t>(static_cast<int>(its) << (i % 8));
      nulls += static_cast<int64_t>(!its);
    }
    return ArrowOutput::on_host(std::move(found.offsets), std::move(found.bytes), std::move(bits),
                                nulls);
  }

  // A call on columns in the memory of a GPU, the one at `place` in the table's list, by the
  // addresses of the offsets and bytes of keys and of values, of the mask, and of offsets and bytes
  // of the reply; 0 is none. Without `as_mask` the mask gets the replies.
  void run_on_gpu(std::string_view verb, uint32_t place, GpuStream stream, uint64_t rows,
                  const std::array<uintptr_t, 7>& columns, uint64_t capacity, bool as_mask) {
    const auto [op, mask] = verb_on_gpu(verb);
    const auto strings = [&](size_t at) {
      return gpu::Bytes{reinterpret_cast<const int64_t*>(columns[at]),
                        reinterpret_cast<const char*>(columns[at + 1])};
    };
    gpu::ItemRequests requests;
    requests.rows = rows;
    requests.op = op;
    requests.keys = strings(0);
    requests.values = strings(2);
    requests.replies.found = reinterpret_cast<uint8_t*>(columns[4]);
    requests.replies.offsets = reinterpret_cast<int64_t*>(columns[5]);
    requests.replies.bytes = reinterpret_cast<char*>(columns[6]);
    requests.replies.capacity = capacity;
    const GilReleased released(GilReleased::worth_bytes);
    items_->run(requests, as_mask ? std::optional(mask) : std::nullopt, place, stream);
  }

 private:
  static std::pair<TableOp, GpuMask> verb_on_gpu(std::string_view name) {
    if (name == "get") return {TableOp::get, GpuMask::found};
    if (name == "put") return {TableOp::put, GpuMask::stored};
    if (name == "erase") return {TableOp::erase, GpuMask::found};
    if (name == "put_if_absent") return {TableOp::put_if_absent, GpuMask::absent};
    throw nb::value_error("no verb of that name");
  }

  gpu::ItemStats stats() const {
    const GilReleased released(GilReleased::worth_bytes);
    return items_->stats();
  }

  static nb::object listed(const Found& found) {
    nb::list values;
    for (size_t i = 0; i < found.found.size(); ++i) values.append(found.value(i));
    return values;
  }

  // With room for a guess at the values; where that is too little, once more with what is needed.
  Found gets(nb::handle keys_given, bool with_versions = false) {
    const ByteColumn column(keys_given, "keys");
    const JoinedBytes keys(column);
    Found reply;
    reply.found.resize(column.size());
    reply.offsets.resize(column.size() + 1);
    gpu::ItemRequests requests;
    requests.rows = column.size();
    requests.keys = keys.view();
    requests.replies.found = reply.found.data();
    requests.replies.offsets = reply.offsets.data();
    if (with_versions) {
      reply.versions.resize(column.size());
      requests.replies.versions = reply.versions.data();
    }
    const GilReleased released(GilReleased::worth_bytes);
    for (uint64_t room = likely_bytes(column.size());;) {
      reply.bytes.resize(room);
      requests.replies.bytes = reply.bytes.data();
      requests.replies.capacity = room;
      const uint64_t needed = items_->run_host(requests);
      if (column.size() != 0) learn(needed, column.size());
      if (needed <= room) break;
      room = needed + needed / 8;
    }
    return reply;
  }

  // Of so many values, at the mean of the last ones. That may have been one long value, so where it
  // is much it is no more than twice what the last ones took.
  uint64_t likely_bytes(uint64_t rows) const {
    constexpr uint64_t some = uint64_t{64} << 20;
    const uint64_t most = std::max(some, 2 * last_bytes_.load(std::memory_order_relaxed));
    return std::min(room_.load(std::memory_order_relaxed) * rows, most) + 64;
  }
  void learn(uint64_t bytes, uint64_t rows) {
    last_bytes_.store(bytes, std::memory_order_relaxed);
    room_.store((bytes + bytes / 8) / rows + 1, std::memory_order_relaxed);
  }

  template <class Meaning>
  nb::object replies(const ByteColumn& column, const JoinedBytes* values, TableOp op,
                     Meaning&& meaning, const uint64_t* versions = nullptr) {
    const JoinedBytes keys(column);
    const bool is_mask = op == TableOp::get;
    nb::object array = new_array(column_shape(column.size()), is_mask ? NPY_BOOL : NPY_UBYTE);
    auto* const found = static_cast<uint8_t*>(PyArray_DATA(as_array(array)));
    gpu::ItemRequests requests;
    requests.rows = column.size();
    requests.op = op;
    requests.keys = keys.view();
    if (values != nullptr) requests.values = values->view();
    requests.versions = versions;
    requests.replies.found = found;
    const GilReleased released(GilReleased::worth_bytes);
    items_->run_host(requests);
    std::transform(found, found + column.size(), found,
                   [&](uint8_t reply) { return static_cast<uint8_t>(meaning(reply)); });
    return array;
  }

  OfOneProcess<GpuItems> items_;
  std::atomic<uint64_t> room_{64};       // of a value, as seen
  std::atomic<uint64_t> last_bytes_{0};  // of the values of the last get
};

}  // namespace

void add_gpu_items(nb::module_& module) {
  nb::class_<GpuByteTable>(module, "_GpuItems")
      .def(nb::init<const std::vector<int>&, uint64_t, uint64_t, bool>(), nb::arg("gpus"),
           nb::arg("memory"), nb::arg("host_memory"), nb::arg("evict"))
      .def_prop_ro("memory_bytes", &GpuByteTable::memory)
      .def("__len__", &GpuByteTable::size)
      .def("get_many", &GpuByteTable::get_many, nb::arg("keys"))
      .def("get_arrow", &GpuByteTable::get_arrow, nb::arg("keys"))
      .def("get_rows", &GpuByteTable::get_rows, nb::arg("keys"), nb::arg("out"))
      .def("get_versions", &GpuByteTable::get_versions, nb::arg("keys"))
      .def("contains_many", &GpuByteTable::contains_many, nb::arg("keys"))
      .def("put_many", &GpuByteTable::put_many, nb::arg("keys"), nb::arg("values"),
           nb::arg("options"), nb::arg("expiry"), nb::arg("versions").none())
      .def("erase_many", &GpuByteTable::erase_many, nb::arg("keys"), nb::arg("versions").none())
      .def("scan", &GpuByteTable::scan, nb::arg("cursor"), nb::arg("count"))
      .def("run_on_gpu", &GpuByteTable::run_on_gpu, nb::arg("verb"), nb::arg("place"),
           nb::arg("stream"), nb::arg("rows"), nb::arg("columns"), nb::arg("capacity"),
           nb::arg("as_mask"));
}

}  // namespace isotherm::python
