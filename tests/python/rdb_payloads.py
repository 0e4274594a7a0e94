"""Payloads for RESTORE: strings as RDB keeps them, and broken ones with the right checksum."""

import struct

VERSION = 10
POLYNOMIAL = 0x95AC9329AC4BC9B5


def make_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (POLYNOMIAL if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = make_table()


def crc64(data):
    crc = 0
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return crc


def seal(content, version=VERSION):
    content += struct.pack("<H", version)
    return content + struct.pack("<Q", crc64(content))


def length(count):
    if count < 1 << 6:
        return bytes([count])
    if count < 1 << 14:
        return struct.pack(">H", count | 0x4000)
    return b"\x80" + struct.pack(">I", count)


def plain(text):
    return b"\0" + length(len(text)) + text


def packed(parts, size):
    return b"\0\xc3" + length(len(parts)) + length(size) + parts


GOOD = [
    plain(b""), plain(b"v"), plain(b"17"), plain(b"x" * 63), plain(b"y" * 64), plain(b"z" * 20_000),
    b"\0\xc0\x11", b"\0\xc0\xff", b"\0\xc1\x00\x80", b"\0\xc2\x00\x00\x00\x80",
    b"\0\x80\0\0\0\x03abc", b"\0\x81\0\0\0\0\0\0\0\x03abc",
    packed(b"\x01ab\xe0\x5b\x01", 102), packed(b"\x02abc\x20\x02\x40\x02", 10),
    plain(b"trailing") + b"junk",
]
BAD = [
    b"", b"\0", b"\x01" + length(0), b"\x63abc", b"\0\xc0", b"\0\xc1\x01", b"\0\xc4\x01",
    b"\0\x90", b"\0\x7f", b"\0\xc3", packed(b"\x01ab\xe0\x5b\x01", 101),
    packed(b"\x01ab\xe0\x5b\x01", 103), packed(b"\x20\x00", 3), packed(b"\x05ab", 6),
    packed(b"\x01ab\xe0", 9),
]


def draw(draw):
    roll = draw.random.random()
    if roll < 0.6:
        return seal(draw.random.choice(GOOD))
    if roll < 0.75:
        return seal(draw.random.choice(BAD))
    if roll < 0.8:
        return seal(draw.random.choice(GOOD), draw.random.choice([1, 9, 11, 65535]))
    payload = bytearray(seal(draw.random.choice(GOOD)))
    if roll < 0.95:
        payload[draw.random.randrange(len(payload))] ^= 1 << draw.random.randrange(8)
        return bytes(payload)
    return bytes(payload[:draw.random.randrange(len(payload))])
