"""Programs of libmemcached, unmodified, by UDP and by TCP (Debian's libmemcached-tools)."""

import re
import subprocess

import pytest

import servers


@pytest.fixture
def port():
    """Of a server that takes both, since these programs know one number for the two."""
    number = servers.free_port()
    with servers.Server([servers.isotherm_binary(), "--port", "off", "--threads", "2", "--memcached-port", str(number),
                         "--memcached-udp-port", str(number)]) as server:
        server.await_ready(lambda: servers.answers(number, b"version\r\n", b"VERSION"))
        yield number


def run(program, port, *flags):
    done = subprocess.run([program, f"--servers=127.0.0.1:{port}", *flags], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_file_that_is_stored_by_udp_is_read_by_tcp(port, tmp_path):
    (tmp_path / "greeting").write_text("hello, " * 100)
    run("memccp", port, "--udp", str(tmp_path / "greeting"))
    # By UDP it does not wait for a reply.
    assert servers.soon(lambda: "hello" in subprocess.run(
        ["memccat", f"--servers=127.0.0.1:{port}", "greeting"], capture_output=True, text=True, timeout=60).stdout)
    assert run("memccat", port, "greeting").rstrip("\n") == "hello, " * 100


@pytest.mark.parametrize("how", [["--udp"], ["--facebook", "--division=10"], ["--division=10"]],
                         ids=["udp", "multi-gets by udp, sets by tcp", "tcp"])
def test_memcaslap_misses_and_loses_nothing(port, how):
    printed = run("memcaslap", port, *how, "--threads=1", "--concurrency=4", "--execute_number=20000", "--verify=0.5")
    counts = dict(re.findall(r"^(\w+): (\d+)$", printed, re.MULTILINE))
    assert int(counts["cmd_get"]) > 10_000 and int(counts["cmd_set"]) > 1_000, printed
    for lost in ("get_misses", "verify_misses", "verify_failed", "packet_drop", "udp_timeout"):
        assert counts.get(lost, "0") == "0", printed
    assert "get_misses" in counts, printed
