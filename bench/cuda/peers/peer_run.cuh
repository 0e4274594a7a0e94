// PeerRun: the same calls to a table of Isotherm and to a peer's, one behind the other in one run,
// with keys and results on the GPU. Each put stores another value than it finds, and every reply of
// every table is checked by a model that replays the calls (cuda/replayed_table.h).
//
// Of several rows of one key in a call peers let any win. So what a put stores follows from its key
// and the number of the call, and any that wins is right.
//
// A System has a name and bytes(). prepare() sees the columns of puts before they are timed;
// insert() and assign() put the rows from `first` on, the former of keys that are all new and
// different; get() is followed, untimed, by finish().
#pragma once

#include <algorithm>
#include <string>

#include "cuda/gpu_replay.cuh"

namespace isotherm::bench {

// What call `first_call` and those after it put, `rows_of_call` rows each.
static __global__ void draw_call_values(const uint64_t* keys, uint64_t* values, uint64_t rows,
                                        uint64_t rows_of_call, uint64_t first_call) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < rows; i += stride) {
    values[i] = scramble(keys[i] + (first_call + i / rows_of_call) * 0x9e3779b97f4a7c15);
  }
}

class PeerColumns {
 public:
  PeerColumns(uint64_t entries, int rounds)
      : entries(entries),
        rounds(rounds),
        rows(std::max(uint64_t{1} << 26, calls() << 24)),
        keys(device_array<uint64_t>(rows)),
        values(device_array<uint64_t>(rows)),
        out(device_array<uint64_t>(rows)),
        found(device_array<uint8_t>(rows)) {}

  // Of a line: those that are timed, and one before them.
  uint64_t calls() const { return static_cast<uint64_t>(rounds) + 1; }

  const uint64_t entries;
  const int rounds;
  const uint64_t rows;
  uint64_t* const keys;
  uint64_t* const values;
  uint64_t* const out;
  uint8_t* const found;
};

template <class System>
class PeerRun {
 public:
  PeerRun(System& system, PeerColumns& columns)
      : system_(system), c_(columns), model_(columns.entries) {}

  // The number of wrong replies.
  uint64_t run() {
    insert();
    for (const int shift : {26, 20, 16}) {
      gets("GET hits", shift, false, false);
      gets("GET misses", shift, false, true);
      gets("GET Zipf .99", shift, true, false);
    }
    for (const int shift : {24, 20}) {
      assign("PUT of present keys, uniform", shift, false);
      assign("PUT of present keys, Zipf .99", shift, true);
    }
    std::printf("%-24s wrong replies: %llu\n", system_.name(),
                static_cast<unsigned long long>(wrong_));
    return wrong_;
  }

 private:
  static constexpr uint64_t inserted = uint64_t{1} << 24;
  static constexpr int blocks = 2048;

  void insert() {
    double took = 0;
    for (uint64_t first = 0; first < c_.entries; first += inserted) {
      const uint64_t rows = std::min(inserted, c_.entries - first);
      fresh_keys<<<blocks, 256>>>(c_.keys, c_.values, rows, first);
      system_.prepare(c_.keys, c_.values, rows);
      took += median_seconds(0, [&](int) { system_.insert(c_.keys, c_.values, 0, rows); });
    }
    model_.fill();
    std::printf("%-24s %.2f bytes an entry\n", system_.name(),
                system_.bytes() / static_cast<double>(c_.entries));
    print("PUT of new keys, distinct", 24, static_cast<double>(c_.entries) / took);
    read_all();
  }

  void gets(const char* name, int shift, bool zipf, bool absent) {
    const uint64_t rows = uint64_t{1} << shift;
    const uint64_t used = std::min(uint64_t{1} << 26, rows * c_.calls());
    draw_keys<<<blocks, 256>>>(c_.keys, used, c_.entries, zipf, absent, 5);
    forget_replies(c_.out, c_.found, used);
    const double took = median_seconds(c_.rounds, [&](int round) {
      const uint64_t first = rows * static_cast<uint64_t>(round) % used;
      system_.get(c_.keys + first, c_.out + first, c_.found + first, rows);
    });
    print(name, shift, static_cast<double>(rows) / took);
    check_gets(used);
  }

  void assign(const char* name, int shift, bool zipf) {
    const uint64_t rows = uint64_t{1} << shift;
    TableRequests puts;
    puts.rows = rows * c_.calls();
    puts.op = TableOp::put;
    puts.keys = c_.keys;
    puts.values = c_.values;
    draw_keys<<<blocks, 256>>>(c_.keys, puts.rows, c_.entries, zipf, false, 7);
    draw_call_values<<<blocks, 256>>>(c_.keys, c_.values, puts.rows, rows, calls_);
    calls_ += c_.calls();
    system_.prepare(c_.keys, c_.values, puts.rows);
    const double took = median_seconds(c_.rounds, [&](int round) {
      system_.assign(c_.keys, c_.values, rows * static_cast<uint64_t>(round), rows);
    });
    print(name, shift, static_cast<double>(rows) / took);
    wrong_ += replay_.replay(puts);
    read_all();
  }

  void read_all() {
    wrong_ += replay_.read_all(c_.keys, c_.values, c_.out, c_.found, inserted,
                               [&](const TableRequests& gets) {
                                 system_.get(c_.keys, c_.out, c_.found, gets.rows);
                                 system_.finish(c_.out, c_.found, gets.rows);
                               });
  }
  void check_gets(uint64_t rows) {
    system_.finish(c_.out, c_.found, rows);
    TableRequests gets;
    gets.rows = rows;
    gets.keys = c_.keys;
    gets.values_out = c_.out;
    gets.found = c_.found;
    wrong_ += replay_.replay(gets);
  }

  void print(const char* name, int shift, double rate) const {
    std::printf("%-24s %-30s 2^%d  %7.2f G/s\n", system_.name(), name, shift, rate / 1e9);
    std::fflush(stdout);
  }

  System& system_;
  PeerColumns& c_;
  ReplayedTable model_;
  GpuReplay replay_{model_};
  uint64_t calls_ = 1;
  uint64_t wrong_ = 0;
};

}  // namespace isotherm::bench
