// Connection: one client's socket with what it has sent and not yet got answered.
//
// Commands are appended to an output buffer (`output`) and noted (`expect`), `flush` writes; `read`
// receives what is there; the caller takes replies off the front of `received` in the order of the
// commands. A slot stands for one command under way, up to the depth of the pipeline; the keys of a
// read stay in the slot, so a reply can be checked against them.
//
// Threads. One owner. Sockets do not block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isotherm_bench/codec.h"

namespace isotherm::bench {

struct Slot {
  Command command = Command::get;
  Operation operation = Operation::read;
  uint32_t key_count = 0;
  uint64_t value_size = 0;  // of the write that follows a read
  int64_t started = 0;      // when it was sent, or due
};

class Connection {
 public:
  // `depth` slots with up to `keys_per_slot` keys each.
  Connection(uint32_t depth, uint32_t keys_per_slot);
  ~Connection();
  Connection(Connection&& other) noexcept;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Connects; the error is empty when it worked.
  std::string open(const std::string& host, uint16_t port);
  int fd() const { return fd_; }

  uint32_t free_slots() const { return depth_ - pending_; }
  uint32_t pending() const { return pending_; }
  // A slot for the next command, behind all others; its keys are to be filled in.
  Slot& expect();
  std::span<uint64_t> keys_of(const Slot& slot);
  Slot& front() { return slots_[first_]; }
  void pop();

  std::string& output() { return output_; }
  // Writes what it can. False: the connection is lost.
  bool flush();
  bool wants_to_write() const { return written_ < output_.size(); }

  // Receives what is there. False: the connection is lost or closed by the server.
  bool read();
  std::string_view received() const { return {input_.data() + begin_, end_ - begin_}; }
  void consume(size_t bytes);

 private:
  int fd_ = -1;
  uint32_t depth_;
  uint32_t keys_per_slot_;
  std::vector<Slot> slots_;
  std::vector<uint64_t> keys_;
  uint32_t first_ = 0;
  uint32_t pending_ = 0;
  std::string output_;
  size_t written_ = 0;
  std::vector<char> input_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace isotherm::bench
