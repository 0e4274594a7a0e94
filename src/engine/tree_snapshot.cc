#include "engine/tree_snapshot.h"

#include "base/kill_point.h"
#include "durability/rdb_format.h"
#include "engine/snapshot.h"
#include "tree/tree.h"
#include "tree/tree_record.h"

namespace isotherm {

std::unique_ptr<SnapshotSource> make_snapshot_source(Engine& engine) {
  if (engine.tree() != nullptr) return std::make_unique<TreeSnapshot>(engine);
  return std::make_unique<Snapshot>(engine);
}

const SnapshotSource::Moment* TreeSnapshot::begin(Worker& worker, bool /*keeps_flushed*/) {
  end(worker);
  // Where that fails the moment has the runs.
  static_cast<void>(engine_.tree()->flush());
  const bool stood = worker.stand_still([this] { take_moments(); });
  kill_point("moment.taken");
  if (!stood) return nullptr;
  begin_database();
  return &moment_;
}

// Called while no row runs.
void TreeSnapshot::take_moments() {
  moment_ = {};
  moment_.version = engine_.tree()->last_version();
  moment_.at_ms = engine_.clock().now_ms();
  moment_.changes = engine_.stats().changes;
  for (uint32_t i = 0; i < engine_.options().databases; ++i) {
    moments_.push_back(engine_.tree()->take_moment(i));
  }
}

void TreeSnapshot::end(Worker& /*worker*/) {
  at_.reset();
  moments_.clear();
  database_ = 0;
  text_.clear();
}

void TreeSnapshot::begin_database() {
  const auto number = static_cast<uint32_t>(database_);
  std::string first;
  std::string end;
  TreeRecord::put_key(number, {}, first);
  TreeRecord::put_key(number + 1, {}, end);
  at_.reset(new TreeIterator(moments_[database_]->iterator(first, end)));
  at_->seek(first);
  if (!at_->valid()) return;
  text_ += static_cast<char>(rdb::select_db);
  rdb::put_length(number, text_);
}

// A large value goes to the file from where the iterator has it.
SnapshotSource::Step TreeSnapshot::step(const Write& write) {
  bool written = true;
  while (at_->valid() && written && text_.size() < most_piece) {
    TreeRecord record;
    if (!record.read(at_->value())) throw TreeError("tree: a record cannot be understood");
    if (!record.expired(moment_.at_ms)) {
      rdb::put_item_head({at_->key().substr(TreeRecord::prefix_bytes), record.expiry, record.flags,
                          record.state, record.value.size()},
                         text_);
      if (record.value.size() < most_piece) {
        text_ += record.value;
      } else {
        written = write(text_) && write(record.value);
        text_.clear();
      }
    }
    at_->next();
  }
  if (!at_->error().empty()) throw TreeError(at_->error());
  written = written && write(text_);
  text_.clear();
  if (!written) return Step::done;
  if (at_->valid()) return Step::more;
  at_.reset();
  moments_[database_].reset();
  if (++database_ == moments_.size()) return Step::done;
  begin_database();
  return Step::more;
}

}  // namespace isotherm
