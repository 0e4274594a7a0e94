"""What a run of random requests has drawn: for each entry of a table the classes of replies seen.

A differential test that never drew a class proves nothing about it, so a run fails when one is
missing.
"""

import collections


class Coverage:
    def __init__(self, table):
        self.wanted = {entry.name: entry.classes for entry in table}
        self.seen = {name: collections.Counter() for name in self.wanted}
        self.other = collections.Counter({"unknown command": 0})

    def count(self, name, kind):
        if name in self.seen:
            self.seen[name][kind] += 1

    def complete(self):
        return not self.missing()

    def missing(self):
        gaps = [f"{name.decode()}: {kind}" for name, kinds in self.wanted.items()
                for kind in sorted(kinds) if not self.seen[name][kind]]
        return gaps + [kind for kind, times in self.other.items() if not times]

    def summary(self):
        total = sum(sum(kinds.values()) for kinds in self.seen.values())
        classes = sum(len(kinds) for kinds in self.wanted.values())
        return f"{len(self.wanted)} commands, {classes} classes, {total} replies looked at"
