#!/usr/bin/env python3
"""Runs isotherm-packets on a GPU: a capture of frames that this script makes, whose replies it reads,
and a conversation over a UDP socket. Prints "2 passed", or what is wrong.

Usage: check_packets.py [program]
"""

import pathlib
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


def check_socket(program):
    with subprocess.Popen([program, "--listen", "127.0.0.1", "--port", "0", "--amplification", "0"],
                          stdout=subprocess.PIPE, text=True) as server:
        port = int(server.stdout.readline().split()[2])
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(60)
            client.connect(("127.0.0.1", port))
            for text, answer in ((b"get k\r\n", b"END\r\n"),
                                 (b"set k 7 0 5\r\nvalue\r\n", b"STORED\r\n"),
                                 (b"get k\r\n", b"VALUE k 7 5\r\nvalue\r\nEND\r\n"),
                                 (b"delete k\r\n", b"DELETED\r\n"),
                                 (b"get k\r\n", b"END\r\n")):
                client.send(struct.pack(">4H", 9, 0, 1, 0) + text)
                assert client.recv(2048)[8:] == answer, text
        server.send_signal(signal.SIGINT)
        print(server.stdout.read(), end="")
        assert server.wait() == 0


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else "build/release/isotherm-packets"
    check_capture(program)
    check_socket(program)
    print("2 passed")


if __name__ == "__main__":
    main()
