"""Draws docs/images/architecture.svg: the folders of src/ and who may include whom.

The arrows are the table of tools/check_includes.py, the words those of docs/ARCHITECTURE.md, so that the picture cannot
differ from the rule. tools/test_docs.py holds the committed picture to what this script writes.

    python3 tools/draw_architecture.py
"""
import html
import itertools
import re
import textwrap

import check_includes
from cpp_text import ROOT

PAGE = ROOT / "docs/ARCHITECTURE.md"
PICTURE = ROOT / "docs/images/architecture.svg"

BOX, HIGH, GAP, LANE, LAYER = 212, 66, 26, 16, 112  # pixels: a box, the space beside it, an arrow's lane, two layers
MARGIN, BAR = 20, 50
STYLE = """<style>
svg { font: 12px system-ui, sans-serif; }
.back { fill: #fff; } .box { fill: #f3f6fa; stroke: #b7c2ce; } .bar { fill: #e8edf3; stroke: #b7c2ce; }
.name { font-weight: 600; font-size: 14px; fill: #1b1f24; } .what { fill: #4a545f; font-size: 11px; }
.arrow { fill: none; stroke: #5b7fb5; stroke-width: 1.4; } .head { fill: #5b7fb5; }
@media (prefers-color-scheme: dark) {
  .back { fill: #14171a; } .box { fill: #1d2227; stroke: #46505b; } .bar { fill: #262c33; stroke: #46505b; }
  .name { fill: #e6e9ec; } .what { fill: #a7b1bb; } .arrow { stroke: #7fa6e0; } .head { fill: #7fa6e0; }
}
</style>
<defs><marker id="to" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path class="head" d="M0,0.5 L8,4 L0,7.5 Z"/></marker></defs>"""


def page_rows(text):
    """{folder: (what it is, who it may include)} of the page's table."""
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|$", text, re.MULTILINE)
    return {folder: (re.sub(r":? \[[^\]]*\]\([^)]*\)", "", what).replace("`", ""), may) for folder, what, may in rows}


def layers_of(uses):
    """A layer for each folder, 0 the lowest: below all that may include it, and with arrows as short as possible."""
    users = {name: [other for other in uses if name in uses[other]] for name in uses}
    layer = {}

    def lowest(name):
        if name not in layer:
            layer[name] = 1 + max((lowest(other) for other in uses[name]), default=-1)
        return layer[name]

    for name in uses:
        lowest(name)
    for _ in range(len(uses)):
        for name in sorted(uses, key=lambda n: -layer[n]):
            if users[name] and len(users[name]) > len(uses[name]):  # raising it shortens more arrows than it stretches
                layer[name] = max(layer[name], min(layer[other] for other in users[name]) - 1)
    return layer


class Drawing:
    """Points in layers: each folder, and a bend for each layer that an arrow passes."""

    def __init__(self, uses):
        self.layer = layers_of(uses)
        self.rows = [[] for _ in range(max(self.layer.values()) + 1)]
        self.paths = []  # of each arrow: its points, from who includes to what is included
        for name in uses:
            self.rows[self.layer[name]].append(name)
        for name in uses:
            for target in uses[name]:
                bends = [(name, target, at) for at in range(self.layer[name] - 1, self.layer[target], -1)]
                for bend in bends:
                    self.rows[bend[2]].append(bend)
                self.paths.append([name, *bends, target])
        self.segments = [[] for _ in self.rows]  # of each layer: pairs (point, point of the layer below)
        self.near = {point: [] for row in self.rows for point in row}
        for path in self.paths:
            for upper, lower in itertools.pairwise(path):
                self.segments[self.level(upper)].append((upper, lower))
                self.near[upper].append(lower)
                self.near[lower].append(upper)
        self.order()
        self.place()

    def level(self, point):
        return self.layer[point] if isinstance(point, str) else point[2]

    def crossings(self, rows):
        at = {point: i for row in rows for i, point in enumerate(row)}
        count = 0
        for segments in self.segments:
            for (a, b), (c, d) in itertools.combinations(segments, 2):
                count += (at[a] - at[c]) * (at[b] - at[d]) < 0
        return count

    def order(self):
        """The order in each layer with the fewest crossings that sweeps from several beginnings find."""
        best, seed = None, 1
        for _ in range(12):
            rows = [list(row) for row in self.rows]
            for row in rows:
                for i in range(len(row) - 1, 0, -1):  # a shuffle that every version of Python makes alike
                    seed = seed * 1103515245 % 2**31 + 12345
                    j = (seed >> 8) % (i + 1)
                    row[i], row[j] = row[j], row[i]
            for sweep in range(16):
                at = {point: i / max(1, len(row) - 1) for row in rows for i, point in enumerate(row)}
                for row in rows if sweep % 2 else reversed(rows):
                    step = 1 if sweep % 2 else -1

                    def middle(point):
                        side = [at[o] for o in self.near[point] if (self.level(point) - self.level(o)) * step > 0]
                        return sum(side) / len(side) if side else at[point]

                    row.sort(key=middle)
                    at.update({point: i / max(1, len(row) - 1) for i, point in enumerate(row)})
                count = self.crossings(rows)
                if best is None or count < best[0]:
                    best = count, [list(row) for row in rows]
        self.rows = self.swapped(best[1])

    def swapped(self, rows):
        """Neighbours change places as long as that removes crossings."""
        count, better = self.crossings(rows), True
        while better:
            better = False
            for row in rows:
                for i in range(len(row) - 1):
                    row[i], row[i + 1] = row[i + 1], row[i]
                    now = self.crossings(rows)
                    if now < count:
                        count, better = now, True
                    else:
                        row[i], row[i + 1] = row[i + 1], row[i]
        return rows

    def width(self, point):
        return BOX + GAP if isinstance(point, str) else LANE

    def place(self):
        """x of each point: near those it is joined with, in the order of its layer, none on another."""
        self.x = {}
        for row in self.rows:
            left = 0
            for point in row:
                self.x[point] = left + self.width(point) / 2
                left += self.width(point)
        for sweep in range(60):
            for row in self.rows if sweep % 2 else reversed(self.rows):
                wish = [sum(self.x[o] for o in self.near[p]) / len(self.near[p]) if self.near[p] else self.x[p] for p in row]
                self.x.update(zip(row, self.spread(row, wish)))
        left = min(self.x[p] - self.width(p) / 2 for p in self.x)
        for point in self.x:
            self.x[point] = round(self.x[point] - left + MARGIN, 1)
        self.across = max(self.x[p] + self.width(p) / 2 for p in self.x) + MARGIN

    def spread(self, row, wish):
        """The places nearest to `wish` that do not overlap: blocks of points that touch move together."""
        blocks = []  # [points, sum of (wish - offset), width so far]
        for point, want in zip(row, wish):
            half = self.width(point) / 2
            blocks.append([[(point, half)], want - half, 2 * half])
            while len(blocks) > 1:
                before, last = blocks[-2], blocks[-1]
                if before[1] / len(before[0]) + before[2] <= last[1] / len(last[0]):
                    break
                moved = [(p, offset + before[2]) for p, offset in last[0]]
                blocks[-2:] = [[before[0] + moved, before[1] + last[1] - before[2] * len(moved), before[2] + last[2]]]
        return [total / len(points) + offset for points, total, _ in blocks for _, offset in points]


def ports(drawing):
    """x where each arrow leaves and meets a box: side by side, in the order of where it goes."""
    leaves, meets = {}, {}
    for path in drawing.paths:
        leaves.setdefault(path[0], []).append(path)
        meets.setdefault(path[-1], []).append(path)
    place = {}
    for end, sides, next_ in (("from", leaves, 1), ("to", meets, -2)):
        for name, paths in sides.items():
            paths.sort(key=lambda path: drawing.x[path[next_]])
            for i, path in enumerate(paths):
                place[end, path[0], path[-1]] = drawing.x[name] + (i - (len(paths) - 1) / 2) * min(24, BOX / len(paths))
    return place


def curve(points):
    """Straight down through each point's layer, bent between them."""
    text = f"M{points[0][0]:.0f},{points[0][1]:.0f}"
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        if abs(x1 - x0) < 1:
            text += f" L{x1:.0f},{y1:.0f}"
        else:
            text += f" C{x0:.0f},{(y0 + y1) / 2:.0f} {x1:.0f},{(y0 + y1) / 2:.0f} {x1:.0f},{y1:.0f}"
    return text


def box(x, y, width, high, kind, name, what, columns):
    lines = textwrap.wrap(what, columns)[:3]
    out = [f'<rect class="{kind}" x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{high}" rx="6"/>',
           f'<text class="name" x="{x + 10:.0f}" y="{y + 17:.0f}">{html.escape(name)}</text>']
    for i, line in enumerate(lines):
        out.append(f'<text class="what" x="{x + 10:.0f}" y="{y + 31 + 13 * i:.0f}">{html.escape(line, quote=False)}</text>')
    return out


def rule():
    """{folder: who it may include} of the folders that are there."""
    there = [name for name in check_includes.MAY_INCLUDE if (ROOT / "src" / name).is_dir()]
    return {name: [other for other in check_includes.MAY_INCLUDE[name] if other in there] for name in there}


def draw():
    rows = page_rows(PAGE.read_text())
    common = check_includes.FOR_ALL
    uses = {name: [other for other in may if other not in common] for name, may in rule().items() if name not in common}
    drawing = Drawing(uses)
    top = MARGIN + BAR + 40
    levels = len(drawing.rows)
    y = {level: top + (levels - 1 - level) * LAYER for level in range(levels)}
    bottom = y[0] + HIGH + 40
    shared = [f"{' and '.join(who)} also: {header}" for header, who in check_includes.SHARED_HEADERS.items()]
    high = bottom + BAR + 24 + 14 * len(shared)
    across = drawing.across
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {across:.0f} {high:.0f}" width="{across:.0f}" '
           f'height="{high:.0f}" role="img" aria-label="The folders of src and who may include whom">', STYLE,
           f'<rect class="back" width="{across:.0f}" height="{high:.0f}" rx="8"/>']
    inner = across - 2 * MARGIN
    top_name = check_includes.TOP
    out += box(MARGIN, MARGIN, inner, BAR, "bar", top_name, f"{rows[top_name][0]}; may include all, nobody includes it", 200)
    place = ports(drawing)
    for path in sorted(drawing.paths, key=lambda path: (path[0], path[-1])):
        points = [(place["from", path[0], path[-1]], y[drawing.level(path[0])] + HIGH)]
        for bend in path[1:-1]:
            points += [(drawing.x[bend], y[bend[2]] - 6), (drawing.x[bend], y[bend[2]] + HIGH)]
        points.append((place["to", path[0], path[-1]], y[drawing.level(path[-1])] - 1))
        out.append(f'<path class="arrow" d="{curve(points)}" marker-end="url(#to)"/>')
    for name in sorted(uses):
        x = drawing.x[name] - BOX / 2
        out += box(x, y[drawing.level(name)], BOX, HIGH, "box", name, rows[name][0], 33)
    names = "; ".join(f"{name}: {rows[name][0]}" for name in common)
    out += box(MARGIN, bottom, inner, BAR, "bar", ", ".join(common), f"for all. {names}", 200)
    for i, line in enumerate(shared):
        out.append(f'<text class="what" x="{MARGIN}" y="{bottom + BAR + 18 + 14 * i:.0f}">{html.escape(line)}</text>')
    return "\n".join([*out, "</svg>\n"])


if __name__ == "__main__":
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(draw())
    print(f"{PICTURE.relative_to(ROOT)} is written")
