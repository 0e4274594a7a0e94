// What sources of the frames of a network interface share (net/packets/ring_frames.h,
// net/packets/xdp_frames.h): its number, descriptors, a port that the kernel leaves alone, and
// checksums that nobody has made yet.
//
// A frame that leaves a host by no cable (veth, loopback, some virtual machines) has no checksum of
// UDP, but in its place the sum of what stands before the header: the card would have added the
// rest. The kernel tells readers of rings so; those who get frames before it sees them look for
// that sum. One frame in 65,536 has it by chance, and then it is made anew: the same, unless the
// frame is faulty, which goes unnoticed then.
//
// Threads. Any. Errors. std::system_error.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>

namespace isotherm::net {

// Closes what it has.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : number_(other.number_) { other.number_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  int number() const { return number_; }

 private:
  int number_;
};

// Throws what errno says.
[[noreturn]] void fail_by_errno(const std::string& what);

int interface_index(const std::string& interface);

// A UDP port of all addresses, of which nothing is taken: so nobody else has it, and the kernel
// does not answer that there is nobody.
class TakenPort {
 public:
  explicit TakenPort(uint16_t port);

 private:
  const std::array<Descriptor, 2> sockets_;  // IPv4 and IPv6, as far as there are such
};

// Of UDP, in a frame that begins at an even address and is ours to change.
void make_checksum(char* frame, uint32_t bytes);
bool is_checksum_unfinished(const char* frame, uint32_t bytes);

}  // namespace isotherm::net
