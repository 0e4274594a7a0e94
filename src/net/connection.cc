#include "net/connection.h"

#include <array>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <span>
#include <utility>

#include "net/loop.h"

namespace isotherm::net {
namespace {

// Unwritten pieces as Asio takes them.
class Pieces {
 public:
  using value_type = asio::const_buffer;
  using const_iterator = const asio::const_buffer*;

  explicit Pieces(const Output& output) {
    std::array<iovec, most> pieces;
    count_ = output.iovecs(pieces);
    for (size_t i = 0; i < count_; ++i) {
      buffers_[i] = asio::const_buffer(pieces[i].iov_base, pieces[i].iov_len);
    }
  }

  const_iterator begin() const { return buffers_.data(); }
  const_iterator end() const { return buffers_.data() + count_; }
  bool single() const { return count_ == 1; }
  const asio::const_buffer& front() const { return buffers_[0]; }

 private:
  static constexpr size_t most = 64;

  size_t count_;
  std::array<asio::const_buffer, most> buffers_;
};

}  // namespace

Connection::Connection(Loop& loop, BufferPool& pool, Socket socket,
                       std::unique_ptr<Protocol> protocol, Speaks speaks, size_t max_request_bytes)
    : loop_(loop),
      socket_(std::move(socket)),
      protocol_(std::move(protocol)),
      input_(pool),
      output_(&pool),
      speaks_(speaks),
      max_request_bytes_(max_request_bytes) {}

void Connection::parse(Turn& turn) {
  const std::string_view input = input_.unread();
  input_.consume(protocol_->parse(input, turn));
  parse_on_ = protocol_->stopped_early();
}

void Connection::flush() {
  // A client that reads as fast as this writes must not keep the loop from its other clients.
  constexpr int most_writes = 16;
  for (int i = 0; i < most_writes && open_ && !waiting_for_room_ && !output_.empty(); ++i) {
    const Pieces pieces(output_);
    asio::error_code error;
    const size_t written = pieces.single() ? socket_.write_some(asio::buffer(pieces.front()), error)
                                           : socket_.write_some(pieces, error);
    loop_.count_output(written);
    output_.consume(written);
    if (error == asio::error::would_block || error == asio::error::try_again) break;
    if (error) close();
  }
}

void Connection::settle() {
  if (!open_) return loop_.ended(*this);  // again: it may have been queued the first time
  const bool last_words = end_of_input_ || protocol_->closing();
  if (!output_.empty()) {
    if (!waiting_for_room_) start_waiting_for_room();
    if (last_words || output_.size() > backlog_bytes) return;
  } else if (last_words) {
    return close();
  }
  if (reading_) return;
  if (parse_on_) {
    loop_.ready(*this);
  } else {
    start_read();
  }
}

void Connection::start_read() {
  if (input_.unread().size() > max_request_bytes_) return close();
  input_.make_room(protocol_->wanted());
  reading_ = true;
  ++pending_operations_;
  const std::span<char> room = input_.room();
  socket_.async_read_some(asio::buffer(room.data(), room.size()),
                          Handler(read_memory_, [this](asio::error_code error, size_t bytes) {
                            on_read(error, bytes);
                          }));
}

void Connection::on_read(const asio::error_code& error, size_t bytes) {
  reading_ = false;
  --pending_operations_;
  if (!open_) return loop_.ended(*this);
  if (error) {
    end_of_input_ = true;
    if (error != asio::error::eof) return close();
    return settle();
  }
  loop_.count_input(bytes);
  input_.commit(bytes);
  loop_.ready(*this);
}

void Connection::start_waiting_for_room() {
  waiting_for_room_ = true;
  ++pending_operations_;
  socket_.async_wait(Socket::wait_write,
                     Handler(write_memory_, [this](asio::error_code error) { on_room(error); }));
}

void Connection::on_room(const asio::error_code& error) {
  waiting_for_room_ = false;
  --pending_operations_;
  if (!open_) return loop_.ended(*this);
  if (error) return close();
  flush();
  settle();
}

void Connection::close() {
  if (!open_) return;
  open_ = false;
  asio::error_code ignored;
  socket_.close(ignored);
  loop_.ended(*this);
}

}  // namespace isotherm::net
