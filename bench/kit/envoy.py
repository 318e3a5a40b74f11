"""Envoy with a configuration that a bench makes."""

import contextlib
import json
import os
import socket

from . import machine
from .process import Process, until


def listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True


def at(port):
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def cluster(name, ports, **more):
    """A cluster of endpoints on loopback."""
    endpoints = [{"endpoint": {"address": at(port)}} for port in ports]
    return {"name": name, "type": "STATIC", "connect_timeout": "1s",
            "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]}, **more}


@contextlib.contextmanager
def serve(folder, network_filter, clusters, threads=1, prefix=()):
    """Envoy with one listener and that filter on it; yields the port and the process."""
    port, path = machine.free_port(), os.path.join(folder, "envoy.json")
    name, typed = network_filter
    chain = [{"filters": [{"name": name, "typed_config": typed}]}]
    listener = {"name": "front", "address": at(port), "filter_chains": chain}
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"static_resources": {"listeners": [listener], "clusters": clusters}}, file)
    program = machine.program("envoy")
    command = [*prefix, program, "-c", path, "--disable-hot-restart", "--concurrency", str(threads), "-l", "off"]
    with Process(command) as process:
        until("envoy", lambda: listens(port))
        yield port, process


def http(route, stat="egress"):
    """The HTTP filter with one route for everything."""
    kind = "type.googleapis.com/envoy.extensions.filters"
    return "envoy.filters.network.http_connection_manager", {
        "@type": f"{kind}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": stat,
        "generate_request_id": False,
        "route_config": {"virtual_hosts": [
            {"name": "all", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "route": route}]}]},
        "http_filters": [{"name": "envoy.filters.http.router",
                          "typed_config": {"@type": f"{kind}.http.router.v3.Router"}}],
    }
