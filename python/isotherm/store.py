"""Store: byte strings under byte strings, with expiry, versions and eviction."""

import asyncio
import operator
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import _core, _errors
from ._arrow_column import ArrowColumn
from ._types import checked_chunk, parse_memory, parse_store_memory

Text = bytes | str
Strings = Any
"""A list of bytes or str, an Arrow array, or a NumPy array (see ``Store.get_many``)."""
Mask = NDArray[np.bool_]

# Options of a request, as include/isotherm/batch.h numbers them.
IF_ABSENT, IF_PRESENT, IF_VERSION, KEEP_EXPIRY = 1, 2, 4, 8
# Codes of requests (python/src/store.cc).
_GET, _PUT, _ERASE, _ADD, _APPEND, _PREPEND, _EXPIRE, _GET_ITEM = range(8)


class Item(NamedTuple):
    """A value with its version, for ``put(version=…)``, and when it expires (Unix time in seconds;
    None: never)."""

    value: bytes
    version: int
    expires_at: float | None


def check_on_full(on_full):
    if on_full not in ("raise", "mask"):
        raise ValueError("on_full must be 'raise' or 'mask'")


def check_statuses(statuses, on_full):
    """Which rows were done; raises for what failed otherwise."""
    done = statuses == _errors.OK
    if not done.all():
        full = int(np.count_nonzero(statuses == _errors.OUT_OF_MEMORY))
        if full and on_full == "raise":
            raise _errors.TableFullError(f"the store is full: {full} of {len(statuses)} keys found "
                                         "no room; the others were stored")
        others = statuses[~done & ~np.isin(statuses, (_errors.NOT_FOUND, _errors.OUT_OF_MEMORY,
                                                      _errors.CONDITION_FAILED))]
        if len(others):
            raise _errors.of_status(int(others[0]))
    return done


def _expiry(ttl):
    if ttl is None:
        return 0
    try:
        if not ttl > 0:
            raise ValueError(f"ttl must be more than 0 seconds, not {ttl}")
    except TypeError:
        raise TypeError(f"ttl: wants a number of seconds, not {type(ttl).__name__}") from None
    # float(): NumPy would add in the precision of a float32.
    expiry = (time.time() + float(ttl)) * 1000
    if expiry >= 2**63:
        raise ValueError(f"ttl: {ttl} seconds are too many; None is for ever")
    return int(expiry)


def _checked(text, name):
    if not isinstance(text, (bytes, str)):
        raise TypeError(f"{name}: wants bytes or str, not {type(text).__name__}")
    return text


def _conditions(if_absent, if_present, version, keep_ttl):
    if if_absent and (if_present or version is not None):
        raise ValueError("if_absent goes with neither if_present nor version")
    return ((IF_ABSENT if if_absent else 0) | (IF_PRESENT if if_present else 0) |
            (IF_VERSION if version is not None else 0) | (KEEP_EXPIRY if keep_ttl else 0))


class _Requests:
    """The requests about one key. A ``Store`` returns the reply of each, a ``Pipeline`` itself, and an
    ``AsyncStore`` a future; so their types differ."""

    def __reduce__(self) -> Any:
        raise TypeError(f"a {type(self).__name__} cannot be pickled or copied, since a store belongs to its process; "
                        "send what keys() and get_items() give, or use a Table, which can be pickled")

    def get(self, key: Text) -> Any:
        """The value of a key as bytes, or None.

        >>> isotherm.Store().get("a") is None
        True
        """
        return self._request((_GET, _checked(key, "key"), None, 0, 0, 0))

    def get_item(self, key: Text) -> Any:
        """The value with its version and expiry, an ``Item``, or None.

        >>> store = isotherm.Store()
        >>> store.put("a", "1")
        True
        >>> store.put("a", "2", version=store.get_item("a").version)
        True
        """
        return self._request((_GET_ITEM, _checked(key, "key"), None, 0, 0, 0))

    def put(self, key: Text, value: Text, *, ttl: float | None = None, if_absent: bool = False,
            if_present: bool = False, version: int | None = None, keep_ttl: bool = False) -> Any:
        """Stores a value; returns whether the conditions let it.

        Args:
            ttl: seconds until it expires; None: it does not.
            if_absent, if_present: only where the key is missing, or there.
            version: only where the item has this version still (compare and swap).
            keep_ttl: the new value expires when the old one would have.

        >>> store = isotherm.Store()
        >>> store.put("a", "1", ttl=60), store.put("a", "2", if_absent=True)
        (True, False)
        """
        options = _conditions(if_absent, if_present, version, keep_ttl)
        return self._request((_PUT, _checked(key, "key"), _checked(value, "value"), version or 0,
                              options, _expiry(ttl)))

    def erase(self, key: Text, *, version: int | None = None) -> Any:
        """Removes a key; returns whether it was there (and at this version).

        >>> isotherm.Store().erase("a")
        False
        """
        options = IF_VERSION if version is not None else 0
        return self._request((_ERASE, _checked(key, "key"), None, version or 0, options, 0))

    def add(self, key: Text, delta: int = 1) -> Any:
        """Adds to a decimal integer, which begins at 0; returns the sum. ``ValueError`` where the value is
        none, ``OverflowError`` where the sum leaves 64 bits, ``TypeError`` where ``delta`` is no integer.

        >>> store = isotherm.Store()
        >>> store.add("n", 5), store.add("n", -7)
        (5, -2)
        """
        return self._request((_ADD, _checked(key, "key"), None, operator.index(delta), 0, 0))

    def append(self, key: Text, value: Text) -> Any:
        """Puts bytes behind the value; returns its new length.

        >>> isotherm.Store().append("log", "abc")
        3
        """
        return self._request((_APPEND, _checked(key, "key"), _checked(value, "value"), 0, 0, 0))

    def prepend(self, key: Text, value: Text) -> Any:
        """Puts bytes before the value; returns its new length.

        >>> isotherm.Store().prepend("log", "abc")
        3
        """
        return self._request((_PREPEND, _checked(key, "key"), _checked(value, "value"), 0, 0, 0))

    def expire(self, key: Text, ttl: float | None) -> Any:
        """Lets a key expire in ``ttl`` seconds, or never (None); returns whether it is there.

        >>> isotherm.Store().expire("a", 60)
        False
        """
        return self._request((_EXPIRE, _checked(key, "key"), None, 0, 0, _expiry(ttl)))


def _answered(request, reply):
    if request[0] == _GET_ITEM and isinstance(reply, tuple):
        value, version, expiry = reply
        return Item(value, version, expiry / 1000 if expiry else None)
    return reply


class Store(_Requests):
    """Byte strings under byte strings, with expiry, versions and eviction.

    Args:
        memory: bytes that keys, values and index may take together, or a size such as ``"2gb"``;
            None: no cap.
        evict: what happens to writes at the cap: ``"noeviction"`` (they raise ``TableFullError``),
            ``"allkeys-lru"``, ``"allkeys-random"``, ``"volatile-lru"``, ``"volatile-ttl"``.
        max_value_bytes: the longest value, and the longest key.

    Keys and values are bytes, or str, which is stored as UTF-8; replies are bytes. Requests of one
    call take effect in the order of the arrays. Threads share a store; calls with more than a few
    rows release the GIL.

    >>> import isotherm
    >>> store = isotherm.Store(memory="64mb", evict="allkeys-lru")
    >>> store.put("user:1", "Ada", ttl=60)
    True
    >>> store.get("user:1")
    b'Ada'
    >>> store.put_many(["a", "b"], [b"1", b"2"]).tolist()
    [True, True]
    >>> store.get_many(["a", "x", "b"])
    [b'1', None, b'2']
    """

    def __init__(self, memory: int | str | None = None, evict: str = "noeviction",
                 max_value_bytes: int = 512 << 20):
        self._core = _core.Store(parse_store_memory(memory), str(evict),
                                 parse_memory(max_value_bytes, "max_value_bytes"))

    def _request(self, request):
        replies = self._core.run([request], False)
        _errors.raise_first(replies)
        return _answered(request, replies[0])

    def get_many(self, keys: Strings, *, arrow: bool = False) -> Any:
        """Values of keys: a list of bytes, None where a key is missing.

        Args:
            keys: a list of bytes or str, an Arrow array of binary or strings or several (anything
                that has ``__arrow_c_array__`` or ``__arrow_c_stream__``, or their forms for devices
                and memory of the host), or a NumPy array, each row of which is a key.
            arrow: return an ``ArrowColumn`` of large binary, null where a key is missing.

        >>> store = isotherm.Store()
        >>> store.put("a", "1")
        True
        >>> store.get_many(["a", "x"]), len(store.get_many(["a", "x"], arrow=True))
        ([b'1', None], 2)
        """
        return ArrowColumn(self._core.get_arrow(keys)) if arrow else self._core.get_many(keys)

    def get_items(self, keys: Iterable[Text]) -> list[Item | None]:
        """The values with their versions and expiries: a list of ``Item`` or None.

        >>> isotherm.Store().get_items(["a"])
        [None]
        """
        return self.pipeline()._all((_GET_ITEM, key, None, 0, 0, 0) for key in keys)

    def put_many(self, keys: Strings, values: Strings, *, ttl: float | None = None,
                 if_absent: bool = False, if_present: bool = False, versions: Any = None,
                 keep_ttl: bool = False, on_full: str = "raise") -> Mask:
        """Stores values; returns which were stored, a bool array.

        Args:
            keys, values: columns as of ``get_many``, of equal lengths.
            versions: a uint64 array; only where an item has this version still.
            on_full: ``"raise"`` stores what it can and raises ``TableFullError``; ``"mask"`` only
                returns which were stored.

        >>> isotherm.Store().put_many(["a", "a"], ["1", "2"], if_absent=True)
        array([ True, False])
        """
        check_on_full(on_full)
        options = _conditions(if_absent, if_present, versions, keep_ttl)
        statuses = self._core.put_many(keys, values, options, _expiry(ttl), versions)
        return check_statuses(statuses, on_full)

    def erase_many(self, keys: Strings, *, versions: Any = None) -> Mask:
        """Removes keys; returns which were there, a bool array.

        >>> isotherm.Store().erase_many(["a"])
        array([False])
        """
        return check_statuses(self._core.erase_many(keys, versions), "raise")

    def expire_many(self, keys: Strings, ttl: float | None) -> Mask:
        """Lets keys expire in ``ttl`` seconds, or never (None); which were there, a bool array.

        >>> isotherm.Store().expire_many(["a"], 60)
        array([False])
        """
        return check_statuses(self._core.expire_many(keys, _expiry(ttl)), "raise")

    def contains_many(self, keys: Strings) -> Mask:
        """Which keys are there, a bool array.

        >>> isotherm.Store().contains_many(["a"])
        array([False])
        """
        return self._core.contains_many(keys)

    def pipeline(self, *, atomic: bool = False) -> "Pipeline":
        """Requests that are collected and then run together, in order.

        With ``atomic`` they take effect at once: other pipelines with ``atomic`` see all of them done or
        none. A single ``get``, ``get_many`` or ``scan`` of another thread may come in between.

        >>> pipe = isotherm.Store().pipeline()
        >>> pipe.put("n", "41").add("n").get("n").execute()
        [True, 42, b'42']
        """
        return Pipeline(self._core, bool(atomic))

    def asyncio(self) -> "AsyncStore":
        """The same requests for asyncio: an ``AsyncStore``.

        >>> isotherm.Store().asyncio().batches
        0
        """
        return AsyncStore(self)

    def keys(self, chunk: int = 65536) -> Iterator[list[bytes]]:
        """Goes over the keys in lists of at least about ``chunk``, in no order.

        Keys that are there from the beginning to the end come at least once.

        >>> store = isotherm.Store()
        >>> store["a"] = "1"
        >>> list(store.keys())
        [[b'a']]
        """
        chunk, cursor = checked_chunk(chunk), None
        while cursor != 0:
            cursor, keys = self._core.scan(cursor or 0, chunk)
            if keys:
                yield keys

    def clear(self) -> None:
        """Removes all keys.

        >>> isotherm.Store().clear()
        """
        self._core.clear()

    def maintain(self) -> bool:
        """A bounded step of background work (expiry, eviction, growth); calls do it, too. Call it
        now and then when idle; True while more waits.

        >>> isotherm.Store().maintain()
        False
        """
        return self._core.maintain()

    def stats(self) -> dict[str, int]:
        """A dict of counts: ``entries`` and ``memory_bytes``, which the cap limits.

        >>> isotherm.Store().stats()["entries"]
        0
        """
        return {"entries": len(self), "memory_bytes": self._core.memory_bytes}

    def __len__(self):
        return len(self._core)

    def __contains__(self, key):
        return bool(self._core.contains_many([key])[0])

    def __getitem__(self, key):
        value = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key, value):
        self.put(key, value)

    def __delitem__(self, key):
        if not self.erase(key):
            raise KeyError(key)

    def __iter__(self):
        raise TypeError("a Store is not iterable by key; go over keys(), chunk by chunk")

    def __repr__(self):
        return f"<isotherm.Store, {len(self)} entries>"


class Pipeline(_Requests):
    """Requests that run together, in order; see ``Store.pipeline``."""

    def __init__(self, core, atomic):
        self._core = core
        self._atomic = atomic
        self._requests = []

    def _request(self, request):
        self._requests.append(request)
        return self

    def _all(self, requests):
        self._requests += requests
        return self.execute()

    def __len__(self):
        return len(self._requests)

    def execute(self, *, raise_errors: bool = True) -> list[Any]:
        """Runs what was collected and returns a list of replies; the pipeline is empty then.

        Where a request fails, the others have run. The first failure is raised, or, without
        ``raise_errors``, exceptions stand in the list.

        >>> pipe = isotherm.Store().pipeline().put("a", "x").add("a")
        >>> pipe.execute(raise_errors=False)
        [True, ValueError('the value is no decimal integer')]
        """
        requests, self._requests = self._requests, []
        replies = self._core.run(requests, self._atomic)
        replies = [_answered(*pair) for pair in zip(requests, replies)]
        if raise_errors:
            _errors.raise_first(replies)
        return replies


class AsyncStore(_Requests):
    """The requests of a ``Store`` for the tasks of an event loop.

    ``await store.get(key)`` and so on. Requests of all tasks that the loop runs in one turn go to the
    store as one batch, which it starts without waiting for it. An AsyncStore belongs to one event
    loop. Requests of one task run in order.

    >>> import asyncio
    >>> async def main():
    ...     store = isotherm.Store().asyncio()
    ...     await store.put("n", "1")
    ...     return await asyncio.gather(store.get("n"), store.get("x"))
    >>> asyncio.run(main())
    [b'1', None]
    """

    most_rows = 65536
    """Rows of a batch at most; more go in the next one."""

    def __init__(self, store):
        self._submitter = _core.Submitter(store._core)
        self._loop = None
        self._waiting = []  # (request, future), in order
        self._scheduled = False
        self._rows = self.most_rows  # of the next batch, fewer while one that fails is looked for
        self.batches = 0
        """How many batches were started."""

    def _request(self, request):
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise RuntimeError("this AsyncStore belongs to another event loop; make one for each")
        future = loop.create_future()
        self._waiting.append((request, future))
        if not self._scheduled:
            self._scheduled = True
            loop.call_soon(self._start)
        return future

    def _start(self):
        rows, self._waiting = self._waiting[:self._rows], self._waiting[self._rows:]
        try:
            submission = self._submitter.start([request for request, _ in rows])
        except BaseException as error:
            if len(rows) == 1:
                self._fail(rows, error)
            else:  # only who asked for what cannot be started is told so
                self._rows = len(rows) // 2
                self._waiting = rows + self._waiting
            self._next()
            return
        if submission is None:  # too much is under way
            self._waiting = rows + self._waiting
            self._loop.call_later(0.001, self._start)
            self._submitter.poll()
            return
        self._rows = self.most_rows
        self.batches += 1
        self._look(submission, rows)

    def _look(self, submission, rows):
        """Gives out the replies; those behind it wait until it has ended, so that order is kept."""
        self._submitter.poll()
        if not submission.done():
            self._loop.call_later(0.0005, self._look, submission, rows)
            return
        try:
            replies = submission.results()
        except BaseException as error:
            self._fail(rows, error)
            replies = []
        for (request, future), reply in zip(rows, replies):
            if future.done():  # cancelled
                continue
            if isinstance(reply, BaseException):
                future.set_exception(reply)
            else:
                future.set_result(_answered(request, reply))
        self._next()

    def _fail(self, rows, error):
        self._rows = self.most_rows
        for _, future in rows:
            if not future.done():
                future.set_exception(error)

    def _next(self):
        if self._waiting:
            self._loop.call_soon(self._start)
        else:
            self._scheduled = False
