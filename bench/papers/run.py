"""Runs a preset: its programs in turns, and what they print as points.

Each x is run by all configurations one after another, so that they share what the machine is doing
then; the next round goes the other way. A ratio is taken round by round, and medians are kept.
"""

import json
import os
import platform
import re
import shlex
import shutil
import statistics
import subprocess

from papers.preset import Figure, Formula, skew

BRACES = re.compile(r"\{([^{}]*)\}")


class Failed(Exception):
    pass


def number(text):
    try:
        value = float(text)
    except (TypeError, ValueError):
        return text
    return int(value) if value.is_integer() else value


def fill(text, names):
    """The text with the values of its {expressions}."""
    return BRACES.sub(lambda match: str(eval(match.group(1), {"skew": skew}, names)), text)


class Machine:
    """Where the programs are, and what there is."""

    def __init__(self, folders, price=None):
        self.folders = [folder.resolve() for folder in folders if folder.is_dir()]
        self.price = price
        self.printed = {}  # by round and command: what presets have in common runs once
        self.gpu = self._gpu()

    @staticmethod
    def _gpu():
        try:
            listed = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
                                    capture_output=True, text=True, timeout=60)
        except OSError:
            return None
        return listed.stdout.splitlines()[0] if listed.returncode == 0 and listed.stdout else None

    def program(self, name):
        for folder in self.folders:
            if (folder / name).is_file():
                return str(folder / name)
        return None

    def missing(self, run):
        """What a run needs and the machine has not, or nothing."""
        for word in run.needs.split():
            there = {"gpu": self.gpu, "price": self.price}.get(word) if word in ("gpu", "price") \
                else shutil.which(word)
            if not there:
                return {"gpu": "no GPU", "price": "no --price"}.get(word, f"no {word}")
        name = run.command.split()[0]
        return None if self.program(name) else f"{name} is not built"

    def environment(self):
        model = "unknown"
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
            for line in lines:
                if line.startswith("model name"):
                    model = line.split(":", 1)[1].strip()
                    break
        return {"processor": model, "cores": len(os.sched_getaffinity(0)), "kernel": platform.release(),
                "gpu": self.gpu, "load at the start": round(os.getloadavg()[0], 1)}


def command_of(machine, run, names):
    words = shlex.split(fill(run.command, names))
    words[0] = machine.program(words[0]) or words[0]
    return words


def execute(words):
    """What a command prints."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    except subprocess.TimeoutExpired as late:
        raise Failed(f"{shlex.join(words)}: no end within {late.timeout} s") from late
    if done.returncode != 0:
        raise Failed(f"{shlex.join(words)}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def as_written(words):
    """The command without the folders of this machine."""
    return shlex.join(os.path.basename(word) if word.startswith("/") else word for word in words)


def json_points(reads, text, names):
    report = json.loads(text)
    # "store on a GPU, 12% of the index beyond" is the store, too; MICA's layout stands in its place.
    systems = {re.sub("^(store on a GPU|MICA's layout).*", "store", system["label"]): system
               for system in report["systems"]}
    for read in reads:
        system = systems.get(read.system)
        if system is None:
            raise Failed(f"no system '{read.system}' in {sorted(systems)}")
        value = system["median"].get(read.name)
        if value is None and read.name in system["rounds"][0]:
            value = statistics.median(one[read.name] for one in system["rounds"])
        if value is None:
            continue
        value = read.factor / value if read.inverse else read.factor * value
        yield read.panel, fill(read.curve, names), names["x"] if read.x is None else read.x, value


def line_points(read, text, names):
    for match in re.finditer(read.pattern, text, re.MULTILINE):
        groups = {**names, **match.groupdict()}
        if isinstance(read, Formula):
            groups.update({name: float(value) for name, value in match.groupdict().items()})
            for x in read.xs:
                value = eval(read.expression, {}, {**groups, "x": x})
                if value > 0:  # else there is no such thing
                    yield read.panel, read.curve, x, value
            continue
        numbers = {name: number(value) for name, value in groups.items()}
        value = eval(read.y, {}, numbers)
        if value is not None:
            yield read.panel, fill(read.curve, groups), number(fill(read.x, groups)), value * read.factor


def points(run, text, names):
    if isinstance(run.reads[0], Figure):
        yield from json_points(run.reads, text, names)
    else:
        for read in run.reads:
            yield from line_points(read, text, names)


def rounded(value):
    return float(f"{value:.4g}")


class Result:
    """Points by panel, curve and x, a value for each round."""

    def __init__(self):
        self.values = {}

    def add(self, point):
        panel, curve, x, value = point
        self.values.setdefault((panel, curve, x), []).append(value)

    def rows(self, reference):
        for (panel, curve, x), values in self.values.items():
            beside = self.values.get((panel, reference, x))
            ratio = None
            if beside is not None and curve != reference and all(beside):
                ratio = rounded(statistics.median(a / b for a, b in zip(values, beside)))
            yield {"panel": panel, "curve": curve, "x": x, "y": rounded(statistics.median(values)), "ratio": ratio}


def run_preset(preset, machine, scale=None, seconds=0.3, rounds=2, threads=None):
    """The preset's result, as it is written."""
    if preset.left_out:
        raise Failed(f"{preset.name} is left out: {preset.left_out}")
    scale = preset.scale if scale is None else scale
    names = {"records": max(1000, int(preset.records * scale)),
             "accesses": max(2000, int(preset.accesses * scale)), "seconds": seconds, "scale": scale,
             "threads": threads or min(16, len(os.sched_getaffinity(0))), "price": machine.price,
             "server": machine.program("isotherm-server") or "/isotherm-server", "programs": machine.folders[0]}
    environment = machine.environment()
    skipped, commands, turns = {}, [], []
    for run in preset.runs:
        missing = machine.missing(run)
        if missing:
            skipped[as_written(command_of(machine, run, {**names, "x": run.xs[0]}))] = missing
            continue
        turns += [(run, x) for x in run.xs]
    if not turns:
        raise Failed(f"{preset.name}: {', '.join(sorted(set(skipped.values())))}")
    order = list(dict.fromkeys(x for _, x in turns))
    turns.sort(key=lambda turn: order.index(turn[1]))
    result = Result()
    for number_of_round in range(rounds):
        for run, x in turns if number_of_round % 2 == 0 else reversed(turns):
            here = {**names, "x": x}
            words = command_of(machine, run, here)
            line = as_written(words)
            if line not in commands:
                commands.append(line)
            key = number_of_round, line
            if key not in machine.printed:
                machine.printed[key] = execute(words)
            for point in points(run, machine.printed[key], here):
                result.add(point)
    rows = list(result.rows(preset.reference))
    if not rows:
        raise Failed(f"{preset.name}: nothing of what the programs print is a point")
    return {"preset": preset.name, "shows": preset.shows, "paper": preset.paper, "differs": preset.differs,
            "environment": environment,
            "parameters": {"scale": scale, "records": names["records"], "accesses": names["accesses"],
                           "seconds": seconds, "rounds": rounds, "threads": names["threads"]},
            "reference": preset.reference, "commands": commands, "skipped": skipped, "rows": rows}


def as_json(result):
    """Indented, with a line for each point."""
    rows = ",\n".join("    " + json.dumps(row, ensure_ascii=False) for row in result["rows"])
    rest = json.dumps({**result, "rows": []}, indent=2, ensure_ascii=False)
    return rest.replace('"rows": []', f'"rows": [\n{rows}\n  ]') + "\n"


def as_table(result):
    lines = [f"{result['preset']}: {result['shows']}", f"  paper: {result['paper']}", f"  here: {result['differs']}"]
    lines += [f"  {name}: {value}" for part in ("environment", "parameters") for name, value in result[part].items()]
    lines += [f"  not run ({why}): {command}" for command, why in result["skipped"].items()]
    reference = result["reference"]
    for row in result["rows"]:
        ratio = "" if row["ratio"] is None else f"  {row['ratio']:g} of {reference}"
        lines.append(f"  {row['panel']:<24} {row['curve']:<36} {row['x']!s:>24} {row['y']:>12g}{ratio}")
    return "\n".join(lines)
