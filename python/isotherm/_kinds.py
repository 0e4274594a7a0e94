"""Which class a ``Table`` is: by the kinds of its keys and values, and where it lies."""

import operator
import os

import numpy as np

from . import _core, _devices
from ._bytes_table import BytesTable
from ._gpu_bytes_table import GpuBytesTable
from ._gpu_table import GpuTable
from ._types import parse_key, parse_memory, parse_store_memory, parse_value
from .table import Table, _FixedTable


_LEAST_MEMORY = 1 << 20  # of a table on the CPU; its rows lie in pages beside
_PAGE = 2 << 20
_LEAST_GPU_STRINGS = 256 << 20  # of a table of byte strings on a GPU


def make(key, value, device, expected, memory, host_memory, evict):
    expected = operator.index(expected)
    if expected < 0:
        raise ValueError(f"expected must not be negative, but is {expected}")
    key_dtype, kind = parse_key(key), parse_value(value)
    memory, host_memory = parse_memory(memory), parse_memory(host_memory, "host_memory")
    if key_dtype is None or kind is None:
        gpus = _devices.parse(device, on_gpu=False)
        _check_host_memory(host_memory, gpus)
        if gpus:
            try:
                core = _core._GpuItems(gpus, memory, host_memory, _evicts(evict))
            except MemoryError as error:
                raise _no_room(error, memory, gpus, f"; byte strings need {_LEAST_GPU_STRINGS} bytes or more") from None
            return GpuBytesTable._over(core, key_dtype, kind, gpus)
        _check_expected(expected, 0, memory, evict)
        core = _core.Store(parse_store_memory(memory), str(evict or "noeviction"), 512 << 20)
        return BytesTable._over(core, key_dtype, kind, ())
    evict_by = _evict_by(evict)
    gpus = _devices.parse(device, on_gpu=True)
    _check_host_memory(host_memory, gpus)
    kind_of_table = GpuTable if gpus else _FixedTable
    row_bytes = kind[0].itemsize * int(np.prod(kind[1], dtype=object))
    is_word = kind[0].kind in "ui" and row_bytes == 8 and kind[1] == ()
    needed = _LEAST_MEMORY + (_PAGE if evict_by or not is_word else 0)
    # One that evicts says itself how much it needs.
    if not gpus and not evict_by and 0 < memory < needed:
        raise MemoryError(f"memory={memory}: such a table needs {needed} bytes or more")
    if not gpus:
        _check_expected(expected, row_bytes, memory, evict)
    made = kind_of_table.__new__(kind_of_table)
    try:
        _core.FixedTable.__init__(made, key_dtype, kind[0], kind[1], memory, min(expected, 2**64 - 1),
                                  gpus, host_memory, evict_by)
    except MemoryError as error:
        much = f"; it needs about {needed + expected * 28} bytes, and rows" if not gpus or expected else ""
        raise _no_room(error, memory, gpus, f" (expected={expected}){much}") from None
    made._gpus = gpus
    return made


def _no_room(error, memory, gpus, more):
    """The same error, in words where it has none."""
    if str(error) != "std::bad_alloc":
        return error
    whose = f"memory={memory}" if memory else _devices.name_of(gpus) if gpus else "the machine"
    return MemoryError(f"{whose}: there is no room for such a table{more}")


def _check_expected(expected, row_bytes, memory, evict):
    """Before memory is touched for them, step by step. An entry takes 25 bytes at least, and a row that
    is longer than a word lies beside it. Of those that a capped table evicts it never has so many."""
    if memory and evict not in (None, "noeviction"):
        return
    needed = expected * (25 + (0 if row_bytes <= 8 else (row_bytes + 7) // 8 * 8))
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = min(memory or there, there)
    if needed > limit:
        whose = "memory=" if limit == memory else "the machine's memory of "
        raise MemoryError(f"expected={expected}: a table of so many entries takes {needed} bytes or more, "
                          f"and that is beyond {whose}{limit}")


def _check_host_memory(host_memory, gpus):
    if host_memory and not gpus:
        raise ValueError("host_memory is for tables on a GPU; on the CPU it is memory=")


def _evict_by(evict):
    """What the extension takes for a table of fixed values."""
    if evict in (None, "noeviction"):
        return ""
    if evict not in ("use", "given"):
        raise ValueError(f"evict={evict!r}: tables of fixed values evict by 'use' (those that were "
                         "used least recently go) or 'given' (those of the lowest scores that put "
                         "was given)")
    return evict


def _evicts(evict):
    if evict not in (None, "noeviction", "allkeys-lru"):
        raise ValueError(f"evict={evict!r}: a table on a GPU evicts by 'allkeys-lru'")
    return evict == "allkeys-lru"


Table._make = staticmethod(make)
