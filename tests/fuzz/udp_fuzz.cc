// Reads datagrams as memcached's by UDP: what has a right frame goes to a parser of its own, whose
// rest is dropped, as a server does it; and replies are divided into datagrams. The first two bytes
// of the input are the length of the reply.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "net/memcached/parser.h"
#include "net/udp/frame.h"

namespace {

using isotherm::Batch;
using isotherm::net::MemcachedAnswer;
using isotherm::net::MemcachedParser;
using isotherm::net::UdpFrame;

constexpr int64_t now_ms = 1'700'000'000'000;

void check_request(std::string_view datagram) {
  // Exactly this long, so that a read behind its end is seen.
  const std::vector<char> bytes(datagram.begin(), datagram.end());
  UdpFrame frame;
  const bool right = UdpFrame::read({bytes.data(), bytes.size()}, frame) == UdpFrame::Fault::none;
  if (right != (bytes.size() > UdpFrame::header_bytes && frame.number == 0 && frame.count == 1 &&
                UdpFrame::read({bytes.data(), bytes.size()}, frame) != UdpFrame::Fault::foreign)) {
    std::abort();
  }
  if (!right) return;
  char header[UdpFrame::header_bytes];
  frame.write(header);
  constexpr size_t said = 6;  // the last two bytes are nobody's
  if (std::memcmp(header, bytes.data(), said) != 0) std::abort();
  const std::string_view all(bytes.data() + UdpFrame::header_bytes,
                             bytes.size() - UdpFrame::header_bytes);
  MemcachedParser parser;
  size_t taken = 0;
  do {
    Batch batch;
    std::vector<MemcachedAnswer> answers;
    const size_t more = parser.parse(all.substr(taken), {now_ms, 64, batch, answers});
    if (more > all.size() - taken) std::abort();
    taken += more;
  } while (parser.stopped_early() && taken < all.size());
}

void check_reply(size_t bytes) {
  const size_t count = UdpFrame::datagrams(bytes);
  if (count * UdpFrame::payload_bytes < bytes) std::abort();
  if (count != 0 && (count - 1) * UdpFrame::payload_bytes >= bytes) std::abort();
  if (UdpFrame::sent_bytes(bytes) > count * UdpFrame::datagram_bytes) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  check_reply(size_t{data[0]} << 8 | data[1]);
  check_request({reinterpret_cast<const char*>(data) + 2, size - 2});
  return 0;
}
