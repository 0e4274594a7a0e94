#include "db/merge_functions.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>

namespace isotherm {
namespace {

using Existing = std::optional<std::string_view>;

uint64_t u64_of(std::string_view text) {
  uint64_t number = 0;
  for (size_t i = text.size(); i-- > 0;) number = number << 8 | static_cast<uint8_t>(text[i]);
  return number;
}

bool add_u64(std::string_view /*key*/, Existing existing, std::string_view operand,
             std::string& result) {
  if (operand.size() != sizeof(uint64_t)) return false;
  if (existing && existing->size() != sizeof(uint64_t)) return false;
  uint64_t sum = u64_of(operand) + (existing ? u64_of(*existing) : 0);
  result.resize(sizeof sum);
  for (char& byte : result) {
    byte = static_cast<char>(sum);
    sum >>= 8;
  }
  return true;
}

bool append(std::string_view /*key*/, Existing existing, std::string_view operand,
            std::string& result) {
  if (existing) result.assign(*existing);
  result.append(operand);
  return true;
}

bool take_min(std::string_view /*key*/, Existing existing, std::string_view operand,
              std::string& result) {
  result.assign(existing ? std::min(*existing, operand) : operand);
  return true;
}

bool take_max(std::string_view /*key*/, Existing existing, std::string_view operand,
              std::string& result) {
  result.assign(existing ? std::max(*existing, operand) : operand);
  return true;
}

}  // namespace

MergeFunctions::MergeFunctions(const std::map<uint32_t, MergeFunction>& own) : functions_(own) {
  for (const auto& [number, function] : own) {
    if (number < merge_by::first_own || !function) {
      throw std::invalid_argument("merge functions need a function, and numbers from 16 on");
    }
  }
  functions_[merge_by::add_u64] = add_u64;
  functions_[merge_by::append] = append;
  functions_[merge_by::min] = take_min;
  functions_[merge_by::max] = take_max;
}

DbStatus MergeFunctions::apply(const WriteGroup::Row& change, DbValue& value) const {
  switch (change.kind) {
    case WriteGroup::Kind::put:
      value.there = true;
      value.text.assign(change.value);
      return {};
    case WriteGroup::Kind::erase:
      value = {};
      return {};
    case WriteGroup::Kind::merge:
      break;
  }
  const auto function = functions_.find(change.function);
  if (function == functions_.end()) {
    return {DbStatus::Code::invalid,
            "there is no merge function " + std::to_string(change.function)};
  }
  std::string result;
  const Existing existing = value.there ? Existing(value.text) : Existing();
  bool made = false;
  try {
    made = function->second(change.key, existing, change.value, result);
  } catch (const std::bad_alloc&) {
    throw;  // which is no refusal
  } catch (const std::exception& error) {
    return {DbStatus::Code::merge_failed, error.what()};
  } catch (...) {
    return {DbStatus::Code::merge_failed, "a merge function has thrown"};
  }
  if (!made) {
    return {DbStatus::Code::merge_failed,
            "merge function " + std::to_string(change.function) + " refused the value or operand"};
  }
  value.there = true;
  value.text = std::move(result);
  return {};
}

}  // namespace isotherm
