"""Draws results of bench/papers/run.py as SVG: a panel beside the other, a line (or bars) a curve.

The paper's own numbers are hollow marks. The same result gives the same bytes: no dates, no random
names, and text as paths of one font.
"""

import io
import json
import re
import textwrap

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

matplotlib.rcParams.update({
    "svg.hashsalt": "isotherm", "svg.fonttype": "none", "font.size": 8, "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.3, "legend.frameon": False,
    "legend.fontsize": 7})
MARKS = "osD^vPX*"


def is_number(x):
    return isinstance(x, (int, float))


def short(x):
    """A number for an axis."""
    for unit, letter in ((1e6, " M"), (1e3, " k")):
        if x >= 10_000 and x >= unit:
            return f"{x / unit:.3g}{letter}"
    return f"{x:g}"


class Panel:
    """One of a preset's panels: our curves and the paper's, over one x axis."""

    def __init__(self, preset, name, unit, rows):
        self.preset, self.name, self.unit = preset, name, unit
        self.ours = {}
        for row in rows:
            if row["panel"] == name:
                self.ours.setdefault(row["curve"], {})[row["x"]] = row["y"]
        self.theirs = preset.points.get(name, {})
        all_x = [x for curve in (*self.ours.values(), *self.theirs.values()) for x in curve]
        self.xs = list(dict.fromkeys(all_x))
        self.numeric = all(is_number(x) for x in self.xs)

    def place(self, x):
        return x if self.numeric else self.xs.index(x)

    def draw(self, axes):
        width = 0.8 / max(1, len(self.ours))
        for number, (curve, points) in enumerate(self.ours.items()):
            color = f"C{number % 10}"
            if self.numeric:
                xs = sorted(points)
                axes.plot(xs, [points[x] for x in xs], marker=MARKS[number % len(MARKS)], markersize=3,
                          linewidth=1, color=color, label=curve)
            else:
                axes.bar([self.place(x) + (number - (len(self.ours) - 1) / 2) * width for x in points],
                         list(points.values()), width * 0.92, color=color, label=curve)
        for number, (curve, points) in enumerate(self.theirs.items()):
            axes.plot([self.place(x) for x in points], list(points.values()), linestyle="none",
                      marker=MARKS[number % len(MARKS)], markersize=5, markerfacecolor="none",
                      markeredgecolor="black", label=curve if "paper" in curve else f"paper: {curve}")
        if self.numeric:
            if self.preset.log_x:
                axes.set_xscale("log")
                ours = sorted({x for points in self.ours.values() for x in points})
                # Those that are far enough from the one before.
                shown = ours[:1]
                for x in ours[1:]:
                    if x / shown[-1] > (ours[-1] / ours[0]) ** 0.12:
                        shown.append(x)
                axes.set_xticks(shown, [short(x) for x in shown])
        else:
            few = sum(len(str(x)) for x in self.xs) < 40
            axes.set_xticks(range(len(self.xs)), [textwrap.fill(str(x), 22) for x in self.xs], fontsize=8 if few else 6,
                            rotation=0 if few else 40, ha="center" if few else "right")
        if self.preset.log_y:
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
        axes.minorticks_off()  # of logarithmic axes, most of the file
        axes.set_title(self.name, fontsize=8)
        axes.set_xlabel(self.preset.x)
        axes.set_ylabel(self.unit)


def draw(preset, result, path):
    panels = [Panel(preset, name, unit, result["rows"]) for name, unit in preset.panels.items()]
    panels = [panel for panel in panels if panel.ours]
    columns = min(2, len(panels))
    lines = (len(panels) + columns - 1) // columns
    figure, axes = plt.subplots(lines, columns, figsize=(3.6 * columns + 0.6, 2.9 * lines + 0.5), squeeze=False,
                                layout="constrained")
    shown = set()
    for panel, axis in zip(panels, axes.flat):
        panel.draw(axis)
        handles, labels = axis.get_legend_handles_labels()
        if not shown.issuperset(labels):  # once where all panels have the same curves
            axis.legend(handles, labels)
        shown.update(labels)
    for axis in axes.flat[len(panels):]:
        axis.remove()
    machine = result["environment"]
    where = machine["processor"]
    if machine["gpu"] and "gpu" in preset.needs():
        where += " with " + machine["gpu"]
    scaled = any("{records" in run.command for run in preset.runs)
    records = f", {result['parameters']['records']:,} records" if scaled else ""
    title = (f"{preset.name}: {preset.shows}", f"{where}, {machine['cores']} cores{records}")
    figure.suptitle("\n".join(textwrap.fill(line, 58 * columns) for line in title), fontsize=8)
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    # Hundredths of a point are enough.
    path.write_text(re.sub(r"\d+\.\d{3,}", lambda number: f"{float(number.group()):.2f}", text.getvalue()),
                    encoding="utf-8")


def draw_all(presets, results, plots):
    plots.mkdir(parents=True, exist_ok=True)
    for path in sorted(results.glob("*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        preset = presets.get(result.get("preset"))
        if preset is not None:
            draw(preset, result, plots / f"{path.stem}.svg")
            print(plots / f"{path.stem}.svg")
