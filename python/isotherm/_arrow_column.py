"""Columns of byte strings that go out by Arrow's C interfaces."""


class ArrowColumn:
    """Byte strings in Arrow's layout, for any library that imports by one of Arrow's C interfaces.

    ``pyarrow.array(column)`` or ``polars.Series(column)`` takes it over without a copy. It has the data
    interface, the stream interface (as one array), and both for devices.
    """

    def __init__(self, core):
        self._core = core

    def __len__(self):
        return len(self._core)

    def _found(self):
        return self._core.found()

    def __arrow_c_array__(self, requested_schema=None):
        return self._core.array()

    def __arrow_c_stream__(self, requested_schema=None):
        return self._core.stream()

    def __arrow_c_device_array__(self, requested_schema=None, **named):
        return self._core.device_array()

    def __arrow_c_device_stream__(self, requested_schema=None, **named):
        return self._core.device_stream()
