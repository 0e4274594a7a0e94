"""Tables of byte strings on GPUs: columns of the host as on the CPU, and columns in GPU memory.

Where the keys of a call lie decides, as in ``_gpu_table``. A get without ``out`` waits once, for the
size of the answer; writes wait on the host for their replies, but where ``on_full="mask"``. On
several GPUs every call waits: strings go to the GPU of their key by way of the host.
"""

import numpy as np

from . import _arrays, _core, _device_arrays, _device_strings, _devices, _errors
from ._bytes_table import BytesTable
from ._device_arrays import DeviceArray
from ._device_strings import DeviceStrings
from .store import check_on_full, check_statuses

_BOOL, _BYTE, _INT64 = np.dtype("?"), np.dtype("u1"), np.dtype("i8")
_RETRY, _REFUSED = 255, 254  # replies (include/isotherm)
_SOME_BYTES = 64 << 20  # that a reply may take before its size is known


class _Call:
    """One call whose keys lie on a GPU. ``shape`` is that of the keys."""

    def __init__(self, table, keys, shape):
        self.table, self.keys, self.shape = table, keys, shape
        self.rows, self.stream, self.used = keys.rows, keys.stream, [keys]
        if keys.gpu not in table._gpus:
            raise ValueError(f"keys: the array lies on cuda:{keys.gpu}, and this table on "
                             f"{_devices.name_of(table._gpus)}")

    def new(self, shape, dtype, zeros=False):
        """(array, address) of the keys' kind."""
        return self.keys.library.make(shape, dtype, self.keys.gpu, self.stream, zeros)

    def mask(self):
        return self.new(self.shape, _BOOL)

    def values(self, given, name):
        """Values that the caller gives, as strings."""
        if self.table._value is None:
            strings = _device_strings.read(given, self.stream, name)
            if strings is None:
                raise self._not_here(given, name, "byte strings")
            if strings.gpu != self.keys.gpu:
                raise ValueError(f"{name}: the strings lie on cuda:{strings.gpu}, and the keys on "
                                 f"cuda:{self.keys.gpu}")
            if strings.rows != self.rows:
                raise ValueError(f"{name}: there are {strings.rows} for {self.rows} keys")
        else:
            strings = _device_strings.of_rows(self.array(given, name), self.rows,
                                              self.table._row_bytes(), self.stream)
        self.used.append(strings)
        return strings

    def array(self, given, name, writable=False):
        """Rows of one size that the caller gives."""
        column = _device_arrays.read(given, self.stream)
        if column is None:
            raise self._not_here(given, name, "an array")
        dtype, row = self.table._value
        _device_arrays.check(column, name, dtype, self.shape + row, 1, self.keys.gpu, writable)
        return column

    def _not_here(self, given, name, wanted):
        return TypeError(f"{name}: wants {wanted} on cuda:{self.keys.gpu}, where the keys lie, not "
                         f"{type(given).__name__}")

    def run(self, verb, values=None, found=0, offsets=0, data=0, capacity=0, as_mask=True, ends=True):
        """``ends``: nothing of the call is queued behind it."""
        columns = (self.keys.offsets, self.keys.data, values.offsets if values else 0,
                   values.data if values else 0, found, offsets, data)
        if self.rows:
            place = self.table._gpus.index(self.keys.gpu)
            self.table._core.run_on_gpu(verb, place, self.stream, self.rows, columns, capacity, as_mask)
        if ends:
            self.end()

    def end(self):
        for column in self.used:
            column.lead(self.stream)

    def host(self, pointer, count, dtype):
        array = np.empty(count, dtype)
        if count:
            _core._gpu_read(self.keys.gpu, pointer, array, self.stream)
        return array

    def to_gpu(self, array):
        made, address = self.new(array.shape, array.dtype)
        if array.size:
            _core._gpu_write(self.keys.gpu, address, np.ascontiguousarray(array), self.stream)
        return made

    def write(self, verb, values, on_full="raise"):
        """The replies, on the host; raises for rows that were not taken."""
        replies = DeviceArray._made((self.rows,), _BYTE, self.keys.gpu, self.stream, False)
        self.run(verb, values, found=replies._memory.pointer, as_mask=False)
        replies = self.host(replies._memory.pointer, self.rows, _BYTE)
        statuses = np.full(self.rows, _errors.OK, "u1")
        statuses[replies == _RETRY] = _errors.OUT_OF_MEMORY
        statuses[replies == _REFUSED] = _errors.TOO_LARGE
        check_statuses(statuses, on_full)
        return replies

    def get_strings(self):
        """(DeviceStrings, address of the mask); waits for the size."""
        found, mask = self.mask()
        offsets, its_offsets = self.new((self.rows + 1,), _INT64, zeros=True)
        # The last values may have been one long one.
        room = min(self.table._room * self.rows, max(_SOME_BYTES, 2 * self.table._last_bytes)) + 64
        while True:
            data, its_data = self.new((room,), _BYTE)
            self.run("get", found=mask, offsets=its_offsets, data=its_data, capacity=room)
            needed = int(self.host(its_offsets + 8 * self.rows, 1, _INT64)[0])
            if self.rows:
                self.table._last_bytes = needed
                self.table._room = needed // self.rows + needed // self.rows // 8 + 1
            if needed <= room:
                return DeviceStrings._made(offsets, data, found), mask
            room = needed + needed // 8

    def get_rows(self, to):
        """Fills rows of one size; the array of the mask and its address."""
        found, mask = self.mask()
        size = self.table._row_bytes()
        offsets = DeviceArray._made((self.rows + 1,), _INT64, self.keys.gpu, self.stream, False)
        data = DeviceArray._made((self.rows * size,), _BYTE, self.keys.gpu, self.stream, False)
        at, its_data = offsets._memory.pointer, data._memory.pointer
        self.run("get", found=mask, offsets=at, data=its_data, capacity=self.rows * size, ends=False)
        if self.rows:
            _core._gpu_rows(self.keys.gpu, self.stream, to, self.rows, size, mask, at, its_data)
        self.end()
        return found, mask

    def get_into(self, out):
        """A get into offsets and bytes that the caller gives; waits for nothing."""
        columns = ([_device_arrays.read(part, self.stream) for part in out]
                   if isinstance(out, tuple) and len(out) == 2 else [None])
        if None in columns:
            raise self._not_here(out, "out", "a pair of offsets and bytes")
        for column, name, dtype, shape in zip(columns, ("offsets", "bytes"), (_INT64, _BYTE),
                                              ((self.rows + 1,), None)):
            _device_arrays.check(column, f"out: {name}", dtype, shape, dtype.itemsize, self.keys.gpu,
                                 writable=True)
            if any(_device_arrays.overlap(column, its) for its in self.keys.columns):
                raise ValueError(f"out: {name}: the array overlaps the keys")
            column.follow(self.stream)
            column.filled = True
        self.used += columns
        found, mask = self.mask()
        if self.rows == 0:
            _core._gpu_offsets(self.keys.gpu, self.stream, columns[0].pointer, 0, 0, 0, 0, False)
        self.run("get", found=mask, offsets=columns[0].pointer, data=columns[1].pointer,
                 capacity=int(np.prod(columns[1].shape)))
        return out, found

    def key_at(self, row):
        begin, end = self.host(self.keys.offsets + 8 * row, 2, _INT64).tolist()
        key = self.host(self.keys.data + begin, end - begin, _BYTE)
        dtype = self.table._key_dtype
        return key.tobytes() if dtype is None else key.view(dtype)[0].item()

    def raise_missing(self, mask):
        """KeyError of the first key that is missing; waits for the mask."""
        found = self.host(mask, self.rows, _BOOL)
        if not found.all():
            raise KeyError(self.key_at(int(np.argmin(found))))

    # What the host computes from copies.

    def host_keys(self):
        strings = _listed(self.keys)
        dtype = self.table._key_dtype
        if dtype is None:
            return strings
        return np.frombuffer(b"".join(strings), dtype).reshape(self.shape)

    def host_values(self, given, name):
        if self.table._value is None:
            return _listed(self.values(given, name))
        column = self.array(given, name)
        column.follow(self.stream)
        return _device_strings.to_host(column, self.stream)


def _listed(column):
    offsets = column.read_offsets()
    data = _device_strings.read_bytes(column, int(offsets[0]), int(offsets[-1]))
    ends = (offsets - offsets[0]).tolist()
    return [data[begin:end] for begin, end in zip(ends, ends[1:])]


class GpuBytesTable(BytesTable):
    """Keys or values of bytes on a GPU."""

    _room = 64  # of a value, as seen
    _last_bytes = 0  # of the values of the last get

    def _row_bytes(self):
        dtype, row = self._value
        return dtype.itemsize * int(np.prod(row))

    def _call(self, keys):
        """None where the keys lie on the host."""
        if self._key_dtype is None:
            strings = _device_strings.read(keys)
            return None if strings is None else _Call(self, strings, (strings.rows,))
        if isinstance(keys, (np.ndarray, int, list, tuple, np.generic)):
            return None
        column = _device_arrays.read(keys)
        if column is None:
            return None
        _device_arrays.check(column, "keys", self._key_dtype)
        count = int(np.prod(column.shape))
        return _Call(self, _device_strings.of_rows(column, count, 8, column.stream), column.shape)

    # The verbs; isotherm/table.py documents them.

    def get(self, keys, out=None, arrow=False):
        call = self._call(keys)
        if call is None:
            return super().get(keys, out, arrow)
        if self._value is None:
            if out is not None:
                return call.get_into(out)
            values, _ = call.get_strings()
            return values, values.found
        if out is None:
            values, to = call.new(call.shape + self._value[1], self._value[0], zeros=True)
        else:
            values, column = out, call.array(out, "out", writable=True)
            column.follow(call.stream)
            column.filled = True
            call.used.append(column)
            to = column.pointer
        return values, call.get_rows(to)[0]

    def __getitem__(self, keys):
        call = self._call(keys)
        if call is None:
            return super().__getitem__(keys)
        if self._value is None:
            values, mask = call.get_strings()
        else:
            values, to = call.new(call.shape + self._value[1], self._value[0])
            kept, mask = call.get_rows(to)
        call.raise_missing(mask)
        return values._whole() if self._value is None else values

    def contains(self, keys):
        call = self._call(keys)
        if call is None:
            return super().contains(keys)
        found, mask = call.mask()
        call.run("get", found=mask)
        return found

    def put(self, keys, values, on_full="raise"):
        check_on_full(on_full)
        call = self._call(keys)
        if call is None:
            return super().put(keys, values, on_full)
        values = call.values(values, "values")
        if on_full == "raise":
            call.write("put", values)
            return None
        stored, mask = call.mask()
        call.run("put", values, found=mask)
        return stored

    __setitem__ = put

    def erase(self, keys):
        call = self._call(keys)
        if call is None:
            return super().erase(keys)
        found, mask = call.mask()
        call.run("erase", found=mask)
        return found

    def __delitem__(self, keys):
        call = self._call(keys)
        if call is None:
            return super().__delitem__(keys)
        kept, mask = call.mask()
        call.run("erase", found=mask)
        call.raise_missing(mask)

    def put_if_absent(self, keys, values, on_full="raise"):
        check_on_full(on_full)
        call = self._call(keys)
        if call is None:
            return super().put_if_absent(keys, values, on_full)
        replies = call.write("put_if_absent", call.values(values, "values"), on_full)
        stored = call.to_gpu((replies == 0).reshape(call.shape))
        if on_full == "raise":
            return stored
        return stored, call.to_gpu((replies == _RETRY).reshape(call.shape))

    def get_or_put(self, keys, initial, on_full="raise"):
        check_on_full(on_full)
        call = self._call(keys)
        if call is None:
            return super().get_or_put(keys, initial, on_full)
        replies = call.write("put_if_absent", call.values(initial, "initial"), on_full)
        was_there = call.to_gpu((replies == 1).reshape(call.shape))
        if self._value is None:
            values, mask = call.get_strings()
        else:
            values, to = call.new(call.shape + self._value[1], self._value[0], zeros=True)
            kept, mask = call.get_rows(to)
        found = call.host(mask, call.rows, _BOOL)
        if not (found | (replies == _RETRY)).all():
            return self._get_or_put_by_host(call, replies, initial, on_full)
        if on_full == "mask":
            return values, was_there, call.to_gpu((~found).reshape(call.shape))
        return values._whole() if self._value is None else values, was_there

    def _get_or_put_by_host(self, call, replies, given, on_full):
        """Where some are gone already: evicted by this call, or erased by others. ``replies`` are those
        of the first try."""
        values, was_there, refused = super().get_or_put(
            call.host_keys(), call.host_values(given, "initial"), "mask")
        if on_full == "raise" and refused.any():
            _arrays.raise_full(int(refused.sum()), call.rows, self.memory_bytes)
        was_there &= (replies == 1).reshape(call.shape)
        masks = call.to_gpu(was_there), call.to_gpu(refused)
        if self._value is not None:
            values = call.to_gpu(values)
        else:
            ends = np.cumsum([0, *(len(value or b"") for value in values)], dtype=_INT64)
            data = np.frombuffer(bytearray().join(value or b"" for value in values), _BYTE)
            values = DeviceStrings._made(call.to_gpu(ends), call.to_gpu(data),
                                         None if on_full == "raise" else call.to_gpu(~refused))
        return (values, *masks[:1 if on_full == "raise" else 2])

    def compare_and_swap(self, keys, expected, desired):
        call = self._call(keys)
        if call is None:
            return super().compare_and_swap(keys, expected, desired)
        old, new = call.host_values(expected, "expected"), call.host_values(desired, "desired")
        return call.to_gpu(np.asarray(super().compare_and_swap(call.host_keys(), old, new)))

    def add(self, keys, values, on_full="raise"):
        call = self._call(keys)
        if call is None or self._value is None:
            return super().add(keys, values, on_full)
        added = super().add(call.host_keys(), call.host_values(values, "values"), on_full)
        return None if added is None else call.to_gpu(np.asarray(added))
