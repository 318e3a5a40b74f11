"""What the pictures share: paper, text, and colours for a light and a dark page."""

# Told apart by lightness too; the last is for the subject of interest.
LIGHT = ["#8a8a8a", "#b58900", "#7b5ea7", "#2a9d8f", "#c0392b", "#2a6fb0"]
DARK = ["#9a9a9a", "#e0b030", "#b39ddb", "#58c7b8", "#ee7a6c", "#6fb1ee"]


def head(width, height, title, more=""):
    """The opening of a picture; classes `c0` to `c5` stroke and `f0` to `f5` fill."""
    def colours(list_of):
        return " ".join(f".c{n} {{ stroke: {c} }} .f{n} {{ fill: {c} }}" for n, c in enumerate(list_of))

    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<title>{title}</title>
<style>
text {{ font: 12px sans-serif; fill: #222 }} .title {{ font-weight: bold; font-size: 14px }}
.paper {{ fill: #fff }} .grid {{ stroke: #ddd }} .line {{ fill: none; stroke-width: 1.8 }}
{colours(LIGHT)}
{more}
@media (prefers-color-scheme: dark) {{
text {{ fill: #ddd }} .paper {{ fill: #16181d }} .grid {{ stroke: #3a3d45 }}
{colours(DARK)} }}
</style>
<rect class="paper" width="{width}" height="{height}"/>"""


def text(x, y, words, anchor="start", kind=""):
    words = str(words).replace("&", "&amp;").replace("<", "&lt;")
    kind = f' class="{kind}"' if kind else ""
    return f'<text{kind} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'
