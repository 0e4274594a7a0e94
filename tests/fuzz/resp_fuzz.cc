// Feeds the RESP parser a stream of bytes, whole and in pieces, and demands the same requests and
// the same error. The first byte of the input is the size of the pieces.
//
// The limit of a bulk string is small here, so that the check against it is reached.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "net/resp/parser.h"

namespace {

using isotherm::net::RespParser;

constexpr uint64_t max_bulk_bytes = 1 << 16;

// What a stream was parsed to, requests and words marked off by their lengths.
struct Trace {
  std::string requests;
  std::string error;
};

// One parser per stream; the bytes not consumed stay in front, as in a connection's buffer.
class Stream {
 public:
  // False once framing is lost.
  bool feed(std::string_view piece) {
    pending_.append(piece);
    while (!pending_.empty()) {
      // A buffer of exactly this size, so that a read behind its end is seen.
      const std::vector<char> input(pending_.begin(), pending_.end());
      const auto outcome = parser_.next({input.data(), input.size()});
      if (outcome == RespParser::Outcome::incomplete) return true;
      if (outcome == RespParser::Outcome::error) {
        trace_.error = parser_.error();
        return false;
      }
      if (parser_.consumed() == 0 || parser_.consumed() > input.size()) std::abort();
      trace_.requests += '*';
      for (const std::string_view word : parser_.arguments()) {
        trace_.requests += std::to_string(word.size()) + ':';
        trace_.requests += word;
      }
      pending_.erase(0, parser_.consumed());
      parser_.release();
    }
    return true;
  }
  const Trace& trace() const { return trace_; }

 private:
  RespParser parser_{max_bulk_bytes};
  std::string pending_;
  Trace trace_;
};

Trace run(std::string_view bytes, size_t piece) {
  Stream stream;
  while (!bytes.empty() && stream.feed(bytes.substr(0, piece))) {
    bytes.remove_prefix(std::min(piece, bytes.size()));
  }
  return stream.trace();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Trace whole = run(bytes, bytes.size() + 1);
  const Trace pieces = run(bytes, size_t{1} + data[0]);
  if (whole.requests != pieces.requests || whole.error != pieces.error) std::abort();
  return 0;
}
