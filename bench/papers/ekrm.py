"""EKRM (Euro-Par 2024): figures 3, 5, 7 and 8; figure 6 is of a simulator."""

from papers.preset import SERVERS, Figure, Line, Preset, Run

PAPER = ("10 M keys of 24 B, 100 M accesses, 95% GET, Zipf .99, uniform, latest and Facebook's ETC, "
         "retrieval loop on one core, memory of huge pages 1 to 8 times the entries")
DIFFERS = ("values of 32 B; the dictionary is Redis's layout written anew, not Redis itself; where no "
           "huge pages are reserved they are transparent ones")
LOADS = ("zipf", "uniform", "latest", "etc")
LOOP = "hot_bench --keys={records} --accesses={accesses}"
NAMES = {"hot": "our fast part", "line": "our index alone", "paper": "EKRM as printed", "slb": "SLB"}


def row(load=r"\w+", table=r"[\w-]+"):
    """A row of hot_bench's table: nanoseconds of the dictionary and of the table, and ratios."""
    return (rf"^\| (?P<load>{load}) \| (?P<memory>[\d.]+) x \| (?P<table>{table}) \| (?P<dictionary>\d+) \| "
            r"(?P<one>\d+) \| (?P<batch>\d+) \| (?P<ratio>[\d.]+) \| (?P<ratio_batch>[\d.]+) \| "
            r"(?:(?P<hits>[\d.]+)%)?")


PRESETS = (
    Preset(
        "ekrm-3", "what finding an entry costs beside a whole GET, over the number of keys",
        "0.1 to 100 M keys, 10 GETs a key, Unix sockets; Redis's time by function, as a figure",
        "time of the retrieval loop beside the processor time of servers a GET, by TCP on this "
        "machine; Redis itself is not taken apart", "keys", {"time": "ns a GET"},
        (Run("hot_bench --keys={x} --accesses={max(x, 500000)} --memory=2 --loads=uniform --tables=line", (
            Line("time", row(), "retrieval: Redis's layout", "{x}", "dictionary"),
            Line("time", row(), "retrieval: our index", "{x}", "one")), (10_000, 100_000, 1_000_000)),
         Run(SERVERS.replace("{records}", "{x}") + " --spawn-redis --mix read=100 --distribution uniform"
             " --key-size 24 --pipeline 32", tuple(
                 Figure("time", f"server CPU: {name}", "server_cpu_us_per_request", system, 1000)
                 for name, system in (("redis", "redis"), ("isotherm", "isotherm (redis)"))),
             (10_000, 100_000, 1_000_000), "redis-server")),
        reference="retrieval: Redis's layout", log_x=True, records=100_000_000, scale=0.01),
    Preset(
        "ekrm-5", "speed-up of the retrieval loop over memory", PAPER, DIFFERS,
        "memory of the fast part, times the entries", {load: "times the dictionary" for load in LOADS},
        (Run(LOOP + " --preset=ekrm-5", (
            *(Line(load, row(load, table), f"{name}, one by one", "{float(memory)}", "ratio")
              for load in LOADS for table, name in NAMES.items()),
            *(Line(load, row(load, "hot"), "our fast part, in batches", "{float(memory)}", "ratio_batch")
              for load in LOADS))),),
        accesses=100_000_000, scale=0.01, log_x=True,
        points={load: {"paper, mean of loads: EKRM": {2: 1.31, 8: 1.38}, "paper, mean of loads: SLB": {8: 1.16}}
                for load in LOADS}),
    Preset(
        "ekrm-7", "hit rate of the fast part, memory 2 times the entries", PAPER,
        DIFFERS + "; misses of dTLB and cache are not counted", "load", {"hits": "%"},
        (Run(LOOP + " --preset=ekrm-7", tuple(
            Line("hits", row(table=table), NAMES[table], "{load}", "hits") for table in ("hot", "paper"))),),
        accesses=100_000_000, scale=0.01,
        points={"hits": {"paper: about": {"zipf": 90, "uniform": 90, "latest": 90}}}),
    Preset(
        "ekrm-8", "speed-up of the retrieval loop by configuration, memory 2 times the entries", PAPER,
        DIFFERS, "load", {"speed-up": "times the dictionary"},
        (Run(LOOP + " --preset=ekrm-8", tuple(
            Line("speed-up", row(table=table), name, "{load}", "ratio") for table, name in (
                ("line", "no fast part"), ("fast1", "one entry"), ("fast1-4k", "one entry, pages of 4 KiB"),
                ("fast1-one", "one entry, one hash"), ("fast2", "two entries"), ("fast4", "four entries"),
                ("hot-both", "both asked at once")))),),
        reference="one entry", accesses=100_000_000, scale=0.01),
)
