"""Tables of 64-bit keys on GPUs: what the extension does with host arrays, and arrays in GPU memory.

Where the keys of a call lie decides: with keys of the host all its arrays are of the host, with keys
on a GPU all lie there, and the call is queued in the keys' stream. What the GPU has no operation for, or
no layout of values, is computed on the host from copies of such arrays (``_Call.by_host``).
"""

import numpy as np

from . import _core, _device_arrays, _devices
from .store import check_on_full
from .table import _FixedTable

_HOST = (np.ndarray, int, list, tuple, np.generic)
_BOOL = np.dtype("?")
_SCORES = np.dtype("u8")


class _Call:
    """One call whose keys lie on a GPU."""

    def __init__(self, table, keys):
        self.table, self.keys, self.stream = table, keys, keys.stream
        if keys.gpu not in table._gpus:
            raise ValueError(f"keys: the array lies on cuda:{keys.gpu}, and this table on "
                             f"{_devices.name_of(table._gpus)}")
        _device_arrays.check(keys, "keys", table.key_dtype)
        size = table.row_bytes
        # Whether the GPU has its values as the caller has them.
        self.direct = table._are_words() or size % 16 == 0
        self.shape = keys.shape + table.row_shape
        self.aligned = (8 if size == 8 else 16) if self.direct else 1
        self.kept = []

    def rows(self, given, name, writable=False):
        """The address of rows that the caller gives."""
        return self.column(given, name, writable).pointer

    def column(self, given, name, writable=False, of=None):
        """``of``: its dtype, shape and alignment, where these are not those of rows."""
        column = _device_arrays.read(given, self.stream)
        if column is None:
            raise TypeError(f"{name}: wants an array on cuda:{self.keys.gpu}, where the keys lie, "
                            f"not {type(given).__name__}")
        dtype, shape, aligned = of or (self.table.value_dtype, self.shape, self.aligned)
        _device_arrays.check(column, name, dtype, shape, aligned, self.keys.gpu, writable)
        column.follow(self.stream)
        column.filled = writable
        self.kept.append(column)
        if writable and self._overlaps(column):
            raise ValueError(f"{name}: the array overlaps the keys")
        return column

    def score_column(self, given):
        self.table._require_scores()
        return self.column(given, "scores", of=(_SCORES, self.keys.shape, 8))

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

    def run(self, verb, rows=0, expected=0, rows_out=0, mask=0, refused=0, scores=0,
            raise_full=False):
        count = int(np.prod(self.keys.shape))
        if count != 0:
            columns = self.keys.pointer, rows, expected, rows_out, mask, refused, scores
            place = self.table._gpus.index(self.keys.gpu)
            try:
                self.table._run_on_gpu(verb, place, self.stream, count, columns, raise_full)
            finally:  # a table that is full has answered, too
                for column in self.kept:
                    column.lead(self.stream)

    def run_or_refuse(self, verb, on_full, **columns):
        """The mask of the rows that found no room, where ``on_full`` wants it; else None."""
        if on_full == "raise":
            return self.run(verb, raise_full=True, **columns)
        refused, at = self.mask()
        self.run(verb, refused=at, **columns)
        return refused

    def to_host(self, column):
        array = np.empty(column.shape, column.dtype)
        if array.size:
            _core._gpu_read(column.gpu, column.pointer, array, self.stream)
        return array

    def to_gpu(self, array):
        made, address = self.new(array.shape, array.dtype)
        if array.size:
            _core._gpu_write(self.keys.gpu, address, array, self.stream)
        return made

    def by_host(self, verb, on_full=None, scores=None, **given):
        """What ``verb`` of arrays of the host gives, with copies of those that lie on the GPU."""
        columns = {name: self.column(array, name) for name, array in given.items()}
        arrays = [self.to_host(column) for column in columns.values()]
        options = {} if on_full is None else {"on_full": on_full}
        if scores is not None:
            options["scores"] = self.to_host(self.score_column(scores))
        result = verb(self.to_host(self.keys), *arrays, **options)
        if isinstance(result, tuple):
            return tuple(self.to_gpu(np.asarray(array)) for array in result)
        return None if result is None else self.to_gpu(np.asarray(result))

    def get_by_host(self, verb, out):
        """A get, whose misses leave ``out`` as it is."""
        if out is None:
            return self.by_host(verb)
        column = self.column(out, "out", writable=True)
        array = self.to_host(column)
        _, found = verb(self.to_host(self.keys), array)
        if array.size:
            _core._gpu_write(column.gpu, column.pointer, array, self.stream)
        return out, self.to_gpu(np.asarray(found))

    def raise_missing(self, found):
        """KeyError of the first key that is missing; waits for the mask."""
        mask = self.to_host(_device_arrays.read(found)).reshape(-1)
        if not mask.all():
            raise KeyError(self.to_host(self.keys).reshape(-1)[int(np.argmin(mask))].item())


class GpuTable(_FixedTable):
    """64-bit keys and values of one size on GPUs."""

    def _call(self, keys):
        """None where the keys lie on the host."""
        if isinstance(keys, _HOST):
            return None
        column = _device_arrays.read(keys)
        return None if column is None else _Call(self, column)

    # The verbs; isotherm/table.py documents them.

    def get(self, keys, out=None, arrow=False):
        call = self._call(keys)
        if call is None or arrow:  # which is refused
            return super().get(keys, out, arrow)
        if not call.direct:
            return call.get_by_host(super().get, out)
        values, to = call.out(out)
        found, mask = call.mask()
        call.run("get", rows_out=to, mask=mask)
        return values, found

    def __getitem__(self, keys):
        call = self._call(keys)
        if call is None:
            return super().__getitem__(keys)
        values, found = self.get(keys)
        call.raise_missing(found)
        return values

    def __delitem__(self, keys):
        call = self._call(keys)
        if call is None:
            return super().__delitem__(keys)
        call.raise_missing(self.erase(keys))

    def contains(self, keys):
        call = self._call(keys)
        if call is None:
            return super().contains(keys)
        found, mask = call.mask()
        call.run("get", mask=mask)
        return found

    def _write(self, verb, keys, values, on_full, scores=None):
        check_on_full(on_full)
        call = self._call(keys)
        if call is None:
            more = {} if scores is None else {"scores": scores}
            return getattr(super(), verb)(keys, values, on_full, **more)
        if not call.direct or (verb == "add" and not self._adds_on_gpu()):
            return call.by_host(getattr(super(), verb), on_full, scores, values=values)
        rows = call.rows(values, "values")
        given = 0 if scores is None else call.score_column(scores).pointer
        if on_full == "raise":
            call.run(verb, rows=rows, scores=given, raise_full=True)
            return None
        stored, mask = call.mask()
        call.run(verb, rows=rows, scores=given, mask=mask)
        return stored

    def put(self, keys, values, on_full="raise", scores=None):
        return self._write("put", keys, values, on_full, scores)

    def scores(self, keys):
        call = self._call(keys)
        if call is None:
            return super().scores(keys)
        self._require_scores()
        scores, at = call.new(call.keys.shape, _SCORES, zeros=True)
        found, mask = call.mask()
        call.run("get", scores=at, mask=mask)
        return scores, found

    def __setitem__(self, keys, values):
        self._write("put", keys, values, "raise")

    def add(self, keys, values, on_full="raise"):
        return self._write("add", keys, values, on_full)

    def erase(self, keys):
        call = self._call(keys)
        if call is None:
            return super().erase(keys)
        found, mask = call.mask()
        call.run("erase", mask=mask)
        return found

    def put_if_absent(self, keys, values, on_full="raise"):
        check_on_full(on_full)
        call = self._call(keys)
        if call is None:
            return super().put_if_absent(keys, values, on_full)
        if not call.direct:
            return call.by_host(super().put_if_absent, on_full, values=values)
        rows = call.rows(values, "values")
        stored, mask = call.mask()
        refused = call.run_or_refuse("put_if_absent", on_full, rows=rows, mask=mask)
        return stored if refused is None else (stored, refused)

    def get_or_put(self, keys, initial, on_full="raise"):
        check_on_full(on_full)
        call = self._call(keys)
        if call is None:
            return super().get_or_put(keys, initial, on_full)
        if not call.direct:
            return call.by_host(super().get_or_put, on_full, initial=initial)
        rows = call.rows(initial, "initial")
        values, to = call.out(None, zeros=False)
        found, mask = call.mask()
        refused = call.run_or_refuse("get_or_put", on_full, rows=rows, rows_out=to, mask=mask)
        return (values, found) if refused is None else (values, found, refused)

    def compare_and_swap(self, keys, expected, desired):
        call = self._call(keys)
        if call is None:
            return super().compare_and_swap(keys, expected, desired)
        if not self._are_words():
            return call.by_host(super().compare_and_swap, expected=expected, desired=desired)
        swapped, mask = call.mask()
        call.run("compare_and_swap", rows=call.rows(desired, "desired"),
                 expected=call.rows(expected, "expected"), mask=mask)
        return swapped

    def stats(self):
        return super().stats() | self._gpu_stats()
