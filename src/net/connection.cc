#include "net/connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "net/loop.h"

namespace isotherm::net {

Connection::Connection(Loop& loop, BufferPool& pool, int descriptor,
                       std::unique_ptr<Protocol> protocol, std::unique_ptr<Client> client,
                       size_t max_request_bytes)
    : loop_(loop),
      client_(std::move(client)),
      descriptor_(descriptor),
      protocol_(std::move(protocol)),
      input_(pool),
      output_(&pool),
      max_request_bytes_(max_request_bytes) {}

void Connection::on_events(uint32_t events) {
  constexpr uint32_t ends = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
  if ((events & ends) != 0) hung_up_ = true;
  if ((events & EPOLLPRI) != 0) urgent_ = true;
  if ((events & (EPOLLIN | EPOLLPRI | ends)) != 0) readable_ = true;
  if ((events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) full_ = false;
  if (readable_ || !output_.empty()) loop_.ready(*this);
}

void Connection::parse(Turn& turn) {
  if (client_->killed.load(std::memory_order_relaxed)) [[unlikely]]
    return close();
  client_->last_ms.store(turn.now_ms, std::memory_order_relaxed);
  if (!takes_input()) return;
  if (!parse_on_ && (!readable_ || !receive())) return;
  const std::string_view input = input_.unread();
  client_->input_bytes.store(input.size(), std::memory_order_relaxed);
  client_->input_room.store(input_.room().size(), std::memory_order_relaxed);
  input_.consume(protocol_->parse(input, turn));
  parse_on_ = protocol_->stopped_early();
}

// Takes what the socket has and there is room for; true when that is anything.
bool Connection::receive() {
  if (input_.unread().size() > max_request_bytes_) {
    close();
    return false;
  }
  input_.make_room(protocol_->wanted());
  const std::span<char> room = input_.room();
  const ssize_t received = ::recv(descriptor_, room.data(), room.size(), 0);
  if (received > 0) {
    const auto bytes = static_cast<size_t>(received);
    readable_ = hung_up_ || urgent_ || bytes == room.size();
    loop_.count_input(bytes);
    input_.commit(bytes);
    return true;
  }
  if (received == 0) {
    end_of_input_ = true;
  } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
    readable_ = false;
  } else if (errno != EINTR) {
    close();
  }
  return false;
}

void Connection::flush() {
  // A client that reads as fast as this writes must not keep the loop from its other clients.
  constexpr int most_writes = 16;
  for (int i = 0; i < most_writes && open_ && !full_ && !output_.empty(); ++i) {
    if (!write_some()) break;
  }
}

// One write; false where nothing more can be written now.
bool Connection::write_some() {
  std::array<iovec, 64> pieces;
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = output_.iovecs(pieces);
  const ssize_t written = message.msg_iovlen == 1 ? ::send(descriptor_, pieces[0].iov_base,
                                                           pieces[0].iov_len, MSG_NOSIGNAL)
                                                  : ::sendmsg(descriptor_, &message, MSG_NOSIGNAL);
  if (written >= 0) {
    loop_.count_output(static_cast<size_t>(written));
    output_.consume(static_cast<size_t>(written));
    return true;
  }
  if (errno == EINTR) return true;
  if (errno == EAGAIN || errno == EWOULDBLOCK) {
    full_ = true;
  } else {
    close();
  }
  return false;
}

void Connection::settle() {
  if (!open_) return loop_.ended(*this);  // again: it may have been queued the first time
  input_.shrink();
  tell_client();
  if (held() && !last_words()) {
    if (hung_up_) return close();
    loop_.holds_some();
    if (!output_.empty() && !full_) loop_.ready(*this);
    return;
  }
  if (output_.empty()) {
    if (last_words()) return close();
  } else if (!full_) {
    return loop_.ready(*this);
  }
  if (takes_input() && (parse_on_ || readable_)) loop_.ready(*this);
}

// What others see of the connection between its turns.
void Connection::tell_client() {
  constexpr auto relaxed = std::memory_order_relaxed;
  client_->input_bytes.store(input_.unread().size(), relaxed);
  client_->output_bytes.store(output_.size(), relaxed);
  client_->input_room.store(input_.room().size(), relaxed);
  client_->output_pieces.store(output_.pieces(), relaxed);
  client_->output_memory.store(output_.memory(), relaxed);
  client_->held.store(held(), relaxed);
}

void Connection::close() {
  if (!open_) return;
  close_socket();
  loop_.ended(*this);
}

void Connection::close_socket() {
  if (std::exchange(open_, false)) ::close(descriptor_);
}

}  // namespace isotherm::net
