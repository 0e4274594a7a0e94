// The part of Tree for gets in frames, which a device answers without asking the tree.
//
// A batch of them sees all of the runs that were taken in before it began. So its answer for a key
// is the newest if no run behind these, when its answer is looked at, has a change of the key: the
// item has been the same all the time between. The last run that has changed a key of its stripe
// mostly says so; else the runs are asked, as long as none was taken in meanwhile.
#include <string>

#include "base/broken.h"
#include "gpu/udp/packet_device.h"
#include "tree/tree.h"

namespace isotherm {

std::unique_ptr<PacketDevice> TreeFiles::make_packets(const PacketOptions& /*options*/) {
  return nullptr;
}

std::unique_ptr<PacketDevice> Tree::make_packets(const PacketOptions& options) {
  PacketOptions its = options;
  its.stored = true;
  return files_->make_packets(its);
}

bool Tree::is_newest(uint64_t on_device, uint32_t database, std::string_view key,
                     bool found) const {
  if (broken(Rule::newest)) return true;
  const uint64_t key_hash = hash_bytes(key, options_.hash_seed);
  const uint64_t hash = hash_in(database, key_hash);
  const uint64_t changed_in = changes_of(hash).load(std::memory_order_acquire) >> run_at;
  const uint64_t flushed_in = flushed_run_.load(std::memory_order_acquire);
  if (changed_in > on_device || flushed_in > on_device) {
    thread_local std::string tree_key;
    thread_local std::string value;
    TreeRecord::put_key(database, key, tree_key);
    if (find_in_runs(tree_key, hash, database, value).known) return false;
    if (taken_in_.load(std::memory_order_acquire) != on_device) return false;
  }
  // The rest has what the device cannot take.
  if (!found && files_->has_rest()) return false;
  return !files_->is_lost() && (next_ == nullptr || next_->is_safe(database, key_hash));
}

}  // namespace isotherm
