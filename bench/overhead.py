"""What the gateway itself costs: CPU time for a request, and time on the way of one.

The worker is the scripted one. One belongs to the gateway, and to another a client speaks frames
itself, the bare exchange; the two alternate, so that both see the same machine."""

import os
import time
from statistics import median

from kit import frames, machine, process, servers, table, wrk


def scripted(binary, socket):
    worker = process.Process([binary, "stage", "worker", "--socket", socket])
    process.until("the scripted worker", lambda: os.path.exists(socket))
    return worker


def latency(url, socket, count):
    """Microseconds of `count` pairs: the bare exchange, and the same through HTTP."""
    host = url.split("//", 1)[1]
    bare, http = frames.Link.to(socket), frames.Http(*host.split(":"))
    ask, get = frames.request(), frames.Http.get("/hello", host)
    clock, pairs = time.perf_counter_ns, []
    for index in range(count + 200):
        a = clock()
        bare.send(ask)
        bare.receive()
        b = clock()
        http.exchange(get)
        c = clock()
        if index >= 200:
            pairs.append(((b - a) / 1000, (c - b) / 1000))
    bare.close()
    http.close()
    return pairs


def run(options):
    rounds = options.rounds or (3 if options.quick else 9)
    count, seconds = (1500, 1) if options.quick else (6000, 3)
    above, bare50, http50, above99 = [], [], [], []
    with servers.scratch() as folder:
        socket = os.path.join(folder, "worker.sock")
        pool = {"worker-command": f"{options.binary} stage worker", "worker-pool-size": 1}
        with scripted(options.binary, socket), servers.hedgerow(options.binary, pool) as server:
            for _ in range(rounds):
                pairs = latency(server.url, socket, count)
                a, b = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
                bare50.append(median(a))
                http50.append(median(b))
                above.append(median(b) - median(a))
                above99.append(table.quantile(b, 0.99) - table.quantile(a, 0.99))
    print(f"One connection, one worker; microseconds, median (min–max) of {rounds} rounds of {count} pairs:\n")
    print(table.markdown(["", "µs"], [
        ["bare exchange with the worker's socket, p50", table.spread(bare50, "{:.0f}")],
        ["through the gateway, p50", table.spread(http50, "{:.0f}")],
        ["above the bare exchange, p50", table.spread(above, "{:.0f}")],
        ["above the bare exchange, p99", table.spread(above99, "{:.0f}")],
    ]) + "\n")

    rows, costs = [], {}
    command = f"{options.binary} stage worker"
    flags = {"worker-command": command, "worker-pool-size": 4,
             "worker-queue-capacity": 1000, "worker-queue-timeout-ms": 5000}
    with servers.hedgerow(options.binary, flags) as server:
        wrk.run(server.url + "/hello", 16, 1)
        for _ in range(rounds):
            for connections in (1, 4, 16, 64):
                before = process.cpu_ms([server.pid])
                load = wrk.run(server.url + "/hello", connections, seconds)
                cpu = (process.cpu_ms([server.pid]) - before) * 1000 / load.requests
                costs.setdefault(connections, []).append((cpu, load.rate))
    for connections, runs in costs.items():
        rows.append([connections, table.spread([run[0] for run in runs], "{:.1f}"),
                     table.spread([run[1] for run in runs], "{:.0f}")])
    print("The gateway's process alone, 4 scripted workers:\n")
    print(table.markdown(["connections", "CPU µs a request", "requests/s"], rows) + "\n")
    good = median(above) < 150
    print(f"- above the bare exchange at p50: {median(above):.0f} µs, target < 150: {'met' if good else 'missed'}\n")
    return {"bare_us": bare50, "http_us": http50, "above_us": above,
            "gateway_cpu_us": {str(c): [round(run[0], 2) for run in runs] for c, runs in costs.items()}}
