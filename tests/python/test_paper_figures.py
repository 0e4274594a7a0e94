"""The presets of bench/paper_figures.py: all are there and whole, their commands are valid, what programs print is
read, and a stored result can be drawn. Nothing here looks at a time."""

import dataclasses
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))

import paper_figures  # noqa: E402
from papers.preset import Figure, Formula, Line  # noqa: E402
from papers.run import Failed, Machine, as_json, command_of, fill, line_points, points, run_preset  # noqa: E402

PRESETS = paper_figures.PRESETS
RUNNABLE = [preset for preset in PRESETS.values() if not preset.left_out]
PROGRAMS = pathlib.Path(os.environ.get("ISOTHERM_SERVER", str(ROOT / "build/release/isotherm-server"))).parent
STORED = ROOT / "docs/figures"

FIGURES = (
    [f"kvcg-{name}" for name in ("table1", "3a", "3b", "3c", "4", "5", "6", "7")]
    + [f"ekrm-{name}" for name in (3, 5, 7, 8)]
    + [f"hrocks-table{name}" for name in range(1, 8)] + [f"hrocks-{name}" for name in range(8, 15)]
    + [f"megakv-{name}" for name in (2, 3, 6, 7, 8, 10, 11, 13, 14, 15, 16)]
    + [f"memcachedgpu-{name}" for name in range(2, 8)] + [f"memcachedgpu-table{name}" for name in range(3, 7)])


@pytest.fixture(scope="module")
def machine():
    return Machine([PROGRAMS, PROGRAMS.parent / "cuda", ROOT / "bench"], price=1000.0)


@pytest.fixture(scope="module")
def built(machine):
    if machine.program("isotherm-bench") is None:
        pytest.skip("isotherm-bench is not built")
    return machine


def names(machine, preset, x):
    return {"x": x, "records": 1000, "accesses": 2000, "seconds": 0.01, "scale": 1e-5, "threads": 1,
            "price": machine.price, "server": machine.program("isotherm-server"), "programs": PROGRAMS}


def test_every_figure_of_the_papers_has_a_preset():
    assert list(PRESETS) == FIGURES


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_a_preset_is_whole(preset):
    assert preset.shows
    if preset.left_out:
        assert not preset.runs
        return
    assert preset.runs and preset.panels and preset.x
    read = {read.panel for run in preset.runs for read in run.reads}
    assert read == set(preset.panels), "each panel is read, and no other"
    assert set(preset.points) <= set(preset.panels)
    for run in preset.runs:
        assert set(run.needs.split()) <= {"gpu", "redis-server", "memcached", "price"}
        for one in run.reads:
            assert isinstance(one, Figure if isinstance(run.reads[0], Figure) else (Line, Formula))
            if not isinstance(one, Figure):
                re.compile(one.pattern)
    curves = {fill(read.curve, {"x": x}) if "{x" in read.curve or isinstance(read, Figure) else read.curve
              for run in preset.runs for x in run.xs for read in run.reads}
    if preset.reference and not any("{" in curve for curve in curves):
        assert preset.reference in curves


def load_commands(machine):
    """Each way of isotherm-bench that presets use, with one x of each run, as it loads records and stops."""
    found = {}
    for preset in RUNNABLE:
        for run in preset.runs:
            without_gpu = dataclasses.replace(run, needs=run.needs.replace("gpu", ""))
            if not run.command.startswith("isotherm-bench") or machine.missing(without_gpu):
                continue
            words = command_of(machine, run, names(machine, preset, run.xs[0]))
            # Here the flag is checked, not the GPU.
            words = ["cpu" if word == "cuda" else word for word in words]
            flags = frozenset(word for word in words if word.startswith("--"))
            found.setdefault(flags, words + ["--load-only"])
    return list(found.values())


def test_commands_of_isotherm_bench_are_valid(built):
    commands = load_commands(built)
    assert len(commands) >= 10
    for words in commands:
        done = subprocess.run(words, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, f"{shlex.join(words)}\n{done.stderr}"
        assert json.loads(done.stdout)["systems"]


def is_small(run):
    """A program that runs here and is soon done, unlike isotherm-bench and the rates of cache_bench."""
    return not run.needs.replace("price", "") and not run.command.startswith(("isotherm-bench", "cache_bench speed"))


@pytest.mark.parametrize("preset", [preset for preset in RUNNABLE if any(map(is_small, preset.runs))],
                         ids=lambda preset: preset.name)
def test_programs_print_what_presets_read(machine, preset):
    # Those that differ in the values of flags only are one.
    runs = {re.sub(r" [\d.]+", "", run.command): run for run in preset.runs if is_small(run)}
    for run in runs.values():
        if machine.missing(run):  # RocksDB is not everywhere
            pytest.skip(machine.missing(run))
        words = command_of(machine, run, names(machine, preset, run.xs[0]))
        if words[0].endswith("hot_bench"):
            words[1:] = [re.sub(r"=\d{5,}", "=1000", word) for word in words[1:]]
        done = subprocess.run(words, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, f"{shlex.join(words)}\n{done.stderr}"
        found = list(points(run, done.stdout, names(machine, preset, run.xs[0])))
        assert {panel for panel, _, _, _ in found} == {read.panel for read in run.reads}
        assert all(value >= 0 for _, _, _, value in found)


def test_a_preset_runs_from_end_to_end(built):
    preset = PRESETS["kvcg-4"]
    two = dataclasses.replace(preset, runs=(dataclasses.replace(preset.runs[0], xs=(0.5, 0.9)),))
    result = run_preset(two, built, scale=1e-5, seconds=0.2, rounds=1, threads=1)
    rows = {(row["curve"], row["x"]): row for row in json.loads(as_json(result))["rows"]}
    assert set(rows) == {(f"theta {theta}", x) for theta in (0.5, 0.9) for x in (50, 99, 99.9)}
    assert rows["theta 0.5", 50]["ratio"] is None and rows["theta 0.9", 50]["ratio"] > 0
    assert all("/" not in command.split()[0] for command in result["commands"])


def test_the_layout_of_mica_has_a_curve_of_its_own(built):
    preset = PRESETS["kvcg-5"]
    mica = [dataclasses.replace(run, xs=run.xs[:1]) for run in preset.runs if "--mica" in run.command]
    result = run_preset(dataclasses.replace(preset, runs=tuple(mica)), built, scale=1e-5, seconds=0.1, rounds=1, threads=1)
    assert {row["curve"] for row in json.loads(as_json(result))["rows"]} == {"MICA's layout"}


def test_what_is_left_out_or_cannot_run_says_why(machine):
    with pytest.raises(Failed, match="by partition"):
        run_preset(PRESETS["megakv-7"], machine)
    if not machine.gpu:
        with pytest.raises(Failed, match="no GPU"):
            run_preset(PRESETS["megakv-6"], machine)
    with pytest.raises(Failed, match="--price"):
        run_preset(PRESETS["hrocks-table7"], Machine([PROGRAMS]))


# As programs print them that run on a GPU, or for long.
PRINTED = {
    "cache_bench speed": """line   load 0.50             50.1    57.2    37.1         25.2     4.9   35.6 1.000
cuckoo load 0.50             10.3     8.9    14.1         13.6     5.0   48.7 1.000
""",
    "device_cache_bench": """G/s          load  new keys  hits  misses  Zipf  stored  present  bytes  kept
line         0.50      3.80 25.70   25.10 38.00    0.00     6.30   28.6 1.000
cuckoo       0.50      1.30 13.90   15.70 15.10   13.30     4.80   48.5 1.000
cuckoo, units of 2 lanes, load 0.90: hits 13.20, misses 17.00 G/s
""",
    "device_table_bench": """GET hits                         2^20    21.00 G/s      49.9 us  0.75 of the limit
PUT of present keys, uniform     2^20     4.90 G/s     214.0 us  0.17 of the limit
""",
    "device_queue_bench": """  GET     1 rows     11.2 us
  PUT   512 rows     50.0 us
fitted: reads 12.0 us + 2.000 ns a row, writes 40.0 us + 6.000 ns a row
""",
    "device_energy_bench": """nothing                                               70
GET hits, 2^26 a call                     26.10      711           36.7
""",
    "packet_bench": "GET frames: 388.0 M/s (slowest 380.0, fastest 390.0), 4 streams of 262144; the copies of the "
                    """same bytes: 539.0 M/s; 0.72 of them
energy, values of 2 bytes, 1/2 of the rate: 190.1 M/s, 149 W, 1.27 M frames/J
energy, values of 2 bytes, 1/1 of the rate: 406.0 M/s, 192 W, 2.11 M frames/J
batches of 512, read where they lie: p50 47.6 us, p95 56.8 us; from the slots on 40.0 and 45.0; an empty kernel 9.5 and 11.2
""",
    "packet_beside_bench": """background: 256 blocks of 1024 threads, 268435456 elements, 30 passes
blocks first launches      p50      p95  longest       p50       p95   longest     p50     p95    alone   beside  of it   alone  beside  of it
   256  none        1     50.0     55.0     90.0     100.0     110.0     150.0    2.00    2.00    32.00    32.50   1.02   330.0   165.0   0.50
  2599  GETs       32     50.0     55.0     90.0     100.0     110.0     150.0    2.00    2.00    32.00    48.00   1.50   330.0   165.0   0.50
""",
}


@pytest.mark.parametrize("program", PRINTED)
def test_lines_of_other_programs_are_read(machine, program):
    runs = [(preset, run) for preset in RUNNABLE for run in preset.runs if run.command.startswith(program)]
    assert runs
    for preset, run in runs:
        for read in run.reads:
            assert list(line_points(read, PRINTED[program], names(machine, preset, run.xs[0]))), (preset.name, read)


def test_columns_of_gets_beside_a_background_kernel():
    printed = PRINTED["packet_beside_bench"]
    found = {(panel, curve, x): y for name in ("memcachedgpu-6", "memcachedgpu-7") for run in PRESETS[name].runs
             for panel, curve, x, y in points(run, printed, {})}
    last = "2599 blocks, first: GETs"
    assert {(panel, y, found.get((panel, last + ", alone", 32))) for (panel, curve, x), y in found.items()
            if curve == last} == {("p50 of batches", 100, 50), ("p95 of batches", 110, 55), ("full rate", 165, 330),
                                  ("background", 48, 32), ("longest batch", 150, None)}
    assert found["background", "256 blocks, first: none", 1] == 32.5


def test_equations_of_mega_kv():
    fitted = PRINTED["device_queue_bench"]
    cycles = {(curve, x): y for read in PRESETS["megakv-11"].runs[0].reads
              for _, curve, x, y in line_points(read, fitted, {})}
    # (2 * 12 + 40) / (2 - 2 * .002 * .95 * 20 - 2 * .006 * .05 * 20), and (12 + 40) / (1 - …)
    assert cycles["writes every second cycle", 20] == pytest.approx(64 / (2 - 0.076 - 0.012))
    assert cycles["all at once", 20] == pytest.approx(52 / (1 - 0.038 - 0.006))
    # What its text says of its own constants: no cycle under 105.8 and 174.3 µs.
    theirs = PRESETS["megakv-13"].points["throughput"]
    assert min(theirs["paper: delayed"]) == 110 and min(theirs["paper: at once"]) == 200
    # (320 - 74.8 - 136.9) / (160 * (.0057 + .00056))
    assert theirs["paper: delayed"][160] == pytest.approx(108.1, abs=0.1)


def test_stored_results_belong_to_presets():
    stored = sorted(STORED.glob("*.json"))
    assert len(stored) >= 20
    for path in stored:
        result = json.loads(path.read_text(encoding="utf-8"))
        preset = PRESETS[result["preset"]]
        assert {row["panel"] for row in result["rows"]} <= set(preset.panels)
        assert path.with_suffix(".svg").stat().st_size < 60_000
        assert path.stat().st_size < 60_000


def test_a_stored_result_is_drawn(tmp_path):
    python = ROOT / "build/figures-venv/bin/python"
    if not python.exists():
        pytest.skip("matplotlib is not installed; docs/benchmarking.md says how")
    (tmp_path / "kvcg-4.json").write_bytes((STORED / "kvcg-4.json").read_bytes())
    drawn = []
    for name in ("one", "two"):
        subprocess.run([python, ROOT / "bench/paper_figures.py", "--draw", "--json", tmp_path, "--plots", tmp_path / name],
                       check=True, capture_output=True, timeout=300)
        drawn.append((tmp_path / name / "kvcg-4.svg").read_bytes())
    assert drawn[0] == drawn[1]
    assert b"theta 0.99" in drawn[0] and len(drawn[0]) < 60_000
