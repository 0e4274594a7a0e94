// Shows that a loop turn allocates nothing once it is warm, by counting every operator new; it
// fails where a test says so (models/failing_memory.h).

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "items/poison.h"
#include "models/failing_memory.h"
#include "server/server.h"
#include "server/test_client.h"

namespace {

std::atomic<uint64_t> allocations{0};

}  // namespace

// Not inlined: the compiler would take the pair of a `new` and a `free` for a mistake.
[[gnu::noinline]] void* operator new(size_t bytes) {
  if (void* memory = operator new(bytes, std::nothrow)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (isotherm::FailingMemory::fails()) return nullptr;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
void* operator new[](size_t bytes) { return operator new(bytes); }
void* operator new[](size_t bytes, const std::nothrow_t& nothrow) noexcept {
  return operator new(bytes, nothrow);
}
void operator delete[](void* memory) noexcept { operator delete(memory); }
void operator delete(void* memory, size_t) noexcept { operator delete(memory); }
void operator delete[](void* memory, size_t) noexcept { operator delete(memory); }

namespace isotherm::allocation_test {
namespace {

// One round: each client sends a pipeline of all the hot commands and reads its answers, by means
// that allocate nothing themselves.
class Rounds {
 public:
  explicit Rounds(Server& server) {
    for (int i = 0; i < 20; ++i)
      clients_.push_back(std::make_unique<TestClient>(server.resp_port()));
    for (int i = 0; i < 10; ++i) {
      request_ += resp({"SET", "key", "0123456789"}) + resp({"GET", "key"}) +
                  resp({"SET", "n", "5", "EX", "100"}) + resp({"INCR", "n"}) + resp({"TTL", "n"}) +
                  resp({"MGET", "key", "none"}) + resp({"DEL", "n"}) + resp({"PING"});
      expected_ +=
          "+OK\r\n$10\r\n0123456789\r\n+OK\r\n:6\r\n:100\r\n*2\r\n$10\r\n0123456789\r\n$-1\r\n"
          ":1\r\n+PONG\r\n";
    }
    buffer_.resize(expected_.size());
  }

  bool run(int rounds) {
    for (int i = 0; i < rounds; ++i) {
      for (auto& client : clients_) {
        if (!client->send(request_)) return false;
      }
      for (auto& client : clients_) {
        if (client->receive_into(buffer_.data(), buffer_.size()) != buffer_.size()) return false;
        if (buffer_ != expected_) return false;
      }
    }
    return true;
  }

 private:
  std::vector<std::unique_ptr<TestClient>> clients_;
  std::string request_, expected_, buffer_;
};

TEST(AllocationTest, WarmTurnsAllocateNothing) {
  const ManualClock clock(1'700'000'000'000);
  net::ServerOptions options;
  options.port = 0;
  options.memcached_port = -1;
  options.threads = 1;
  Server server(options, clock);
  server.start();
  Rounds rounds(server);
  constexpr int count = poison::sanitized ? 40 : 100;
  ASSERT_TRUE(rounds.run(count));
  const uint64_t requests = 20 * 80 * count;
  const uint64_t before = allocations.load();
  ASSERT_TRUE(rounds.run(count));
  // What remains belongs to the store's background work and the loop's timer, not to requests: more
  // of it where a sanitizer makes the rounds long.
  const uint64_t made = allocations.load() - before;
  EXPECT_LT(made, requests / (poison::sanitized ? 200 : 1000));
}

}  // namespace
}  // namespace isotherm::allocation_test
