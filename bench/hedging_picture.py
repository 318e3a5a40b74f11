"""The picture of the bench `hedging`: the tail where some calls stall, and the load where all are slow."""

import math

from kit import svg

WIDTH, LEFT, PLOT, TALL = 900, 70, 560, 230
SHARES = (0.5, 0.9, 0.95, 0.99, 0.999)
TIMES = (1, 10, 100, 1000)
LOADS = (("brown", "Brown-out, spread"), ("brown-once", "Brown-out, at once"),
         ("outage", "Outage, spread"), ("outage-once", "Outage, at once"))


def draw(found):
    names = list(found["stall"])
    bars = 40 + len(LOADS) * (26 + 18 * len(names))
    parts = [svg.head(WIDTH, 350 + bars, "Calls behind a proxy when some or all of the upstream's are slow")]
    parts += tail(names, found["stall"])
    parts += loads(names, found, 340)
    return "\n".join(parts) + "\n</svg>\n"


def tail(names, outcomes):
    """Time of a whole answer over the share of callers who had it by then; both axes logarithmic."""
    low, high, last = math.log10(0.2), math.log10(5000), -math.log10(1 - SHARES[-1])

    def x(share):
        return LEFT + PLOT * -math.log10(max(1 - share, 10 ** -last)) / last

    def y(ms):
        return 40 + TALL * (high - math.log10(max(ms, 0.2))) / (high - low)

    yield svg.text(LEFT, 22, "5 % of the calls stall for 3 s: time until so many callers had an answer", kind="title")
    for ms in TIMES:
        yield f'<line class="grid" x1="{LEFT}" x2="{LEFT + PLOT}" y1="{y(ms):.1f}" y2="{y(ms):.1f}"/>'
        yield svg.text(LEFT - 8, y(ms) + 4, f"{ms:,} ms", "end")
    for share in SHARES:
        yield svg.text(x(share), 40 + TALL + 18, f"{share * 100:g} %", "middle")
    for number, name in enumerate(names):
        seen = outcomes[name]
        steps = [1 - 10 ** (-last * step / 200) for step in range(201)]
        points = [(share, seen.at(min(share, 1 - 1 / seen.count))) for share in steps]
        line = " ".join(f"{x(share):.1f},{y(ms):.1f}" for share, ms in points if ms is not None)
        yield f'<polyline class="line c{number}" points="{line}"/>'
        top = 60 + 20 * number
        yield f'<rect class="f{number}" x="{LEFT + PLOT + 20}" y="{top - 9}" width="10" height="10"/>'
        yield svg.text(LEFT + PLOT + 36, top, name.replace("`", ""))
    yield svg.text(LEFT, 40 + TALL + 38, "A line that ends early: nobody beyond that share ever had an answer.")


def loads(names, found, top):
    yield svg.text(LEFT, top, "Extra calls at the upstream where all calls are slow, and how many callers had an answer",
                   kind="title")
    y, full = top + 24, 300
    for scene, title in LOADS:
        yield svg.text(LEFT, y, title)
        y += 8
        for number, name in enumerate(names):
            seen = found[scene][name]
            width = full * min(seen.extra_percent, 120) / 100
            yield f'<rect class="f{number}" x="{LEFT + 250}" y="{y}" width="{max(width, 1):.1f}" height="13"/>'
            yield svg.text(LEFT + 242, y + 11, name.replace("`", ""), "end")
            words = f"+{seen.extra_percent:.0f} %, answered {seen.good_percent:.0f} %"
            yield svg.text(LEFT + 256 + width, y + 11, words)
            y += 18
        y += 18
