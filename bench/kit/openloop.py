"""Calls at given moments, whether or not the ones before have come back: an open loop.

HTTP/1.1 by hand over kept connections, one call at a time on each. What a call took is counted from
its sending; how late it was sent is kept beside it, so that a client that cannot keep up shows it."""

import asyncio
import gc
import random
import time


def spread(rate, count, seed=1):
    """Arrivals as from many callers who do not know each other: a Poisson process."""
    dice, at, found = random.Random(seed), 0.0, []
    for _ in range(count):
        at += dice.expovariate(rate)
        found.append(at)
    return found


def at_once(count):
    return [0.0] * count


class Call:
    """When it was to begin, how long it took, its status, and whether its answer was whole."""

    __slots__ = ("at", "late", "took", "status", "whole")

    def __init__(self, at):
        self.at, self.late, self.took, self.status, self.whole = at, 0.0, None, 0, False

    @property
    def good(self):
        return self.whole and 200 <= self.status < 400


class Connection(asyncio.Protocol):
    """One connection: asks, and waits for the end of the answer."""

    def __init__(self, pool):
        self.pool, self.transport, self.waiting, self.closed = pool, None, None, False
        self.begin()

    def begin(self):
        self.buffer, self.status, self.left, self.chunked, self.closing = b"", 0, None, False, False

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.buffer += data
        if not self.status:
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head, self.buffer = self.buffer[:end].lower(), self.buffer[end + 4:]
            self.status = int(head[9:12])
            self.chunked = b"transfer-encoding: chunked" in head
            self.closing = b"connection: close" in head
            at = head.find(b"content-length:")
            if at >= 0:
                self.left = int(head[at + 15:].split(b"\r\n", 1)[0])
        whole = self.buffer.endswith(b"0\r\n\r\n") if self.chunked else len(self.buffer) >= (self.left or 0)
        if whole and (self.chunked or self.left is not None):
            self.finish(True)

    def connection_lost(self, _):
        self.closed = True
        # Without a length the end of the connection is the end of the answer.
        self.finish(bool(self.status) and not self.chunked and self.left is None)

    def finish(self, whole):
        waiting, self.waiting = self.waiting, None
        if waiting is None or waiting.done():
            return
        waiting.set_result((self.status, whole, time.perf_counter()))
        if self.closing:
            self.transport.close()
        elif not self.closed:
            self.pool.append(self)

    def ask(self, request):
        self.begin()
        self.waiting = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return self.waiting


async def call(port, request, found, idle, start, patience):
    while idle and idle[-1].closed:
        idle.pop()
    connection = idle.pop() if idle else None
    began = time.perf_counter()
    try:
        if connection is None:
            loop = asyncio.get_running_loop()
            _, connection = await loop.create_connection(lambda: Connection(idle), "127.0.0.1", port)
        status, whole, done = await asyncio.wait_for(connection.ask(request), patience)
    except (OSError, asyncio.TimeoutError):
        status, whole, done = 0, False, time.perf_counter()
        if connection:
            connection.transport.close()
    found.late, found.status, found.whole = began - start - found.at, status, whole
    found.took = done - began


async def _drive(port, path, arrivals, patience, headers):
    paths = [path] * len(arrivals) if isinstance(path, str) else path
    requests = [f"GET {path} HTTP/1.1\r\nhost: bench\r\n{headers}\r\n".encode() for path in paths]
    idle, under_way = [], []
    loop = asyncio.get_running_loop()
    # Connections are made beforehand: making them is not what is measured.
    for _ in range(min(len(arrivals), 64)):
        _, connection = await loop.create_connection(lambda: Connection(idle), "127.0.0.1", port)
        idle.append(connection)
    calls = [Call(at) for at in arrivals]
    start = time.perf_counter() + 0.1
    for found, request in zip(calls, requests):
        wait = start + found.at - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
        under_way.append(asyncio.ensure_future(call(port, request, found, idle, start, patience)))
    await asyncio.gather(*under_way)
    for connection in idle:
        connection.transport.close()
    return calls


def run(port, path, arrivals, patience=20.0, headers=""):
    """Makes the calls, to one path or each to its own, and gives them back, each with what became of it."""
    gc.collect()
    gc.disable()
    try:
        return asyncio.run(_drive(port, path, arrivals, patience, headers))
    finally:
        gc.enable()
