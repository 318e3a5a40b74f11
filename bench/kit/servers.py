"""Hedgerow and its peers, each as a context that starts it and ends it."""

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request

from .machine import APPS, REPO, Failed, cpus, fpm, free_port, program
from .process import Process, tree, until


class Server:
    """A server that answers at `url`; `pid` is the process whose own cost is of interest."""

    def __init__(self, url, processes, pid=None, admin=None):
        self.url, self.processes, self.admin = url, processes, admin
        self.pid = pid or processes[0].pid

    def pids(self):
        return [pid for process in self.processes for pid in tree(process.pid)]


@contextlib.contextmanager
def scratch():
    path = tempfile.mkdtemp(prefix="hedgerow-bench-")
    os.chmod(path, 0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return response.status == 200
    except urllib.error.HTTPError:
        return False
    except OSError:
        return False


@contextlib.contextmanager
def hedgerow(binary, flags, env=None, wrap=()):
    """`hedgerow serve` with these flags, on ports that the system gives."""
    command = [*wrap, binary, "serve", "--server-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]
    for name, value in {"log-access": "false", **flags}.items():
        command += [f"--{name}", str(value)]
    with Process(command, stderr=subprocess.PIPE, env={**os.environ, **(env or {})}, text=True) as process:
        said = []
        found = None
        for line in process.child.stderr:
            said.append(line)
            found = re.search(r"listens on (\S+), admin on (\S+)", line)
            if found:
                break
        if not found:
            raise Failed("hedgerow did not start: " + "".join(said).strip())
        # A pipe that nobody reads would hold up what writes to it.
        drain = threading.Thread(target=lambda: [None for _ in process.child.stderr], daemon=True)
        drain.start()
        yield Server(found.group(1), [process], admin=found.group(2))
        process.stop()
        drain.join(5)


def php_pool(workers, app):
    """Flags for persistent PHP workers, opcache on as a deployment has it."""
    return {
        "php-app": app,
        "php-worker": os.path.join(REPO, "sdk", "php", "bin", "hedgerow-worker"),
        "php-bin": program("php", "php-cli"),
        "php-args": "-d,opcache.enable_cli=1",
        "worker-pool-size": workers,
        "worker-queue-capacity": 1000,
        "worker-queue-timeout-ms": 5000,
    }


def _user():
    """Server processes may only change their user where they are started by root."""
    return os.geteuid() == 0


@contextlib.contextmanager
def nginx(folder, upstream, location):
    """nginx in front of something, as it is deployed: a worker for each CPU, no access log."""
    port = free_port()
    path = os.path.join(folder, "nginx.conf")
    temporary = "\n".join(
        f"    {kind}_temp_path {folder}/{kind};" for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    )
    with open(path, "w", encoding="utf-8") as file:
        file.write(
            f"""daemon off;
{"user root;" if _user() else ""}
worker_processes {cpus()};
pid {folder}/nginx.pid;
error_log {folder}/nginx.log crit;
events {{ worker_connections 4096; }}
http {{
    access_log off;
{temporary}
    keepalive_requests 1000000000;
    upstream app {{ {upstream} }}
    server {{
        listen 127.0.0.1:{port};
        location / {{ {location} }}
    }}
}}
"""
        )
    with Process([program("nginx"), "-p", folder, "-c", path, "-e", f"{folder}/nginx.log"]) as process:
        yield port, process


@contextlib.contextmanager
def nginx_fpm(workers, script, keep_conn=False, terminate=None, read_timeout=None):
    """nginx and php-fpm with a static pool, opcache on."""
    with scratch() as folder:
        socket = f"{folder}/fpm.sock"
        conf = os.path.join(folder, "fpm.conf")
        with open(conf, "w", encoding="utf-8") as file:
            owner = "user = root\ngroup = root\n" if _user() else ""
            limit = f"request_terminate_timeout = {terminate}\n" if terminate else ""
            file.write(
                f"[global]\nerror_log = {folder}/fpm.log\ndaemonize = no\n"
                f"[www]\n{owner}listen = {socket}\nlisten.backlog = 4096\npm = static\npm.max_children = {workers}\n{limit}"
            )
        command = [fpm(), "-F", "-y", conf, "-d", "opcache.enable=1"]
        if _user():
            command.append("-R")
        # A kept connection holds its php-fpm process: no more of them than there are processes.
        keep = f"keepalive {max(1, workers // cpus())};" if keep_conn else ""
        location = f"""
            fastcgi_pass app;
            {"fastcgi_keep_conn on;" if keep_conn else ""}
            {f"fastcgi_read_timeout {read_timeout};" if read_timeout else ""}
            include /etc/nginx/fastcgi_params;
            fastcgi_param SCRIPT_FILENAME {script};
        """
        with Process(command) as pool, nginx(folder, f"server unix:{socket}; {keep}", location) as (port, front):
            url = f"http://127.0.0.1:{port}"
            until("nginx and php-fpm", lambda: answers(url + "/"))
            yield Server(url, [front, pool])


@contextlib.contextmanager
def nginx_crude_loop(workers, app):
    """nginx in front of the smallest PHP loop that boots once."""
    with scratch() as folder:
        socket = f"{folder}/loop.sock"
        loop = os.path.join(APPS, "crude-loop.php")
        command = [program("php", "php-cli"), "-d", "opcache.enable_cli=1", loop, socket, str(workers), app]
        location = "proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection '';"
        with Process(command) as loops, nginx(folder, f"server unix:{socket};", location) as (port, front):
            url = f"http://127.0.0.1:{port}"
            until("nginx and the loop", lambda: answers(url + "/"))
            yield Server(url, [front, loops])
