"""A Redis server, and those who stand between it and its clients.

`pin` is put before a command: a CPU to run on."""

import contextlib
import os
import re
import signal

from . import envoy as front, machine
from .envoy import listens
from .process import Process, until
from .servers import Server

DEADLINE, CLIENT_DEADLINE = 0.1, 1.0  # of a call to the store; of a client to a proxy that has the former


@contextlib.contextmanager
def redis_server(folder, pin=()):
    port = machine.free_port()
    program = machine.program("redis-server")
    command = [*pin, program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    with Process(command, cwd=folder) as process:
        process.port = port
        until("redis-server", lambda: listens(port))
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGCONT)


class Subject(Server):
    def __init__(self, port, processes, deadline=CLIENT_DEADLINE, admin=None):
        super().__init__(None, processes, admin=admin)
        self.port, self.deadline = port, deadline


@contextlib.contextmanager
def direct(store, folder):
    yield Subject(store.port, [store], DEADLINE)


def nutcracker(eject=False, pin=()):
    @contextlib.contextmanager
    def start(store, folder):
        port, stats, path = machine.free_port(), machine.free_port(), os.path.join(folder, "nutcracker.yml")
        with open(path, "w", encoding="utf-8") as file:
            # 30 s and 2 failures are its defaults.
            file.write(
                f"store:\n  listen: 127.0.0.1:{port}\n  redis: true\n  preconnect: true\n  timeout: {DEADLINE * 1000:.0f}\n"
                f"  auto_eject_hosts: {'true' if eject else 'false'}\n  server_retry_timeout: 30000\n  server_failure_limit: 2\n"
                f"  servers:\n   - 127.0.0.1:{store.port}:1\n")
        command = [*pin, machine.program("nutcracker"), "-c", path, "-s", str(stats), "-a", "127.0.0.1"]
        with Process(command) as process:
            until("nutcracker", lambda: listens(port))
            yield Subject(port, [process])

    return start


def envoy(eject=False, pin=()):
    @contextlib.contextmanager
    def start(store, folder):
        proxy = {
            "@type": "type.googleapis.com/envoy.extensions.filters.network.redis_proxy.v3.RedisProxy",
            "stat_prefix": "store",
            "settings": {"op_timeout": f"{DEADLINE}s"},
            "prefix_routes": {"catch_all_route": {"cluster": "store"}},
        }
        # Without a threshold of zero it sends to an ejected store all the same where that is the only one.
        more = {"lb_policy": "MAGLEV", "common_lb_config": {"healthy_panic_threshold": {"value": 0}}}
        if eject:  # 5 in a row, 30 s and looked at every 10 s are its defaults.
            more["outlier_detection"] = {"consecutive_5xx": 5, "base_ejection_time": "30s", "interval": "10s",
                                         "max_ejection_percent": 100}
        cluster = front.cluster("store", [store.port], **more)
        with front.serve(folder, ("envoy.filters.network.redis_proxy", proxy), [cluster], prefix=pin) as (port, process):
            yield Subject(port, [process])

    return start


def guarded(binary, stale=0, pin=()):
    @contextlib.contextmanager
    def start(store, folder):
        path = os.path.join(folder, "hedgerow.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"[admin]\nlisten = \"127.0.0.1:0\"\n[cache]\nstore = \"redis://127.0.0.1:{store.port}\"\n"
                       f"call_timeout_ms = {DEADLINE * 1000:.0f}\nstale_ms = {stale}\n[cache.resp]\nlisten = \"127.0.0.1:0\"\n")
        log = os.path.join(folder, "hedgerow.log")
        with open(log, "w", encoding="utf-8") as out, Process([*pin, binary, "serve", "-c", path], stderr=out) as process:
            def found():
                with open(log, encoding="utf-8") as said:
                    return re.search(r"admin on (\S+), cache on redis://\S+:(\d+)", said.read())

            admin, port = until("hedgerow", found).groups()
            yield Subject(int(port), [process], admin=admin)

    return start
