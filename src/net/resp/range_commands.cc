// Commands on parts of strings, on fractions, and LCS.

#include <algorithm>

#include "command/decimal.h"
#include "command/lcs.h"
#include "command/value_range.h"
#include "net/resp/handlers.h"
#include "net/server_state.h"
#include "net/text.h"

namespace isotherm::net {
namespace {

// The row's note has the first and the last byte, negative ones from the end on.
void encode_range(const Answer& answer, const AnswerSource& source, RespWriter& writer) {
  const Reply& reply = source.batch.reply(answer.first_row);
  if (write_failure(reply.status.load(std::memory_order_acquire), writer)) return;
  if (reply.number == Batch::part_alone) return writer.bulk(reply.value());
  const Batch::Columns& columns = source.batch.columns();
  const ValueRange range = ValueRange::in_order(columns.number[answer.first_row],
                                                columns.expiry[answer.first_row], reply.size);
  if (range.count == 0) return writer.bulk("");
  writer.bulk(reply, reply.value().substr(range.first, range.count));
}

// What LCS answers; the answer's number holds the bits.
constexpr int64_t only_length = 1;
constexpr int64_t with_places = 2;
constexpr int64_t with_sizes = 4;

void write_place(uint64_t begin, uint64_t size, RespWriter& writer) {
  writer.array(2);
  writer.integer(static_cast<int64_t>(begin));
  writer.integer(static_cast<int64_t>(begin + size - 1));
}

void write_places(std::vector<CommonPiece> pieces, uint64_t least, bool sizes, RespWriter& writer) {
  uint64_t length = 0;
  for (const CommonPiece& piece : pieces) length += piece.size;
  std::erase_if(pieces, [&](const CommonPiece& piece) { return piece.size < least; });
  writer.map(2);
  writer.bulk("matches");
  writer.array(pieces.size());
  for (const CommonPiece& piece : pieces) {
    writer.array(sizes ? 3 : 2);
    write_place(piece.first, piece.size, writer);
    write_place(piece.second, piece.size, writer);
    if (sizes) writer.integer(static_cast<int64_t>(piece.size));
  }
  writer.bulk("len");
  writer.integer(static_cast<int64_t>(length));
}

// Redis takes four bytes for each cell of its table, and says so where that is too much.
bool too_long_for_lcs(std::string_view first, std::string_view second, uint64_t most_bytes,
                      RespWriter& writer) {
  if (std::max(first.size(), second.size()) >= UINT32_MAX - 1) {
    writer.error("ERR String too long for LCS");
    return true;
  }
  const uint64_t cells = (uint64_t{first.size()} + 1) * (uint64_t{second.size()} + 1);
  if (cells <= most_bytes / 4) return false;
  writer.error("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len");
  return true;
}

constexpr std::string_view no_strings = "ERR The specified keys must contain string values";

// Whether one of the two gets has failed, which is written.
bool write_failure_of_lcs(const Answer& answer, const AnswerSource& source, RespWriter& writer) {
  const auto status_of = [&](Batch::Row row) {
    return source.batch.reply(row).status.load(std::memory_order_acquire);
  };
  const Status first = status_of(answer.first_row);
  const Status second = status_of(answer.first_row + 1);
  if (first == Status::wrong_type || second == Status::wrong_type) {
    writer.error(no_strings);
    return true;
  }
  return write_failure(first, writer) || write_failure(second, writer);
}

// Answers with the fault of the arguments, unless the keys have one, which goes first.
void encode_fault_of_lcs(const Answer& answer, const AnswerSource& source, RespWriter& writer) {
  if (!write_failure_of_lcs(answer, source, writer)) writer.error(answer.text);
}

// Two gets, whose first notes the least size of a match and how much memory may be used.
void encode_lcs(const Answer& answer, const AnswerSource& source, RespWriter& writer) {
  const Batch& batch = source.batch;
  const Batch::Row row = answer.first_row;
  if (write_failure_of_lcs(answer, source, writer)) return;
  const std::string_view first = batch.reply(row).value();
  const std::string_view second = batch.reply(row + 1).value();
  const auto least = static_cast<uint64_t>(batch.columns().number[row]);
  const auto most_bytes = static_cast<uint64_t>(batch.columns().expiry[row]);
  if (too_long_for_lcs(first, second, most_bytes, writer)) return;
  if (answer.number & with_places) {
    return write_places(lcs_pieces(first, second), least, answer.number & with_sizes, writer);
  }
  if (answer.number & only_length) {
    return writer.integer(static_cast<int64_t>(lcs_length(first, second)));
  }
  writer.bulk(join_pieces(first, lcs_pieces(first, second)));
}

// The fault of the arguments; empty: none.
std::string_view parse_lcs(const Call& call, int64_t* form, int64_t* least) {
  for (size_t i = 3; i < call.size(); ++i) {
    if (equals_ignoring_case(call[i], "idx")) {
      *form |= with_places;
    } else if (equals_ignoring_case(call[i], "len")) {
      *form |= only_length;
    } else if (equals_ignoring_case(call[i], "withmatchlen")) {
      *form |= with_sizes;
    } else if (equals_ignoring_case(call[i], "minmatchlen") && i + 1 < call.size()) {
      const auto number = parse_integer(call[++i]);
      if (!number) return "ERR value is not an integer or out of range";
      *least = *number;
    } else {
      return "ERR syntax error";
    }
  }
  if ((*form & with_places) == 0 || (*form & only_length) == 0) return {};
  return "ERR If you want both the length and indexes, please just use IDX.";
}

}  // namespace

namespace handlers {

void incrbyfloat(Call& call) {
  call.answer(encode_value, call.batch().add_float(call[1], call[2]));
}

void setrange(Call& call) {
  int64_t offset = 0;
  if (!call.integer(2, &offset)) return;
  if (offset < 0) return call.error("ERR offset is out of range");
  call.copies();
  call.answer(encode_number, call.batch().set_range(call[1], offset, call[3]));
}

void getrange(Call& call) {
  int64_t first = 0;
  int64_t last = 0;
  if (!call.integer(2, &first) || !call.integer(3, &last)) return;
  call.answer(encode_range, call.batch().get_part(call[1], first, last));
}

void lcs(Call& call) {
  int64_t form = 0;
  int64_t least = 0;
  const std::string_view fault = parse_lcs(call, &form, &least);
  const uint16_t options = fault.empty() ? 0 : option::no_value;
  const Batch::Row row = call.batch().get(call[1], options);
  call.batch().get(call[2], options);
  call.batch().view(row);
  if (!fault.empty()) return call.answer_with(encode_fault_of_lcs, fault, row, 2);
  const auto most_bytes = static_cast<int64_t>(call.turn.server.live.proto_max_bulk_len);
  call.batch().note(row, std::max<int64_t>(least, 0), most_bytes);
  call.answer(encode_lcs, row, 2, form);
}

}  // namespace handlers
}  // namespace isotherm::net
