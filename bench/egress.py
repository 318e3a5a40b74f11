"""What it costs to proxy a call: CPU time a request through Hedgerow's egress port, nginx, HAProxy and Envoy.

HTTP/1.1 with keep-alive on both sides, a short answer, no retries and no hedging anywhere, and once
more with hedging for Hedgerow. Each proxy has one thread on one CPU, load and origin are on another;
they take turns, and a ratio is taken inside a round."""

import contextlib
import os

from kit import callers, machine, servers, table, wrk
from kit.envoy import listens
from kit.process import Process, rss_kib, tree, until

CONNECTIONS = 16
LOWER = {"Envoy": 0.6, "nginx": 1.3}  # of whose CPU time Hedgerow's may be so much


def pins():
    """For the proxy, and for everything else."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        return (), ()
    return ("taskset", "-c", str(cpus[0])), ("taskset", "-c", ",".join(map(str, cpus[1:])))


@contextlib.contextmanager
def origin(folder, pin):
    """Answers at once, as cheaply as may be."""
    port, path = machine.free_port(), os.path.join(folder, "origin.conf")
    os.mkdir(os.path.join(folder, "origin"))
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"""daemon off;
{"user root;" if os.geteuid() == 0 else ""}
worker_processes 1;
pid {folder}/origin/nginx.pid;
error_log {folder}/origin/nginx.log crit;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_body_temp_path {folder}/origin/a; proxy_temp_path {folder}/origin/b; fastcgi_temp_path {folder}/origin/c;
    uwsgi_temp_path {folder}/origin/d; scgi_temp_path {folder}/origin/e;
    keepalive_requests 1000000000;
    default_type application/json;
    server {{ listen 127.0.0.1:{port}; location / {{ return 200 '{{"hello":"world"}}'; }} }}
}}
""")
    with Process([*pin, machine.program("nginx"), "-p", folder, "-c", path, "-e", f"{folder}/origin/nginx.log"]) as process:
        until("the origin", lambda: listens(port))
        yield port, process


def subjects(binary, pin):
    def own(**more):
        return lambda folder, ends: callers.hedgerow(binary, folder, ends, pin=pin, **more)

    yield "Hedgerow", own()
    yield "Hedgerow, `hedge`", own(after=5.0)
    yield "nginx", lambda folder, ends: callers.nginx(folder, ends, pin=pin)
    yield "HAProxy", lambda folder, ends: callers.haproxy(folder, ends, pin=pin)
    yield "Envoy", lambda folder, ends: callers.envoy_hedging(folder, ends, pin=pin)


def run(options):
    rounds, seconds = options.rounds or (3 if options.quick else 7), 1 if options.quick else 3
    pin, rest = pins()
    found, memory = {}, {}
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(servers.scratch())
        port, _ = stack.enter_context(origin(folder, rest))
        running = {}
        for name, start in subjects(options.binary, pin):
            try:
                running[name] = stack.enter_context(start(stack.enter_context(servers.scratch()), [port]))
            except machine.Missing as missing:
                print(f"{name} skipped: {missing}\n", flush=True)
        for number in range(rounds + 1):
            for name, caller in running.items():
                url = f"http://127.0.0.1:{caller.port}{caller.prefix}/hello"
                before = caller.cpu_ms()
                load = wrk.run(url, CONNECTIONS, seconds if number else 1, prefix=rest)
                if number:  # the first is a warm-up
                    cpu = (caller.cpu_ms() - before) * 1000 / load.requests
                    found.setdefault(name, []).append((cpu, load.rate, load.p50, load.p99))
        for name, caller in running.items():
            memory[name] = sum(rss_kib(pid) for pid in tree(caller.process.pid)) / 1024
    own = [seen[0] for seen in found["Hedgerow"]]
    rows = []
    for name, seen in found.items():
        cpu = [one[0] for one in seen]
        rows.append([name, table.spread(cpu, "{:.1f}"), table.spread([one[1] for one in seen], "{:.0f}"),
                     table.spread([one[2] for one in seen], "{:.0f}"), f"{memory[name]:.0f}",
                     "" if name == "Hedgerow" else table.spread(table.ratios(own, cpu))])
    print(f"{CONNECTIONS} connections, one CPU for the proxy, {rounds} rounds of {seconds} s:\n")
    print(table.markdown(["", "CPU µs a request", "requests/s", "p50 µs", "resident MiB", "Hedgerow's CPU ÷ this"], rows) + "\n")
    for name, most in LOWER.items():
        if name in found:
            ratio = table.median(table.ratios(own, [one[0] for one in found[name]]))
            print(f"- CPU over {name}'s: {ratio:.2f}, goal at most {most}: {'met' if ratio <= most else '**missed**'}")
    print()
    return {name: {"cpu_us": [round(one[0], 2) for one in seen], "rate": [round(one[1]) for one in seen]}
            for name, seen in found.items()}
