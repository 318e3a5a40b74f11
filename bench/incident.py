"""The cache-stall incident for real: redis-server is stopped for 6 s under a cache-aside client.

600 requests a second on 1,000 keys that live 20 s. A miss asks a database of 500 queries a second,
which is a line in virtual time: whoever would wait longer than 1 s leaves after 1 s, has failed, and
is not served. Everything else is real: the client, the proxies, the store, the signal. One subject at
a time, each with a fresh store and the same tape of arrivals."""

import asyncio
import contextlib
import itertools
import json
import os
import random
import signal
import time
import urllib.request

from incident_report import draw, seconds_table, summary, versions
from kit import machine, stores, table
from kit.respclient import CacheError, connect
from kit.servers import scratch
from kit.stores import CLIENT_DEADLINE

RATE, KEYS, TTL, ZIPF = 600, 1000, 20.0, 1.0
MU, PATIENCE = 500, 1.0
PAID = 0.09  # a call that took this long has paid for the store's silence
PURGES, PURGE_EVERY = 40, 0.1


class Plan:
    """When what happens, in seconds of the run."""

    def __init__(self, quick):
        self.warm, self.stall, self.after = (4, 2, 6) if quick else (12, 6, 40)
        self.back = self.warm + self.stall
        self.total = self.back + self.after


class Database:
    """A line in virtual time."""

    def __init__(self):
        self.free_at, self.arrivals = 0.0, 0

    async def query(self):
        now = time.monotonic()
        self.arrivals += 1
        done = max(now, self.free_at) + 1 / MU
        if done - now > PATIENCE:
            await asyncio.sleep(PATIENCE)
            return False
        self.free_at = done
        await asyncio.sleep(done - now)
        return True


COUNTED = ("requests", "hits", "misses", "errors", "failed", "database", "paid")


class Run:
    """What one subject did, by the second in which a request began."""

    def __init__(self, plan):
        self.plan = plan
        seconds = range(plan.total)
        self.by_second = [dict.fromkeys(COUNTED, 0) for _ in seconds]
        self.calls = [[] for _ in seconds]  # (begun, took) of every cache call
        self.took = [[] for _ in seconds]
        self.admin = []
        self.opened, self.closed = None, None  # Hedgerow's circuit
        self.twice = 0
        self.lag = []
        self.wrong = 0
        self.served_during, self.served_after, self.purged = 0, 0, 0

    def nohit(self, second):
        return self.by_second[second]["requests"] - self.by_second[second]["hits"]

    def sum(self, what, first, last):
        return sum(second[what] for second in self.by_second[first:last])

    def baseline(self):
        calm = range(1, self.plan.warm)
        return sum(map(self.nohit, calm)) / len(calm)

    def until_normal(self):
        """Seconds after the stall until three in a row have no failure and no more than twice the usual misses."""
        limit = 2 * self.baseline()
        fine = [self.nohit(s) <= limit and not self.by_second[s]["failed"] for s in range(self.plan.total)]
        for second in range(self.plan.back, self.plan.total - 2):
            if all(fine[second:second + 3]):
                return second - self.plan.back
        return None

    def call_p99(self, first, last):
        found = [took for calls in self.calls[int(first):int(last) + 1] for begun, took in calls if first <= begun < last]
        return table.quantile(found, 0.99) * 1000 if found else 0.0

    def took_p99(self, first, last):
        found = [took for second in self.took[first:last] for took in second]
        return table.quantile(found, 0.99) * 1000 if found else 0.0


def tape(seed, plan):
    """Arrivals and their keys; the same for every subject."""
    dice = random.Random(seed)
    ranks = list(range(1, KEYS + 1))
    weights = list(itertools.accumulate(rank ** -ZIPF for rank in ranks))
    at, found = 0.0, []
    while True:
        at += dice.expovariate(RATE)
        if at >= plan.total:
            return found
        found.append((at, f"key:{dice.choices(ranks, cum_weights=weights)[0]}"))


class Client:
    """The application: ask the cache, else the database, and put back what it said."""

    def __init__(self, cache, run, start):
        self.cache, self.run, self.start = cache, run, start
        self.database = Database()
        self.written = itertools.count()

    async def call(self, counts, paid, command):
        begun = time.monotonic()
        try:
            return await command
        finally:
            took = time.monotonic() - begun
            at = begun - self.start
            if at < self.run.plan.total:
                self.run.calls[int(at)].append((at, took))
            if took >= PAID:
                counts["paid"] += 1
            paid.append(took >= PAID)

    async def request(self, at, key):
        begun = time.monotonic()
        self.run.lag.append(begun - self.start - at)
        counts = self.run.by_second[int(at)]
        counts["requests"] += 1
        paid = []
        try:
            value = await self.call(counts, paid, self.cache.get(key))
        except CacheError:
            counts["errors"] += 1
            value = None
        else:
            counts["misses"] += value is None
        if value is not None:
            counts["hits"] += 1
            self.run.wrong += not value.startswith(key.encode() + b"=")
        else:
            counts["database"] += 1
            if await self.database.query():
                with contextlib.suppress(CacheError):
                    await self.call(counts, paid, self.cache.set(key, f"{key}={next(self.written)}", TTL))
            else:
                counts["failed"] += 1
        self.run.twice += sum(paid) > 1
        self.run.took[int(at)].append(time.monotonic() - begun)

    async def old(self, key):
        """Whether the cache still serves what was purged."""
        try:
            return await self.cache.get(key) == b"old"
        except CacheError:
            return False

    async def until(self, at):
        await asyncio.sleep(max(0.0, self.start + at - time.monotonic()))

    async def purges(self):
        """Keys of their own: read before the stall, purged during it, read again later."""
        plan, keys = self.run.plan, [f"purged:{number}" for number in range(PURGES)]
        await self.until(plan.warm - 2)
        for key in keys:
            await self.old(key)

        async def purge(key):
            with contextlib.suppress(CacheError):
                await self.cache.delete(key)
            self.run.served_during += await self.old(key)

        touched, under_way = [], []
        for number, key in enumerate(keys):
            at = plan.warm + 1 + number * PURGE_EVERY
            if at > plan.back - 0.5:
                break
            await self.until(at)
            touched.append(key)
            under_way.append(asyncio.ensure_future(purge(key)))
        await asyncio.gather(*under_way)
        self.run.purged = len(touched)
        served = set()
        for at in (plan.back + 2, plan.total - 1):
            await self.until(at)
            for key in touched:
                if await self.old(key):
                    served.add(key)
        self.run.served_after = len(served)


def admin_cache(url):
    with urllib.request.urlopen(url + "/admin/cache", timeout=2) as response:
        return json.loads(response.read())


async def drive(server, store, run, arrivals, seed):
    """The traffic, the stall and the samples of one subject."""
    plan = run.plan
    # Warm, as if the traffic had been going on for long: the keys that would be there, with what would be left of their lives.
    dice = random.Random(seed + 1)
    share = RATE * TTL / sum(rank ** -ZIPF for rank in range(1, KEYS + 1))
    direct = connect(store.port, CLIENT_DEADLINE)
    for number in range(1, KEYS + 1):
        asked = share * number ** -ZIPF
        if dice.random() < asked / (1 + asked):
            await direct.set(f"key:{number}", f"key:{number}=warm", dice.uniform(0.05, TTL))
    for number in range(PURGES):
        await direct.set(f"purged:{number}", "old", 600)
    await direct.close()

    cache = connect(server.port, server.deadline)
    start = time.monotonic() + 0.2
    client = Client(cache, run, start)

    async def stall():
        await client.until(plan.warm)
        os.kill(store.pid, signal.SIGSTOP)
        await client.until(plan.back)
        os.kill(store.pid, signal.SIGCONT)

    async def sample():
        for second in range(plan.total + 1):
            await client.until(second)
            run.admin.append(await asyncio.to_thread(admin_cache, server.admin))

    async def circuit():
        """When it opened and closed, to a tenth of a second."""
        for tenth in range(int(plan.stall + plan.after - 1) * 10):
            await client.until(plan.warm + tenth / 10)
            state = (await asyncio.to_thread(admin_cache, server.admin))["state"]
            at = time.monotonic() - start - plan.warm
            if run.opened is None and state != "closed":
                run.opened = at
            if run.opened is not None and state == "closed":
                run.closed = at - plan.stall
                return

    tasks = [stall(), client.purges()] + ([sample(), circuit()] if server.admin else [])
    others = [asyncio.ensure_future(task) for task in tasks]
    open_now = set()
    for at, key in arrivals:
        wait = start + at - time.monotonic()
        if wait > 0:
            await asyncio.sleep(wait)
        task = asyncio.ensure_future(client.request(at, key))
        open_now.add(task)
        task.add_done_callback(open_now.discard)
    await asyncio.gather(*open_now, *others)
    await cache.close()


def subjects(binary):
    yield "direct", stores.direct
    yield "nutcracker", stores.nutcracker(False)
    yield "nutcracker, auto_eject", stores.nutcracker(True)
    yield "Envoy", stores.envoy(False)
    yield "Envoy, outlier detection", stores.envoy(True)
    yield "Hedgerow", stores.guarded(binary, 0)
    yield "Hedgerow, near copy", stores.guarded(binary, 60_000)


def run(options):
    machine.many_descriptors()
    plan, runs = Plan(options.quick), {}
    arrivals = tape(options.seed, plan)
    print(f"{versions(options.binary)}; seed {options.seed}; {RATE} requests/s, {KEYS} keys, {TTL:.0f} s to live, "
          f"database {MU} queries/s, stall {plan.stall} s from second {plan.warm} to {plan.back} of {plan.total}.\n", flush=True)
    for name, start in subjects(options.binary):
        if not name.lower().startswith(options.only.lower()):
            continue
        try:
            with scratch() as folder, stores.redis_server(folder) as store, start(store, folder) as server:
                seen = Run(plan)
                asyncio.run(drive(server, store, seen, arrivals, options.seed))
        except machine.Missing as missing:
            print(f"{name} skipped: {missing}\n", flush=True)
            continue
        runs[name] = seen
        print(f"### {name}\n\n{seconds_table(seen)}\n")
        if seen.admin:
            last = seen.admin[-1]
            if seen.opened is not None:
                closed = "not" if seen.closed is None else f"{seen.closed:.1f} s after its end"
                print(f"The circuit was seen open {seen.opened:.1f} s after the stall's beginning, closed again {closed}.")
            print("Episodes {episode}, repairs {repairs}, canaries {canaries}, reconnects {reconnects}.".format(**last))
        print(f"The client itself ran late by {table.quantile(seen.lag, 0.99) * 1000:.1f} ms at p99.\n", flush=True)
    print(f"### Summary\n\n{summary(runs)}\n")
    if options.svg:
        os.makedirs(os.path.dirname(os.path.abspath(options.svg)), exist_ok=True)
        with open(options.svg, "w", encoding="utf-8") as file:
            file.write(draw(runs))
        print(f"The picture is in {options.svg}.\n")
    return {name: {"baseline": seen.baseline(), "normal_after": seen.until_normal(), "seconds": seen.by_second}
            for name, seen in runs.items()}
