"""Medians, ranges and Markdown."""

from statistics import median


def spread(values, form="{:.2f}"):
    """`median (min–max)`."""
    values = list(values)
    return f"{form.format(median(values))} ({form.format(min(values))}–{form.format(max(values))})"


def ratios(numerators, denominators):
    """Round by round: what disturbed a round disturbed both."""
    return [a / b for a, b in zip(numerators, denominators)]


def markdown(head, rows):
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def quantile(values, q):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]
