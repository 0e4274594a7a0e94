#include "net/packets/item_commands.h"

#include <utility>

#include "net/memcached/parser.h"
#include "net/memcached/writer.h"
#include "net/output.h"
#include "net/udp/frame.h"

namespace isotherm::net {
namespace {

constexpr std::string_view refused_text = "SERVER_ERROR not by packets\r\n";
constexpr std::string_view too_much_text = "SERVER_ERROR too much for a datagram\r\n";
constexpr Batch::Row most_rows_at_once = 8;
constexpr uint64_t usual_value_bytes = 4096;

bool runs_on_items(const MemcachedAnswer& answer) {
  using enum MemcachedVerb;
  if (answer.runs_alone()) return false;
  return answer.verb <= gats || (answer.verb >= set && answer.verb <= touch);
}

gpu::Bytes column(const int64_t (&offsets)[2], std::string_view bytes) {
  return {offsets, bytes.data() != nullptr ? bytes.data() : ""};
}

}  // namespace

void ItemCommands::run(std::span<PacketAsk> asks, int64_t now_ms) {
  for (PacketAsk& ask : asks) {
    run(ask.datagram.substr(UdpFrame::header_bytes), now_ms, ask.reply);
    if (!ask.reply.empty()) ask.ends = {ask.reply.size()};
  }
}

// `reply` becomes the answers of all commands. What is no whole command at the end is dropped.
void ItemCommands::run(std::string_view text, int64_t now_ms, std::string& reply) {
  MemcachedParser parser;
  Output output;
  size_t taken = 0;
  Batch::Row rows = 0;
  bool goes_on = true;
  while (goes_on) {
    Batch batch;
    std::vector<MemcachedAnswer> answers;
    MemcachedParser::Turn turn{
        .now_ms = now_ms, .rows_left = most_rows_at_once, .batch = batch, .answers = answers};
    turn.flushes = false;
    const size_t more = parser.parse(text.substr(taken), turn);
    taken += more;
    refuse(answers, batch);
    values_.clear();
    for (Batch::Row row = 0; row < batch.size(); ++row) run_row(batch, row, now_ms);
    for (const MemcachedAnswer& answer : answers) {
      write_answer(answer, batch, counters_, output);
    }
    rows += batch.size();
    goes_on = more != 0 && parser.stopped_early() && !parser.closing() && taken < text.size();
    if (output.size() > longest_reply || (goes_on && rows >= most_rows)) {
      reply = too_much_text;
      return;
    }
  }
  reply = output.text();
}

void ItemCommands::refuse(std::vector<MemcachedAnswer>& answers, Batch& batch) {
  for (MemcachedAnswer& answer : answers) {
    if (runs_on_items(answer)) continue;
    batch.cancel(answer.row, answer.row + answer.count);
    MemcachedAnswer refused;
    refused.text = answer.silent ? std::string_view() : refused_text;
    answer = refused;
  }
}

Item* ItemCommands::Copy::make(const Item::Parts& parts) {
  memory_.resize(parts.bytes() / sizeof(Pair) + 1);
  return Item::create(memory_.data(), parts);
}

void ItemCommands::run_row(Batch& batch, Batch::Row row, int64_t now_ms) {
  const Batch::Columns& columns = batch.columns();
  const Request request{columns.op[row],     columns.options[row], columns.database[row],
                        columns.flags[row],  columns.key[row],     columns.value[row],
                        columns.number[row], columns.expiry[row]};
  Reply& reply = columns.reply[row];
  // As long as others change the item, which does not go on for ever.
  for (;;) {
    Seen seen = get(request.key, now_ms);
    Copy copy;
    Item* item = nullptr;
    if (seen.found == 1) {
      Item::Parts parts;
      parts.key = request.key;
      parts.value_bytes = seen.value.size();
      parts.expiry = seen.expiry;
      parts.flags = seen.flags;
      item = copy.make(parts);
      seen.value.copy(item->value_data(), seen.value.size());
      item->set_version(seen.version);
    }
    Plan plan;
    plan_change(request, item, now_ms, gpu::max_item_value_bytes, plan);
    Status status = plan.status;
    reply.version = seen.version;
    if (plan.action != Plan::Action::keep) {
      const Seen done = change(request, plan, seen, now_ms);
      const bool as_seen = done.found == seen.found;
      if (!as_seen && done.found != reply_retry && done.found != gpu::reply_refused) continue;
      if (!as_seen) status = Status::out_of_memory;
      if (as_seen && !plan.keeps_version) reply.version = done.new_version;
    }
    reply.number = plan.number;
    reply.flags = seen.flags;
    reply.expiry = seen.expiry;
    if (status == Status::ok && (request.op == Op::get || request.op == Op::expire)) {
      reply.data = values_.emplace_back(std::move(seen.value)).data();
      reply.size = values_.back().size();
    }
    return reply.status.store(status, std::memory_order_release);
  }
}

ItemCommands::Seen ItemCommands::get(std::string_view key, int64_t now_ms) {
  const int64_t key_offsets[2] = {0, static_cast<int64_t>(key.size())};
  Seen seen;
  gpu::ItemRequests requests;
  requests.rows = 1;
  requests.keys = column(key_offsets, key);
  requests.now_ms = now_ms;
  int64_t offsets[2];
  uint64_t bytes = usual_value_bytes;
  do {
    seen.value.resize(bytes);
    requests.replies = {&seen.found, offsets, seen.value.data(), seen.value.size()};
    requests.replies.versions = &seen.version;
    requests.replies.expiry = &seen.expiry;
    requests.replies.flags = &seen.flags;
    bytes = device_.run_host(requests);
  } while (bytes > seen.value.size());
  seen.value.resize(bytes);
  return seen;
}

// What was found says whether the item was still as seen, and so whether it was changed.
ItemCommands::Seen ItemCommands::change(const Request& request, const Plan& plan, const Seen& old,
                                        int64_t now_ms) {
  const bool present = old.found == 1;
  const int64_t key_offsets[2] = {0, static_cast<int64_t>(request.key.size())};
  Seen done;
  gpu::ItemRequests requests;
  requests.rows = 1;
  requests.keys = column(key_offsets, request.key);
  requests.versions = &old.version;
  requests.now_ms = now_ms;
  requests.replies.found = &done.found;
  requests.replies.new_versions = &done.new_version;
  Copy copy;
  int64_t expiry = plan.expiry;
  uint32_t flags = old.flags;
  std::string_view value = old.value;
  if (plan.action == Plan::Action::store) {
    Item::Parts parts = plan.parts;
    parts.key = request.key;
    Item* const item = copy.make(parts);
    plan.fill(item);
    expiry = parts.expiry;
    flags = parts.flags;
    value = item->value();
  }
  const int64_t value_offsets[2] = {0, static_cast<int64_t>(value.size())};
  if (plan.action == Plan::Action::erase) {
    requests.op = TableOp::erase_if_version;
  } else {
    requests.op = present ? TableOp::put_if_version : TableOp::put_if_absent;
    requests.values = column(value_offsets, value);
    requests.expiry = &expiry;
    requests.flags = &flags;
  }
  device_.run_host(requests);
  return done;
}

}  // namespace isotherm::net
