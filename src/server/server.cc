#include "server/server.h"

#include <algorithm>
#include <filesystem>
#include <future>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

#include "base/reason_of.h"
#include "net/log.h"
#include "net/packets/interface_frames.h"
#include "net/packets/udp_frames.h"
#include "server/redis_files.h"
#include "server/stored_snapshot.h"
#include "tree/tree.h"

namespace isotherm {
namespace {

// Of the engine's workers each loop has one, and so have who answers frames and who writes a
// journal anew. The one for snapshots is beside these.
constexpr uint32_t most_threads = 256;

net::ServerOptions complete(net::ServerOptions options) {
  if (options.threads == 0) options.threads = std::max(1u, std::thread::hardware_concurrency());
  if (options.threads > most_threads) throw std::invalid_argument("threads must be from 1 to 256");
  const uint32_t most =
      most_threads - (options.appendonly ? 1 : 0) - (options.has_packets() ? 1 : 0);
  if (options.threads > most) {
    throw std::invalid_argument("threads must be from 1 to " + std::to_string(most) +
                                " with a journal, or with packets");
  }
  options.store.max_value_bytes = options.proto_max_bulk_len;
  if (options.store.gpu_threads == 0) options.store.gpu_threads = std::max(2u, options.threads);
  return options;
}

bool leaves_out(const net::BindAddress& wanted, const std::error_code& why) {
  if (!wanted.is_left_out(why)) return false;
  net::log(net::LogLevel::notice,
           "bind: " + wanted.address.text() + " is left out: " + why.message());
  return true;
}

}  // namespace

Server::Server(const net::ServerOptions& options, const Clock& clock)
    : options_(complete(options)),
      engine_(options_.store, clock),
      state_(options_, clock, engine_) {
  make_loops();
}

Server::Server(const net::ServerOptions& options, const Clock& clock,
               const RootTiersMaker& make_index)
    : options_(complete(options)),
      engine_(options_.store, clock, make_index),
      state_(options_, clock, engine_) {
  make_loops();
}

Server::Server(const net::ServerOptions& options, const Clock& clock,
               const ItemTierMaker& make_items)
    : options_(complete(options)),
      engine_(options_.store, clock, make_items),
      state_(options_, clock, engine_) {
  make_loops();
}

void Server::make_loops() {
  for (uint32_t i = 0; i < options_.threads; ++i) {
    state_.loops.push_back(std::make_unique<net::LoopCounters>());
    loops_.push_back(std::make_unique<net::Loop>(state_, *state_.loops.back()));
    state_.threads.push_back(loops_.back().get());
  }
  if (options_.has_packets()) state_.loops.push_back(std::make_unique<net::LoopCounters>());
}

// A snapshot that ends wakes the loops.
Server::~Server() {
  stop();
  if (saver_ != nullptr) saver_->stop();
}

void Server::start(Files& files) {
  fill(files);
  serve();
}

void Server::fill(Files& files) {
  engine_.log_to([](const std::string& line) { net::log(net::LogLevel::warning, line); });
  for (const std::string& unread :
       {look_for_redis_files(options_), look_for_unread_journal(options_)}) {
    if (!unread.empty()) net::log(net::LogLevel::warning, unread);
  }
  if (options_.appendonly) {
    open_journal(files);
  } else {
    Tree* const tree = engine_.tree();
    if (tree != nullptr && tree->lasts()) do_without_journal(*tree);
    state_.loaded = load_snapshot(options_, engine_).loaded;
    if (tree != nullptr) tree->expect_journal(0, 0, false);
  }
  saver_ = std::make_unique<Saver>(
      engine_, state_.saves, options_.dir, options_.dbfilename, files, [this] { release_held(); },
      state_.journal);
}

void Server::serve() {
  state_.resp_port = listen(options_.port, net::Speaks::resp);
  state_.memcached_port = listen(options_.memcached_port, net::Speaks::memcached);
  listen_on_path(options_.unixsocket, options_.unixsocketperm, net::Speaks::resp);
  listen_on_path(options_.memcached_unixsocket, options_.memcached_unixsocket_mask,
                 net::Speaks::memcached);
  state_.memcached_udp_port = serve_datagrams(options_.memcached_udp_port);
  if (options_.has_packets()) serve_packets();
  for (auto& loop : loops_) loop->prepare();
  if (packets_ != nullptr) packets_->start();
  for (auto& listener : listeners_) listener->start();
  for (auto& loop : loops_) loop->start();
  running_ = true;
}

// A tree that was not closed in order may lack what is in its journal. One that nothing was ever
// taken into as a whole knows of no journal, and all that was answered may be in one.
void Server::do_without_journal(const Tree& tree) const {
  const bool is_new = tree.wants_snapshot();
  const uint64_t number = is_new ? 0 : tree.lacks_journal();
  if (number == 0 && !is_new) return;
  const JournalReader reader(options_.dir, options_.appendfilename, 1);
  const bool has_some = reader.records() != 0 || !reader.path_of_base().empty();
  if (reader.found() && (is_new ? has_some : reader.manifest().store == number)) {
    const std::string reason = is_new ? "it is new" : "it was not closed in order";
    throw TreeError("tree: " + reason + ", and the journal in " + options_.dir +
                    " may have changes that it lacks: start with --appendonly yes, or remove the "
                    "journal to go on without them");
  }
  if (is_new) return;
  net::log(net::LogLevel::warning,
           "the tree was not closed in order, and its journal is not there: what was changed "
           "last may be missing");
}

// A journal that begins does so with what the snapshot has, or with a tree that is filled from it.
void Server::open_journal(Files& files) {
  StoredJournalOptions its;
  its.folder = options_.dir;
  its.name = options_.appendfilename;
  its.policy = options_.appendfsync;
  its.readers = options_.threads;
  its.log = [](bool warns, const std::string& line) {
    net::log(warns ? net::LogLevel::warning : net::LogLevel::notice, line);
  };
  if (const Tree* tree = engine_.tree(); tree == nullptr || !tree->lasts()) {
    its.snapshot = options_.dir + "/" + options_.dbfilename;
  } else if (!std::filesystem::exists(manifest_path(options_.dir + "/" + its.name))) {
    state_.loaded = load_snapshot(options_, engine_).loaded;
  }
  journal_ = std::make_unique<StoredJournal>(its, engine_, files);
  state_.journal = &journal_->journal();
  rewriter_ = std::make_unique<JournalRewriter>(engine_, journal_->journal(), state_.live);
}

// Those who wait for a snapshot, or for the end of a pause.
void Server::release_held() {
  for (auto& loop : loops_) loop->release_held();
}

// What it lacks is in the journal, where there is one.
Tree* Server::tree_to_save() {
  Tree* const tree = engine_.tree();
  return tree != nullptr && tree->lasts() && state_.journal == nullptr ? tree : nullptr;
}

// What stands in the way of the end; empty: nothing.
std::string Server::save() {
  if (saves_at_end_ && !state_.saves.do_now()) {
    return wants_snapshot_ ? "the snapshot that SHUTDOWN SAVE asks for cannot be written"
                           : "the last snapshot, which there is for save points, cannot be written";
  }
  Tree* const tree = tree_to_save();
  if (tree == nullptr || tree->flush()) return "";
  return "the last changes cannot be written (" + tree->last_error() + ")";
}

bool Server::prepare_end() {
  const net::Shutdown::Wish wish = state_.shutdown.take();
  using Saves = net::Shutdown::Saves;
  wants_snapshot_ = wish.saves == Saves::yes;
  saves_at_end_ =
      wants_snapshot_ || (wish.saves == Saves::at_points && !state_.saves.points().empty());
  may_lose_ = wish.force || wish.saves == Saves::no;
  if (!saves_at_end_ && (may_lose_ || tree_to_save() == nullptr)) return true;
  state_.pause.hold_all(true);
  const std::string problem = save();
  if (problem.empty() || may_lose_) return true;
  state_.pause.hold_all(false);
  state_.shutdown.fail();
  release_held();
  why_it_goes_on_ = problem + ", so the server goes on: try again when it can be written, or let " +
                    "SHUTDOWN FORCE or SHUTDOWN NOSAVE end it all the same; " + what_is_lost_then();
  net::log(net::LogLevel::warning, why_it_goes_on_);
  return false;
}

std::string Server::what_is_lost_then() const {
  const int error = state_.journal != nullptr ? state_.journal->error() : 0;
  if (error != 0) {
    return "the journal cannot be written, either (" + reason_of(error) +
           "), so what it lacks is lost then";
  }
  return state_.journal != nullptr ? "nothing is lost then, since the journal has all changes"
                                   : "what was not saved is lost then";
}

bool Server::save_rest() {
  saves_at_end_ = saves_at_end_ && engine_.stats().changes != state_.saves.changes();
  std::string problem = save();
  const Journal* const journal = state_.journal;
  if (journal != nullptr && journal->error() != 0 && journal->unwritten_bytes() != 0) {
    problem = "the journal cannot be written";
  }
  if (problem.empty()) return true;
  net::log(net::LogLevel::warning,
           "the server ends though " + problem + ": what was not saved is lost");
  return may_lose_;
}

uint16_t Server::listen(int32_t port, net::Speaks speaks) {
  if (port < 0) return 0;
  auto bound = static_cast<uint16_t>(port);
  size_t there = 0;
  for (const std::string& text : options_.bind) {
    const auto wanted = net::BindAddress::parse(text, bound);
    if (!wanted)
      throw std::invalid_argument("bind: '" + text + "' is not an address; give e.g. 127.0.0.1");
    try {
      listeners_.push_back(
          std::make_unique<net::Listener>(state_, loops_, wanted->address, speaks));
    } catch (const std::system_error& error) {
      if (leaves_out(*wanted, error.code())) continue;
      listeners_.clear();
      throw std::system_error(error.code(), "cannot listen on " + wanted->address.text());
    }
    ++there;
    const net::SocketAddress address = listeners_.back()->address();
    // All addresses get the port that the kernel chose for the first.
    bound = address.port();
    listening_.push_back((speaks == net::Speaks::resp ? "resp " : "memcached ") + address.text());
  }
  if (there == 0) throw std::invalid_argument("bind: the machine has none of these addresses");
  return bound;
}

void Server::listen_on_path(const std::string& path, uint32_t mode, net::Speaks speaks) {
  if (path.empty()) return;
  try {
    listeners_.push_back(std::make_unique<net::Listener>(state_, loops_, path, mode, speaks));
  } catch (const std::system_error& error) {
    listeners_.clear();
    throw std::system_error(error.code(), "cannot listen on " + path);
  }
  listening_.push_back((speaks == net::Speaks::resp ? "resp " : "memcached ") + path);
}

// Each loop has a socket of its own for each address.
uint16_t Server::serve_datagrams(int32_t port) {
  if (port < 0) return 0;
  auto bound = static_cast<uint16_t>(port);
  for (const std::string& text : options_.bind) {
    std::string name = text;
    const net::BindAddress wanted = net::BindAddress::parse(text, bound).value();
    try {
      net::UdpPort::check_free(wanted.address);
      for (auto& loop : loops_) {
        const auto own = net::BindAddress::parse(text, bound);
        const net::SocketAddress address = loop->serve_datagrams(own.value().address);
        bound = address.port();
        name = address.text();
      }
    } catch (const std::system_error& error) {
      if (leaves_out(wanted, error.code())) continue;
      listeners_.clear();
      throw std::system_error(error.code(), "cannot take datagrams at " + name);
    }
    listening_.push_back("memcached udp " + name);
  }
  return bound;
}

void Server::serve_packets() {
  const std::string& interface = options_.memcached_packets;
  const std::string& address = options_.memcached_packets_address;
  PacketOptions packets;
  packets.port = options_.memcached_packets_port;
  const bool bounded = options_.memcached_udp_trusted != net::UdpTrust::all;
  packets.amplification = bounded ? std::max(1u, options_.memcached_udp_amplification) : 0;
  std::unique_ptr<net::FrameSource> frames;
  if (interface.empty()) {
    auto datagrams = std::make_unique<net::UdpFrames>(address, packets.port);
    packets.port = datagrams->port();
    frames = std::move(datagrams);
  } else {
    frames = net::open_interface(options_.memcached_packets_source, interface, packets.port);
  }
  Tree* const tree = engine_.tree();
  auto device = tree != nullptr ? tree->make_packets(packets) : nullptr;
  if (device == nullptr) throw std::runtime_error("memcached-packets: there are no items on a GPU");
  const std::string way = frames->way().empty() ? "" : " (" + frames->way() + ")";
  packets_ = std::make_unique<net::PacketThread>(state_, *state_.loops.back(), std::move(device),
                                                 std::move(frames));
  state_.memcached_packets_port = packets.port;
  listening_.push_back("memcached packets " + (interface.empty() ? address : interface) + ":" +
                       std::to_string(packets.port) + way);
}

void Server::stop() {
  if (!running_) return;
  running_ = false;
  engine_.hurry_writes();
  if (packets_ != nullptr) packets_->stop();
  // No listener may deal out a socket to a loop that has ended.
  std::promise<void> closed;
  loops_.front()->post([&] {
    for (auto& listener : listeners_) listener->close();
    closed.set_value();
  });
  closed.get_future().wait();
  for (auto& loop : loops_) loop->stop();
  for (auto& loop : loops_) loop->join();
  listeners_.clear();
}

}  // namespace isotherm
