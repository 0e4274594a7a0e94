// Rounds in which a process is killed in the middle of its writes, and another one looks at what is
// left. This process itself opens nothing, so it may fork.
//
// A child writes generations, one behind the other, and acknowledges each when it was answered. It
// is killed at a random moment. Another child opens what is left: it has the last generation that
// was acknowledged, or the one behind it.
//
// Half of the rounds are with files in /dev/shm, where there is room: a journal stores to these in
// the place of writes (durability/files.h).
#pragma once

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <random>
#include <string>
#include <system_error>

#include "device_checks/test_size.h"

namespace isotherm {

using Acknowledge = std::function<void(uint64_t generation)>;
// Writes until it is killed.
using KilledWork =
    std::function<void(const std::string& folder, uint64_t seed, const Acknowledge& acknowledge)>;
// Returns the generation of what is left, all of which must be of it.
using Look = std::function<uint64_t(const std::string& folder, uint64_t seed)>;

[[noreturn]] inline void fail(const std::string& what) {
  std::cerr << "wrong: " << what << std::endl;
  ::_exit(1);
}

inline void expect_end(pid_t child, const std::string& what) {
  int status = 0;
  if (::waitpid(child, &status, 0) != child) fail("waitpid");
  const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  if (!killed && (!WIFEXITED(status) || WEXITSTATUS(status) != 0)) fail(what);
}

// `pauses`: generations that are acknowledged before it is killed.
inline uint64_t kill_round(const std::string& folder, uint64_t seed, uint64_t last, uint64_t pauses,
                           const KilledWork& work, const Look& look) {
  int pipe[2];
  if (::pipe(pipe) != 0) fail("pipe");
  const pid_t writer = ::fork();
  if (writer == 0) {
    ::close(pipe[0]);
    work(folder, seed, [&](uint64_t generation) {
      if (::write(pipe[1], &generation, sizeof generation) != sizeof generation) ::_exit(0);
    });
    ::_exit(0);
  }
  ::close(pipe[1]);
  uint64_t generation = last;
  const auto read_one = [&] {
    return ::read(pipe[0], &generation, sizeof generation) == sizeof generation;
  };
  for (uint64_t i = 0; i < pauses; ++i) {
    if (!read_one()) break;
  }
  ::kill(writer, SIGKILL);
  while (read_one()) {
  }
  ::close(pipe[0]);
  expect_end(writer, "the writer failed");
  const pid_t reader = ::fork();
  if (reader == 0) {
    const uint64_t left = look(folder, seed);
    if (left < generation || left > generation + 1) {
      fail(std::to_string(generation) + " was acknowledged, and there is " + std::to_string(left));
    }
    ::_exit(0);
  }
  expect_end(reader, "what is left is wrong");
  return generation;
}

// The main function of such a program: [seed [rounds]]. ISOTHERM_TEST_LONG=1: more rounds.
inline int kill_rounds(int count, char** arguments, uint64_t usual_rounds, const KilledWork& work,
                       const Look& look) {
  const uint64_t seed = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 1;
  const uint64_t rounds =
      count > 2 ? std::strtoull(arguments[2], nullptr, 10) : test_size(usual_rounds, 1000);
  constexpr uint64_t most_bytes = uint64_t{2} << 30;
  std::error_code none;
  const std::filesystem::path in_memory = "/dev/shm";
  const auto space = std::filesystem::space(in_memory, none);
  const std::filesystem::path usual = std::filesystem::temp_directory_path();
  std::mt19937_64 random(seed);
  const auto run = [&](const std::filesystem::path& parent, uint64_t from, uint64_t to) {
    std::string folder = parent / "isotherm-kill-XXXXXX";
    if (mkdtemp(folder.data()) == nullptr) fail("no folder");
    uint64_t generation = 0;
    for (uint64_t i = from; i < to; ++i) {
      generation = kill_round(folder, seed + i, generation, 1 + random() % 60, work, look);
      std::cout << folder << " round " << i << ": generation " << generation << std::endl;
    }
    std::filesystem::remove_all(folder);
  };
  const uint64_t half = (rounds + 1) / 2;
  run(usual, 0, half);
  run(!none && space.available > most_bytes ? in_memory : usual, half, rounds);
  return 0;
}

}  // namespace isotherm
