"""Exceptions of the package, and which of them a status of the store is."""

# Numbers of isotherm::Status (include/isotherm/status.h).
OK = 1
NOT_FOUND = 2
CONDITION_FAILED = 3
TOO_LARGE = 9
OUT_OF_MEMORY = 10


class TableFullError(MemoryError):
    """The table or store is at its memory cap, and some keys found no room.

    All other requests of the call took effect. ``on_full="mask"`` reports which instead.
    """


_ERRORS = {
    4: (TypeError, "the key has a value that this operation does not work on"),
    5: (ValueError, "the value is no decimal integer"),
    6: (OverflowError, "the sum would leave the range of a signed 64-bit integer"),
    TOO_LARGE: (ValueError, "the key or the value is longer than the table or store allows "
                "(of a Store: max_value_bytes)"),
    OUT_OF_MEMORY: (TableFullError, "the store is full: no room for a key"),
    11: (RuntimeError, "a queue is full for the moment; send the request again"),
    12: (ValueError, "a malformed request"),
}


def of_status(status):
    """The exception (not raised) that stands for a status."""
    kind, text = _ERRORS.get(status, (RuntimeError, f"the store answered status {status}"))
    return kind(text)


def raise_first(replies):
    """Raises the first exception among the replies, if there is one, and then forgets all of them.

    An exception leads to the frames that it went through. If one of these had it as well, what else
    they have would stay until cycles are collected, a value of any length included.
    """
    error = next((reply for reply in replies if isinstance(reply, BaseException)), None)
    if error is None:
        return
    replies.clear()
    try:
        raise error
    finally:
        del error
