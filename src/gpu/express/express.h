// Express: the host's side of a kernel that stays on the device and answers a few requests at a
// time, without a launch.
//
// The rows of a call are spread over mailboxes (gpu/express/express_mail.h), few to each, since a
// mailbox with few rows is the fastest. The kernel is launched when mail is posted and none runs;
// it ends by itself when it is idle, and after a while in any case, so that work of others that
// needs the whole device (memory that is freed, for example) never waits long. Mail that it left
// unread is read by the next launch.
//
// Order. The caller sees to it that nothing on the device writes to the table between `post` and
// `take`, that nothing at all uses it where the call writes, and that no key comes twice in a call
// that writes. The index must not grow while the kernel runs: `end` first.
//
// Threads. One at a time. Errors. DeviceError when the device fails, std::bad_alloc. Limits.
// 64 rows for each mailbox a call, one call under way.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <new>
#include <vector>

#include "gpu/express/express_kernel.h"
#include "gpu/platform/device_error.h"
#include "gpu/platform/device_memory.h"
#include "gpu/platform/device_stream.h"
#include "gpu/platform/pinned_block.h"

namespace isotherm {

struct ExpressOptions {
  uint32_t mailboxes = 8;
  // Looks for mail, of about a microsecond each, until an idle kernel ends, and any.
  uint32_t most_idle = 1 << 12;
  uint32_t most_looks = 1 << 16;
  // Of a mailbox, before it is cleared.
  uint32_t last_mail = MailTag::last_number;
};

template <class Device, class Kind>
class Express {
 public:
  using View = typename Kind::View;
  using Kernel = ExpressKernel<Kind>;

  Express(DeviceMemory<Device>& memory, const ExpressOptions& options)
      : options_(options),
        device_(memory.device()),
        states_(memory, options.mailboxes),
        memory_(device_, options.mailboxes * sizeof(ExpressMailbox)),
        boxes_(reinterpret_cast<ExpressMailbox*>(memory_.data())),
        stream_(device_, device_.create_urgent_stream()) {
    if (states_.empty()) throw std::bad_alloc();
    clear();
  }
  ~Express() {
    try {
      end();
    } catch (const DeviceError&) {  // it ended with the device
    }
  }
  Express(const Express&) = delete;
  Express& operator=(const Express&) = delete;

  // Sends the rows, in host memory; `take` with the same requests brings the replies.
  void post(const View& table, const TableRequests& requests) {
    if (calls_ == options_.last_mail) {
      end();
      clear();
    }
    if (!resident_) launch(table);
    ++calls_;
    each_box(requests, [&](uint32_t box, uint64_t first, uint32_t rows) {
      const uint32_t number = ++numbers_[box];
      for (uint32_t i = rows; i-- > 0;) {
        write(boxes_[box], i, {number, (rows - 1) << 3}, requests, first + i);
      }
    });
  }

  struct Taken {
    int64_t entries = 0;    // more than before
    uint64_t inserted = 0;  // keys that were absent
  };
  Taken take(const TableRequests& requests) {
    Taken taken;
    each_box(requests, [&](uint32_t box, uint64_t first, uint32_t rows) {
      for (uint32_t i = 0; i < rows; ++i) read(wait_for(box, i), requests, first + i, taken);
    });
    return taken;
  }

  // Whether `take` would not wait, but for a launch.
  bool ready(const TableRequests& requests) {
    bool all = true;
    each_box(requests, [&](uint32_t box, uint64_t, uint32_t rows) {
      for (uint32_t i = 0; all && i < rows; ++i) {
        all = gone(box) || is_of_mail(reply(box, i), numbers_[box]);
      }
    });
    if (!all) pause(++asked_);
    return all;
  }

  // The kernel ends; mail that is under way is answered by the next.
  void end() {
    if (!resident_) return;
    for (uint32_t i = 0; i < options_.mailboxes; ++i) store(boxes_[i].stop.low, launch_);
    for (uint32_t i = 0; i < options_.mailboxes; ++i) {
      for (uint64_t looks = 1; !gone(i); ++looks) pause(looks);
    }
    resident_ = false;
  }

 private:
  // While no kernel runs.
  void clear() {
    std::fill_n(boxes_, options_.mailboxes, ExpressMailbox{});
    numbers_.assign(options_.mailboxes, 0);
    calls_ = 0;
    launch_ = 0;
    require_device(device_.clear(stream_.get(), states_.data(), states_.bytes()),
                   "clear mailboxes");
  }

  void launch(const View& table) {
    table_ = table;
    ++launch_;
    const Kernel kernel{
        table, boxes_, states_.data(), launch_, options_.most_idle, options_.most_looks};
    require_device(
        device_.launch_resident(stream_.get(), options_.mailboxes, Kernel::threads, kernel),
        "launch the express kernel");
    resident_ = true;
  }

  template <class Use>
  void each_box(const TableRequests& requests, Use&& use) const {
    const uint64_t wanted = (requests.rows + Kernel::rows_per_warp - 1) / Kernel::rows_per_warp;
    const uint64_t boxes = std::min<uint64_t>(wanted, options_.mailboxes);
    uint64_t first = 0;
    for (uint32_t box = 0; box < boxes; ++box) {
      const uint64_t end = requests.rows * (box + 1) / boxes;
      use(box, first, static_cast<uint32_t>(end - first));
      first = end;
    }
  }

  static void write(ExpressMailbox& box, uint32_t i, MailTag tag, const TableRequests& requests,
                    uint64_t row) {
    const TableOp op = op_of(requests, row);
    tag.more |= static_cast<uint32_t>(op);
    if (is_write(op)) send(box.values[i], value_of(requests, row), tag);
    if (op == TableOp::compare_and_swap) send(box.expected[i], expected_of(requests, row), tag);
    send(box.keys[i], requests.keys[row], tag);
  }
  static void send(MailWord& to, uint64_t word, MailTag tag) {
    const MailWord mail = MailWord::of(word, tag.bits());
    store(to.low, mail.low);
    store(to.high, mail.high);
  }

  // The reply to row `i` of the mail under way.
  MailWord wait_for(uint32_t box, uint32_t i) {
    for (uint64_t looks = 1;; ++looks) {
      const bool left = gone(box);  // asked first: what it left unread it answered before
      const MailWord word = reply(box, i);
      if (is_of_mail(word, numbers_[box])) return word;
      if (left) {
        end();
        launch(table_);
      }
      pause(looks);
    }
  }

  static void read(MailWord word, const TableRequests& requests, uint64_t row, Taken& taken) {
    const uint32_t bits = MailTag::of(word).more;
    const bool refused = bits == ExpressMailbox::no_memory;
    const KeyState before{word.word(), static_cast<uint8_t>(refused ? reply_retry : bits)};
    if (requests.found != nullptr) {
      if (before.found == 1) requests.values_out[row] = before.value;
      requests.found[row] = before.found;
    }
    if (refused) return;
    const KeyState after =
        apply(op_of(requests, row), value_of(requests, row), expected_of(requests, row), before);
    taken.entries += int64_t{after.found} - int64_t{before.found};
    if (after.found > before.found) ++taken.inserted;
  }

  static TableOp op_of(const TableRequests& requests, uint64_t row) {
    return requests.ops != nullptr ? requests.ops[row] : requests.op;
  }
  static uint64_t value_of(const TableRequests& requests, uint64_t row) {
    return requests.values != nullptr ? requests.values[row] : 0;
  }
  static uint64_t expected_of(const TableRequests& requests, uint64_t row) {
    return requests.expected != nullptr ? requests.expected[row] : 0;
  }

  // The device reads and writes mailboxes, too.
  static void store(uint64_t& to, uint64_t word) {
    std::atomic_ref(to).store(word, std::memory_order_release);
  }
  static uint64_t load(const uint64_t& from) { return __atomic_load_n(&from, __ATOMIC_ACQUIRE); }
  MailWord reply(uint32_t box, uint32_t i) const {
    const MailWord& from = boxes_[box].replies[i];
    return {load(from.low), load(from.high)};
  }
  bool gone(uint32_t box) const { return load(boxes_[box].gone) == launch_; }

  // While the device is waited for. A device that fails is seen now and then.
  void pause(uint64_t looks) {
    constexpr uint64_t often = 1 << 16;
    const bool there = device_.pause() && (looks % often != 0 || device_.healthy(stream_.get()));
    require_device(there, "wait for the express kernel");
  }

  const ExpressOptions options_;
  Device& device_;
  DeviceArray<Device, ExpressState> states_;
  PinnedBlock<Device> memory_;  // of the mailboxes
  ExpressMailbox* const boxes_;
  DeviceStream<Device> stream_;    // ends before the memory that its kernel uses
  std::vector<uint32_t> numbers_;  // of each mailbox's last mail
  uint32_t calls_ = 0;             // since mailboxes were cleared
  uint32_t launch_ = 0;
  uint64_t asked_ = 0;
  bool resident_ = false;  // a kernel runs, or has ended by itself
  View table_;             // that it was launched with
};

}  // namespace isotherm
