"""What a crash leaves of a server's files, at any of its calls, and calls that fail.

tests/recorded_files is loaded into the server and records, in order, each call that changes a file
below a folder. `Record.states` computes from that what lies in the folder

    killed   when the process ends behind a call, or in the middle of a write;
    luckless when the machine loses its power there: of each file what was synced, and of names those
             whose folder was;
    lucky    when all, nothing or a piece of each write since had got to the disk besides, and of the
             names that were changed in a folder since the first few.

So one run of a server has as many crashes as it has calls. `Faults` has calls of a server fail while it
runs.
"""

import mmap
import os
import struct

import servers

LIBRARY = os.path.join(os.path.dirname(servers.isotherm_binary()), "isotherm-recorded-files.so")
ENTRY = struct.Struct("<QQiIc7x")


def environment(folder, record=None, faults=None):
    """Of a server whose files lie in `folder`."""
    its = dict(os.environ, LD_PRELOAD=LIBRARY, ISOTHERM_RECORD_IN=folder)
    if record is not None:
        its["ISOTHERM_RECORD_TO"] = record
    if faults is not None:
        its["ISOTHERM_FAULTS"] = faults
    return its


class Faults:
    """Calls of files whose path has `within` fail: so many, behind so many that work."""

    SIZE = 128

    def __init__(self, path):
        self.path = path
        with open(path, "w+b") as file:
            file.truncate(self.SIZE)
            self.memory = mmap.mmap(file.fileno(), self.SIZE)

    def set(self, calls, faults, error, within="", reads=False):
        self.clear()
        self.memory[40:128] = within.encode().ljust(88, b"\0")
        struct.pack_into("<q", self.memory, 32, int(reads))
        struct.pack_into("<q", self.memory, 16, error)
        struct.pack_into("<q", self.memory, 0, calls)
        struct.pack_into("<q", self.memory, 8, faults)

    def clear(self):
        struct.pack_into("<q", self.memory, 8, 0)

    def met(self):
        return struct.unpack_from("<q", self.memory, 24)[0]

    def left(self):
        return struct.unpack_from("<q", self.memory, 8)[0]


class Content:
    """Bytes up to the last that was written, and zeros behind them up to a size."""

    def __init__(self, other=None):
        self.bytes = bytearray(other.bytes) if other else bytearray()
        self.size = other.size if other else 0

    def do(self, kind, offset, data):
        if kind == "size":
            self.size = offset
            del self.bytes[offset:]
            return
        self.bytes.extend(bytes(max(0, offset - len(self.bytes))))
        self.bytes[offset:offset + len(data)] = data
        self.size = max(self.size, len(self.bytes))

    def put(self, path):
        with open(path, "wb") as file:
            file.write(self.bytes)
            file.truncate(self.size)


class File:
    def __init__(self):
        self.content = Content()
        self.synced = Content()
        self.since = []  # writes since the last sync

    def write(self, *write):
        self.content.do(*write)
        self.since.append(write)

    def sync(self):
        for write in self.since:
            self.synced.do(*write)
        self.since.clear()

    def left(self, draw):
        """What a loss of power leaves; `draw`: None has no luck."""
        content = Content(self.synced)
        for kind, offset, data in self.since if draw else ():
            luck = draw.randrange(3)
            if luck == 0 or (luck == 2 and kind == "size"):
                continue
            content.do(kind, offset, data[:draw.randint(0, len(data))] if luck == 2 else data)
        return content


class Disk:
    """Folders and files, as a process sees them and as far as they would outlast a loss of power."""

    def __init__(self):
        self.files = {}   # by path
        self.synced = {}  # by path, whose names are on disk
        self.since = {}   # by folder: changes of names since it was synced
        self.open = {}
        self.folders = {}  # as a set in order

    def rename(self, changes):
        """Of one folder: names and what they become; None: nothing."""
        self.apply(self.files, changes)
        self.since.setdefault(os.path.dirname(changes[0][0]), []).append(changes)

    @staticmethod
    def apply(files, changes):
        for path, file in changes:
            if file is None:
                files.pop(path, None)
            else:
                files[path] = file

    def take(self, call, path, data, offset, number, file):
        if call in "CO":
            if path not in self.files and call == "C":
                self.rename([(path, File())])
            its = self.open[file] = self.files.get(path)
            if call == "C" and number == 1:
                its.write("size", 0, b"")
            return
        its = self.open.get(file)
        if call == "W":
            its.write("write", offset, data)
        elif call == "T":
            its.write("size", number, b"")
        elif call == "A":
            its.write("size", max(number, its.content.size), b"")
        elif call == "H":
            its.write("write", offset, bytes(max(0, len(its.content.bytes) - offset)))
        elif call == "S" and its is not None:
            its.sync()
        elif call == "S":
            for changes in self.since.pop(path, []):
                self.apply(self.synced, changes)
        elif call == "R":
            self.rename([(path, None), (data.decode(), self.files.get(path))])
        elif call == "L":
            self.rename([(data.decode(), self.files.get(path))])
        elif call == "U":
            self.rename([(path, None)])
        elif call == "M":
            self.folders[path] = True

    def left(self, draw):
        names = dict(self.synced)
        for changes in self.since.values() if draw else ():
            for change in changes[:draw.randint(0, len(changes))]:
                self.apply(names, change)
        return {path: file.left(draw) for path, file in names.items()}


def read_record(path):
    """Its calls: (where its entry ends, the call's arguments)."""
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at + ENTRY.size <= len(data):
        offset, number, file, path_bytes, call = ENTRY.unpack_from(data, at)
        at += ENTRY.size
        name = os.path.normpath(data[at:at + path_bytes].decode())
        at += path_bytes
        call = call.decode()
        behind = number if call in "WRL" else 0
        yield at + behind, (call, name, data[at:at + behind], offset, number, file)
        at += behind


def states(record, ends, draw):
    """What would be in the folder: for each (end, how) of `ends`, which are in order, how a crash leaves
    it that comes when the entry that ends there has been written."""
    disk = Disk()
    calls = read_record(record)
    end, call = next(calls)
    for wanted in ends:
        while call is not None and end <= wanted[0]:
            disk.take(*call)
            end, call = next(calls, (None, None))
        if wanted[1] == "killed":
            left = killed(disk, call, draw)
        else:
            left = disk.left(draw if wanted[1] == "lucky" else None)
        yield wanted, left, list(disk.folders)


def killed(disk, call, draw):
    """In the middle of the next call, if that is a write."""
    left = {path: file.content for path, file in disk.files.items()}
    if call is None or call[0] != "W":
        return left
    _, _, data, offset, _, number = call
    half = Content(disk.open[number].content)
    half.do("write", offset, data[:draw.randint(0, len(data))])
    return {path: half if file is disk.open[number] else file.content
            for path, file in disk.files.items()}


def put(left, folders, was, now):
    """Writes what was below the folder `was` to the folder `now`, which is empty."""
    for folder in folders:
        os.makedirs(folder.replace(was, now, 1), exist_ok=True)
    for path, content in left.items():
        content.put(path.replace(was, now, 1))
