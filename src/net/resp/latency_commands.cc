// LATENCY: nothing is monitored here, so all answer what Redis does while its monitor is off.
//
// SLOWLOG (net/slow_log.h) tells of commands that took long.

#include <string>

#include "net/resp/handlers.h"

namespace isotherm::net::handlers {

void latency_doctor(Call& call) {
  call.answer_owned(encode_verbatim,
                    "Latency is not monitored by this server. SLOWLOG GET shows the commands that "
                    "took long, and INFO commandstats the time that each command has taken.\n");
}

void latency_graph(Call& call) {
  const std::string_view event = call[2].substr(0, call[2].find('\0'));
  call.error("ERR No samples available for event '" + std::string(event) + "'");
}

void latency_history(Call& call) { call.answer_raw("*0\r\n"); }

void latency_latest(Call& call) { call.answer_raw("*0\r\n"); }

void latency_reset(Call& call) { call.answer(encode_integer, 0, 0, 0); }

}  // namespace isotherm::net::handlers
