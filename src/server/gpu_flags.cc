#include "server/gpu_flags.h"

#include "server/flag_values.h"

namespace isotherm {
namespace {

void add_memory_options(CLI::App& app, Options& store) {
  add_memory_option(app, "--gpu-memory",
                    "Most memory of each GPU that the index may take; 0: no cap [0]",
                    store.gpu_memory);
  add_memory_option(app, "--gpu-items",
                    "Memory of each GPU for whole items, at least 256mb: they live there, and "
                    "host memory (maxmemory) is a cache of them; 0: items live in host memory [0]",
                    store.gpu_items);
  add_memory_option(
      app, "--gpu-items-host",
      "Host memory for items that --gpu-items has no room for, of which the GPUs read "
      "slowly; it is part of maxmemory; 0: none [0]",
      store.gpu_items_host);
  add_memory_option(app, "--gpu-values",
                    "Memory of each GPU for values that nobody has read lately; 0: all values stay "
                    "in host memory [0]",
                    store.gpu_values);
  add_memory_option(app, "--gpu-values-from",
                    "Shortest value, in bytes, that --gpu-values sends to a GPU [256]",
                    store.gpu_values_from, 64, 1 << 20);
}

void add_round_options(CLI::App& app, RoundOptions& rounds) {
  add_choice(app, "--gpu-schedule",
             "When the requests of all threads go to the GPUs together: greedy, fixed or "
             "periodic; with adaptive the CPU answers while requests are few, and the GPUs "
             "while they are many [adaptive]",
             "greedy, fixed, periodic, adaptive", parse_scheduling, rounds.policy);
  app.add_option("--gpu-batch", rounds.rows,
                 "Requests that go to the GPUs without waiting for more [fixed 512, periodic "
                 "2097152]; with adaptive: requests that are many [512]")
      ->check(CLI::Range(uint64_t{1}, RoundOptions::most_rows));
  app.add_option_function<int64_t>(
         "--gpu-wait-usec", [&](int64_t usec) { rounds.wait_ns = usec * 1000; },
         "Longest time in microseconds that requests wait for more; with periodic: length of a "
         "cycle [100]")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--gpu-write-cycles", rounds.write_cycles,
                 "With periodic: number of cycles after which writes go to the GPUs; reads go in "
                 "every cycle [1]")
      ->check(CLI::Range(1, 1000));
}

void add_crew_options(CLI::App& app, Options& store) {
  app.add_option("--gpu-threads", store.gpu_threads,
                 "Number of threads that wait for the GPUs, so that those of clients need not [as "
                 "many as --threads, at least 2]")
      ->check(CLI::Range(1, 256));
  app.add_option("--gpu-queue", store.gpu_queue,
                 "Most batches that wait for the threads of --gpu-threads; with more the server "
                 "stops reading requests [1024]")
      ->check(CLI::Range(1, 1'000'000));
}

}  // namespace

void add_gpu_options(CLI::App& app, Options& store) {
  add_choice(app, "--device",
             "Where the index lies: cpu, cuda, or auto, which takes a GPU if there is one [cpu]",
             "auto, cpu, cuda", parse_device_choice, store.device);
  app.add_option(
         "--gpus", store.gpus,
         "GPUs that share the index, or the items of --gpu-items, by the numbers that CUDA gives "
         "them, e.g. 0,1 [0]")
      ->delimiter(',')
      ->check(CLI::Range(0, 1023))
      ->expected(1, 16);
  add_memory_options(app, store);
  add_round_options(app, store.rounds);
  add_crew_options(app, store);
}

}  // namespace isotherm
