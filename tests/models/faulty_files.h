// FaultyFiles: a file system (durability/files.h) that fails when told to, and loses its power.
//
// Files lie in a folder of the system's, which is the test's. Each write is kept beside, until its
// file is synced. `lose_power` shows what would be left of all: what was synced and, of every write
// since, all, nothing or a piece, as the random numbers have it. Names last when they are given.
//
// Faults. The next `calls_until_fault` calls that write work, `faults` behind them fail with
// `error`; a write that fails may have written its first half. `short_writes`: each write takes
// half of what it is given, if that is more than a few bytes. A full disk is `error` ENOSPC for
// long. `leave_room`: what the disk is said to have, and no file is given more than that.
//
// Threads. Any.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "durability/files.h"
#include "models/failing_memory.h"

namespace isotherm {

class FaultyFiles final : public Files {
 public:
  explicit FaultyFiles(uint64_t seed) : random_(seed) {}

  void fail_after(int64_t calls, int64_t faults, int error) {
    const std::lock_guard guard(mutex_);
    calls_until_fault_ = calls;
    faults_ = faults;
    error_ = error;
  }
  void heal() { fail_after(0, 0, 0); }
  void leave_room(int64_t bytes) {
    const std::lock_guard guard(mutex_);
    room_ = bytes;
  }
  // Syncs do not end until they are let go.
  void hold_syncs(bool hold) {
    const std::lock_guard guard(mutex_);
    holds_syncs_ = hold;
    let_go_.notify_all();
  }
  // The same of writes.
  void hold_writes(bool hold) {
    const std::lock_guard guard(mutex_);
    holds_writes_ = hold;
    let_go_.notify_all();
  }
  uint64_t held_writes() {
    const std::lock_guard guard(mutex_);
    return held_writes_;
  }
  uint64_t held_syncs() {
    const std::lock_guard guard(mutex_);
    return held_syncs_;
  }
  void write_short() {
    const std::lock_guard guard(mutex_);
    short_writes_ = true;
  }
  // Behind the next sync, so many allocations of the thread that syncs work, and the next one
  // fails.
  void fail_memory(int64_t works) { memory_works_ = works; }
  uint64_t faults_met() {
    const std::lock_guard guard(mutex_);
    return faults_met_;
  }

  // Writes to `folder`, which is empty, what a machine would find in `of` that lost its power now
  // and starts again; without any luck nothing that was not synced. The files themselves go on.
  void lose_power(const std::string& of, const std::string& folder, bool luckless = false) {
    const std::lock_guard guard(mutex_);
    for (const auto& [path, file] : files_) {
      if (path.substr(0, path.rfind('/')) != of) continue;
      std::string content = file.synced;
      for (const Write& write : file.writes) {
        const uint64_t luck = random_() % 3;
        if (luckless || luck == 0) continue;
        const size_t bytes = luck == 1 ? write.data.size() : random_() % (write.data.size() + 1);
        if (content.size() < write.offset + bytes) content.resize(write.offset + bytes);
        content.replace(write.offset, bytes, write.data, 0, bytes);
      }
      const std::string name = folder + path.substr(path.rfind('/'));
      std::ofstream(name, std::ios::binary | std::ios::trunc) << content;
      if (content.size() < file.room) std::filesystem::resize_file(name, file.room);
    }
  }

  // A file that is there, of which nothing was synced but its room.
  void adopt_unsynced(const std::string& path) {
    const std::lock_guard guard(mutex_);
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    File& file = files_[path];
    file.room = text.str().size();
    file.writes.push_back({0, text.str()});
    // Its header was.
    file.synced = text.str().substr(0, header_bytes);
  }

  int open(const std::string& path) override {
    const std::lock_guard guard(mutex_);
    if (const int error = fault(); error != 0) return error;
    const int file = system_files().open(path);
    if (file >= 0) paths_[file] = path;
    files_.try_emplace(path);
    return file;
  }
  void close(int file) override {
    const std::lock_guard guard(mutex_);
    paths_.erase(file);
    system_files().close(file);
  }
  int allocate(int file, uint64_t bytes) override {
    const std::lock_guard guard(mutex_);
    if (const int error = fault(); error != 0) return error;
    if (room_ >= 0 && bytes > static_cast<uint64_t>(room_)) return -ENOSPC;
    File& its = files_[paths_[file]];
    its.room = std::max(its.room, bytes);
    return system_files().allocate(file, bytes);
  }
  int64_t write(int file, const char* data, uint64_t bytes, uint64_t offset) override {
    const FailingMemory::Pause pause;
    std::unique_lock guard(mutex_);
    ++held_writes_;
    let_go_.wait(guard, [this] { return !holds_writes_; });
    --held_writes_;
    const int error = fault();
    if (error != 0 || (short_writes_ && bytes > 8)) bytes = bytes / 2;
    if (bytes != 0) {
      files_[paths_[file]].writes.push_back({offset, std::string(data, bytes)});
      system_files().write(file, data, bytes, offset);
    }
    return error != 0 ? error : static_cast<int64_t>(bytes);
  }
  // One that fails forgets what was written, as systems do.
  int sync(int file) override {
    if (const int64_t works = memory_works_.exchange(-1); works >= 0) memory_.emplace(works);
    const FailingMemory::Pause pause;
    std::unique_lock guard(mutex_);
    ++held_syncs_;
    let_go_.wait(guard, [this] { return !holds_syncs_; });
    --held_syncs_;
    File& its = files_[paths_[file]];
    if (const int error = fault(); error != 0) {
      its.writes.clear();
      return error;
    }
    for (const Write& write : its.writes) {
      const size_t end = write.offset + write.data.size();
      if (its.synced.size() < end) its.synced.resize(end);
      its.synced.replace(write.offset, write.data.size(), write.data);
    }
    its.writes.clear();
    return 0;
  }
  bool has_name(int file) override { return system_files().has_name(file); }
  // It maps none, but knows how many bytes were wanted last.
  char* map(int /*file*/, uint64_t bytes, bool /*at_once*/) override {
    const std::lock_guard guard(mutex_);
    wanted_map_ = bytes;
    return nullptr;
  }
  uint64_t wanted_map() {
    const std::lock_guard guard(mutex_);
    return wanted_map_;
  }
  int rename(const std::string& from, const std::string& to) override {
    const std::lock_guard guard(mutex_);
    if (const int error = fault(); error != 0) return error;
    files_[to] = std::move(files_[from]);
    files_.erase(from);
    for (auto& [file, path] : paths_) {
      if (path == from) path = to;
    }
    return system_files().rename(from, to);
  }
  int64_t copy(const std::string& from, const std::string& to) override {
    const std::lock_guard guard(mutex_);
    File& its = files_[to];
    if (const int error = fault(); error != 0) return error;
    const int64_t copied = system_files().copy(from, to);
    its.synced = files_[from].synced;
    its.room = files_[from].room;
    return copied;
  }
  int remove(const std::string& path) override {
    const std::lock_guard guard(mutex_);
    files_.erase(path);
    return system_files().remove(path);
  }
  int sync_folder(const std::string& /*path*/) override {
    const std::lock_guard guard(mutex_);
    return fault();
  }
  int trim(int file, uint64_t offset) override { return system_files().trim(file, offset); }
  int64_t room(const std::string& /*folder*/) override {
    const std::lock_guard guard(mutex_);
    return room_;
  }

 private:
  static constexpr size_t header_bytes = 64;
  struct Write {
    uint64_t offset;
    std::string data;
  };
  struct File {
    std::string synced;  // zeros behind it, as far as its room goes
    uint64_t room = 0;
    std::vector<Write> writes;
  };

  int fault() {
    if (faults_ == 0) return 0;
    if (calls_until_fault_ > 0) {
      --calls_until_fault_;
      return 0;
    }
    --faults_;
    ++faults_met_;
    return -error_;
  }

  std::mutex mutex_;
  std::mt19937_64 random_;
  std::map<std::string, File> files_;
  std::map<int, std::string> paths_;
  int64_t calls_until_fault_ = 0;
  int64_t faults_ = 0;
  int error_ = 0;
  uint64_t faults_met_ = 0;
  bool short_writes_ = false;
  bool holds_syncs_ = false;
  bool holds_writes_ = false;
  uint64_t held_syncs_ = 0;
  uint64_t held_writes_ = 0;
  int64_t room_ = INT64_MAX;
  uint64_t wanted_map_ = 0;
  std::atomic<int64_t> memory_works_{-1};
  std::optional<FailingMemory> memory_;  // of the thread that syncs
  std::condition_variable let_go_;
};

}  // namespace isotherm
