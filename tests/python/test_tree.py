"""A server with a tree that is killed has, when it starts again, all that it had answered.

As test_journal.py, with little memory and several times as much data, so that runs are taken into
the files all the time, and most of what is asked for lies there. More kills: ISOTHERM_KILLS=200.
"""

import random
import threading

import pytest
import redis

import servers
from test_journal import CLIENTS, KILLS, Counting, check, folder, start  # noqa: F401

FILLERS = 300
DIGITS = 2000


class Filling(threading.Thread):
    """One client: sets large values, and adds to them, until it is cut off."""

    def __init__(self, number, port, asked, answered):
        super().__init__()
        self.random = random.Random(number)
        self.number = number
        self.port = port
        self.asked = asked
        self.answered = answered

    def run(self):
        client = redis.Redis(port=self.port)
        try:
            while True:
                names = [f"{self.number}:fill:{i}" for i in self.random.sample(range(FILLERS), 20)]
                pipeline = client.pipeline(transaction=False)
                for name in names:
                    self.asked[name] = self.asked.get(name, 0) + 1
                    pipeline.set(name, str(self.asked[name]).zfill(DIGITS))
                pipeline.execute()
                for name in names:
                    self.answered[name] = self.asked[name]
        except (redis.ConnectionError, redis.TimeoutError, OSError):
            pass


@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_nothing_answered_is_lost_when_a_server_with_a_tree_is_killed(folder, policy):  # noqa: F811
    flags = ["--appendfsync", policy, "--tree", f"{folder}/tree", "--maxmemory", "2mb"]
    asked, answered = {}, {}
    pause = random.Random(policy)
    for _ in range(max(2, KILLS // 2)):
        server = start(folder, *flags)
        try:
            check(server, asked, answered)
            clients = [Counting(i, server.resp_port, asked, answered) for i in range(CLIENTS)]
            clients += [Filling(i, server.resp_port, asked, answered) for i in range(2)]
            for client in clients:
                client.start()
            clients[0].join(pause.uniform(0.1, 0.5))
            its = redis.Redis(port=server.resp_port)
            assert servers.soon(lambda: its.info("persistence")["tree_runs_taken_in"] > 0)
        finally:
            server.kill()
        for client in clients:
            client.join()
    with start(folder, *flags) as server:
        check(server, asked, answered)
        names = [name for name in asked if answered.get(name, 0) > 0]
        right = [name for name in names if name.endswith(":left")]  # and what is set with it
        assert redis.Redis(port=server.resp_port).dbsize() == len(names) + len(right)
