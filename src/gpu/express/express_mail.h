// Express mail: how a few requests reach a kernel that is already running, and replies come back,
// through memory of the host that the device reads and writes over the bus.
//
// Layout. A mailbox is pinned memory of the host for up to `rows` requests. A word of 64 bits
// travels as two halves of 8 bytes, 32 bits of the word and a tag each, so every half shows by
// itself, without a fence or a flag that costs a trip of its own, whether it has arrived. A tag has
// the number of the mail, of a key also its operation and the count of rows, of a reply what was
// found.
//
//   stop              the launch that is to end        written by the host
//   keys, values, expected   a word a row; values where the row writes, expected where it compares
//   replies           a word a row                     written by the device
//   gone              the last launch that has ended here
//
// The first key is written last, so that whoever sees it finds the other rows. A mailbox has one
// mail under way: the next is written when all replies are there.
//
// Limits. Numbers of mails end at `last_mail`; the host clears the mailbox and begins anew, so that
// no tag is ever met twice. Sources. H-Rocks, section 6 (few requests need another path than many);
// the mail is this project's.
#pragma once

#include <cstdint>

#include "base/macros.h"

namespace isotherm {

struct MailWord {
  uint64_t low = 0;   // tag << 32 | bits 0 to 31
  uint64_t high = 0;  // tag << 32 | bits 32 to 63

  ISOTHERM_HOST_DEVICE static constexpr MailWord of(uint64_t word, uint32_t tag) {
    const uint64_t upper = uint64_t{tag} << 32;
    return {upper | (word & 0xFFFFFFFF), upper | word >> 32};
  }
  ISOTHERM_HOST_DEVICE constexpr uint64_t word() const { return high << 32 | (low & 0xFFFFFFFF); }
  ISOTHERM_HOST_DEVICE constexpr uint32_t tag() const { return static_cast<uint32_t>(low >> 32); }
};

// What a word says besides its bits.
struct MailTag {
  static constexpr int more_bits = 9;
  static constexpr uint32_t last_number = (1u << (32 - more_bits)) - 1;

  uint32_t number = 0;
  uint32_t more = 0;  // of a key: its operation, and 8 × the count of rows less one

  ISOTHERM_HOST_DEVICE static constexpr MailTag of(MailWord word) {
    return {word.tag() >> more_bits, word.tag() & ((1u << more_bits) - 1)};
  }
  ISOTHERM_HOST_DEVICE constexpr uint32_t bits() const { return number << more_bits | more; }
};

// Whether both halves of a word belong to the mail.
ISOTHERM_HOST_DEVICE constexpr bool is_of_mail(MailWord word, uint32_t number) {
  return MailTag::of(word).number == number && word.low >> 32 == word.high >> 32;
}

struct ExpressMailbox {
  static constexpr uint32_t rows = 64;
  // In the tag of a reply; 0 and 1 are absent and present.
  static constexpr uint32_t no_memory = 2;

  alignas(128) MailWord stop;  // bare, without a tag
  alignas(128) MailWord keys[rows];
  MailWord values[rows];
  MailWord expected[rows];
  alignas(128) MailWord replies[rows];
  alignas(128) uint64_t gone;
};

}  // namespace isotherm
