"""Processes that are started, watched through /proc, and never left behind."""

import os
import signal
import subprocess
import time

TICK_MS = 1000.0 / os.sysconf("SC_CLK_TCK")


class Process:
    """A program in a session of its own: it ends with everything it started."""

    def __init__(self, command, **options):
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.DEVNULL)
        options.setdefault("stderr", subprocess.DEVNULL)
        self.child = subprocess.Popen(command, start_new_session=True, **options)
        self.pid = self.child.pid

    def stop(self):
        everyone = tree(self.pid)
        if self.child.poll() is None:
            self.child.terminate()
            try:
                self.child.wait(5)
            except subprocess.TimeoutExpired:
                pass
        for pid in everyone:
            # Children with groups of their own; a number that was given away since is not ours.
            if pid != self.pid and parent_of(pid) is not None and everyone[pid] == start_of(pid):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        self.child.wait()
        for stream in (self.child.stdout, self.child.stderr):
            if stream is not None:
                stream.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def stat(pid):
    """The fields of /proc/PID/stat from the state on, or None."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def parent_of(pid):
    fields = stat(pid)
    return int(fields[1]) if fields else None


def start_of(pid):
    fields = stat(pid)
    return fields[19] if fields else None


def tree(root):
    """A process and its descendants, each with its start time."""
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            children.setdefault(parent_of(int(name)), []).append(int(name))
    found, left = {}, [root]
    while left:
        pid = left.pop()
        found[pid] = start_of(pid)
        left.extend(children.get(pid, []))
    return found


def cpu_ms(pids):
    """CPU time so far, user and system, with that of children that were waited for.

    Where every thread tells its run time in nanoseconds that is taken, for ticks are coarse."""
    return sum(_cpu_ms(pid) for pid in pids)


def _cpu_ms(pid):
    fields = stat(pid)
    if fields is None:
        return 0.0
    waited_for = sum(map(int, fields[13:15])) * TICK_MS
    total = 0
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/schedstat", encoding="utf-8") as file:
                total += int(file.read().split()[0])
        return total / 1e6 + waited_for
    except (FileNotFoundError, ProcessLookupError):
        return sum(map(int, fields[11:13])) * TICK_MS + waited_for


def rss_kib(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        for line in file:
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    return 0


def until(what, check, seconds=10.0):
    """Waits until `check` gives something true, and gives that."""
    from .machine import Failed

    end = time.monotonic() + seconds
    while True:
        result = check()
        if result:
            return result
        if time.monotonic() > end:
            raise Failed(f"waited {seconds:.0f} s for {what}")
        time.sleep(0.01)
