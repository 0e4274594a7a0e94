"""MemcachedGPU (SoCC 2015): figures 2 to 7 and tables 3 to 6."""

from papers.preset import SERVERS, Figure, Line, Preset, Run

PAPER = "1.3 M items, keys of 16 B (packets of 96 B), values of 2 B, one 10 GbE port, Tesla K20c or GTX 750 Ti"
NETWORK = "no 10 GbE card: by TCP on this machine, client and server share the cores"
BOTH = SERVERS + " --protocol memcached --spawn-memcached --value-size 2"
PEERS = (("isotherm-server", "isotherm (memcached)"), ("memcached 1.6", "memcached"))
PACKETS = "packet_bench --items {records} --rounds 3 --calls 1000 --seconds 0.1"
FRAMES = r"^GET frames: (?P<y>[\d.]+) M/s .*? (?P<streams>\d+) streams of (?P<rows>\d+); .*same bytes: (?P<bus>[\d.]+)"
BATCH = r"^batches of (?P<rows>\d+), read where they lie: p50 (?P<p50>[\d.]+) us, p95 (?P<p95>[\d.]+) us"
ENERGY = r"^(?P<x>GET .*?|PUT .*?|95/5 .*?)  +(?P<rate>[\d.]+) +(?P<watts>[\d.]+) +(?P<joule>[\d.]+)$"
FRAME_ENERGY = (r"^energy, values of (?P<value>\d+) bytes, 1/\d+ of the rate: (?P<rate>[\d.]+) M/s, (?P<watts>\d+) W, "
                r"(?P<joule>[\d.]+) M frames/J")


def figures(panel, name, factor=1.0):
    return tuple(Figure(panel, curve, name, system, factor) for curve, system in PEERS)


SIZES = ("0.10", "0.25", "0.50", "0.80", "1.00", "1.25")
HITS = (r"^Zipf \.99 (?P<x>[\d.]+) +(?P<lru>[\d.]+) +(?P<clock>[\d.]+) +(?P<w1>[\d.]+) +(?P<w2>[\d.]+) +(?P<w4>[\d.]+)"
        r" +(?P<w8>[\d.]+) +(?P<w16>[\d.]+) +(?P<set>[\d.]+) \([\d.]+\) +(?P<cuckoo>[\d.]+)")
# packet_beside_bench: three numbers of GETs alone, three beside, two ratios; the background alone, beside, ratio; full
# rate alone, beside, ratio.
BESIDE = (r"^ *(?P<blocks>\d+) +(?P<first>none|GETs) +(?P<x>\d+) +(?P<p50>[\d.]+) +(?P<p95>[\d.]+) +(?P<most>[\d.]+)"
          r" +(?P<p50_beside>[\d.]+) +(?P<p95_beside>[\d.]+) +(?P<most_beside>[\d.]+) +[\d.]+ +[\d.]+"
          r" +(?P<work>[\d.]+) +(?P<work_beside>[\d.]+) +[\d.]+ +(?P<full>[\d.]+) +(?P<full_beside>[\d.]+) +[\d.]+$")
BESIDE_RUN = "packet_beside_bench --items {records} --rounds 1"
BACKGROUND = ("raw frames from a receive buffer, no network: 512 a batch, which counts from when it was due to its replies; "
              "256 blocks find room on a large GPU at once, so there are as many for each multiprocessor as on a K20c, too; "
              "by streams with priorities and without")


def beside(panel, group):
    """Of GETs or the background beside each other, by blocks and priorities."""
    return (Line(panel, BESIDE, "{blocks} blocks, first: {first}", "{x}", group + "_beside"),)


def alone(panel, group):
    return (Line(panel, BESIDE, "{blocks} blocks, first: {first}, alone", "{x}", group),)


PRESETS = (
    Preset(
        "memcachedgpu-2", "misses over room and associativity, Zipf .99",
        "10 M requests of YCSB's Zipf, 95/5; at 8 M entries 1 way 21.2%, 16 ways 10.4%",
        "reads that miss put their key; room is a share of the keys, so the paper's 8 M of 10 M are .8; more "
        "requests come than keys, so fewer are first ones", "room, times the keys", {"misses": "%"},
        (Run("cache_bench hits {records}", tuple(
            Line("misses", HITS, curve, "{float(x)}", f"100 - {group}") for curve, group in (
                ("chained, exact LRU", "lru"), ("CLOCK", "clock"), ("1 way", "w1"), ("4 ways", "w4"),
                ("16 ways", "w16"), ("our set index", "set"), ("our cuckoo index", "cuckoo")))),),
        reference="chained, exact LRU", scale=0.005,
        points={"misses": {"paper: 1 way": {0.8: 21.2}, "paper: 16 ways": {0.8: 10.4}}}),
    Preset(
        "memcachedgpu-3", "round trips over throughput", PAPER, NETWORK + "; the GPU's panel: batches of raw frames "
        "from a receive buffer to replies, no network", "k requests/s offered, or rows of a batch",
        {"mean by sockets": "µs", "p99 by sockets": "µs", "GPU, batches of frames": "µs"},
        (Run(BOTH + " --mix read=100 --distribution uniform --rate {x * 1000}",
             figures("mean by sockets", "latency_mean_us") + figures("p99 by sockets", "p99_us"),
             (5, 10, 20, 40), "memcached"),
         Run(PACKETS + " --rows 16384 --batch {x}", tuple(
             Line("GPU, batches of frames", BATCH, curve, "{x}", curve) for curve in ("p50", "p95")),
             (64, 256, 512, 2048), "gpu")),
        reference="memcached 1.6", records=1_300_000, scale=0.2,
        points={"GPU, batches of frames": {"paper: p95 at 13 M/s, less than": {512: 1100},
                                           "paper: p95 at 8 M/s, less than": {512: 300}}}),
    Preset(
        "memcachedgpu-4", "power and requests a joule", PAPER + "; the whole system's watts",
        "the GPU's own watts; raw frames from memory, at the full rate and at shares of it, and lookups of a u64 table "
        "that lies on the GPU",
        "load; of frames M/s", {"power, frames": "W", "frames": "M frames/J", "look-ups": "M requests/J"},
        (Run("packet_bench --items {min(records, 10_000_000)} --rounds 3 --calls 1000 --seconds {seconds}", (
            Line("power, frames", FRAME_ENERGY, "values of {value} B", "{rate}", "watts"),
            Line("frames", FRAME_ENERGY, "values of {value} B", "{rate}", "joule")), needs="gpu"),
         Run("device_energy_bench --entries {records} --seconds {seconds}",
             (Line("look-ups", ENERGY, "GPU", "{x}", "joule"),), needs="gpu")),
        records=100_000_000, points={"frames": {"paper: K20c, system": {13: 0.062}},
                                     "power, frames": {"paper: K20c alone": {13: 71}}}),
    Preset(
        "memcachedgpu-5", "length of keys", PAPER + "; the rate stays within 99% of the line's for every mix of lengths",
        NETWORK + "; hit rates below 100% are no load of isotherm-bench yet", "bytes of a key",
        {"server CPU": "µs a request", "p50": "µs"},
        (Run(BOTH + " --mix read=100 --distribution uniform --pipeline 8 --key-size {x}",
             figures("server CPU", "server_cpu_us_per_request") + figures("p50", "p50_us"),
             (16, 32, 64, 128, 250), "memcached"),),
        reference="memcached 1.6", records=1_300_000, scale=0.2),
    Preset(
        "memcachedgpu-6", "round trips while a background kernel runs",
        PAPER + "; 4 M GETs/s beside a vector multiplication of 256 blocks of 1,024 threads, about 32 ms", BACKGROUND,
        "launches of the background", {"p50 of batches": "µs", "p95 of batches": "µs", "full rate": "M frames/s"},
        (Run(BESIDE_RUN, alone("p50 of batches", "p50") + beside("p50 of batches", "p50")
             + alone("p95 of batches", "p95") + beside("p95 of batches", "p95")
             + alone("full rate", "full") + beside("full rate", "full"), needs="gpu"),),
        records=1_300_000, scale=1, log_x=True, log_y=True),
    Preset(
        "memcachedgpu-7", "a background kernel's time over its launches, and the longest round trip beside it",
        PAPER + "; 16 launches take 1.5 times as long as one, and round trips are 18 times less, 1.5 ms", BACKGROUND,
        "launches of the background", {"background": "ms", "longest batch": "µs"},
        (Run(BESIDE_RUN, alone("background", "work") + beside("background", "work")
             + beside("longest batch", "most"), needs="gpu"),),
        records=1_300_000, scale=1, log_x=True, log_y=True,
        points={"background": {"paper, beside GETs": {1: 32, 16: 48}},
                "longest batch": {"paper, means of 256 requests": {1: 27_000, 16: 1_500}}}),
    Preset(
        "memcachedgpu-table3", "throughput of GETs and what is dropped",
        PAPER + "; near the line's rate, under 0.006% dropped by the server (GPUDirect), under .5% without",
        NETWORK.replace("TCP", "UDP") + "; requests that get no reply are counted by the client; keys of 16 B; 500 M "
        "requests there", "load", {"server CPU": "ns a request", "dropped": "requests"},
        (Run("memcached_figures.py {programs} --rounds 3 --seconds {seconds}", (
            Line("server CPU", r"^(?P<load>(?:UDP|TCP).*)\n(?:.*\n){2}(?P<name>isotherm) +(?P<y>\d+) ns", "isotherm-server",
                 "{load}"),
            Line("server CPU", r"^(?P<load>(?:UDP|TCP).*)\n(?:.*\n){3}(?P<name>memcached) +(?P<y>\d+) ns", "memcached 1.6",
                 "{load}"),
            Line("dropped", r"^(?P<load>UDP.*)\n(?:.*\n){4}(?P<y>\d+) lost", "both", "{load}")), needs="memcached"),),
        reference="memcached 1.6", records=1_300_000, scale=0.1),
    Preset(
        "memcachedgpu-table4", "GETs beside SETs",
        PAPER + "; SETs by TCP, at most 32 k/s; up to 8.8% of the GETs dropped",
        NETWORK + "; nothing is dropped", "% of SETs", {"throughput": "k requests/s", "server CPU": "µs a request"},
        (Run(BOTH + " --mix read={100 - x},update={x} --pipeline 8",
             figures("throughput", "requests_per_second", 1e-3) + figures("server CPU", "server_cpu_us_per_request"),
             (0, 1, 5, 10, 50), "memcached"),),
        reference="memcached 1.6", records=1_300_000, scale=0.2,
        points={"throughput": {"paper: GETs beside .13% to .3% SETs": {0.13: 11_700, 0.16: 10_600, 0.19: 9_700,
                                                                      0.21: 8_800, 0.3: 7_000}}}),
    Preset(
        "memcachedgpu-table5", "raw frames from memory: throughput and time of a batch", PAPER + "; from memory",
        "replies are whole ones, with checksums, in memory of the host; M frames/s of 4 streams", "GPU",
        {"throughput": "M frames/s", "time of a batch of 512": "µs"},
        (Run(PACKETS, (
            Line("throughput", FRAMES, "frames", "this GPU", "y"),
            Line("throughput", FRAMES, "copies of the same bytes", "this GPU", "bus"),
            Line("time of a batch of 512", BATCH, "p50", "this GPU", "p50"),
            Line("time of a batch of 512", BATCH, "p95", "this GPU", "p95")), needs="gpu"),),
        reference="copies of the same bytes",
        points={"throughput": {"paper": {"K20c": 27.5, "GTX Titan": 27.7, "GTX 750 Ti": 28.3}},
                "time of a batch of 512": {"paper, mean": {"K20c": 353.4, "GTX Titan": 301.1, "GTX 750 Ti": 263.6}}}),
    Preset(
        "memcachedgpu-table6", "beside other systems: requests a second",
        "numbers of other papers, each on its own machine",
        "ours on this machine, by sockets (32 at once on a connection) and as raw frames from memory", "system",
        {"throughput": "M requests/s"},
        (Run(BOTH + " --mix read=100 --distribution uniform --pipeline 32",
             figures("throughput", "requests_per_second", 1e-6), ("by sockets here",), "memcached"),
         Run(PACKETS, (Line("throughput", FRAMES, "Isotherm, frames from memory", "GPU here", "y"),), needs="gpu")),
        reference="memcached 1.6", records=1_300_000, scale=0.2, log_y=True,
        points={"throughput": {"paper": {
            "MemcachedGPU, K20c": 12.9, "MemcachedGPU, from memory": 28.3, "memcached, 4 threads": 0.93,
            "memcached, PF_RING": 1.82, "MICA": 76.9, "MICA, from memory": 156, "FPGA": 13.02}}}),
)
