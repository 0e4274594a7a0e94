// SortedTierInMemory: a sorted store (gpu/store/sorted_tier.h) that lies in host memory, and fails,
// or has no room, when it is told to.
//
// Threads. As SortedTier.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/platform/device_error.h"
#include "gpu/store/sorted_tier.h"

namespace isotherm {

// What a test tells it, and sees; it outlives the tier.
struct SortedMemory {
  std::atomic<bool> fails{false};
  std::atomic<bool> is_full{false};
  std::atomic<uint64_t> gets{0};    // calls that were answered
  std::atomic<uint64_t> ranges{0};  // ranges that were
};

class SortedTierInMemory final : public SortedTier {
 public:
  explicit SortedTierInMemory(SortedMemory& memory) : memory_(memory) {}

  static SortedTierMaker maker(SortedMemory& memory) {
    return [&memory](const SortedTierOptions&) {
      return std::make_unique<SortedTierInMemory>(memory);
    };
  }

  bool put(std::span<const SortedPair> pairs) override {
    check();
    if (memory_.is_full) return false;
    auto next = std::make_shared<View>(*newest());
    for (const SortedPair& pair : pairs) {
      next->pairs.erase(std::string(pair.key));
      if (!pair.erased) next->pairs[std::string(pair.key)] = {std::string(pair.value), pair.flags};
    }
    set(std::move(next));
    return true;
  }
  void clear() override { set(std::make_shared<View>()); }
  std::shared_ptr<const SortedView> view() override { return newest(); }
  std::unique_ptr<DirectGets> make_direct(const DirectShape& shape) override {
    check();
    return std::make_unique<Gets>(*this, shape);
  }
  std::unique_ptr<DirectRanges> make_ranges(const RangeShape& shape) override {
    check();
    return std::make_unique<Ranges>(*this, shape);
  }
  SortedStats stats() override { return {newest()->pairs.size(), 0, 1, 0}; }

 private:
  struct Value {
    std::string text;
    uint32_t flags;
  };
  struct View final : SortedView {
    std::map<std::string, Value, std::less<>> pairs;
  };

  class Gets final : public DirectGets {
   public:
    Gets(SortedTierInMemory& tier, const DirectShape& shape)
        : tier_(tier),
          shape_(shape),
          ends_(shape.rows + 1),
          keys_(shape.key_room),
          replies_(uint64_t{shape.rows} * shape.stride),
          columns_{ends_.data(), keys_.data(), replies_.data()} {}
    const DirectShape& shape() const override { return shape_; }
    const DirectColumns& columns() const override { return columns_; }
    void start(uint32_t rows) override {
      tier_.check();
      const auto view = tier_.newest();
      for (uint32_t row = 0; row < rows; ++row) {
        const auto at = view->pairs.find(tier_.text(keys_, ends_, row));
        DirectHead head;
        char* const slot = replies_.data() + uint64_t{row} * shape_.stride;
        if (at != view->pairs.end()) {
          const std::string& text = at->second.text;
          const bool fits = sizeof head + text.size() <= shape_.stride;
          head = {fits ? static_cast<uint32_t>(text.size()) : DirectHead::too_long,
                  at->second.flags};
          if (fits) std::memcpy(slot + sizeof head, text.data(), text.size());
        }
        std::memcpy(slot, &head, sizeof head);
      }
      ++tier_.memory_.gets;
    }
    void post(uint32_t rows) override {
      try {
        start(rows);
      } catch (const DeviceError&) {
        // Told by `wait`.
      }
    }
    bool done() override { return true; }
    void wait() override { tier_.check(); }
    uint64_t pinned_bytes() const override { return replies_.size(); }

   private:
    SortedTierInMemory& tier_;
    const DirectShape shape_;
    std::vector<uint32_t> ends_;
    std::vector<char> keys_;
    std::vector<char> replies_;
    const DirectColumns columns_;
  };

  class Ranges final : public DirectRanges {
   public:
    Ranges(SortedTierInMemory& tier, const RangeShape& shape)
        : tier_(tier),
          shape_(shape),
          ends_(2 * size_t{shape.ranges} + 1),
          keys_(shape.key_room),
          limits_(shape.ranges),
          heads_(shape.ranges),
          replies_(shape.reply_room),
          columns_{ends_.data(), keys_.data(), limits_.data(), heads_.data(), replies_.data()} {}
    const RangeShape& shape() const override { return shape_; }
    const RangeColumns& columns() const override { return columns_; }
    void start(const SortedView& view, uint32_t ranges) override {
      tier_.check();
      used_ = 0;
      for (uint32_t row = 0; row < ranges; ++row) answer(static_cast<const View&>(view), row);
      tier_.memory_.ranges += ranges;
    }
    void wait() override { tier_.check(); }
    uint64_t pinned_bytes() const override { return replies_.size(); }

   private:
    void answer(const View& view, uint32_t row) {
      using enum RangeHead::End;
      RangeHead head{used_, 0, all};
      std::string text;
      const std::string_view end = tier_.text(keys_, ends_, 2 * row + 1);
      auto at = view.pairs.lower_bound(tier_.text(keys_, ends_, 2 * row));
      for (; at != view.pairs.end() && at->first < end; ++at) {
        if (head.pairs == limits_[row]) head.end = limit;
        if (at->second.flags != 0) head.end = flags;
        const std::string_view value =
            std::string_view(at->second.text).substr(std::min<size_t>(8, at->second.text.size()));
        const PairHead pair{static_cast<uint32_t>(at->first.size()),
                            static_cast<uint32_t>(value.size())};
        if (text.size() + pair.bytes() > shape_.most_bytes) head.end = bytes;
        if (head.end != all) break;
        text.append(reinterpret_cast<const char*>(&pair), sizeof pair)
            .append(at->first)
            .append(value);
        text.resize((text.size() + 7) & ~size_t{7});
        ++head.pairs;
      }
      if (text.size() > replies_.size() - used_) {
        head = {0, 0, room};
      } else {
        std::memcpy(replies_.data() + used_, text.data(), text.size());
        used_ += text.size();
      }
      heads_[row] = head;
    }

    SortedTierInMemory& tier_;
    const RangeShape shape_;
    std::vector<uint32_t> ends_;
    std::vector<char> keys_;
    std::vector<uint32_t> limits_;
    std::vector<RangeHead> heads_;
    std::vector<char> replies_;
    const RangeColumns columns_;
    uint64_t used_ = 0;
  };

  static std::string_view text(const std::vector<char>& bytes, const std::vector<uint32_t>& ends,
                               uint32_t row) {
    return {bytes.data() + ends[row], ends[row + 1] - ends[row]};
  }
  void check() const {
    if (memory_.fails) throw DeviceError("it was told to fail");
  }
  std::shared_ptr<const View> newest() {
    const std::lock_guard guard(mutex_);
    return newest_;
  }
  void set(std::shared_ptr<const View> view) {
    const std::lock_guard guard(mutex_);
    newest_ = std::move(view);
  }

  SortedMemory& memory_;
  std::mutex mutex_;  // of what follows
  std::shared_ptr<const View> newest_ = std::make_shared<View>();
};

}  // namespace isotherm
