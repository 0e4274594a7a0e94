#include "tree/disk_reserve.h"

#include <algorithm>
#include <filesystem>
#include <utility>

namespace isotherm {

DiskReserve::DiskReserve(Files& files, std::string folder)
    : files_(files), folder_(std::move(folder)), path_(folder_ + "/RESERVE") {
  const int64_t room = files_.room(folder_);
  if (room >= 0 && static_cast<uint64_t>(room) < most_bytes) files_.remove(path_);
}

void DiskReserve::take() {
  std::error_code error;
  if (std::filesystem::exists(path_, error)) return;
  const int64_t room = files_.room(folder_);
  const uint64_t bytes =
      std::min(static_cast<uint64_t>(std::max<int64_t>(room, 0)) / 2, most_bytes);
  if (bytes == 0) return;
  const int file = files_.open(path_);
  if (file < 0) return;
  const bool taken = files_.allocate(file, bytes) >= 0;
  files_.close(file);
  if (!taken) files_.remove(path_);
}

}  // namespace isotherm
