// Client: what the server knows of one connection, for whoever looks at connections of all loops.
//
//   ClientList (one a server) ──▶ Client ◀── owns ── Connection (in its loop)
//                                   ▲──── refers ─── Session (of RESP)
//
// A connection belongs to one loop. What others may see of it is here. A loop that wants to close a
// connection of another loop marks its client `killed`. The owner looks at the mark before it
// parses anything more, so it runs no later request of a killed client, and it closes the
// connection soon.
//
// Threads. Three kinds of fields:
//   fixed        set before the client is listed
//   guarded      written by the owner under the list's mutex (`ClientList::edit`), so that the
//                owner reads them without it and others within `for_each`
//   atomic       written by the owner, read by any; a moment's values need not belong together
// A client is listed from before its first request until its connection is deleted; a reference got
// from the list is good within the call only.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace isotherm::net {

class LoopControl;
struct Command;

// Which clients a port is for.
enum class Speaks : uint8_t { resp, memcached };

struct Client {
  // Fixed.
  uint64_t id = 0;
  Speaks speaks = Speaks::resp;
  LoopControl* loop = nullptr;  // that the connection belongs to
  std::string peer_address;     // "127.0.0.1:40000"
  bool by_path = false;         // it came by a UNIX socket
  std::string local_address;    // "127.0.0.1:6379"
  int descriptor = -1;
  int64_t connected_ms = 0;

  // Guarded.
  std::string name;
  std::string library_name;
  std::string library_version;

  // Atomic.
  std::atomic<uint32_t> database{0};
  std::atomic<int> version{2};                   // of RESP
  std::atomic<const Command*> command{nullptr};  // run last; null: none yet
  std::atomic<int64_t> last_ms{0};               // when something happened on the socket
  std::atomic<size_t> input_bytes{0};            // received and not parsed
  std::atomic<size_t> input_room{0};             // free behind them
  std::atomic<size_t> output_bytes{0};           // not yet taken by the socket
  std::atomic<size_t> output_pieces{0};          // that they lie in
  std::atomic<size_t> output_memory{0};
  std::atomic<int64_t> queued{-1};           // commands since MULTI; -1: there was none
  std::atomic<size_t> watched{0};            // keys
  std::atomic<size_t> transaction_bytes{0};  // that both take
  std::atomic<bool> held{false};             // by CLIENT PAUSE
  std::atomic<bool> no_evict{false};
  std::atomic<bool> no_touch{false};
  // It is gone, or soon will be, and is not shown any more. Set by the owner when it closes the
  // connection, and by any thread that wants that, within `for_each`.
  std::atomic<bool> killed{false};
};

class ClientList {
 public:
  void add(Client& client) {
    const std::lock_guard guard(mutex_);
    clients_.emplace(client.id, &client);
  }
  void remove(const Client& client) {
    const std::lock_guard guard(mutex_);
    clients_.erase(client.id);
  }

  // Visits all clients that are not killed, in order of their ids.
  template <typename Visit>
  void for_each(Visit visit) const {
    const std::lock_guard guard(mutex_);
    for (const auto& [id, client] : clients_) {
      if (!client->killed.load(std::memory_order_relaxed)) visit(*client);
    }
  }
  // Visits the one with this id, if it is there.
  template <typename Visit>
  void with(uint64_t id, Visit visit) const {
    const std::lock_guard guard(mutex_);
    const auto found = clients_.find(id);
    if (found == clients_.end() || found->second->killed.load(std::memory_order_relaxed)) return;
    visit(*found->second);
  }
  // Lets the owner change guarded fields.
  template <typename Change>
  void edit(Change change) {
    const std::lock_guard guard(mutex_);
    change();
  }

 private:
  mutable std::mutex mutex_;
  std::map<uint64_t, Client*> clients_;
};

}  // namespace isotherm::net
