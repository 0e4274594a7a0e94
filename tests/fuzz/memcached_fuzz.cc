// Feeds the memcached parser a stream of bytes whole, in pieces, and with few rows a turn, and
// demands the same requests and answers. The first byte of the input is the size of the pieces.
//
// Limits. The rows are not run. A line that is too long closes the connection depending on what has
// arrived, so a connection that closed is not compared. A get that fails for a key behind those
// that a turn took has appended fewer rows, so few rows a turn are compared by their answers only.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "net/memcached/parser.h"

namespace {

using isotherm::Batch;
using isotherm::net::MemcachedAnswer;
using isotherm::net::MemcachedParser;

constexpr int64_t now_ms = 1'700'000'000'000;
constexpr Batch::Row many_rows = 1 << 24;
constexpr Batch::Row few_rows = 3;

struct Trace {
  std::string rows;
  std::string answers;
  bool closed = false;
};

void describe(const Batch& batch, const std::vector<MemcachedAnswer>& answers, Trace& trace) {
  const Batch::Columns& columns = batch.columns();
  for (Batch::Row row = 0; row < batch.size(); ++row) {
    trace.rows += static_cast<char>('0' + static_cast<int>(columns.op[row]));
    trace.rows.append(columns.key[row]).append(" ");
    if (columns.op[row] == isotherm::Op::put) trace.rows.append(columns.value[row]);
  }
  for (const MemcachedAnswer& answer : answers) {
    // A get is divided wherever a turn ends, so only that it ends is compared.
    if (answer.unfinished) continue;
    trace.answers += answer.silent ? 's' : 'a';
    trace.answers += static_cast<char>('A' + static_cast<int>(answer.verb));
    if (answer.line_end == nullptr) trace.answers.append(answer.text);
  }
}

// One parser per stream; the bytes not consumed stay in front, as in a connection's buffer.
class Stream {
 public:
  explicit Stream(Batch::Row rows_per_turn) : rows_per_turn_(rows_per_turn) {}

  void feed(std::string_view piece) {
    pending_.append(piece);
    do {
      // A buffer of exactly this size, so that a read behind its end is seen.
      const std::vector<char> input(pending_.begin(), pending_.end());
      Batch batch;
      std::vector<MemcachedAnswer> answers;
      const size_t taken =
          parser_.parse({input.data(), input.size()}, {now_ms, rows_per_turn_, batch, answers});
      if (taken > input.size()) std::abort();
      if (batch.size() > rows_per_turn_) std::abort();
      describe(batch, answers, trace_);
      pending_.erase(0, taken);
    } while (parser_.stopped_early());
    trace_.closed = parser_.closing();
  }
  const Trace& trace() const { return trace_; }

 private:
  const Batch::Row rows_per_turn_;
  MemcachedParser parser_;
  std::string pending_;
  Trace trace_;
};

Trace run(std::string_view bytes, size_t piece, Batch::Row rows_per_turn) {
  Stream stream(rows_per_turn);
  while (!bytes.empty() && !stream.trace().closed) {
    stream.feed(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
  }
  return stream.trace();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Trace whole = run(bytes, bytes.size() + 1, many_rows);
  const Trace pieces = run(bytes, size_t{1} + data[0], many_rows);
  const Trace few = run(bytes, bytes.size() + 1, few_rows);
  if (whole.closed || pieces.closed || few.closed) return 0;
  if (whole.rows != pieces.rows || whole.answers != pieces.answers) std::abort();
  if (whole.answers != few.answers) std::abort();
  return 0;
}
