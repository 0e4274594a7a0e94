"""Memcached requests by UDP: the same datagram to two servers, the replies of both.

A datagram ends with `version`, whose reply is the last. Each request has a reply of its own; the
values of a `get` of several keys come as one reply from Isotherm, and as one each from memcached,
with empty datagrams for misses before them. So what is compared is the text, and, where every
request has one reply from both, how it is divided into datagrams.
"""

import socket
import struct

import wire

HEADER = struct.Struct("!HHHH")
LONGEST_REQUEST = 1300  # that needs no fragments anywhere
MOST_REQUESTS = 4       # so that replies fit the buffer of a socket
MOST_WORDS = 8
RECEIVE_BUFFER = 4 << 20


def fits(requests):
    return (len(requests) <= MOST_REQUESTS and sum(map(len, requests)) <= LONGEST_REQUEST
            and all(isinstance(request, bytes)
                    and request.split(b"\r\n", 1)[0].count(b" ") < MOST_WORDS
                    for request in requests))


class Replies:
    """The datagrams that a request is answered with."""

    def __init__(self):
        self.messages = [[]]
        self.frames = []

    def add(self, datagram, request_id):
        found_id, number, count, zero = HEADER.unpack_from(datagram)
        payload = datagram[HEADER.size:]
        if found_id != request_id or zero != 0 or len(datagram) > 1400:
            raise wire.Closed(f"a datagram that is no reply: {datagram[:60]!r}")
        if not payload and count == 0:
            return
        if number != len(self.messages[-1]) or number >= count:
            raise wire.Closed(f"datagram {number} of {count} behind {self.messages[-1]!r}")
        self.frames.append((number, count, len(payload)))
        self.messages[-1].append(payload)
        if number + 1 == count:
            self.messages.append([])

    def text(self):
        return b"".join(b"".join(message) for message in self.messages)

    def ended(self):
        return len(self.messages) > 1 and self.messages[-2][0].startswith(b"VERSION ")


class Datagrams:
    """A socket for each of two servers."""

    def __init__(self, ports):
        self.sockets = []
        self.request_id = 0
        for port in ports:
            one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
            one.settimeout(wire.TIMEOUT_SECONDS)
            one.connect(("127.0.0.1", port))
            self.sockets.append(one)

    def pipeline(self, requests):
        """The replies of both, without that to `version`, and whether these are divided alike."""
        self.request_id = (self.request_id + 1) % (1 << 16)
        datagram = HEADER.pack(self.request_id, 0, 1, 0) + b"".join(requests) + b"version\r\n"
        for one in self.sockets:
            one.send(datagram)
        both = wire.Pair.both("reading from", lambda side: self.read(self.sockets[side]))
        texts = [replies.text() for replies in both]
        return [text[:text.rindex(b"VERSION ")] for text in texts], [one.frames for one in both]

    def read(self, one):
        replies = Replies()
        while not replies.ended():
            try:
                replies.add(one.recv(1 << 16), self.request_id)
            except TimeoutError as error:
                raise wire.Closed(f"{error!r} behind {replies.text()[-500:]!r}") from error
        return replies

    def close(self):
        for one in self.sockets:
            one.close()
