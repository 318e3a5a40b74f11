"""What the bench `incident` prints and draws of its runs."""

import contextlib
import re
import subprocess

from kit import machine, svg, table
from kit.respclient import client_name


def seconds_table(run):
    """Every second around the stall, and every fifth after it."""
    plan, rows = run.plan, []
    for second in range(plan.warm - 2, plan.total):
        if second > plan.back + 3 and second % 5:
            continue
        seen = run.by_second[second]
        deltas = ["", "", ""]
        if len(run.admin) > second + 1:
            before, after = run.admin[second]["reads"], run.admin[second + 1]["reads"]
            deltas = [after[name] - before[name] for name in ("shed", "stale", "timeout")]
        rows.append([second, seen["requests"], seen["hits"], seen["misses"], *deltas, seen["errors"], seen["failed"],
                     seen["database"], seen["paid"], f"{run.call_p99(second, second + 1):.1f}",
                     f"{run.took_p99(second, second + 1):.0f}"])
    head = ["second", "requests", "hits", "misses", "of them shed", "stale hits", "store timeouts", "cache errors", "failed",
            "database arrivals", "calls that paid", "cache p99 ms", "request p99 ms"]
    return table.markdown(head, rows)


def summary(runs):
    rows = []
    for name, run in runs.items():
        plan = run.plan
        normal = run.until_normal()
        rows.append([
            name, f"{run.baseline():.0f}",
            run.sum("failed", plan.warm, plan.back), run.sum("failed", plan.back, plan.total),
            f"not within {plan.after} s" if normal is None else f"{normal} s",
            f"{run.call_p99(plan.warm + 0.3, plan.back):.1f} ms",
            f"{run.took_p99(plan.warm, plan.back):.0f} ms",
            run.sum("paid", plan.warm, plan.total), run.twice,
            run.sum("database", plan.warm, plan.total),
            f"{run.served_during} / {run.served_after} of {run.purged}", run.wrong,
        ])
    head = ["", "misses/s before", "failed during", "failed after", "normal after", "p99 of a cache call during",
            "p99 of a request during", "calls that paid 90 ms or more", "requests that paid twice",
            "database queries from the stall on", "purged, yet served during / after", "wrong values"]
    return table.markdown(head, rows)


def draw(runs):
    """A panel for each subject: what was no hit, and what failed."""
    plan = next(iter(runs.values())).plan
    width, panel, left, plot_w, plot_h = 860, 130, 70, 760, 80
    top = max(700, max(run.nohit(s) for run in runs.values() for s in range(plan.total)))
    height = 40 + panel * len(runs)
    title = f"Requests a second that were no hit, and that failed, around a stall of {plan.stall} s"
    out = [svg.head(width, height, title, ".mark { fill: #c0392b; fill-opacity: 0.18 }"),
           svg.text(left, 20, "Each second:"), svg.text(left + 80, 20, "requests that were no hit", kind="f5"),
           svg.text(left + 240, 20, "failed", kind="f4"), svg.text(left + 290, 20, "(shaded: the store is stopped)")]
    for number, (name, run) in enumerate(runs.items()):
        def x(second):
            return left + plot_w * second / plan.total

        def y(count):
            return plot_h - plot_h * count / top

        out.append(f'<g transform="translate(0 {40 + panel * number})"><text class="title" x="{left}" y="12">{name}</text>'
                   '<g transform="translate(0 22)">')
        out.append(f'<rect class="mark" x="{x(plan.warm):.1f}" y="0" width="{x(plan.stall) - left:.1f}" height="{plot_h}"/>')
        for count in range(0, int(top) + 1, 200):
            out.append(f'<line class="grid" x1="{left}" x2="{left + plot_w}" y1="{y(count):.1f}" y2="{y(count):.1f}"/>'
                       f'<text x="{left - 8}" y="{y(count) + 4:.1f}" text-anchor="end">{count}</text>')
        failed = " ".join(f"{x(s):.1f},{y(run.by_second[s]['failed']):.1f} {x(s + 1):.1f},{y(run.by_second[s]['failed']):.1f}"
                          for s in range(plan.total))
        out.append(f'<polygon class="f4" points="{x(0):.1f},{plot_h} {failed} {x(plan.total):.1f},{plot_h}"/>')
        line = " ".join(f"{x(s):.1f},{y(run.nohit(s)):.1f} {x(s + 1):.1f},{y(run.nohit(s)):.1f}" for s in range(plan.total))
        out.append(f'<polyline class="line c5" points="{line}"/>')
        for second in range(0, plan.total + 1, 10 if plan.total > 20 else 2):
            out.append(f'<text x="{x(second):.1f}" y="{plot_h + 14}" text-anchor="middle">{second} s</text>')
        out.append("</g></g>")
    return "\n".join(out) + "\n</svg>\n"


def versions(binary):
    found = [client_name()]
    for name, path, pattern in [
        ("redis-server", "redis-server", r"v=(\S+)"), ("nutcracker", "nutcracker", r"nutcracker-(\S+)"),
        ("envoy", "envoy", r"version: \w+/(\d+\.\d+\.\d+)"), ("hedgerow", binary, r"hedgerow (\S+)"),
    ]:
        with contextlib.suppress(machine.Missing):
            path = path if "/" in path else machine.program(path)
            out = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30)
            match = re.search(pattern, out.stdout + out.stderr)
            found.append(f"{name} {match.group(1) if match else '?'}")
    return ", ".join(found)
