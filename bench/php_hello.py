"""A hello application on persistent PHP workers, beside nginx with php-fpm and beside a crude loop.

Once plain, once with a boot that costs 5 ms of CPU: persistent workers pay it once, php-fpm for
each request."""

import contextlib
import os
from statistics import median

from kit import machine, process, servers, table, wrk

WORKERS, CONNECTIONS = 4, 16


def peers(binary, boot):
    suffix = "-boot" if boot else ""
    app = os.path.join(machine.APPS, f"hello-worker{suffix}.php")
    script = os.path.join(machine.APPS, f"hello-fpm{suffix}.php")
    yield "hedgerow", servers.hedgerow(binary, servers.php_pool(WORKERS, app))
    yield "nginx + php-fpm", servers.nginx_fpm(WORKERS, script)
    yield "nginx + php-fpm, keep_conn", servers.nginx_fpm(WORKERS, script, keep_conn=True)
    yield "nginx + crude loop", servers.nginx_crude_loop(WORKERS, "crude-boot.php" if boot else "handler.php")


def measure(binary, boot, rounds, seconds):
    """Every peer once in every round, so that a slow minute is slow for all of them."""
    seen = {}
    with contextlib.ExitStack() as stack:
        running = [(name, stack.enter_context(server)) for name, server in peers(binary, boot)]
        for _, server in running:
            wrk.run(server.url + "/", CONNECTIONS, 1, strict=False)
        for _ in range(rounds):
            for name, server in running:
                pids = server.pids()
                before = process.cpu_ms(pids)
                load = wrk.run(server.url + "/", CONNECTIONS, seconds, strict="keep_conn" not in name)
                cpu = process.cpu_ms(pids) - before
                if not load.requests:
                    raise machine.Failed(f"{name} answered nothing for {seconds} s")
                seen.setdefault(name, []).append((load.rate, load.p50, load.p99, cpu / load.requests * 1000))
    return seen


def report(seen):
    ours = [list(column) for column in zip(*seen["hedgerow"])]
    rows = []
    for name, runs in seen.items():
        rate, p50, p99, cpu = (list(column) for column in zip(*runs))
        rows.append([
            name,
            table.spread(rate, "{:.0f}"),
            table.spread([value / 1000 for value in p50]),
            table.spread([value / 1000 for value in p99]),
            table.spread(cpu, "{:.1f}"),
            "" if name == "hedgerow" else table.spread(table.ratios(ours[0], rate)),
            "" if name == "hedgerow" else table.spread(table.ratios(cpu, ours[3])),
        ])
    head = ["", "requests/s", "p50 ms", "p99 ms", "CPU ms per 1,000", "hedgerow's requests/s ×", "hedgerow's CPU ÷"]
    print(table.markdown(head, rows) + "\n", flush=True)
    return {name: [[round(value, 3) for value in run] for run in runs] for name, runs in seen.items()}


def verdict(what, value, target, good):
    print(f"- {what}: {value:.2f}, target {target}: {'met' if good else 'missed'}")


def run(options):
    machine.many_descriptors()
    rounds, seconds = (options.rounds or 2, 1) if options.quick else (options.rounds or 7, 4)
    print(f"Hello, {WORKERS} workers, {CONNECTIONS} connections, median (min–max) of {rounds} rounds of {seconds} s:\n")
    plain = measure(options.binary, False, rounds, seconds)
    result = {"plain": report(plain)}
    print("The same, with a boot that costs 5 ms of CPU:\n")
    booting = measure(options.binary, True, rounds, seconds)
    result["boot_5_ms"] = report(booting)

    def ratio(seen, name, column, inverse=False):
        ours = [run[column] for run in seen["hedgerow"]]
        theirs = [run[column] for run in seen[name]]
        return median(table.ratios(theirs, ours) if inverse else table.ratios(ours, theirs))

    faster = ratio(plain, "nginx + php-fpm", 0)
    verdict("requests/s over nginx + php-fpm", faster, "≥ 2", faster >= 2)
    cheaper = ratio(plain, "nginx + crude loop", 3, inverse=True)
    verdict("CPU of nginx + crude loop over hedgerow's", cheaper, "> 1", cheaper > 1)
    boot = ratio(booting, "nginx + php-fpm", 3, inverse=True)
    verdict("with the boot, CPU of nginx + php-fpm over hedgerow's", boot, "≥ 100", boot >= 100)
    rate = ratio(booting, "nginx + php-fpm", 0)
    verdict("with the boot, requests/s over nginx + php-fpm", rate, "≥ 100", rate >= 100)
    print()
    return result
