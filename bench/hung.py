"""A dependency that hangs: how many good requests are served meanwhile.

Four workers. Four times a second somebody asks for a page whose dependency does not answer for
10 s; everybody else wants the hello page. The read timeout is 500 ms in front of every peer."""

import os
import socket
import threading
import time

from kit import machine, servers, table, wrk

WORKERS, CONNECTIONS, EVERY = 4, 8, 0.25


class Hangs:
    """Asks for the hanging page again and again, and does not wait for answers."""

    def __init__(self, url):
        host, port = url.split("//", 1)[1].split(":")
        self.address, self.host = (host, int(port)), f"{host}:{port}"
        self.over, self.open = threading.Event(), []
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.over.wait(EVERY):
            connection = socket.create_connection(self.address)
            connection.sendall(f"GET /hang HTTP/1.1\r\nhost: {self.host}\r\n\r\n".encode())
            self.open.append(connection)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        for connection in self.open:
            connection.close()


def peers(binary):
    worker = os.path.join(machine.APPS, "hello-worker.php")
    script = os.path.join(machine.APPS, "hello-fpm.php")
    yield "hedgerow", lambda: servers.hedgerow(
        binary, {**servers.php_pool(WORKERS, worker), "worker-read-timeout-ms": 500})
    yield "nginx + php-fpm", lambda: servers.nginx_fpm(WORKERS, script, read_timeout="500ms")
    yield "nginx + php-fpm, request_terminate_timeout 1 s", lambda: servers.nginx_fpm(
        WORKERS, script, read_timeout="500ms", terminate="1s")


def run(options):
    rounds, seconds = (options.rounds or 1, 8) if options.quick else (options.rounds or 3, 15)
    seen = {}
    for _ in range(rounds):
        for name, start in peers(options.binary):
            with start() as server:
                calm = wrk.run(server.url + "/", CONNECTIONS, 3)
                with Hangs(server.url):
                    time.sleep(2)  # long enough for every worker to have been caught
                    load = wrk.run(server.url + "/", CONNECTIONS, seconds, strict=False, timeout=20)
                seen.setdefault(name, []).append(
                    (calm.rate, load.good / load.seconds, load.good / load.seconds / calm.rate, load.refused + load.broken))
    rows = []
    for name, runs in seen.items():
        calm, rate, share, bad = (list(column) for column in zip(*runs))
        rows.append([name, table.spread(calm, "{:.0f}"), table.spread(rate, "{:.0f}"),
                     table.spread([value * 100 for value in share], "{:.0f} %"), table.spread(bad, "{:.0f}")])
    print(f"Median (min–max) of {rounds} rounds of {seconds} s:\n")
    head = ["", "good/s before", "good/s meanwhile", "share kept", "failed in all"]
    print(table.markdown(head, rows) + "\n")
    return seen
