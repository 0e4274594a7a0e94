"""The file of a saved table.

    8 bytes   b"ISOTABLE"
    u32       length of the header, and its CRC-32
    header    JSON: version, key, value, and names of dtypes; little-endian
    blocks    u64 rows, u64 bytes of keys, u64 bytes of values, u32 CRC-32 of these and of the bytes
              that follow: keys, values; of byte strings first a u32 with the length of each
    the end   a block of 0 rows, whose bytes of keys are the sum of all rows

Whoever reads it checks all of it: a file that was cut has no end.
"""

import io
import json
import operator
import os
import secrets
import stat
import struct
import zlib

import numpy as np

from ._errors import TableFullError
from ._types import parse_key, parse_value

_MAGIC = b"ISOTABLE"
_VERSION = 1
_BLOCK = struct.Struct("<QQQ")


def save(table, path):
    path = os.fsdecode(path)
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe or a device, to be kept
        with open(path, "wb") as file:
            write(table, file)
        return
    path = os.path.realpath(path)  # not a link to it
    # A short name, which the folder has room for whatever the name of the file is.
    name = os.path.join(os.path.dirname(path), f".isotherm.{secrets.token_hex(8)}")
    try:
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except OSError as error:
        error.filename = path  # the caller knows no other name
        raise
    try:
        with os.fdopen(handle, "wb") as file:
            if os.path.exists(path):
                os.fchmod(handle, stat.S_IMODE(os.stat(path).st_mode))
            write(table, file)
            file.flush()
            os.fsync(handle)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def to_bytes(table):
    file = io.BytesIO()
    write(table, file)
    return file.getvalue()


def from_bytes(data, make, options):
    return read(io.BytesIO(data), "a pickled table", make, **options)


def write(table, file):
    header = json.dumps({"version": _VERSION} | table._file_kind()).encode()
    file.write(_MAGIC + struct.pack("<II", len(header), zlib.crc32(header)) + header)
    rows = 0
    for keys, values in table.items():
        rows += len(keys)
        _write_block(file, len(keys), _column_bytes(keys), _column_bytes(values))
    _write_end(file, rows)


def _column_bytes(column):
    """The parts of a column: an array's bytes, or lengths and bytes of strings."""
    if isinstance(column, np.ndarray):
        return [column.reshape(-1).view(np.uint8).data]
    lengths = np.fromiter(map(len, column), "<u4", len(column))
    return [lengths.data.cast("B"), b"".join(column)]


def _write_block(file, rows, keys, values):
    sizes = [sum(len(part) for part in parts) for parts in (keys, values)]
    head = _BLOCK.pack(rows, *sizes)
    check = zlib.crc32(head)
    for part in keys + values:
        check = zlib.crc32(part, check)
    file.write(head + struct.pack("<I", check))
    for part in keys + values:
        file.write(part)


def _write_end(file, rows):
    head = _BLOCK.pack(0, rows, 0)
    file.write(head + struct.pack("<I", zlib.crc32(head)))


def read(file, name, make, **options):
    """``make`` is ``Table``, which takes the options."""
    end = file.seek(0, os.SEEK_END)
    file.seek(0)

    def take(size, what):
        # Sizes may be damaged, too: nothing is allocated that the file cannot have.
        data = file.read(size) if size <= end - file.tell() else b""
        if len(data) != size:
            raise ValueError(f"{name}: the file is cut: {what} is not complete")
        return data

    if file.read(len(_MAGIC)) != _MAGIC:
        raise ValueError(f"{name}: not a file of an Isotherm table")
    length, check = struct.unpack("<II", take(8, "its header"))
    if length > 1 << 20:
        raise ValueError(f"{name}: the header is damaged")
    header = take(length, "its header")
    if zlib.crc32(header) != check:
        raise ValueError(f"{name}: the header is damaged (its checksum differs)")
    table = make(*_kind_in(header, name), **options)
    seen = 0
    while True:
        head = take(_BLOCK.size, f"what follows row {seen}")
        rows, key_bytes, value_bytes = _BLOCK.unpack(head)
        check = struct.unpack("<I", take(4, f"what follows row {seen}"))[0]
        if rows == 0:
            if zlib.crc32(head) != check or key_bytes != seen:
                raise ValueError(f"{name}: the end is damaged, or rows are missing before it")
            if file.read(1):
                raise ValueError(f"{name}: the file goes on behind its end")
            return table
        body = take(key_bytes + value_bytes, f"the block behind row {seen}")
        if zlib.crc32(body, zlib.crc32(head)) != check:
            raise ValueError(f"{name}: the block behind row {seen} is damaged "
                             "(its checksum differs)")
        keys, values = body[:key_bytes], body[key_bytes:]
        try:
            table._put_loaded(rows, keys, values)
        except TableFullError:
            raise TableFullError(f"{name}: memory={options['memory']} has no room for the table; give "
                                 "more, or evict=") from None
        seen += rows


def _kind_in(header, name):
    """(key, value) for ``Table``. Whatever the header has, what it raises is a ``ValueError``."""
    try:
        kind = json.loads(header)
        version = kind["version"]
        if version == _VERSION:
            key, value = str(kind["key"]), "bytes"
            if kind["value"] is not None:
                value = _dtype(kind["value"][0]), tuple(map(operator.index, kind["value"][1]))
            parse_key(key), parse_value(value)
            return key, value
    except Exception as error:
        raise ValueError(f"{name}: the header does not say what the table is of ({error!r:.200})") from None
    raise ValueError(f"{name}: version {version} of the file is not known; "
                     f"this package reads version {_VERSION}")


def dtype_name(dtype):
    try:
        return np.lib.format.dtype_to_descr(dtype)
    except ValueError:
        raise ValueError(f"a table of {dtype} cannot be saved: fields must lie in their order, and not "
                         "overlap") from None


def _dtype(description):
    def as_tuples(part):
        # JSON has made lists of tuples: a list of lists is that of fields. A field's name may be a
        # pair, with its title.
        if not isinstance(part, list):
            return part
        return [(tuple(name) if isinstance(name, list) else name, as_tuples(kind), *map(tuple, shape))
                for name, kind, *shape in part]

    return np.lib.format.descr_to_dtype(as_tuples(description))


def split_strings(rows, data):
    """The strings of a column that `_column_bytes` has joined."""
    if rows > len(data) // 4:
        raise ValueError("a block has fewer bytes than rows")
    lengths = np.frombuffer(data, "<u4", rows)
    if int(lengths.sum(dtype=np.uint64)) != len(data) - 4 * rows:
        raise ValueError("the lengths of strings are not those of their bytes")
    ends = (np.cumsum(lengths, dtype=np.int64) + 4 * rows).tolist()
    return [data[end - length:end] for end, length in zip(ends, lengths.tolist())]
