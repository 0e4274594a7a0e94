// Points at which a test ends the process (base/kill_point.h), and a file system whose calls are
// such.
//
// A call is a point by the name of its file's kind (segment, manifest, base, snapshot; folder for
// what syncs one) and its own: "segment.sync" is before the call. A write and a copy have a second
// one behind their first half: "segment.write.half".
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include "base/kill_point.h"
#include "durability/files.h"

namespace isotherm {
namespace {

class ArmedPoint {
 public:
  // The variable's value is a name, a colon and a number.
  explicit ArmedPoint(const char* variable) {
    const char* const value = std::getenv(variable);
    if (value == nullptr) return;
    const std::string text(value);
    const size_t colon = text.rfind(':');
    if (colon == std::string::npos) std::abort();
    name_ = text.substr(0, colon);
    left_ = std::atoi(text.c_str() + colon + 1);
    if (left_ <= 0) std::abort();
  }
  bool is_now(std::string_view name) { return name == name_ && left_.fetch_sub(1) == 1; }

 private:
  std::string name_;
  std::atomic<int> left_{0};
};

std::string kind_of(std::string path) {
  if (path.ends_with(".new")) path.resize(path.size() - 4);
  std::string last = path.substr(path.rfind('.') + 1);
  if (last == "manifest" || last == "base") return last;
  return std::all_of(last.begin(), last.end(), [](char c) { return c >= '0' && c <= '9'; })
             ? "segment"
             : "snapshot";
}

class FilesWithPoints final : public Files {
 public:
  explicit FilesWithPoints(Files& files) : files_(files) {}

  int open(const std::string& path) override {
    kill_point(kind_of(path) + ".open");
    const int file = files_.open(path);
    const std::lock_guard guard(mutex_);
    if (file >= 0) kinds_[file] = kind_of(path);
    return file;
  }
  void close(int file) override { files_.close(file); }
  int allocate(int file, uint64_t bytes) override {
    kill_point(kind(file) + ".allocate");
    return files_.allocate(file, bytes);
  }
  int64_t write(int file, const char* data, uint64_t bytes, uint64_t offset) override {
    const std::string name = kind(file) + ".write";
    kill_point(name);
    const int64_t half = files_.write(file, data, (bytes + 1) / 2, offset);
    kill_point(name + ".half");
    if (half < 0 || static_cast<uint64_t>(half) == bytes) return half;
    const auto written = static_cast<uint64_t>(half);
    const int64_t rest = files_.write(file, data + written, bytes - written, offset + written);
    return rest < 0 ? rest : half + rest;
  }
  int sync(int file) override {
    kill_point(kind(file) + ".sync");
    return files_.sync(file);
  }
  bool has_name(int file) override { return files_.has_name(file); }
  int rename(const std::string& from, const std::string& to) override {
    kill_point(kind_of(to) + ".rename");
    return files_.rename(from, to);
  }
  int64_t copy(const std::string& from, const std::string& to) override {
    kill_point(kind_of(to) + ".copy");
    const int64_t copied = files_.copy(from, to);
    if (copied <= 0 || ::truncate(to.c_str(), copied / 2) != 0) return copied;
    kill_point(kind_of(to) + ".copy.half");
    return files_.copy(from, to);
  }
  int remove(const std::string& path) override {
    kill_point(kind_of(path) + ".remove");
    return files_.remove(path);
  }
  int sync_folder(const std::string& path) override {
    kill_point("folder.sync");
    return files_.sync_folder(path);
  }
  int trim(int file, uint64_t offset) override {
    kill_point(kind(file) + ".trim");
    return files_.trim(file, offset);
  }
  int64_t room(const std::string& folder) override { return files_.room(folder); }

 private:
  std::string kind(int file) {
    const std::lock_guard guard(mutex_);
    return kinds_[file];
  }

  Files& files_;
  std::mutex mutex_;
  std::map<int, std::string> kinds_;  // of the files that are open
};

}  // namespace

void kill_point(std::string_view name) {
  static ArmedPoint killing("ISOTHERM_KILL_AT");
  static ArmedPoint hanging("ISOTHERM_HANG_AT");
  if (killing.is_now(name)) ::kill(::getpid(), SIGKILL);
  if (!hanging.is_now(name)) return;
  for (;;) ::pause();
}

Files& with_kill_points(Files& files);
Files& with_kill_points(Files& files) {
  static FilesWithPoints with(files);
  return with;
}

}  // namespace isotherm
