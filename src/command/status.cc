#include "isotherm/status.h"

namespace isotherm {

std::string_view to_string(Status status) {
  switch (status) {
    case Status::pending:
      return "pending";
    case Status::ok:
      return "ok";
    case Status::not_found:
      return "not found";
    case Status::condition_failed:
      return "condition failed";
    case Status::wrong_type:
      return "wrong type";
    case Status::not_an_integer:
      return "not an integer";
    case Status::overflow:
      return "overflow";
    case Status::not_a_float:
      return "not a float";
    case Status::not_finite:
      return "not finite";
    case Status::too_large:
      return "too large";
    case Status::out_of_memory:
      return "out of memory";
    case Status::retry:
      return "retry";
    case Status::not_saved:
      return "not saved";
    case Status::invalid:
      return "invalid";
  }
  return "unknown";
}

}  // namespace isotherm
