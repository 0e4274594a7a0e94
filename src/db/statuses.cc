#include "db/statuses.h"

#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include "base/reason_of.h"
#include "db/write_plan.h"

namespace isotherm {
namespace {

// So short that a string, and a copy of it, take no memory for it: neither does a get that finds
// nothing.
constexpr const char* no_memory = "no memory left";
constexpr const char* no_key = "no such key";

}  // namespace

std::string_view to_string(DbStatus::Code code) {
  switch (code) {
    case DbStatus::Code::ok:
      return "ok";
    case DbStatus::Code::not_found:
      return "not found";
    case DbStatus::Code::busy:
      return "busy";
    case DbStatus::Code::timed_out:
      return "timed out";
    case DbStatus::Code::deadlock:
      return "deadlock";
    case DbStatus::Code::invalid:
      return "invalid";
    case DbStatus::Code::merge_failed:
      return "merge failed";
    case DbStatus::Code::out_of_memory:
      return "out of memory";
    case DbStatus::Code::not_saved:
      return "not saved";
    case DbStatus::Code::corrupt:
      return "corrupt";
    case DbStatus::Code::failed:
      break;
  }
  return "failed";
}

DbStatus status_of(Status status) {
  using enum DbStatus::Code;
  switch (status) {
    case Status::ok:
      return {};
    case Status::not_found:
      return {not_found, no_key};
    case Status::too_large:
      return {invalid, "the key or the value is longer than " +
                           std::to_string(WritePlan::most_value) +
                           " bytes, the most that a Db takes"};
    case Status::out_of_memory:
    case Status::retry:
      return {out_of_memory, no_memory};
    case Status::not_saved:
      return {not_saved, "the disk fails"};
    case Status::pending:
      return {invalid, "it was not run"};
    default:
      return {corrupt, "unexpected: " + std::string(to_string(status))};
  }
}

namespace {

DbStatus told_of_exception() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return {DbStatus::Code::out_of_memory, no_memory};
  } catch (const std::invalid_argument& error) {
    return {DbStatus::Code::invalid, error.what()};
  } catch (const std::exception& error) {
    return {DbStatus::Code::failed, reason_of(error)};
  } catch (...) {
    return {DbStatus::Code::failed, "something that is no exception was thrown"};
  }
}

}  // namespace

DbStatus status_of_exception() {
  try {
    return told_of_exception();
  } catch (const std::bad_alloc&) {
    return {DbStatus::Code::out_of_memory, no_memory};
  }
}

}  // namespace isotherm
