"""Tables whose keys or values are byte strings, over the store of byte strings."""

import numpy as np

from . import _arrays, _core, _errors, _files
from ._arrow_column import ArrowColumn
from ._types import name_of
from .store import IF_ABSENT, IF_VERSION, check_on_full, check_statuses
from .table import Table

_STRING = (bytes, str)
_ADDED = "bBhHiIlLqQfd"  # codes of dtypes, as sum_of of the extension has them


class BytesTable(Table):
    def __init__(self, *arguments, **named):
        pass  # _over sets all

    @classmethod
    def _over(cls, core, key_dtype, kind, gpus):
        """A table of what ``core`` stores."""
        made = object.__new__(cls)
        made._core, made._key_dtype, made._value, made._gpus = core, key_dtype, kind, gpus
        return made

    # Columns. A single key is a column of one, and `_shaped` takes the reply out of it again.

    def _keys(self, keys):
        """(column, shape): what the store takes, and the shape of the keys; () for one."""
        if self._key_dtype is None:
            if isinstance(keys, _STRING):
                return [keys], ()
            keys = _held(keys, "keys")
            return keys, (_length(keys, "keys"),)
        array = _arrays.keys(keys, self._key_dtype)
        return array.reshape(-1), array.shape

    def _values(self, values, shape, name="values"):
        if self._value is not None:
            dtype, row = self._value
            array = _arrays.values(values, dtype, shape + row, name)
            # As bytes, since the store would take strings of NumPy without the zeros behind them.
            return array.reshape((-1, *row) if row else (-1, 1)).view(np.uint8)
        count = int(np.prod(shape))
        if isinstance(values, _STRING):
            return [values] * count
        values = _held(values, name)
        if _length(values, name) != count:
            raise ValueError(f"{name}: there are {_length(values, name)} for {count} keys")
        return values

    def _shaped(self, column, shape):
        if isinstance(column, np.ndarray):
            return column.reshape(shape + column.shape[1:])[()]
        return column[0] if shape == () else column

    def _found(self, keys, shape, out):
        """(values, found) of a column."""
        if self._value is None:
            if out is not None:
                raise TypeError("out: values of bytes fill no array")
            values = self._core.get_many(keys)
            return values, np.fromiter((value is not None for value in values), bool, len(values))
        dtype, row = self._value
        array = (np.zeros(shape + row, dtype) if out is None
                 else _arrays.out(out, dtype, shape + row))
        count = int(np.prod(shape))
        if count == 0:
            return array.reshape((0, *row)), np.zeros(0, bool)
        rows = array.reshape((count, *row))
        if isinstance(keys, np.ndarray) and np.may_share_memory(keys, rows):
            raise ValueError("out: the array overlaps the keys")
        return rows, self._core.get_rows(keys, rows)

    # The verbs; isotherm/table.py documents them.

    def get(self, keys, out=None, arrow=False):
        column, shape = self._keys(keys)
        if arrow:
            if self._value is not None or out is not None:
                raise TypeError("arrow: only for values of bytes, without out")
            values = ArrowColumn(self._core.get_arrow(column))
            return values, self._shaped(values._found(), shape)
        values, found = self._found(column, shape, out)
        return (self._shaped(values, shape) if out is None else out), self._shaped(found, shape)

    def __getitem__(self, keys):
        column, shape = self._keys(keys)
        values, found = self._found(column, shape, None)
        self._raise_missing(column, found)
        return self._shaped(values, shape)

    def _raise_missing(self, column, found):
        if not found.all():
            first = int(np.argmin(found))
            missing = (column[first] if hasattr(column, "__getitem__")
                       else _core._strings(column, "keys")[first])
            if hasattr(missing, "as_py"):  # of pyarrow
                missing = missing.as_py()
            raise KeyError(missing if isinstance(missing, _STRING) else missing.item())

    def contains(self, keys):
        column, shape = self._keys(keys)
        return self._shaped(self._core.contains_many(column), shape)

    def __contains__(self, key):
        column, shape = self._keys(key)
        if shape != ():
            raise TypeError("`in` looks for one key; use contains(keys) for an array")
        return bool(self._core.contains_many(column)[0])

    def _put(self, column, values, options=0, versions=None):
        return self._core.put_many(column, values, options, 0, versions)

    def put(self, keys, values, on_full="raise"):
        check_on_full(on_full)
        column, shape = self._keys(keys)
        stored = check_statuses(self._put(column, self._values(values, shape)), on_full)
        return self._shaped(stored, shape) if on_full == "mask" else None

    __setitem__ = put

    def erase(self, keys):
        column, shape = self._keys(keys)
        return self._shaped(self._core.erase_many(column, None) == _errors.OK, shape)

    def __delitem__(self, keys):
        column, _ = self._keys(keys)
        self._raise_missing(column, self._core.erase_many(column, None) == _errors.OK)

    def put_if_absent(self, keys, values, on_full="raise"):
        check_on_full(on_full)
        column, shape = self._keys(keys)
        statuses = self._put(column, self._values(values, shape), IF_ABSENT)
        stored = self._shaped(check_statuses(statuses, on_full), shape)
        return stored if on_full == "raise" else (stored, self._shaped(_refused(statuses), shape))

    def get_or_put(self, keys, initial, on_full="raise"):
        check_on_full(on_full)
        column, shape = self._keys(keys)
        initial = self._values(initial, shape, "initial")
        count = int(np.prod(shape))
        values, was_there, refused = None, np.zeros(count, bool), np.zeros(count, bool)
        left = np.arange(count)  # rows without an answer
        while values is None or len(left):
            statuses = self._put(column, initial, IF_ABSENT)
            put, full = check_statuses(statuses, on_full), _refused(statuses)
            its, found = self._found(column, (len(left),), None)
            its = self._with_put(its, put, initial)
            if values is None:
                values = its
            else:
                for row, value in zip(left, its):
                    values[row] = value
            was_there[left], refused[left] = ~(put | full), full & ~found
            # Those that were there and are not: evicted by this call, or erased by others.
            again = np.flatnonzero(~(found | put | full))
            if len(again):
                column, initial = ([strings[row] for row in again] for strings in (
                    _core._strings(column, "keys"), _core._strings(initial, "initial")))
            left = left[again]
        result = self._shaped(values, shape), self._shaped(was_there, shape)
        return result if on_full == "raise" else (*result, self._shaped(refused, shape))

    def _with_put(self, values, put, initial):
        """What was put is the answer for its row, whatever has become of it since."""
        if not put.any():
            return values
        strings = _core._strings(initial, "initial")
        if self._value is None:
            return [string if its else value for value, string, its in zip(values, strings, put)]
        values[put] = np.frombuffer(b"".join(strings), self._value[0]).reshape(values.shape)[put]
        return values

    def _update(self, column, shape, change, on_full):
        """Swaps change(i, value or None), or keeps where that is None; which rows were swapped.

        The rows of a key are computed one after the other, and the last value is stored where the
        item is still that of the beginning; else others have changed it, and they run again.
        """
        keys = _core._strings(column, "keys")
        swapped = np.zeros(len(keys), bool)
        left = range(len(keys))
        while left:
            names = list(dict.fromkeys(keys[i] for i in left))
            values, versions = self._core.get_versions(names)
            now, changed = dict(zip(names, values)), set()
            for i in left:
                new = change(i, now[keys[i]])
                swapped[i] = new is not None
                if new is not None:
                    now[keys[i]] = new
                    changed.add(keys[i])
            again, full = set(), set()
            for present in (True, False):
                rows = [j for j, name in enumerate(names)
                        if name in changed and (versions[j] != 0) == present]
                if not rows:
                    continue
                statuses = self._put([names[j] for j in rows], [now[names[j]] for j in rows],
                                     IF_VERSION if present else IF_ABSENT,
                                     versions[rows] if present else None)
                for j, status in zip(rows, statuses.tolist()):
                    if status in (_errors.NOT_FOUND, _errors.CONDITION_FAILED):
                        again.add(names[j])
                    elif status == _errors.OUT_OF_MEMORY:
                        full.add(names[j])
            for i in left:
                swapped[i] &= keys[i] not in full
            if full and on_full == "raise":
                _arrays.raise_full(len(full), len(keys), self.memory_bytes)
            left = [i for i in left if keys[i] in again]
        return self._shaped(swapped, shape)

    def compare_and_swap(self, keys, expected, desired):
        column, shape = self._keys(keys)
        old = _core._strings(self._values(expected, shape, "expected"), "expected")
        new = _core._strings(self._values(desired, shape, "desired"), "desired")
        return self._update(column, shape,
                            lambda i, value: new[i] if value == old[i] else None, "raise")

    def add(self, keys, values, on_full="raise"):
        check_on_full(on_full)
        if self._value is None or self._value[0].char not in _ADDED:
            raise TypeError(f"add: values of dtype {self._kind()['value']} cannot be added")
        column, shape = self._keys(keys)
        dtype = self._value[0]
        deltas = self._values(values, shape).view(dtype)

        def change(i, value):
            if value is None:
                return deltas[i].tobytes()
            return (np.frombuffer(value, dtype) + deltas[i].reshape(-1)).tobytes()

        done = self._update(column, shape, change, on_full)
        return done if on_full == "mask" else None

    # What is about all entries.

    def __len__(self):
        return len(self._core)

    @property
    def key_dtype(self):
        return self._key_dtype

    @property
    def memory_bytes(self):
        return self._core.memory_bytes

    def _scan(self, cursor, count):
        cursor, keys = self._core.scan(cursor, count)
        values, found = self._found(keys, (len(keys),), None)
        if not found.all():  # erased since
            keys = [key for key, its in zip(keys, found) if its]
            values = (values[found] if isinstance(values, np.ndarray)
                      else [value for value in values if value is not None])
        if self._key_dtype is not None:
            keys = np.frombuffer(b"".join(keys), self._key_dtype)
        return cursor, keys, values

    def _kind(self):
        return {"key": "bytes" if self._key_dtype is None else name_of(self._key_dtype, ()),
                "value": "bytes" if self._value is None else name_of(*self._value)}

    def _file_kind(self):
        value = self._value and [_files.dtype_name(self._value[0]), list(self._value[1])]
        return {"key": self._kind()["key"], "value": value}

    def _put_loaded(self, rows, keys, values):
        keys = (_files.split_strings(rows, keys) if self._key_dtype is None
                else np.frombuffer(keys, self._key_dtype))
        if self._value is None:
            values = _files.split_strings(rows, values)
        else:
            values = np.frombuffer(values, self._value[0]).reshape((rows, *self._value[1]))
        self.put(keys, values)


def _refused(statuses):
    return statuses == _errors.OUT_OF_MEMORY


def _held(column, name):
    """A column of Arrow that can be read once only, or has no length, as one that has both."""
    if not hasattr(column, "__len__") and any(
            hasattr(column, f"__arrow_c_{kind}__")
            for kind in ("array", "stream", "device_array", "device_stream")):
        return _core.ArrowInput(column, name, False)
    return column


def _length(column, name):
    try:
        return len(column)
    except TypeError:
        raise TypeError(f"{name}: wants a list of bytes or str, an Arrow array, or a NumPy array, "
                        f"not {type(column).__name__}") from None
