#include "net/loop/connection.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <new>
#include <span>
#include <utility>

#include "net/log.h"
#include "net/loop/loop.h"
#include "net/server_state.h"
#include "net/walk.h"

namespace isotherm::net {
namespace {

// Whether one of these rows empties databases, and is not answered. It has no key by which requests
// behind it could stay back (aside.h).
bool flush_waits(const Batch& batch, Batch::Row first, Batch::Row end) {
  const Batch::Columns& columns = batch.columns();
  for (Batch::Row row = first; row < end; ++row) {
    if (columns.op[row] == Op::flush && !batch.answered(row)) return true;
  }
  return false;
}

}  // namespace

Connection::Connection(Loop& loop, BufferPool& pool, Engine& engine, int descriptor,
                       std::unique_ptr<Protocol> protocol, std::unique_ptr<Client> client)
    : loop_(loop),
      engine_(engine),
      client_(std::move(client)),
      descriptor_(descriptor),
      protocol_(std::move(protocol)),
      input_(pool),
      output_(&pool, &engine),
      asides_(pool) {}

void Connection::on_events(uint32_t events) {
  constexpr uint32_t ends = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
  if ((events & ends) != 0) hung_up_ = true;
  if ((events & EPOLLPRI) != 0) urgent_ = true;
  if ((events & (EPOLLIN | EPOLLPRI | ends)) != 0) readable_ = true;
  if ((events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) full_ = false;
  if (in_turn) {
    if (sends_on() || goes_on()) loop_.ready(*this);
    return;
  }
  if (readable_ || !output_.empty()) loop_.ready(*this);
}

// Whether there is; else the client is disconnected.
template <class Work>
bool Connection::has_memory_for(const Work& work) {
  try {
    work();
    return true;
  } catch (const std::bad_alloc&) {
    failed_ = true;
    close();
    log(LogLevel::warning, "a client is disconnected: there is no memory for what it asks");
    return false;
  }
}

bool Connection::parse(Turn& turn) {
  bool takes_part = false;
  const Batch::Row first = turn.batch.size();
  const auto work = [&] {
    if (in_turn && !put_aside()) [[unlikely]]
      return;
    in_turn = true;
    turn_ = &turn;
    parse_in(turn);
    takes_part = true;
  };
  if (has_memory_for(work)) return takes_part;
  turn.batch.drop(first);
  turn.waiting = nullptr;
  if (turn_ == &turn) {
    in_turn = false;
    turn_ = nullptr;
  }
  return false;
}

void Connection::parse_in(Turn& turn) {
  // Of long requests more are received at a time; short ones would only leave the cache.
  constexpr Batch::Row few = 16;
  const bool fast = filled_ && end_row_ - first_row_ < few;
  waiting_ = false;
  first_row_ = end_row_ = turn.batch.size();
  if (client_->killed.load(std::memory_order_relaxed)) [[unlikely]]
    close();
  if (!takes_input()) return;
  if (!parse_on_) {
    if (!readable_ || !receive(turn, fast)) return;
    turn.received();
  }
  if (!asides_.empty()) turn.waiting = &asides_.waiting_keys();
  const std::string_view input = input_.unread();
  client_->input_bytes.store(input.size(), std::memory_order_relaxed);
  client_->input_room.store(input_.room().size(), std::memory_order_relaxed);
  input_.consume(protocol_->parse(input, turn));
  parse_on_ = protocol_->stopped_early();
  turn.waiting = nullptr;
  end_row_ = turn.batch.size();
  count_held();  // before the next one takes memory
}

// Whether the input and the replies that wait, those of asides included, leave room for more.
bool Connection::has_room() const {
  return asides_.has_room(input_.memory(), 0) && unsent() <= output_bound;
}

// Whether its next requests may be read though it is in a turn.
bool Connection::goes_on() const {
  return waiting_ && (readable_ || parse_on_) && takes_input() &&
         asides_.has_room(input_.memory(), end_row_ - first_row_) && protocol_->may_put_aside() &&
         loop_.lets_go_on() && !flush_waits(turn_->batch, first_row_, end_row_);
}

void Connection::note_waiting(const Turn& turn) {
  if (turn_ != &turn) return;
  waiting_ = true;
  if (goes_on()) loop_.ready(*this);
}

// The answer so far of the walk that is under way; or null.
const Output* Connection::unfinished() const {
  const Walk* const walk = protocol_->walk();
  return walk != nullptr ? walk->unfinished() : nullptr;
}

size_t Connection::unsent() const {
  const Output* const walked = unfinished();
  return output_.size() + (asides_.empty() ? 0 : asides_.unsent()) +
         (walked != nullptr ? walked->size() : 0);
}

size_t Connection::memory() const {
  const Output* const walked = unfinished();
  return input_.memory() + output_.memory() + asides_.input_memory() + asides_.output_memory() +
         (walked != nullptr ? walked->memory() : 0) + protocol_bytes_;
}

bool Connection::put_aside() {
  if (!goes_on()) return false;
  Aside& aside = asides_.add(engine_);
  aside.turn = turn_;
  aside.first_row = first_row_;
  aside.end_row = end_row_;
  aside.input = input_.leave();
  aside.owed = protocol_->put_aside();
  return true;
}

bool Connection::is_answered(const Turn& turn) const {
  const Aside* const aside = turn_ == &turn ? nullptr : asides_.of(turn);
  const Batch::Row end = aside != nullptr ? aside->end_row : end_row_;
  for (Batch::Row row = aside != nullptr ? aside->first_row : first_row_; row < end; ++row) {
    if (!turn.batch.ready(row)) return false;
  }
  return true;
}

void Connection::reply(Turn& turn) {
  const size_t full = turn.full_output;
  if (!failed_ && has_memory_for([&] { reply_in(turn); })) return;
  turn.full_output = full;
  asides_.forget(turn);
}

void Connection::reply_in(Turn& turn) {
  const int64_t now_ms = turn.now_ms();
  client_->last_ms.store(now_ms, std::memory_order_relaxed);
  if (turn_ != &turn || !asides_.empty()) [[unlikely]]
    return reply_in_order(turn);
  const size_t before = output_.size();
  output_.bound(*this);
  const size_t left =
      turn.full_output == 0 ? reply_if_little(turn) : protocol_->reply(turn, output_);
  if (!open_) return output_.clear();
  if (left != 0) {
    input_.take_back(left);
    parse_on_ = true;
  }
  const size_t written = output_.size() - before;
  heavy_ = left != 0 || output_.size() >= output_bound;
  if (watch_.may_be_over(output_.size()) || output_.is_cut()) {
    check_output(turn.server.limits.output[ClientLimits::normal], now_ms);
  }
  if (heavy_ || loop_.is_crowded()) flush();
  loop_.wrote_reply(turn, written, output_.size());
}

// The same where some of its requests are aside, or were.
void Connection::reply_in_order(Turn& turn) {
  const size_t before = unsent();
  const size_t full = std::exchange(turn.full_output, std::numeric_limits<size_t>::max());
  if (turn_ != &turn) {
    Aside& aside = *asides_.of(turn);
    aside.output.bound(*this);
    protocol_->reply_aside(*aside.owed, turn, aside.output);
    asides_.answered(aside);
  } else if (!protocol_->owes()) {
    protocol_->reply(turn, output_);  // lets go of words that requests without an answer had
  } else {
    Aside* const last = asides_.last_answered();
    Output& output = last != nullptr ? last->output : asides_.add(engine_).output;
    output.bound(*this);
    protocol_->reply(turn, output);
  }
  turn.full_output = full;
  asides_.let_go(output_);
  if (!open_) return output_.clear();
  const size_t written = unsent() - before;
  heavy_ = output_.size() >= output_bound;
  check_output(turn.server.limits.output[ClientLimits::normal], turn.now_ms());
  loop_.wrote_reply(turn, written, output_.size());
}

void Connection::run_alone(Turn& turn, bool withheld) {
  withheld_ = withheld;
  turn_ = &turn;
  const Batch::Row first = turn.batch.size();
  const auto work = [&] { protocol_->run_alone(turn, output_); };
  if (open_ && !has_memory_for(work)) turn.batch.drop(first);
  alone_walks_ = open_ && protocol_->walks();
}

// Behind the turn in which it ran a command alone, or a step of one.
void Connection::end_alone(Turn& turn) {
  if (std::exchange(alone_walks_, false)) {
    has_memory_for([&] { protocol_->end_step(turn, output_); });
  }
  if (!open_) return output_.clear();
  if (watch_.may_be_over(unsent())) {
    check_output(turn.server.limits.output[ClientLimits::normal], turn.now_ms());
  }
}

// Writes the reply in a turn that has written its share already, if it is short.
size_t Connection::reply_if_little(Turn& turn) {
  constexpr size_t around_value = 16;
  size_t owed = protocol_->owed_texts() + (end_row_ - first_row_) * around_value;
  for (Batch::Row row = first_row_; row < end_row_ && owed <= little_owed; ++row) {
    owed += turn.batch.reply(row).size;
  }
  const bool little = owed <= little_owed;
  if (little) turn.full_output = output_bound;
  const size_t left = protocol_->reply(turn, output_);
  turn.full_output = 0;
  return left;
}

size_t Connection::most(size_t taken) { return loop_.most_unsent(taken, !client_->no_evict); }

void Connection::check_output(const OutputLimit& limit, int64_t now_ms) {
  if (!open_) return;
  const bool over = watch_.over(limit, unsent(), now_ms);
  if (!over && !output_.is_cut() && !asides_.any_cut()) return;
  loop_.counters()[over ? LoopCount::over_output_limit : LoopCount::evicted_clients].add();
  close();
}

// Receives what the socket has, as far as there is room, of which a fast client gets more; true
// when that was anything.
bool Connection::receive(Turn& turn, bool fast) {
  ArrivingItem* const value = protocol_->arriving(input_);
  if (!protocol_->waits_to_arrive()) [[likely]] {
    arrival_wait_.end();
  } else if (begin_rest(turn)) {
    return false;
  }
  const size_t aside = asides_.empty() ? 0 : asides_.input_memory();
  const size_t held = input_.unread().size() + aside + (value != nullptr ? value->received() : 0) +
                      client_->transaction_bytes.load(std::memory_order_relaxed);
  if (held > loop_.limits().query.load(std::memory_order_relaxed)) {
    loop_.counters()[LoopCount::over_query_limit].add();
    close();
    return false;
  }
  if (value != nullptr) [[unlikely]]
    return receive_value(*value);
  fast = fast && !loop_.is_crowded();
  if (!loop_.lets_grow(input_.growth(protocol_->wanted(), fast))) return false;
  input_.make_room(protocol_->wanted(), fast);
  const std::span<char> room = input_.room();
  const ssize_t received = ::recv(descriptor_, room.data(), room.size(), 0);
  if (!note_received(received, room.size())) return false;
  input_.commit(static_cast<size_t>(received));
  return true;
}

// Until others have sent their values, or that takes too long.
bool Connection::begin_rest(Turn& turn) {
  rests_ = arrival_wait_.goes_on(turn.now_ms(), engine_.arrivals().came);
  if (rests_) loop_.rests_some();
  return rests_;
}

// The rest of a large value, and what is behind it.
bool Connection::receive_value(ArrivingItem& value) {
  input_.make_room(0);
  // Beyond the cap in small pieces, so that eviction keeps up.
  constexpr uint64_t least_piece = 1 << 20;
  std::span<char> rest = value.room();
  rest = rest.first(std::min(rest.size(), std::max(engine_.arrivals().room, least_piece)));
  const std::span<char> behind = input_.room();
  const std::array<iovec, 2> pieces{{{rest.data(), rest.size()}, {behind.data(), behind.size()}}};
  const bool last = value.received() + rest.size() == value.bytes();
  const ssize_t received = ::readv(descriptor_, pieces.data(), last ? 2 : 1);
  if (!note_received(received, rest.size() + (last ? behind.size() : 0))) return false;
  const size_t into_value = std::min(rest.size(), static_cast<size_t>(received));
  value.commit(into_value);
  input_.commit(static_cast<size_t>(received) - into_value);
  return true;
}

// Notes what a receive into so much room tells of the socket; true when it got anything.
bool Connection::note_received(ssize_t received, size_t room) {
  if (received > 0) {
    const auto bytes = static_cast<size_t>(received);
    filled_ = bytes == room;
    readable_ = hung_up_ || urgent_ || filled_;
    loop_.counters()[LoopCount::bytes_in].add(bytes);
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
  if (withheld_) return;
  for (int i = 0; i < most_writes && open_ && !full_ && !output_.empty(); ++i) {
    if (output_.size() > output_bound && loop_.sent_its_share()) break;
    if (!write_some()) break;
  }
}

ssize_t Connection::send_pieces() {
  std::array<iovec, 64> pieces;
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = output_.iovecs(pieces);
  return ::sendmsg(descriptor_, &message, MSG_NOSIGNAL);
}

// One write; false where nothing more can be written now.
bool Connection::write_some() {
  const std::string_view whole = output_.whole();
  const ssize_t written = whole.data() != nullptr
                              ? ::send(descriptor_, whole.data(), whole.size(), MSG_NOSIGNAL)
                              : send_pieces();
  if (written >= 0) {
    loop_.sent(static_cast<size_t>(written));
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

void Connection::settle(const Turn& turn) {
  const bool had_turn = turn_ == &turn;
  if (had_turn) {
    in_turn = waiting_ = false;
    turn_ = nullptr;
  }
  has_memory_for([&] { settle_in(had_turn); });
}

void Connection::settle_in(bool had_turn) {
  if (!open_) return loop_.ended(*this);  // again: it may have been queued the first time
  if (waits()) [[unlikely]]
    return settle_behind(had_turn);
  readable_ || parse_on_ ? input_.shrink() : input_.pack();
  count_held();
  const bool is_held = held();
  if (is_held || owed_ || !output_.empty() || input_.memory() != 0) {
    tell_client(is_held);
  } else {
    client_->input_bytes.store(0, std::memory_order_relaxed);
    client_->input_room.store(0, std::memory_order_relaxed);
  }
  if (is_held && !last_words()) {
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

// Some of its requests are under way. What could not be parsed behind them can perhaps, when some
// of them have their answers.
void Connection::settle_behind(bool had_turn) {
  if (held()) loop_.holds_some();
  const bool next = parse_on_ ? !had_turn : readable_;
  const bool parses = in_turn ? goes_on() : next && takes_input();
  if (parses || (!output_.empty() && !full_)) loop_.ready(*this);
}

// What others see of the connection between its turns.
void Connection::tell_client(bool is_held) {
  constexpr auto relaxed = std::memory_order_relaxed;
  client_->input_bytes.store(input_.unread().size(), relaxed);
  client_->input_room.store(input_.room().size(), relaxed);
  owed_ = !output_.empty() || is_held;
  client_->output_bytes.store(output_.size(), relaxed);
  client_->output_pieces.store(output_.pieces(), relaxed);
  client_->output_memory.store(output_.memory(), relaxed);
  client_->held.store(is_held, relaxed);
}

void Connection::close() {
  if (!open_) return;
  close_socket();
  output_.clear();
  count_protocol(0);
  loop_.ended(*this);
}

// The protocol holds something only for a request of which the input has a part, or for EXEC.
void Connection::count_held() {
  if (input_.unread().empty() && protocol_bytes_ == 0 &&
      client_->transaction_bytes.load(std::memory_order_relaxed) == 0) {
    return;
  }
  count_protocol(protocol_->memory());
}

void Connection::count_protocol(size_t bytes) {
  if (bytes == protocol_bytes_) return;
  loop_.count_protocols(static_cast<int64_t>(bytes) - static_cast<int64_t>(protocol_bytes_));
  protocol_bytes_ = bytes;
}

void Connection::close_socket() {
  if (!std::exchange(open_, false)) return;
  // It is listed as closed before the client can know that it is.
  client_->killed = true;
  ::close(descriptor_);
}

}  // namespace isotherm::net
