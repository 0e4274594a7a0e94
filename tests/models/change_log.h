// ChangeLog: a CommitSink that replays what it is told, and checks it; for tests.
//
// It has what the store has to have; objects are piles (models/pile.h), of which it has the text.
// Each change is compared with that before it is taken over: the old item is the one that the
// change before it left, and versions grow for each key, also across deletes and flushes. So a
// change that is missing, told twice or out of order is an error, of which the first are kept.
//
// It is a DemotionHook, too: `fate` says what becomes of items that eviction is about to drop.
//
// Withheld replies. While `withholds`, batches wait until they are let go. While `is_full`, no
// batch that writes begins beside others.
//
// Threads. Any; settings change while nothing runs, but for `is_full` and those of the latch.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "executor/commit_sink.h"
#include "items/item.h"
#include "items/objects.h"
#include "models/awaited_latch.h"
#include "models/pile.h"

namespace isotherm {

class ChangeLog final : public CommitSink, public DemotionHook, public AwaitedLatch {
 public:
  struct Entry {
    std::optional<std::string> value;  // none: it is not known, for it lay on a device
    uint32_t flags = 0;
    int64_t expiry = no_expiry;
    uint64_t version = 0;
  };
  using Key = std::pair<uint32_t, std::string>;  // database, key

  Begun begins(const Batch& batch) override {
    const std::lock_guard guard(mutex_);
    running_[++tokens_] = &batch;
    return {tokens_, withholds};
  }

  bool full() const override { return is_full; }

  void changed(const ItemChange& change) override {
    if (look) look(change);
    const std::lock_guard guard(mutex_);
    const Key key{change.database, std::string(change.key)};
    check(key, change);
    ++changes_;
    ++reasons_[change.reason];
    versions_[key] = change.version;
    if (change.new_item == nullptr) {
      entries_.erase(key);
    } else if (change.new_item == change.old_item && change.call == nullptr) {
      entries_[key].expiry = change.expiry;
    } else {
      const Item& item = *change.new_item;
      entries_[key] = {value_of(item), item.flags(), change.expiry, Objects::version_of(item)};
      if (item.expiry() != change.expiry) fail(key, "tells another expiry than the item's");
    }
  }

  void flushed(uint32_t database, uint64_t version, uint64_t /*token*/) override {
    const std::lock_guard guard(mutex_);
    for (auto& [key, last] : versions_) {
      if (key.first != database) continue;
      if (version <= last) fail(key, "is flushed with an old version");
      last = version;
    }
    std::erase_if(entries_, [&](const auto& entry) { return entry.first.first == database; });
  }

  Awaited* ends(uint64_t token) override {
    const std::lock_guard guard(mutex_);
    if (running_.erase(token) != 1) fail({}, "ends, but did not begin");
    return withholds ? this : nullptr;
  }

  Fate demote(const Item& item) override {
    const std::lock_guard guard(mutex_);
    const Fate its = fate ? fate(item) : Fate::dropped;
    ++fates_[its];
    const Key key{item.database(), std::string(item.key())};
    if (its == Fate::taken && entries_.erase(key) != 1) fail(key, "is taken twice");
    return its;
  }

  // Whether it has what the store has, item by item. Nothing else runs.
  void compare(Engine& engine) {
    EXPECT_EQ(errors_, std::vector<std::string>{});
    EXPECT_EQ(running_.size(), 0u);
    Worker worker(engine);
    const auto entries = entries_;  // reading erases what has expired
    for (uint32_t database = 0; database < engine.options().databases; ++database) {
      const auto is_in = [&](const auto& entry) { return entry.first.first == database; };
      EXPECT_EQ(std::count_if(entries.begin(), entries.end(), is_in),
                static_cast<int64_t>(engine.database(database).keys));
    }
    for (const auto& [key, entry] : entries) {
      Batch batch;
      batch.select(key.first);
      batch.get(key.second, option::any_type);
      worker.submit(batch);
      const Reply& reply = batch.reply(0);
      if (entry.expiry != no_expiry && entry.expiry <= engine.clock().now_ms()) {
        EXPECT_EQ(reply.status, Status::not_found) << key.second;
        continue;
      }
      ASSERT_EQ(reply.status, Status::ok) << key.second;
      if (const Object* object = reply.object()) {
        EXPECT_EQ(Pile::of(*object).text(), *entry.value) << key.second;
      } else if (entry.value) {
        EXPECT_EQ(reply.value(), *entry.value) << key.second;
      }
      EXPECT_EQ(reply.flags, entry.flags) << key.second;
      EXPECT_EQ(reply.expiry, entry.expiry) << key.second;
      EXPECT_EQ(reply.version, entry.version) << key.second;
    }
  }

  const std::map<Key, Entry>& entries() const { return entries_; }
  const std::vector<std::string>& errors() const { return errors_; }
  uint64_t changes() const { return changes_; }
  uint64_t count(ItemChange::Reason reason) { return reasons_[reason]; }
  uint64_t count(Fate its) { return fates_[its]; }
  uint64_t version(uint32_t database, const std::string& key) { return versions_[{database, key}]; }

  bool withholds = false;
  std::atomic<bool> is_full{false};
  std::function<Fate(const Item&)> fate;
  std::function<void(const ItemChange&)> look;  // before it is taken over

 private:
  static std::optional<std::string> value_of(const Item& item) {
    if (item.is_object()) return Pile::of(*item.object()).text();
    return item.away() ? std::nullopt : std::optional<std::string>(item.value());
  }

  void fail(const Key& key, const char* what) {
    constexpr size_t most = 20;
    if (errors_.size() < most) errors_.push_back("'" + key.second + "' " + what);
  }

  void check(const Key& key, const ItemChange& change) {
    if (change.token != 0) {
      const auto batch = running_.find(change.token);
      if (batch == running_.end()) return fail(key, "is changed outside of its batch");
      const bool one_row = batch->second->size() == 1;
      if (one_row && batch->second->answered(0)) fail(key, "is told after its reply");
    }
    if (change.version <= versions_[key]) fail(key, "is told out of order");
    const auto at = entries_.find(key);
    if ((at != entries_.end()) != (change.old_item != nullptr)) {
      return fail(key, "was there, or not, unlike its old item");
    }
    if (change.old_item == nullptr) return;
    const Item& old = *change.old_item;
    const Entry& entry = at->second;
    if (change.call != nullptr) {  // the object has changed already
      if (!old.is_object()) fail(key, "had no object");
      return;
    }
    if (Objects::version_of(old) != entry.version || old.flags() != entry.flags ||
        old.expiry() != entry.expiry) {
      return fail(key, "was another item");
    }
    if (entry.value && !old.away() && value_of(old) != entry.value) fail(key, "was another value");
  }

  std::mutex mutex_;
  std::map<Key, Entry> entries_;
  std::map<Key, uint64_t> versions_;  // the last
  std::map<uint64_t, const Batch*> running_;
  std::map<ItemChange::Reason, uint64_t> reasons_;
  std::map<Fate, uint64_t> fates_;
  std::vector<std::string> errors_;
  uint64_t tokens_ = 0;
  uint64_t changes_ = 0;
};

}  // namespace isotherm
