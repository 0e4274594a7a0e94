// Visitor: a borrowed function that sweeps call with the locations they find.
//
// It returns true to go on and false when the caller has enough. It is two pointers and owns
// nothing, so it may be passed to compiled code without allocation; the function must outlive the
// call it is passed to.
#pragma once

#include <memory>
#include <type_traits>

#include "items/location.h"

namespace isotherm {

class Visitor {
 public:
  template <class Function>
  requires(!std::is_same_v<std::remove_cvref_t<Function>, Visitor>)
      Visitor(Function&& function)  // implicit: a lambda is passed where a visitor is expected
      : function_(const_cast<void*>(static_cast<const void*>(std::addressof(function)))),
        call_([](void* called, Location location) -> bool {
          return (*static_cast<std::remove_reference_t<Function>*>(called))(location);
        }) {}

  bool operator()(Location location) const { return call_(function_, location); }

 private:
  void* function_;
  bool (*call_)(void*, Location);
};

}  // namespace isotherm
