"""The tiles whose instructions are ordered by tools/search_orders.py: what one block of each does, in plain order.

The plain order is what one would write: a run's loads, its products, then the conversion of their sums. Registers as the
headers that use the tiles say (src/matmul/cpu/arm/panel_i8mm_expanded.h, panel_i8mm_packed.h, panel_solo_woven.h).
"""
import dataclasses

from order_search.instructions import (
    halves_to_floats, high_nibble, join_pairs, load, load_8_bytes, load_two, look_up, low_nibble_times_16, mask, multiply,
    multiply_add, multiply_add_lane, multiply_lane, prefetch, sdot, smmla, to_float, twice, twice_halves, up_15_bits,
    up_16_bits, zero, zip_bytes)


@dataclasses.dataclass(frozen=True)
class Tile:
    name: str  # its macro is INGOT_ORDER_ and this in capitals
    text: str  # what it is
    plain: tuple  # instructions of a block in plain order
    inputs: tuple  # registers that hold something when a block begins
    outputs: tuple  # that are read behind it
    memory: dict  # operand: (kind of what lies there, bytes of a block, 0 where all blocks read the same)


def _products(sums, weights, x, multiply_by=smmla):
    return [multiply_by(sums + i, weights + i, x) for i in range(4)]


def _zeros(first, n):
    return [zero(first + i) for i in range(n)]


def _twelve_runs(first, n):
    """Runs [first, first + n) of an expanded block by three pairs of rows."""
    made = []
    for run in range(first, first + n):
        made += [load_two(0, 1, "w", 128 * run), load_two(4, 5, "x", 48 * run), load_two(2, 3, "w", 128 * run + 32),
                 load(6, "x", 48 * run + 32)]
        made += _products(20, 0, 4) + _products(24, 0, 5) + _products(28, 0, 6)
    return made


def _twelve_sums(temporaries, of_16th=False):
    """The integer sums of three pairs of rows, by scales in v0 to v3."""
    made, count = [], 0
    for pair in range(3):
        made.append(load(4, "xs", 16 * pair))
        for i in range(4):
            to = temporaries[count % len(temporaries)]
            count += 1
            place = 4 * pair + i
            made += [to_float(20 + place, of_16th), multiply(to, 4, i), multiply_add(8 + place, 20 + place, to)]
    return made


def _scales(at):
    return [load_two(0, 1, "s", at), load_two(2, 3, "s", at + 32)]


def _near_and_far(*more):
    return [prefetch("ahead", at, "pldl1keep") for at in (0, "gap", *more)]


def expanded_32():
    return _zeros(20, 12) + _twelve_runs(0, 4) + _scales(0) + _twelve_sums((5, 6, 7)) + _near_and_far()


def expanded_32_min():
    made = _zeros(20, 12) + _twelve_runs(0, 4) + [load_two(4, 5, "xs", 0), load(6, "xs", 32)]
    for i in range(4):
        made.append(load(0, "s", 16 * i))
        for pair in range(3):
            place = 4 * pair + i
            made += [to_float(20 + place), multiply(1 + pair, 4 + pair, 0), multiply_add(8 + place, 20 + place, 1 + pair)]
    made += [load_two(4, 5, "xm", 0), load(6, "xm", 32)] + [load(i, "s", 128 + 16 * i) for i in range(4)]
    made += [multiply_add(8 + 4 * pair + i, 4 + pair, i) for pair in range(3) for i in range(4)]
    return made + _near_and_far("far")


def expanded_16():
    made = []
    for group in range(2):
        made += _zeros(20, 12) + _twelve_runs(2 * group, 2) + _scales(128 * group) + _twelve_sums((5, 6, 7))
    return made + _near_and_far()


def _unpack(low, high, mins, with_mask, table=None):
    """The nibbles of register `high`: low ones to `low`, high ones in place; times 16 where they are signed, or what a
    table has at their places."""
    if table is not None:
        return [mask(low, high, with_mask), high_nibble(high, high), look_up(low, table, low), look_up(high, table, high)]
    if mins:
        return [mask(low, high, with_mask), high_nibble(high, high)]
    return [low_nibble_times_16(low, high), mask(high, high, with_mask)]


def _f16_scales(at, load_to, low, high):
    """Eight scales as the 2 × 2 sums want them, in v0 to v3."""
    return [load(load_to, "s", at), halves_to_floats(low, load_to), halves_to_floats(high, load_to, upper=True),
            twice(0, low), twice(1, low, upper=True), twice(2, high), twice(3, high, upper=True)]


def _bf16_scales(at, load_to, low, high):
    return [load(load_to, "s", at), twice_halves(low, load_to), twice_halves(high, load_to, upper=True),
            up_16_bits(0, low), up_16_bits(1, low, upper=True), up_16_bits(2, high), up_16_bits(3, high, upper=True)]


def _spread_floats(at):
    """Eight floats that lie in memory as the 2 × 2 sums want them, in v0 to v3."""
    return [load_two(0, 1, "s", at), load_two(2, 3, "s", at + 32)]


NIBBLE_LINES = (10240, 10304, 10368, 10432, 10496)
BYTE_LINES = (16384, 16384, 16512, 16640, 16768)


def _ask(base, lines):
    return [prefetch(base, at) for at in lines]


def _eight_sums(of_16th):
    """The integer sums of two pairs of rows by 8 outputs, by scales in v0 to v3."""
    made = [load_two(30, 31, "xs", 0)]
    for pair in range(2):
        for i in range(4):
            place = 4 * pair + i
            made += [to_float(16 + place, of_16th), multiply(4 + i, 30 + pair, i), multiply_add(8 + place, 16 + place, 4 + i)]
    return made


def _scales_of(kind, at, load_to, low, high):
    if kind == "table":
        return _bf16_scales(at, load_to, low, high)
    return _spread_floats(4 * at) if kind == "super" else _f16_scales(at, load_to, low, high)


def packed_q4_one(kind):
    """One pair by 16 outputs. The kind of weights: "q4", "table", "super"."""
    made, table = _zeros(16, 8), 29 if kind == "table" else None
    for half in range(2):
        made.append(load_two(24, 25, "x", 32 * half))
        for four in range(2):
            at = 128 * half + 64 * four
            made += [load_two(0, 1, "w", at), load_two(2, 3, "w", at + 32)]
            for i in range(4):
                made += _unpack(4 + i, i, kind == "super", 28, table)
            made += _products(16 + 4 * four, 4, 24) + _products(16 + 4 * four, 0, 25)
    made.append(load(30, "xs", 0))
    for eight in range(2):
        made += _scales_of(kind, 16 * eight, 31, 5, 6)
        for i in range(4):
            place = 4 * eight + i
            made += [to_float(16 + place, kind == "q4"), multiply(4 + i, 30, i), multiply_add(8 + place, 16 + place, 4 + i)]
    if kind == "super":
        made.append(load(31, "xm", 0))
        for eight in range(2):
            made += _spread_floats(128 + 64 * eight)
            made += [multiply_add(8 + 4 * eight + i, i, 31) for i in range(4)]
    return made + _ask("w", NIBBLE_LINES)


def packed_q4_two(kind):
    mins, table = kind in ("min", "super"), 29 if kind == "table" else None
    made, room = _zeros(16, 8), 24 if kind == "table" else 29
    for half in range(2):
        made += [load_two(0, 1, "w", 128 * half), load_two(2, 3, "w", 128 * half + 32)]
        for i in range(4):
            made += _unpack(4 + i, i, mins, 28, table)
        made += [load_two(24, 25, "x", 64 * half), load_two(26, 27, "x", 64 * half + 32)]
        made += _products(16, 4, 24) + _products(20, 4, 25) + _products(16, 0, 26) + _products(20, 0, 27)
    made += _scales_of(kind, 0, room, 5, 6) + _eight_sums(kind == "q4")
    if mins:
        made += _scales_of(kind, 32, 29, 26, 27) + [load_two(24, 25, "xm", 0)]
        made += [multiply_add(8 + 4 * pair + i, i, 24 + pair) for pair in range(2) for i in range(4)]
    return made + _ask("w", NIBBLE_LINES)


def _three_by_table(half, two):
    """Two registers of weights by three pairs of rows; the table in v2 leaves v3 for the low nibbles of both."""
    made = [load_two(0, 1, "w", 128 * half + 32 * two), load_two(4, 5, "x", 96 * half), load(6, "x", 96 * half + 32)]
    for i in range(2):
        made += _unpack(3, i, False, 7, table=2) + [smmla(20 + 4 * pair + 2 * two + i, 3, 4 + pair) for pair in range(3)]
    made += [load_two(4, 5, "x", 96 * half + 48), load(6, "x", 96 * half + 80)]
    return made + [smmla(20 + 4 * pair + 2 * two + i, i, 4 + pair) for pair in range(3) for i in range(2)]


def packed_q4_table_three():
    made = _zeros(20, 12)
    for half in range(2):
        made += _three_by_table(half, 0) + _three_by_table(half, 1)
    # Scales of four outputs at a time: v2 holds the table.
    made += [load(4, "xs", 0), load(5, "xs", 16), load(6, "xs", 32)]
    for two in range(2):
        made += [load_8_bytes(3, "s", 8 * two), twice_halves(3, 3), up_16_bits(0, 3), up_16_bits(1, 3, upper=True)]
        for i in range(2):
            for pair in range(3):
                place = 4 * pair + 2 * two + i
                made += [to_float(20 + place), multiply(3, 4 + pair, i), multiply_add(8 + place, 20 + place, 3)]
    return made + _ask("w", NIBBLE_LINES)


def packed_q4_three(kind):
    made, mins = _zeros(20, 12), kind in ("min", "super")
    for half in range(2):
        for two in range(2):
            made.append(load_two(0, 1, "w", 128 * half + 32 * two))
            made += _unpack(2, 0, mins, 7) + _unpack(3, 1, mins, 7)
            for run, weights in ((0, 2), (1, 0)):
                at = 96 * half + 48 * run
                made += [load_two(4, 5, "x", at), load(6, "x", at + 32)]
                made += [smmla(20 + 4 * pair + 2 * two + i, weights + i, 4 + pair) for pair in range(3) for i in range(2)]
    made += _scales_of(kind, 0, 4, 5, 6) + _twelve_sums((5, 6), not mins)
    if mins:
        made += _scales_of(kind, 32, 4, 5, 6) + [load(4 + pair, "xm", 16 * pair) for pair in range(3)]
        made += [multiply_add(8 + 4 * pair + i, i, 4 + pair) for pair in range(3) for i in range(4)]
    return made + _ask("w", NIBBLE_LINES)


def _four_sums(scales, of_16th):
    """The integer sums of four pairs of rows by 4 outputs, by scales in two registers."""
    made = [load_two(24, 25, "xs", 0), load(26, "xs", 32), load(27, "ys", 0)]
    for pair in range(4):
        for i in range(2):
            place, to = 2 * pair + i, 2 + (2 * pair + i) % 6
            made += [to_float(16 + place, of_16th), multiply(to, 24 + pair, scales + i),
                     multiply_add(8 + place, 16 + place, to)]
    return made


def _four_products(weights, x):
    return [smmla(16 + 2 * pair + i, weights + i, x[pair]) for pair in range(4) for i in range(2)]


def packed_q4_four(mins, table=None):
    made = _zeros(16, 8) + [load_8_bytes(29, "s", 0)]
    made.append(twice_halves(29, 29) if table else halves_to_floats(29, 29))
    for half in range(2):
        made.append(load_two(0, 1, "w", 128 * half))
        made += _unpack(2, 0, mins, 28, table) + _unpack(3, 1, mins, 28, table)
        made += [load_two(24, 25, "x", 96 * half), load(26, "x", 96 * half + 32), load_two(27, 31, "y", 32 * half)]
        made += _four_products(2, (24, 25, 26, 27))
        made += [load_two(4, 5, "x", 96 * half + 48), load(6, "x", 96 * half + 80)]
        made += _four_products(0, (4, 5, 6, 31))
    spread = up_16_bits if table else twice
    made += [spread(0, 29), spread(1, 29, upper=True)] + _four_sums(0, not mins and not table)
    if mins:
        made += [load_8_bytes(29, "s", 32), halves_to_floats(29, 29), twice(30, 29), twice(31, 29, upper=True)]
        made += [load_two(24, 25, "xm", 0), load(26, "xm", 32), load(27, "ym", 0)]
        made += [multiply_add(8 + 2 * pair + i, 30 + i, 24 + pair) for pair in range(4) for i in range(2)]
    return made + _ask("w", NIBBLE_LINES)


def packed_q8_two():
    made = _zeros(16, 8)
    for half in range(2):
        made += [load_two(to, to + 1, "w", 256 * half + at) for to, at in ((0, 0), (2, 32), (4, 128), (6, 160))]
        made += [load_two(24, 25, "x", 64 * half), load_two(26, 27, "x", 64 * half + 32)]
        made += _products(16, 0, 24) + _products(20, 0, 25) + _products(16, 4, 26) + _products(20, 4, 27)
    return made + _f16_scales(0, 29, 28, 29) + _eight_sums(False) + _ask("w", BYTE_LINES)


def packed_q8_three():
    made = _zeros(20, 12) + _twelve_runs(0, 4) + _f16_scales(0, 4, 5, 6) + _twelve_sums((5, 6, 7))
    return made + _ask("w", BYTE_LINES)


def packed_q8_four():
    made = _zeros(16, 8)
    for half in range(2):
        made += [load_two(0, 1, "w", 256 * half), load_two(2, 3, "w", 256 * half + 128)]
        made += [load_two(24, 25, "x", 96 * half), load(26, "x", 96 * half + 32), load(27, "y", 32 * half)]
        made += _four_products(0, (24, 25, 26, 27))
        made += [load_two(4, 5, "x", 96 * half + 48), load(6, "x", 96 * half + 80), load(31, "y", 32 * half + 16)]
        made += _four_products(2, (4, 5, 6, 31))
    made += [load_8_bytes(29, "s", 0), halves_to_floats(29, 29), twice(28, 29), twice(29, 29, upper=True)]
    return made + _four_sums(28, False) + _ask("w", BYTE_LINES)


def _solo_products(mins, table=None):
    """One row of x, a block of 16 rows of nibbles: the sums of two lanes of each row."""
    made = _zeros(0, 8) + [load(18, "masks", 0)]
    for half in range(2):
        made.append(load_two(16, 17, "x", 32 * half))
        for two in range(4):
            weights = 20 + 2 * (two % 2)
            made.append(load_two(weights, weights + 1, "q", 128 * half + 32 * two))
            for i in range(2):
                made += _unpack(24 + i, weights + i, mins, 18, table)
                made += [sdot(2 * two + i, 24 + i, 16), sdot(2 * two + i, weights + i, 17)]
    return made


def _solo_join():
    return [join_pairs(f"d{i}", 2 * i, 2 * i + 1) for i in range(4)]


def _solo_f16(at):
    """Sixteen f16 in v28 to v31."""
    return [load_two(26, 27, "f", at)] + [halves_to_floats(28 + i, 26 + i // 2, upper=i % 2 == 1) for i in range(4)]


def solo_f16(mins):
    """Of Q4_0 or, with mins, Q4_1: what is left to do for the block before comes first, then this block's products."""
    made = [load_8_bytes(19, "before", 0)] + _solo_f16(0)
    for i in range(4):
        made += [to_float(f"d{i}", not mins), multiply_lane(28 + i, 28 + i, 19, 0), multiply_add(f"a{i}", f"d{i}", 28 + i)]
    if mins:
        made += _solo_f16(32) + [multiply_add_lane(f"a{i}", 28 + i, 19, 1) for i in range(4)]
    return made + _solo_products(mins) + _solo_join() + _ask("q", NIBBLE_LINES)


def solo_table():
    """Of MXFP4: nibbles are places in a table of bytes, scales are bf16."""
    made = [load_8_bytes(19, "before", 0), load(26, "masks", 48)]
    for two in range(2):
        made += [load(27, "f", 16 * two)] + [up_16_bits(28 + 2 * two + i, 27, upper=i == 1) for i in range(2)]
    for i in range(4):
        made += [to_float(f"d{i}"), multiply_lane(28 + i, 28 + i, 19, 0), multiply_add(f"a{i}", f"d{i}", 28 + i)]
    return made + _solo_products(False, 26) + _solo_join() + _ask("q", NIBBLE_LINES)


def solo_super():
    """Of Q4_K: bytes of scales and mins become floats without a conversion, see panel_solo_woven.h."""
    made = [load_8_bytes(19, "before", 0), load_two(26, 27, "f", 0)]
    made += [load(28, "masks", 32), zip_bytes(29, 26, 28), zip_bytes(26, 26, 28, upper=True)]
    for i, (to, words, upper) in enumerate(((28, 29, False), (29, 29, True), (28, 26, False), (29, 26, True))):
        made += [up_15_bits(to, words, upper), load_two(30, 31, "super", 32 * i), multiply_add(31, 30, to)]
        made += [to_float(f"d{i}"), multiply_lane(31, 31, 19, 0), multiply_add(f"a{i}", f"d{i}", 31)]
    made += [load(26, "masks", 32), zip_bytes(28, 27, 26), zip_bytes(27, 27, 26, upper=True)]
    for i, (to, words, upper) in enumerate(((29, 28, False), (28, 28, True), (29, 27, False), (28, 27, True))):
        made += [up_15_bits(to, words, upper), load_two(30, 31, "super", 128 + 32 * i), multiply_add(31, 30, to)]
        made += [multiply_add_lane(f"a{i}", 31, 19, 1)]
    return made + _solo_products(True) + _solo_join() + _ask("q", NIBBLE_LINES)


# What lies at the operands, and how many bytes of it a block takes.
_EXPANDED = {"w": ("bytes", 512), "x": ("bytes", 192), "s": ("floats", 128), "xs": ("floats", 48), "xm": ("floats", 48),
             "ahead": ("bytes", 64), "gap": ("offset", 0), "far": ("offset", 0)}
_PACKED = {"w": ("bytes", 256), "s": ("halves", 64), "x": ("bytes", 192), "xs": ("floats", 48), "xm": ("floats", 48),
           "y": ("bytes", 64), "ys": ("floats", 16), "ym": ("floats", 16)}
_SOLO = {"q": ("bytes", 256), "x": ("bytes", 64), "f": ("halves", 64), "before": ("floats", 32), "super": ("floats", 0),
         "masks": ("bytes", 0)}
_FLOATS_12, _FLOATS_8 = tuple(range(8, 20)), tuple(range(8, 16))
_SOLO_SUMS = tuple(f"{name}{i}" for name in "da" for i in range(4))


def _tile(name, text, plain, inputs, memory, outputs=None):
    return Tile(name, text, tuple(plain), inputs, outputs or inputs, memory)


def _packed(name, text, plain, sums, *constants):
    memory = {**_PACKED, "w": ("bytes", 512)} if "q8" in name else _PACKED
    return _tile(name, text, plain, sums + constants, {**memory, "s": ("floats", 256)} if "super" in name else memory, sums)


TILES = {tile.name: tile for tile in (
    _tile("expanded_32", "Groups of 32.", expanded_32(), _FLOATS_12, _EXPANDED),
    _tile("expanded_32_min", "Groups of 32 with mins.", expanded_32_min(), _FLOATS_12, {**_EXPANDED, "s": ("floats", 256)}),
    _tile("expanded_16", "Two groups of 16.", expanded_16(), _FLOATS_12, {**_EXPANDED, "s": ("floats", 256)}),
    _packed("packed_q4_two", "Q4_0, two pairs of rows.", packed_q4_two("q4"), _FLOATS_8, 28),
    _packed("packed_q4_min_two", "Q4_1, two pairs.", packed_q4_two("min"), _FLOATS_8, 28),
    _packed("packed_q4_three", "Q4_0, three pairs.", packed_q4_three("q4"), _FLOATS_12, 7),
    _packed("packed_q4_min_three", "Q4_1, three pairs.", packed_q4_three("min"), _FLOATS_12, 7),
    _packed("packed_q4_four", "Q4_0, four pairs by 4 outputs.", packed_q4_four(False), _FLOATS_8, 28),
    _packed("packed_q4_min_four", "Q4_1, four pairs by 4 outputs.", packed_q4_four(True), _FLOATS_8, 28),
    _packed("packed_q4_one", "Q4_0, one pair by 16 outputs.", packed_q4_one("q4"), _FLOATS_8, 28),
    _packed("table_one", "MXFP4, one pair by 16 outputs.", packed_q4_one("table"), _FLOATS_8, 28, 29),
    _packed("table_two", "MXFP4, two pairs.", packed_q4_two("table"), _FLOATS_8, 28, 29),
    _packed("table_three", "MXFP4, three pairs.", packed_q4_table_three(), _FLOATS_12, 7, 2),
    _packed("table_four", "MXFP4, four pairs by 4 outputs.", packed_q4_four(False, 30), _FLOATS_8, 28, 30),
    _packed("super_one", "Q4_K, one pair by 16 outputs.", packed_q4_one("super"), _FLOATS_8, 28),
    _packed("super_two", "Q4_K, two pairs.", packed_q4_two("super"), _FLOATS_8, 28),
    _packed("super_three", "Q4_K, three pairs.", packed_q4_three("super"), _FLOATS_12, 7),
    _packed("packed_q8_two", "Q8_0, two pairs.", packed_q8_two(), _FLOATS_8),
    _packed("packed_q8_three", "Q8_0, three pairs.", packed_q8_three(), _FLOATS_12),
    _packed("packed_q8_four", "Q8_0, four pairs by 4 outputs.", packed_q8_four(), _FLOATS_8),
    _tile("solo_q4", "Q4_0: f16 scales of the block before at f.", solo_f16(False), _SOLO_SUMS, _SOLO),
    _tile("solo_q4_min", "Q4_1: f16 scales and mins.", solo_f16(True), _SOLO_SUMS, _SOLO),
    _tile("solo_q4_table", "MXFP4: bf16 scales of the block before at f.", solo_table(), _SOLO_SUMS, _SOLO),
    _tile("solo_q4_super", "Q4_K: bytes of scales and mins at f, of a super-block whose SuperFields are at super.",
          solo_super(), _SOLO_SUMS, {**_SOLO, "f": ("bytes", 32)}),
)}
