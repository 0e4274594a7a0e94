#include "script_runner/host.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "fake_device/fake_item_tier.h"
#include "fake_device/fake_root_table.h"
#include "server/flags.h"
#include "server/server.h"
#include "tree/tree.h"

namespace isotherm::scripts {
namespace {

// The scripts' time begins today, so that an absolute expiry means the same as at a peer.
int64_t start_of_time_ms() { return SystemClock().now_ms(); }

// Many scripts have the same flags, which take a tenth of a script's time to parse.
const net::ServerOptions& parse(const std::vector<std::string>& arguments) {
  static std::map<std::vector<std::string>, net::ServerOptions> parsed;
  const auto found = parsed.find(arguments);
  if (found != parsed.end()) return found->second;
  std::vector<const char*> words;
  for (const std::string& argument : arguments) words.push_back(argument.c_str());
  net::ServerOptions options;
  if (parse_flags(static_cast<int>(words.size()), words.data(), options)) {
    throw std::invalid_argument("the server refuses the script's flags");
  }
  return parsed.emplace(arguments, std::move(options)).first->second;
}

net::ServerOptions parse_options(const HostOptions& host, const std::vector<std::string>& flags) {
  const bool on_gpu = host.index == Index::gpu || host.index == Index::fake_items;
  std::vector<std::string> arguments{"isotherm-server",
                                     "--port",
                                     "0",
                                     "--memcached-port",
                                     "0",
                                     "--threads",
                                     std::to_string(host.threads),
                                     "--device",
                                     on_gpu ? "cuda" : "cpu",
                                     "--memcached-udp-port",
                                     "0"};
  if (host.index == Index::fake_items) arguments.insert(arguments.end(), {"--gpu-items", "64mb"});
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  net::ServerOptions options = parse(arguments);
  if (host.bins_flap) {
    options.store.router = {.choice = RouterChoice::chance,
                            .bins = 64,
                            .memory = RouterOptions::least_memory,
                            .interval_ms = 1};
  }
  if (host.kind != IndexChoice::line) {
    options.store.index = host.kind;
    options.store.maxmemory = uint64_t{1} << 30;
    options.store.maxmemory_policy = EvictionPolicy::allkeys_lru;
    options.store.index_item_bytes = 4096;
  }
  if (host.values_away) {
    options.store.gpu_values = uint64_t{4} << 20;
    options.store.gpu_values_from = 64;
  }
  return options;
}

// A new folder where one is wanted, which goes with this object.
class JournalFolder {
 public:
  explicit JournalFolder(bool wanted) {
    if (!wanted) return;
    std::string path = std::filesystem::temp_directory_path() / "isotherm-scripts-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = path;
  }
  ~JournalFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  JournalFolder(const JournalFolder&) = delete;
  JournalFolder& operator=(const JournalFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Lets memory forget all items that a tree has, again and again, while requests run.
class Forgetting {
 public:
  explicit Forgetting(Engine& engine) : engine_(engine), thread_([this] { run(); }) {}
  ~Forgetting() {
    stops_ = true;
    thread_.join();
  }
  Forgetting(const Forgetting&) = delete;
  Forgetting& operator=(const Forgetting&) = delete;

 private:
  // As if others took nearly all of the cap.
  void run() {
    Worker worker(engine_);
    const auto most = static_cast<int64_t>(engine_.maxmemory()) - 1;
    for (uint32_t i = 0; !stops_; ++i) {
      const int64_t bytes = most - static_cast<int64_t>(engine_.stats().buffer_bytes);
      engine_.add_sink_bytes(bytes);
      worker.maintain();
      engine_.add_sink_bytes(-bytes);
      if (i % 8 == 0) engine_.tree()->flush();
      // Others have processors to do, too.
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  Engine& engine_;
  std::atomic<bool> stops_{false};
  std::thread thread_;
};

class ServerHost final : public Host {
 public:
  ServerHost(const HostOptions& host, const std::vector<std::string>& flags)
      : clock_(start_of_time_ms()), folder_(host.journal || host.tree) {
    net::ServerOptions options = parse_options(host, flags);
    if (host.tree) options.store.tree = folder_.path() + "/tree";
    if (forgets(host)) options.store.maxmemory = uint64_t{1} << 30;
    if (host.journal) {
      options.appendonly = true;
      options.dir = folder_.path();
    }
    if (host.index == Index::fake_device) {
      server_.emplace(options, clock_, fake_root_tiers_maker(device_));
    } else if (host.index == Index::fake_items) {
      server_.emplace(options, clock_, fake_item_tier_maker({&device_, &second_device_}));
    } else {
      server_.emplace(options, clock_);
    }
    server_->start();
    if (forgets(host)) forgetting_.emplace(server_->engine());
  }
  ~ServerHost() override {
    forgetting_.reset();
    server_->stop();
  }

  uint16_t resp_port() const override { return server_->resp_port(); }
  uint16_t memcached_port() const override { return server_->memcached_port(); }
  uint16_t memcached_udp_port() const override { return server_->memcached_udp_port(); }
  int64_t now_ms() const override { return clock_.now_ms(); }
  void advance(int64_t ms) override { clock_.advance(ms); }

 private:
  static constexpr uint64_t device_bytes = uint64_t{1} << 28;

  ManualClock clock_;
  const JournalFolder folder_;
  FakeDevice device_{1, device_bytes};
  FakeDevice second_device_{2, device_bytes, device_};
  std::optional<Server> server_;
  std::optional<Forgetting> forgetting_;
};

}  // namespace

bool has_trees() {
  const JournalFolder folder(true);
  try {
    open_tree_files(folder.path(), {}, 1 << 20, [] { return 0; });
  } catch (const TreeError&) {
    return false;
  }
  return true;
}

std::unique_ptr<Host> start_host(const HostOptions& options,
                                 const std::vector<std::string>& flags) {
  return std::make_unique<ServerHost>(options, flags);
}

}  // namespace isotherm::scripts
