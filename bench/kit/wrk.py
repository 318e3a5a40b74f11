"""The load generator: wrk, its summary by a script of its own."""

import os
import subprocess
import tempfile

from .machine import Failed, program

SUMMARY = """
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("RESULT %d %d %d %d %d %d %d\\n", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99), latency.max, e.status,
    e.connect + e.read + e.write + e.timeout))
end
"""


class Load:
    """What one run of wrk saw; times in microseconds."""

    def __init__(self, numbers):
        self.requests, duration, self.p50, self.p99, self.max, self.refused, self.broken = numbers
        self.seconds = duration / 1e6
        self.rate = self.requests / self.seconds

    @property
    def good(self):
        return self.requests - self.refused


def run(url, connections, seconds, threads=1, strict=True, timeout=None, prefix=()):
    """Closed-loop load. With `strict`, an answer that is no 2xx or 3xx is a failed bench."""
    wrk = program("wrk")
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(SUMMARY)
        script.flush()
        command = [*prefix, wrk, f"-t{threads}", f"-c{connections}", f"-d{seconds}s", "-s", script.name]
        if timeout:
            command += ["--timeout", f"{timeout}s"]
        out = subprocess.run(command + [url], capture_output=True, text=True, timeout=seconds + 30, env=os.environ)
    for line in out.stdout.splitlines():
        if line.startswith("RESULT "):
            load = Load([int(float(word)) for word in line.split()[1:]])
            break
    else:
        raise Failed(f"wrk said: {out.stdout} {out.stderr}")
    if strict and (load.refused or load.broken or not load.requests):
        raise Failed(f"{url}: {load.refused} bad answers and {load.broken} broken exchanges of {load.requests}")
    return load
