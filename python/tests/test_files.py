"""Saved tables: what comes back, and what is refused."""

import copy
import json
import os
import pickle
import stat
import struct
import subprocess
import zlib

import numpy as np
import pytest
from conftest import KINDS, draw_values

from isotherm import Store, Table, TableFullError


def contents(table):
    return {(key if isinstance(key, bytes) else int(key)):
            (value if isinstance(value, bytes) else value.tobytes())
            for keys, values in table.items() for key, value in zip(keys, values)}


@pytest.mark.parametrize("key", ["u64", "i64", "bytes"])
@pytest.mark.parametrize("value", KINDS + ["bytes", "record", "date"])
def test_all_comes_back(random, tmp_path, key, value):
    count = 3000
    numbers = random.integers(-2**62, 2**62, count)
    keys = (numbers.astype("u8" if key == "u64" else "i8") if key != "bytes"
            else [b"%d" % number for number in numbers] [:-1] + [b""])
    if value == "bytes":
        values = [bytes(n % 50) for n in range(count)]
    elif value == "record":
        value = np.dtype([("id", "u4"), ("at", "f4", (2,))])
        values = np.zeros(count, value)
        values["id"] = np.arange(count)
    elif value == "date":
        value = np.dtype("M8[s]")
        values = np.arange(count).astype(value)
    else:
        values = draw_values(random, value, (count,))
    table = Table(key=key, value=value)
    table.put(keys, values)
    path = tmp_path / "table"
    table.save(path)
    for other in (Table.load(path), Table.load(str(path), memory="256mb"),
                  pickle.loads(pickle.dumps(table))):
        assert contents(other) == contents(table) and len(other) == count
        assert other._kind() == table._kind()
    assert os.listdir(tmp_path) == ["table"]


def test_a_saved_table_replaces_the_one_before(tmp_path):
    path = tmp_path / "table"
    old_mask = os.umask(0o027)
    try:
        for count in (5, 0):
            table = Table()
            table.put(np.arange(count, dtype="u8"), 1)
            table.save(path)
            assert len(Table.load(path)) == count
    finally:
        os.umask(old_mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    with pytest.raises(FileNotFoundError) as missing:
        table.save(tmp_path / "nowhere" / "table")
    assert missing.value.filename == str(tmp_path / "nowhere" / "table")
    with pytest.raises(FileNotFoundError):
        Table.load(tmp_path / "nothing")


def test_a_pipe_or_a_device_is_written_to_and_stays(tmp_path):
    table = Table()
    table.put(5, 6)
    path, copy = tmp_path / "pipe", tmp_path / "copy"
    os.mkfifo(path)
    with subprocess.Popen(["cp", path, copy]) as reader:
        table.save(path)
        assert reader.wait() == 0
    assert stat.S_ISFIFO(path.stat().st_mode) and Table.load(copy)[5] == 6
    with pytest.raises(OSError, match="No space left"):
        table.save("/dev/full")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
    with pytest.raises(IsADirectoryError):
        table.save(tmp_path)


def test_files_that_are_cut_or_changed_are_refused(tmp_path):
    table = Table(value="f32[2]")
    table.put(np.arange(10, dtype="u8"), 1)
    path = tmp_path / "table"
    table.save(path)
    whole = path.read_bytes()
    for end in range(0, len(whole), 3):
        path.write_bytes(whole[:end])
        with pytest.raises(ValueError, match="not a file of an Isotherm table" if end < 8 else "cut"):
            Table.load(path)
    for at in range(0, len(whole), 3):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
        with pytest.raises(ValueError, match=f"{path}: "):
            Table.load(path)
    # A size of 2^62 bytes is refused before it is asked of the machine.
    header = 16 + int.from_bytes(whole[8:12], "little")
    path.write_bytes(whole[:header + 15] + b"\x40" + whole[header + 16:])
    with pytest.raises(ValueError, match="cut"):
        Table.load(path)
    path.write_bytes(whole + b"x")
    with pytest.raises(ValueError, match="goes on behind its end"):
        Table.load(path)
    path.write_bytes(b"PK\x03\x04 something else")
    with pytest.raises(ValueError, match="not a file of an Isotherm table"):
        Table.load(path)


def test_any_name_of_a_file(tmp_path):
    for name in ("n" * 250, os.fsencode(tmp_path / "bytes"), b"/".join([os.fsencode(tmp_path), b"\xff"])):
        path = tmp_path / name if isinstance(name, str) else name
        table = Table()
        table.put(5, 6)
        table.save(path)
        assert Table.load(path)[5] == 6
    assert len(os.listdir(tmp_path)) == 3


def test_the_cap_holds_while_a_table_is_loaded(tmp_path):
    table = Table()
    table.put(np.arange(300_000, dtype="u8"), 1)
    table.save(tmp_path / "table")
    with pytest.raises(TableFullError, match="table: memory=4mb has no room for the table; give more"):
        Table.load(tmp_path / "table", memory="4mb")


NO_ROWS = (0, b"", b"")


@pytest.mark.parametrize("header, block", [
    ([1], NO_ROWS),
    ({"key": "u64"}, NO_ROWS),
    ({"version": 1, "key": "u64", "value": ["|O", []]}, NO_ROWS),
    ({"version": 1, "key": "u64", "value": []}, NO_ROWS),
    ({"version": 1, "key": "u64", "value": 5}, NO_ROWS),
    ({"version": 1, "key": ["u64"], "value": None}, NO_ROWS),
    ({"version": 1, "key": "u64", "value": ["<u8", [1.5]]}, NO_ROWS),
    ({"version": 1, "key": "u64", "value": [[["a"]], []]}, NO_ROWS),
    (b"[" * 100_000, NO_ROWS),
    (b"\xff", NO_ROWS),
    ({"version": 1, "key": "u64", "value": ["<u8", []]}, (5, bytes(8), bytes(8))),
    ({"version": 1, "key": "bytes", "value": None}, (1, b"\x09\0\0\0ab", bytes(4))),
    ({"version": 1, "key": "bytes", "value": None}, (1 << 63, b"", b"")),
])
def test_foreign_files_with_right_checksums_are_refused(tmp_path, header, block):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    data = b"ISOTABLE" + struct.pack("<II", len(text), zlib.crc32(text)) + text
    rows, keys, values = block
    for head, body in ((struct.pack("<QQQ", rows, len(keys), len(values)), keys + values),
                       (struct.pack("<QQQ", 0, rows, 0), b"")):
        data += head + struct.pack("<I", zlib.crc32(head + body)) + body
    (tmp_path / "table").write_bytes(data)
    with pytest.raises(ValueError):
        Table.load(tmp_path / "table")


def test_a_file_keeps_its_mode_and_a_link_its_target(tmp_path):
    table = Table()
    path, link = tmp_path / "table", tmp_path / "link"
    path.write_bytes(b"")
    path.chmod(0o600)
    link.symlink_to(path)
    table.put([1], [10])
    table.save(link)
    assert link.is_symlink() and path.stat().st_mode & 0o777 == 0o600
    assert Table.load(path)[1] == 10
    mask = os.umask(0o027)
    try:
        table.save(tmp_path / "new")
    finally:
        os.umask(mask)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640


def test_names_of_fields_may_have_titles(tmp_path):
    table = Table(value=np.dtype([(("Title", "a"), "i4"), ("b", "f4", (2,))]))
    table.put(1, (5, [1, 2]))
    table.save(tmp_path / "table")
    assert repr(Table.load(tmp_path / "table")[1]) == repr(table[1])
    crossed = Table(value=np.dtype({"names": ["a", "b"], "formats": ["u1", "u4"], "offsets": [4, 0],
                                    "itemsize": 16}))
    with pytest.raises(ValueError, match="cannot be saved"):
        crossed.save(tmp_path / "crossed")


@pytest.mark.parametrize("value", ["g", "G", np.dtype([("a", "u1"), ("b", "f8")], align=True)])
def test_bytes_without_a_meaning_are_not_compared(value):
    table = Table(value=value)
    values = np.zeros(100, value)
    values.view("u1")[:] = 7
    if values.dtype.names is None:
        values[:] = np.arange(100)
    keys = np.arange(100, dtype="u8")
    table.put(keys, values)
    for key in range(100):
        assert table.compare_and_swap(key, table[key], table[key])
    assert table.compare_and_swap(keys, values, values).all()


@pytest.mark.parametrize("send", [pickle.dumps, copy.copy, copy.deepcopy])
def test_what_can_be_sent_in_the_place_of_a_store_is_said(send):
    store = Store()
    for thing in (store, store.pipeline()):
        with pytest.raises(TypeError, match=r"cannot be pickled or copied.*get_items\(\).*a Table"):
            send(thing)
