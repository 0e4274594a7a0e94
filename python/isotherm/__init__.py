"""Isotherm: tables that take and give arrays, and a store of byte strings.

``Table`` is a dictionary of 64-bit or byte-string keys to numbers, rows, or byte strings; ``Store``
has byte strings with expiry, versions and eviction.
"""

from . import _kinds, dedup  # noqa: F401: _kinds makes tables
from ._arrow_column import ArrowColumn
from ._device_arrays import DeviceArray
from ._device_strings import DeviceStrings
from ._devices import gpu_count
from ._errors import TableFullError
from .store import AsyncStore, Item, Pipeline, Store
from .table import Table

__version__ = "0.1.0"
__all__ = ["ArrowColumn", "AsyncStore", "DeviceArray", "DeviceStrings", "Item", "Pipeline", "Store",
           "Table", "TableFullError", "dedup", "gpu_count"]
