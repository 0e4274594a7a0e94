#include "net/resp/transaction.h"

#include <atomic>
#include <cstring>
#include <utility>

namespace isotherm::net {
namespace {

// About what a map takes beside the key.
constexpr size_t watched_overhead = sizeof(Transaction::WatchedKeys::value_type) + 32;

}  // namespace

uint32_t Transaction::database_of(const WatchedKeys::value_type& watched) {
  uint32_t database = 0;
  std::memcpy(&database, watched.first.data(), sizeof database);
  return database;
}

Transaction::WatchedKeys::value_type* Transaction::watch(uint32_t database, std::string_view key) {
  std::string name(reinterpret_cast<const char*>(&database), sizeof database);
  name += key;
  const auto [place, fresh] = watched_.try_emplace(std::move(name));
  if (!fresh) return nullptr;
  bytes_ += place->first.capacity() + watched_overhead;
  return &*place;
}

void Transaction::add(const NumberedCommand& command, Arguments words) {
  if (failed_) return;
  size_t text_bytes = 0;
  for (const std::string_view word : words) text_bytes += word.size();
  Queued queued{command, {}, std::make_unique<char[]>(text_bytes)};
  queued.words.reserve(words.size());
  char* at = queued.text.get();
  for (const std::string_view word : words) {
    queued.words.emplace_back(at, word.copy(at, word.size()));
    at += word.size();
  }
  bytes_ += sizeof(Queued) + text_bytes + words.size() * sizeof(std::string_view);
  flags_ |= command.command->flags;
  commands_.push_back(std::move(queued));
}

void show_transaction(Session& session) {
  constexpr auto order = std::memory_order_relaxed;
  const Transaction* const transaction = session.transaction.get();
  Client& client = session.client;
  const bool open = queues(session);
  client.queued.store(open ? static_cast<int64_t>(transaction->commands().size()) : -1, order);
  client.watched.store(transaction != nullptr ? transaction->watched().size() : 0, order);
  client.transaction_bytes.store(transaction != nullptr ? transaction->bytes() : 0, order);
}

std::shared_ptr<Transaction> take_transaction(Session& session) {
  std::shared_ptr<Transaction> taken = std::move(session.transaction);
  session.transaction.reset();
  show_transaction(session);
  return taken;
}

}  // namespace isotherm::net
