#!/usr/bin/env python3
"""The figures and tables of the five papers, run again: presets, results as JSON, and plots.

Usage: paper_figures.py --preset list                        what there is
       paper_figures.py --preset NAME[,NAME…] [--scale X] [--json FOLDER]
       paper_figures.py --preset cpu|gpu|all …               those that need no GPU; those that need one
       paper_figures.py --draw [--json FOLDER] [--plots FOLDER]   needs matplotlib

--scale multiplies the paper's numbers of records and accesses; each preset has one of its own for a
small machine. Results go to FOLDER/NAME.json. Programs are looked for in --programs (build/release,
build/cuda, bench). Every program checks every reply, and a wrong one ends the run.
"""

import argparse
import pathlib
import sys
import time

BENCH = pathlib.Path(__file__).resolve().parent
ROOT = BENCH.parent
sys.path.insert(0, str(BENCH))

from papers import ekrm, hrocks, kvcg, megakv, memcachedgpu  # noqa: E402
from papers.run import Failed, Machine, as_json, as_table, run_preset  # noqa: E402

PRESETS = {preset.name: preset for paper in (kvcg, ekrm, hrocks, megakv, memcachedgpu) for preset in paper.PRESETS}


def list_presets():
    for preset in PRESETS.values():
        if preset.left_out:
            print(f"{preset.name:<22} {preset.shows}\n{'':<22} LEFT OUT: {preset.left_out}")
            continue
        own = [run for run in preset.runs if "gpu" not in run.needs.split()]
        needs = ["a GPU" if not own else "a GPU for some curves" if word == "gpu" else word for word in preset.needs()]
        print(f"{preset.name:<22} {preset.shows}\n{'':<22} scale {preset.scale:g} of {preset.records:,} records"
              + (f" and {preset.accesses:,} accesses" if preset.accesses else "")
              + (f"; needs {', '.join(needs)}" if needs else "")
              + (f"\n{'':<22} {preset.differs}" if preset.differs else ""))


def chosen(text):
    runnable = [preset for preset in PRESETS.values() if not preset.left_out]
    if text == "all":
        return runnable
    if text == "cpu":
        return [preset for preset in runnable if any("gpu" not in run.needs for run in preset.runs)]
    if text == "gpu":
        return [preset for preset in runnable if "gpu" in preset.needs()]
    for name in text.split(","):
        if name not in PRESETS:
            sys.exit(f"paper_figures.py: '{name}' is unknown; --preset list shows all")
    return [PRESETS[name] for name in text.split(",")]


def run(arguments):
    folders = arguments.programs or [ROOT / "build/release", ROOT / "build/cuda"]
    machine = Machine([*folders, BENCH], arguments.price)
    failed = 0
    for preset in chosen(arguments.preset):
        begin = time.monotonic()
        try:
            result = run_preset(preset, machine, arguments.scale, arguments.seconds, arguments.rounds, arguments.threads)
        except Failed as why:
            print(f"{preset.name}: FAILED\n{why}", file=sys.stderr)
            failed += 1
            continue
        print(as_table(result))
        print(f"  took {time.monotonic() - begin:.1f} s\n", flush=True)
        if arguments.json:
            arguments.json.mkdir(parents=True, exist_ok=True)
            (arguments.json / f"{preset.name}.json").write_text(as_json(result), encoding="utf-8")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset")
    parser.add_argument("--scale", type=float)
    parser.add_argument("--seconds", type=float, default=0.3, help="of each run that has a length")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, help="that load in process (all processors, at most 16)")
    parser.add_argument("--price", type=float, help="of the machine, for requests a second for a unit of money")
    parser.add_argument("--programs", type=pathlib.Path, action="append")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--draw", action="store_true")
    parser.add_argument("--plots", type=pathlib.Path, default=ROOT / "docs/figures")
    arguments = parser.parse_args()
    if arguments.preset == "list":
        list_presets()
    elif arguments.preset:
        return run(arguments)
    elif arguments.draw:
        from papers.draw import draw_all  # matplotlib is nobody else's need
        draw_all(PRESETS, arguments.json or ROOT / "docs/figures", arguments.plots)
    else:
        parser.print_usage()
        return 64
    return 0


if __name__ == "__main__":
    sys.exit(main())
