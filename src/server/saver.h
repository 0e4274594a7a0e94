// Saver: a thread that writes snapshots of the store to a file: when somebody asks (SAVE, BGSAVE),
// or at the save points (durability/save_job.h).
//
// A snapshot is of one moment (engine/snapshot_source.h). A flush that comes while it is written
// makes it begin anew, but the third time it keeps what is flushed until that is written. The file
// is Redis's RDB format, takes the place of the one before when it is whole and on disk, and says
// in its first fields which versions items had, so that those given after a start are larger than
// all that anybody can have seen.
//
// Where there is a journal, it is cut behind each snapshot that is whole and on disk: a copy of the
// file becomes the journal's base (durability/journal.h). It is the journal's own, so nothing that
// is done to the snapshot afterwards touches it. Where that fails, the journal stays as it is.
//
// Of a store with a tree it is a copy for whoever wants one: a start reads the tree. So without a
// journal all of the snapshot's moment is taken into the tree, too, before it is done. The tree
// itself cuts the journal.
//
// Of items on a GPU it is what a start reads, as of a store in memory. When the GPU has failed no
// snapshot is written: the last one, and the journal, have what is gone.
//
// By itself it tries again `after_failure` behind a failure.
//
// Threads. Its own; a worker of the engine while it saves. It stops before the loops that `told`
// wakes go, and goes behind all who may have its snapshot as their sink.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "durability/files.h"
#include "durability/journal.h"
#include "durability/save_job.h"
#include "engine/engine.h"
#include "engine/snapshot_source.h"

namespace isotherm {

class SnapshotFile;

class Saver {
 public:
  // `told`: somebody may wait for the end of a snapshot; called at each. `journal`: the one to cut,
  // which stays until `stop`; may be null.
  Saver(Engine& engine, SaveJob& job, std::string folder, std::string name, Files& files,
        std::function<void()> told, Journal* journal = nullptr);
  ~Saver() { stop(); }
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  // Leaves a snapshot that is under way, and writes none any more. Its sink stays until it goes.
  void stop();

 private:
  void run();
  bool is_due() const;
  void save();
  bool write();
  bool write_once(Worker& worker, bool keeps_flushed, SnapshotSource::Step& last);
  bool is_read_by_a_start();
  void cut(const SnapshotFile& file, uint64_t version);
  void log_failure(const std::string& why) const;
  int64_t now_s() const { return engine_.clock().now_ms() / 1000; }

  Engine& engine_;
  SaveJob& job_;
  const std::string folder_;
  const std::string name_;
  Files& files_;
  const std::function<void()> told_;
  const std::unique_ptr<SnapshotSource> snapshot_;
  Journal* const journal_;
  JournalSegment begin_;  // of what is in the journal behind the last; 0: none
  uint64_t changes_ = 0;  // at the moment of the last
  std::thread thread_;
};

}  // namespace isotherm
