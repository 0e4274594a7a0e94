// FixedDeviceTable: u64 keys to u64 values in device memory; what include/isotherm/device_table.h
// promises, over any device.
//
// Calls with writes are worked off in parts (gpu/table/table_workspace.h). Before a part the host
// makes sure that the index has room for as many new entries as it has rows, and the stock lines
// enough. It knows the counts from parts that have ended, which arrive with a delay, and takes the
// rows of those under way as new; only where that is too little does it wait for the oldest of
// them. Where memory ends, lines that chains can do without are gathered for the stock
// (gpu/table/unlink_kernel.h).
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
#include "gpu/batch/settle_kernels.h"
#include "gpu/express/express.h"
#include "gpu/platform/device_context.h"
#include "gpu/table/device_segments.h"
#include "gpu/table/device_stock.h"
#include "gpu/table/find_kernel.h"
#include "gpu/table/marked_find_kernel.h"
#include "gpu/table/scan_kernel.h"
#include "gpu/table/table_reports.h"
#include "gpu/table/table_room.h"
#include "gpu/table/table_workspace.h"
#include "gpu/table/unlink_rounds.h"

namespace isotherm {

struct FixedDeviceOptions {
  uint64_t gpu_memory = 0;  // bytes; 0: no cap
  uint64_t seed = 0;
  int line_bits = 16;  // lines of a segment, as a power of two
  uint32_t max_part_rows = 1 << 21;
  ExpressOptions express = {};
  TryOptions tries = {};
  double lowest_load = usual_load;  // gpu/table/device_segments.h
};

template <class Device>
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

  void run(const DeviceRequests& requests, Stream stream) {
    if (requests.rows == 0) return;
    require_columns(requests);
    const std::lock_guard guard(context_.mutex());
    use(stream, [&] {
      if (is_gets(requests)) {
        get(requests, stream);
      } else {
        write(requests, stream);
      }
    });
  }

  // Gets, so few that they do not fill the device, and a mark for the host when their replies are
  // there; see gpu/table/marked_find_kernel.h.
  void get_marked(const DeviceRequests& requests, const EndMark& mark, uint32_t* blocks_done,
                  Stream stream) {
    require_columns(requests);
    const std::lock_guard guard(context_.mutex());
    use(stream, [&] {
      context_.order().begin_read(stream);
      launch_marked_find(device_, stream, view(), requests, mark, blocks_done);
      context_.order().end_read(stream);
    });
  }

  // Rows of a call by express.
  uint64_t most_express() const {
    return uint64_t{options_.express.mailboxes} * ExpressMailbox::rows;
  }

  // Answers requests in host memory by express. False where they have to go the other way: too
  // many, a key twice beside writes, or the device is busy; nothing is done then.
  bool express(const DeviceRequests& requests) {
    const std::lock_guard guard(context_.mutex());
    if (!try_post(requests)) return false;
    settle();
    return true;
  }
  // The same in two steps. `requests` and its columns stay as they are until `take`.
  bool post(const DeviceRequests& requests) {
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
           (posted_.rows == 0 && context_.order().all_done() && room_.has_plenty(rows));
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
    use(context_.stream(), [&] {
      const uint64_t lines = TableRoom<Device>::plenty_of_lines(rows);
      reports_.take_done();
      room = room_.has(rows, lines) || make_room_now(rows, lines, lines);
    });
    return room;
  }
  int least_depth() const {
    const std::lock_guard guard(context_.mutex());
    return segments_.least_depth();
  }
  void drop(const HashBin& bin) {
    const std::lock_guard guard(context_.mutex());
    use(context_.stream(), [&] {
      change_segments([&](Stream stream) {
        segments_.drop(bin, view(), stream);
        return Fresh{};
      });
    });
  }
  // False without memory.
  bool restore(const HashBin& bin) {
    const std::lock_guard guard(context_.mutex());
    bool restored = false;
    use(context_.stream(), [&] {
      reports_.take_all();
      change_segments([&](Stream stream) {
        restored = segments_.restore(bin, reports_.known().entries, stream);
        return Fresh{};
      });
    });
    return restored;
  }

  // Queues a walk over about `lines` lines at most from `bound` on, until it has `wanted` entries;
  // see gpu/table/scan_kernel.h. A key is unmix(hash, seed).
  void scan(uint64_t bound, uint64_t lines, uint64_t wanted, const ScanRoom& room, Stream stream) {
    const std::lock_guard guard(context_.mutex());
    settle();
    context_.order().begin_read(stream);
    const ScanKernel kernel{view(), bound, lines, wanted, room};
    require_device(device_.launch(stream, 1, ScanKernel::threads, kernel), "launch a walk");
    context_.order().end_read(stream);
  }

  DeviceTableStats stats() {
    const std::lock_guard guard(context_.mutex());
    settle();
    context_.order().drain();
    reports_.take_all();
    const TableTotals& totals = reports_.known();
    const uint64_t workspace = workspace_.bytes();
    return {totals.entries, context_.memory().used() - workspace, workspace, totals.linked_lines,
            segments_.count()};
  }

 private:
  using Fresh = typename DeviceStock<Device>::Fresh;

  static constexpr uint32_t threads = 256;
  static constexpr int most_stretches = 4;  // that a part goes over for lines

  // What every table has once.
  struct Fixed {
    Bucket head;
    CountShard counts[CountShard::shards];
  };

  // `cap`: of DeviceContext.
  template <class... Cap>
  explicit FixedDeviceTable(const FixedDeviceOptions& options, Cap&&... cap)
      : options_(options),
        context_(std::forward<Cap>(cap)...),
        device_(context_.device()),
        segments_(context_.memory(), options.line_bits, options.lowest_load, context_.stream()),
        stock_(context_.memory(), context_.stream()),
        fixed_(context_.memory(), 1),
        reports_(device_),
        room_(segments_, reports_),
        workspace_(context_.memory(), options.max_part_rows) {
    if (fixed_.empty()) throw std::bad_alloc();
    require_device(device_.clear(context_.stream(), fixed_.data(), fixed_.bytes()) &&
                       device_.synchronize(context_.stream()),
                   "make the table");
  }

  TableView view() const {
    return {segments_.view(), &fixed_.data()->head, options_.seed, stock_.view(),
            fixed_.data()->counts};
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

  bool try_post(const DeviceRequests& requests) {
    require_columns(requests);
    bool posted = false;
    use(context_.stream(), [&] { posted = post_now(requests); });
    return posted;
  }

  bool post_now(const DeviceRequests& requests) {
    const bool gets = is_gets(requests);
    if (requests.rows == 0 || requests.rows > most_express()) return false;
    if (gets ? !context_.order().writes_done() : !context_.order().all_done()) return false;
    if (!gets) {
      if (!requests.distinct_keys && !has_distinct_keys(requests, distinct_)) return false;
      if (!make_express_room(requests.rows)) return false;
    }
    if (!make_express()) return false;
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

  static constexpr uint64_t express_lines_per_insert = TableRoom<Device>::express_lines_per_insert;
  static constexpr uint64_t express_stock = 1 << 14;
  bool make_express_room(uint64_t rows) {
    return make_room_now(rows, rows * express_lines_per_insert, express_stock);
  }

  void reserve_now(uint64_t entries, Stream stream) {
    const uint64_t rows = std::min<uint64_t>(room_.likely_rows(entries, context_.memory().left()),
                                             options_.max_part_rows);
    workspace_.prepare(rows, [&] { be_idle(stream); });
    leave_express();
    context_.order().begin_write(stream);
    shelve({}, stream);  // counts the chains
    reports_.take_all();
    const bool empty = room_.is_empty();
    empty ? segments_.rebuild(entries, stream) : segments_.grow(entries, view(), stream);
    const uint64_t lines = segments_.fits(entries) ? room_.missing_lines_of(entries, rows) : 0;
    shelve(stock_.add(lines, stream), stream);
    context_.order().end_write(stream);
    reports_.take_all();
  }

  // Makes sure that `rows` entries and `lines` overflow lines fit, if need be by taking
  // `more_lines`; the host knows the counts then. False where memory ends.
  bool make_room_now(uint64_t rows, uint64_t lines, uint64_t more_lines) {
    reports_.take_all();
    const uint64_t entries = reports_.known().entries + rows;
    const auto has_lines = [&] { return reports_.known().free_lines >= lines; };
    if (segments_.fits(entries) && has_lines()) return true;
    change_segments([&](Stream stream) {
      if (!segments_.fits(entries)) segments_.grow(entries, view(), stream);
      return Fresh{};
    });
    reports_.take_all();  // the count of lines was a guess on the safe side
    if (!has_lines()) {
      change_segments([&](Stream stream) { return stock_.add(more_lines, stream); });
      reports_.take_all();
    }
    if (segments_.fits(entries) && !has_lines()) {
      change_segments([&](Stream stream) { return gather_lines(rows, has_lines, stream); });
      reports_.take_all();
    }
    return segments_.fits(entries) && has_lines();
  }

  // Changes the segments, with the table to itself, and puts into the stock the lines that they
  // returned and those that `work` returns.
  template <class Work>
  void change_segments(Work&& work) {
    leave_express();
    const Stream stream = context_.stream();
    context_.order().begin_write(stream);
    shelve(work(stream), stream);
    context_.order().end_write(stream);
  }

  // Takes the replies of what was posted.
  void settle() {
    if (posted_.rows == 0) return;
    try {
      const auto taken = express_->take(std::exchange(posted_, {}));
      reports_.add(taken.entries, taken.inserted * express_lines_per_insert);
    } catch (const DeviceError&) {
      context_.lose();
      throw;
    }
  }
  void leave_express() {
    if (express_) express_->end();
  }

  void get(const DeviceRequests& requests, Stream stream) {
    context_.order().begin_read(stream);
    launch_find(device_, stream, view(), requests);
    context_.order().end_read(stream);
  }

  void write(const DeviceRequests& requests, Stream stream) {
    context_.order().begin_write(stream);
    const bool mixed = requests.ops != nullptr;
    const bool puts = !mixed && requests.op == DeviceOp::put;
    for (uint64_t first = 0; first < requests.rows;) {
      reports_.take_done();
      const bool expects_new = puts && reports_.expects_new_keys();
      const auto tries = [&](uint64_t of) { return puts && options_.tries.tries(of, expects_new); };
      const uint64_t left = requests.rows - first;
      const bool new_keys = expects_new && (requests.distinct_keys || tries(left));
      const BatchView part =
          part_of(requests, first, part_rows(left, requests.distinct_keys, new_keys, stream));
      first += part.rows;
      make_room(part.rows, expects_new ? left : part.rows, stream);
      shortages_ += !room_.fits(part.rows) || room_.missing_lines(part.rows) != 0 ? 1 : 0;
      if (requests.distinct_keys) {
        workspace_.get().run_distinct(view(), part, totals(false), stream);
      } else if (tries(part.rows)) {
        workspace_.get().run_tries(view(), part, totals(false), stream);
      } else {
        workspace_.get().run(view(), part, mixed, mixed || !is_constant(requests.op), totals(false),
                             stream);
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
    const uint64_t longer = std::min({left, most, room_.rows_with_lines()});
    const bool is_room =
        longer > rows && room_.fits(longer) && (distinct || workspace_.lengthen(idle));
    return is_room ? static_cast<uint32_t>(longer) : rows;
  }

  // Before memory is allocated or freed. `stream`: of the call.
  void be_idle(Stream stream) {
    context_.order().drain();
    require_device(device_.synchronize(stream), "wait for the parts before");
    leave_express();
  }

  // For `rows` new entries, and if the index must grow for as many of `soon` as do no harm where
  // they are not new after all.
  void make_room(uint64_t rows, uint64_t soon, Stream stream) {
    while (!room_.fits(rows) && reports_.any_under_way()) reports_.take_one();
    if (!room_.fits(rows)) {
      leave_express();
      const uint64_t more = std::max(rows, room_.harmless_rows(soon, context_.memory().left()));
      segments_.grow(room_.entries_with(more), view(), stream);
      shelve({}, stream);
    }
    if (stock_lines(rows, stream)) return;
    gather_lines(
        rows, [&] { return room_.missing_lines(rows) == 0; }, stream);
  }

  // Whether there are overflow lines for a part; adds twice what is missing first.
  bool stock_lines(uint64_t rows, Stream stream) {
    while (room_.missing_lines(rows) != 0 && reports_.any_under_way()) reports_.take_one();
    if (const uint64_t lines = room_.missing_lines(rows); lines != 0) {
      leave_express();
      shelve(stock_.add(lines * 2, stream), stream);
      reports_.take_all();
    }
    return room_.missing_lines(rows) == 0;
  }

  // Where memory ends: takes lines that chains can do without until enough() says so, of a few
  // stretches. The host knows the counts before and after.
  template <class Enough>
  Fresh gather_lines(uint64_t rows, Enough&& enough, Stream stream) {
    for (int i = 0; i < most_stretches && !enough(); ++i) {
      const auto stretch =
          unlinks_.begin(segments_.count(), segments_.lines_each(), rows, reports_.known());
      if (stretch.count == 0) break;
      segments_.unlink(stretch.first, stretch.count, view(), stream);
      shelve({}, stream);
      reports_.take_all();
      unlinks_.end(reports_.known());
    }
    return {};
  }

  // Puts lines that were returned, and fresh ones, into the stock.
  void shelve(Fresh fresh, Stream stream) {
    const uint32_t grid = std::max(device_.full_grid() / 4, 1u);
    const ShelveKernel kernel{view(), fresh.lines, fresh.count};
    require_device(device_.launch(stream, grid, threads, kernel), "launch the stock's kernel");
    require_device(device_.launch(stream, 1, TotalsKernel::threads, TotalsKernel{totals(true)}),
                   "launch the totals");
    reports_.expect(0, false, stream);
  }

  Totals totals(bool shelved) { return {view(), stock_.lines(), shelved, reports_.next()}; }

  const FixedDeviceOptions options_;
  mutable DeviceContext<Device> context_;
  Device& device_;
  DeviceSegments<Device> segments_;
  DeviceStock<Device> stock_;
  UnlinkRounds unlinks_;
  DeviceArray<Device, Fixed> fixed_;
  TableReports<Device> reports_;
  const TableRoom<Device> room_;
  TableWorkspace<Device> workspace_;
  uint64_t shortages_ = 0;
  std::optional<Express<Device>> express_;  // made when first needed
  DeviceRequests posted_;                   // by express; no rows: nothing is under way
  std::vector<uint32_t> distinct_;
};

}  // namespace isotherm
