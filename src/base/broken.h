// Rules that a test build breaks on purpose, to show that the tests catch it (tests/broken).
//
// Such a build defines ISOTHERM_BROKEN and is told by the environment, ISOTHERM_BREAK=name, which
// rule not to follow; without that it follows all. In every other build `broken` is false and
// nothing of it is compiled.
//
//   swaps      a root is replaced only by who has seen it              index/item_table.h
//   splits     a line that was copied is marked as moved               index/line_index_moves.cc
//   epochs     memory is used again when its readers have left         items, executor/values
//   parking    later rows of a key wait behind one that waits          executor/run/batch_run.cc
//   readiness  a row is ready when its value is there, not before executor/values/value_reader.cc
//   ending     a batch ends when its last row has                      engine/batch_runner.cc
//   retry      a full queue refuses                                    engine/crew.cc
//   groups     rows on keys that a group has wait                       executor/key_gate.h
//   guards     a guard may cancel rows behind it                       engine/batch_runner.cc
//   telling    a change is told before it can be seen                index/item_table.h
//   syncing    replies wait until what they show is safe               durability/journal.cc
//   ingesting  the journal keeps what no file of the tree has        tree/tree_writer.cc
//   checksums  a block whose sum is wrong is none                      durability/record.h
//   takeover   versions go on where a lost device has left them        executor/device
//   draining   keys go to another side when no round runs              executor/device/rounds.cc
//              bins move when earlier requests have ended              router/bin_flow.cc
//   taking     a word leaves the fast part before the index changes    hot/fast_part.cc
//   evicting   what an index of a fixed size evicts stays readable  executor/host/host_executor.cc
//   newest     frames are answered by what nobody has changed since    tree/tree_packets.cc
//   cooling    what a cold bin had in the fast part is taken away      hot/hot_table.cc
#pragma once

#include "base/macros.h"

namespace isotherm {

enum class Rule {
  none,
  swaps,
  splits,
  epochs,
  parking,
  readiness,
  ending,
  retry,
  groups,
  guards,
  telling,
  takeover,
  draining,
  taking,
  syncing,
  ingesting,
  checksums,
  cooling,
  evicting,
  newest
};

#if defined(ISOTHERM_BROKEN)
extern const Rule the_broken_rule;  // tests/broken/broken_rule.cc
ISOTHERM_INLINE bool broken(Rule rule) { return the_broken_rule == rule; }
#else
ISOTHERM_INLINE constexpr bool broken(Rule /*rule*/) { return false; }
#endif

}  // namespace isotherm
