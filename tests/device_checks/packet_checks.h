// Checks of packets that a device answers (gpu/udp), for any device; see
// tests/device_checks/device_table_checks.h. Replies are read by the tests' own reader
// (tests/models/built_frames.h), and compared with a model of the items.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "device_checks/device_item_checks.h"
#include "gpu/items/device_item_store.h"
#include "gpu/udp/packet_engine.h"
#include "models/built_frames.h"

namespace isotherm {

// A store with an engine and a model, and a batch of frames for each channel.
template <class Device>
class ModelledPackets {
 public:
  struct Item {
    std::string value;
    uint32_t flags = 0;
    int64_t expiry = 0;
    uint64_t version = 0;
    uint64_t state = 0;  // of a store's items
  };
  using Items = std::map<std::string, Item>;
  static constexpr int64_t now = 10;

  ModelledPackets(Device& device, const DeviceItemOptions& items, const PacketOptions& packets)
      : store_(device, items),
        engine_(device, store_, packets),
        sent_(engine_.options().channels) {}

  uint64_t wrong() const { return wrong_; }
  uint64_t answered() const { return answered_; }
  PacketEngine<Device>& engine() { return engine_; }
  Items& items() { return items_; }

  void put(const std::string& key, const Item& item) {
    Item& now_there = items_[key] = item;
    const bool stored = engine_.options().stored;
    if (stored) now_there.version = ++versions_ * 1'000'003;
    const uint64_t version = run(TableOp::put, key, stored ? as_stored(now_there) : item);
    if (!stored) now_there.version = version;
  }
  void erase(const std::string& key) {
    run(TableOp::erase, key, {});
    items_.erase(key);
  }

  // From now on every second frame lies in memory that is not the engine's.
  void lend() {
    const uint64_t bytes =
        uint64_t{engine_.options().channels} * engine_.options().rows * lent_room;
    lent_.reset(static_cast<char*>(std::aligned_alloc(page, (bytes + page - 1) / page * page)));
    std::memset(lent_.get(), '#', bytes);
    if (!engine_.lend({lent_.get(), bytes})) fail("cannot be lent memory");
  }
  void take_back() { engine_.take_back(); }

  // Starts a batch; it is to find the items as they are now.
  void start(uint32_t channel, const std::vector<std::string>& frames) {
    const PacketSlots& slots = engine_.slots(channel);
    std::memset(slots.frames, '#', uint64_t{engine_.options().rows} * slots.frame_stride);
    std::memset(slots.replies, '#', uint64_t{engine_.options().rows} * slots.reply_stride);
    for (uint32_t row = 0; row < frames.size(); ++row) {
      slots.bytes[row] = static_cast<uint32_t>(frames[row].size());
      slots.results[row] = {77, PacketFate::hit, FrameKind::get};
      char* place = slots.slot(row);
      if (slots.at != nullptr) {
        if (row % 2 == 0) {
          place = lent_.get() + (uint64_t{channel} * engine_.options().rows + row) * lent_room;
        }
        slots.at[row] = place;
      }
      const bool in_slot = place == slots.slot(row);
      if (frames[row].size() > (in_slot ? slots.frame_stride : lent_room)) continue;
      std::memcpy(place, frames[row].data(), frames[row].size());
    }
    sent_[channel] = {frames, items_};
    engine_.start(channel, static_cast<uint32_t>(frames.size()), now);
  }
  void finish(uint32_t channel) {
    engine_.wait(channel);
    if (!engine_.done(channel)) fail("is not done");
    const Sent& sent = sent_[channel];
    for (uint32_t row = 0; row < sent.frames.size(); ++row) {
      check(engine_.slots(channel), row, sent.frames[row], sent.items);
    }
  }
  void run(const std::vector<std::string>& frames) {
    start(0, frames);
    finish(0);
  }
  void fail(const char* what) {
    if (++wrong_ <= 10) std::printf("  %s\n", what);
  }

 private:
  struct Sent {
    std::vector<std::string> frames;
    Items items;
  };

  uint64_t run(TableOp op, const std::string& key, const Item& item) {
    const int64_t key_offsets[2] = {0, static_cast<int64_t>(key.size())};
    const int64_t value_offsets[2] = {0, static_cast<int64_t>(item.value.size())};
    gpu::ItemRequests requests;
    requests.rows = 1;
    requests.op = op;
    requests.keys = {key_offsets, key.data()};
    requests.values = {value_offsets, item.value.data()};
    requests.expiry = &item.expiry;
    requests.flags = &item.flags;
    uint8_t found = 0;
    uint64_t version = 0;
    requests.replies.found = &found;
    requests.replies.new_versions = &version;
    engine_.run_host(requests);
    if (found > 1) fail("a write was refused");
    return version;
  }

  // With its fields before the value, as gpu/items/stored_fields.h has them.
  static Item as_stored(const Item& item) {
    Item record;
    const auto add = [&](const void* field, size_t bytes) {
      record.value.append(static_cast<const char*>(field), bytes);
    };
    add(&item.version, 8);
    if (item.expiry != 0) add(&item.expiry, 8);
    if (item.flags != 0) add(&item.flags, 4);
    if (item.state != 0) add(&item.state, 8);
    record.value += item.value;
    record.flags =
        (item.expiry != 0 ? 1 : 0) | (item.flags != 0 ? 2 : 0) | (item.state != 0 ? 4 : 0);
    record.expiry = item.expiry;
    return record;
  }
  // Of a store: gets that change something, and keys that stand for others.
  bool leaves(const std::string& key, const Items& items, bool hit) const {
    if (!engine_.options().stored) return false;
    return key.front() == '\xff' || (hit && items.at(key).state != 0);
  }

  static std::string text_for(const built_frames::Get& get, const Items& items) {
    const auto at = items.find(get.key);
    if (at == items.end() || (at->second.expiry != 0 && at->second.expiry <= now)) return "END\r\n";
    const Item& item = at->second;
    return "VALUE " + get.key + ' ' + std::to_string(item.flags) + ' ' +
           std::to_string(item.value.size()) +
           (get.with_version ? ' ' + std::to_string(item.version) : "") + "\r\n" + item.value +
           "\r\nEND\r\n";
  }

  void check(const PacketSlots& slots, uint32_t row, const std::string& frame, const Items& items) {
    const PacketResult result = slots.results[row];
    const std::string reply(slots.reply(row), slots.reply_stride);
    const std::string untouched(slots.reply_stride, '#');
    const auto get = built_frames::find_get(frame);
    const bool fits_slot = frame.size() <= slots.frame_stride;
    if (!fits_slot && result.kind != FrameKind::too_long) return fail("a long frame was read");
    if (fits_slot && (result.kind == FrameKind::get) != get.has_value()) {
      return fail("a frame's kind is wrong");
    }
    std::string expected;
    if (get && fits_slot) {
      expected = text_for(*get, items);
      const auto asked = built_frames::read(frame);
      const size_t datagram = 8 + expected.size();
      const size_t all = (built_frames::is_v6(frame) ? 62 : 42) + datagram;
      const uint64_t times = engine_.options().amplification;
      const bool too_much = times != 0 && datagram > times * (8 + asked->text.size());
      const bool is_left = leaves(get->key, items, expected != "END\r\n");
      if (is_left || too_much || datagram > 1400 || all > slots.reply_stride) expected.clear();
    }
    if (expected.empty()) {
      if (result.fate != PacketFate::left || result.bytes != 0) return fail("it was answered");
      if (reply != untouched) fail("a reply was written that nobody sends");
      return;
    }
    ++answered_;
    if (result.fate != (expected == "END\r\n" ? PacketFate::miss : PacketFate::hit)) {
      return fail("a fate is wrong");
    }
    const uint32_t stored = (result.bytes + 15u) / 16 * 16;
    if (reply.substr(stored) != untouched.substr(stored)) fail("a reply is longer than it says");
    const auto answer = built_frames::read(std::string_view(reply).substr(0, result.bytes));
    const auto asked = built_frames::read(frame);
    if (!answer || answer->text != expected || answer->to != asked->from ||
        answer->from != asked->to || answer->to_port != asked->from_port ||
        answer->from_port != asked->to_port || answer->ethernet_to != asked->ethernet_from ||
        answer->ethernet_from != asked->ethernet_to ||
        answer->header.substr(0, 2) != asked->header.substr(0, 2)) {
      fail("a reply is wrong");
    }
  }

  static constexpr uint64_t page = 4096;
  static constexpr uint64_t lent_room = 1024;  // for a frame

  std::unique_ptr<char, void (*)(void*)> lent_{nullptr, std::free};
  DeviceItemStore<Device> store_;
  PacketEngine<Device> engine_;
  Items items_;
  std::vector<Sent> sent_;
  uint64_t versions_ = 0;
  uint64_t wrong_ = 0;
  uint64_t answered_ = 0;
};

// Items of many sizes, and frames for them and for others.
template <class Device>
class PacketSource {
 public:
  using Packets = ModelledPackets<Device>;

  PacketSource(uint64_t seed, uint64_t keys) : random_(seed) {
    for (uint64_t i = 0; i < keys; ++i) {
      const uint64_t longest = i % 7 == 0 ? 250 : 24;
      std::string key = std::to_string(i);
      key.resize(std::max<uint64_t>(key.size(), random_() % longest + 1), 'k');
      if (i % 11 == 5) key.front() = '\xff';
      keys_.push_back(key);
    }
  }
  std::mt19937_64& random() { return random_; }
  const std::string& key() { return keys_[random_() % keys_.size()]; }

  typename Packets::Item item() {
    typename Packets::Item item;
    const uint64_t longest = random_() % 8 == 0 ? 1500 : 100;
    item.value.resize(random_() % longest);
    for (char& byte : item.value) byte = static_cast<char>(random_());
    if (random_() % 3 == 0) item.flags = static_cast<uint32_t>(random_());
    if (random_() % 4 == 0) item.expiry = static_cast<int64_t>(1 + random_() % 20);
    if (random_() % 6 == 0) item.state = random_() | 1;
    return item;
  }
  std::string frame() {
    built_frames::Parts parts;
    parts.v6 = random_() % 2 == 0;
    parts.id = static_cast<uint16_t>(random_());
    parts.from_port = static_cast<uint16_t>(20'000 + random_() % 1000);
    parts.has_sum = parts.v6 || random_() % 4 != 0;
    parts.text = (random_() % 2 == 0 ? "get " : "gets ") + key() + "\r\n";
    if (random_() % 8 == 0) parts.text = "set " + key() + " 0 0 1\r\nx\r\n";
    if (random_() % 8 == 0) parts.padding = std::string(random_() % 400, 'p');
    return built_frames::build(parts);
  }
  std::vector<std::string> frames(uint64_t rows, bool mutates) {
    std::vector<std::string> frames;
    for (uint64_t i = 0; i < rows; ++i) {
      frames.push_back(frame());
      if (mutates) frames.back() = built_frames::mutated(frames.back(), random_);
    }
    return frames;
  }

 private:
  std::mt19937_64 random_;
  std::vector<std::string> keys_;
};

inline PacketOptions small_packets(uint32_t rows, uint32_t reply_stride, uint32_t amplification) {
  PacketOptions options;
  options.rows = rows;
  options.reply_stride = reply_stride;
  options.amplification = amplification;
  return options;
}

// Hits, misses, what has expired, what is too long, and what is no get; from slots of some sizes.
template <class Device>
uint64_t check_packets_of(Device& device, uint64_t scale, bool stored) {
  uint64_t wrong = 0;
  for (const uint32_t times : {0, 3}) {
    PacketSource<Device> source(times + 1, 60);
    PacketOptions options = small_packets(static_cast<uint32_t>(scale), 512, times);
    options.stored = stored;
    if (times != 0) options.frame_stride = 128;
    if (times == 0) options.reply_stride = ReplyFrame::most_bytes;
    ModelledPackets<Device> packets(device, small_items(times + 5, 64), options);
    for (int i = 0; i < 60; ++i) packets.put(source.key(), source.item());
    for (const uint64_t rows : {uint64_t{1}, uint64_t{33}, scale}) {
      packets.run(source.frames(rows, false));
      packets.run(source.frames(rows, true));
    }
    wrong += packets.wrong() + (packets.answered() < scale / 3 ? 1 : 0);
  }
  return wrong;
}

template <class Device>
uint64_t check_packets(Device& device, uint64_t scale) {
  return check_packets_of(device, scale, false);
}
template <class Device>
uint64_t check_stored_packets(Device& device, uint64_t scale) {
  return check_packets_of(device, scale, true);
}

// Frames that lie elsewhere than in slots.
template <class Device>
uint64_t check_lent_packets(Device& device, uint64_t scale) {
  PacketSource<Device> source(13, 40);
  ModelledPackets<Device> packets(device, small_items(6, 64),
                                  small_packets(static_cast<uint32_t>(scale), 512, 0));
  for (int i = 0; i < 40; ++i) packets.put(source.key(), source.item());
  for (int times = 0; times < 2; ++times) {
    packets.lend();
    packets.run(source.frames(scale, false));
    packets.run(source.frames(scale, true));
    packets.take_back();
    packets.run(source.frames(scale, false));
  }
  return packets.wrong() + (packets.answered() < scale ? 1 : 0);
}

// What is written between two batches is seen by the second, and not by the first, though that may
// still be under way: it is asked so often that it is.
template <class Device>
uint64_t check_written_packets(Device& device, uint64_t scale) {
  constexpr int times = 40;
  PacketSource<Device> source(9, 6);
  ModelledPackets<Device> packets(device, small_items(3, 64), small_packets(8, 512, 0));
  const uint32_t channels = packets.engine().options().channels;
  for (uint64_t round = 0; round < scale / 20; ++round) {
    const auto channel = static_cast<uint32_t>(round % channels);
    if (round >= channels) packets.finish(channel);
    const std::vector<std::string> frames = source.frames(8, false);
    packets.start(channel, frames);
    for (int i = 1; i < times; ++i) packets.engine().start(channel, 8, packets.now);
    for (int i = 0; i < 4; ++i) {
      if (source.random()() % 3 == 0) {
        packets.erase(source.key());
      } else {
        packets.put(source.key(), source.item());
      }
    }
  }
  for (uint32_t i = 0; i < channels; ++i) packets.finish(i);
  return packets.wrong() + (packets.answered() == 0 ? 1 : 0);
}

// Keys whose hashes all agree.
template <class Device>
uint64_t check_colliding_packets(Device& device, uint64_t scale) {
  PacketSource<Device> source(11, 20);
  DeviceItemOptions items = small_items(4, 64);
  items.hash_mask = 0;
  ModelledPackets<Device> packets(device, items,
                                  small_packets(static_cast<uint32_t>(scale / 2), 512, 0));
  for (int i = 0; i < 20; ++i) packets.put(source.key(), source.item());
  packets.run(source.frames(scale / 2, false));
  return packets.wrong();
}

template <class Device>
constexpr DeviceItemCheck<Device> packet_checks[] = {
    {"packets", check_packets<Device>},
    {"packets of a store's items", check_stored_packets<Device>},
    {"written packets", check_written_packets<Device>},
    {"colliding packets", check_colliding_packets<Device>},
    {"packets in memory that is lent", check_lent_packets<Device>},
};

}  // namespace isotherm
