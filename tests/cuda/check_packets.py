#!/usr/bin/env python3
"""Runs isotherm-packets on a GPU: a capture of frames that this script makes, whose replies it reads;
a conversation over a UDP socket; and others across a pair of interfaces, of which the program has one in
a network of its own, by a ring and by AF_XDP (skipped where the system has no such networks). Prints
"4 passed", or what is wrong.

Usage: check_packets.py [program]
"""

import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile

CLIENT, SERVER, PORT = b"\x0a\0\0\1", b"\x0a\0\0\x63", 11211
KEYS = 2000


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def frame_of(text, number):
    datagram = struct.pack(">4H", number & 0xFFFF, 0, 1, 0) + text
    head = struct.pack(">4H", 40000, PORT, 8 + len(datagram), 0)
    pseudo = CLIENT + SERVER + struct.pack(">2H", 17, 8 + len(datagram))
    udp_sum = ~checksum(pseudo + head + datagram) & 0xFFFF or 0xFFFF
    head = head[:6] + struct.pack(">H", udp_sum)
    ip = struct.pack(">2B3H2BH", 0x45, 0, 28 + len(datagram), 0, 0, 64, 17, 0) + CLIENT + SERVER
    ip = ip[:10] + struct.pack(">H", ~checksum(ip) & 0xFFFF) + ip[12:]
    return b"\2SERVE\2CLIEN\x08\0" + ip + head + datagram


def capture_of(texts):
    capture = struct.pack("<I2H4I", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, 1)
    for number, text in enumerate(texts):
        frame = frame_of(text, number)
        capture += struct.pack("<4I", 0, number, len(frame), len(frame)) + frame
    return capture


def replies_of(capture):
    at = 24
    while at < len(capture):
        size = struct.unpack_from("<I", capture, at + 8)[0]
        frame = capture[at + 16:at + 16 + size]
        at += 16 + size
        udp = frame[34:]
        pseudo = frame[26:34] + struct.pack(">2H", 17, len(udp))
        right = (checksum(frame[14:34]) == 0xFFFF and checksum(pseudo + udp) == 0xFFFF
                 and frame[26:34] == SERVER + CLIENT and len(udp) == struct.unpack(">H", udp[4:6])[0])
        yield udp[16:] if right else b"a wrong frame"


def check_capture(program):
    values = [(b"key-%d" % i, b"value of %d" % (i * i)) for i in range(KEYS)]
    texts = [b"set %s 0 0 %d\r\n%s\r\n" % (key, len(value), value) for key, value in values]
    expected = [b"STORED\r\n"] * KEYS
    for _ in range(3):
        texts += [b"get %s\r\n" % key for key, _ in values]
        expected += [b"VALUE %s 0 %d\r\n%s\r\nEND\r\n" % (key, len(value), value)
                     for key, value in values]
    with tempfile.TemporaryDirectory() as folder:
        into, out = pathlib.Path(folder, "in.pcap"), pathlib.Path(folder, "out.pcap")
        into.write_bytes(capture_of(texts))
        told = subprocess.run([program, into, out, "--amplification", "0"], check=True,
                              capture_output=True, text=True).stdout
        print(told, end="")
        # Gets of batches that went before all was put are answered by the CPU.
        assert int(told.split("batches: ")[1].split()[0]) > KEYS, told
        found = list(replies_of(out.read_bytes()))
    assert found == expected, next((f, e) for f, e in zip(found + [b""], expected) if f != e)


def talk(command, address):
    """Returns what the program says of a conversation with it; nothing where the system forbids it."""
    with subprocess.Popen(command + ["--amplification", "0"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as server:
        line = server.stdout.readline()
        print(line, end="")
        if not line:
            error = server.stderr.read()
            assert "not permitted" in error or "not supported" in error, error
            return ""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(60)
            client.connect((address, int(line.split()[2])))
            long = b"x" * 300
            longest = long * 13  # which IP cuts
            for text, answer in ((b"get k\r\n", b"END\r\n"),
                                 (b"set k 7 0 5\r\nvalue\r\n", b"STORED\r\n"),
                                 (b"get k\r\n", b"VALUE k 7 5\r\nvalue\r\nEND\r\n"),
                                 (b"set l 0 0 3900\r\n%s\r\n" % longest, b"STORED\r\n"),
                                 (b"set l 0 0 300\r\n%s\r\n" % long, b"STORED\r\n"),
                                 (b"get l\r\n", b"VALUE l 0 300\r\n%s\r\nEND\r\n" % long),
                                 (b"delete k\r\n", b"DELETED\r\n"),
                                 (b"get k\r\n", b"END\r\n")):
                client.send(struct.pack(">4H", 9, 0, 1, 0) + text)
                assert client.recv(2048)[8:] == answer, text
            for _ in range(1000):
                client.send(struct.pack(">4H", 9, 0, 1, 0) + b"get l\r\n")
                assert client.recv(2048)[8:] == b"VALUE l 0 300\r\n%s\r\nEND\r\n" % long
        server.send_signal(signal.SIGINT)
        told = server.stdout.read()
        print(told, end="")
        assert server.wait() == 0
        return told


def check_socket(program):
    assert talk([program, "--listen", "127.0.0.1", "--port", "0"], "127.0.0.1")


def check_interface(program, how):
    """False: the system has no networks of their own, or forbids it."""
    network = f"isotherm-{os.getpid()}"

    def run(*words):
        return subprocess.run(["ip", *words], capture_output=True, check=False).returncode == 0

    if shutil.which("ip") is None:
        return False
    try:
        if not run("netns", "add", network):
            return False
        inside = ["netns", "exec", network, "ip"]
        if not (run("link", "add", "isotherm0", "type", "veth", "peer", "name", "isotherm1", "netns",
                    network) and run("address", "add", "10.79.0.1/24", "dev", "isotherm0")
                and run("link", "set", "isotherm0", "up")
                and run(*inside, "address", "add", "10.79.0.2/24", "dev", "isotherm1")
                and run(*inside, "link", "set", "isotherm1", "up")):
            return False
        told = talk(["ip", "netns", "exec", network, program, how, "isotherm1"], "10.79.0.2")
        assert not told or int(told.split("batches: ")[1].split()[0]) >= 1000, told
        return bool(told)
    finally:
        run("netns", "delete", network)


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else "build/release/isotherm-packets"
    check_capture(program)
    check_socket(program)
    skipped = [how for how in ("--ring", "--xdp") if not check_interface(program, how)]
    if skipped:
        print(f"{' and '.join(skipped)}: skipped: the system has no network namespaces, or forbids it")
    print(f"{4 - len(skipped)} passed")


if __name__ == "__main__":
    main()
