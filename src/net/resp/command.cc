#include "net/resp/command.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "net/resp/handlers.h"
#include "net/resp/refusals.h"
#include "net/text.h"

namespace isotherm::net {
namespace {

void encode_error(const Answer& answer, const AnswerSource&, RespWriter& writer) {
  writer.error(answer.text);
}

// A small open table from a name to its command. Names are looked up once per request, so neither
// the case nor a copy of the name may cost an allocation.
class Lookup {
 public:
  Lookup() {
    uint16_t number = 1;
    for (const Command& command : command_table()) {
      add(command, number);
      number = static_cast<uint16_t>(number + 1 + command.subcommands.size());
    }
    for (const Command& command : unlisted_commands()) add(command, 0);
  }

  NumberedCommand find(std::string_view name) const {
    for (size_t at = hash(name); cells_[at].command != nullptr; at = (at + 1) % cells_.size()) {
      if (equals_ignoring_case(cells_[at].command->name, name)) return cells_[at];
    }
    return {};
  }

 private:
  void add(const Command& command, uint16_t number) {
    size_t at = hash(command.name);
    while (cells_[at].command != nullptr) at = (at + 1) % cells_.size();
    cells_[at] = {&command, number};
  }
  static size_t hash(std::string_view name) {
    uint32_t state = 2'166'136'261u;
    for (const char c : name) state = (state ^ static_cast<uint8_t>(c | 0x20)) * 16'777'619u;
    return (state ^ state >> 15) % 1024;
  }

  std::array<NumberedCommand, 1024> cells_{};
};

[[gnu::noinline]] NumberedCommand look_up(std::string_view name) {
  static const Lookup lookup;
  // A name longer than that is no command, and is not hashed.
  if (name.empty() || name.size() > 32) return {};
  return lookup.find(name);
}

// The names that this thread's clients sent last, as they wrote them: clients repeat a few, which
// are recognised without hashing.
class Recent {
 public:
  static constexpr size_t longest = 16;

  // A name of 1 to `longest` bytes, compared by loads of a fixed size that may overlap.
  bool is(std::string_view name) const {
    if (name.size() != size_) return false;
    if (size_ >= 8) return has_ends<uint64_t>(name);
    if (size_ >= 4) return has_ends<uint32_t>(name);
    return name[0] == name_[0] && name[size_ / 2] == name_[size_ / 2] &&
           name[size_ - 1] == name_[size_ - 1];
  }
  // Looks it up and remembers it.
  [[gnu::noinline]] NumberedCommand replace(std::string_view name) {
    const NumberedCommand command = look_up(name);
    if (command.command == nullptr) return {};
    size_ = name.copy(name_.data(), name.size());
    return found = command;
  }

  NumberedCommand found;

 private:
  template <typename Word>
  bool has_ends(std::string_view name) const {
    return load<Word>(name.data()) == load<Word>(name_.data()) &&
           load<Word>(name.data() + size_ - sizeof(Word)) ==
               load<Word>(name_.data() + size_ - sizeof(Word));
  }
  template <typename Word>
  static Word load(const char* from) {
    Word word;
    std::memcpy(&word, from, sizeof word);
    return word;
  }

  size_t size_ = 0;
  std::array<char, longest> name_{};
};
thread_local constinit std::array<Recent, 16> recent{};

}  // namespace

void Call::answer_raw(std::string_view reply) { answer_text(encode_raw, reply); }

void Call::answer_owned(Encode encode, std::string text, int64_t number) {
  answer_text(encode, queue_.texts.emplace_back(std::move(text)), number);
}

namespace {

// The first reply in the text, which has the length `number`, or the second.
void encode_by_presence(const Answer& answer, const AnswerSource& source, RespWriter& writer) {
  const Reply& reply = source.batch.reply(answer.first_row);
  const Status status = reply.status.load(std::memory_order_acquire);
  if (write_failure(status, writer)) return;
  const auto length = static_cast<size_t>(answer.number);
  const std::string_view text =
      status == Status::ok ? answer.text.substr(0, length) : answer.text.substr(length);
  // Errors are counted.
  if (text.starts_with('-')) return writer.error(text.substr(1));
  writer.raw(text);
}

}  // namespace

void Call::answer_by_presence(Batch::Row row, std::string_view found, std::string_view missing) {
  const std::string& both = queue_.texts.emplace_back(std::string(found) + std::string(missing));
  answer_with(encode_by_presence, both, row, 1, static_cast<int64_t>(found.size()));
}

void Call::error(std::string text) { answer_owned(encode_error, std::move(text)); }

void Call::wrong_arity() { error(net::wrong_arity(command)); }

bool Call::integer(size_t i, int64_t* value) {
  const auto parsed = parse_integer(arguments[i]);
  if (!parsed) {
    not_an_integer();
    return false;
  }
  *value = *parsed;
  return true;
}

NumberedCommand find_numbered(std::string_view name) {
  if (name.empty() || name.size() > Recent::longest) return look_up(name);
  Recent& last = recent[(static_cast<uint8_t>(name[0]) + name.size()) % recent.size()];
  if (last.is(name)) return last.found;
  return last.replace(name);
}

NumberedCommand find_numbered(const NumberedCommand& container, std::string_view name) {
  const Command* found = find_subcommand(*container.command, name);
  if (found == nullptr) return {};
  const auto place = found - container.command->subcommands.data();
  return {found, static_cast<uint16_t>(container.number + 1 + place)};
}

size_t Command::stored_word() const {
  if (handler == handlers::set || handler == handlers::setnx || handler == handlers::getset) {
    return 2;
  }
  return handler == handlers::setex || handler == handlers::psetex ? 3 : 0;
}

const Command* find_command(std::string_view name) { return find_numbered(name).command; }

const Command* find_subcommand(const Command& container, std::string_view name) {
  for (const Command& command : container.subcommands) {
    if (equals_ignoring_case(command.own_name(), name)) return &command;
  }
  return nullptr;
}

FoundCommand find_command_of(Arguments words) {
  if (words.empty()) return {};
  const NumberedCommand found = find_numbered(words[0]);
  if (found.command == nullptr) return {};
  const Command& command = *found.command;
  const bool plain = command.subcommands.empty() && !command.waits() && command.takes(words.size());
  return {found, (command.flags & command_flag::readonly) != 0, plain};
}

bool is_unsaved(const Answer& answer, const Batch& batch) {
  for (Batch::Row row = answer.first_row; row < answer.first_row + answer.rows; ++row) {
    if (batch.reply(row).status == Status::not_saved) return true;
  }
  return false;
}

bool shows_value(const Batch& batch, Batch::Row first) {
  if (first == batch.size()) return false;
  const Batch::Columns& columns = batch.columns();
  const Op op = columns.op[first];
  const uint16_t options = columns.options[first];
  return (options & option::want_previous) != 0 || op == Op::get ||
         (op == Op::expire && (options & option::no_value) == 0);
}

}  // namespace isotherm::net
