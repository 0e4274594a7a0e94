"""What a preset is: one figure or table of a paper, as data.

A preset names programs of this project (and their peers) with flags, and says where in what they
print the points of the figure are. Nothing here runs: bench/papers/run.py does, and
bench/papers/draw.py draws what it has written.

  Preset    a figure: what it shows, the paper's parameters and what differs, the x axis, its panels
            (each with a unit), the runs, which curve the others are divided by, and the paper's own
            numbers where its text or tables have them
  Run       a command, run once, or once for each x; `needs` says what the machine must have
  Figure    points from the JSON of isotherm-bench: a system and the name of a figure
  Line      points from lines of text: a pattern with groups; curve, x and y are made from them
  Formula   points that follow from one line of text: y of each x by an expression

Words of commands, curves and x may hold {expressions} over x, records, seconds, threads, accesses,
price, server, and the functions below.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Figure:
    panel: str
    curve: str
    name: str  # "requests_per_second", "latency_mean_us", …
    system: str = "store"  # its label in the JSON
    factor: float = 1
    inverse: bool = False  # factor / figure
    x: object = None  # instead of the run's


@dataclass(frozen=True)
class Line:
    panel: str
    pattern: str  # of a line of the output; with several matches there are several points
    curve: str
    x: str
    y: str = "y"  # an expression over the groups
    factor: float = 1


@dataclass(frozen=True)
class Formula:
    panel: str
    curve: str
    pattern: str  # its groups are numbers
    xs: tuple
    expression: str  # over x and the groups


@dataclass(frozen=True)
class Run:
    command: str
    reads: tuple
    xs: tuple = (None,)
    needs: str = ""  # "gpu", "redis-server", "memcached", "price", in one text


@dataclass(frozen=True)
class Preset:
    name: str
    shows: str
    paper: str = ""  # its parameters
    differs: str = ""
    x: str = ""
    panels: dict = field(default_factory=dict)  # name: unit of y
    runs: tuple = ()
    reference: str = ""  # a curve
    points: dict = field(default_factory=dict)  # panel: {curve: {x: y}}, the paper's
    records: int = 10_000_000  # the paper's
    accesses: int = 0
    scale: float = 0.1  # of records and accesses, unless --scale says otherwise
    log_x: bool = False
    log_y: bool = False
    left_out: str = ""  # why nothing runs

    def needs(self):
        """What at least one of its runs needs."""
        return sorted({word for run in self.runs for word in run.needs.split()})


# isotherm-bench in this process; every value that is read is checked.
IN_PROCESS = ("isotherm-bench --quiet --json - --verify --records {records} --seconds {seconds} "
              "--threads {threads}")
# isotherm-bench that starts servers and lets them take turns.
SERVERS = ("isotherm-bench --quiet --json - --verify --records {records} --seconds {seconds} "
           "--rounds 1 --no-floor --spawn-isotherm {server}")


def rate(panel, curve, system="store", x=None):
    """Million requests a second."""
    return Figure(panel, curve, "requests_per_second", system, 1e-6, x=x)


def mean_us(panel, curve, system="store"):
    return Figure(panel, curve, "latency_mean_us", system)


def skew(theta):
    """Flags for a Zipf load of that theta; of 0, a uniform one."""
    return "--distribution uniform" if theta == 0 else f"--distribution zipf --theta {theta}"
