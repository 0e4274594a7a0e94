// The class FixedTable of the module: tables of 64-bit keys and values of one size, whose verbs
// take and give arrays. isotherm/table.py documents them.
#include <nanobind/stl/array.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "arrays.h"
#include "backend.h"
#include "gpu_loader.h"
#include "isotherm/gpu/common.h"
#include "module.h"
#include "one_process.h"
#include "value_kinds.h"

namespace isotherm::python {
namespace {

class Table {
 public:
  // `gpus`: numbers; none: the table lies on the host. `evict`: the name of RowScores, or empty.
  Table(nb::object key_dtype, nb::object value_dtype, nb::object row_shape, uint64_t memory,
        uint64_t expected, const std::vector<int>& gpus, uint64_t host_memory,
        std::string_view evict)
      : key_dtype_(std::move(key_dtype)), value_dtype_(std::move(value_dtype)) {
    signed_ = as_dtype(key_dtype_)->kind == 'i';
    row_.dims = static_cast<int>(nb::len(row_shape));
    if (row_.dims > most_dims) throw nb::value_error("a value has more than 16 dimensions");
    for (int i = 0; i < row_.dims; ++i) {
      row_.sizes[static_cast<size_t>(i)] = nb::cast<npy_intp>(row_shape[i]);
    }
    const int type = as_dtype(value_dtype_)->type_num;
    const auto item = static_cast<uint64_t>(PyDataType_ELSIZE(as_dtype(value_dtype_)));
    BackendOptions options;
    options.row_bytes = item * static_cast<uint64_t>(row_.count());
    options.words = row_.dims == 0 && is_word(type);
    options.sum = sum_of(type);
    options.memory = memory;
    options.expected = expected;
    options.evict_by = evict_by_ = parse_evict(evict);
    row_bytes_ = options.row_bytes;
    sum_ = options.sum;
    if (gpus.empty()) {
      backend_ = OfOneProcess(make_host_backend(options), ReadInChildren());
      return;
    }
    GpuTableOptions on_gpu;
    on_gpu.gpus = gpus;
    on_gpu.row_bytes = row_bytes_;
    on_gpu.evict_by = evict_by_;
    const bool words = row_bytes_ <= sizeof(uint64_t) && evict_by_ == RowScores::none;
    on_gpu.word_sums = are_words() && is_word(type);
    on_gpu.float_sums = !words && type == NPY_FLOAT;
    adds_on_gpu_ = on_gpu.word_sums || on_gpu.float_sums;
    on_gpu.gpu_memory = memory;
    on_gpu.host_memory = host_memory;
    on_gpu.expected_entries = expected;
    const GilReleased released(GilReleased::worth_bytes);
    backend_ = OfOneProcess(make_gpu_backend(on_gpu));
  }

  // On a GPU they wait for the calls before.
  uint64_t size() const {
    const GilReleased released(least_work());
    return backend_.to_read().size();
  }
  uint64_t memory() const {
    const GilReleased released(least_work());
    return backend_->memory();
  }
  uint64_t evictions() const {
    const GilReleased released(least_work());
    return backend_->evictions();
  }
  uint64_t row_bytes() const { return row_bytes_; }
  nb::object key_dtype() const { return key_dtype_; }
  nb::object value_dtype() const { return value_dtype_; }
  nb::object row_shape() const { return tuple_of(row_); }

  nb::object get(nb::handle keys_given, nb::handle out, nb::handle arrow) {
    if (PyObject_IsTrue(arrow.ptr()) != 0) {
      throw nb::type_error("arrow: only for values of bytes, without out");
    }
    const Keys keys = keys_of(keys_given);
    const Values values = values_to_fill(keys, out);
    Mask found(keys.shape());
    find(keys, values.data(), found.data());
    return nb::make_tuple(out.is_none() ? returned(values.array()) : nb::borrow(out), found.give());
  }

  nb::object get_item(nb::handle keys_given) {
    const Keys keys = keys_of(keys_given);
    const Values values = values_to_fill(keys, nb::none());
    Mask found(keys.shape());
    if (find(keys, values.data(), found.data()) != keys.count()) {
      raise_first_missing(keys, found.data());
    }
    return returned(values.array());
  }

  nb::object contains(nb::handle keys_given) {
    const Keys keys = keys_of(keys_given);
    Mask found(keys.shape());
    find(keys, nullptr, found.data());
    return found.give();
  }
  bool contains_one(nb::handle key) {
    const Keys keys = keys_of(key);
    if (keys.shape().dims != 0) {
      throw nb::type_error("`in` looks for one key; use contains(keys) for an array");
    }
    uint8_t found = 0;
    find(keys, nullptr, &found);
    return found != 0;
  }

  nb::object put(nb::handle keys_given, nb::handle values, nb::handle on_full, nb::handle scores) {
    return write(TableOp::put, keys_given, values, parse_on_full(on_full), scores);
  }
  // (scores, found)
  nb::object scores(nb::handle keys_given) {
    require_scores();
    const Keys keys = keys_of(keys_given);
    const Values scores = Values::of_zeros(score_dtype(), keys.shape());
    Mask found(keys.shape());
    RowRequests requests;
    requests.keys = {keys.data(), keys.count()};
    requests.found = found.data();
    requests.scores = static_cast<uint64_t*>(scores.data());
    run_or_raise(requests, keys, OnFull::raise);
    return nb::make_tuple(returned(scores.array()), found.give());
  }
  nb::object add(nb::handle keys_given, nb::handle values, nb::handle on_full) {
    if (sum_ == nullptr) {
      nb::object name = nb::str(value_dtype_);
      throw nb::type_error(
          ("add: values of dtype " + nb::cast<std::string>(name) + " cannot be added").c_str());
    }
    return write(TableOp::add, keys_given, values, parse_on_full(on_full));
  }
  void set_item(nb::handle keys_given, nb::handle values) {
    write(TableOp::put, keys_given, values, OnFull::raise);
  }

  nb::object erase(nb::handle keys_given) {
    const Keys keys = keys_of(keys_given);
    Mask found(keys.shape());
    erase_all(keys, found.data());
    return found.give();
  }
  void delete_item(nb::handle keys_given) {
    const Keys keys = keys_of(keys_given);
    Mask found(keys.shape());
    if (erase_all(keys, found.data()) != keys.count()) raise_first_missing(keys, found.data());
  }

  nb::object put_if_absent(nb::handle keys_given, nb::handle values, nb::handle on_full) {
    const OnFull wanted = parse_on_full(on_full);
    const Keys keys = keys_of(keys_given);
    const Values rows = values_of(keys, values, "values");
    Mask stored(keys.shape());
    RowRequests requests = columns(TableOp::put_if_absent, keys, rows);
    requests.found = stored.data();
    run_or_raise(requests, keys, wanted);
    const nb::object refused = refused_of(keys, stored.data(), wanted);
    for (size_t i = 0; i < keys.count(); ++i) stored.data()[i] = stored.data()[i] == 0;
    if (refused.is_none()) return stored.give();
    return nb::make_tuple(stored.give(), refused);
  }

  // Puts keys that are missing, with any value, and gives these back, each once.
  nb::object put_new(nb::handle keys_given) {
    if (row_bytes_ != sizeof(uint64_t)) throw nb::type_error("values have 8 bytes here");
    const Keys keys = keys_of(keys_given);
    Shape shape;
    shape.dims = 1;
    shape.sizes[0] = static_cast<npy_intp>(keys.count());
    Py_INCREF(key_dtype_.ptr());  // which PyArray_Empty takes
    nb::object made = checked(PyArray_Empty(1, shape.sizes.data(), as_dtype(key_dtype_), 0));
    BackendResult result;
    in_slices(keys.count(), [&](size_t from, size_t count) {
      auto* const to = static_cast<uint64_t*>(PyArray_DATA(as_array(made))) + result.found;
      const BackendResult its = backend_->put_new(keys.data() + from, count, to);
      result.found += its.found;
      result.refused += its.refused;
    });
    if (result.refused != 0) {
      arrays_function("raise_full")(result.refused, keys.count(), memory());
    }
    shape.sizes[0] = static_cast<npy_intp>(result.found);
    PyArray_Dims sizes{shape.sizes.data(), 1};
    checked(PyArray_Resize(as_array(made), &sizes, 0, NPY_CORDER));
    return made;
  }

  // The rows before are asked for in the array that is given back, over the initial ones.
  nb::object get_or_put(nb::handle keys_given, nb::handle initial, nb::handle on_full) {
    const OnFull wanted = parse_on_full(on_full);
    const Keys keys = keys_of(keys_given);
    const Values rows = values_of(keys, initial, "initial");
    const Values values = values_to_fill(keys, nb::none());
    Mask found(keys.shape());
    RowRequests requests = columns(TableOp::put_if_absent, keys, rows);
    requests.found = found.data();
    requests.rows_out = values.data();
    const size_t bytes = keys.count() * row_bytes_;
    if (bytes != 0) std::memcpy(values.data(), rows.data(), bytes);
    run_or_raise(requests, keys, wanted);
    const nb::object refused = refused_of(keys, found.data(), wanted);
    if (refused.is_none()) return nb::make_tuple(returned(values.array()), found.give());
    for (size_t i = 0; i < keys.count(); ++i) found.data()[i] = found.data()[i] == 1;
    return nb::make_tuple(returned(values.array()), found.give(), refused);
  }

  nb::object compare_and_swap(nb::handle keys_given, nb::handle expected, nb::handle desired) {
    const Keys keys = keys_of(keys_given);
    const Values old_rows = values_of(keys, expected, "expected");
    const Values new_rows = values_of(keys, desired, "desired");
    const Values before = values_to_fill(keys, nb::none());
    Mask swapped(keys.shape());
    RowRequests requests = columns(TableOp::compare_and_swap, keys, new_rows);
    requests.expected = old_rows.data();
    requests.rows_out = before.data();
    requests.found = swapped.data();
    run_or_raise(requests, keys, OnFull::raise);
    for (size_t i = 0; i < keys.count(); ++i) {
      const auto at = [&](const Values& rows) {
        return static_cast<const char*>(rows.data()) + i * row_bytes_;
      };
      swapped.data()[i] =
          swapped.data()[i] == 1 && std::memcmp(at(before), at(old_rows), row_bytes_) == 0;
    }
    return swapped.give();
  }

  // (cursor to go on from, keys, values)
  nb::object scan(uint64_t cursor, uint64_t count) {
    std::vector<uint64_t> keys;
    std::vector<char> rows;
    {
      const GilReleased released(GilReleased::worth_bytes);
      cursor = backend_.to_read().scan(cursor, count, [&](uint64_t key, const void* row) {
        keys.push_back(key);
        const auto* const from = static_cast<const char*>(row);
        rows.insert(rows.end(), from, from + row_bytes_);
      });
    }
    Shape shape;
    shape.dims = 1;
    shape.sizes[0] = static_cast<npy_intp>(keys.size());
    const Values keys_out = Values::of_zeros(key_dtype_, shape);
    const Values values_out = Values::of_zeros(value_dtype_, shape.with(row_));
    if (!keys.empty()) {
      std::memcpy(keys_out.data(), keys.data(), keys.size() * sizeof(uint64_t));
      std::memcpy(values_out.data(), rows.data(), rows.size());
    }
    return nb::make_tuple(cursor, keys_out.array(), values_out.array());
  }

  // A call on arrays in the memory of GPU `place` of the list, by the addresses of keys, rows,
  // expected rows, rows to fill, the mask, that of refused rows, and scores; 0 is none. The
  // caller has checked them.
  void run_on_gpu(std::string_view verb, uint32_t place, GpuStream stream, uint64_t count,
                  const std::array<uintptr_t, 7>& columns, bool raise) {
    GpuTable* const table = backend_->gpu();
    if (table == nullptr) throw nb::type_error("the table lies on the CPU");
    const auto [op, mask] = verb_on_gpu(verb);
    GpuCall call;
    call.place = place;
    call.stream = stream;
    call.mask = mask;
    call.count_refused = raise;
    call.requests.op = op;
    call.requests.keys = {reinterpret_cast<const uint64_t*>(columns[0]), count};
    call.requests.rows = reinterpret_cast<const void*>(columns[1]);
    call.requests.expected = reinterpret_cast<const void*>(columns[2]);
    call.requests.rows_out = reinterpret_cast<void*>(columns[3]);
    call.requests.found = reinterpret_cast<uint8_t*>(columns[4]);
    call.refused = reinterpret_cast<uint8_t*>(columns[5]);
    call.requests.scores = reinterpret_cast<uint64_t*>(columns[6]);
    uint64_t refused = 0;
    {
      const GilReleased released(GilReleased::worth_bytes);
      refused = table->run(call);
    }
    if (refused != 0) arrays_function("raise_full")(refused, count, memory());
  }
  // Whether rows are added by the GPU itself.
  bool adds_on_gpu() const { return adds_on_gpu_; }
  // Whether a GPU takes values of 8 bytes as they are.
  bool are_words() const { return row_bytes_ == sizeof(uint64_t) && evict_by_ == RowScores::none; }
  void require_scores() const {
    if (evict_by_ == RowScores::given) return;
    throw nb::type_error("scores: the table was not made with evict='given'");
  }
  nb::object gpu_stats() const {
    gpu::TableStats stats;
    {
      const GilReleased released(GilReleased::worth_bytes);
      stats = backend_->gpu()->stats();
    }
    nb::dict named;
    named["gpu_bytes"] = stats.bytes;
    named["gpu_workspace_bytes"] = stats.workspace;
    named["host_bytes"] = stats.host_bytes;
    named["host_entries"] = stats.host_entries;
    named["host_requests"] = stats.host_requests;
    return named;
  }

 private:
  static std::pair<TableOp, GpuMask> verb_on_gpu(std::string_view name) {
    if (name == "get") return {TableOp::get, GpuMask::found};
    if (name == "put") return {TableOp::put, GpuMask::stored};
    if (name == "add") return {TableOp::add, GpuMask::stored};
    if (name == "erase") return {TableOp::erase, GpuMask::found};
    if (name == "put_if_absent") return {TableOp::put_if_absent, GpuMask::absent};
    if (name == "get_or_put") return {TableOp::put_if_absent, GpuMask::found};
    if (name == "compare_and_swap") return {TableOp::compare_and_swap, GpuMask::swapped};
    throw nb::value_error("no verb of that name");
  }
  // Calls on a GPU may wait for others.
  size_t least_work() const {
    return backend_.to_read().gpu() != nullptr ? GilReleased::worth_bytes : 0;
  }

  Keys keys_of(nb::handle given) const { return Keys(given, key_dtype_, signed_); }
  Values values_of(const Keys& keys, nb::handle given, const char* name) const {
    return Values::of(given, value_dtype_, keys.shape().with(row_), name);
  }
  // Rows are filled while keys are still read, so no key may lie among them.
  Values values_to_fill(const Keys& keys, nb::handle out) const {
    const Shape shape = keys.shape().with(row_);
    if (out.is_none()) return Values::of_zeros(value_dtype_, shape);
    Values rows = Values::to_fill(out, value_dtype_, shape);
    const auto from = reinterpret_cast<uintptr_t>(rows.data());
    const auto key = reinterpret_cast<uintptr_t>(keys.data());
    if (key < from + keys.count() * row_bytes_ && from < key + keys.count() * sizeof(uint64_t)) {
      throw nb::value_error("out: the array overlaps the keys");
    }
    return rows;
  }
  RowRequests columns(TableOp op, const Keys& keys, const Values& rows) const {
    RowRequests requests;
    requests.op = op;
    requests.keys = {keys.data(), keys.count()};
    requests.rows = rows.data();
    requests.sum = sum_;
    return requests;
  }
  // Calls `run_slice(from, rows)` for all rows in order; on a GPU, which is faster, at once.
  template <class RunSlice>
  void in_slices(size_t count, const RunSlice& run_slice) {
    constexpr size_t most_rows = 1 << 18;
    const size_t most = backend_.to_read().gpu() == nullptr ? most_rows : count;
    for (size_t from = 0; from < count; from += most) {
      if (from != 0) look_for_signals();
      const size_t rows = std::min(most, count - from);
      const GilReleased released(std::max(rows * (64 + row_bytes_), least_work()));
      run_slice(from, rows);
    }
  }

  uint64_t find(const Keys& keys, void* rows, uint8_t* found) {
    uint64_t all = 0;
    in_slices(keys.count(), [&](size_t from, size_t count) {
      all += backend_.to_read().get(keys.data() + from, count, row_at(rows, from, row_bytes_),
                                    found + from);
    });
    return all;
  }

  uint64_t erase_all(const Keys& keys, uint8_t* found) {
    RowRequests requests;
    requests.op = TableOp::erase;
    requests.keys = {keys.data(), keys.count()};
    requests.found = found;
    return run_or_raise(requests, keys, OnFull::raise).found;
  }

  BackendResult run_or_raise(const RowRequests& requests, const Keys& keys, OnFull on_full) {
    BackendResult result;
    in_slices(keys.count(), [&](size_t from, size_t count) {
      const BackendResult its = backend_->run(slice(requests, from, count, row_bytes_));
      result.found += its.found;
      result.refused += its.refused;
    });
    if (result.refused != 0 && on_full == OnFull::raise) {
      arrays_function("raise_full")(result.refused, keys.count(), memory());
    }
    return result;
  }

  // A mask of the rows that found no room, where that is wanted; else none.
  static nb::object refused_of(const Keys& keys, const uint8_t* replies, OnFull on_full) {
    if (on_full == OnFull::raise) return nb::none();
    Mask refused(keys.shape());
    for (size_t i = 0; i < keys.count(); ++i) refused.data()[i] = replies[i] == reply_retry;
    return refused.give();
  }

  static nb::object score_dtype() {
    return checked(reinterpret_cast<PyObject*>(PyArray_DescrFromType(NPY_UINT64)));
  }
  nb::object write(TableOp op, nb::handle keys_given, nb::handle values, OnFull on_full,
                   nb::handle scores_given = nb::none()) {
    const Keys keys = keys_of(keys_given);
    const Values rows = values_of(keys, values, "values");
    RowRequests requests = columns(op, keys, rows);
    nb::object scores;
    if (!scores_given.is_none()) {
      require_scores();
      const Values its = Values::of(scores_given, score_dtype(), keys.shape(), "scores");
      scores = its.array();
      requests.scores = static_cast<uint64_t*>(its.data());
    }
    if (on_full == OnFull::raise) {
      run_or_raise(requests, keys, on_full);
      return nb::none();
    }
    Mask stored(keys.shape());
    requests.found = stored.data();
    run_or_raise(requests, keys, on_full);
    for (size_t i = 0; i < keys.count(); ++i) stored.data()[i] = stored.data()[i] != reply_retry;
    return stored.give();
  }

  [[noreturn]] void raise_first_missing(const Keys& keys, const uint8_t* found) const {
    const size_t first = static_cast<size_t>(std::find(found, found + keys.count(), 0) - found);
    PyErr_SetObject(PyExc_KeyError, keys.at(first, signed_).ptr());
    throw nb::python_error();
  }

  nb::object key_dtype_;
  nb::object value_dtype_;
  bool signed_ = false;
  Shape row_;
  uint64_t row_bytes_ = 0;
  RowSum sum_ = nullptr;
  bool adds_on_gpu_ = false;
  RowScores evict_by_ = RowScores::none;
  OfOneProcess<Backend> backend_;
};

}  // namespace

void add_table(nb::module_& module) {
  nb::class_<Table>(module, "FixedTable", nb::is_weak_referenceable())
      .def(nb::init<nb::object, nb::object, nb::object, uint64_t, uint64_t, const std::vector<int>&,
                    uint64_t, std::string_view>(),
           nb::arg("key_dtype"), nb::arg("value_dtype"), nb::arg("row_shape"), nb::arg("memory"),
           nb::arg("expected"), nb::arg("gpus"), nb::arg("host_memory"), nb::arg("evict"))
      .def_prop_ro("key_dtype", &Table::key_dtype, nb::sig("def key_dtype(self) -> numpy.dtype"))
      .def_prop_ro("value_dtype", &Table::value_dtype,
                   nb::sig("def value_dtype(self) -> numpy.dtype"))
      .def_prop_ro("row_shape", &Table::row_shape,
                   nb::sig("def row_shape(self) -> tuple[int, ...]"))
      .def_prop_ro("memory_bytes", &Table::memory)
      .def_prop_ro("evictions", &Table::evictions)
      .def_prop_ro("row_bytes", &Table::row_bytes)
      .def("__len__", &Table::size)
      .def("__contains__", &Table::contains_one, nb::arg("key").none())
      .def("__getitem__", &Table::get_item, nb::arg("keys").none())
      .def("__setitem__", &Table::set_item, nb::arg("keys").none(), nb::arg("values").none())
      .def("__delitem__", &Table::delete_item, nb::arg("keys").none())
      .def("get", &Table::get, nb::arg("keys").none(), nb::arg("out") = nb::none(),
           nb::arg("arrow").none() = false)
      .def("contains", &Table::contains, nb::arg("keys").none())
      .def("put", &Table::put, nb::arg("keys").none(), nb::arg("values").none(),
           nb::arg("on_full").none() = "raise", nb::arg("scores") = nb::none())
      .def("scores", &Table::scores, nb::arg("keys").none())
      .def("add", &Table::add, nb::arg("keys").none(), nb::arg("values").none(),
           nb::arg("on_full").none() = "raise")
      .def("erase", &Table::erase, nb::arg("keys").none())
      .def("put_if_absent", &Table::put_if_absent, nb::arg("keys").none(), nb::arg("values").none(),
           nb::arg("on_full").none() = "raise")
      .def("get_or_put", &Table::get_or_put, nb::arg("keys").none(), nb::arg("initial").none(),
           nb::arg("on_full").none() = "raise")
      .def("compare_and_swap", &Table::compare_and_swap, nb::arg("keys").none(),
           nb::arg("expected").none(), nb::arg("desired").none())
      .def("_put_new", &Table::put_new, nb::arg("keys").none())
      .def("_scan", &Table::scan, nb::arg("cursor"), nb::arg("count"))
      .def("_run_on_gpu", &Table::run_on_gpu, nb::arg("verb"), nb::arg("place"), nb::arg("stream"),
           nb::arg("count"), nb::arg("columns"), nb::arg("raise_full"))
      .def("_adds_on_gpu", &Table::adds_on_gpu)
      .def("_are_words", &Table::are_words)
      .def("_require_scores", &Table::require_scores)
      .def("_gpu_stats", &Table::gpu_stats);
}

}  // namespace isotherm::python
