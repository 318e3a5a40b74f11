"""The Redis port: operations a second and CPU time beside the bare store, nutcracker and Envoy.

redis-benchmark with 50 connections, GET and SET, one command at a time and sixteen. The proxy has one
CPU; store and load share another, direct too. They take turns, and ratios are taken inside a round.
Then what a shed read takes, and what idle clients cost."""

import contextlib
import os
import resource
import signal
import socket
import subprocess
import time

from egress import pins
from kit import machine, servers, stores, table
from kit.process import cpu_ms, rss_kib, until

CLIENTS, IDLE = 50, 10_000
# By pipeline: operations of a run, least share of the direct ones, and whose CPU time is the measure.
DEPTHS = {1: (150_000, 1.0, "Envoy", 1.0), 16: (1_000_000, 0.8, "nutcracker", 0.8)}


def benchmark(port, pin, *flags):
    """One run of redis-benchmark: its line of figures, by name."""
    command = [*pin, machine.program("redis-benchmark", "redis-tools"), "-p", str(port), "--csv", *flags]
    out = subprocess.run(command, capture_output=True, text=True, timeout=120)
    lines = [line.replace('"', "").split(",") for line in out.stdout.splitlines() if line.startswith('"')]
    if len(lines) < 2:
        raise machine.Failed(f"redis-benchmark said: {out.stdout} {out.stderr}")
    return dict(zip(lines[0][1:], map(float, lines[1][1:])))


def subjects(binary, pin):
    yield "direct", stores.direct
    yield "nutcracker", stores.nutcracker(pin=pin)
    yield "Envoy", stores.envoy(pin=pin)
    yield "Hedgerow", stores.guarded(binary, pin=pin)


def speed(options, pin, rest):
    """(rate, CPU ms for 1,000) of every round, by subject and by (command, depth)."""
    rounds = options.rounds or (2 if options.quick else 5)
    found = {}
    with contextlib.ExitStack() as stack:
        def folder():
            return stack.enter_context(servers.scratch())

        store = stack.enter_context(stores.redis_server(folder(), pin=rest))
        running = {}
        for name, start in subjects(options.binary, pin):
            try:
                running[name] = stack.enter_context(start(store, folder()))
            except machine.Missing as missing:
                print(f"{name} skipped: {missing}\n", flush=True)
        for number in range(rounds + 1):
            for depth, (count, *_) in DEPTHS.items():
                count = count // 10 if options.quick or not number else count
                for command in ("set", "get"):
                    for name, subject in running.items():
                        pids = subject.pids()
                        before = cpu_ms(pids)
                        seen = benchmark(subject.port, rest, "-c", str(CLIENTS), "-P", str(depth), "-n", str(count), "-t", command)
                        if number:  # the first is a warm-up
                            cost = (cpu_ms(pids) - before) * 1000 / count
                            found.setdefault(name, {}).setdefault((command, depth), []).append((seen["rps"], cost))
    return rounds, found


def shed(binary, pin, rest, count):
    """p50 and p99 in µs: a GET that is shed, and the same of the store itself: the floor of two
    processes that talk over loopback."""
    with servers.scratch() as a, servers.scratch() as b, stores.redis_server(a, pin=rest) as store, \
            stores.guarded(binary, pin=pin)(store, b) as port:
        flags = ("-c", "1", "-n", str(count), "-t")
        bare = benchmark(store.port, pin, *flags, "get")
        os.kill(store.pid, signal.SIGSTOP)
        with socket.create_connection(("127.0.0.1", port.port)) as client:
            def is_shed():
                client.sendall(b"GET a\r\n" * 20)
                left = 20
                begun = time.monotonic()
                while left > 0:
                    left -= client.recv(4096).count(b"\r\n")
                return time.monotonic() - begun < 0.02

            until("the circuit to open", is_shed)
        get = benchmark(port.port, rest, *flags, "get")
        return [(one["p50_latency_ms"] * 1000, one["p99_latency_ms"] * 1000) for one in (get, bare)]


def idle(binary, count):
    """MiB at rest, and with so many clients that have asked once and are silent now."""
    with servers.scratch() as a, servers.scratch() as b, stores.redis_server(a) as store, \
            stores.guarded(binary)(store, b) as port:
        at_rest = rss_kib(port.processes[0].pid)
        clients = []
        try:
            for number in range(count):
                client = socket.create_connection(("127.0.0.1", port.port))
                clients.append(client)
                client.sendall(b"*2\r\n$3\r\nGET\r\n$8\r\n%08d\r\n" % number)
                client.recv(64)
            time.sleep(2)
            return at_rest / 1024, rss_kib(port.processes[0].pid) / 1024
        finally:
            for client in clients:
                client.close()


def judge(ratio, bound, at_least):
    return "met" if (ratio >= bound if at_least else ratio <= bound) else "**missed**"


def run(options):
    machine.many_descriptors()
    pin, rest = pins()
    rounds, found = speed(options, pin, rest)
    own, direct = found["Hedgerow"], found["direct"]
    print(f"{CLIENTS} connections, one CPU for the proxy, {rounds} rounds:\n")
    rows = []
    for key in own:
        for name, seen in found.items():
            ratio = table.ratios([one[0] for one in seen[key]], [one[0] for one in direct[key]])
            rows.append([f"{key[0].upper()}, -P {key[1]}", name, table.spread([one[0] for one in seen[key]], "{:.0f}"),
                         "" if name == "direct" else table.spread(ratio),
                         table.spread([one[1] for one in seen[key]], "{:.2f}")])
    head = ["", "", "operations/s", "× direct", "CPU ms per 1,000"]
    print(table.markdown(head, rows).replace("| --- | ---: |", "| --- | --- |", 1) + "\n")
    for key in own:
        command, depth = key
        _, least, peer, most = DEPTHS[depth]
        share = table.median(table.ratios([one[0] for one in own[key]], [one[0] for one in direct[key]]))
        print(f"- {command.upper()}, -P {depth}: {share:.2f} × direct, goal at least {least}: {judge(share, least, True)}")
        if peer in found:
            cost = table.median(table.ratios([one[1] for one in own[key]], [one[1] for one in found[peer][key]]))
            print(f"- {command.upper()}, -P {depth}: CPU {cost:.2f} × {peer}'s, goal at most {most}: {judge(cost, most, False)}")
    # On one CPU: across two, waking the other is most of it on a virtual machine.
    (get50, get99), (bare50, bare99) = shed(options.binary, pin, pin, 5_000 if options.quick else 50_000)
    print(f"- a shed read: p50 {get50:.0f} µs, p99 {get99:.0f} µs, goal under 50: {judge(get99, 50, False)} "
          f"(a GET of the bare store: {bare50:.0f} and {bare99:.0f})")
    count = min(IDLE, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 200)
    before, after = idle(options.binary, count)
    print(f"- {count:,} idle clients: {after:.0f} MiB resident ({before:.0f} at rest), goal under 100: {judge(after, 100, False)}\n")
    return {"rounds": rounds, "shed_p99_us": get99, "idle_mib": after,
            "speed": {name: {f"{c} {d}": [[round(r), round(cost, 3)] for r, cost in runs]
                             for (c, d), runs in seen.items()} for name, seen in found.items()}}
