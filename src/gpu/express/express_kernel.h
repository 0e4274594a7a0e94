// ExpressKernel: a kernel that stays on a few multiprocessors and answers mail as it comes.
//
// Each block has a mailbox (gpu/express/express_mail.h). Its first warp looks for mail; a look, a
// trip over the bus of about a microsecond, brings all of the rows that the warp answers itself, in
// one access: a second one to the same line would have to wait for the first to come back, so there
// is one look under way at a time. Of a mail of more than 8 rows the other warps, which wait at a
// barrier, are told. A tile answers two rows, both at once; what a lane cannot write by itself, the
// tile does (gpu/kernel/write_place.h), as in a batch without a key twice.
//
// It ends when it is told to, when it has not found mail for long, and after so many looks in any
// case: other work on the GPU may have to wait for it. What it must remember lies in device memory,
// so the next launch goes on with the next mail.
//
// Order. The host has one mail a mailbox under way and lets mails that write meet no other work on
// the table. Lines are read past the L1 cache, and what a mail wrote is there for all blocks before
// its replies are. The directory is that of the launch: the index may not grow meanwhile.
//
// Threads. `threads` a block. On a device whose operations do not overlap (Lane::takes_steps) a
// launch looks once and is repeated.
#pragma once

#include <cstdint>

#include "gpu/express/express_mail.h"
#include "gpu/kernel/line_kind.h"

namespace isotherm {

// Of one block; in device memory.
struct ExpressState {
  uint32_t seen = 0;    // the last mail
  uint32_t launch = 0;  // that the counts belong to
  uint32_t idle = 0;    // looks since the last mail
  uint32_t looks = 0;   // of this launch
  uint32_t ended = 0;   // whether it did
};

template <class Kind>
struct ExpressKernel {
  static constexpr uint32_t threads = 256;
  static constexpr uint32_t rows_per_tile = 2;
  static constexpr uint32_t rows_per_warp = 32 / tile_lanes * rows_per_tile;
  static_assert(threads / 32 * rows_per_warp == ExpressMailbox::rows);

  struct Mail {
    uint32_t number = 0;
    uint32_t count = 0;  // 0: none, and the launch ends
  };
  struct Shared {
    typename Kind::PlaceShared find;
    Mail told[2];  // of this pass and the next: the first warp is at most one ahead of the others
  };

  typename Kind::View table;
  ExpressMailbox* boxes = nullptr;
  ExpressState* states = nullptr;
  uint32_t launch = 0;  // from 1
  uint32_t most_idle = 0;
  uint32_t most_looks = 0;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    ExpressState state = states[lane.block()];
    if (state.launch != launch) state = {state.seen, launch, 0, 0, 0};
    if (state.ended != 0) return;
    auto* shared = lane.template shared<Shared>();
    ExpressMailbox& box = boxes[lane.block()];
    const Duty duty = duty_of(lane, box);
    const bool leads = lane.thread() < 32;
    for (uint32_t pass = 0;; ++pass) {
      MailWord word;
      if (leads) lead(lane, *shared, box, duty, state, pass, word);
      lane.sync_block();
      const Mail mail = shared->told[pass % 2];
      if (mail.count == 0) break;
      // The others do not look for a stop: warps that read the same line wait for each other.
      if (!leads && duty.row < mail.count) word = read<Lane>(*duty.from);
      answer(lane, *shared, box, duty, word, mail);
    }
    if (lane.thread() == 0) leave(lane, box, state);
  }

  // On the host, for a device that repeats it: whether all blocks have ended.
  bool ended(uint32_t blocks) const {
    for (uint32_t i = 0; i < blocks; ++i) {
      if (__atomic_load_n(&boxes[i].gone, __ATOMIC_RELAXED) != launch) return false;
    }
    return true;
  }

 private:
  // What a lane has to do with a row: those of a tile's first two lanes answer it, the next two
  // read its value.
  struct Duty {
    const MailWord* from;
    uint32_t row;
    bool reads_key;
  };

  // The first warp's part of a pass: answers short mail, until it has news for the others, which
  // are mail, whose words it has read, or the end.
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void lead(const Lane& lane, Shared& shared,
                                                 ExpressMailbox& box, const Duty& duty,
                                                 ExpressState& state, uint32_t pass,
                                                 MailWord& word) const {
    Mail mail;
    while (state.ended == 0 && await_mail(lane, duty, state, word)) {
      mail = {state.seen, (lane.shuffle(whole_warp, MailTag::of(word).more, 0) >> 3) + 1};
      if (mail.count > rows_per_warp) break;
      answer(lane, shared, box, duty, word, mail);
      mail.count = 0;
    }
    if (lane.thread() == 0) shared.told[pass % 2] = mail;
  }

  // Looks until there is mail, whose number `state` has then, or the kernel is to end; false: no
  // mail. `word` is what the lane's duty is to read.
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool await_mail(const Lane& lane, const Duty& duty,
                                                       ExpressState& state, MailWord& word) const {
    do {
      word = look(lane, duty);
      ++state.looks;
      const bool first = lane.thread() == 0;
      const bool news = first && is_of_mail(word, state.seen + 1);
      const bool stop = duty.row == ExpressMailbox::rows && word.low == launch;
      const uint32_t votes = lane.ballot(whole_warp, news || stop);
      // Mail comes first: nobody else would answer it before the next launch.
      if ((votes & 1) != 0) {
        ++state.seen;
        state.idle = 0;
        if (state.looks >= most_looks) state.ended = 1;
        return true;
      }
      ++state.idle;
      if (votes != 0 || state.idle >= most_idle || state.looks >= most_looks) state.ended = 1;
    } while (state.ended == 0 && !Lane::takes_steps);
    return false;
  }

  // By one lane, after all have passed the barrier behind their last replies.
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void leave(const Lane& lane, ExpressMailbox& box,
                                                  const ExpressState& state) const {
    states[lane.block()] = state;
    if (state.ended == 0) return;
    lane.fence_system();
    Lane::store(&box.gone, uint64_t{launch});
  }

  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static Duty duty_of(const Lane& lane,
                                                           const ExpressMailbox& box) {
    const uint32_t in_tile = lane.thread() % tile_lanes;
    const uint32_t row = lane.thread() / tile_lanes * rows_per_tile + in_tile % rows_per_tile;
    if (in_tile < rows_per_tile) return {&box.keys[row], row, true};
    if (in_tile < 2 * rows_per_tile) return {&box.values[row], row, false};
    return {&box.stop, ExpressMailbox::rows, false};
  }

  // Lanes that came here one after another would read one after another.
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static MailWord look(const Lane& lane, const Duty& duty) {
    lane.sync_warp(whole_warp);
    return read<Lane>(*duty.from);
  }
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static MailWord read(const MailWord& from) {
    MailWord word;
    Lane::load_two(&from.low, word.low, word.high);
    return word;
  }
  // The word once it has arrived; the host wrote it before the first key. `word` is what a look
  // brought.
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static uint64_t await(const MailWord& from, uint32_t number,
                                                             MailWord word) {
    while (!is_of_mail(word, number)) word = read<Lane>(from);
    return word.word();
  }

  // One row's request.
  struct Operation {
    TableOp op = TableOp::get;
    uint64_t value = 0;
    uint64_t expected = 0;
  };

  // All lanes of a warp; `word` is what the lane's duty has read. Rows behind the mail's count are
  // nobody's.
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void answer(const Lane& lane, Shared& shared,
                                                   ExpressMailbox& box, const Duty& duty,
                                                   MailWord word, const Mail& mail) const {
    const SoleWriterTile<Lane> tile(lane);
    const bool mine = duty.reads_key && duty.row < mail.count;
    const uint32_t value_lane = (lane.thread() + rows_per_tile) % 32;
    const MailWord value{lane.shuffle(whole_warp, word.low, value_lane),
                         lane.shuffle(whole_warp, word.high, value_lane)};
    typename Kind::Home home;
    Operation its;
    if (mine) {
      while (!is_of_mail(word, mail.number)) word = read<Lane>(box.keys[duty.row]);
      its.op = static_cast<TableOp>(MailTag::of(word).more & 7);
      home = table.home(table.hash(word.word()));
      if (is_write(its.op)) its.value = await<Lane>(box.values[duty.row], mail.number, value);
      if (its.op == TableOp::compare_and_swap) {
        its.expected = await<Lane>(box.expected[duty.row], mail.number, {});
      }
    }
    const KeyState before = apply_row(tile, shared, home, its, mine);
    if (lane.ballot(whole_warp, mine && is_write(its.op)) != 0) lane.fence();
    if (mine) reply<Lane>(box.replies[duty.row], mail.number, before);
  }

  // The state that a row found.
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE KeyState apply_row(const SoleWriterTile<Lane>& tile,
                                                          Shared& shared, typename Kind::Home home,
                                                          const Operation& its, bool mine) const {
    const auto at = Kind::template find_place<rows_per_tile, 2>(tile, shared.find, home);
    KeyState before{at.word, static_cast<uint8_t>(at.found)};
    const KeyState to = apply(its.op, its.value, its.expected, before);
    int32_t entries = 0;
    if (mine && Kind::template write<Lane>(at, home, to)) {
      entries = static_cast<int32_t>(to.found) - static_cast<int32_t>(before.found);
      home.clear();
    }
    // What no lane could write by itself.
    typename Kind::template Update<Lane> update(tile, table);
    Kind::tile_rows(tile, home, [&](uint32_t owner, const auto& row_home, const auto& view) {
      const auto op = static_cast<TableOp>(tile.from(static_cast<uint32_t>(its.op), owner));
      const uint64_t value = tile.from(its.value, owner);
      const uint64_t expected = tile.from(its.expected, owner);
      const KeyState found = update.run(
          row_home, view, [&](KeyState state) { return apply(op, value, expected, state); });
      if (tile.number() == owner) before = found;
    });
    update.count(entries);
    update.close();
    return before;
  }

  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static void reply(MailWord& to, uint32_t number,
                                                         KeyState before) {
    const bool refused = before.found == reply_retry;
    const MailTag tag{number, refused ? ExpressMailbox::no_memory : before.found};
    const MailWord word = MailWord::of(refused ? 0 : before.value, tag.bits());
    Lane::store_two(&to.low, word.low, word.high);
  }
};

}  // namespace isotherm
