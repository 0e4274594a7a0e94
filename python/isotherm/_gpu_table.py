"""Tables of 64-bit keys on GPUs: what the extension does with host arrays, and arrays in GPU memory.

Where the keys of a call lie decides: with keys of the host all its arrays are of the host, with keys
on a GPU all lie there, and the call is queued in the keys' stream.
"""

import numpy as np

from . import _device_arrays, _devices
from .store import check_on_full
from .table import _FixedTable

_HOST = (np.ndarray, int, list, tuple, np.generic)
_BOOL = np.dtype("?")


class _Call:
    """One call whose keys lie on a GPU."""

    def __init__(self, table, keys):
        self.table, self.keys, self.stream = table, keys, keys.stream
        if keys.gpu not in table._gpus:
            raise ValueError(f"keys: the array lies on cuda:{keys.gpu}, and this table on "
                             f"{_devices.name_of(table._gpus)}")
        _device_arrays.check(keys, "keys", table.key_dtype)
        size = table.row_bytes
        if size != 8 and size % 16 != 0:
            raise NotImplementedError(
                f"arrays on a GPU want values of 8 bytes or a multiple of 16, and this table has "
                f"{size}; copy them to the host, or pad the rows")
        self.shape = keys.shape + table.row_shape
        self.aligned = 8 if size == 8 else 16
        self.kept = []

    def rows(self, given, name, writable=False):
        """The address of rows that the caller gives."""
        column = _device_arrays.read(given, self.stream)
        if column is None:
            raise TypeError(f"{name}: wants an array on cuda:{self.keys.gpu}, where the keys lie, "
                            f"not {type(given).__name__}")
        _device_arrays.check(column, name, self.table.value_dtype, self.shape, self.aligned,
                             self.keys.gpu, writable)
        column.follow(self.stream)
        column.filled = writable
        self.kept.append(column)
        if writable and self._overlaps(column):
            raise ValueError(f"{name}: the array overlaps the keys")
        return column.pointer

    def _overlaps(self, column):
        count = int(np.prod(self.keys.shape))
        return (column.pointer < self.keys.pointer + 8 * count
                and self.keys.pointer < column.pointer + self.table.row_bytes * count)

    def new(self, shape, dtype, zeros=False):
        """(array, address) of the keys' kind."""
        return self.keys.library.make(shape, dtype, self.keys.gpu, self.stream, zeros)

    def out(self, given, zeros=True):
        if given is None:
            return self.new(self.shape, self.table.value_dtype, zeros)
        return given, self.rows(given, "out", writable=True)

    def mask(self):
        return self.new(self.keys.shape, _BOOL)

    def run(self, verb, rows=0, expected=0, rows_out=0, mask=0, raise_full=False):
        count = int(np.prod(self.keys.shape))
        if count != 0:
            columns = self.keys.pointer, rows, expected, rows_out, mask
            place = self.table._gpus.index(self.keys.gpu)
            try:
                self.table._run_on_gpu(verb, place, self.stream, count, columns, raise_full)
            finally:  # a table that is full has answered, too
                for column in self.kept:
                    column.lead(self.stream)


class GpuTable(_FixedTable):
    """64-bit keys and values of one size on GPUs."""

    def _call(self, keys):
        """None where the keys lie on the host."""
        if isinstance(keys, _HOST):
            return None
        column = _device_arrays.read(keys)
        return None if column is None else _Call(self, column)

    # The verbs; isotherm/table.py documents them.

    def get(self, keys, out=None):
        call = self._call(keys)
        if call is None:
            return super().get(keys, out)
        values, to = call.out(out)
        found, mask = call.mask()
        call.run("get", rows_out=to, mask=mask)
        return values, found

    def __getitem__(self, keys):
        self._refuse_on_gpu(keys, "table[keys]", "get")
        return super().__getitem__(keys)

    def __delitem__(self, keys):
        self._refuse_on_gpu(keys, "del table[keys]", "erase")
        super().__delitem__(keys)

    def _refuse_on_gpu(self, keys, what, instead):
        if self._call(keys) is not None:
            raise NotImplementedError(f"{what} of keys on a GPU would wait for the mask; use "
                                      f"{instead}(keys)")

    def contains(self, keys):
        call = self._call(keys)
        if call is None:
            return super().contains(keys)
        found, mask = call.mask()
        call.run("get", mask=mask)
        return found

    def _write(self, verb, keys, values, on_full):
        check_on_full(on_full)
        call = self._call(keys)
        if call is None:
            return getattr(super(), verb)(keys, values, on_full)
        rows = call.rows(values, "values")
        if on_full == "raise":
            call.run(verb, rows=rows, raise_full=True)
            return None
        stored, mask = call.mask()
        call.run(verb, rows=rows, mask=mask)
        return stored

    def put(self, keys, values, on_full="raise"):
        return self._write("put", keys, values, on_full)

    def __setitem__(self, keys, values):
        self._write("put", keys, values, "raise")

    def add(self, keys, values, on_full="raise"):
        if not isinstance(keys, _HOST) and not self._adds_on_gpu() and self._call(keys) is not None:
            raise NotImplementedError(f"add of arrays on a GPU: values of dtype {self.value_dtype} "
                                      "are added from arrays of the host only")
        return self._write("add", keys, values, on_full)

    def erase(self, keys):
        call = self._call(keys)
        if call is None:
            return super().erase(keys)
        found, mask = call.mask()
        call.run("erase", mask=mask)
        return found

    def put_if_absent(self, keys, values):
        call = self._call(keys)
        if call is None:
            return super().put_if_absent(keys, values)
        stored, mask = call.mask()
        call.run("put_if_absent", rows=call.rows(values, "values"), mask=mask, raise_full=True)
        return stored

    def get_or_put(self, keys, initial):
        call = self._call(keys)
        if call is None:
            return super().get_or_put(keys, initial)
        rows = call.rows(initial, "initial")
        values, to = call.out(None, zeros=False)
        found, mask = call.mask()
        call.run("get_or_put", rows=rows, rows_out=to, mask=mask, raise_full=True)
        return values, found

    def compare_and_swap(self, keys, expected, desired):
        call = self._call(keys)
        if call is None:
            return super().compare_and_swap(keys, expected, desired)
        if self.row_bytes != 8:
            raise NotImplementedError("compare_and_swap of rows takes arrays of the host only")
        swapped, mask = call.mask()
        call.run("compare_and_swap", rows=call.rows(desired, "desired"),
                 expected=call.rows(expected, "expected"), mask=mask)
        return swapped

    def _scan(self, cursor, count):
        if not self._can_scan():
            raise NotImplementedError("items() of a table that lies in GPU and host memory; "
                                      "save() and pickle need it, too")
        return super()._scan(cursor, count)

    def stats(self):
        return super().stats() | self._gpu_stats()
