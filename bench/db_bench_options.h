// What db_bench and rocksdb_bench are told: which loads (db_loads.h), and how many of what.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "isotherm_bench/distribution.h"
#include "program_flags.h"

namespace isotherm::bench {

struct DbLoad {
  const char* name;
  double get, put, update, erase, range, insert, transaction;  // per cent
  Distribution reads = Distribution::uniform;
};
inline constexpr DbLoad loads[] = {
    {"put", 0, 100, 0, 0, 0, 0, 0},
    {"get", 100, 0, 0, 0, 0, 0, 0},
    {"update", 0, 0, 100, 0, 0, 0, 0},
    {"range", 0, 0, 0, 0, 100, 0, 0},
    {"transactions", 0, 0, 0, 0, 0, 0, 100},
    {"ycsb-a", 50, 50, 0, 0, 0, 0, 0, Distribution::zipf},
    {"ycsb-b", 90, 10, 0, 0, 0, 0, 0, Distribution::zipf},
    {"ycsb-c", 100, 0, 0, 0, 0, 0, 0, Distribution::zipf},
    {"ycsb-d", 90, 0, 0, 0, 0, 10, 0, Distribution::latest},
    {"zippydb", 78, 13, 0, 6, 3, 0, 0, Distribution::zipf},
    {"erase", 0, 0, 0, 100, 0, 0, 0},
};

struct DbBenchOptions {
  std::vector<const DbLoad*> loads = {&bench::loads[0], &bench::loads[1]};
  std::vector<uint64_t> rates = {0};
  uint64_t records = 200'000;
  uint64_t key_bytes = 8;
  uint64_t value_bytes = 8;
  double seconds = 1;
  uint64_t threads = 1;
  uint64_t memory = 64;
  uint64_t group = 1000;
  uint64_t batch = 1;
  uint64_t rows_a_call = 0;
  uint64_t transaction_threads = 1;
  uint64_t rounds = 1;
  uint64_t gpu_memory = 0;
  std::string tree_options;
  bool parts = false;
  bool flush = true;
  std::string rocksdb = "linked";

  uint64_t memory_bytes() const { return memory * 1'000'000; }
  bool has_transactions() const {
    return std::any_of(loads.begin(), loads.end(),
                       [](const DbLoad* load) { return load->transaction > 0; });
  }
};

inline void demand(bool good, const std::string& what) {
  if (!good) throw std::runtime_error(what);
}

// `purpose`: of the program.
inline DbBenchOptions parse(const char* purpose, int argc, char** argv) {
  DbBenchOptions options;
  std::vector<std::string> names;
  for (const DbLoad* load : options.loads) names.emplace_back(load->name);
  ProgramFlags flags(purpose);
  flags.add_list("--loads", names);
  flags.add_list("--rates", options.rates, "calls a second; 0: as many as can be");
  flags.add("--records", options.records);
  flags.add("--key", options.key_bytes, "bytes");
  flags.add("--value", options.value_bytes, "bytes");
  flags.add("--seconds", options.seconds);
  flags.add("--threads", options.threads);
  flags.add("--memory", options.memory, "MB");
  flags.add("--group", options.group, "rows of a transaction");
  flags.add("--batch", options.batch, "requests a call");
  flags.add("--rows-a-call", options.rows_a_call, "of transactions; 0: a call each");
  flags.add("--transaction-threads", options.transaction_threads);
  flags.add("--gpu-memory", options.gpu_memory, "MB");
  flags.add("--tree-options", options.tree_options, "of the Db's files, as RocksDB's own text");
  flags.add("--rounds", options.rounds);
  flags.add("--parts", options.parts, "1: where RocksDB's time goes");
  flags.add("--flush", options.flush, "0: what was filled stays in memory");
  flags.add("--rocksdb", options.rocksdb, "linked, the file of a library, or 0: the Db alone");
  flags.take(argc, argv);
  options.loads.clear();
  for (const std::string& name : names) {
    const auto* found = std::find_if(std::begin(loads), std::end(loads),
                                     [&](const DbLoad& load) { return load.name == name; });
    demand(found != std::end(loads), "there is no load " + name);
    options.loads.push_back(found);
  }
  const auto is_of_batches = [](const DbLoad* load) {
    return load->get + load->put == 100 || load->range == 100;
  };
  demand(
      options.batch == 1 || std::all_of(options.loads.begin(), options.loads.end(), is_of_batches),
      "--batch is for loads of gets and puts, and for that of ranges");
  demand(options.key_bytes >= 8 && options.value_bytes >= 1 && options.records > 0 &&
             options.threads > 0 && options.group > 0,
         "keys have at least 8 bytes, values 1, and counts are above 0");
  return options;
}

}  // namespace isotherm::bench
