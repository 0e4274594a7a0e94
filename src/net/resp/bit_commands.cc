// Commands on values as rows of bits.

#include <optional>
#include <string>
#include <vector>

#include "command/bits.h"
#include "command/value_range.h"
#include "isotherm/bitfield.h"
#include "net/resp/handlers.h"
#include "net/server_state.h"
#include "net/text.h"

namespace isotherm::net {
namespace {

// The position of a bit, as far as a value may reach.
std::optional<uint64_t> parse_offset(const Call& call, std::string_view word) {
  const auto offset = parse_integer(word);
  if (!offset || *offset < 0) return std::nullopt;
  const auto bit = static_cast<uint64_t>(*offset);
  if (bit / 8 >= call.turn.server.live.proto_max_bulk_len) return std::nullopt;
  return bit;
}

constexpr const char* bad_offset = "ERR bit offset is not an integer or out of range";

void encode_bit(const Answer& answer, const AnswerSource& source, RespWriter& writer) {
  const Reply& reply = source.batch.reply(answer.first_row);
  if (write_failure(reply.status.load(std::memory_order_acquire), writer)) return;
  const uint64_t bits = reply.value().size() * 8;
  const bool alone = reply.number == Batch::part_alone;  // its byte
  const auto bit = static_cast<uint64_t>(alone ? answer.number % 8 : answer.number);
  writer.integer(bit < bits ? static_cast<int64_t>(count_bits(reply.value(), bit, bit + 1)) : 0);
}

// ---- BITCOUNT and BITPOS ----

// What the answer's number holds, in bits; the row's note has the first and the last place.
constexpr int64_t in_bits = 1;   // the range is in bits, not bytes
constexpr int64_t has_last = 2;  // the end was given
constexpr int64_t seeks_set = 4;

// The range of bits that a row asks for, within its value; empty where they are in no order.
struct BitRange {
  uint64_t first;
  uint64_t end;
};
BitRange range_of(const Answer& answer, const AnswerSource& source, std::string_view value) {
  const Batch::Columns& columns = source.batch.columns();
  const uint64_t unit = (answer.number & in_bits) != 0 ? 1 : 8;
  const ValueRange units = ValueRange::of(
      columns.number[answer.first_row], columns.expiry[answer.first_row], value.size() * 8 / unit);
  return {units.first * unit, (units.first + units.count) * unit};
}

void encode_bitcount(const Answer& answer, const AnswerSource& source, RespWriter& writer) {
  const Reply& reply = source.batch.reply(answer.first_row);
  if (write_failure(reply.status.load(std::memory_order_acquire), writer)) return;
  const Batch::Columns& columns = source.batch.columns();
  if (ValueRange::are_backwards(columns.number[answer.first_row],
                                columns.expiry[answer.first_row])) {
    return writer.integer(0);
  }
  const BitRange range = range_of(answer, source, reply.value());
  writer.integer(static_cast<int64_t>(count_bits(reply.value(), range.first, range.end)));
}

void encode_bitpos(const Answer& answer, const AnswerSource& source, RespWriter& writer) {
  const Reply& reply = source.batch.reply(answer.first_row);
  const Status status = reply.status.load(std::memory_order_acquire);
  if (write_failure(status, writer)) return;
  const bool bit = (answer.number & seeks_set) != 0;
  // A missing value is zeros without end, whatever the range.
  if (status == Status::not_found) return writer.integer(bit ? -1 : 0);
  const BitRange range = range_of(answer, source, reply.value());
  const uint64_t found = find_bit(reply.value(), bit, range.first, range.end);
  if (found < range.end) return writer.integer(static_cast<int64_t>(found));
  // Zeros follow a value whose end nobody named.
  const bool goes_on = !bit && (answer.number & has_last) == 0 && range.first < range.end;
  writer.integer(goes_on ? static_cast<int64_t>(range.end) : -1);
}

struct AskedRange {
  int64_t first = 0;
  int64_t last = -1;
  bool has_last = false;
  bool bits = false;
};

// Reads the range from argument i on. The fault of the arguments, or null. BITCOUNT looks at the
// unit last, and not at all where that cannot matter; BITPOS looks at it before the end.
const char* parse_range(const Call& call, size_t i, bool unit_last, AskedRange& asked) {
  constexpr const char* no_integer = "-ERR value is not an integer or out of range\r\n";
  constexpr const char* syntax_error = "-ERR syntax error\r\n";
  const auto parse = [&](size_t at, int64_t& end) {
    const auto number = call.size() > at ? parse_integer(call[at]) : end;
    end = number.value_or(0);
    return number.has_value();
  };
  if (call.size() > i + 3) return syntax_error;
  const std::string_view unit = call.size() == i + 3 ? call[i + 2] : "byte";
  asked.bits = equals_ignoring_case(unit, "bit");
  asked.has_last = call.size() > i + 1;
  const bool unit_is_right = asked.bits || equals_ignoring_case(unit, "byte");
  if (!parse(i, asked.first)) return no_integer;
  if (!unit_is_right && !unit_last) return syntax_error;
  if (!parse(i + 1, asked.last)) return no_integer;
  if (unit_is_right || ValueRange::are_backwards(asked.first, asked.last)) return nullptr;
  return syntax_error;
}

void answer_about_range(Call& call, const AskedRange& asked, Encode encode, int64_t form) {
  const Batch::Row row = call.batch().get(call[1]);
  call.batch().note(row, asked.first, asked.last);
  call.answer(encode, row, 1, form | (asked.bits ? in_bits : 0) | (asked.has_last ? has_last : 0));
}

// A fault is of no matter where the value is missing.
void answer_fault(Call& call, std::string_view fault, std::string_view if_missing) {
  const Batch::Row row = call.batch().get(call[1], option::no_value);
  call.answer_by_presence(row, fault, if_missing);
}

// ---- BITFIELD ----

using Step = BitfieldStep;

// A type like i16 or u8, as far as a zero byte.
bool parse_type(std::string_view word, Step& step) {
  word = word.substr(0, word.find('\0'));
  if (word.empty() || (word[0] != 'i' && word[0] != 'u')) return false;
  step.is_signed = word[0] == 'i';
  const auto bits = parse_integer(word.substr(1));
  if (!bits || *bits < 1 || *bits > (step.is_signed ? 64 : 63)) return false;
  step.bits = static_cast<uint8_t>(*bits);
  return true;
}

// An offset in bits, or with # in fields.
bool parse_field_offset(const Call& call, std::string_view word, Step& step) {
  const bool in_fields = word.starts_with('#');
  if (in_fields) word.remove_prefix(1);
  const auto number = parse_integer(word);
  int64_t bit = 0;
  if (!number || __builtin_mul_overflow(*number, in_fields ? step.bits : 1, &bit)) return false;
  if (bit < 0) return false;
  step.offset = static_cast<uint64_t>(bit);
  return step.offset / 8 < call.turn.server.live.proto_max_bulk_len;
}

bool parse_overflow(std::string_view word, Step::Overflow& overflow) {
  if (equals_ignoring_case(word, "wrap")) {
    overflow = Step::Overflow::wrap;
  } else if (equals_ignoring_case(word, "sat")) {
    overflow = Step::Overflow::saturate;
  } else if (equals_ignoring_case(word, "fail")) {
    overflow = Step::Overflow::fail;
  } else {
    return false;
  }
  return true;
}

// The step at argument i, whose operand is checked too; its number of words, or 0: answered.
size_t parse_step(Call& call, size_t i, Step& step) {
  const size_t behind = call.size() - i - 1;
  if (equals_ignoring_case(call[i], "get") && behind >= 2) {
    step.kind = Step::Kind::get;
  } else if (equals_ignoring_case(call[i], "set") && behind >= 3) {
    step.kind = Step::Kind::set;
  } else if (equals_ignoring_case(call[i], "incrby") && behind >= 3) {
    step.kind = Step::Kind::add;
  } else {
    return call.syntax_error(), 0;
  }
  if (!parse_type(call[i + 1], step)) {
    call.error(
        "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not "
        "supported but i64 is.");
    return 0;
  }
  if (!parse_field_offset(call, call[i + 2], step)) return call.error(bad_offset), 0;
  if (step.kind == Step::Kind::get) return 3;
  return call.integer(i + 3, &step.operand) ? 4 : 0;
}

bool parse_steps(Call& call, std::vector<Step>& steps) {
  Step::Overflow overflow = Step::Overflow::wrap;
  for (size_t i = 2; i < call.size();) {
    if (equals_ignoring_case(call[i], "overflow") && i + 1 < call.size()) {
      if (!parse_overflow(call[i + 1], overflow)) {
        call.error("ERR Invalid OVERFLOW type specified");
        return false;
      }
      i += 2;
      continue;
    }
    Step step;
    step.overflow = overflow;
    const size_t words = parse_step(call, i, step);
    if (words == 0) return false;
    steps.push_back(step);
    i += words;
  }
  return true;
}

// The steps are the answer's text. Those that only read run here.
void encode_bitfield(const Answer& answer, const AnswerSource& source, RespWriter& writer) {
  const Reply& reply = source.batch.reply(answer.first_row);
  if (write_failure(reply.status.load(std::memory_order_acquire), writer)) return;
  const std::span<Step> steps = bitfield_steps(answer.text);
  if (bitfield_bytes(steps) == 0) {
    read_bitfield(steps, reply.value().data(), reply.value().size());
  }
  writer.array(steps.size());
  for (const Step& step : steps) step.stored ? writer.integer(step.result) : writer.null();
}

void answer_bitfield(Call& call, bool reads_only) {
  std::vector<Step> parsed;
  if (!parse_steps(call, parsed)) return;
  const bool writes = bitfield_bytes(parsed) != 0;
  if (writes && reads_only) {
    return call.error("ERR BITFIELD_RO only supports the GET subcommand");
  }
  if (writes) call.copies();
  std::vector<Step>& steps = call.keep(std::move(parsed));
  const Batch::Row row = writes ? call.batch().bitfield(call[1], steps) : call.batch().get(call[1]);
  call.answer_with(encode_bitfield, as_value(steps), row);
}

}  // namespace

namespace handlers {

void setbit(Call& call) {
  constexpr const char* bad_bit = "ERR bit is not an integer or out of range";
  const auto offset = parse_offset(call, call[2]);
  if (!offset) return call.error(bad_offset);
  const auto bit = parse_integer(call[3]);
  if (!bit || *bit < 0 || *bit > 1) return call.error(bad_bit);
  const auto place = static_cast<int64_t>(*offset);
  call.copies();
  call.answer(encode_number, call.batch().set_bit(call[1], place, *bit == 1));
}

void getbit(Call& call) {
  const auto offset = parse_offset(call, call[2]);
  if (!offset) return call.error(bad_offset);
  const auto bit = static_cast<int64_t>(*offset);
  call.answer(encode_bit, call.batch().get_part(call[1], bit / 8, bit / 8), 1, bit);
}

void bitcount(Call& call) {
  AskedRange asked;
  const char* fault =
      call.size() == 3 ? "-ERR syntax error\r\n" : parse_range(call, 2, true, asked);
  if (fault != nullptr) return answer_fault(call, fault, ":0\r\n");
  answer_about_range(call, asked, encode_bitcount, 0);
}

void bitpos(Call& call) {
  int64_t bit = 0;
  if (!call.integer(2, &bit)) return;
  if (bit != 0 && bit != 1) return call.error("ERR The bit argument must be 1 or 0.");
  AskedRange asked;
  if (const char* fault = parse_range(call, 3, false, asked)) {
    return answer_fault(call, fault, bit == 1 ? ":-1\r\n" : ":0\r\n");
  }
  answer_about_range(call, asked, encode_bitpos, bit == 1 ? seeks_set : 0);
}

void bitfield(Call& call) { answer_bitfield(call, false); }
void bitfield_ro(Call& call) { answer_bitfield(call, true); }

}  // namespace handlers
}  // namespace isotherm::net
