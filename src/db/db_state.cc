#include "db/db_state.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/worker_pool.h"
#include "items/worth_threads.h"

namespace isotherm {
namespace {

constexpr uint64_t over_the_cap = 32 << 20;
constexpr uint32_t most_calls = 250;
constexpr size_t most_changes = size_t{1} << 30;  // rows have numbers of 32 bits
constexpr uint32_t most_start_threads = 256;

const Clock& its_clock() {
  static const SystemClock clock;
  return clock;
}

const DbOptions& checked(const DbOptions& options) {
  if (options.sync > DbSync::no) throw std::invalid_argument("sync is none of DbSync");
  if (options.most_calls == 0 || options.most_calls > most_calls) {
    throw std::invalid_argument("most_calls must be from 1 to 250");
  }
  if (options.start_threads == 0 || options.start_threads > most_start_threads) {
    throw std::invalid_argument("start_threads must be from 1 to " +
                                std::to_string(most_start_threads));
  }
  if (options.memory != 0 && options.memory < DbOptions::least_memory) {
    throw std::invalid_argument("memory must be 0, for no cap, or at least " +
                                std::to_string(DbOptions::least_memory) + " bytes");
  }
  return options;
}

Options engine_options(const DbOptions& options, const std::string& folder) {
  Options its;
  its.maxmemory = options.memory;
  its.maxmemory_policy = EvictionPolicy::allkeys_lru;
  its.databases = intents_database + 1;
  its.max_value_bytes = WritePlan::most_value;
  its.tree = folder + "/tree";
  its.tree_options = options.tree_options;
  its.gpu_sorted = options.gpu_memory;
  its.gpus = {options.gpu};
  return its;
}

SyncPolicy policy_of(DbSync sync) {
  switch (sync) {
    case DbSync::always:
      return SyncPolicy::always;
    case DbSync::everysec:
      return SyncPolicy::everysec;
    case DbSync::no:
      break;
  }
  return SyncPolicy::no;
}

}  // namespace

// The system would take what is before the zero byte for the name.
void check_name(const std::string& folder) {
  if (folder.find('\0') == std::string::npos) return;
  throw std::invalid_argument("the name of the folder has a zero byte");
}

std::string make_folder(const std::string& folder) {
  std::error_code error;
  check_name(folder);
  if (std::filesystem::exists(folder + "/CURRENT", error)) {
    throw std::invalid_argument(
        folder + " is a database of RocksDB's own; copy its keys into a Db in another folder");
  }
  std::filesystem::create_directories(folder, error);
  std::string its;
  if (!error) its = std::filesystem::canonical(folder, error).string();
  if (error) {
    throw std::runtime_error("cannot make the folder '" + folder + "': " + error.message());
  }
  return its;
}

DbState::DbState(const DbOptions& options, const std::string& folder, Files& files,
                 const SortedTierMaker& make_sorted)
    : merges_(checked(options).merges),
      folder_(make_folder(folder)),
      engine_(engine_options(options, folder_), its_clock(), make_sorted) {
  StoredJournalOptions its;
  its.folder = folder_;
  its.name = "journal";
  its.policy = policy_of(options.sync);
  its.readers = options.start_threads;
  its.log = options.log;
  journal_ = std::make_unique<StoredJournal>(its, engine_, files);
  workers_ = std::make_unique<DbWorkers>(engine_, options.most_calls);
}

// Workers end before the journal does.
DbState::~DbState() { workers_.reset(); }

DbStatus DbState::with_reason(DbStatus status) {
  if (status.is(DbStatus::Code::out_of_memory)) {
    const uint64_t kept = kept_by_snapshots();
    if (kept == 0) return status;
    return {status.code(), "snapshots and iterators keep " + std::to_string(kept) + " of the " +
                               std::to_string(engine_.maxmemory()) +
                               " bytes of memory: writes go on when some are destroyed"};
  }
  if (!status.is(DbStatus::Code::not_saved)) return status;
  std::string reason = tree().error();
  if (reason.empty()) reason = "the journal or the files cannot be written or read";
  return {DbStatus::Code::not_saved, std::move(reason)};
}

DbStatus DbState::read(std::string_view key, std::string& value, uint64_t* version,
                       uint32_t database) {
  DbWorkers::Lease lease(*workers_);
  if (uint64_t found = 0; lease.worker().get_at_once(database, key, value, found)) {
    if (version != nullptr) *version = found;
    return {};
  }
  lease.batch().select(database);
  lease.batch().get(key);
  lease.batch().select(keys_database);
  lease.submit();
  const Reply& reply = lease.batch().reply(0);
  if (version != nullptr) *version = 0;
  if (reply.status != Status::ok) return with_reason(status_of(reply.status));
  value.assign(reply.value());
  if (version != nullptr) *version = reply.version;
  return {};
}

DbStatus DbState::read_at(const TreeMoment& moment, std::string_view key, std::string& value,
                          uint64_t* version) {
  TreeRead read;
  moment.read(key, read);
  if (version != nullptr) *version = 0;
  if (read.state == TreeRead::State::absent) return status_of(Status::not_found);
  if (read.state == TreeRead::State::failed) {
    return {DbStatus::Code::not_saved, "the files cannot be read"};
  }
  TreeRecord record;
  if (!record.read(read.value)) {
    return {DbStatus::Code::corrupt, "a record of the files cannot be understood"};
  }
  if (version != nullptr) *version = record.version;
  value.assign(record.value);
  return {};
}

DbStatus DbState::check(const WriteGroup& group) const {
  if (!group.has_merges() && group.bytes() <= WritePlan::most_value) return {};
  for (size_t i = 0; i < group.size(); ++i) {
    const WriteGroup::Row row = group.row(i);
    if (std::max(row.key.size(), row.value.size()) > WritePlan::most_value) {
      return status_of(Status::too_large);
    }
    if (row.kind == WriteGroup::Kind::merge && !merges_.knows(row.function)) {
      return {DbStatus::Code::invalid,
              "there is no merge function " + std::to_string(row.function)};
    }
  }
  return {};
}

// About what the items of so many changes take, with their places in the index, where that is more
// than a group of usual size may take anyway.
uint64_t DbState::to_lend(uint64_t changes, uint64_t bytes) const {
  constexpr uint64_t of_a_change = 128;
  const uint64_t all = changes * of_a_change + bytes + bytes / 2;
  const bool is_usual = engine_.maxmemory() == 0 || all <= over_the_cap / 2;
  return is_usual ? 0 : all;
}

// Bytes of runs, where these are all of the memory; else 0.
uint64_t DbState::kept_by_snapshots() {
  const uint64_t cap = engine_.maxmemory();
  if (cap == 0 || !tree().holds_moments() || engine_.used_memory() < cap) return 0;
  // A look at the runs stops all who write, and memory is at its cap most of the time.
  if (tree().most_held_by_moments() <= cap) return 0;
  const uint64_t kept = tree().held_by_moments();
  return kept > cap ? kept : 0;
}

// Memory then forgets what is in the files. What snapshots keep goes when they do: they are waited
// for, but not for long.
bool DbState::wait_for_memory(DbWorkers::Lease& lease, uint64_t bytes) {
  constexpr int most_tries = 100;
  constexpr std::chrono::milliseconds between_looks{1};
  const uint64_t cap = engine_.maxmemory();
  for (int left = most_tries; cap != 0 && left > 0; --left) {
    const bool kept = kept_by_snapshots() != 0;
    if (!kept && engine_.used_memory() + bytes <= cap + cap / 4 + 2 * over_the_cap) return true;
    if (left == most_tries) waits_for_memory_.fetch_add(1, std::memory_order_relaxed);
    if (kept) {
      std::this_thread::sleep_for(between_looks);
    } else if (!tree().flush()) {
      return true;
    }
    lease.worker().maintain();
  }
  return kept_by_snapshots() == 0;
}

DbStatus DbState::write(WritePlan::Parts parts, const WriteGroup& intents, uint32_t threads) {
  if (DbStatus wrong = check(intents); !wrong.ok()) return wrong;
  uint64_t changes = intents.size();
  uint64_t bytes = intents.bytes();
  uint64_t checks = 0;
  for (const WritePlan::Part& part : parts) {
    if (DbStatus wrong = check(*part.group); !wrong.ok()) return wrong;
    changes += part.group->size();
    bytes += part.group->bytes();
    if (part.checks != nullptr) checks += part.checks->size();
  }
  if (changes + checks == 0) return {};
  if (changes > most_changes) {
    return {DbStatus::Code::invalid, "the group has too many changes"};
  }
  if (threads > 1 && changes + checks >= worth_threads(1 << 14)) {
    return write_by_threads(parts, intents, changes, bytes, threads);
  }
  std::optional<WritePlan> plan;
  DbStatus status = write_rows(changes, bytes, [&](Batch& batch) {
    plan.emplace(parts, intents, merges_, batch);
    return plan->first_write();
  });
  return !plan || plan->problem().ok() ? status : with_reason(plan->problem());
}

// By as many threads as there are workers for. Who waits for the helpers waits for no worker.
DbStatus DbState::write_by_threads(WritePlan::Parts parts, const WriteGroup& intents,
                                   uint64_t changes, uint64_t bytes, uint32_t threads) {
  DbWorkers::Lease lease(*workers_);
  std::vector<std::unique_ptr<DbWorkers::Lease>> others;
  std::vector<Worker*> helpers;
  while (helpers.size() + 1 < std::min<size_t>(threads, parts.size())) {
    auto other = DbWorkers::Lease::without_waiting(*workers_);
    if (other == nullptr) break;
    helpers.push_back(&other->worker());
    others.push_back(std::move(other));
  }
  WorkerPool pool(static_cast<uint32_t>(helpers.size() + 1));
  std::optional<WritePlan> plan;
  const auto fill = [&](Batch& batch) {
    plan.emplace(parts, intents, merges_, batch, &pool);
    return plan->first_write();
  };
  DbStatus status = write_rows(lease, changes, bytes, &pool, fill,
                               [&] { lease.worker().submit(lease.batch(), pool, helpers); });
  return !plan || plan->problem().ok() ? status : with_reason(plan->problem());
}

static bool is_done(const Batch& batch, Batch::Row row) {
  const Status status = batch.reply(row).status.load(std::memory_order_acquire);
  return status == Status::ok || status == Status::not_found;
}

DbStatus DbState::result_of(const Batch& batch, Batch::Row first_write, WorkerPool* pool) {
  constexpr Batch::Row at_once = 1 << 14;
  std::atomic<bool> all_done{true};
  run_pieces(pool, batch.size() - first_write, at_once, [&](Batch::Row first, Batch::Row end) {
    bool done = true;
    for (Batch::Row row = first; row < end && done; ++row) done = is_done(batch, first_write + row);
    if (!done) all_done.store(false, std::memory_order_relaxed);
  });
  if (all_done.load(std::memory_order_relaxed)) return {};
  DbStatus failed;
  bool any_written = false;
  for (Batch::Row row = first_write; row < batch.size(); ++row) {
    if (is_done(batch, row)) {
      any_written = true;
      continue;
    }
    const Status status = batch.reply(row).status.load(std::memory_order_acquire);
    failed = with_reason(status_of(status));
    if (status == Status::not_saved) break;
  }
  if (any_written && failed.is(DbStatus::Code::out_of_memory)) {
    return {failed.code(), "there was no memory for a part of the group; the rest was written"};
  }
  return failed;
}

bool DbState::stand_still(const std::function<void()>& work) {
  DbWorkers::Lease lease(*workers_);
  return lease.worker().stand_still(work);
}

std::shared_ptr<const TreeMoment> DbState::take_moment() {
  DbWorkers::Lease lease(*workers_);
  return take_moment(lease.worker());
}

std::shared_ptr<const TreeMoment> DbState::moment_of(const DbSnapshot* snapshot) {
  if (snapshot == nullptr) return take_moment();
  if (snapshot->moment_->at->is_of(tree())) return snapshot->moment_->at;
  throw std::invalid_argument("the snapshot is of another Db");
}

// It is shown when all that it has is as safe as what is read else.
std::shared_ptr<const TreeMoment> DbState::take_moment(Worker& worker, bool sorted) {
  std::shared_ptr<const TreeMoment> moment;
  if (!worker.stand_still([&] { moment = tree().take_moment(keys_database, sorted); })) {
    throw std::bad_alloc();
  }
  Batch none;
  worker.submit(none);
  return moment;
}

}  // namespace isotherm
