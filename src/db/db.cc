#include "isotherm/db.h"

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "db/db_state.h"
#include "isotherm/db_transaction.h"

namespace isotherm {

namespace {

bool is_below(const std::string& inner, const std::string& outer) {
  namespace fs = std::filesystem;
  const fs::path path = fs::weakly_canonical(fs::absolute(inner));
  const fs::path of = fs::canonical(outer);
  return std::mismatch(of.begin(), of.end(), path.begin(), path.end()).first == of.end();
}

// False: it is there. By one call of the system, so that of several who want it one has made it.
bool make_new_folder(const std::string& folder) {
  std::filesystem::path path = folder;
  if (!path.has_filename()) path = path.parent_path();
  std::error_code error;
  bool made = false;
  if (path.empty()) error = std::make_error_code(std::errc::invalid_argument);
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  if (!error) made = std::filesystem::create_directory(path, error);
  if (!error) return made;
  throw std::runtime_error("cannot make the folder '" + folder + "': " + error.message());
}

}  // namespace

Db::Db(std::unique_ptr<DbState> state) : state_(std::move(state)) {}
Db::~Db() = default;

DbStatus open_db(const DbOptions& options, const std::string& folder, Files& files,
                 std::unique_ptr<Db>& db, const SortedTierMaker& make_sorted) {
  return guarded([&]() -> DbStatus {
    db.reset();
    db = DbState::make_db(std::make_unique<DbState>(options, folder, files, make_sorted));
    return {};
  });
}

std::unique_ptr<Db> DbState::make_db(std::unique_ptr<DbState> state) {
  return std::unique_ptr<Db>(new Db(std::move(state)));
}

DbStatus Db::open(const DbOptions& options, const std::string& folder, std::unique_ptr<Db>& db) {
  return open_db(options, folder, system_files(), db);
}

// ---- Reads and writes ----

DbStatus Db::get(std::string_view key, std::string& value, const DbReadOptions& options) {
  return guarded([&] {
    if (options.snapshot == nullptr) return state_->read(key, value);
    return DbState::read_at(*state_->moment_of(options.snapshot), key, value);
  });
}

std::vector<DbStatus> Db::multi_get(const std::vector<std::string_view>& keys,
                                    std::vector<std::string>& values,
                                    const DbReadOptions& options) {
  values.assign(keys.size(), {});
  std::vector<DbStatus> statuses(keys.size());
  const DbStatus all = guarded([&]() -> DbStatus {
    if (options.snapshot != nullptr) {
      const auto moment = state_->moment_of(options.snapshot);
      for (size_t i = 0; i < keys.size(); ++i) {
        statuses[i] = DbState::read_at(*moment, keys[i], values[i]);
      }
      return {};
    }
    DbWorkers::Lease lease(state_->workers());
    Batch& batch = lease.batch();
    for (const std::string_view key : keys) batch.get(key);
    batch.view(0);
    lease.submit();
    for (Batch::Row row = 0; row < batch.size(); ++row) {
      const Reply& reply = batch.reply(row);
      statuses[row] = state_->with_reason(status_of(reply.status));
      if (statuses[row].ok()) values[row].assign(reply.value());
    }
    return {};
  });
  if (!all.ok()) statuses.assign(keys.size(), all);
  return statuses;
}

DbStatus Db::put(std::string_view key, std::string_view value) {
  return guarded([&] {
    return state_->write_row(key, value,
                             [&](Batch& batch) { batch.put(key, value, option::over_cap); });
  });
}

DbStatus Db::erase(std::string_view key) {
  return guarded(
      [&] { return state_->write_row(key, {}, [&](Batch& batch) { batch.erase(key); }); });
}

DbStatus Db::merge(std::string_view key, uint32_t function, std::string_view operand) {
  return guarded([&] {
    WriteGroup group;
    group.merge(key, function, operand);
    return state_->write(group);
  });
}

DbStatus Db::write(const WriteGroup& group) {
  return guarded([&] { return state_->write(group); });
}

// ---- Moments ----

DbSnapshot::DbSnapshot(std::unique_ptr<Moment> moment) : moment_(std::move(moment)) {}
DbSnapshot::~DbSnapshot() = default;

DbStatus Db::snapshot(std::unique_ptr<const DbSnapshot>& snapshot) {
  return guarded([&]() -> DbStatus {
    auto moment = std::make_unique<DbSnapshot::Moment>();
    moment->at = state_->take_moment();
    snapshot.reset(new DbSnapshot(std::move(moment)));
    return {};
  });
}

DbStatus Db::sync() {
  return guarded([&]() -> DbStatus {
    if (state_->journal().sync_now() >= 0) return {};
    return state_->with_reason(status_of(Status::not_saved));
  });
}

DbStatus Db::flush() {
  return guarded([&]() -> DbStatus {
    if (state_->tree().flush()) return {};
    return state_->with_reason(status_of(Status::not_saved));
  });
}

DbStatus Db::checkpoint(const std::string& folder) {
  return guarded([&]() -> DbStatus {
    check_name(folder);
    const auto is_there = [&] {
      return DbStatus(DbStatus::Code::invalid, folder + " is there already");
    };
    if (std::filesystem::exists(folder)) return is_there();
    if (!folder.empty() && is_below(folder, state_->engine().options().tree)) {
      return {DbStatus::Code::invalid, folder + " is among the files of this Db's own tree"};
    }
    if (!make_new_folder(folder)) return is_there();
    DbStatus status = guarded([&]() -> DbStatus {
      std::string problem = state_->tree().checkpoint(
          folder + "/tree",
          [this](const std::function<void()>& work) { return state_->stand_still(work); });
      if (problem.empty()) return {};
      return {DbStatus::Code::not_saved, std::move(problem)};
    });
    std::error_code ignored;
    if (!status.ok()) std::filesystem::remove_all(folder, ignored);
    return status;
  });
}

DbStatistics Db::statistics() {
  const EngineStats engine = state_->engine().stats();
  const TreeStats tree = state_->tree().stats();
  DbStatistics its;
  its.memory = engine.used_memory;
  its.keys_in_memory = state_->engine().database(0).keys;
  its.hits = engine.hits;
  its.misses = engine.misses;
  its.evicted = engine.evicted;
  its.file_reads = tree.loads;
  its.runs = tree.runs;
  its.runs_taken_in = tree.ingested;
  its.file_bytes = tree.disk_bytes;
  its.file_keys = tree.keys;
  its.journal_bytes = state_->journal().live_bytes();
  its.journal_syncs = state_->journal().syncs();
  its.waits_for_memory = state_->waits_for_memory();
  its.gpu_entries = tree.sorted.stats.entries;
  its.gpu_bytes = tree.sorted.stats.bytes;
  its.gpu_problem = tree.sorted.problem;
  return its;
}

}  // namespace isotherm
