"""Resident memory: at rest, and for each idle connection that has made a request."""

import os
import ssl
import subprocess
import time

from kit import frames, machine, process, servers, table

# The allocator keeps what the busiest moment took, so the first connections look dear and the next
# ones free: few and many are both shown.
# An idle connection gives its buffers back after a second.
SETTLE = 3.0


def certificate(folder):
    cert, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
    subprocess.run([machine.program("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                    "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost"],
                   check=True, capture_output=True)
    return cert, key


def trusting():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket


def measure(binary, counts, tls):
    with servers.scratch() as folder:
        flags = {"worker-command": f"{binary} stage worker", "worker-pool-size": 4, "server-max-connections": 20000,
                 "worker-queue-capacity": 1000, "worker-queue-timeout-ms": 5000, "server-keep-alive-ms": 300000}
        if tls:
            flags["server-tls-cert"], flags["server-tls-key"] = certificate(folder)
        with servers.hedgerow(binary, flags) as server:
            time.sleep(1)
            seen, clients = [(0, process.rss_kib(server.pid))], []
            host = server.url.split("//", 1)[1]
            get, wrap = frames.Http.get("/hello", host), trusting() if tls else None
            try:
                for count in counts:
                    while len(clients) < count:
                        client = frames.Http(*host.split(":"), wrap=wrap)
                        clients.append(client)
                        if client.exchange(get) != 200:
                            raise machine.Failed("an answer that is not 200")
                    time.sleep(SETTLE)
                    seen.append((count, process.rss_kib(server.pid)))
            finally:
                for client in clients:
                    client.close()
    return seen


def run(options):
    limit = machine.many_descriptors()
    most = min(8000, limit - 200)
    result, rows = {}, []
    for name, tls in (("plain", False), ("TLS", True)):
        counts = [500, 2000] if options.quick or tls else [2000, most]
        seen = result[name] = measure(options.binary, counts, tls)
        rest, first = seen[0][1], seen[1]
        row = [name, f"{rest / 1024:.1f}"]
        for count, rss in seen[1:]:
            row.append(f"{(rss - rest) / count:.1f} ({count})")
        count, rss = seen[-1]
        row.append(f"{(rss - first[1]) / (count - first[0]):.1f}")
        rows.append(row)
    head = ["", "at rest, MiB", "KiB a connection (of so many)", "KiB a connection (of so many)", "KiB for each further one"]
    print(table.markdown(head, rows) + "\n")
    rest = result["plain"][0][1] / 1024
    (few, before), (many, after) = result["plain"][-2:]
    first, each = (before - result["plain"][0][1]) / few, (after - result["plain"][0][1]) / many
    print(f"- resident at rest: {rest:.1f} MiB, target < 20: {'met' if rest < 20 else 'missed'}")
    for count, kib in ((few, first), (many, each)):
        print(f"- an idle connection of {count}: {kib:.1f} KiB, target < 15: {'met' if kib < 15 else 'missed'}")
    print()
    return result
