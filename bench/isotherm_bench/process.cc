#include "isotherm_bench/process.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <system_error>

namespace isotherm::bench {
namespace {

std::string proc_path(pid_t pid, const char* file) {
  return "/proc/" + std::to_string(pid) + "/" + file;
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

// The inode of the socket that listens on `port`, by /proc/net/tcp or tcp6.
std::optional<uint64_t> listening_inode(const char* table, uint16_t port) {
  std::ifstream file(table);
  std::string line;
  std::getline(file, line);  // the heading
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string number, local, remote, state, queues, timer, retransmits, owner, timeout;
    uint64_t inode = 0;
    fields >> number >> local >> remote >> state >> queues >> timer >> retransmits >> owner >>
        timeout >> inode;
    const size_t colon = local.rfind(':');
    if (!fields || colon == std::string::npos || state != "0A") continue;
    if (std::stoul(local.substr(colon + 1), nullptr, 16) == port) return inode;
  }
  return std::nullopt;
}

template <typename Visit>
void for_each_number(const std::string& folder, Visit visit) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(folder.c_str()), closedir);
  if (directory == nullptr) return;
  while (const dirent* entry = readdir(directory.get())) {
    const std::string name = entry->d_name;
    int number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error == std::errc() && end == name.data() + name.size() && !visit(number)) return;
  }
}

bool has_socket(pid_t pid, const std::string& link) {
  const std::string folder = proc_path(pid, "fd");
  bool found = false;
  for_each_number(folder, [&](int fd) {
    char target[64];
    const std::string path = folder + "/" + std::to_string(fd);
    const ssize_t length = readlink(path.c_str(), target, sizeof target);
    found = length > 0 && link == std::string(target, static_cast<size_t>(length));
    return !found;
  });
  return found;
}

}  // namespace

std::optional<CpuTime> process_cpu(pid_t pid) {
  std::ifstream file(proc_path(pid, "stat"));
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;
  // The name in parentheses may hold anything; what follows the last ')' is regular.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  for (int i = 3; i <= 13; ++i) fields >> skipped;
  uint64_t user = 0, system = 0;
  if (!(fields >> user >> system)) return std::nullopt;
  const auto tick = static_cast<double>(sysconf(_SC_CLK_TCK));
  return CpuTime{static_cast<double>(user) / tick, static_cast<double>(system) / tick};
}

CpuTime own_cpu() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {seconds(usage.ru_utime), seconds(usage.ru_stime)};
}

std::optional<uint64_t> resident_bytes(pid_t pid) {
  std::ifstream file(proc_path(pid, "statm"));
  uint64_t all = 0, resident = 0;
  if (!(file >> all >> resident)) return std::nullopt;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

std::optional<pid_t> listening_process(uint16_t port) {
  auto inode = listening_inode("/proc/net/tcp", port);
  if (!inode) inode = listening_inode("/proc/net/tcp6", port);
  if (!inode) return std::nullopt;
  const std::string link = "socket:[" + std::to_string(*inode) + "]";
  std::optional<pid_t> found;
  for_each_number("/proc", [&](int pid) {
    if (has_socket(pid, link)) found = pid;
    return !found;
  });
  return found;
}

}  // namespace isotherm::bench
