#include "executor/device/index_rebuild.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <optional>
#include <thread>
#include <vector>

#include "base/start_threads.h"
#include "base/tile.h"
#include "executor/commit_sink.h"
#include "executor/host/host_executor.h"
#include "executor/values/device_values.h"
#include "index/growth_share.h"
#include "index/item_table.h"

namespace isotherm {
namespace {

// What one thread does.
class Rebuilder {
 public:
  Rebuilder(HostStore& store, uint64_t version)
      : store_(store), version_(version), executor_(store), growth_(store.databases.size()) {
    waiting_.reserve(at_a_time);
  }

  void take_pages(std::atomic<uint32_t>& next) {
    const auto take = [this](Location location) {
      add(location);
      return true;
    };
    for (;;) {
      const uint32_t page = next.fetch_add(1, std::memory_order_relaxed);
      if (page >= store_.items.page_limit()) break;
      store_.items.walk_live_page(page, take);
    }
    insert_all();
  }
  void take_large() {
    store_.items.walk_live_large([this](Location location) {
      add(location);
      return true;
    });
    insert_all();
  }

 private:
  static constexpr size_t at_a_time = 32;

  struct Waiting {
    Location location;
    uint64_t hash;
    LineIndex* index;
    uint32_t database;
  };

  void add(Location location) {
    const Item& item = *store_.items.item(location);
    const uint32_t number = item.database();
    Database& database = store_.databases[number];
    if (item.away()) return give_up(item, location, database);
    LineIndex* index = database.make_index(store_.pages, store_.budget, store_.epochs);
    const uint64_t hash = store_.hash(item.key(), store_.seed);
    if (index != nullptr) index->prefetch_home(hash);
    waiting_.push_back({location, hash, index, number});
    if (waiting_.size() == at_a_time) insert_all();
  }

  void tell(const Item& item) {
    CommitSink* const sink = store_.sink;
    if (sink == nullptr) return;
    sink->changed({ItemChange::Reason::lost, item.database(), item.key(),
                   store_.hash(item.key(), store_.seed), &item, nullptr, no_expiry, version_, 0});
  }

  // Its value was lost with a device.
  void give_up(const Item& item, Location location, Database& database) {
    tell(item);
    if (item.expiry() != no_expiry) database.expires.fetch_sub(1, std::memory_order_relaxed);
    store_.values->log().free(item.value_place(), item.value_bytes());
    store_.values->lost_values.fetch_add(1, std::memory_order_relaxed);
    executor_.cache().retire(location);
  }

  void insert_all() {
    for (const Waiting& one : waiting_) {
      if (one.index != nullptr && insert(one)) {
        growth_[one.database].add(1);
      } else if (store_.items.clear_live(one.location)) {
        const Item& item = *store_.items.item(one.location);
        tell(item);
        if (item.is_object()) store_.items.retire_object(item);
        executor_.cache().retire(one.location);
      }
    }
    for (const Waiting& one : waiting_) {
      if (one.index != nullptr) growth_[one.database].pay(*one.index);
    }
    waiting_.clear();
  }

  // False where there is no memory for it.
  bool insert(const Waiting& one) {
    for (;;) {
      const Location root = one.index->find<TilePlain>(one.hash).word;
      const Composed composed =
          compose(store_.items, executor_.cache(), root, location::none, one.location);
      if (!composed.ok) return false;
      const Swapped swapped = swap_root<TilePlain>(*one.index, one.hash, root, composed.root,
                                                   [](Segment& /*versions*/) { return true; });
      if (swapped == Swapped::done) {
        if (root != composed.root) retire_root(executor_.cache(), root);
        return true;
      }
      if (composed.root != one.location) discard_root(executor_.cache(), composed.root);
      if (swapped == Swapped::no_memory) return false;
    }
  }

  HostStore& store_;
  const uint64_t version_;
  HostExecutor executor_;
  std::vector<GrowthShare> growth_;  // of each database
  std::vector<Waiting> waiting_;
};

uint32_t threads_for(const HostStore& store) {
  constexpr uint32_t most = 32;
  constexpr uint32_t pages_each = 4;
  const uint32_t useful = store.items.page_limit() / pages_each + 1;
  return std::min({std::max(std::thread::hardware_concurrency(), 1u), most, useful});
}

}  // namespace

void rebuild_index(HostStore& store, uint64_t version) {
  for (Database& database : store.databases) {
    const int64_t entries = database.entries_on_device.exchange(0, std::memory_order_acq_rel);
    // Where there is no memory for all segments at once the index grows as usual.
    if (entries > 0) {
      database.make_index(store.pages, store.budget, store.epochs, static_cast<uint64_t>(entries));
    }
  }
  std::atomic<uint32_t> next_page{0};
  Rebuilder own(store, version);
  const auto work = [&](uint32_t) {
    std::optional<Rebuilder> one;
    try {
      one.emplace(store, version);
    } catch (const std::bad_alloc&) {  // the others take its pages
      return;
    }
    one->take_pages(next_page);
  };
  std::vector<std::thread> helpers;
  start_threads(helpers, threads_for(store) - 1, work);
  own.take_pages(next_page);
  own.take_large();
  for (std::thread& helper : helpers) helper.join();
  for (const Database& database : store.databases) {
    if (LineIndex* index = database.index()) index->check_loads();
  }
}

}  // namespace isotherm
