"""Resident memory of plans that are open: each streams events of an upstream to its client, and no worker waits."""

import contextlib
import socket
import subprocess
import time
from urllib.parse import quote

from kit import machine, servers, table
from kit.process import Process, rss_kib

PLANS, MOST_MIB = 5_000, 200
SETTLE = 6.0  # every plan has had two further events by then


def opened(address, request):
    """A client whose first event has come."""
    client = socket.create_connection(address)
    client.settimeout(20)
    client.sendall(request)
    seen = b""
    while b"data:" not in seen:
        piece = client.recv(65536)
        if not piece:
            raise machine.Failed(f"a plan ended with {seen[:200]!r}")
        seen += piece
    if b" 200 " not in seen.split(b"\r\n", 1)[0]:
        raise machine.Failed(f"a plan was answered {seen[:200]!r}")
    return client


def run(options):
    plans = min(500 if options.quick else PLANS, (machine.many_descriptors() - 500) // 3)
    with contextlib.ExitStack() as stack:
        upstream = stack.enter_context(Process([options.binary, "stage", "upstream"], stdout=subprocess.PIPE, text=True))
        url = upstream.child.stdout.readline().strip()
        flags = {"worker-command": f"{options.binary} stage worker", "worker-pool-size": 2,
                 "worker-queue-capacity": 1000, "worker-queue-timeout-ms": 5000, "upstream-up-url": url}
        server = stack.enter_context(servers.hedgerow(options.binary, flags))
        host, port = server.url.split("//", 1)[1].split(":")
        path = quote("/model?format=events&n=100000&ms=3000", safe="")
        target = f"/plan?upstream=up&path={path}&codec=sse&mapper=sse_passthrough&output_stream_type=sse"
        request = f"GET {target} HTTP/1.1\r\nhost: bench\r\n\r\n".encode()
        at_rest = rss_kib(server.pid) / 1024
        clients = []
        stack.callback(lambda: [client.close() for client in clients])
        for _ in range(plans):
            clients.append(opened((host, int(port)), request))
        time.sleep(SETTLE)
        after = rss_kib(server.pid) / 1024
        more = sum(bool(client.recv(65536)) for client in clients)
    print(table.markdown(["", "MiB resident"], [["at rest", f"{at_rest:.1f}"], [f"{plans:,} open SSE plans", f"{after:.1f}"]]))
    met = "met" if after <= MOST_MIB else "**missed**"
    print(f"\n- {more:,} of them went on; {(after - at_rest) * 1024 / plans:.1f} KiB each; goal at most {MOST_MIB} MiB: {met}\n")
    return {"plans": plans, "at_rest_mib": at_rest, "mib": after}
