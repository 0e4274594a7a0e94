"""A disk that is really full, a small one of memory: writes are refused, reads go on, also after a
crash and a start on the full disk, and a little room lets writes go on.
"""

import contextlib
import os
import subprocess

import pytest
import redis

import servers

MIB = 1 << 20


@pytest.fixture
def small_disk(tmp_path):
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160m", "none", tmp_path],
                             capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip("this user may not mount a small disk")
    yield str(tmp_path)
    subprocess.run(["umount", "-l", tmp_path], check=True)


def fill(folder):
    """Takes all room there is; the file that has it."""
    path = f"{folder}/others"
    with open(path, "ab", buffering=0) as others:
        piece = MIB
        while piece:
            try:
                others.write(bytes(piece))
            except OSError:
                piece //= 2
    return path


@contextlib.contextmanager
def crashing(folder, *flags):
    """A client of a server that ends at once, as by a crash."""
    durable = ["--dir", folder, "--appendonly", "yes", "--appendfsync", "always"]
    with servers.Isotherm(*durable, *flags) as server:
        yield redis.Redis(port=server.resp_port, socket_timeout=servers.LONGEST_SECONDS)
        server.kill()


def fill_segment(client, prefix, value):
    """Writes until the segment of the journal is full, and then there is no room for another; how many
    were answered."""
    for number in range(100_000):
        try:
            client.set(f"{prefix}:{number}", value)
        except redis.ResponseError as error:
            assert str(error).startswith("MISCONF") and "No space left" in str(error)
            return number
    pytest.fail("no write was refused")


@pytest.mark.parametrize("tree", [False, True], ids=["memory", "tree"])
def test_a_store_lives_on_a_full_disk(small_disk, tree):
    flags = ["--tree", f"{small_disk}/tree"] if tree else []
    with crashing(small_disk, *flags) as client:
        client.set("before", "1")
        others = fill(small_disk)
        large = fill_segment(client, "large", bytes(MIB))
        assert client.get("before") == b"1"

    fill(small_disk)
    with crashing(small_disk, *flags) as client:
        assert client.get("before") == b"1"
        assert all(client.strlen(f"large:{i}") == MIB for i in range(large))
        fill(small_disk)  # what the start gave back
        small = fill_segment(client, "small", bytes(1000))
        os.truncate(others, os.path.getsize(others) - 6 * MIB)
        assert servers.soon(lambda: client.info("persistence")["aof_last_write_status"] == "ok")
        assert client.set("after", "2")

    with crashing(small_disk, *flags) as client:
        assert client.get("before") == b"1" and client.get("after") == b"2"
        assert all(client.strlen(f"small:{i}") == 1000 for i in range(small))
