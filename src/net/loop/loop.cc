#include "net/loop/loop.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "base/lasting_thread.h"
#include "base/wait_for_memory.h"
#include "net/memcached/protocol.h"
#include "net/socket_address.h"

namespace isotherm::net {

Loop::Loop(ServerState& server, LoopCounters& counters) : server_(server), counters_(counters) {}

Loop::~Loop() {
  stop();
  join();
}

void Loop::prepare() {
  under_way_.reserve(Worker::most_under_way);
  worker_ = std::make_unique<Worker>(server_.engine, false);
  worker_->wake_by([this] { events_.wake(); });
}

void Loop::start() {
  thread_ = lasting_thread([this] { run(); });
}

void Loop::stop() {
  post([this] { stopping_ = true; });
}

void Loop::join() {
  if (thread_.joinable()) thread_.join();
}

void Loop::adopt(int descriptor, Speaks speaks) {
  post([this, descriptor, speaks] { welcome(descriptor, speaks); });
}

SocketAddress Loop::serve_datagrams(const SocketAddress& address) {
  udp_ports_.push_back(std::make_unique<UdpPort>(server_, counters_, pool_, address));
  UdpPort& port = *udp_ports_.back();
  if (!events_.add_client(port.descriptor(), port)) {
    throw std::system_error(errno, std::system_category(), "epoll_ctl");
  }
  return port.address();
}

bool Loop::has_datagrams() const {
  return std::any_of(udp_ports_.begin(), udp_ports_.end(),
                     [](const auto& port) { return port->ready(); });
}

void Loop::run() {
  bool more = false;
  const auto step = [&] {
    wait(std::exchange(more, true));
    turn();
    if ((!has_requests() || !may_begin()) && worker_->linger()) turn();
    more = worker_->maintain(now_ms_) || (has_next() && may_begin()) || !worker_->rest();
    if (server_.resident.is_due(now_ms_)) bound_resident();
    watch_all_clients();
  };
  while (!stopping_) wait_for_memory(step);
  wait_for_memory([this] { close_all(); });
  worker_.reset();
}

void Loop::wait(bool work_is_left) {
  sent_bytes_ = 0;
  const SocketEvents::Seen seen = events_.wait(!work_is_left);
  if (seen.woken) posted_.run();
  if (!seen.tick) return;
  at_tick_.run();
  look_after();
}

// Does the work that is due now and then, whether requests come or not.
void Loop::look_after() {
  flush_if_due();
  worker_->nudge();
  pool_.trim();
  trim_turns();
  report_memory();
  bound_memory();
  check_outputs();
  if (holds_some_) release_if_over();
  release_resting();
  close_idle();
  if (server_.threads.front() == this) server_.sample_rates();
}

// What a client of memcached asked for some time ago. Requests run it by themselves when it is due;
// a loop, for which they do not wait, only where there has been none for a while.
void Loop::flush_if_due() {
  constexpr int64_t patience_ms = 2000;
  const int64_t while_ago_ms = server_.clock.now_ms() - patience_ms;
  if (!server_.memcached.flush.due(while_ago_ms) || !may_begin()) return;
  LoopTurn& turn = spare_turn();
  turn.began_us = turn.turn.now_us();
  turn.copied_before = LoopTurn::copies_nothing;
  add_flush(turn, while_ago_ms);
  // Another loop was faster, or it has to wait.
  if (turn.batch.empty()) return spare_turns_.push_back(&turn);
  start_batch(turn);
}

// Requests that come while it is under way are later than the flush.
void Loop::add_flush(LoopTurn& turn, int64_t now_ms) {
  try {
    add_due_flush(server_, turn.batch, now_ms);
  } catch (const std::bad_alloc&) {
    turn.batch.drop(0);  // it stays due
  }
  if (!turn.batch.empty()) flushing_ = &turn;
}

void Loop::turn() {
  if (!is_idle()) look_at_turns();
  if (has_requests() && may_begin()) {
    begin_turn();
  } else {
    now_ms_ = server_.clock.now_ms();
  }
  if (!alone_.empty() && may_begin()) run_those_alone();
  if (being_written_ != 0) note_being_written(0);
  make_room_for_inputs();
  if (rests_some_) [[unlikely]]
    release_resting_if_room();
  if (!ended_.empty()) delete_ended();
}

// Otherwise whoever makes it possible wakes the loop.
bool Loop::may_begin() const {
  return refused_ == nullptr && flushing_ == nullptr && under_way_.size() < Worker::most_under_way;
}

LoopTurn& Loop::spare_turn() {
  if (spare_turns_.empty()) {
    spare_turns_.reserve(turns_.size() + 1);
    turns_.push_back(std::make_unique<LoopTurn>(*worker_, server_, counters_, copies_));
    spare_turns_.push_back(turns_.back().get());
  }
  LoopTurn& turn = *spare_turns_.back();
  turn.connections.reserve(connections_.capacity());
  spare_turns_.pop_back();
  unneeded_turns_ = std::min(unneeded_turns_, spare_turns_.size());
  turn.turn.received();
  turn.turn.full_output = output_bound;
  turn.turn.work = 0;
  return turn;
}

// Those that were not needed since the last look go, but for one: a batch may be large.
void Loop::trim_turns() {
  for (; unneeded_turns_ > 1; --unneeded_turns_) {
    const LoopTurn* const turn = spare_turns_.front();
    spare_turns_.erase(spare_turns_.begin());
    std::erase_if(turns_, [&](const auto& one) { return one.get() == turn; });
  }
  unneeded_turns_ = spare_turns_.size();
}

void Loop::begin_turn() {
  LoopTurn& turn = spare_turn();
  add_flush(turn, turn.turn.now_ms());
  parse_ready(turn);
  now_ms_ = turn.turn.now_ms();
  turn.began_us = turn.turn.now_us();
  turn.copied_before = copies_.taken() != 0 ? worker_->copied_bytes() : LoopTurn::copies_nothing;
  if (turn.batch.empty()) return end_turn(turn);
  start_batch(turn);
}

// A connection that has to wait keeps its place in the order.
void Loop::parse_ready(LoopTurn& turn) {
  Batch& batch = turn.batch;
  size_t waiting = 0;
  size_t heavy = 0;
  uint64_t with_rows = 0;
  for (Connection* connection : ready_) {
    if (batch.size() >= batch_rows_per_turn || (connection->heavy() && ++heavy > heavy_per_turn)) {
      ready_[waiting++] = connection;
      continue;
    }
    const Batch::Row before = batch.size();
    if (!connection->parse(turn.turn)) [[unlikely]] {
      connection->queued = connection->sends_on();
      if (connection->queued) ready_[waiting++] = connection;
      continue;
    }
    connection->queued = false;
    turn.connections.push_back(connection);
    if (batch.size() != before) ++with_rows;
  }
  ready_.erase(ready_.begin() + static_cast<ptrdiff_t>(waiting), ready_.end());
  for (const auto& port : udp_ports_) with_rows += port->parse(turn);
  if (!batch.empty()) counters_.record_batch(batch.size(), with_rows);
}

void Loop::start_batch(LoopTurn& turn) {
  switch (worker_->start(turn.batch, turn.turn.now_ms())) {
    case Submitted::ended:
      return end_turn(turn);
    case Submitted::under_way:
      under_way_.push_back(&turn);
      return answer_ready(turn, worker_->runs_all());
    case Submitted::retry:
      refused_ = &turn;
  }
}

void Loop::look_at_turns() {
  worker_->poll([this](Batch& batch, bool ended) {
    const auto its = std::find_if(under_way_.begin(), under_way_.end(),
                                  [&](const LoopTurn* turn) { return &turn->batch == &batch; });
    LoopTurn& turn = **its;
    if (!ended) return answer_ready(turn, true);
    under_way_.erase(its);
    end_turn(turn);
  });
  if (refused_ != nullptr && !worker_->refused()) start_batch(*std::exchange(refused_, nullptr));
}

// Answers the ready connections of a turn whose other connections have rows that wait for
// something, or that are not answered yet.
void Loop::answer_ready(LoopTurn& turn, bool others_wait) {
  if (turn.alone) return;
  std::vector<Connection*>& all = turn.connections;
  answered_.clear();
  size_t waiting = 0;
  for (Connection* connection : all) {
    if (connection->is_answered(turn.turn)) {
      answered_.push_back(connection);
    } else {
      all[waiting++] = connection;
      if (others_wait) connection->note_waiting(turn.turn);
    }
  }
  all.resize(waiting);
  if (!udp_ports_.empty()) [[unlikely]] {
    for (const auto& port : udp_ports_) port->reply(turn, false);
    send_datagrams();
  }
  if (answered_.empty()) return;
  write_replies(turn, answered_);
  for (Connection* connection : answered_) settle(*connection, turn);
}

void Loop::end_turn(LoopTurn& turn) {
  if (flushing_ == &turn) flushing_ = nullptr;
  if (turn.alone) {
    for (Connection* connection : turn.connections) connection->end_alone(turn.turn);
    if (std::exchange(turn.walks, false)) walks_under_way_ = false;
  } else {
    write_replies(turn, turn.connections);
    for (const auto& port : udp_ports_) port->reply(turn, true);
  }
  const bool huge = turn.batch.size() > batch_rows_per_turn;
  if (!turn.batch.empty() || turn.alone) turn.batch.clear();
  if (turn.copied_before != LoopTurn::copies_nothing) {
    copies_.learn(worker_->copied_bytes() - turn.copied_before);
  }
  for (Connection* connection : turn.connections) settle(*connection, turn);
  if (!udp_ports_.empty()) [[unlikely]]
    send_datagrams();
  turn.connections.clear();
  turn.alone = false;
  spare_turns_.push_back(&turn);
  if (huge) turn.batch.shrink(batch_rows_per_turn);
  report_memory();
}

// Another connection begins each time, for the last may find no room.
void Loop::write_replies(LoopTurn& turn, const std::vector<Connection*>& to) {
  reply_bytes_ = 0;
  const size_t begin = to.empty() ? 0 : ++replied_first_ % to.size();
  for (size_t i = 0; i < to.size(); ++i) {
    to[(begin + i) % to.size()]->reply(turn.turn);
    if (being_written_ != 0) [[unlikely]]
      note_being_written(0);
  }
  counters_.by_command.finish_turn(nanoseconds_since(server_.clock, turn.began_us));
}

void Loop::send_datagrams() {
  for (const auto& port : udp_ports_) {
    port->send();
    holds_some_ |= port->held();
  }
}

// A connection whose command runs alone writes after it has run.
void Loop::settle(Connection& connection, LoopTurn& turn) {
  const bool alone = connection.open() && connection.waits_alone();
  connection.let_go();
  if (!alone || !may_begin()) connection.flush();
  alone ? alone_.push_back(&connection) : connection.settle(turn.turn);
}

// In a turn of their own, unless all of them wait for the steps that are under way. One of those
// with steps of walks is under way at a time, so that the others keep theirs.
void Loop::run_those_alone() {
  LoopTurn& turn = spare_turn();
  turn.alone = true;
  turn.copied_before = LoopTurn::copies_nothing;
  const bool withheld = server_.engine.has_commit_sink();
  size_t waiting = 0;
  size_t walking = walks_under_way_ ? walks_per_turn : 0;
  for (Connection* connection : alone_) {
    if (connection->walks() && walking++ >= walks_per_turn) {
      alone_[waiting++] = connection;
      continue;
    }
    connection->run_alone(turn.turn, withheld);
    connection->flush();
    if (grows_seen(0)) report_memory();
    turn.connections.push_back(connection);
  }
  alone_.erase(alone_.begin() + static_cast<ptrdiff_t>(waiting), alone_.end());
  if (turn.connections.empty()) {
    turn.alone = false;
    return spare_turns_.push_back(&turn);
  }
  turn.walks = !turn.batch.empty();
  walks_under_way_ |= turn.walks;
  withheld || turn.walks ? start_batch(turn) : end_turn(turn);
}

void Loop::ready(Connection& connection) {
  if (std::exchange(connection.queued, true)) return;
  ready_.push_back(&connection);
}

// Batches that were started end first: they borrow from the connections. A walk may have many steps
// left, and takes none of them.
void Loop::close_all() {
  const auto end_all = [this] {
    while (!is_idle()) {
      worker_->wait();
      look_at_turns();
    }
  };
  end_all();
  for (Connection* connection : alone_) {
    if (connection->walks()) connection->close();
  }
  while (!alone_.empty()) {
    run_those_alone();
    end_all();
  }
  udp_ports_.clear();
  for (auto& connection : connections_) connection->close();
  for (Connection* connection : ready_) connection->queued = false;
  ready_.clear();
  delete_ended();
  server_.engine.add_buffer_bytes(-static_cast<int64_t>(reported_bytes_));
  reported_bytes_ = 0;
}

}  // namespace isotherm::net
