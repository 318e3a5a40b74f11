"""The circuit breaker beside those of other crates: scenes in which breakers go wrong, and what a call costs.

The package `breaker/` is no part of the workspace: its dependencies are no business of Hedgerow's."""

import os
import re
import subprocess

from kit import machine, servers

HERE = os.path.dirname(os.path.abspath(__file__))
MOST_INSTRUCTIONS, MOST_NS, MOST_SHARED = 150, 40, 4
SCENES = """A window of 1 s, 20 calls at least, half of them failed, open for 200 ms, one probe. *slides*: 24 failures within half a
window, across where a window that does not slide would begin anew. *forgets*: 15 failures, three windows of silence, 7
failures. *half-open herd*: 64 calls at the end of the open time, how many get through. *late results*: 30 calls from before
the opening fail after the circuit has closed again. *leaked probe*: its caller goes away; when the next one may go.
"""


def build():
    command = ["cargo", "build", "--release", "--locked", "--quiet", "--manifest-path", f"{HERE}/breaker/Cargo.toml"]
    target = os.path.join(machine.REPO, "target", "bench-breaker")
    built = subprocess.run(command, env={**os.environ, "CARGO_TARGET_DIR": target}, check=False)
    if built.returncode:
        raise machine.Failed("bench/breaker does not build")
    return os.path.join(target, "release", "hedgerow-bench-breaker")


def says(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout


def instructions(program, calls):
    """Of so many calls more: the difference of two runs."""
    def count(number):
        with servers.scratch() as folder:
            out = os.path.join(folder, "out")
            says(machine.program("valgrind"), "--tool=callgrind", f"--callgrind-out-file={out}", program, "count", str(number))
            with open(out, encoding="utf-8") as file:
                return int(re.search(r"^(?:summary|totals): (\d+)", file.read(), re.M).group(1))

    return (count(2 * calls) - count(calls)) / calls


def run(options):
    program = build()
    print(SCENES)
    print(says(program, "scenes"))
    table = says(program, "speed", str(300_000 if options.quick else 5_000_000))
    print("Closed circuit, may it go and its success noted, median of 9 rounds:\n")
    print(table)
    own = re.search(r"^\| Hedgerow, time given \| (\d+) \| (\d+) \| ([\d.]+) \|", table, re.M)
    ns, shared = int(own.group(1)), float(own.group(3))
    result = {"ns": ns, "two_threads": shared}

    def goal(what, value, most):
        print(f"- {what}: {value:g}, goal at most {most}: {'met' if value <= most else '**missed**'}")

    try:
        result["instructions"] = instructions(program, 100_000)
        goal("instructions of admit and settle", round(result["instructions"]), MOST_INSTRUCTIONS)
    except machine.Missing as missing:
        print(f"- instructions not counted: {missing}")
    goal("ns of both", ns, MOST_NS)
    goal("two threads, times one", shared, MOST_SHARED)
    print()
    return result
