// What isotherm/feast.py answers whole entity sets with: features of many rows as the columns of
// Feast's GetOnlineFeaturesResponse, in Protobuf's wire format.
//
// A row is a byte string: the time as 8 bytes, in microseconds, and then a RepeatedValue, each
// entry of which (tag, length, value) is also one of FeatureVector.values. So values are copied and
// never parsed here.
#include <nanobind/stl/vector.h>

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "arrays.h"
#include "module.h"

namespace isotherm::python {
namespace {

// Tags of GetOnlineFeaturesResponse, of FeatureVector and of Timestamp.
constexpr char results_tag = 0x12;
constexpr char values_tag = 0x0a;
constexpr char statuses_tag = 0x12;
constexpr char times_tag = 0x1a;
constexpr char seconds_tag = 0x08;
constexpr char nanos_tag = 0x10;
// FieldStatus.
constexpr char present = 1;
constexpr char not_found = 3;

void append_varint(std::string& to, uint64_t number) {
  for (; number >= 0x80; number >>= 7) to.push_back(static_cast<char>(number | 0x80));
  to.push_back(static_cast<char>(number));
}
void append_field(std::string& to, char tag, std::string_view bytes) {
  to.push_back(tag);
  append_varint(to, bytes.size());
  to.append(bytes);
}

[[noreturn]] void refuse_row() { throw nb::value_error("a row of features is damaged"); }

// The entry at the beginning of `rest`, which is taken from it.
std::string_view take_entry(std::string_view& rest) {
  uint64_t length = 0;
  size_t at = 1;
  for (int shift = 0;; shift += 7) {
    if (at >= rest.size() || shift > 28) refuse_row();
    const auto byte = static_cast<uint8_t>(rest[at++]);
    length |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  if (rest[0] != values_tag || length > rest.size() - at) refuse_row();
  const std::string_view entry = rest.substr(0, at + length);
  rest.remove_prefix(entry.size());
  return entry;
}

std::string timestamp(std::string_view row) {
  int64_t micros = 0;
  if (row.size() < sizeof micros) refuse_row();
  std::memcpy(&micros, row.data(), sizeof micros);
  int64_t seconds = micros / 1'000'000;
  int64_t rest = micros % 1'000'000;
  if (rest < 0) {
    rest += 1'000'000;
    --seconds;
  }
  std::string made;
  if (seconds != 0) {
    made.push_back(seconds_tag);
    append_varint(made, static_cast<uint64_t>(seconds));
  }
  if (rest != 0) {
    made.push_back(nanos_tag);
    append_varint(made, static_cast<uint64_t>(rest) * 1000);
  }
  return made;
}

// Those features of a row that stand at `positions`, in the order of these.
class FeatureRows {
 public:
  FeatureRows(nb::list rows, const std::vector<int64_t>& positions) : width_(positions.size()) {
    std::vector<std::vector<size_t>> columns_at;
    for (size_t column = 0; column < width_; ++column) {
      if (positions[column] < 0) continue;
      const auto position = static_cast<size_t>(positions[column]);
      if (position >= columns_at.size()) columns_at.resize(position + 1);
      columns_at[position].push_back(column);
    }
    values_.resize(nb::len(rows) * width_);
    for (const nb::handle row : rows) {
      times_.emplace_back();
      if (row.is_none()) continue;
      char* data = nullptr;
      Py_ssize_t size = 0;
      if (PyBytes_AsStringAndSize(row.ptr(), &data, &size) != 0) throw nb::python_error();
      std::string_view rest(data, static_cast<size_t>(size));
      times_.back() = timestamp(rest);
      rest.remove_prefix(sizeof(int64_t));
      for (size_t at = 0; at < columns_at.size() && !rest.empty(); ++at) {
        const std::string_view entry = take_entry(rest);
        for (const size_t column : columns_at[at]) {
          values_[(times_.size() - 1) * width_ + column] = entry;
        }
      }
    }
  }

  size_t size() const { return times_.size(); }
  std::string_view time(size_t row) const { return times_[row]; }
  // Empty where there is none.
  std::string_view value(size_t row, size_t column) const { return values_[row * width_ + column]; }

 private:
  size_t width_;
  std::vector<std::string_view> values_;
  std::vector<std::string> times_;
};

// (the results of a response, how many values are there). `places` says of each row of the answer
// which of `rows`, a list of bytes or None, it shows.
nb::object feature_columns(nb::list rows, const std::vector<size_t>& places,
                           const std::vector<int64_t>& positions) {
  const FeatureRows features(rows, positions);
  std::string times;
  for (const size_t row : places) {
    if (row >= features.size()) throw nb::index_error("there is no such row");
    append_field(times, times_tag, features.time(row));
  }
  std::string all;
  std::string values;
  std::string statuses;
  uint64_t count = 0;
  for (size_t column = 0; column < positions.size(); ++column) {
    values.clear();
    statuses.clear();
    for (const size_t row : places) {
      const std::string_view value = features.value(row, column);
      statuses.push_back(value.empty() ? not_found : present);
      count += value.empty() ? 0 : 1;
      if (value.empty()) {
        append_field(values, values_tag, {});
      } else {
        values.append(value);
      }
    }
    if (!statuses.empty()) {
      std::string field;
      append_field(field, statuses_tag, statuses);
      values.append(field);
    }
    all.push_back(results_tag);
    append_varint(all, values.size() + times.size());
    all.append(values).append(times);
  }
  return nb::make_tuple(
      checked(PyBytes_FromStringAndSize(all.data(), static_cast<Py_ssize_t>(all.size()))), count);
}

}  // namespace

void add_feature_columns(nb::module_& module) {
  module.def("_feature_columns", &feature_columns, nb::arg("rows"), nb::arg("places"),
             nb::arg("positions"));
}

}  // namespace isotherm::python
