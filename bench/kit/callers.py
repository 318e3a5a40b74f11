"""Those who stand between an application and the two endpoints that it calls.

Each starts one and yields a `Caller`. Where it can, it tries anew after `after` seconds of silence: by
a twin beside the first call, or by giving the first call up."""

import contextlib
import os
import re

from . import envoy, machine
from .envoy import listens
from .process import Process, cpu_ms, tree, until


class Caller:
    """Where it listens, what is put before a path, and what it is made of."""

    def __init__(self, port, process, prefix=""):
        self.port, self.process, self.prefix = port, process, prefix

    def cpu_ms(self):
        return cpu_ms(tree(self.process.pid))


@contextlib.contextmanager
def hedgerow(binary, folder, endpoints, after=None, more="", pin=()):
    """Its egress port, defaults but for the threshold."""
    path, log = os.path.join(folder, "hedgerow.toml"), os.path.join(folder, "hedgerow.log")
    urls = ", ".join(f'"http://127.0.0.1:{port}"' for port in endpoints)
    hedge = f"hedge = {{ after_ms = {after * 1000:.0f} }}\n" if after else ""
    with open(path, "w", encoding="utf-8") as file:
        file.write('[admin]\nlisten = "127.0.0.1:0"\n[egress]\nlisten = "127.0.0.1:0"\n[log]\naccess = false\n'
                   f"[upstream.up]\nendpoints = [{urls}]\n{hedge}{more}")
    with open(log, "w", encoding="utf-8") as out, Process([*pin, binary, "serve", "-c", path], stderr=out) as process:
        def found():
            with open(log, encoding="utf-8") as said:
                return re.search(r"egress on http://\S+:(\d+)", said.read())

        yield Caller(int(until("hedgerow", found).group(1)), process, "/up")


@contextlib.contextmanager
def envoy_hedging(folder, endpoints, after=None, budget=None, pin=()):
    """`hedge_on_per_try_timeout` to another endpoint; retries without a cap, or with its retry budget."""
    route = {"cluster": "up", "timeout": "0s"}
    thresholds = {"max_connections": 100000, "max_pending_requests": 100000, "max_requests": 100000,
                  "max_retries": 100000}
    if after:
        predicate = "type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"
        route["retry_policy"] = {
            "retry_on": "5xx", "num_retries": 1, "per_try_timeout": f"{after}s", "host_selection_retry_max_attempts": 3,
            "retry_host_predicate": [{"name": "envoy.retry_host_predicates.previous_hosts",
                                      "typed_config": {"@type": predicate}}]}
        route["hedge_policy"] = {"hedge_on_per_try_timeout": True}
    if budget:
        thresholds["retry_budget"] = {"budget_percent": {"value": budget}, "min_retry_concurrency": 3}
    cluster = envoy.cluster("up", endpoints, circuit_breakers={"thresholds": [thresholds]})
    with envoy.serve(folder, envoy.http(route), [cluster], prefix=pin) as (port, process):
        yield Caller(port, process)


@contextlib.contextmanager
def nginx(folder, endpoints, after=None, pin=(), workers=1):
    """`proxy_next_upstream timeout`: the first call is given up and another endpoint asked."""
    port, path = machine.free_port(), os.path.join(folder, "nginx.conf")
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "\n".join(f"    {kind}_temp_path {folder}/{kind};" for kind in kinds)
    servers = " ".join(f"server 127.0.0.1:{port} max_fails=0;" for port in endpoints)
    anew = f"""proxy_read_timeout {after * 1000:.0f}ms;
            proxy_next_upstream error timeout; proxy_next_upstream_tries 2;""" if after else "proxy_next_upstream off;"
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"""daemon off;
{"user root;" if os.geteuid() == 0 else ""}
worker_processes {workers};
pid {folder}/nginx.pid;
error_log {folder}/nginx.log crit;
events {{ worker_connections 16384; }}
http {{
    access_log off;
{temporary}
    keepalive_requests 1000000000;
    upstream up {{ {servers} keepalive 256; keepalive_requests 1000000000; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://up; proxy_http_version 1.1; proxy_set_header Connection "";
            {anew}
        }}
    }}
}}
""")
    command = [*pin, machine.program("nginx"), "-p", folder, "-c", path, "-e", f"{folder}/nginx.log"]
    with Process(command) as process:
        until("nginx", lambda: listens(port))
        yield Caller(port, process)


@contextlib.contextmanager
def haproxy(folder, endpoints, after=None, pin=()):
    """`retry-on response-timeout` with `redispatch`: the first call is given up and another endpoint asked."""
    port, path = machine.free_port(), os.path.join(folder, "haproxy.cfg")
    servers = "\n".join(f"    server s{n} 127.0.0.1:{port} maxconn 5000" for n, port in enumerate(endpoints))
    anew = "retry-on conn-failure response-timeout\n    retries 1\n    option redispatch 1" if after else "retries 0"
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"""global
    maxconn 5000
    nbthread 1
defaults
    mode http
    timeout connect 1s
    timeout client 60s
    timeout server {after * 1000 if after else 60000:.0f}ms
    {anew}
frontend front
    bind 127.0.0.1:{port}
    default_backend up
backend up
    balance roundrobin
    http-reuse always
{servers}
""")
    with Process([*pin, machine.program("haproxy"), "-db", "-f", path]) as process:
        until("haproxy", lambda: listens(port))
        yield Caller(port, process)
