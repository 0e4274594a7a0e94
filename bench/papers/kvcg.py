"""KVCG (SYSTOR 2021): table 1 and figures 3a to 7."""

from papers.preset import IN_PROCESS, Figure, Line, Preset, Run, mean_us, rate

PAPER = ("10 M pairs of 8 + 8 B stored, keys of a range of 1e9, batches of 512, 24 + 10 threads, "
         "histogram of 10,000 bins, threshold 1.3e-5")
DIFFERS = ("all keys that are read are present; bins are 2^20 ranges of hashes, since of 10,000 each would be hot; "
           "the router is one of stores whose index is on the "
           "host: before a GPU it is not built, so its curve has no GPU in it; MICA is its layout and its loop in a "
           "program of ours, each core asked for all keys; of Mega-KV its scheduling over our index is run")
LOAD = IN_PROCESS + " --key-size 8 --batch 512"
EIGHT = "--value-size 8"
HISTOGRAM = "--router histogram --router-threshold 1.3e-5"
SCALE = 0.03
PANELS = {"throughput": "M requests/s", "latency": "µs, mean of a batch"}
CPU, ROUTER, BUDGET, GPU = "CPU only", "router: histogram", "router: budget", "index on the GPU"
MICA = "MICA's layout"


def sides(load, xs):
    """The same load by each configuration."""
    sides = ((CPU, "", ""), (MICA, "--mica", ""), (ROUTER, HISTOGRAM, ""), (BUDGET, "--router budget", ""),
             (GPU, "--device cuda", "gpu"),
             (GPU + ", periodic as Mega-KV's", "--device cuda --gpu-schedule periodic --gpu-wait-usec 50", "gpu"))
    return tuple(Run(f"{LOAD} {load} {flags}",
                     (rate("throughput", curve), mean_us("latency", curve)), xs, needs)
                 for curve, flags, needs in sides)


CACHE_LINE = (r"^(?P<index>line|cuckoo|set)\s+(?:load )?0\.50\s+")

PRESETS = (
    Preset(
        "kvcg-table1", "put and get of the GPU's index, KVCG's slab hash beside Mega-KV's cuckoo hash",
        "one warp a block on a GTX 1080", "whole GPU, ten times the records; our line index beside our cuckoo index, "
        "half full; deletes are measured by no program yet", "operation",
        {"GPU": "M requests/s", "one core of the host": "M requests/s"},
        (Run("device_cache_bench --entries {10 * records} --rounds 3", tuple(
            Line("GPU", CACHE_LINE + r"(?P<new>[\d.]+)\s+(?P<hits>[\d.]+)", "{index}", x, group, 1000)
            for x, group in (("PUT", "new"), ("GET", "hits"))), needs="gpu"),
         Run("cache_bench speed {records}", tuple(
             Line("one core of the host",
                  CACHE_LINE + r"(?P<hits>[\d.]+)\s+[\d.]+\s+[\d.]+\s+[\d.]+\s+(?P<new>[\d.]+)",
                  "{index}", x, group) for x, group in (("PUT", "new"), ("GET", "hits"))))),
        reference="cuckoo", log_y=True, scale=0.01,
        points={"GPU": {"slab hash": {"PUT": 61.0, "GET": 269.7, "DELETE": 120.4},
                        "libgpuhash": {"PUT": 27.3, "GET": 160.0, "DELETE": 233.5}}}),
    Preset(
        "kvcg-3a", "throughput and latency over skew", PAPER, DIFFERS, "theta", PANELS,
        sides(EIGHT + " {skew(x)}", (0, 0.5, 0.9, 0.99)), reference=CPU,
        points={"latency": {"hot cache, at most": {0.9: 150, 0.99: 320}}}, scale=SCALE),
    Preset(
        "kvcg-3b", "throughput and latency over the share of keys that are hot, theta .5", PAPER,
        DIFFERS + "; a share is given as memory for that many hot keys", "% of keys hot", PANELS,
        (*(Run(f"{LOAD} {EIGHT} --theta 0.5 {flags}",
               (rate("throughput", curve), mean_us("latency", curve)), xs, needs)
           for curve, flags, xs, needs in (
               (CPU, "", (0, 0.1, 1, 10, 100), ""),
               (BUDGET, "--router budget "
                "--router-memory {int((1 << 23) + records * x / 100 * 64)}", (0.1, 1, 10, 100), ""),
               (GPU, "--device cuda", (0,), "gpu"))),),
        reference=CPU,
        points={"latency": {"GPU only": {0: 820}, "hot cache": {0.1: 131.7}},
                "throughput": {"more than": {0.1: 40}}}, scale=SCALE),
    Preset(
        "kvcg-3c", "throughput and latency over the size of values, theta .5", PAPER, DIFFERS,
        "bytes of a value", PANELS,
        sides("--theta 0.5 --value-size {x}", (8, 64, 256)), reference=CPU, log_x=True, scale=SCALE),
    Preset(
        "kvcg-4", "latency of hot requests, by percentile, for several thetas", PAPER,
        "of all batches of a store with a router, not of its hot requests alone; " + DIFFERS,
        "percentile", {"latency": "µs of a batch"},
        (Run(f"{LOAD} {EIGHT} {{skew(x)}} {HISTOGRAM}", tuple(
            Figure("latency", "theta {x}", f"p{name}_us", x=percentile)
            for percentile, name in ((50, "50"), (99, "99"), (99.9, "99_9"))), (0.5, 0.9, 0.99)),),
        reference="theta 0.5", log_y=True, scale=SCALE),
    Preset(
        "kvcg-5", "throughput and latency over the share of reads, theta .5", PAPER, DIFFERS,
        "% of reads", PANELS,
        sides(EIGHT + " --theta 0.5 --mix read={x},update={100 - x}", (50, 80, 95, 100)), reference=CPU,
        points={"latency": {"KVCG, hot cache": {80: 110}, "MICA": {80: 170}},
                "throughput": {"KVCG, more than": {80: 35.4}}}, scale=SCALE),
    Preset(
        "kvcg-6", "YCSB B at theta .99: two thresholds, CPU only, GPU only", PAPER, DIFFERS,
        "configuration", PANELS,
        tuple(Run(f"{LOAD} {EIGHT} --theta 0.99 {flags}",
                  (rate("throughput", "Isotherm"), mean_us("latency", "Isotherm")), (x,), needs)
              for x, flags, needs in (
                  (CPU, "", ""), ("T1: 1.3e-5", HISTOGRAM, ""),
                  ("T2: .005", HISTOGRAM.replace("1.3e-5", "0.005"), ""),
                  (GPU, "--device cuda", "gpu"))), scale=SCALE),
    Preset(
        "kvcg-7", "latency around a change of the model",
        PAPER + "; the model is replaced after 5 M requests: 340 ms, latency is back after 1.24 s",
        "hot keys are replaced by others at time 0, and the router, which never stops learning, "
        "moves bins; the index is on the host", "ms after the change", {"latency": "µs, mean of a batch"},
        (Run("router_change_bench --keys {records} --seconds {4 * seconds}", (
            Line("latency", r"^(?P<curve>router|off)\s+(?P<x>-?\d+) ms\s+(?P<y>[\d.]+) us", "{curve}",
                 "{x}"),)),),
        reference="off"),
)
