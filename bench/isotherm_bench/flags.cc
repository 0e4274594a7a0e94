#include "isotherm_bench/flags.h"

namespace isotherm::bench {
namespace {

void add_workload_flags(CLI::App& app, Flags& flags, Options& options) {
  const char* group = "Load";
  app.add_option("--preset", flags.preset, "a load by name; see --list-presets")->group(group);
  app.add_flag("--list-presets", flags.list_presets, "print the presets")->group(group);
  app.add_option("--mix", flags.mix,
                 "shares in percent of read, update, insert, scan, rmw, erase, e.g. "
                 "read=95,update=5 (the default)")
      ->group(group);
  app.add_option("--distribution", flags.distribution, "zipf (scrambled; default), uniform, latest")
      ->group(group);
  app.add_option("--theta", flags.theta, "skew of zipf and latest, above 0 (default 0.99)")
      ->group(group);
  app.add_option("--records", flags.records, "keys stored before the run (default 1M)")
      ->group(group);
  app.add_option("--key-size", flags.key_size, "bytes of a key (default 16)")->group(group);
  app.add_option("--value-size", flags.value_size, "bytes of a value, N or MIN-MAX (default 32)")
      ->group(group);
  app.add_option("--scan-length", options.workload.scan_length,
                 "most items of a scan (default 100)")
      ->check(CLI::Range(1, 1'000'000))
      ->group(group);
  app.add_option("--seed", flags.seed, "number from which all random choices follow (default 1)")
      ->group(group);
}

void add_run_flags(CLI::App& app, Flags& flags, Options& options) {
  const char* group = "Run";
  app.add_option("--batch", flags.batch,
                 "in process: requests a batch (default 512); sockets: keys a MGET or get "
                 "(default 1)")
      ->check(CLI::Range(1, 1 << 20))
      ->group(group);
  app.add_option("--pipeline", options.run.pipeline,
                 "commands that a connection sends before it waits for replies (default 1)")
      ->check(CLI::Range(1, 1 << 20))
      ->group(group);
  app.add_option("--threads", options.run.threads, "threads that send requests")
      ->check(CLI::Range(1, 256))
      ->group(group);
  app.add_option("--connections", options.run.connections, "over all threads (default 50)")
      ->check(CLI::Range(1, 100'000))
      ->group(group);
  app.add_option("--rate", flags.rate,
                 "open loop: commands a second over sockets, requests in process; latency counts "
                 "from the time each was due")
      ->group(group);
  app.add_option("--arrival", flags.arrival,
                 "when the requests of --rate are due: at random, poisson (default), or evenly "
                 "spaced, fixed")
      ->check(CLI::IsMember({"poisson", "fixed"}))
      ->group(group);
  app.add_option("--seconds", options.run.seconds, "length of a run (default 5)")->group(group);
  app.add_option("--warm-up", options.run.warm_up, "seconds before it that do not count")
      ->group(group);
  app.add_option("--requests", flags.requests,
                 "end a run after so many requests, in whole batches, instead of after --seconds")
      ->group(group);
  app.add_option("--rounds", flags.rounds,
                 "runs of each system, in turn; medians are printed (default 1, with peers 5)")
      ->check(CLI::Range(1, 1000))
      ->group(group);
  app.add_flag("--no-load", flags.no_load, "do not store the records first: they are there already")
      ->group(group);
  app.add_flag("--load-only", options.load_only, "store the records, report time and memory")
      ->group(group);
  app.add_flag("--verify", options.run.verify, "check every value read against its key")
      ->group(group);
  app.add_option("--json", options.json, "write all results to a file, or - for standard output")
      ->group(group);
  app.add_flag("--quiet", options.quiet, "no progress line")->group(group);
}

void add_system_flags(CLI::App& app, Flags& flags, Options& options) {
  const char* group = "Systems (without any: in process)";
  app.add_flag("--in-process", options.in_process, "run the engine inside this program")
      ->group(group);
  app.add_flag("--fixed", options.fixed,
               "in process: the table of 64-bit keys and values instead of byte strings")
      ->group(group);
  app.add_flag("--mica", options.mica,
               "in process: a store with MICA's layout and loop, to compare with")
      ->group(group);
  app.add_option("--device", flags.device,
                 "in process: where the index lies: cpu (default), cuda, or auto")
      ->group(group);
  app.add_option("--gpus", options.store.gpus, "GPUs that share the index, e.g. 0,1 (default 0)")
      ->delimiter(',')
      ->group(group);
  app.add_option("--gpu-memory", flags.gpu_memory,
                 "most memory of each GPU that the index may take, e.g. 4gb (default: no cap)")
      ->group(group);
  app.add_option(
         "--gpu-items", flags.gpu_items,
         "memory of the first GPU for whole items, e.g. 4gb; host memory is then a cache of them")
      ->group(group);
  app.add_option("--gpu-values", flags.gpu_values,
                 "memory of each GPU for values that nobody has read lately (default: none)")
      ->group(group);
  app.add_option("--maxmemory", flags.maxmemory,
                 "in process: most memory that the store may take, e.g. 100mb (default: no cap)")
      ->group(group);
  app.add_option("--maxmemory-policy", flags.maxmemory_policy, "in process: as in redis.conf")
      ->group(group);
  app.add_option(
         "--router", flags.router,
         "in process: which keys are found by a table of hot keys: off (default), histogram, "
         "budget")
      ->group(group);
  app.add_option("--index", flags.index,
                 "in process: line (default), cuckoo or set; the last two need --maxmemory and "
                 "--maxmemory-policy allkeys-lru or allkeys-random")
      ->group(group);
  app.add_option(
         "--index-item-bytes", options.store.index_item_bytes,
         "bytes that an item takes on average: --index cuckoo or set has room for as many as "
         "--maxmemory holds (default 128)")
      ->group(group);
  app.add_option("--router-bins", options.store.router.bins, "as isotherm-server has it")
      ->group(group);
  app.add_option("--router-memory", flags.router_memory, "as isotherm-server has it")->group(group);
  app.add_option("--router-threshold", options.store.router.threshold, "as isotherm-server has it")
      ->group(group);
  app.add_option(
         "--gpu-schedule", flags.gpu_schedule,
         "when the batches of all threads go to the GPUs: greedy (default), fixed, periodic, "
         "adaptive")
      ->group(group);
  app.add_option("--gpu-batch", options.store.rounds.rows,
                 "requests that go to the GPUs without waiting for more")
      ->group(group);
  app.add_option_function<uint32_t>(
         "--gpu-wait-usec",
         [&options](uint32_t usec) { options.store.rounds.wait_ns = int64_t{usec} * 1000; },
         "longest time in microseconds that requests wait for more; with periodic: length of a "
         "cycle")
      ->group(group);
  app.add_option("--gpu-write-cycles", options.store.rounds.write_cycles,
                 "with periodic: cycles after which writes go to the GPUs (default 1)")
      ->group(group);
  app.add_option("--target", flags.targets,
                 "servers to measure: redis://HOST:PORT, "
                 "memcached://HOST:PORT")
      ->group(group);
  app.add_option("--against", flags.peers, "peers to compare with, under the same load in turn")
      ->group(group);
  app.add_option("--spawn-isotherm", options.spawn_isotherm,
                 "start this isotherm-server as the target")
      ->group(group);
  app.add_flag("--spawn-redis", options.spawn_redis, "start redis-server as a peer")->group(group);
  app.add_flag("--spawn-memcached", options.spawn_memcached, "start memcached as a peer")
      ->group(group);
  app.add_flag("--floor", options.floor,
               "also a peer that only answers, without any store: what sockets cost alone "
               "(the default where there is no other peer)")
      ->group(group);
  app.add_flag("--no-floor", flags.no_floor, "never compare with that peer")->group(group);
  app.add_option(
         "--protocol", flags.protocol,
         "what a spawned isotherm-server without peers is asked in: redis (default) or memcached")
      ->check(CLI::IsMember({"redis", "memcached"}))
      ->group(group);
  app.add_option(
         "--isotherm-args", flags.isotherm_arguments,
         "more arguments for the server of --spawn-isotherm, in one word, e.g. \"--threads 2\"")
      ->group(group);
  app.add_option("--redis-args", flags.redis_arguments,
                 "more arguments for the server of --spawn-redis")
      ->group(group);
  app.add_option("--memcached-args", flags.memcached_arguments,
                 "more arguments for the server of --spawn-memcached")
      ->group(group);
  app.add_option("--pid", flags.pids,
                 "PORT=PID: the process behind a port, where isotherm-bench cannot find it")
      ->group(group);
}

}  // namespace

void add_flags(CLI::App& app, Flags& flags, Options& options) {
  add_workload_flags(app, flags, options);
  add_run_flags(app, flags, options);
  add_system_flags(app, flags, options);
}

}  // namespace isotherm::bench
