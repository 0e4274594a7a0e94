// OracleMerges: RocksDB's side of the merge functions that a Db has (isotherm/db.h), those that are
// built in and one of our own, so that both make the same of the same operands.
//
// Threads. Any.
#pragma once

#include <rocksdb/merge_operator.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "isotherm/db.h"

namespace isotherm {

inline constexpr uint32_t reverse_of_both = merge_by::first_own;

// A function of our own: what is there behind the operand, backwards, cut to some bytes.
inline std::string reversed(std::string_view existing, std::string_view operand) {
  constexpr size_t most = 40;
  std::string both = std::string(operand).append(existing).substr(0, most);
  return {both.rbegin(), both.rend()};
}

// Operands begin with the number of the function, and are applied one by one.
class OracleMerges final : public rocksdb::MergeOperator {
 public:
  const char* Name() const override { return "oracle"; }
  bool FullMergeV2(const MergeOperationInput& in, MergeOperationOutput* out) const override {
    bool there = in.existing_value != nullptr;
    std::string value = there ? in.existing_value->ToString() : std::string();
    for (const rocksdb::Slice& one : in.operand_list) {
      value = apply(there, value, static_cast<uint8_t>(one[0]),
                    std::string_view(one.data(), one.size()).substr(1));
      there = true;
    }
    out->new_value = std::move(value);
    return true;
  }

 private:
  static std::string apply(bool there, const std::string& value, uint32_t function,
                           std::string_view operand) {
    using namespace merge_by;
    switch (function) {
      case add_u64: {
        uint64_t sum = 0;
        uint64_t more = 0;
        if (there) std::memcpy(&sum, value.data(), sizeof sum);
        std::memcpy(&more, operand.data(), sizeof more);
        sum += more;
        return {reinterpret_cast<const char*>(&sum), sizeof sum};
      }
      case append:
        return value + std::string(operand);
      case min:
        return there && value < operand ? value : std::string(operand);
      case max:
        return there && value > operand ? value : std::string(operand);
      default:
        return reversed(value, operand);
    }
  }
};

}  // namespace isotherm
