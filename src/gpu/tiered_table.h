// TieredTable: u64 keys to u64 values in device memory and, where that ends, in memory of the host;
// a FixedDeviceTable that may grow beyond its device.
//
// As long as the device has room all calls go to its table, and the host waits for no rows. When a
// call with writes finds no room, the hashes are cut into bins, and bins that are read least go to
// the host (gpu/bin_moves.h). From then on the rows of a call are sorted by side part by part
// (gpu/tier_part.h): the device answers its own while threads of the host answer theirs
// (gpu/host_part.h). Parts of gets are sorted ahead; before a part with writes bins may have to
// move. A key is on one side at a time and its rows keep their order there, so calls are answered
// as by one table. Behind calls, bins move in steps.
//
// Calls by express (gpu/express.h) go to the device's table as long as all their keys are
// there.
//
// Memory. Of the cap on device memory the buffers of parts take an eighth at most; where they would
// be more, there is no work space, or the device has fewer than 8 segments, it keeps all keys.
// Where both memories end, rows that need more are answered reply_retry, and nothing is lost.
// Threads. Any; one mutex, and that of the device's table. A call on a shared table returns when
// the host's rows are answered, and what the device still has to do is queued; other callers wait
// meanwhile. Errors. Those of a FixedDeviceTable. Sources. KVCG, sections 3 and 5.2, whose store
// beyond device memory was unified memory instead.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <vector>

#include "gpu/bin_moves.h"
#include "gpu/device_bin_tier.h"
#include "gpu/device_loss.h"
#include "gpu/fixed_device_table.h"
#include "gpu/host_part.h"
#include "gpu/tier_part.h"

namespace isotherm {

struct TieredOptions {
  FixedDeviceOptions table;
  uint64_t host_memory = 0;  // bytes of the host's index; 0: nothing lies on the host
  uint32_t host_threads = 1;
  uint32_t part_rows = 1 << 19;
  uint32_t sampled = 64;   // of rows, one in so many is counted as a read of its bin
  int most_bin_bits = 14;  // of the number of bins
  uint64_t entries_at_once = BinMoves::entries_at_once;  // that move where room is needed
};

template <class Device>
class TieredTable {
 public:
  using Stream = typename Device::Stream;

  // `device` must outlive the table. Throws std::bad_alloc, DeviceError.
  TieredTable(Device& device, const TieredOptions& options)
      : options_(options),
        part_(part_options(device, options)),
        may_share_(options.host_memory != 0 && fits(device, options, part_)),
        device_(device),
        memory_(device, options.table.gpu_memory),
        table_(memory_, table_options()) {
    if (may_share_) prepare_to_share();
  }

  void run(const DeviceRequests& requests, Stream stream) {
    if (requests.rows == 0) return;
    require_columns(requests);
    const std::lock_guard guard(mutex_);
    use([&] { run_now(requests, stream); });
  }

  // Gets that tell the host of their end; see FixedDeviceTable::get_marked.
  void get_marked(const DeviceRequests& requests, const EndMark& mark, uint32_t* blocks_done,
                  Stream stream) {
    const std::lock_guard guard(mutex_);
    if (!moves_) return table_.get_marked(requests, mark, blocks_done, stream);
    require_columns(requests);
    use([&] {
      run_now(requests, stream);
      require_device(device_.launch(stream, 1, EndMarkKernel::threads, EndMarkKernel{mark}),
                     "end a batch");
    });
  }

  // As those of a FixedDeviceTable; requests go by express as long as the device has all their
  // keys.
  uint64_t most_express() const { return table_.most_express(); }
  bool express(const DeviceRequests& requests) {
    const std::lock_guard guard(mutex_);
    return goes_to_device(requests) && table_.express(requests);
  }
  bool post(const DeviceRequests& requests) {
    const std::lock_guard guard(mutex_);
    return goes_to_device(requests) && table_.post(requests);
  }
  void take() { table_.take(); }
  bool ready() { return table_.ready(); }
  void end_express() { table_.end_express(); }

  // Grows for `entries` entries, as far as the device has room.
  void reserve(uint64_t entries) {
    const std::lock_guard guard(mutex_);
    table_.reserve(entries);
  }

  DeviceTableStats stats() {
    const std::lock_guard guard(mutex_);
    loss_.require_usable();
    settle();
    DeviceTableStats stats = table_.stats();
    stats.bytes -= part_bytes_;
    stats.workspace += part_bytes_;
    for (const auto& part : parts_) stats.host_bytes += part->pinned_bytes();
    if (tier_) stats.host_bytes += tier_->pinned_bytes();
    if (!moves_) return stats;
    stats.host_entries = host_->entries();
    stats.entries += stats.host_entries - moves_->on_both_sides();
    stats.host_bytes += host_->bytes();
    stats.host_requests = host_requests_;
    stats.bins_to_host = moves_->to_host();
    stats.bins_to_device = moves_->to_device();
    return stats;
  }

 private:
  static constexpr uint32_t sets = 2;  // of buffers
  static constexpr uint32_t least_rows = 1 << 8;
  static constexpr int least_bin_bits = 6;
  static constexpr uint64_t rows_a_move = 1 << 14;
  static constexpr uint64_t parts_a_move = 4;  // that only read
  static constexpr uint64_t most_steps = 8;    // behind a call
  // Parts that do not look for room after one that found none.
  static constexpr uint32_t parts_a_pause = 16;

  static TierPartOptions part_options(const Device& device, const TieredOptions& options) {
    const uint32_t lists = options.host_threads > 1 ? TierPart<Device>::most_lists : 1;
    TierPartOptions part{options.table.seed,
                         std::max(std::bit_floor(options.part_rows), least_rows), lists,
                         options.sampled, options.most_bin_bits};
    while (!fits(device, options, part) && part.rows > least_rows) part.rows /= 2;
    while (!fits(device, options, part) && part.most_bits > least_bin_bits) --part.most_bits;
    return part;
  }
  static bool fits(const Device& device, const TieredOptions& options,
                   const TierPartOptions& part) {
    const uint64_t cap = options.table.gpu_memory / 8;
    return cap == 0 || sets * TierPart<Device>::bytes(device, part) <= cap;
  }
  // Work space for longer parts would be of no use once the table is shared.
  FixedDeviceOptions table_options() const {
    FixedDeviceOptions table = options_.table;
    if (table.gpu_memory != 0 && may_share_) {
      table.max_part_rows = std::min(table.max_part_rows, part_.rows);
    }
    return table;
  }

  // Takes all that a shared table needs, before the index takes all memory; where there is too
  // little, the table will not be shared.
  void prepare_to_share() {
    try {
      table_.reserve_workspace(part_.rows, true);
      const uint64_t before = memory_.used();
      for (uint32_t i = 0; i < sets; ++i) {
        parts_.push_back(std::make_unique<TierPart<Device>>(memory_, part_));
      }
      part_bytes_ = memory_.used() - before;
      edge_.emplace(device_);
      tier_.emplace(device_, table_, options_.table.seed);
    } catch (const std::bad_alloc&) {
      parts_.clear();
      part_bytes_ = 0;
      may_share_ = false;
    }
  }

  template <class Work>
  void use(Work&& work) {
    loss_.guard(work, [this] { settle(); });
  }
  void settle() {
    for (const auto& part : parts_) part->settle();
  }

  void run_now(const DeviceRequests& requests, Stream stream) {
    uint64_t done = 0;
    if (!moves_) done = run_on_device(requests, stream);
    if (done < requests.rows) {
      run_shared(rows_of(requests, done, requests.rows - done), stream);
    }
  }

  // The rows that the device alone has answered: all, unless others found no room.
  uint64_t run_on_device(const DeviceRequests& requests, Stream stream) {
    uint64_t done = 0;
    if (may_share_ && needs_room(requests)) {
      while (done < requests.rows) {
        const uint64_t rows = rows_with_room(requests.rows - done);
        if (rows == 0) break;
        table_.run(rows_of(requests, done, rows), stream);
        done += rows;
      }
      if (done == requests.rows || share()) return done;
    }
    table_.run(rows_of(requests, done, requests.rows - done), stream);
    return requests.rows;
  }
  uint64_t rows_with_room(uint64_t left) {
    for (const uint32_t most : {options_.table.max_part_rows, part_.rows}) {
      const uint64_t rows = std::min<uint64_t>(left, most);
      if (has_room(rows)) return rows;
    }
    return 0;
  }

  // From now on the host takes bins, if it can; otherwise it never does.
  bool share() {
    may_share_ = BinMoves::can_share(*tier_);
    if (!may_share_) return false;
    // Bins come in order of hash, so all at one place: with lines for an eighth of what the device
    // has, chains there are short until the index has grown. But these lines lie at all places.
    constexpr uint64_t bytes_an_entry = 28;
    const uint64_t small_share = options_.host_memory / 32 / bytes_an_entry;
    may_share_ = make_host(std::min(table_.stats().entries / 8, small_share)) || make_host(0);
    if (!may_share_) return false;
    moves_.emplace(
        *tier_, *host_, options_.table.seed, [](uint64_t) { return true; }, part_.most_bits);
    return true;
  }
  bool make_host(uint64_t expected) {
    try {
      host_.emplace(HostPartOptions{options_.table.seed, options_.host_memory, expected,
                                    options_.host_threads, device_.memory_node()});
    } catch (const std::bad_alloc&) {
      return false;
    }
    return true;
  }

  void run_shared(const DeviceRequests& requests, Stream stream) {
    for (const auto& part : parts_) wait(part->stream(), stream);
    const bool gets = is_gets(requests);
    const uint64_t parts = (requests.rows + part_.rows - 1) / part_.rows;
    const uint64_t window = gets ? sets : 1;
    uint64_t begun = 0;
    for (uint64_t i = 0; i < parts; ++i) {
      for (; begun < std::min(parts, i + window); ++begun) begin(begun, requests);
      answer(i, requests);
      if (!gets) move_bins(parts_[i % sets]->device_rows(), rows_of_part(i, requests));
    }
    for (const auto& part : parts_) wait(stream, part->stream());
    if (gets) move_bins(0, requests.rows);
  }

  uint64_t rows_of_part(uint64_t number, const DeviceRequests& requests) const {
    return std::min<uint64_t>(part_.rows, requests.rows - number * part_.rows);
  }
  void begin(uint64_t number, const DeviceRequests& requests) {
    TierPart<Device>& part = *parts_[number % sets];
    part.settle();
    const RootBins& bins = moves_->bins();
    part.begin(rows_of(requests, number * part_.rows, rows_of_part(number, requests)), bins.bins(),
               bins.bits());
  }

  void answer(uint64_t number, const DeviceRequests& requests) {
    TierPart<Device>& part = *parts_[number % sets];
    part.wait_counts();
    if (needs_room(requests)) make_room(number, requests);
    for (uint64_t bin = 0; bin < part.reads().size(); ++bin) {
      moves_->add_reads(bin, part.reads()[bin]);
    }
    const bool on_host = part.host_rows() != 0;
    if (on_host) part.fetch();
    table_.run(part.device_requests(), part.stream());
    if (on_host) {
      part.wait_fetched();
      host_->answer(part.lists());
      host_requests_ += part.host_rows();
    }
    part.return_replies();
  }

  static bool needs_room(const DeviceRequests& requests) {
    return !is_gets(requests) && (requests.ops != nullptr || requests.op != DeviceOp::erase);
  }

  // Frees bins until the device has room for its rows of a part, which is sorted again each time;
  // as far as the host has memory.
  void make_room(uint64_t number, const DeviceRequests& requests) {
    if (parts_without_room_ != 0) {
      --parts_without_room_;
      return;
    }
    TierPart<Device>& part = *parts_[number % sets];
    for (bool freed = true; part.device_rows() != 0 && !has_room(part.device_rows());) {
      if (!freed) {
        parts_without_room_ = parts_a_pause;
        return;
      }
      freed = free_bin();
      begin(number, requests);
      part.wait_counts();
    }
  }
  // A call goes on without memory to look for room, or for a bin to be moved.
  bool has_room(uint64_t rows) {
    try {
      return table_.has_room(rows);
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  bool free_bin() {
    try {
      return moves_->free_bin(options_.entries_at_once);
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  // Steps behind some rows, of which `changes` were the device's: one behind each part with
  // changes, and of rows that only read so few that they cost a small share of the time.
  void move_bins(uint64_t changes, uint64_t rows) {
    rows_since_move_ += rows;
    changes_since_move_ += changes;
    const bool writes = changes_since_move_ != 0;
    const uint64_t rows_a_step =
        writes ? std::min<uint64_t>(part_.rows, rows_a_move) : uint64_t{part_.rows} * parts_a_move;
    uint64_t steps = std::min(rows_since_move_ / rows_a_step, most_steps);
    if (steps == 0) return;
    try {
      if (writes) steps = 1;
      for (; steps != 0; --steps) moves_->after_round(changes_since_move_);
    } catch (const std::bad_alloc&) {  // then the next step may have it
    }
    rows_since_move_ = changes_since_move_ = 0;
  }

  void wait(Stream stream, Stream for_stream) {
    require_device(device_.record(edge_->get(), for_stream) && device_.wait(stream, edge_->get()),
                   "wait for a stream");
  }

  // Of requests in memory that the host reads, whether the device has all their keys. Then one in
  // some is counted as read.
  bool goes_to_device(const DeviceRequests& requests) {
    loss_.require_usable();
    require_columns(requests);
    if (!moves_) return true;
    if (requests.rows > most_express()) return false;
    const auto hash = [&](uint64_t row) { return mix(requests.keys[row], options_.table.seed); };
    for (uint64_t row = 0; row < requests.rows; ++row) {
      if (moves_->on_host(hash(row))) return false;
    }
    for (uint64_t row = 0; row < requests.rows; ++row) {
      if (++express_rows_ % options_.sampled == 0) moves_->count_read(hash(row));
    }
    return true;
  }

  const TieredOptions options_;
  const TierPartOptions part_;
  bool may_share_;
  Device& device_;
  DeviceMemory<Device> memory_;  // of the table, and of the parts' buffers, taken at the start
  FixedDeviceTable<Device> table_;
  std::mutex mutex_;  // all below
  DeviceLoss loss_{"the table was lost when the device failed"};
  std::vector<std::unique_ptr<TierPart<Device>>> parts_;
  std::optional<DeviceEvent<Device>> edge_;
  uint64_t part_bytes_ = 0;
  std::optional<DeviceBinTier<Device>> tier_;
  // Once the table is shared.
  std::optional<HostPart> host_;
  std::optional<BinMoves> moves_;
  uint64_t host_requests_ = 0;
  uint64_t express_rows_ = 0;
  uint32_t parts_without_room_ = 0;
  uint64_t rows_since_move_ = 0;
  uint64_t changes_since_move_ = 0;
};

}  // namespace isotherm
