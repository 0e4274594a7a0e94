// The classes Store and Submitter of the module: byte strings. isotherm/store.py documents them.
//
// Columns go through the store in batches of rows_per_batch, fewer where they would take more than
// a 32nd of its cap, since what a batch lets go is not free before it ends. Behind each is a step
// of upkeep.
#include "isotherm/store.h"

#include <algorithm>
#include <vector>

#include "arrays.h"
#include "byte_columns.h"
#include "handle_pool.h"
#include "module.h"
#include "one_process.h"
#include "store_requests.h"

namespace isotherm::python {
namespace {

constexpr size_t rows_per_batch = 1024;

struct StoreWorker {
  explicit StoreWorker(Store& store) : handle(store) {}

  Handle handle;
  Batch batch;
};

constexpr uint64_t bytes_per_row = 64;  // about, beside key and value

EvictionPolicy policy_of(std::string_view name) {
  const std::optional<EvictionPolicy> policy = parse_eviction_policy(name);
  if (policy) return *policy;
  throw nb::value_error(
      "evict must be 'noeviction', 'allkeys-lru', 'allkeys-random', 'volatile-lru' or "
      "'volatile-ttl'");
}

class ByteStore {
 public:
  ByteStore(uint64_t memory, std::string_view evict, uint64_t max_value_bytes)
      : shared_(std::make_unique<Shared>(options(memory, evict, max_value_bytes))),
        most_batch_bytes_(memory != 0 ? memory / 32 : ~uint64_t{0}) {}

  uint64_t size() const { return shared_->store.size(); }
  uint64_t memory() const { return shared_->store.memory(); }
  Store& store() { return shared_->store; }

  nb::object get_many(nb::handle keys_given) {
    const ByteColumn keys(keys_given, "keys");
    nb::object values = checked(PyList_New(static_cast<Py_ssize_t>(keys.size())));
    gets(keys, 0, [&](size_t row, std::string_view value, bool found) {
      PyList_SetItem(values.ptr(), static_cast<Py_ssize_t>(row),
                     (found ? bytes_object(value) : nb::none()).release().ptr());
    });
    return values;
  }

  // The capsules of an Arrow array of large binary.
  ArrowOutput get_arrow(nb::handle keys_given) {
    const ByteColumn keys(keys_given, "keys");
    std::vector<int64_t> offsets = {0};
    std::vector<char> bytes;
    std::vector<uint8_t> validity((keys.size() + 7) / 8);
    int64_t nulls = 0;
    offsets.reserve(keys.size() + 1);
    gets(keys, 0, [&](size_t row, std::string_view value, bool found) {
      bytes.insert(bytes.end(), value.begin(), value.end());
      offsets.push_back(static_cast<int64_t>(bytes.size()));
      validity[row / 8] |= static_cast<uint8_t>(static_cast<int>(found) << (row % 8));
      nulls += static_cast<int64_t>(!found);
    });
    return ArrowOutput::on_host(std::move(offsets), std::move(bytes), std::move(validity), nulls);
  }

  // Values of one size into the rows of `out`; a mask of those found. A value of another size is an
  // error: the store is not this table's alone.
  nb::object get_rows(nb::handle keys_given, nb::handle out) {
    const ByteColumn keys(keys_given, "keys");
    Shape shape;
    shape.dims = 1;
    shape.sizes[0] = static_cast<npy_intp>(keys.size());
    Mask mask(shape);
    auto* const rows = static_cast<char*>(PyArray_DATA(as_array(out)));
    const size_t row_bytes =
        keys.size() != 0 ? static_cast<size_t>(PyArray_NBYTES(as_array(out))) / keys.size() : 0;
    bool fits = true;
    gets(keys, 0, [&](size_t row, std::string_view value, bool found) {
      mask.data()[row] = static_cast<uint8_t>(found);
      if (!found) return;
      fits &= value.size() == row_bytes;
      if (value.size() == row_bytes && row_bytes != 0) {
        std::memcpy(rows + row * row_bytes, value.data(), row_bytes);
      }
    });
    if (!fits) throw nb::value_error("get: a value has another size than the rows of the table");
    return mask.give();
  }

  nb::object contains_many(nb::handle keys_given) {
    const ByteColumn keys(keys_given, "keys");
    Shape shape;
    shape.dims = 1;
    shape.sizes[0] = static_cast<npy_intp>(keys.size());
    Mask mask(shape);
    gets(keys, option::no_value, [&](size_t row, std::string_view, bool found) {
      mask.data()[row] = static_cast<uint8_t>(found);
    });
    return mask.give();
  }

  // The version of each key, 0 where it is absent, and the values as get_many gives them.
  nb::object get_versions(nb::handle keys_given) {
    const ByteColumn keys(keys_given, "keys");
    nb::object values = checked(PyList_New(static_cast<Py_ssize_t>(keys.size())));
    nb::object versions = new_array(one_dimension(keys.size()), NPY_ULONG);
    auto* const to = static_cast<uint64_t*>(PyArray_DATA(as_array(versions)));
    each_reply(
        keys, nullptr, [&](Batch& batch, size_t row) { batch.get(keys[row]); },
        [&](const Reply& reply, size_t row) {
          const bool found = reply.status.load(std::memory_order_acquire) == Status::ok;
          to[row] = found ? reply.version : 0;
          PyList_SetItem(values.ptr(), static_cast<Py_ssize_t>(row),
                         (found ? bytes_object(reply.value()) : nb::none()).release().ptr());
        });
    return nb::make_tuple(values, versions);
  }

  // Statuses, a byte a row. `versions`, if not None, is an array of u64.
  nb::object put_many(nb::handle keys_given, nb::handle values_given, uint16_t options,
                      int64_t expiry, nb::handle versions) {
    const ByteColumn keys(keys_given, "keys");
    const ByteColumn values(values_given, "values");
    if (values.size() != keys.size()) {
      throw nb::value_error(("put: there are " + std::to_string(keys.size()) + " keys and " +
                             std::to_string(values.size()) + " values")
                                .c_str());
    }
    const uint64_t* const expected = versions_of(versions, keys.size());
    return statuses(keys, &values, [&](Batch& batch, size_t row) {
      batch.put(keys[row], values[row], options, expiry, 0,
                expected != nullptr ? expected[row] : 0);
    });
  }

  nb::object erase_many(nb::handle keys_given, nb::handle versions) {
    const ByteColumn keys(keys_given, "keys");
    const uint64_t* const expected = versions_of(versions, keys.size());
    const uint16_t options = expected != nullptr ? option::if_version : 0;
    return statuses(keys, nullptr, [&](Batch& batch, size_t row) {
      batch.erase(keys[row], options, expected != nullptr ? expected[row] : 0);
    });
  }

  nb::object expire_many(nb::handle keys_given, int64_t expiry) {
    const ByteColumn keys(keys_given, "keys");
    return statuses(keys, nullptr,
                    [&](Batch& batch, size_t row) { batch.expire(keys[row], expiry); });
  }

  // The requests take effect together where `atomic`, else in order.
  nb::object run(nb::list requests, bool atomic) {
    nb::object kept = checked(PySequence_Tuple(requests.ptr()));
    const size_t rows = nb::len(kept);
    nb::object results = checked(PyList_New(static_cast<Py_ssize_t>(rows)));
    const Pool::Lease lease = Pool::Lease::with_gil(shared_->pool);
    const Cleared batch(lease->batch);
    size_t part = 0;
    for (size_t from = 0; from < rows; from += part, look_for_signals()) {
      uint64_t bytes = 0;
      for (part = 0; from + part < rows; ++part) {
        if (!atomic && (part == rows_per_batch || bytes > most_batch_bytes_)) break;
        append_request(*batch, PyTuple_GetItem(kept.ptr(), static_cast<Py_ssize_t>(from + part)));
        const auto row = static_cast<Batch::Row>(part);
        bytes +=
            batch->columns().key[row].size() + batch->columns().value[row].size() + bytes_per_row;
      }
      if (atomic) batch->group(0);
      {
        const GilReleased released(atomic ? GilReleased::worth_bytes
                                          : bytes + part * bytes_per_row);
        lease->handle.submit(*batch);
      }
      for (size_t i = 0; i < part; ++i) {
        PyList_SetItem(results.ptr(), static_cast<Py_ssize_t>(from + i),
                       result_of(*batch, static_cast<Batch::Row>(i)).release().ptr());
      }
      batch->clear();
    }
    return results;
  }

  // (cursor to go on from, keys)
  nb::object scan(uint64_t cursor, uint64_t count) {
    std::vector<std::string> keys;
    const Pool::Lease lease = Pool::Lease::with_gil(shared_->pool);
    {
      const GilReleased released(GilReleased::worth_bytes);
      cursor =
          lease->handle.scan(cursor, count, [&](std::string_view key) { keys.emplace_back(key); });
    }
    nb::list list;
    for (const std::string& key : keys) list.append(bytes_object(key));
    return nb::make_tuple(cursor, list);
  }

  void clear() {
    const Pool::Lease lease = Pool::Lease::with_gil(shared_->pool);
    const GilReleased released(GilReleased::worth_bytes);
    if (lease->handle.clear() != Status::ok) throw std::bad_alloc();
  }

  bool maintain() {
    const Pool::Lease lease = Pool::Lease::with_gil(shared_->pool);
    const GilReleased released(GilReleased::worth_bytes);
    return lease->handle.maintain();
  }

 private:
  using Pool = HandlePool<Store, StoreWorker>;

  struct Shared {
    explicit Shared(const Options& options) : store(options), pool(store) {}

    Store store;
    Pool pool;
  };

  // A batch that is empty at the end, whatever was thrown.
  class Cleared {
   public:
    explicit Cleared(Batch& batch) : batch_(batch) {}
    ~Cleared() { batch_.clear(); }
    Cleared(const Cleared&) = delete;
    Cleared& operator=(const Cleared&) = delete;
    Batch& operator*() const { return batch_; }
    Batch* operator->() const { return &batch_; }

   private:
    Batch& batch_;
  };

  static Options options(uint64_t memory, std::string_view evict, uint64_t max_value_bytes) {
    Options options;
    options.maxmemory = memory;
    options.maxmemory_policy = policy_of(evict);
    options.databases = 1;
    options.max_value_bytes = max_value_bytes;
    return options;
  }

  static Shape one_dimension(size_t size) {
    Shape shape;
    shape.dims = 1;
    shape.sizes[0] = static_cast<npy_intp>(size);
    return shape;
  }

  static const uint64_t* versions_of(nb::handle versions, size_t rows) {
    if (versions.is_none()) return nullptr;
    if (!PyArray_Check(versions.ptr()) || PyArray_TYPE(as_array(versions)) != NPY_ULONG ||
        !PyArray_ISCARRAY_RO(as_array(versions)) ||
        PyArray_SIZE(as_array(versions)) != static_cast<npy_intp>(rows)) {
      throw nb::value_error("versions must be a uint64 array with one for each key");
    }
    return static_cast<const uint64_t*>(PyArray_DATA(as_array(versions)));
  }

  struct Part {
    size_t rows = 0;
    uint64_t bytes = 0;
  };
  // Of the rows behind `from`, those that go in one batch.
  Part part_of(const ByteColumn& keys, const ByteColumn* values, size_t from) const {
    Part part;
    while (part.rows < rows_per_batch && from + part.rows < keys.size()) {
      const size_t row = from + part.rows;
      const uint64_t bytes =
          keys[row].size() + (values != nullptr ? (*values)[row].size() : 0) + bytes_per_row;
      if (part.rows != 0 && part.bytes + bytes > most_batch_bytes_) break;
      ++part.rows;
      part.bytes += bytes;
    }
    return part;
  }

  // Runs a request for each key: `append(batch, row)` fills it in, with one of `values` unless
  // null, and `show(reply, row)`, with the GIL, sees its reply.
  template <class Append, class Show>
  void each_reply(const ByteColumn& keys, const ByteColumn* values, Append&& append, Show&& show) {
    if (keys.size() == 0) return;
    const Pool::Lease lease = Pool::Lease::with_gil(shared_->pool);
    const Cleared batch(lease->batch);
    Part part;
    for (size_t from = 0; from < keys.size(); from += part.rows, look_for_signals()) {
      part = part_of(keys, values, from);
      {
        const GilReleased released(part.bytes);
        for (size_t i = 0; i < part.rows; ++i) append(*batch, from + i);
        lease->handle.submit(*batch);
      }
      for (size_t i = 0; i < part.rows; ++i) {
        show(batch->reply(static_cast<Batch::Row>(i)), from + i);
      }
      const GilReleased released(part.bytes);
      batch->clear();
    }
  }

  template <class Show>
  void gets(const ByteColumn& keys, uint16_t options, Show&& show) {
    each_reply(
        keys, nullptr, [&](Batch& batch, size_t row) { batch.get(keys[row], options); },
        [&](const Reply& reply, size_t row) {
          const bool found = reply.status.load(std::memory_order_acquire) == Status::ok;
          show(row, found && reply.data != nullptr ? reply.value() : std::string_view(), found);
        });
  }

  template <class Append>
  nb::object statuses(const ByteColumn& keys, const ByteColumn* values, Append&& append) {
    nb::object statuses = new_array(one_dimension(keys.size()), NPY_UBYTE);
    auto* const to = static_cast<uint8_t*>(PyArray_DATA(as_array(statuses)));
    each_reply(keys, values, append, [&](const Reply& reply, size_t row) {
      to[row] = static_cast<uint8_t>(reply.status.load(std::memory_order_acquire));
    });
    return statuses;
  }

  OfOneProcess<Shared> shared_;
  const uint64_t most_batch_bytes_;
};

using SharedHandle = std::shared_ptr<OfOneProcess<Handle>>;

// Requests that were started and are not waited for. It and the Submitter belong to one thread.
class Submission {
 public:
  Submission(SharedHandle handle, nb::object requests)
      : handle_(std::move(handle)), requests_(std::move(requests)) {
    const size_t rows = nb::len(requests_);
    for (size_t i = 0; i < rows; ++i) {
      append_request(batch_, PyTuple_GetItem(requests_.ptr(), static_cast<Py_ssize_t>(i)));
      const auto row = static_cast<Batch::Row>(i);
      bytes_ += batch_.columns().key[row].size() + batch_.columns().value[row].size();
    }
  }
  ~Submission() {
    if (started_ && !done() && !handle_->in_a_child()) {
      const GilReleased released(GilReleased::worth_bytes);
      (*handle_)->wait(batch_);
    }
    batch_.clear();
  }
  Submission(const Submission&) = delete;
  Submission& operator=(const Submission&) = delete;

  bool start() {
    const GilReleased released(bytes_ + batch_.size() * 128);
    started_ = (*handle_)->start(batch_) == Status::ok;
    return started_;
  }
  bool done() const {
    for (Batch::Row row = 0; row < batch_.size(); ++row) {
      if (!batch_.ready(row)) return false;
    }
    return true;
  }
  nb::object results() const {
    if (!started_ || !done()) throw nb::value_error("the requests are still under way");
    nb::list results;
    for (Batch::Row row = 0; row < batch_.size(); ++row) results.append(result_of(batch_, row));
    return results;
  }

 private:
  SharedHandle handle_;
  nb::object requests_;  // whose bytes the batch borrows
  Batch batch_;
  uint64_t bytes_ = 0;  // of keys and values
  bool started_ = false;
};

class Submitter {
 public:
  explicit Submitter(ByteStore& store)
      : handle_(std::make_shared<OfOneProcess<Handle>>(std::make_unique<Handle>(store.store()))) {}

  // None where too many are under way: poll, and try again.
  nb::object start(nb::list requests) {
    auto submission =
        std::make_unique<Submission>(handle_, checked(PySequence_Tuple(requests.ptr())));
    if (!submission->start()) return nb::none();
    return nb::cast(std::move(submission));
  }
  uint32_t poll() { return (*handle_)->poll(); }

 private:
  SharedHandle handle_;
};

}  // namespace

void add_store(nb::module_& module) {
  module.attr("least_store_memory") = nb::int_(Options::least_maxmemory);
  nb::class_<ByteStore>(module, "Store", nb::is_weak_referenceable())
      .def(nb::init<uint64_t, std::string_view, uint64_t>(), nb::arg("memory"), nb::arg("evict"),
           nb::arg("max_value_bytes"))
      .def_prop_ro("memory_bytes", &ByteStore::memory)
      .def("__len__", &ByteStore::size)
      .def("get_many", &ByteStore::get_many, nb::arg("keys").none())
      .def("get_arrow", &ByteStore::get_arrow, nb::arg("keys").none())
      .def("get_rows", &ByteStore::get_rows, nb::arg("keys").none(), nb::arg("out"))
      .def("get_versions", &ByteStore::get_versions, nb::arg("keys").none())
      .def("contains_many", &ByteStore::contains_many, nb::arg("keys").none())
      .def("put_many", &ByteStore::put_many, nb::arg("keys").none(), nb::arg("values").none(),
           nb::arg("options"), nb::arg("expiry"), nb::arg("versions").none())
      .def("erase_many", &ByteStore::erase_many, nb::arg("keys").none(), nb::arg("versions").none())
      .def("expire_many", &ByteStore::expire_many, nb::arg("keys").none(), nb::arg("expiry"))
      .def("run", &ByteStore::run, nb::arg("requests"), nb::arg("atomic"))
      .def("scan", &ByteStore::scan, nb::arg("cursor"), nb::arg("count"))
      .def("clear", &ByteStore::clear)
      .def("maintain", &ByteStore::maintain);
  nb::class_<Submission>(module, "Submission")
      .def("done", &Submission::done)
      .def("results", &Submission::results);
  nb::class_<Submitter>(module, "Submitter")
      .def(nb::init<ByteStore&>(), nb::arg("store"), nb::keep_alive<1, 2>())
      .def("start", &Submitter::start, nb::arg("requests"), nb::keep_alive<0, 1>())
      .def("poll", &Submitter::poll);
}

}  // namespace isotherm::python
