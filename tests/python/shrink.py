"""Shrinks the requests that led to a difference.

What was sent since both servers were empty is replayed, in the same pipelines, with parts left out;
what still ends in a difference is kept, until nothing can go or the time is over.
"""

import re
import time

SHRINK_SECONDS = 40


def shrink(steps, differs):
    """The fewest steps found that still end in a difference; None when a replay shows none.

    `differs(steps)` replays on emptied servers; the index of the first step whose replies differ, or
    None.
    """
    deadline = time.monotonic() + SHRINK_SECONDS
    last = differs(steps)
    if last is None:
        return None
    steps = steps[:last + 1]
    size = len(steps) // 2
    while size >= 1 and time.monotonic() < deadline:
        start = 0
        while start < len(steps) - 1 and time.monotonic() < deadline:
            shorter = steps[:start] + steps[min(start + size, len(steps) - 1):]
            last = differs(shorter)
            if last is None:
                start += size
            else:
                steps = shorter[:last + 1]
        size //= 2
    return steps


def abbreviate(text, limit=300):
    """Repeated runs and long middles cut, for people."""
    text = re.sub(r"(.{1,4}?)\1{9,}", lambda run: f"{run[1]}…×{len(run[0]) // len(run[1])}", text)
    return text if len(text) <= limit else f"{text[:limit // 2]} … {text[-limit // 2:]}"


def report(name, stream, difference, tail=60):
    """What to print of a difference: itself, and the shrunken requests that lead to it."""
    lines = [f"{name}: DIFFERENCE after {stream.commands} commands: {difference}"]
    steps = stream.steps_of(difference.history)
    found = shrink(steps, stream.replay)
    if found is None:
        lines.append("a replay shows no difference; the last requests were:")
        found = steps[-tail:]
    else:
        lines.append("shrunken to:")
    lines.extend("  " + abbreviate(stream.describe(step)) for step in found)
    return "\n".join(lines)
