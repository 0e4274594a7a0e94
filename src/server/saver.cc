#include "server/saver.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>
#include <new>
#include <utility>

#include "base/lasting_thread.h"
#include "base/reason_of.h"
#include "durability/rdb_format.h"
#include "durability/snapshot_file.h"
#include "net/log.h"
#include "net/version.h"
#include "tree/tree.h"

namespace isotherm {
namespace {

// What Redis shows of a file before it reads it, and how many keys are to come.
std::string head_of(const SnapshotSource::Moment& moment, uint64_t used_memory) {
  std::string head(rdb::magic);
  const std::string version = std::to_string(rdb::version);
  head += std::string(rdb::version_digits - version.size(), '0') + version;
  rdb::put_aux("redis-ver", net::redis_version, head);
  rdb::put_aux("redis-bits", "64", head);
  rdb::put_aux("ctime", std::to_string(moment.at_ms / 1000), head);
  rdb::put_aux("used-mem", std::to_string(used_memory), head);
  rdb::put_aux("aof-base", "0", head);
  rdb::put_aux(rdb::version_field, std::to_string(moment.version), head);
  for (size_t i = 0; i < moment.databases.size(); ++i) {
    const DatabaseStats& database = moment.databases[i];
    if (database.keys == 0) continue;
    head += static_cast<char>(rdb::select_db);
    rdb::put_length(i, head);
    head += static_cast<char>(rdb::resize_db);
    rdb::put_length(database.keys, head);
    rdb::put_length(database.expires, head);
  }
  return head;
}

// Which a start reads; null: there is none.
Tree* lasting_tree(const Engine& engine) {
  Tree* const tree = engine.tree();
  return tree != nullptr && tree->lasts() ? tree : nullptr;
}

}  // namespace

Saver::Saver(Engine& engine, SaveJob& job, std::string folder, std::string name, Files& files,
             std::function<void()> told, Journal* journal)
    : engine_(engine),
      job_(job),
      folder_(std::move(folder)),
      name_(std::move(name)),
      files_(files),
      told_(std::move(told)),
      snapshot_(make_snapshot_source(engine)),
      journal_(journal) {
  job_.begin_at(now_s(), engine_.stats().changes);
  thread_ = lasting_thread([this] { run(); });
}

void Saver::stop() {
  job_.stop();
  if (thread_.joinable()) thread_.join();
}

void Saver::run() {
  constexpr std::chrono::milliseconds between_looks(100);
  while (!job_.stops()) {
    if (job_.wait(between_looks) || (!job_.stops() && is_due())) save();
  }
}

// As in Redis: the first point that is met, but soon after a failure.
bool Saver::is_due() const {
  constexpr int64_t after_failure_s = 5;
  const SavePoints points = job_.points();
  if (points.empty()) return false;
  // What the GPU alone had is in the last snapshot only.
  if (const Tree* const tree = engine_.tree(); tree != nullptr && tree->is_lost()) return false;
  const int64_t now = now_s();
  // A clock that was set back would keep whoever waits for it waiting, for years perhaps.
  const auto is_over = [now](int64_t then, int64_t seconds) {
    return now < then || now - then > seconds;
  };
  if (job_.failed() && !is_over(job_.tried_s(), after_failure_s)) return false;
  const auto changes = static_cast<int64_t>(engine_.stats().changes - job_.changes());
  return std::any_of(points.begin(), points.end(), [&](const SavePoint& point) {
    return changes >= point.changes && is_over(job_.saved_s(), point.seconds);
  });
}

void Saver::save() {
  job_.begin(now_s());
  bool worked = false;
  try {
    worked = write();
  } catch (const std::bad_alloc&) {
    log_failure("there is no memory for it");
  } catch (const std::exception& error) {
    log_failure(reason_of(error));
  }
  if (worked) net::log(net::LogLevel::notice, "the snapshot is on disk: " + folder_ + "/" + name_);
  job_.end(worked, now_s(), changes_);
  told_();
}

bool Saver::write() {
  if (engine_.stats().on_device) {
    net::log(net::LogLevel::warning, "there are no snapshots while the index is on a GPU");
    return false;
  }
  begin_ = {};
  const bool cuts = journal_ != nullptr && lasting_tree(engine_) == nullptr;
  if (cuts && journal_->begin_segment(begin_) < 0) begin_ = {};
  Worker worker(engine_);
  SnapshotSource::Step last = SnapshotSource::Step::flushed;
  bool worked = false;
  try {
    constexpr int begins_anew = 2;
    for (int i = 0; last == SnapshotSource::Step::flushed && !job_.stops(); ++i) {
      worked = write_once(worker, i >= begins_anew, last);
    }
  } catch (...) {
    snapshot_->end(worker);
    throw;
  }
  snapshot_->end(worker);
  return worked;
}

bool Saver::write_once(Worker& worker, bool keeps_flushed, SnapshotSource::Step& last) {
  last = SnapshotSource::Step::done;
  const SnapshotSource::Moment* const moment = snapshot_->begin(worker, keeps_flushed);
  if (moment == nullptr) throw std::bad_alloc();
  changes_ = moment->changes;
  SnapshotFile file(files_, folder_, name_);
  file.write(head_of(*moment, engine_.used_memory()));
  const auto write = [&](std::string_view bytes) { return file.write(bytes) >= 0; };
  do {
    last = snapshot_->step(write);
  } while (last == SnapshotSource::Step::more && !job_.stops() && file.error() == 0);
  if (last == SnapshotSource::Step::flushed || job_.stops()) return false;
  if (!is_read_by_a_start()) {
    log_failure("a start reads the tree, and that cannot be written: " +
                engine_.tree()->last_error());
    return false;
  }
  file.write(std::string(1, static_cast<char>(rdb::eof)));
  if (file.finish() < 0) {
    log_failure(reason_of(-file.error()));
    return false;
  }
  if (begin_.number != 0) cut(file, moment->version);
  return true;
}

// What was saved: from the snapshot, from a journal, or from a tree.
bool Saver::is_read_by_a_start() {
  Tree* const tree = lasting_tree(engine_);
  return tree == nullptr || journal_ != nullptr || tree->flush();
}

void Saver::cut(const SnapshotFile& file, uint64_t version) {
  JournalBase base{.number = 0, .version = version, .sum = file.sum(), .bytes = file.bytes()};
  int result = journal_->put_base(file.path(), begin_, base);
  if (result >= 0) result = journal_->cut_before(begin_.lsn, base);
  if (result >= 0) return;
  net::log(net::LogLevel::notice,
           "the journal is not cut behind the snapshot: " + (result == -EBUSY || result == -ESTALE
                                                                 ? "it is being written anew"
                                                                 : reason_of(-result)));
}

void Saver::log_failure(const std::string& why) const {
  net::log(net::LogLevel::warning,
           "the snapshot " + folder_ + "/" + name_ + " cannot be written: " + why);
}

}  // namespace isotherm
