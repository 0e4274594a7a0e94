// The options that CONFIG GET shows and CONFIG SET changes, a row each.
//
// A row says how to write the value in use and how to set a new one. CONFIG SET checks all values
// that it is given (`set` with `dry`) before it sets the first, so that it sets all or none.
//
// Threads. The table is constant; what it changes may be changed by any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace isotherm::net {

struct ServerState;

struct ConfigOption {
  std::string_view name;
  std::string (*get)(const ServerState& server);
  // Takes `text`, or only checks it; returns what is wrong with it, empty: nothing. Null: the
  // option is fixed when the server starts.
  std::string (*set)(ServerState& server, std::string_view text, bool dry);
};

// In the order in which they are shown.
std::span<const ConfigOption> config_options();
// The name in any case; null: there is none.
const ConfigOption* find_config_option(std::string_view name);

}  // namespace isotherm::net
