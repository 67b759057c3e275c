#!/usr/bin/env python3
"""Writes src/text/jinja/value/unicode_tables.h from Python's own Unicode data, so that the template engine's strip, upper,
title and repr agree with Python's. Run from the repository root; the Unicode version used is written into the file."""

import sys
import unicodedata

POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
# Word_Break = MidLetter, MidNumLet or Single_Quote: they do not end a word before a final sigma.
MID_WORD = {0x27, 0x2E, 0x3A, 0xB7, 0x387, 0x55F, 0x5F4, 0x2018, 0x2019, 0x2024, 0x2027, 0xFE13, 0xFE52, 0xFE55,
            0xFF07, 0xFF0E, 0xFF1A}


def borders(test):
    """The code points at which `test` changes, as differences."""
    out, state, last = [], False, 0
    for c in range(0x110000):
        now = test(chr(c)) if not 0xD800 <= c < 0xE000 else False
        if now != state:
            out.append(c - last)
            state, last = now, c
    return out


def case_ranges(mapping):
    """(first, last, step, delta) for the mappings to one code point."""
    keys, out, i = sorted(mapping), [], 0
    while i < len(keys):
        best = (i, 1)
        for step in (1, 2):
            j = i
            while j + 1 < len(keys) and keys[j + 1] == keys[j] + step and mapping[keys[j + 1]] == mapping[keys[i]]:
                j += 1
            if j > best[0]:
                best = (j, step)
        out.append((keys[i], keys[best[0]], best[1], mapping[keys[i]]))
        i = best[0] + 1
    return out


def single(convert):
    return {c: ord(convert(chr(c))) - c for c in POINTS if convert(chr(c)) != chr(c) and len(convert(chr(c))) == 1}


def specials(convert, unless):
    out = []
    for c in POINTS:
        text = convert(chr(c))
        if text != unless(c):
            points = [ord(x) for x in text] + [0, 0]
            out.append((c, points[0], points[1], points[2]))
    return out


def wrap(items):
    lines, line = [], ""
    for item in items:
        if len(line) + len(item) + 1 > 119:
            lines.append(line)
            line = ""
        line += item + ","
    lines.append(line)
    return "\n".join(lines)


def main():
    upper, lower = single(str.upper), single(str.lower)
    tables = [
        ("kSpaceBorders", borders(str.isspace)),
        ("kPrintableBorders", borders(str.isprintable)),
        ("kAlphaBorders", borders(str.isalpha)),
        ("kDecimalBorders", borders(str.isdecimal)),
        ("kDigitBorders", borders(str.isdigit)),
        ("kNumericBorders", borders(str.isnumeric)),
        ("kLowerBorders", borders(str.islower)),
        ("kUpperBorders", borders(str.isupper)),
        ("kTitleBorders", borders(lambda s: unicodedata.category(s) == "Lt")),
        ("kIgnorableBorders",
         borders(lambda s: unicodedata.category(s) in ("Mn", "Me", "Cf", "Lm", "Sk") or ord(s) in MID_WORD)),
        ("kIdentifierBorders", borders(lambda s: ("a" + s).isidentifier())),
    ]
    out = [
        "// Written by tools/make_jinja_unicode.py from Unicode " + unicodedata.unidata_version + ".",
        "// *Borders: the code points at which a property begins or ends, each as the difference to the one before.",
        "// k*Ranges: {first, last, step, delta} of case mappings to one code point; k*Specials: {from, to, to, to}.",
        "#pragma once", "", "#include <cstdint>", "", "namespace ingot::jinja {", "", "// clang-format off",
    ]
    for name, values in tables:
        out += [f"inline constexpr uint32_t {name}[] = {{", wrap(map(str, values)), "};"]
    out.append("struct CaseRange { uint32_t first, last, step; int32_t delta; };")
    out.append("struct CaseSpecial { uint32_t from, to[3]; };")
    for name, values in (("kUpperRanges", case_ranges(upper)), ("kLowerRanges", case_ranges(lower))):
        out += [f"inline constexpr CaseRange {name}[] = {{", wrap("{%d,%d,%d,%d}" % v for v in values), "};"]
    up = lambda c: chr(c + upper.get(c, 0))
    low = lambda c: chr(c + lower.get(c, 0))
    for name, values in (("kUpperSpecials", specials(str.upper, up)), ("kLowerSpecials", specials(str.lower, low)),
                         ("kTitleSpecials", specials(str.title, lambda c: chr(c).upper()))):
        out += [f"inline constexpr CaseSpecial {name}[] = {{", wrap("{%d,{%d,%d,%d}}" % v for v in values), "};"]
    out += ["// clang-format on", "", "}  // namespace ingot::jinja", ""]
    with open("src/text/jinja/value/unicode_tables.h", "w") as f:
        f.write("\n".join(out))


if __name__ == "__main__":
    sys.exit(main())
