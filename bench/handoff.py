"""How long a freed worker stands idle while requests wait for it.

A pool of one, 50 requests waiting. The worker itself writes down the gap between the last byte of
one answer and the last byte of the next request: in it lie the gateway's reading of the answer, the
hand-off, the writing of the next frame, and two wake-ups by the kernel. The floor is the same gap
where the other side is a client that does nothing but send the next frame."""

import json
import os
import sys
import time
from statistics import median

from kit import frames, process, servers, table, wrk

WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "apps", "gap-worker.py")


def gaps(path):
    with open(path, encoding="utf-8") as file:
        return [float(line) for line in file]


def bare(folder, seconds):
    socket, written = os.path.join(folder, "bare.sock"), os.path.join(folder, "bare.gaps")
    with process.Process([sys.executable, WORKER, "--socket", socket], env={**os.environ, "BENCH_GAPS": written}) as worker:
        process.until("the worker", lambda: os.path.exists(socket))
        link, ask = frames.Link.to(socket), frames.request("/")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            link.send(ask)
            link.receive()
        link.close()
        worker.stop()
    return gaps(written)


def through(binary, folder, seconds):
    written = os.path.join(folder, "gateway.gaps")
    flags = {"worker-command": f"{sys.executable} {WORKER}", "worker-pool-size": 1,
             "worker-queue-capacity": 1000, "worker-queue-timeout-ms": 5000}
    with servers.hedgerow(binary, flags, env={"BENCH_GAPS": written}) as server:
        wrk.run(server.url + "/", 51, seconds)
    return gaps(written)


def run(options):
    rounds, seconds = (options.rounds or 2, 2) if options.quick else (options.rounds or 9, 4)
    rows = {}
    for _ in range(rounds):
        with servers.scratch() as folder:
            for name, seen in [("bare exchange", bare(folder, seconds)), ("hand-off", through(options.binary, folder, seconds))]:
                # The first requests find no queue yet.
                seen = seen[100:]
                rows.setdefault(name, []).append([table.quantile(seen, q) for q in (0.5, 0.9, 0.99)] + [len(seen)])
    print(f"Pool of 1, 50 waiting, median (min–max) of {rounds} rounds of {seconds} s:\n")
    print(table.markdown(["worker idle between two requests, µs", "p50", "p90", "p99"], [
        [name] + [table.spread([run[at] for run in runs], "{:.0f}") for at in range(3)] for name, runs in rows.items()
    ]) + "\n")
    p99 = median(run[2] for run in rows["hand-off"])
    print(f"- hand-off at p99: {p99:.0f} µs, target < 200: {'met' if p99 < 200 else 'missed'}\n")
    return json.loads(json.dumps(rows))
