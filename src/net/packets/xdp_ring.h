// XdpRing: a ring of entries between this process and the kernel (AF_XDP), in memory of both.
//
//   consumer ─▶ [ entries that were produced and not yet consumed ] ─▶ producer
// Both are numbers that only grow, modulo 2^32, and an entry lies at its number modulo the size, a
// power of two. One side produces, the other consumes; what one of them has done the other sees
// when it is published. Here each side keeps its own number, and reads only the other's. Whoever
// produces must know that there is room: as here, where each entry stands for a chunk of memory,
// and there are no more chunks than entries.
//
// Threads. One on our side.
#pragma once

#include <linux/if_xdp.h>

#include <atomic>
#include <cstdint>

namespace isotherm::net {

template <class Entry>
class XdpRing {
 public:
  XdpRing() = default;
  // Of memory that the kernel has laid out so.
  XdpRing(char* memory, const xdp_ring_offset& at, uint32_t size)
      : producer_(reinterpret_cast<uint32_t*>(memory + at.producer)),
        consumer_(reinterpret_cast<uint32_t*>(memory + at.consumer)),
        flags_(reinterpret_cast<uint32_t*>(memory + at.flags)),
        entries_(reinterpret_cast<Entry*>(memory + at.desc)),
        mask_(size - 1) {}

  // Of a ring that we produce for.
  void put(const Entry& entry) { entries_[next_++ & mask_] = entry; }
  void publish() { theirs(producer_).store(next_, std::memory_order_release); }
  // Of what was published, not consumed yet.
  uint32_t unread() const {
    return theirs(producer_).load(std::memory_order_relaxed) -
           theirs(consumer_).load(std::memory_order_acquire);
  }
  // The kernel goes on only when it is called.
  bool needs_wakeup() const {
    return (theirs(flags_).load(std::memory_order_relaxed) & XDP_RING_NEED_WAKEUP) != 0;
  }

  // Of a ring that we consume: how many entries can be taken now.
  uint32_t filled() const { return theirs(producer_).load(std::memory_order_acquire) - next_; }
  const Entry& take() { return entries_[next_++ & mask_]; }
  // What was taken is the kernel's again.
  void give_back() { theirs(consumer_).store(next_, std::memory_order_release); }

 private:
  static std::atomic_ref<uint32_t> theirs(uint32_t* word) {
    return std::atomic_ref<uint32_t>(*word);
  }

  uint32_t* producer_ = nullptr;
  uint32_t* consumer_ = nullptr;
  uint32_t* flags_ = nullptr;
  Entry* entries_ = nullptr;
  uint32_t mask_ = 0;
  uint32_t next_ = 0;  // what we produce or consume next
};

}  // namespace isotherm::net
