"""Sockets of the differential tests: the same bytes to two servers, the raw replies of both."""

import contextlib
import socket
import time

TIMEOUT_SECONDS = 120


class Closed(Exception):
    pass


class Wire:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray()

    def send(self, data):
        self.socket.sendall(data)

    def read_until(self, ends):
        """Everything up to the point where `ends(buffer)` is true."""
        while not ends(self.buffer):
            try:
                data = self.socket.recv(1 << 20)
            except OSError as error:
                raise Closed(f"{error!r} behind {bytes(self.buffer[-500:])!r}") from error
            if not data:
                raise Closed(f"closed behind {bytes(self.buffer[-500:])!r}")
            self.buffer += data
        result = bytes(self.buffer)
        self.buffer.clear()
        return result

    def finish(self):
        """Ends the sending side and reads until the server closes too; the rest that came."""
        self.socket.shutdown(socket.SHUT_WR)
        try:
            while data := self.socket.recv(1 << 20):
                self.buffer += data
        except ConnectionResetError:
            pass
        self.close()
        return bytes(self.buffer)

    def close(self):
        self.socket.close()


class Pair:
    """One connection to each of two servers."""

    # The most seconds that an exchange of any pair has taken: by so much the moments may differ at which two
    # servers run the same request, on a machine where one of them, or this process, stands still meanwhile.
    most_seconds = 0.0

    def __init__(self, ports):
        self.wires = [Wire(port) for port in ports]

    def exchange(self, requests, ends):
        """Sends `requests` (one for both, or one each); the replies of both."""
        if isinstance(requests, bytes):
            requests = (requests, requests)
        with self.timed():
            # Servers take in what is sent while nobody reads their replies, which are short.
            self.both("sending to", lambda side: self.wires[side].send(requests[side]))
            return self.both("reading from", lambda side: self.wires[side].read_until(ends))

    @staticmethod
    @contextlib.contextmanager
    def timed():
        began = time.monotonic()
        yield
        Pair.most_seconds = max(Pair.most_seconds, time.monotonic() - began)

    @staticmethod
    def both(doing, act):
        results = []
        for side, name in enumerate(("ours", "theirs")):
            try:
                results.append(act(side))
            except (Closed, OSError) as error:
                raise Closed(f"{doing} {name}: {error}") from error
        return results

    def finish(self, request):
        with self.timed():
            for wire in self.wires:
                try:
                    wire.send(request)
                except (ConnectionResetError, BrokenPipeError):
                    pass
            return [wire.finish() for wire in self.wires]

    def close(self):
        for wire in self.wires:
            wire.close()


def encode(arguments):
    parts = [b"*%d\r\n" % len(arguments)]
    for argument in arguments:
        parts.append(b"$%d\r\n" % len(argument))
        parts.append(argument)
        parts.append(b"\r\n")
    return b"".join(parts)
