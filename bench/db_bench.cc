// Db beside RocksDB itself: the same calls, memory and sync, in turns, all in one process.
//
//   db_bench [--loads put,get,…] [--records N] [--key N] [--value N] [--seconds S] [--rates R,…]
//            [--threads N] [--memory MB] [--group N] [--batch N] [--rounds N] [--parts 1]
//            [--flush 0] [--gpu-memory MB] [--tree-options TEXT] [--rows-a-call N]
//            [--transaction-threads N] [--rocksdb 0]
//
// The loads are in db_loads.h. --gpu-memory: of the Db's sorted copy on a GPU. --tree-options: of
// its files. --rows-a-call: of a Db's transactions, by DbRows and so many threads; 0: a call each.
// --parts: where RocksDB's time goes, by its own counters. --rocksdb 0: the Db alone, for profiles.
// RocksDB is the library that the Db is linked with; rocksdb_bench measures others.
#include "db_loads.h"
#include "isotherm_system.h"
#include "rocksdb_system.h"

int main(int argc, char** argv) {
  using namespace isotherm::bench;
  return main_of({"db_bench", "Db beside RocksDB itself: the same calls, memory and sync.",
                  [](const DbBenchOptions& options, const std::string& folder,
                     std::vector<std::unique_ptr<DbSystem>>& systems) {
                    systems.push_back(std::make_unique<IsothermSystem>(
                        folder + "/isotherm", options.memory_bytes(),
                        options.gpu_memory * 1'000'000, options.tree_options, options.rows_a_call,
                        static_cast<uint32_t>(options.transaction_threads)));
                    if (options.rocksdb == "0") return;
                    demand(options.rocksdb == "linked", "rocksdb_bench measures other libraries");
                    systems.push_back(std::make_unique<RocksdbSystem>(
                        options.rocksdb, folder + "/rocksdb", options.memory_bytes(),
                        options.has_transactions()));
                  }},
                 argc, argv);
}
