// DbStatus: what became of a call on a Db (isotherm/db.h): a code for programs, and a text for
// people where it is not `ok`.
//
// Threads. A value, as a string is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace isotherm {

class [[nodiscard]] DbStatus {
 public:
  enum class Code : uint8_t {
    ok,
    not_found,      // the key is absent
    busy,           // what the transaction has read was changed meanwhile; nothing was written
    timed_out,      // a key is locked by another transaction for longer than this one waits
    deadlock,       // two transactions would wait for each other; this one is to be rolled back
    invalid,        // the call makes no sense, or a key or value is too large
    merge_failed,   // a merge function refused; nothing was written
    out_of_memory,  // nothing was written, unless the text says so
    not_saved,      // the disk fails: it was not written, or may be there after a restart
    corrupt,        // what is on disk cannot be understood
    failed,         // the Db could not be opened
  };

  DbStatus() = default;
  DbStatus(Code code, std::string text) : code_(code), text_(std::move(text)) {}

  bool ok() const { return code_ == Code::ok; }
  bool is(Code code) const { return code_ == code; }
  bool is_not_found() const { return code_ == Code::not_found; }
  Code code() const { return code_; }
  const std::string& text() const { return text_; }

 private:
  Code code_ = Code::ok;
  std::string text_;
};

std::string_view to_string(DbStatus::Code code);

}  // namespace isotherm
