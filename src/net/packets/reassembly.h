// Reassembly: fragments of datagrams, put together to the frame that was sent.
//
//   fragment ─▶ the datagram that its addresses and number name ─▶ all there: one whole frame
// A datagram collects its bytes in one buffer, in any order; its first fragment gives the headers,
// its last one the length. The whole frame has them as if nobody had cut it, so whoever reads it
// (gpu/udp/request_frame.h) checks lengths, port and checksum as ever.
//
// A fragment that overlaps another one with other bounds, goes beyond the end, or says another end,
// ends its datagram: what comes of it later is dropped, too (RFC 5722). One that comes twice is
// taken once. A datagram that is not whole `patience_us` after its first fragment is given up, and
// so is the oldest one where there would be more than `most_datagrams`, or than `most_bytes`.
//
// Threads. One. Memory. Twice `most_bytes`, and 8 bytes for each fragment of 8 or more. Limits.
// UDP; IPv6 with no other extension header; 64 KiB with the headers of IP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <vector>

namespace isotherm::net {

class Reassembly {
 public:
  static constexpr size_t most_datagrams = 256;
  static constexpr size_t most_bytes = 8 << 20;
  static constexpr int64_t patience_us = 1'000'000;

  struct Counts {
    uint64_t fragments = 0;  // that were taken
    uint64_t faulty = 0;     // and that were not
    uint64_t joined = 0;     // datagrams
    uint64_t given_up = 0;   // and those that never were whole
  };

  // A frame of FrameKind::fragment. Returns the whole one if this was the last that was missing;
  // else nothing.
  std::string take(std::string_view frame, int64_t now_us);
  const Counts& counts() const { return counts_; }
  // That are waited for, and their bytes.
  size_t datagrams() const { return datagrams_.size(); }
  size_t bytes() const { return bytes_; }

 private:
  // One fragment, as its headers say.
  struct Part {
    bool v6 = false;
    bool more = false;   // behind it
    uint32_t begin = 0;  // of what IP carries
    uint32_t end = 0;
    std::string_view key;   // the addresses
    uint32_t number = 0;    // that the sender gave the datagram
    std::string_view head;  // Ethernet and IP
    std::string_view data;
  };
  struct Range {
    uint32_t begin = 0;
    uint32_t end = 0;
  };
  struct Datagram {
    std::string key;
    uint32_t number = 0;
    int64_t began_us = 0;
    bool ended = false;  // there is nothing that it can become
    std::string head;    // of its first fragment
    std::string data;
    std::vector<Range> ranges;  // that are there, sorted
    uint32_t there = 0;         // bytes of them
    uint32_t all = 0;           // bytes; 0: not known yet
  };
  using Place = std::list<Datagram>::iterator;

  static bool read(std::string_view frame, Part& part);
  static bool read_v4(std::string_view frame, Part& part);
  static bool read_v6(std::string_view frame, Part& part);
  static bool fits(const Part& part);
  static std::string whole(std::string_view head, std::string_view data, bool v6);
  Place find(const Part& part, int64_t now_us);
  bool add(Datagram& to, const Part& part);
  void end(Datagram& datagram);
  void give_up(Place datagram);
  void drop_old(int64_t now_us);

  std::list<Datagram> datagrams_;  // the oldest first
  size_t bytes_ = 0;               // of their data
  Counts counts_;
};

}  // namespace isotherm::net
