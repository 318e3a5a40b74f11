"""A Redis client for asyncio: redis-py where it is installed, else a small one of our own.

Either has one deadline for connecting and one for a reply, retries nothing, and gives up a connection
whose reply did not come in time."""

import asyncio

try:
    import redis
    import redis.asyncio
except ImportError:
    redis = None


class CacheError(Exception):
    """The cache did not answer, or with an error."""


def client_name():
    return f"redis-py {redis.__version__}" if redis else "a client of our own (pip install redis for the real one)"


def connect(port, deadline):
    return RedisPy(port, deadline) if redis else Small(port, deadline)


class RedisPy:
    def __init__(self, port, deadline):
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff

        options = dict(host="127.0.0.1", port=port, socket_timeout=deadline, socket_connect_timeout=deadline, protocol=2,
                       retry=Retry(NoBackoff(), 0), max_connections=4000)
        # RESP2 and no CLIENT SETINFO: nutcracker and Envoy know neither.
        try:
            self.inner = redis.asyncio.Redis(driver_info=None, **options)
        except TypeError:  # before 7.2
            self.inner = redis.asyncio.Redis(lib_name=None, lib_version=None, **options)

    async def call(self, command):
        try:
            return await command
        except (redis.RedisError, OSError, asyncio.TimeoutError) as error:
            raise CacheError(str(error)) from error

    async def get(self, key):
        return await self.call(self.inner.get(key))

    async def set(self, key, value, ttl):
        return await self.call(self.inner.set(key, value, px=max(1, int(ttl * 1000))))

    async def delete(self, key):
        return await self.call(self.inner.delete(key))

    async def close(self):
        await self.inner.aclose()


class Small:
    """GET, SET and DEL over as many connections as calls are under way."""

    def __init__(self, port, deadline):
        self.port, self.deadline, self.idle = port, deadline, []

    async def call(self, *words):
        out = b"*%d\r\n" % len(words)
        for word in words:
            data = word.encode()
            out += b"$%d\r\n%s\r\n" % (len(data), data)
        connection = None
        try:
            if self.idle:
                connection = self.idle.pop()
            else:
                connection = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", self.port), self.deadline)
            reader, writer = connection
            writer.write(out)
            reply = await asyncio.wait_for(self.reply(reader), self.deadline)
        except (OSError, EOFError, asyncio.TimeoutError, ValueError) as error:
            if connection:
                connection[1].close()
            raise CacheError(str(error)) from error
        self.idle.append(connection)
        if isinstance(reply, CacheError):
            raise reply
        return reply

    async def reply(self, reader):
        head = await reader.readuntil(b"\r\n")
        kind, rest = head[:1], head[1:-2]
        if kind == b"-":
            return CacheError(rest.decode())
        if kind == b"$":
            length = int(rest)
            return None if length < 0 else (await reader.readexactly(length + 2))[:-2]
        return rest

    async def get(self, key):
        return await self.call("GET", key)

    async def set(self, key, value, ttl):
        return await self.call("SET", key, value, "PX", str(max(1, int(ttl * 1000))))

    async def delete(self, key):
        return await self.call("DEL", key)

    async def close(self):
        for _, writer in self.idle:
            writer.close()
