"""H-Rocks (SIGMOD 2025): tables 1 to 7 and figures 8 to 14, our Db beside RocksDB."""

from papers.preset import Line, Preset, Run

PAPER = ("100 M pairs of 8 + 8 B stored, memtables of 512 MB, five that wait, 4 GB of block cache, four Xeons of 16 "
         "cores, a Titan RTX and persistent memory")
DIFFERS = ("Db on the CPU, where nothing else is said, beside RocksDB 7.8, in turns, the same memory (7 GB x scale, at "
           "least 64 MB), log on a disk without sync; persistent memory and other stores on it are gone; one call at a "
           "time, 2 threads")
DB = ("db_bench --records {records} --seconds {seconds} --memory {max(64, int(7000 * scale))} "
      "--threads {min(threads, 2)}")
# With a copy of the files on a GPU.
ON_GPU = ("db_bench --records {records} --seconds {seconds} --memory {max(64, int(7000 * scale))} "
          "--gpu-memory {min(60000, max(256, int(160000 * scale)))} --threads {threads} --batch 1000")
SYSTEMS = (("isotherm", "Isotherm Db"), ("rocksdb", "RocksDB"))
IN_CALLS = (("isotherm", "Isotherm Db, calls of 1,000, files copied to a GPU"), ("rocksdb", "RocksDB, calls of 1,000"))
MEASURED = r" offered (?P<rate>\d+): (?P<mps>[\d.]+) M/s, mean (?P<mean>[\d.]+) us, p50 (?P<p50>[\d.]+) us"
LOADS = ("put", "get", "update", "erase")
MIXES = ("ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "zippydb")
SIZES = ((8, 8), (16, 128), (32, 512), (64, 1024))


def lines(panel, load, x, y="mps", factor=1, systems=SYSTEMS):
    """A point of each system."""
    return tuple(Line(panel, f"^{system} {load}{MEASURED}", name, x, y, factor) for system, name in systems)


def parts(load, x):
    """Where RocksDB's time goes."""
    return tuple(Line("share of the time", f"^rocksdb {load} part {part}: (?P<y>[\\d.]+) %", f"RocksDB: {name}", x)
                 for part, name in (("memtable", "memtable"), ("log", "log"), ("flush and compaction", "flush, stalls"),
                                    ("files", "files"), ("of them blocks that were read", "blocks read")))


def sizes(key, value):
    return f"--key {key} --value {value}"


PRESETS = (
    Preset(
        "hrocks-table1", "where RocksDB's time goes in puts, and a put of Db", PAPER,
        DIFFERS + "; RocksDB's own counters, which miss what is between them", "key/value bytes",
        {"share of the time": "%", "time of a put": "µs"},
        tuple(Run(f"{DB} --loads put --parts 1 {sizes(key, value)}",
                  parts("put", "{x}") + lines("time of a put", "put", "{x}", "mean"), (f"{key}/{value}",))
              for key, value in ((8, 128), (8, 512), (32, 128), (32, 1024))),
        reference="RocksDB", records=100_000_000, scale=0.0005,
        points={"share of the time": {
            "paper: memtable": {"8/128": 83.52, "8/512": 77.24, "32/128": 79.05, "32/1024": 67.1},
            "paper: log": {"8/128": 16.48, "8/512": 22.67, "32/128": 20.7, "32/1024": 31.16}}}),
    Preset(
        "hrocks-table2", "where RocksDB's time goes in reads, and a call of Db", PAPER + "; 16 + 100 B",
        DIFFERS + "; RocksDB tells files from memtables, and blocks that were read", "load",
        {"share of the time": "%", "time of a call": "µs"},
        (Run(f"{DB} --parts 1 {sizes(16, 100)} --loads ycsb-b,ycsb-c,ycsb-d,zippydb", tuple(
            read for load in ("zippydb", "ycsb-b", "ycsb-c", "ycsb-d")
            for read in parts(load, load) + lines("time of a call", load, load, "mean"))),),
        reference="RocksDB", records=100_000_000, scale=0.001,
        points={"share of the time": {
            "paper: memtables": {"zippydb": 73.56, "ycsb-b": 60.85, "ycsb-c": 62.71, "ycsb-d": 66.95},
            "paper: block cache": {"zippydb": 9.65, "ycsb-b": 16.57, "ycsb-c": 18.91, "ycsb-d": 13.38},
            "paper: LSM tree": {"zippydb": 16.79, "ycsb-b": 22.58, "ycsb-c": 18.38, "ycsb-d": 19.67}}}),
    Preset(
        "hrocks-table3", "a lookup over how much is in memory (tables 3 and 6)",
        "memtables of 64 MB to 4 GB, 8 + 8 B: RocksDB 6.3 to 8.3 µs, H-Rocks 3.1 to 3.3",
        DIFFERS + "; nothing is flushed, so that all pairs lie in one memtable; MB by the 64 B that a pair takes there",
        "MB of memtable", {"lookup": "µs"},
        (Run("db_bench --records {int(x * 15000)} --seconds {seconds} --memory {max(64, x * 28)} --flush 0 --loads get",
             lines("lookup", "get", "{x}", "mean"), (1, 4, 16, 32)),),
        reference="RocksDB", records=64_000_000, scale=1, log_x=True,
        points={"lookup": {
            "paper: RocksDB": {64: 6.3, 128: 6.6, 256: 7.04, 512: 7.25, 1024: 7.56, 2048: 7.8, 4096: 8.29},
            "paper: H-Rocks": {64: 3.1, 128: 3.12, 256: 3.14, 512: 3.18, 1024: 3.22, 2048: 3.2, 4096: 3.28}}}),
    Preset("hrocks-table4", "the machine", left_out="each result of the other presets names its machine"),
    Preset("hrocks-table5", "features of stores",
           left_out="nothing to measure: Db has values of any length, ranges, transactions, and answers as RocksDB "
                    "does (tests/db/db_oracle.cc); Viper, Plush, uTree and gpKVS need persistent memory, which is gone"),
    Preset(
        "hrocks-table6", "look-ups over how much is on the GPU", "G-memtables of 64 MB to 4 GB, 8 + 8 B: a look-up of "
        "H-Rocks takes 3.1 to 3.3 µs (hrocks-table3)",
        "the copy of a Db's files on a GPU, each key searched in run after run, calls of 1,000; a pair takes 32 B there",
        "MB on the GPU", {"look-ups": "M look-ups/s"},
        (Run("db_bench --records {int(x * 31250)} --seconds {seconds} --memory {x * 2} --gpu-memory {max(256, x * 4)} "
             "--threads {threads} --batch 1000 --loads get",
             lines("look-ups", "get", "{x}", systems=IN_CALLS), (64, 256, 1024), needs="gpu"),),
        reference=IN_CALLS[1][1], records=64_000_000, scale=1, log_x=True),
    Preset(
        "hrocks-table7", "requests a second for a dollar", PAPER + "; 7,657 USD in all, 1,337 the GPU",
        DIFFERS + "; the price is what --price says", "load", {"efficiency": "requests/s for a unit of money"},
        (Run(f"{DB} {sizes(16, 100)} --loads ycsb-a,ycsb-b,ycsb-c,ycsb-d", tuple(
            read for load in ("ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d")
            for read in lines("efficiency", load, load, "mps * 1e6 / price")), needs="price"),),
        reference="RocksDB", records=100_000_000, scale=0.001, log_y=True,
        points={"efficiency": {
            "paper: FoundationDB": {"ycsb-a": 85.23, "ycsb-b": 174.79, "ycsb-c": 190.58, "ycsb-d": 172.64},
            "paper: H-Rocks": {"ycsb-a": 7240.43, "ycsb-b": 8469.94, "ycsb-c": 11202.18, "ycsb-d": 8572.36}}}),
    Preset(
        "hrocks-8", "throughput of put, get, update and delete over the rate that is offered",
        PAPER + "; H-Rocks 33, 210, 24.6 M/s of put, get, update, RocksDB under 2 and 4 M/s of put and get", DIFFERS,
        "k requests/s offered", {load: "M requests/s" for load in LOADS},
        (Run(f"{DB} --loads put,get,update,erase --rates 20000,100000,500000,2000000", tuple(
            read for load in LOADS for read in lines(load, load, "{int(rate) / 1000}"))),
         Run(f"{ON_GPU} --loads put,get", tuple(
             read for load in ("put", "get") for read in lines(load, load, "{float(mps) * 1000}", systems=IN_CALLS)),
             needs="gpu")),
        reference="RocksDB", records=100_000_000, scale=0.001, log_x=True, log_y=True,
        points={"put": {"paper: H-Rocks": {100_000: 33}},
                "get": {"paper: H-Rocks": {250_000: 210}, "paper: RocksDB": {250_000: 4}},
                "update": {"paper: H-Rocks": {100_000: 24.6}}}),
    Preset(
        "hrocks-9", "ranges of 100 pairs, and transactions over their size",
        PAPER + "; ranges: H-Rocks 10 M/s, RocksDB 1.4, Plush 2.2; transactions of 5 M requests: H-Rocks 10 M/s",
        DIFFERS + "; transactions of at most 10,000 requests, half gets, half puts, optimistic, one thread",
        "requests of a transaction, or 100 for ranges", {"ranges": "k ranges/s", "transactions": "M requests/s"},
        (Run(f"{DB} --loads range", lines("ranges", "range", "{100}", "mps", 1000)),
         Run(f"{ON_GPU} --loads range", lines("ranges", "range", "{100}", "mps", 1000, IN_CALLS), needs="gpu"),
         Run(DB.replace("{min(threads, 2)}", "1") + " --loads transactions --group {x}",
             lines("transactions", "transactions", "{x}"), (10, 100, 1000, 10_000))),
        reference="RocksDB", records=100_000_000, scale=0.001, log_x=True,
        points={"transactions": {"paper: H-Rocks": {5_000_000: 10}}}),
    Preset(
        "hrocks-10", "puts and gets over the sizes of keys and values", PAPER + "; 10 M requests", DIFFERS,
        "key/value bytes", {"put": "M requests/s", "get": "M requests/s"},
        tuple(Run(f"{DB} --loads put,get {sizes(key, value)}",
                  lines("put", "put", "{x}") + lines("get", "get", "{x}"), (f"{key}/{value}",))
              for key, value in SIZES) +
        tuple(Run(f"{ON_GPU} --loads put,get {sizes(key, value)}",
                  lines("put", "put", "{x}", systems=IN_CALLS) + lines("get", "get", "{x}", systems=IN_CALLS),
                  (f"{key}/{value}",), needs="gpu")
              for key, value in SIZES),
        reference="RocksDB", records=100_000_000, scale=0.0005),
    Preset("hrocks-11", "pointers to values beside values in the memtable",
           left_out="our runs on the GPU have values beside their keys: there is no second way to compare with"),
    Preset(
        "hrocks-12", "median latency of puts and gets over the rate that is offered",
        PAPER + "; H-Rocks as RocksDB at low rates, up to 3 times lower at high ones", DIFFERS, "k requests/s offered",
        {"put": "µs, median", "get": "µs, median"},
        (Run(f"{DB} --loads put,get --rates 10000,30000,100000,300000", tuple(
            read for load in ("put", "get") for read in lines(load, load, "{int(rate) / 1000}", "p50"))),),
        reference="RocksDB", records=100_000_000, scale=0.001, log_x=True, log_y=True),
    Preset(
        "hrocks-13", "YCSB A to D, and ZippyDB's mix", PAPER + "; 16 + 100 B, writes uniform, reads Zipf .99",
        DIFFERS + "; closed loop", "load", {"throughput": "M requests/s"},
        (Run(f"{DB} {sizes(16, 100)} --loads {','.join(MIXES)}", tuple(
            read for load in MIXES for read in lines("throughput", load, load))),
         Run(f"{ON_GPU} {sizes(16, 100)} --loads {','.join(MIXES[:3])}", tuple(
             read for load in MIXES[:3] for read in lines("throughput", load, load, systems=IN_CALLS)), needs="gpu")),
        reference="RocksDB", records=100_000_000, scale=0.001, log_y=True,
        points={"throughput": {
            "paper: H-Rocks": {"ycsb-a": 52, "ycsb-b": 64, "ycsb-c": 92, "ycsb-d": 72},
            "paper: Viper": {"ycsb-a": 12, "ycsb-b": 19, "ycsb-c": 21, "ycsb-d": 18.7}}}),
    Preset("hrocks-14", "FoundationDB over its instances",
           left_out="FoundationDB is another, distributed store and no peer of one Db; its numbers are in hrocks-table7"),
)
