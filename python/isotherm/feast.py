"""An online store for Feast that keeps features in this process.

In ``feature_store.yaml``::

    online_store:
        type: isotherm.feast.IsothermOnlineStore
        memory: 4gb          # of each feature view; left out: no cap

All features of an entity are one value, so reading 90 features of 500 entities is 500 lookups in
one call. ``get_online_features`` gets whole columns of them, without a Python object for each value (where
Feast lets a store answer all of a request, as 0.67 does), and the rows of ``online_read`` are
parsed when they are looked at. The data is that of the process: whoever serves features materialises them there. Stores of
equal ``name`` in one process share it.
"""

import struct
import threading
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Literal, Optional

from feast import utils
from feast.infra.key_encoding_utils import serialize_entity_key
from feast.infra.online_stores.online_store import OnlineStore
from feast.infra.supported_async_methods import SupportedAsyncMethods
from feast.protos.feast.types.Value_pb2 import RepeatedValue, Value
from feast.repo_config import FeastConfigBaseModel

from . import _core
from .store import Store

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_TIME = struct.Struct("<q")  # microseconds since the epoch, before the values


class IsothermOnlineStoreConfig(FeastConfigBaseModel):
    """``memory`` caps each feature view; ``evict`` is that of ``isotherm.Store``. An entity goes
    ``key_ttl_seconds`` after its last write, as with Feast's Redis store; None: it stays."""

    type: Literal["isotherm.feast.IsothermOnlineStore"] = "isotherm.feast.IsothermOnlineStore"
    name: str = "default"
    memory: Optional[str] = None
    evict: str = "noeviction"
    key_ttl_seconds: Optional[float] = None


class _Row(Mapping):
    """The features of an entity by name; those of ``wanted``, where that is not None."""

    __slots__ = ("_blob", "_names", "_wanted", "_values")

    def __init__(self, blob, names, wanted):
        self._blob, self._names, self._wanted, self._values = blob, names, wanted, None

    def _parsed(self):
        if self._values is None:
            values = dict(zip(self._names, _parse(self._blob)))
            if self._wanted is not None:
                values = {name: values[name] for name in self._wanted if name in values}
            self._values = values
        return self._values

    def __getitem__(self, name):
        return self._parsed()[name]

    def __iter__(self):
        return iter(self._parsed())

    def __len__(self):
        return len(self._parsed())

    def items(self):
        return self._parsed().items()

    def __repr__(self):
        return repr(self._parsed())


class _View:
    """One feature view: values of an entity in the order of ``names``, which only grows."""

    def __init__(self, config):
        self.store = Store(memory=config.memory, evict=config.evict)
        self.names = []
        self.lock = threading.Lock()  # of writers

    def write(self, rows, ttl):
        """Rows are (key, values, microseconds); the newest of each key stays, for ``ttl`` seconds."""
        newest = {}
        for key, values, time in rows:
            if key not in newest or time >= newest[key][1]:
                newest[key] = (values, time)
        with self.lock:
            for values, _ in newest.values():
                self.names += [name for name in values if name not in self.names]
            keys, blobs = [], []
            for key, old in zip(newest, self.store.get_many(list(newest))):
                values, time = newest[key]
                if old is not None:
                    if _TIME.unpack_from(old)[0] > time:
                        continue
                    if len(values) < len(self.names):
                        values = dict(zip(self.names, _parse(old))) | values
                keys.append(key)
                blobs.append(_TIME.pack(time) + RepeatedValue(
                    val=[values.get(name) or Value() for name in self.names]).SerializeToString())
            self.store.put_many(keys, blobs, ttl=ttl)

    def read(self, keys, wanted):
        names = self.names
        wanted = None if wanted is None or wanted == names else list(wanted)
        return [(None, None) if blob is None else
                (_EPOCH + timedelta(microseconds=_TIME.unpack_from(blob)[0]),
                 _Row(blob, names, wanted)) for blob in self.store.get_many(keys)]

    def columns(self, keys, places, wanted):
        """``wanted`` features of the rows ``keys[places[i]]``: (results of a response, values)."""
        place_of = {name: place for place, name in enumerate(self.names)}
        return _core._feature_columns(self.store.get_many(keys), places,
                                      [place_of.get(name, -1) for name in wanted])


def _parse(blob):
    return RepeatedValue.FromString(blob[_TIME.size:]).val[:]


def _count_statuses(view, found, missing):
    try:
        from feast.metrics import track_feature_statuses

        track_feature_statuses(view, found, missing)
    except Exception:  # as in Feast: what is counted fails no read
        pass


def _microseconds(time):
    if time.tzinfo is None:
        time = time.replace(tzinfo=timezone.utc)
    return (time - _EPOCH) // timedelta(microseconds=1)


class IsothermOnlineStore(OnlineStore):
    """Feast's online store on an ``isotherm.Store`` for each feature view."""

    _views = defaultdict(dict)  # of all stores of a name: (project, view) → _View
    _lock = threading.Lock()

    @property
    def async_supported(self):
        return SupportedAsyncMethods(read=True, write=True)

    def _view(self, config, table):
        place = (config.project, table.name)
        views = self._views[config.online_store.name]
        with self._lock:
            if place not in views:
                views[place] = _View(config.online_store)
            return views[place]

    def _keys(self, config, entity_keys):
        version = config.entity_key_serialization_version
        return [serialize_entity_key(key, entity_key_serialization_version=version)
                for key in entity_keys]

    def online_write_batch(self, config, table, data, progress):
        keys = self._keys(config, [row[0] for row in data])
        self._view(config, table).write((
            (key, values, _microseconds(event_time))
            for key, (_, values, event_time, _) in zip(keys, data)),
            config.online_store.key_ttl_seconds)
        if progress:
            progress(len(data))

    def online_read(self, config, table, entity_keys, requested_features=None):
        return self._view(config, table).read(self._keys(config, entity_keys), requested_features)

    # Feast's get_online_features asks for all that it reads by these two.

    def _read_features_per_fv(self, config, grouped_refs, join_key_values,
                              entity_name_to_join_key_map, online_features_response,
                              full_feature_names, include_feature_view_version_metadata=False):
        response = online_features_response
        for table, wanted in grouped_refs:
            entities, groups, rows = utils._get_unique_entities(table, join_key_values,
                                                                entity_name_to_join_key_map)
            # What a response says of a view besides its features.
            utils._populate_response_from_feature_data([], [], [], response, full_feature_names,
                                                       table, rows,
                                                       include_feature_view_version_metadata)
            view = table.projection.name_to_use()
            response.metadata.feature_names.val.extend(
                f"{view}__{name}" if full_feature_names else name for name in wanted)
            places = [0] * rows
            for place, group in enumerate(groups):
                for row in group:
                    places[row] = place
            keys = self._keys(config, utils._get_entity_key_protos(entities))
            results, found = self._view(config, table).columns(keys, places, wanted)
            response.MergeFromString(results)
            _count_statuses(table.name, found, len(wanted) * rows - found)

    async def _read_features_per_fv_async(self, *arguments, **named):
        self._read_features_per_fv(*arguments, **named)

    async def online_write_batch_async(self, config, table, data, progress):
        self.online_write_batch(config, table, data, progress)

    async def online_read_async(self, config, table, entity_keys, requested_features=None):
        return self.online_read(config, table, entity_keys, requested_features)

    def update(self, config, tables_to_delete, tables_to_keep, entities_to_delete,
               entities_to_keep, partial):
        self.teardown(config, tables_to_delete, entities_to_delete)
        for table in tables_to_keep:
            self._view(config, table)

    def teardown(self, config, tables, entities):
        with self._lock:
            for table in tables:
                self._views[config.online_store.name].pop((config.project, table.name), None)
