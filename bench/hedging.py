"""Two endpoints of which some calls stall, behind those who can do something about it, threshold 200 ms.

The endpoints are the scripted upstream: they count what reaches them, so extra load is seen where it
hurts. Every scene has fresh endpoints and a fresh proxy, and the proxies take turns within a scene."""

import contextlib
import json
import os
import subprocess
import urllib.request

import hedging_picture
from kit import callers, machine, openloop, servers, table
from kit.process import Process

AFTER, STALL, SLOW = 0.2, 3000, 400
# How many of a thousand calls, in the table of the stalling one.
QUANTILES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999))


class Scene:
    """What the endpoints do, and when they are called."""

    def __init__(self, name, title, path, arrivals, extra_allowed=True):
        self.name, self.title, self.path, self.arrivals = name, title, path, arrivals
        self.extra_allowed = extra_allowed


def scenes(quick):
    n = 5 if quick else 1
    some = f"ms={STALL}&every=20"
    return [
        Scene("stall", f"5 % of the calls are silent for {STALL / 1000:.0f} s", f"/silent?{some}",
              openloop.spread(400, 4800 // n)),
        Scene("half", f"5 % of the calls send a head at once and then nothing for {STALL / 1000:.0f} s",
              f"/headers?{some}", openloop.spread(250, 1000 // n)),
        Scene("brown", f"Brown-out: every call takes {SLOW} ms, spread", f"/silent?ms={SLOW}",
              openloop.spread(200, 800 // n)),
        Scene("brown-once", f"Brown-out: every call takes {SLOW} ms, all at once", f"/silent?ms={SLOW}",
              openloop.at_once(400 // n)),
        Scene("outage", f"Outage: every call takes {STALL / 1000:.0f} s, spread", f"/silent?ms={STALL}",
              openloop.spread(100, 300 // n)),
        Scene("outage-once", f"Outage: every call takes {STALL / 1000:.0f} s, all at once", f"/silent?ms={STALL}",
              openloop.at_once(400 // n)),
    ]


def subjects(binary):
    def own(**options):
        return lambda folder, ends: callers.hedgerow(binary, folder, ends, **options)

    yield "no hedging", own()
    yield "nginx, `proxy_next_upstream`", lambda folder, ends: callers.nginx(folder, ends, AFTER)
    yield "HAProxy, `retry-on`", lambda folder, ends: callers.haproxy(folder, ends, AFTER)
    yield "Envoy, hedging", lambda folder, ends: callers.envoy_hedging(folder, ends, AFTER)
    yield "Envoy, hedging, budget 20 %", lambda folder, ends: callers.envoy_hedging(folder, ends, AFTER, budget=20)
    yield "Hedgerow", own(after=AFTER)


class Endpoint:
    """The scripted upstream, and what it has seen."""

    def __init__(self, process, url):
        self.process, self.url, self.port = process, url, int(url.rsplit(":", 1)[1])

    def seen(self):
        with urllib.request.urlopen(self.url + "/-/seen", timeout=10) as response:
            return json.loads(response.read())


@contextlib.contextmanager
def endpoint(binary):
    command = [binary, "stage", "upstream", "--listen", "127.0.0.1:0"]
    with Process(command, stdout=subprocess.PIPE, text=True) as process:
        yield Endpoint(process, process.child.stdout.readline().strip())


class Outcome:
    """What came of one scene for one subject."""

    def __init__(self, calls, received):
        self.count = len(calls)
        self.good = sum(call.good for call in calls)
        self.took = sorted(call.took * 1000 for call in calls)
        self.good_took = sorted(call.took * 1000 for call in calls if call.good)
        self.late = table.quantile([call.late * 1000 for call in calls], 0.99)
        self.extra = received - self.count

    def quantile(self, q):
        return table.quantile(self.took, q)

    def at(self, q):
        """A quantile of the time after which a caller had an answer; none where that many never had one."""
        index = int(q * self.count)
        return self.good_took[index] if index < len(self.good_took) else None

    @property
    def extra_percent(self):
        return 100 * self.extra / self.count

    @property
    def good_percent(self):
        return 100 * self.good / self.count


def play(binary, scene, start):
    with servers.scratch() as folder, endpoint(binary) as one, endpoint(binary) as two:
        with start(folder, [one.port, two.port]) as caller:
            calls = openloop.run(caller.port, caller.prefix + scene.path, scene.arrivals)
            received = sum(sum(end.seen()["paths"].values()) for end in (one, two))
    return Outcome(calls, received)


def milliseconds(value):
    return "never" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def tail_table(outcomes):
    """Times of those who got a whole answer among all who asked."""
    rows = [[name, *(milliseconds(seen.at(q)) for _, q in QUANTILES), f"{seen.good_percent:.1f} %",
             f"{seen.extra_percent:+.1f} %"] for name, seen in outcomes.items()]
    return table.markdown(["", *(f"{name} ms" for name, _ in QUANTILES), "answered", "extra calls"], rows)


def load_table(spread, once):
    rows = []
    for name in spread:
        row = [name]
        for seen in (spread[name], once[name]):
            row += [f"{seen.good_percent:.0f} %", milliseconds(seen.at(0.5)), f"{seen.extra_percent:+.0f} % ({seen.extra})"]
        rows.append(row)
    return table.markdown(["", "answered, spread", "p50 ms", "extra calls", "answered, at once", "p50 ms", "extra calls"], rows)


def goals(found, scenes_by_name):
    """Each goal of Hedgerow's, and whether it was met."""
    own = {scene: outcomes["Hedgerow"] for scene, outcomes in found.items()}
    stall = own["stall"]
    yield "p99 where 5 % stall, ≤ 206 ms", f"{stall.at(0.99) or float('inf'):.1f} ms", (stall.at(0.99) or 1e9) <= 206
    yield "extra calls for it, ≤ 5.3 %", f"{stall.extra_percent:.2f} %", stall.extra_percent <= 5.3
    half = own["half"]
    yield ("a head and then silence: answered by a twin, p99 ≤ 206 ms", f"{half.at(0.99) or float('inf'):.1f} ms",
           (half.at(0.99) or 1e9) <= 206)
    for name in ("brown", "brown-once", "outage", "outage-once"):
        seen, title = own[name], scenes_by_name[name].title
        allowed = 0.1 * seen.count + 3
        yield f"{title}: all answered", f"{seen.good_percent:.1f} %", seen.good == seen.count
        yield f"{title}: extra ≤ 0.1 × calls + 3", f"{seen.extra} of {allowed:.0f}", seen.extra <= allowed


def run(options):
    machine.many_descriptors()
    played = scenes(options.quick)
    found = {}
    for scene in played:
        found[scene.name] = outcomes = {}
        for name, start in subjects(options.binary):
            if not name.lower().startswith(options.only.lower()):
                continue
            try:
                outcomes[name] = play(options.binary, scene, start)
            except machine.Missing as missing:
                print(f"{name} skipped: {missing}\n", flush=True)
    by_name = {scene.name: scene for scene in played}
    for name in ("stall", "half"):
        print(f"### {by_name[name].title}\n\n{len(by_name[name].arrivals)} calls.\n\n{tail_table(found[name])}\n")
    for title, name in (("Brown-out", "brown"), ("Outage", "outage")):
        what = by_name[name].title.split(": ", 1)[1].rsplit(",", 1)[0]
        counts = [len(by_name[key].arrivals) for key in (name, f"{name}-once")]
        print(f"### {title}: {what}\n\n{counts[0]} calls spread, {counts[1]} at once.\n\n"
              f"{load_table(found[name], found[f'{name}-once'])}\n")
    late = max(seen.late for outcomes in found.values() for seen in outcomes.values())
    print(f"The client itself ran late by {late:.1f} ms at p99 where it was worst.\n")
    if all("Hedgerow" in outcomes for outcomes in found.values()):
        rows = [[goal, value, "met" if met else "**missed**"] for goal, value, met in goals(found, by_name)]
        print(f"### Goals\n\n{table.markdown(['', 'measured', ''], rows)}\n")
    if options.svg:
        os.makedirs(os.path.dirname(os.path.abspath(options.svg)), exist_ok=True)
        with open(options.svg, "w", encoding="utf-8") as file:
            file.write(hedging_picture.draw(found))
        print(f"The picture is in {options.svg}.\n")
    return {scene: {name: {"answered": seen.good_percent, "extra": seen.extra_percent,
                           **{label: seen.at(q) for label, q in QUANTILES}} for name, seen in outcomes.items()}
            for scene, outcomes in found.items()}
