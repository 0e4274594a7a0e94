#include "fake_device/filled_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <new>
#include <vector>

namespace isotherm {
namespace {

constexpr uint64_t fill_unit = 4096;  // a page
constexpr uint64_t file_bytes = uint64_t{1} << 21;
// Fewer bytes are written sooner than mapped.
constexpr uint64_t fewest_mapped = uint64_t{1} << 18;

int make_file(unsigned char byte) {
  const int file = memfd_create("filled", MFD_CLOEXEC);
  const std::vector<unsigned char> content(file_bytes, byte);
  if (file < 0 || write(file, content.data(), file_bytes) != static_cast<ssize_t>(file_bytes)) {
    throw std::bad_alloc();
  }
  return file;
}

// Of the whole process, for as long as it runs.
int file_of(unsigned char byte) {
  static std::mutex mutex;
  static std::array<int, 256> files = {};  // 0: none yet
  const std::lock_guard lock(mutex);
  if (files[byte] == 0) files[byte] = make_file(byte);
  return files[byte];
}

}  // namespace

void fill_pages(char* at, uint64_t bytes, unsigned char byte) {
  if (bytes < fewest_mapped) {
    std::memset(at, byte, bytes);
    return;
  }
  const uint64_t before = -reinterpret_cast<uint64_t>(at) % fill_unit;
  const uint64_t mapped = (bytes - before) / fill_unit * fill_unit;
  const int file = file_of(byte);
  std::memset(at, byte, before);
  for (uint64_t done = 0; done < mapped; done += file_bytes) {
    if (mmap(at + before + done, std::min(mapped - done, file_bytes), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file, 0) == MAP_FAILED) {
      throw std::bad_alloc();
    }
  }
  std::memset(at + before + mapped, byte, bytes - before - mapped);
}

}  // namespace isotherm
