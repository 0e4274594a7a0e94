// SLOWLOG: the commands that took long (net/slow_log.h), shown and forgotten.
//
// All of them run alone, so that those before them in a pipeline are noted by then.

#include <limits>

#include "net/resp/handlers.h"
#include "net/resp/refusals.h"
#include "net/server_state.h"
#include "net/text.h"

namespace isotherm::net {
namespace {

constexpr size_t usual_count = 10;

void write_slow(const SlowCommand& slow, RespWriter& writer) {
  writer.array(6);
  writer.integer(static_cast<int64_t>(slow.id));
  writer.integer(slow.began_seconds);
  writer.integer(slow.microseconds);
  writer.array(slow.words.size());
  for (const std::string& word : slow.words) writer.bulk(word);
  writer.bulk(slow.peer_address);
  writer.bulk(slow.client_name);
}

void run_get(Alone& alone) {
  size_t count = usual_count;
  if (alone.arguments.size() > 2) {
    const auto wanted = parse_integer(alone.arguments[2]);
    if (!wanted || *wanted < -1) {
      return alone.writer.error("ERR count should be greater than or equal to -1");
    }
    count = *wanted < 0 ? std::numeric_limits<size_t>::max() : static_cast<size_t>(*wanted);
  }
  const std::vector<SlowCommand> newest = alone.turn.server.slow_log.newest(count);
  alone.writer.array(newest.size());
  for (const SlowCommand& slow : newest) write_slow(slow, alone.writer);
}

void run_len(Alone& alone) {
  alone.writer.integer(static_cast<int64_t>(alone.turn.server.slow_log.size()));
}

void run_reset(Alone& alone) {
  alone.turn.server.slow_log.clear();
  alone.writer.ok();
}

}  // namespace

namespace handlers {

void slowlog_get(Call& call) {
  if (call.size() > 3) return call.error(too_many_arguments("SLOWLOG", call[1]));
  call.run_alone(run_get);
}

void slowlog_len(Call& call) { call.run_alone(run_len); }

void slowlog_reset(Call& call) { call.run_alone(run_reset); }

}  // namespace handlers
}  // namespace isotherm::net
