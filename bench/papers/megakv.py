"""Mega-KV (VLDB 2015): figures 2, 3, 6 to 8, 10, 11 and 13 to 16."""

from papers.preset import IN_PROCESS, Figure, Formula, Line, Preset, Run, rate

PAPER = ("two Xeons of 8 cores and two GTX 780, 32 GB of items preloaded, 2 GB of index on each GPU; "
         "data sets a 8 + 8, b 16 + 64, c 32 + 512, d 128 + 1,024 B")
DIFFERS = "one GPU at most, requests from memory and not over the network, all keys present"
SIZES = {"a": (8, 8), "b": (16, 64), "c": (32, 512), "d": (128, 1024)}


def data_set(name):
    key, value = SIZES[name]
    return f"--key-size {key} --value-size {value}"


def throughput(names, batch):
    """95/5 and 100/0, uniform and Zipf .99, by the CPU, by MICA's layout, and with the index on the GPU."""
    runs = []
    for name in names:
        for skewed, load in (("uniform", "--distribution uniform"), ("Zipf .99", "--theta 0.99")):
            for reads in (95, 100):
                x = f"{name}, {reads}% GET, {skewed}"
                for curve, flags, needs in (("CPU", "", ""), ("MICA's layout", "--mica", ""),
                                            ("index on the GPU", "--device cuda", "gpu")):
                    runs.append(Run(
                        f"{IN_PROCESS} {data_set(name)} {load} --mix read={reads},update={100 - reads} "
                        f"--batch {batch} {flags}", (rate("throughput", curve),), (x,), needs))
    return tuple(runs)


QUEUE = "device_queue_bench --entries {records} --seconds {seconds} --clients {max(1, threads // 2)}"
FIT = (r"^fitted: reads (?P<bs>[\d.]+) us \+ (?P<ks>[\d.]+) ns a row, writes (?P<bi>[\d.]+) us \+ "
       r"(?P<ki>[\d.]+) ns a row")
# Equations 2 and 3 and those without delay, n = 2, 95% GET; us, us a row, V in M/s = rows a us.
OURS = dict(bs="bs", ks="ks / 1000", bi="bi", ki="ki / 1000")
THEIRS = dict(bs=37.4, ks=3.0e-3, bi=136.9, ki=5.6e-3)


def cycle(delayed, k):
    """The least C of a speed x."""
    k = {name: f"({value})" for name, value in k.items()}
    if delayed:
        return "(2 * {bs} + {bi}) / (2 - 2 * {ks} * .95 * x - 2 * {ki} * .05 * x)".format(**k)
    return "({bs} + {bi}) / (1 - {ks} * .95 * x - {ki} * .05 * x)".format(**k)


def speed(delayed, k):
    """The most V of a cycle x."""
    k = {name: f"({value})" for name, value in k.items()}
    if delayed:
        return "(2 * x - 2 * {bs} - {bi}) / (2 * {ks} * .95 * x + 2 * {ki} * .05 * x)".format(**k)
    return "(x - {bs} - {bi}) / ({ks} * .95 * x + {ki} * .05 * x)".format(**k)


def computed(expression, xs):
    """The paper's own line, from the constants in its text."""
    values = {x: eval(expression, {"x": x}) for x in xs}
    return {x: round(y, 1) for x, y in values.items() if y > 0}


SPEEDS = (20, 40, 80, 120, 160, 200)
CYCLES = (110, 120, 160, 200, 240, 280, 320, 400, 500)

PRESETS = (
    Preset(
        "megakv-2", "what the index takes of a GET, by data set", PAPER + "; MICA, uniform",
        "our store on one thread beside our table of u64 alone, both in batches of 512; items of the "
        "same number, not bytes", "data set", {"time": "ns a GET"},
        tuple(Run(f"{IN_PROCESS.replace('{threads}', '1')} {flags} --mix read=100 --distribution uniform",
                  (Figure("time", curve, "requests_per_second", system, 1e9, inverse=True),), (name,))
              for name in SIZES for curve, flags, system in (
                  ("index alone", "--fixed", "fixed table"), ("whole GET", data_set(name), "store"))),
        reference="whole GET", records=50_000_000, scale=0.01,
        points={}),
    Preset(
        "megakv-3", "time to read 1 to 16 cache lines in sequence at a random place", PAPER, "", "cache lines",
        {"time": "ns"},
        (Run("lines_bench --megabytes {1000 if scale > 0.001 else 16}", (
            Line("time", r"^(?P<x>\d+) lines? +(?P<y>[\d.]+) ns", "this machine", "{x}"),)),),
        scale=1, points={"time": {"paper": {1: 76, 16: 231}}}),
    Preset(
        "megakv-6", "lookups over the lanes that search together", "60,000 lookups, 7 streams, cells of a bucket",
        "2^24 lookups a call, buckets of 8, 90% full", "lanes of a unit", {"throughput": "M lookups/s"},
        (Run("device_cache_bench --entries {records} --rounds 3", tuple(
            Line("throughput", r"^cuckoo, units of (?P<x>\d+) lanes, load 0.90: hits (?P<hits>[\d.]+), misses "
                 r"(?P<misses>[\d.]+)", group, "{x}", group, 1000) for group in ("hits", "misses")), needs="gpu"),),
        reference="hits", records=100_000_000),
    Preset(
        "megakv-7", "inserts over the number of blocks",
        left_out="puts of one call are not divided among blocks by partition: the mechanism is not built "
                 "(docs/papers.md), so there is nothing to vary"),
    Preset(
        "megakv-8", "throughput of the GPU's table over the size of a batch, and time of small ones", PAPER,
        "keys and results on the GPU (throughput), of the host by a queue (time)", "rows",
        {"throughput": "M/s", "time of a batch": "µs"},
        (Run("device_table_bench --entries {records} --rounds 3", (
            Line("throughput", r"^GET hits +2\^(?P<x>\d+) +(?P<y>[\d.]+) G/s", "GET", "{2 ** int(x)}", factor=1000),
            Line("throughput", r"^PUT of present keys, uniform +2\^(?P<x>\d+) +(?P<y>[\d.]+) G/s", "PUT",
                 "{2 ** int(x)}", factor=1000)), needs="gpu"),
         Run(QUEUE + " --rate 1000000 --policy greedy,", (
             Line("time of a batch", r"^  (?P<curve>GET|PUT) +(?P<x>\d+) rows +(?P<y>[\d.]+) us", "{curve}", "{x}"),),
             needs="gpu")),
        reference="GET", log_x=True, log_y=True, records=100_000_000,
        points={"throughput": {"paper's peak: search": {60_000: 303.7}, "paper's peak: insert": {60_000: 210.3},
                               "paper's peak: delete": {60_000: 196.5}}}),
    Preset(
        "megakv-10", "time of a batch over its rows, and the lines fitted to it", PAPER,
        "arrays of the host, by a queue; rows of the batch itself on the x axis", "rows of the batch",
        {"time": "µs"},
        (Run(QUEUE + " --rate 1000000 --policy greedy,", (
            Line("time", r"^  (?P<curve>GET|PUT) +(?P<x>\d+) rows +(?P<y>[\d.]+) us", "{curve}", "{x}"),
            Formula("time", "GET, fitted", FIT, (1, 4096, 8192, 16384), "bs + ks / 1000 * x"),
            Formula("time", "PUT, fitted", FIT, (1, 4096, 8192, 16384), "bi + ki / 1000 * x")), needs="gpu"),),
        reference="GET", records=100_000_000,
        points={"time": {"paper: search": computed("37.4 + 3.0e-3 * x", (1, 4096, 8192, 16384)),
                         "paper: insert": computed("136.9 + 5.6e-3 * x", (1, 4096, 8192, 16384))}}),
    Preset(
        "megakv-11", "least cycle of the periodic policy, writes delayed and not, 95% GET", PAPER,
        "from the times fitted in the same run (Eq. 2); the paper's lines from its own constants",
        "M requests/s", {"least cycle": "µs"},
        (Run(QUEUE + " --rate 1000000 --policy greedy,", (
            Formula("least cycle", "writes every second cycle", FIT, SPEEDS, cycle(True, OURS)),
            Formula("least cycle", "all at once", FIT, SPEEDS, cycle(False, OURS))), needs="gpu"),),
        reference="all at once", records=100_000_000,
        points={"least cycle": {"paper: delayed": computed(cycle(True, THEIRS), SPEEDS),
                                "paper: at once": computed(cycle(False, THEIRS), SPEEDS)}}),
    Preset(
        "megakv-13", "most requests a second for a cycle, writes delayed and not, 95% GET", PAPER,
        "from the times fitted in the same run (Eq. 3); the paper's lines from its own constants, from which the 204 M/s "
        "of its text do not follow", "cycle, µs",
        {"throughput": "M requests/s"},
        (Run(QUEUE + " --rate 1000000 --policy greedy,", (
            Formula("throughput", "writes every second cycle", FIT, CYCLES, speed(True, OURS)),
            Formula("throughput", "all at once", FIT, CYCLES, speed(False, OURS))), needs="gpu"),),
        reference="all at once", records=100_000_000,
        points={"throughput": {"paper: delayed": computed(speed(True, THEIRS), CYCLES),
                               "paper: at once": computed(speed(False, THEIRS), CYCLES),
                               "paper: its text": {160: 204}}}),
    Preset(
        "megakv-14", "throughput of data set a", PAPER, DIFFERS + "; getk is one of gpu::Cache, not of stores",
        "load", {"throughput": "M requests/s"}, throughput("a", 16384), reference="CPU", records=100_000_000,
        scale=0.01,
        points={"throughput": {
            "paper: get, two GPUs": {"a, 95% GET, Zipf .99": 120, "a, 100% GET, Zipf .99": 124},
            "paper: getk": {"a, 95% GET, Zipf .99": 160, "a, 100% GET, Zipf .99": 166},
            "paper: MICA": {"a, 95% GET, Zipf .99": 76.3}}}),
    Preset(
        "megakv-15", "throughput of data sets b, c and d", PAPER, DIFFERS, "load", {"throughput": "M requests/s"},
        throughput("bcd", 4096), reference="CPU", records=20_000_000, scale=0.005,
        points={"throughput": {
            "paper: get, two GPUs": {f"{name}, {reads}% GET, Zipf .99": y for name, reads, y in (
                ("b", 95, 110), ("c", 95, 55), ("d", 95, 34), ("b", 100, 107), ("c", 100, 56), ("d", 100, 36))},
            "paper: getk": {f"{name}, {reads}% GET, Zipf .99": y for name, reads, y in (
                ("b", 95, 139), ("c", 95, 60), ("d", 95, 30), ("b", 100, 144), ("c", 100, 62), ("d", 100, 33))}}}),
    Preset(
        "megakv-16", "latency over the cycle of the periodic policy",
        PAPER + "; round trips, the most requests a second of each cycle; within 3 C",
        "in process, 95/5, closed loop, batches of 512: no more requests wait than threads bring", "cycle C, µs",
        {"latency": "µs of a batch"},
        (Run(IN_PROCESS + " --key-size 8 --value-size 8 --distribution uniform --batch 512 --device cuda "
             "--gpu-schedule periodic --gpu-wait-usec {x}", tuple(
                 Figure("latency", curve, name) for curve, name in (("p50", "p50_us"), ("p99", "p99_us"),
                                                                    ("mean", "latency_mean_us"))),
             (20, 50, 120, 160, 200, 240, 280, 320), "gpu"),),
        reference="mean", records=10_000_000,
        points={"latency": {"paper: mean": {160: 280}, "paper: p95": {160: 410},
                            "3 C": {120: 360, 160: 480, 320: 960}}}),
)
