"""What Feast's own tests are told of our online store, by FULL_REPO_CONFIGS_MODULE
(tests/run_feast_tests.sh).

Tests that name the stores which they are for run with ours, where what they ask is asked of any store:
those for Redis (expiry, older rows that come later, views that are deleted), for MongoDB (a push by
asyncio), and for SQLite (types).
"""

from tests.universal.feature_repos.universal.data_sources.file import FileDataSourceCreator

_STORE = ({"type": "isotherm.feast.IsothermOnlineStore", "name": "feast's tests"}, None)
_STANDS_FOR = ("isotherm", "redis", "mongodb", "sqlite")


class _Stores(dict):
    def __contains__(self, name):
        return name in _STANDS_FOR

    def get(self, name, default=None):
        return _STORE if name in self else default


AVAILABLE_OFFLINE_STORES = [("local", FileDataSourceCreator)]
AVAILABLE_ONLINE_STORES = _Stores(isotherm=_STORE)
