"""What `plan hedge` foretells, and what then happens.

The egress port in front of the scripted upstream, twice with the same callers: without a hedge, which gives the durations
that the planner reads; and with one. Every call brings two durations of its own, for its first attempt and for a twin,
drawn independently from the same trace: that is the planner's model. What differs between the two runs is
chance (both have other draws), the proxy and this machine."""

import json
import math
import os
import random
import subprocess

from hedging import endpoint
from kit import callers, machine, openloop, servers, table

QUANTILES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
# No budget refuses a twin here: the planner's rows are about the threshold alone.
FREE = "budget = { ratio = 1.0, burst = 1000 }\n"
# A timer of the runtime fires within a millisecond, and a reply is on its way twice.
LATE = 0.003
SURE = 1.96


def two_points(dice):
    """One call in twenty stalls: case 32, a thousand times faster."""
    return 60 if dice.random() < 0.95 else 330


def long_tail(dice):
    """Most take about 60 ms; one in fourteen takes 250 to 800."""
    return round(dice.uniform(250, 800) if dice.random() < 0.07 else dice.lognormvariate(math.log(60), 0.3))


TRACES = (("95 % 60 ms, 5 % 330 ms", two_points, 0.1), ("about 60 ms, 7 % 250 to 800 ms", long_tail, 0.13))


def paths(draw, count, dice):
    """What each attempt waits, said by the call itself."""
    return [f"/script?1=wait:{draw(dice)}&2=wait:{draw(dice)}" for _ in range(count)]


def play(binary, folder, arrivals, wanted, after):
    with endpoint(binary) as end, callers.hedgerow(binary, folder, [end.port], after, FREE) as caller:
        calls = openloop.run(caller.port, [caller.prefix + path for path in wanted], arrivals)
        received = end.seen()["received"]
    bad = sum(not call.good for call in calls)
    if bad:
        raise machine.Failed(f"{bad} of {len(calls)} calls had no whole answer")
    return sorted(call.took for call in calls), received - len(calls), table.quantile([call.late for call in calls], 0.99)


def foretold(binary, folder, took, after):
    """The planner's row for this threshold."""
    path = os.path.join(folder, "durations.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{seconds:.6f}\n" for seconds in took)
    command = [binary, "plan", "hedge", path, "--at", f"{after * 1000:.0f}ms", "--json"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return json.loads(out)["thresholds"][0]


def between(took, q):
    """Where the quantile lies, 95 % sure, by the order of the samples alone; twice as much variance, for two runs."""
    n = len(took)
    width = SURE * math.sqrt(2 * n * q * (1 - q))
    low, high = math.floor(n * q - width), math.ceil(n * q + width)
    return took[max(0, low)] - LATE, took[min(n - 1, high)] + LATE


def judge(foretold_row, took, extra):
    """Rows of (name, foretold, measured, range, whether it holds)."""
    n, share = len(took), foretold_row["extra"]
    width = SURE * math.sqrt(2 * share * (1 - share) / n)
    measured = extra / n
    yield "extra", share, measured, (share - width, share + width), abs(measured - share) <= width
    for name, q in QUANTILES:
        low, high = between(took, q)
        said = foretold_row[name]
        yield name, said, took[min(n - 1, math.ceil(q * n) - 1)], (low, high), low <= said <= high


def shown(name, value):
    return f"{value * 100:.2f} %" if name == "extra" else f"{value * 1000:.1f} ms"


def run(options):
    count, rate = (600, 300) if options.quick else (6000, 300)
    results, wrong = [], []
    for title, draw, after in TRACES:
        dice = random.Random(options.seed)
        arrivals = openloop.spread(rate, count, options.seed)
        with servers.scratch() as folder:
            alone, none, late = play(options.binary, folder, arrivals, paths(draw, count, dice), None)
        if none:
            raise machine.Failed(f"{none} calls more than were made, though nothing is hedged")
        with servers.scratch() as folder:
            row = foretold(options.binary, folder, alone, after)
            took, extra, also = play(options.binary, folder, arrivals, paths(draw, count, dice), after)
        rows = list(judge(row, took, extra))
        wrong += [f"{title}: {name}" for name, *_, holds in rows if not holds]
        print(f"**{title}**: {count:,} calls in each run, hedged after {after * 1000:.0f} ms "
              f"(p99 of how late a call was sent: {max(late, also) * 1000:.1f} ms)\n")
        print(table.markdown(
            ["", "without a hedge", "foretold", "measured", "expected within", ""],
            [[name, "-" if name == "extra" else shown(name, table.quantile(alone, dict(QUANTILES)[name])), shown(name, said),
              shown(name, measured), f"{shown(name, low)} to {shown(name, high)}", "holds" if holds else "**does not hold**"]
             for name, said, measured, (low, high), holds in rows]) + "\n")
        results.append({"trace": title, "after": after, "rows": [
            {"name": name, "foretold": said, "measured": measured, "low": low, "high": high, "holds": holds}
            for name, said, measured, (low, high), holds in rows]})
    if wrong:
        raise machine.Failed("not as foretold: " + ", ".join(wrong))
    return {"traces": results}
