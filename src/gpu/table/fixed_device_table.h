// FixedDeviceTable: u64 keys to u64 values in device memory; what include/isotherm/gpu/table.h
// promises, over any device, in an index of any kind (gpu/kernel/index_kind.h).
//
// Calls with writes are worked off in parts (gpu/table/table_workspace.h). Before a part the host
// makes sure that the index has room for as many new entries as it has rows, and the stock lines
// enough. It knows the counts from parts that have ended, which arrive with a delay, and takes the
// rows of those under way as new; only where that is too little does it wait for the oldest of
// them (gpu/table/line_owner.h).
//
// Few requests in host memory may go by express (gpu/express/express.h) while no call is under way
// that they would have to wait for. `post` and `take` do it in two steps; any other call that comes
// in between takes the replies first. A kernel that is resident is ended before memory is allocated
// or freed, which waits for the whole device, and before the index grows.
//
// Threads. Any; one mutex. Limits. A key that finds no line, where memory ends, gets reply_retry.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "gpu/batch/distinct_keys.h"
#include "gpu/express/express.h"
#include "gpu/kernel/index_kind.h"
#include "gpu/kernel/line_kind.h"
#include "gpu/platform/device_context.h"
#include "gpu/table/find_kernel.h"
#include "gpu/table/line_owner.h"
#include "gpu/table/marked_find_kernel.h"
#include "gpu/table/scan_kernel.h"
#include "gpu/table/stored_find_kernel.h"
#include "gpu/table/table_options.h"
#include "gpu/table/table_reports.h"
#include "gpu/table/table_workspace.h"
#include "isotherm/gpu/common.h"

namespace isotherm {

template <class Device, class Kind = LineKind>
requires IndexKind<Kind>
class FixedDeviceTable {
 public:
  using Stream = typename Device::Stream;

  // `device` must outlive the table. Throws std::bad_alloc, DeviceError.
  FixedDeviceTable(Device& device, const FixedDeviceOptions& options)
      : FixedDeviceTable(options, device, options.gpu_memory) {}
  // The same with a cap, that of `memory`, which others share.
  FixedDeviceTable(DeviceMemory<Device>& memory, const FixedDeviceOptions& options)
      : FixedDeviceTable(options, memory) {}

  ~FixedDeviceTable() { context_.settle(); }
  FixedDeviceTable(const FixedDeviceTable&) = delete;
  FixedDeviceTable& operator=(const FixedDeviceTable&) = delete;

  void run(const TableRequests& requests, Stream stream) {
    if (requests.rows == 0) return;
    require_columns(requests);
    const std::lock_guard guard(context_.mutex());
    use(stream, [&] {
      if (is_gets(requests)) {
        get<Kind>(requests, stream);
      } else {
        write(requests, stream);
      }
    });
  }

  // Gets, so few that they do not fill the device, and a mark for the host when their replies are
  // there; see gpu/table/marked_find_kernel.h.
  void get_marked(const TableRequests& requests, const EndMark& mark, uint32_t* blocks_done,
                  Stream stream) {
    require_columns(requests);
    read(requests.rows, stream, [&](const typename Kind::View& table) {
      launch_marked_find<Kind>(device_, stream, table, requests, mark, blocks_done);
    });
  }

  // Queues what work(view) launches on the stream for so many rows, which only reads.
  template <class Work>
  void read(uint64_t rows, Stream stream, Work&& work) {
    const std::lock_guard guard(context_.mutex());
    use(stream, [&] {
      context_.order().begin_read(stream);
      pass(rows);
      work(view());
      context_.order().end_read(stream);
    });
  }

  // Gets by another kind over the same index: other units, say.
  template <class Like>
  void get_by(const TableRequests& requests, Stream stream) {
    require_columns(requests);
    const std::lock_guard guard(context_.mutex());
    use(stream, [&] { get<Like>(requests, stream); });
  }

  // Gets without a comparison of keys: of each row the first entry that has its signature, whose
  // key is left in `stored_keys` for the caller to compare.
  void get_stored(const TableRequests& requests, uint64_t* stored_keys, Stream stream) {
    require_columns(requests);
    const std::lock_guard guard(context_.mutex());
    use(stream, [&] {
      context_.order().begin_read(stream);
      pass(requests.rows);
      launch_stored_find<Kind>(device_, stream, view(), requests, stored_keys);
      context_.order().end_read(stream);
    });
  }

  // Rows of a call by express.
  uint64_t most_express() const {
    return uint64_t{options_.express.mailboxes} * ExpressMailbox::rows;
  }

  // Answers requests in host memory by express. False where they have to go the other way: too
  // many, a key twice beside writes, or the device is busy; nothing is done then.
  bool express(const TableRequests& requests) {
    const std::lock_guard guard(context_.mutex());
    if (!try_post(requests)) return false;
    settle();
    return true;
  }
  // The same in two steps. `requests` and its columns stay as they are until `take`.
  bool post(const TableRequests& requests) {
    const std::lock_guard guard(context_.mutex());
    return try_post(requests);
  }
  void take() {
    const std::lock_guard guard(context_.mutex());
    use(context_.stream(), [] {});
  }
  // Whether `take` would return at once, or throw.
  bool ready() {
    const std::lock_guard guard(context_.mutex());
    if (posted_.rows == 0) return true;
    try {
      return express_->ready(posted_);
    } catch (const DeviceError&) {
      context_.lose();
      posted_ = {};
      return true;
    }
  }
  // Whether so few writes of distinct keys would wait neither for what is under way nor for room.
  bool writes_at_once(uint64_t rows) {
    const std::lock_guard guard(context_.mutex());
    return context_.lost() ||
           (posted_.rows == 0 && context_.order().all_done() && owner_.has_plenty(rows));
  }
  // Ends a resident kernel, before the caller allocates, frees or pins memory.
  void end_express() {
    const std::lock_guard guard(context_.mutex());
    settle();
    leave_express();
  }

  // Takes the work space, grows, and takes the overflow lines for putting `entries` entries.
  void reserve(uint64_t entries) {
    const std::lock_guard guard(context_.mutex());
    use(context_.stream(), [&] { reserve_now(entries, context_.stream()); });
  }

  // Takes the work space for parts of `rows` rows now, so that no later call fails for want of it;
  // that for fewer where memory is short; for how many. Throws std::bad_alloc.
  uint32_t reserve_workspace(uint32_t rows, bool with_express = false) {
    const std::lock_guard guard(context_.mutex());
    const uint32_t reserved = workspace_.reserve(rows, [&] { be_idle(context_.stream()); });
    if (with_express) make_express();
    return reserved;
  }

  // Parts that were queued while it was not known that all their rows have room; rows of other
  // parts are never refused.
  uint64_t shortages() {
    const std::lock_guard guard(context_.mutex());
    return shortages_;
  }

  // For an index whose hashes are shared with somebody else, in bins
  // (executor/device/root_table.h); a bin has whole segments, so no fewer bits than `least_depth`,
  // and nobody may ask for keys of a bin that was dropped. Whether `rows` new entries find room,
  // for which the index grows if it must.
  bool has_room(uint64_t rows) {
    const std::lock_guard guard(context_.mutex());
    bool room = false;
    use(context_.stream(), [&] { room = owner_.has_room(rows, leave()); });
    return room;
  }
  // Whether there are overflow lines for `rows` new entries of the next part of the stream, for
  // which the index grows, or takes those that its chains can do without. `emptied`: entries were
  // erased since the last call.
  bool has_lines(uint64_t rows, bool emptied, Stream stream) {
    const std::lock_guard guard(context_.mutex());
    bool lines = false;
    use(stream, [&] {
      context_.order().begin_write(stream);
      reports_.take_done();
      lines = owner_.make_lines(rows, emptied, stream, leave());
      context_.order().end_write(stream);
    });
    return lines;
  }
  int least_depth() const {
    const std::lock_guard guard(context_.mutex());
    return owner_.least_depth();
  }
  void drop(const HashBin& bin) {
    const std::lock_guard guard(context_.mutex());
    use(context_.stream(), [&] { owner_.drop(bin, leave()); });
  }
  // False without memory.
  bool restore(const HashBin& bin) {
    const std::lock_guard guard(context_.mutex());
    bool restored = false;
    use(context_.stream(), [&] { restored = owner_.restore(bin, leave()); });
    return restored;
  }

  // Queues a walk over about `lines` lines at most from `bound` on, until it has `wanted` entries;
  // see gpu/table/scan_kernel.h. A key is unmix(hash, seed).
  void scan(uint64_t bound, uint64_t lines, uint64_t wanted, const ScanRoom& room, Stream stream) {
    const std::lock_guard guard(context_.mutex());
    use(stream, [&] {
      context_.order().begin_read(stream);
      using Scan = typename Kind::Scan;
      const Scan kernel{view(), bound, lines, wanted, room};
      require_device(device_.launch(stream, 1, Scan::threads, kernel), "launch a walk");
      context_.order().end_read(stream);
    });
  }

  gpu::TableStats stats() {
    const std::lock_guard guard(context_.mutex());
    use(context_.stream(), [&] {
      context_.order().drain();
      report();
      reports_.take_all();
    });
    const TableTotals& totals = reports_.known();
    const uint64_t workspace = workspace_.bytes();
    gpu::TableStats stats{totals.entries, context_.memory().used() - workspace, workspace,
                          totals.linked_lines, owner_.segments()};
    stats.evictions = totals.evicted;
    stats.displaced = totals.moved;
    return stats;
  }

 private:
  // `cap`: of DeviceContext.
  template <class... Cap>
  explicit FixedDeviceTable(const FixedDeviceOptions& options, Cap&&... cap)
      : options_(options),
        context_(std::forward<Cap>(cap)...),
        device_(context_.device()),
        reports_(device_),
        owner_(context_, reports_, options),
        workspace_(context_.memory(), options.max_part_rows) {}

  typename Kind::View view() const { return owner_.view(); }
  // Gives the rows of a call their time, where the kind has one.
  void pass(uint64_t rows) {
    if constexpr (requires { owner_.pass(rows); }) owner_.pass(rows);
  }
  // Has the owner report what happened, where it does so only when it is asked.
  void report() {
    if constexpr (requires { owner_.report(); }) owner_.report();
  }

  // Work that uses the stream, behind the replies of what was posted.
  template <class Work>
  void use(Stream stream, Work&& work) {
    context_.guard(stream, [&] {
      try {
        settle();
        work();
      } catch (const DeviceError&) {
        posted_ = {};
        throw;
      }
    });
  }

  bool try_post(const TableRequests& requests) {
    require_columns(requests);
    bool posted = false;
    use(context_.stream(), [&] { posted = post_now(requests); });
    return posted;
  }

  bool post_now(const TableRequests& requests) {
    const bool gets = is_gets(requests);
    if (requests.rows == 0 || requests.rows > most_express()) return false;
    if (gets ? !context_.order().writes_done() : !context_.order().all_done()) return false;
    if (!gets) {
      if (!requests.distinct_keys && !has_distinct_keys(requests, distinct_)) return false;
      if (!owner_.has_express_room(requests.rows, leave())) return false;
    }
    if (!make_express()) return false;
    pass(requests.rows);
    express_->post(view(), requests);
    posted_ = requests;
    return true;
  }
  bool make_express() {
    if (express_) return true;
    try {
      express_.emplace(context_.memory(), options_.express);
    } catch (const std::bad_alloc&) {
      return false;
    }
    return true;
  }

  void reserve_now(uint64_t entries, Stream stream) {
    const uint64_t rows = std::min<uint64_t>(owner_.likely_rows(entries, context_.memory().left()),
                                             options_.max_part_rows);
    workspace_.prepare(rows, [&] { be_idle(stream); });
    leave_express();
    owner_.reserve(entries, rows, stream);
  }

  // Takes the replies of what was posted.
  void settle() {
    if (posted_.rows == 0) return;
    try {
      const auto taken = express_->take(std::exchange(posted_, {}));
      owner_.add_express(taken.entries, taken.inserted);
    } catch (const DeviceError&) {
      context_.lose();
      throw;
    }
  }
  void leave_express() {
    if (express_) express_->end();
  }
  // For what the owner does before it changes memory.
  auto leave() {
    return [this] { leave_express(); };
  }

  template <class Like>
  void get(const TableRequests& requests, Stream stream) {
    context_.order().begin_read(stream);
    pass(requests.rows);
    launch_find<Like>(device_, stream, view(), requests);
    context_.order().end_read(stream);
  }

  void write(const TableRequests& requests, Stream stream) {
    context_.order().begin_write(stream);
    const bool mixed = requests.ops != nullptr;
    const bool puts = !mixed && requests.op == TableOp::put;
    for (uint64_t first = 0; first < requests.rows;) {
      reports_.take_done();
      const bool expects_new = puts && reports_.expects_new_keys();
      const auto tries = [&](uint64_t of) { return puts && options_.tries.tries(of, expects_new); };
      const uint64_t left = requests.rows - first;
      const bool new_keys = expects_new && (requests.distinct_keys || tries(left));
      const BatchView part =
          part_of(requests, first, part_rows(left, requests.distinct_keys, new_keys, stream));
      first += part.rows;
      const bool room =
          owner_.make_room(part.rows, expects_new ? left : part.rows, stream, leave());
      shortages_ += room ? 0 : 1;
      if (requests.distinct_keys) {
        workspace_.get().run_distinct(view(), part, owner_.totals(), stream);
      } else if (tries(part.rows)) {
        workspace_.get().run_tries(view(), part, owner_.totals(), stream);
      } else {
        workspace_.get().run(view(), part, mixed, mixed || !is_constant(requests.op),
                             owner_.totals(), stream);
      }
      reports_.expect(part.rows, puts, stream);
    }
    context_.order().end_write(stream);
  }

  // Of the next part, of a call of which so many rows are left; see gpu/table/table_workspace.h.
  uint32_t part_rows(uint64_t left, bool distinct, bool new_keys, Stream stream) {
    const auto idle = [&] { be_idle(stream); };
    const uint32_t rows = workspace_.reserve(left, idle);
    if (left <= rows || !(distinct || new_keys)) return rows;
    const uint64_t most = distinct ? workspace_.distinct_rows() : uint64_t{rows} * 2;
    const uint64_t longer = std::min({left, most, owner_.rows_at_once()});
    const bool is_room =
        longer > rows && owner_.fits(longer) && (distinct || workspace_.lengthen(idle));
    return is_room ? static_cast<uint32_t>(longer) : rows;
  }

  // Before memory is allocated or freed. `stream`: of the call.
  void be_idle(Stream stream) {
    context_.order().drain();
    require_device(device_.synchronize(stream), "wait for the parts before");
    leave_express();
  }

  const FixedDeviceOptions options_;
  mutable DeviceContext<Device> context_;
  Device& device_;
  TableReports<Device> reports_;
  typename Kind::template Owner<Device> owner_;
  TableWorkspace<Device, Kind> workspace_;
  uint64_t shortages_ = 0;
  std::optional<Express<Device, Kind>> express_;  // made when first needed
  TableRequests posted_;                          // by express; no rows: nothing is under way
  std::vector<uint32_t> distinct_;
};

}  // namespace isotherm
