// What the small benchmark programs share: a clock, medians, random numbers, and the limit of the
// machine.
//
// Every program prints its environment and parameters, measures its reference in the same run,
// alternating with what it is a reference for, and reports medians of the ratios, because single
// times on a shared machine say little.
#pragma once

#include <sys/mman.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace isotherm::bench {

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Seconds that `work` takes.
template <class Work>
double seconds(Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return seconds_since(start);
}

inline double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

// What a clock shows, such as that of the processor time of a process.
inline double seconds_of(clockid_t clock) {
  timespec time{};
  if (clock_gettime(clock, &time) != 0) {
    throw std::system_error(errno, std::generic_category(), "a clock of processor time");
  }
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Until the threads of a process rest, such as those that merge files: what a system still does for
// an earlier load is not time of the next one. Goes on after a minute all the same.
inline void wait_until_quiet(clockid_t of_process = CLOCK_PROCESS_CPUTIME_ID) {
  constexpr auto look = std::chrono::milliseconds(200);
  constexpr int most_looks = 300;
  constexpr double rests = 0.04;  // seconds of all processors, of each look
  for (int i = 0; i < most_looks; ++i) {
    const double before = seconds_of(of_process);
    std::this_thread::sleep_for(look);
    if (seconds_of(of_process) - before < rests) return;
  }
}

// A good mixer of 64 bits, for keys and positions; not the store's hash.
inline uint64_t scramble(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  return x ^ x >> 33;
}

inline void print_environment(const char* program) {
  std::string processor = "unknown";
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.starts_with("model name")) {
      processor = line.substr(line.find(':') + 2);
      break;
    }
  }
  utsname system{};
  uname(&system);
  std::printf("%s: %s, %u cores, Linux %s, compiler %s\n", program, processor.c_str(),
              std::thread::hardware_concurrency(), system.release, __VERSION__);
}

// Memory of lines of 128 bytes on huge pages, for the rate at which one thread can read them at
// random.
class Lines {
 public:
  explicit Lines(uint64_t bytes) : count_(bytes / line_bytes) {
    constexpr uint64_t huge = 2 << 20;
    mapped_bytes_ = count_ * line_bytes + huge;
    mapped_ =
        mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped_ == MAP_FAILED) throw std::bad_alloc();
    lines_ =
        reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(mapped_) + huge - 1) & ~(huge - 1));
    madvise(lines_, count_ * line_bytes, MADV_HUGEPAGE);
    std::memset(lines_, 1, count_ * line_bytes);
  }
  ~Lines() { munmap(mapped_, mapped_bytes_); }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  // Reads per second, of both halves of lines at positions drawn from `keys`.
  double reads_per_second(const std::vector<uint64_t>& keys) const {
    uint64_t sum = 0;
    const double took = seconds([&] {
      for (const uint64_t key : keys) {
        const uint64_t at =
            static_cast<uint64_t>(static_cast<__uint128_t>(scramble(key)) * count_ >> 64);
        const auto* line = reinterpret_cast<const volatile uint64_t*>(lines_ + at * line_bytes);
        sum += line[0] + line[8];
      }
    });
    if (sum == 1) std::printf(" ");  // the sum has to be wanted
    return static_cast<double>(keys.size()) / took;
  }

 private:
  static constexpr uint64_t line_bytes = 128;
  uint64_t count_;
  uint64_t mapped_bytes_;
  void* mapped_;
  char* lines_;
};

}  // namespace isotherm::bench
