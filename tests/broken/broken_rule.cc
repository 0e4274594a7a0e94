// Which rule the environment names (base/broken.h); a name that is none ends the program.
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "base/broken.h"

namespace isotherm {
namespace {

constexpr std::string_view names[] = {"none",      "swaps",     "splits",   "epochs",   "parking",
                                      "readiness", "ending",    "retry",    "groups",   "guards",
                                      "telling",   "takeover",  "draining", "taking",   "syncing",
                                      "ingesting", "checksums", "cooling",  "evicting", "newest"};

Rule named_rule() {
  const char* const wanted = std::getenv("ISOTHERM_BREAK");
  if (wanted == nullptr) return Rule::none;
  for (size_t i = 0; i < std::size(names); ++i) {
    if (names[i] == wanted) return static_cast<Rule>(i);
  }
  std::abort();
}

}  // namespace

extern const Rule the_broken_rule = named_rule();

}  // namespace isotherm
