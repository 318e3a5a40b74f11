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
import re
import signal
import socket
import subprocess
import time
import urllib.request

from kit import machine, table
from kit.process import Process, until
from kit.respclient import CacheError, client_name, connect
from kit.servers import Server, hedgerow, scratch

RATE, KEYS, TTL, ZIPF = 600, 1000, 20.0, 1.0
MU, PATIENCE = 500, 1.0
DEADLINE, CLIENT_DEADLINE = 0.1, 1.0  # of a call to the store; of a client to a proxy that has the former
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


@contextlib.contextmanager
def redis_server(folder):
    port = machine.free_port()
    command = [machine.program("redis-server"), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    with Process(command, cwd=folder) as process:
        process.port = port
        until("redis-server", lambda: listens(port))
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGCONT)


def listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True


class Subject(Server):
    def __init__(self, port, processes, deadline=CLIENT_DEADLINE, admin=None):
        super().__init__(None, processes, admin=admin)
        self.port, self.deadline = port, deadline


@contextlib.contextmanager
def direct(store, folder):
    yield Subject(store.port, [store], DEADLINE)


def nutcracker(eject):
    @contextlib.contextmanager
    def start(store, folder):
        port, stats, path = machine.free_port(), machine.free_port(), os.path.join(folder, "nutcracker.yml")
        with open(path, "w", encoding="utf-8") as file:
            # 30 s and 2 failures are its defaults.
            file.write(
                f"store:\n  listen: 127.0.0.1:{port}\n  redis: true\n  preconnect: true\n  timeout: {DEADLINE * 1000:.0f}\n"
                f"  auto_eject_hosts: {'true' if eject else 'false'}\n  server_retry_timeout: 30000\n  server_failure_limit: 2\n"
                f"  servers:\n   - 127.0.0.1:{store.port}:1\n")
        with Process([machine.program("nutcracker"), "-c", path, "-s", str(stats), "-a", "127.0.0.1"]) as process:
            until("nutcracker", lambda: listens(port))
            yield Subject(port, [process])

    return start


def envoy(eject):
    @contextlib.contextmanager
    def start(store, folder):
        port, path = machine.free_port(), os.path.join(folder, "envoy.json")

        def at(number):
            return {"socket_address": {"address": "127.0.0.1", "port_value": number}}

        proxy = {
            "@type": "type.googleapis.com/envoy.extensions.filters.network.redis_proxy.v3.RedisProxy",
            "stat_prefix": "store",
            "settings": {"op_timeout": f"{DEADLINE}s"},
            "prefix_routes": {"catch_all_route": {"cluster": "store"}},
        }
        cluster = {
            "name": "store", "type": "STATIC", "lb_policy": "MAGLEV", "connect_timeout": "1s",
            # Else it sends to an ejected store all the same where that is the only one.
            "common_lb_config": {"healthy_panic_threshold": {"value": 0}},
            "load_assignment": {"cluster_name": "store",
                                "endpoints": [{"lb_endpoints": [{"endpoint": {"address": at(store.port)}}]}]},
        }
        if eject:  # 5 in a row, 30 s and looked at every 10 s are its defaults.
            cluster["outlier_detection"] = {"consecutive_5xx": 5, "base_ejection_time": "30s", "interval": "10s",
                                            "max_ejection_percent": 100}
        filters = [{"name": "envoy.filters.network.redis_proxy", "typed_config": proxy}]
        bootstrap = {"static_resources": {
            "listeners": [{"name": "store", "address": at(port), "filter_chains": [{"filters": filters}]}],
            "clusters": [cluster]}}
        with open(path, "w", encoding="utf-8") as file:
            json.dump(bootstrap, file)
        program = machine.program("envoy")
        command = [program, "-c", path, "--disable-hot-restart", "--concurrency", "1", "-l", "off"]
        with Process(command) as process:
            until("envoy", lambda: listens(port))
            yield Subject(port, [process])

    return start


def guarded(binary, stale):
    @contextlib.contextmanager
    def start(store, folder):
        path = os.path.join(folder, "hedgerow.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"[admin]\nlisten = \"127.0.0.1:0\"\n[cache]\nstore = \"redis://127.0.0.1:{store.port}\"\n"
                       f"call_timeout_ms = {DEADLINE * 1000:.0f}\nstale_ms = {stale}\n[cache.resp]\nlisten = \"127.0.0.1:0\"\n")
        log = os.path.join(folder, "hedgerow.log")
        with open(log, "w", encoding="utf-8") as out, Process([binary, "serve", "-c", path], stderr=out) as process:
            def found():
                with open(log, encoding="utf-8") as said:
                    return re.search(r"admin on (\S+), cache on redis://\S+:(\d+)", said.read())

            admin, port = until("hedgerow", found).groups()
            yield Subject(int(port), [process], admin=admin)

    return start


def subjects(binary):
    yield "direct", direct
    yield "nutcracker", nutcracker(False)
    yield "nutcracker, auto_eject", nutcracker(True)
    yield "Envoy", envoy(False)
    yield "Envoy, outlier detection", envoy(True)
    yield "Hedgerow", guarded(binary, 0)
    yield "Hedgerow, near copy", guarded(binary, 60_000)


def seconds_table(run):
    """Every second around the stall, and every fifth after it."""
    plan, rows = run.plan, []
    for second in range(plan.warm - 2, plan.total):
        if second > plan.back + 3 and second % 5:
            continue
        seen = run.by_second[second]
        deltas = ["", "", ""]
        if len(run.admin) > second + 1:
            before, after = run.admin[second]["reads"], run.admin[second + 1]["reads"]
            deltas = [after[name] - before[name] for name in ("shed", "stale", "timeout")]
        rows.append([second, seen["requests"], seen["hits"], seen["misses"], *deltas, seen["errors"], seen["failed"],
                     seen["database"], seen["paid"], f"{run.call_p99(second, second + 1):.1f}",
                     f"{run.took_p99(second, second + 1):.0f}"])
    head = ["second", "requests", "hits", "misses", "of them shed", "stale hits", "store timeouts", "cache errors", "failed",
            "database arrivals", "calls that paid", "cache p99 ms", "request p99 ms"]
    return table.markdown(head, rows)


def summary(runs):
    rows = []
    for name, run in runs.items():
        plan = run.plan
        normal = run.until_normal()
        rows.append([
            name, f"{run.baseline():.0f}",
            run.sum("failed", plan.warm, plan.back), run.sum("failed", plan.back, plan.total),
            f"not within {plan.after} s" if normal is None else f"{normal} s",
            f"{run.call_p99(plan.warm + 0.3, plan.back):.1f} ms",
            f"{run.took_p99(plan.warm, plan.back):.0f} ms",
            run.sum("paid", plan.warm, plan.total), run.twice,
            run.sum("database", plan.warm, plan.total),
            f"{run.served_during} / {run.served_after} of {run.purged}", run.wrong,
        ])
    head = ["", "misses/s before", "failed during", "failed after", "normal after", "p99 of a cache call during",
            "p99 of a request during", "calls that paid 90 ms or more", "requests that paid twice",
            "database queries from the stall on", "purged, yet served during / after", "wrong values"]
    return table.markdown(head, rows)


def svg(runs):
    """A panel for each subject: what was no hit, and what failed."""
    plan = next(iter(runs.values())).plan
    width, panel, left, plot_w, plot_h = 860, 130, 70, 760, 80
    top = max(700, max(run.nohit(s) for run in runs.values() for s in range(plan.total)))
    height = 40 + panel * len(runs)
    out = [f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<title>Requests a second that were no hit, and that failed, around a stall of {plan.stall} s</title>
<style>
text {{ font: 12px sans-serif; fill: #222 }} .title {{ font-weight: bold; font-size: 14px }}
.paper {{ fill: #fff }} .grid {{ stroke: #ddd }} .mark {{ fill: #f2d7d5 }}
.nohit {{ fill: none; stroke: #2a6fb0; stroke-width: 1.6 }} .failed {{ fill: #c0392b; stroke: #c0392b }}
text.nohit {{ fill: #2a6fb0; stroke: none }} text.failed {{ fill: #c0392b; stroke: none }}
@media (prefers-color-scheme: dark) {{
text {{ fill: #ddd }} .paper {{ fill: #16181d }} .grid {{ stroke: #3a3d45 }} .mark {{ fill: #4a2c2a }}
.nohit {{ stroke: #6fb1ee }} text.nohit {{ fill: #6fb1ee }} }}
</style>
<rect class="paper" width="{width}" height="{height}"/>
<text x="{left}" y="20">Each second:</text><text class="nohit" x="{left + 80}" y="20">requests that were no hit</text>\
<text class="failed" x="{left + 240}" y="20">failed</text><text x="{left + 290}" y="20">(shaded: the store is stopped)</text>"""]
    for number, (name, run) in enumerate(runs.items()):
        def x(second):
            return left + plot_w * second / plan.total

        def y(count):
            return plot_h - plot_h * count / top

        out.append(f'<g transform="translate(0 {40 + panel * number})"><text class="title" x="{left}" y="12">{name}</text>'
                   '<g transform="translate(0 22)">')
        out.append(f'<rect class="mark" x="{x(plan.warm):.1f}" y="0" width="{x(plan.stall) - left:.1f}" height="{plot_h}"/>')
        for count in range(0, int(top) + 1, 200):
            out.append(f'<line class="grid" x1="{left}" x2="{left + plot_w}" y1="{y(count):.1f}" y2="{y(count):.1f}"/>'
                       f'<text x="{left - 8}" y="{y(count) + 4:.1f}" text-anchor="end">{count}</text>')
        failed = " ".join(f"{x(s):.1f},{y(run.by_second[s]['failed']):.1f} {x(s + 1):.1f},{y(run.by_second[s]['failed']):.1f}"
                          for s in range(plan.total))
        out.append(f'<polygon class="failed" points="{x(0):.1f},{plot_h} {failed} {x(plan.total):.1f},{plot_h}"/>')
        line = " ".join(f"{x(s):.1f},{y(run.nohit(s)):.1f} {x(s + 1):.1f},{y(run.nohit(s)):.1f}" for s in range(plan.total))
        out.append(f'<polyline class="nohit" points="{line}"/>')
        for second in range(0, plan.total + 1, 10 if plan.total > 20 else 2):
            out.append(f'<text x="{x(second):.1f}" y="{plot_h + 14}" text-anchor="middle">{second} s</text>')
        out.append("</g></g>")
    return "\n".join(out) + "\n</svg>\n"


def versions(binary):
    found = [client_name()]
    for name, path, pattern in [
        ("redis-server", "redis-server", r"v=(\S+)"), ("nutcracker", "nutcracker", r"nutcracker-(\S+)"),
        ("envoy", "envoy", r"version: \w+/(\d+\.\d+\.\d+)"), ("hedgerow", binary, r"hedgerow (\S+)"),
    ]:
        with contextlib.suppress(machine.Missing):
            path = path if "/" in path else machine.program(path)
            out = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30)
            match = re.search(pattern, out.stdout + out.stderr)
            found.append(f"{name} {match.group(1) if match else '?'}")
    return ", ".join(found)


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
            with scratch() as folder, redis_server(folder) as store, start(store, folder) as server:
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
            file.write(svg(runs))
        print(f"The picture is in {options.svg}.\n")
    return {name: {"baseline": seen.baseline(), "normal_after": seen.until_normal(), "seconds": seen.by_second}
            for name, seen in runs.items()}
