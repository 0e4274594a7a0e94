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
  if (engine_.tree()->is_lost()) {
    throw TreeError("the GPU has failed, and what it alone had would be missing");
  }
  // Where that fails the moment has the runs.
  static_cast<void>(engine_.tree()->flush());
  const bool stood = worker.stand_still([this] { take_moments(); });
  kill_point("moment.taken");
  if (!stood) return nullptr;
  begin_database();
  return &moment_;
}

// Called while no row runs. Databases count their versions each by itself; all that they give later
// are larger.
void TreeSnapshot::take_moments() {
  moment_ = {};
  moment_.version = engine_.tree()->last_version();
  engine_.begin_versions(moment_.version);
  moment_.at_ms = engine_.clock().now_ms();
  moment_.changes = engine_.stats().changes;
  for (uint32_t i = 0; i < engine_.options().databases; ++i) {
    moments_.push_back(engine_.tree()->take_moment(i));
  }
  if (!engine_.tree()->lasts()) walk_ = engine_.tree()->walk_moment();
}

void TreeSnapshot::end(Worker& /*worker*/) {
  at_.reset();
  walk_.reset();
  moments_.clear();
  database_ = 0;
  selected_ = 0;
  text_.clear();
}

void TreeSnapshot::begin_database() {
  const auto number = static_cast<uint32_t>(database_);
  std::string first;
  std::string end;
  TreeRecord::put_key(number, {}, first);
  TreeRecord::put_key(number + 1, {}, end);
  at_.reset(new TreeIterator(moments_[database_]->iterator(first, end, true)));
  at_->seek(first);
}

// A large value goes to the file from where it lies. False: it cannot be written.
bool TreeSnapshot::add(std::string_view key, std::string_view text, const Write& write) {
  TreeRecord record;
  if (!record.read(text)) throw TreeError("tree: a record cannot be understood");
  if (record.expired(moment_.at_ms)) return true;
  const uint32_t database = TreeRecord::database_of(key);
  if (selected_ != uint64_t{database} + 1) {
    text_ += static_cast<char>(rdb::select_db);
    rdb::put_length(database, text_);
    selected_ = uint64_t{database} + 1;
  }
  rdb::put_item_head({key.substr(TreeRecord::prefix_bytes), record.expiry, record.flags,
                      record.state, record.value.size()},
                     text_);
  if (record.value.size() < most_piece) {
    text_ += record.value;
    return true;
  }
  const bool written = write(text_) && write(record.value);
  text_.clear();
  return written;
}

// Of an iterator; false: it cannot be written.
bool TreeSnapshot::step_database(const Write& write) {
  bool written = true;
  for (; at_->valid() && written && text_.size() < most_piece; at_->next()) {
    written = add(at_->key(), at_->value(), write);
  }
  if (!at_->error().empty()) throw TreeError(at_->error());
  if (!written || at_->valid()) return written;
  at_.reset();
  if (walk_ == nullptr) moments_[database_].reset();
  if (++database_ != moments_.size()) begin_database();
  return true;
}

bool TreeSnapshot::step_walk(const Write& write) {
  bool written = true;
  TreeRead read;
  const std::string problem = walk_->step([&](std::string_view key, std::string_view record) {
    const TreeMoment& moment = *moments_.at(TreeRecord::database_of(key));
    if (!written || moment.hides(key.substr(TreeRecord::prefix_bytes), read)) return;
    written = add(key, record, write);
    if (text_.size() < most_piece || !written) return;
    written = write(text_);
    text_.clear();
  });
  if (!problem.empty()) throw TreeError(problem);
  return written;
}

SnapshotSource::Step TreeSnapshot::step(const Write& write) {
  bool written = at_ != nullptr ? step_database(write) : step_walk(write);
  written = written && write(text_);
  text_.clear();
  const bool walks = walk_ != nullptr && !walk_->ended();
  return written && (at_ != nullptr || walks) ? Step::more : Step::done;
}

}  // namespace isotherm
