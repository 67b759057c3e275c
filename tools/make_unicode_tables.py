#!/usr/bin/env python3
"""Writes the Unicode tables that tokenizers ask for.

    pip install unicodedataplus==16.0.0.post1
    tools/make_unicode_tables.py properties > src/text/unicode/unicode_tables.cpp
    tools/make_unicode_tables.py library > src/text/unicode/unicode_library_tables.cpp

`properties`: general categories and White_Space of Unicode 16.0, as the regular expressions of the `tokenizers` library
have them, and normalization of Unicode 9.0, as that library has it: characters assigned later neither compose nor
reorder. Normalization never changes for an assigned character, so 9.0 is 16.0 without the later ones.
`library`: what else that library asks of characters, each from the Unicode version of the table inside it. Lower case
is that of the running Python with the later additions below.
"""

import sys

import unicodedataplus as unicode

VERSION = "16.0.0"
BLOCK = 128
CATEGORIES = "Cn Cc Cf Co Cs Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp".split()
WHITE_SPACE = [*range(0x9, 0xE), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]
NFC_MAY_CHANGE = 0x20
IS_SPACE = 0x40

# Categories of Unicode 8.0 and 9.0 that were changed since.
CHANGED_8 = {0x166D: "Po", 0x1734: "Mn", 0x1885: "Lo", 0x1886: "Lo", 0xA9BD: "Mc", 0x111C9: "Po", 0x1171E: "Mn"}
CHANGED_9 = {0x1CF2: "Mc", 0x1CF3: "Mc", 0x111C9: "Po"}
SCRIPTS_9 = {0x589: "Common", 0x61C: "Common", 0x953: "Devanagari", 0x954: "Devanagari"}
# What Unicode 17.0 added.
NUMBERS_17 = [(0x11DE0, 0x11DE9), (0x16FF4, 0x16FF6)]
LOWER_17 = {0xA7CE: 0xA7CF, 0xA7D2: 0xA7D3, 0xA7D4: 0xA7D5, **{c: c + 27 for c in range(0x16EA0, 0x16EB9)}}
# Lower case that Python does not know before 3.14 (Unicode 16.0).
LOWER_16 = {
    0x1C89: 0x1C8A, 0xA7CB: 0x264, 0xA7CC: 0xA7CD, 0xA7DA: 0xA7DB, 0xA7DC: 0x19B, **{c: c + 32 for c in range(0x10D50, 0x10D66)}
}  # fmt: skip
BREAKS = (
    "Other CR LF Control Extend PlainExtend Linker ZWJ Regional_Indicator Prepend SpacingMark L V T Consonant Pictographic"
).split()
ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
AGE = {c: float(unicode.age(chr(c))) for c in ALL if unicode.age(chr(c)) != "Unassigned"}


def category_in(c, version, changed):
    return changed.get(c, unicode.category(chr(c))) if AGE.get(c, 99) <= version else "Cn"


LATER = {c for c in ALL if AGE.get(c, 99) > 9}


def combining_class(c):
    return 0 if c in LATER else unicode.combining(chr(c))


def decompositions():
    """{character: (first, second or 0)}: one step, without Hangul syllables, which are computed."""
    result = {}
    for c in range(0x110000):
        text = unicode.decomposition(chr(c))
        if text and not text.startswith("<") and c not in LATER:
            parts = [int(x, 16) for x in text.split()]
            result[c] = (parts[0], parts[1] if len(parts) == 2 else 0)
    return result


def emit(declaration, values, width=480):
    lines, line = [], ""
    for value in values:
        text = f"{value},"
        if len(line) + len(text) > width:
            lines.append(line)
            line = ""
        line += text
    print(f"{declaration} = {{")
    print("\n".join([*lines, line.rstrip(",")]))
    print("};\n")


def properties():
    decomposed = decompositions()
    composed = sorted(
        (pair, c) for c, pair in decomposed.items() if unicode.normalize("NFC", chr(c)) == chr(c)
    )
    suspects = set(decomposed) - {c for _, c in composed}
    suspects |= {pair[1] for pair, _ in composed} | {*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)}
    suspects |= {c for c in range(0x110000) if combining_class(c)}

    classes = bytearray(CATEGORIES.index(unicode.category(chr(c))) for c in range(0x110000))
    for c in suspects:
        classes[c] |= NFC_MAY_CHANGE
    for c in WHITE_SPACE:
        classes[c] |= IS_SPACE

    blocks, stage1 = {}, []
    for start in range(0, 0x110000, BLOCK):
        stage1.append(blocks.setdefault(bytes(classes[start : start + BLOCK]), len(blocks)))
    assert len(blocks) <= 0x10000

    ranges = []
    for c in range(0x110000):
        value = combining_class(c)
        if value and ranges and ranges[-1][1] == c - 1 and ranges[-1][2] == value:
            ranges[-1][1] = c
        elif value:
            ranges.append([c, c, value])

    keys = sorted(decomposed)
    index = {c: i for i, c in enumerate(keys)}
    print(f"// Written by tools/make_unicode_tables.py: categories of Unicode {VERSION}, normalization of Unicode 9.0.0.")
    print("// clang-format off")
    print('#include "text/unicode/unicode_tables.h"\n')
    print("namespace ingot::unicode {\n")
    emit("const uint16_t kStage1[]", stage1)
    emit("const uint8_t kStage2[]", [x for block in blocks for x in block])
    emit("const uint32_t kDecompositions[][3]", [f"{{{c},{decomposed[c][0]},{decomposed[c][1]}}}" for c in keys])
    print(f"const size_t kDecompositionCount = {len(keys)};\n")
    emit("const uint16_t kCompositions[]", [index[c] for _, c in composed])
    print(f"const size_t kCompositionCount = {len(composed)};\n")
    emit("const uint32_t kCombiningClasses[][3]", [f"{{{a},{b},{v}}}" for a, b, v in ranges])
    print(f"const size_t kCombiningClassCount = {len(ranges)};\n")
    print("}  // namespace ingot::unicode")


def ranges_of(values):
    """[(first, last, value)] of {character: value}."""
    ranges = []
    for c in sorted(values):
        if ranges and ranges[-1][1] == c - 1 and ranges[-1][2] == values[c]:
            ranges[-1][1] = c
        else:
            ranges.append([c, c, values[c]])
    return ranges


def emit_ranges(name, characters):
    ranges = ranges_of(dict.fromkeys(characters, 0))
    emit(f"const uint32_t {name}[][2]", [f"{{{a},{b}}}" for a, b, _ in ranges])
    print(f"const size_t {name}Count = {len(ranges)};\n")


def break_class(c):
    kind = unicode.grapheme_cluster_break(chr(c))
    conjunct = unicode.indic_conjunct_break(chr(c))
    if unicode.is_extended_pictographic(chr(c)):
        kind = "Pictographic"
    elif kind == "Other" and conjunct == "Consonant":
        kind = "Consonant"
    elif kind == "Extend" and conjunct == "Linker":
        kind = "Linker"
    elif kind == "Extend" and conjunct != "Extend":
        kind = "PlainExtend"
    return BREAKS.index(kind)


def library():
    print("// Written by tools/make_unicode_tables.py: the version of Unicode stands beside each table.")
    print("// clang-format off")
    print('#include "text/unicode/unicode_tables.h"\n')
    print("namespace ingot::unicode {\n")
    print("// Unicode 9.0.")
    emit_ranges("kMarks9", {c for c in ALL if category_in(c, 9, CHANGED_9)[0] == "M"})
    scripts = {c: SCRIPTS_9.get(c, unicode.script(chr(c))) for c in ALL if AGE.get(c, 99) <= 9}
    scripts = {c: script for c, script in scripts.items() if script != "Unknown"}
    names = sorted(set(scripts.values()) - {"Hiragana", "Katakana"})
    # Kana count as Han, the prolonged sound mark too; a space is of no script.
    values = {c: names.index("Han" if script in ("Hiragana", "Katakana") else script) + 1 for c, script in scripts.items()}
    values[0x30FC] = names.index("Han") + 1
    del values[0x20]
    rows = ranges_of(values)
    emit("const uint32_t kScripts9[][3]", [f"{{{a},{b},{v}}}" for a, b, v in rows])
    print(f"const size_t kScripts9Count = {len(rows)};\n")
    forms = {c: unicode.normalize("NFKD", chr(c)) for c in ALL if c not in LATER}
    forms = {c: form for c, form in forms.items() if form != unicode.normalize("NFD", chr(c))}
    starts, characters = [], []
    for c in sorted(forms):
        starts.append(f"{{{c},{len(characters)}}}")
        characters += map(ord, forms[c])
    emit("const uint32_t kCompatibility[][2]", [*starts, f"{{{0x110000},{len(characters)}}}"])
    print(f"const size_t kCompatibilityCount = {len(starts)};\n")
    emit("const uint32_t kCompatibilityCharacters[]", characters)
    print("// Unicode 8.0.")
    emit_ranges("kNonspacing8", {c for c in ALL if category_in(c, 8, CHANGED_8) == "Mn"})
    emit_ranges("kPunctuation8", {c for c in ALL if category_in(c, 8, CHANGED_8)[0] == "P"})
    emit_ranges("kOther8", {c for c in ALL if category_in(c, 8, CHANGED_8) in ("Cc", "Cf", "Co")})
    print("// Unicode 17.0.")
    numbers = {c for c in ALL if unicode.category(chr(c))[0] == "N"}
    emit_ranges("kNumbers17", numbers | {c for a, b in NUMBERS_17 for c in range(a, b + 1)})
    lower = {c: ord(chr(c).lower()) for c in ALL if len(chr(c).lower()) == 1 and chr(c).lower() != chr(c)}
    lower |= LOWER_16 | LOWER_17
    emit("const uint32_t kLower17[][2]", [f"{{{c},{lower[c]}}}" for c in sorted(lower)])
    print(f"const size_t kLower17Count = {len(lower)};\n")
    print("// Unicode 16.0; breaks without Hangul syllables, which are computed.")
    emit_ranges("kHan", {c for c in ALL if unicode.script(chr(c)) == "Han"})
    breaks = {c: break_class(c) for c in ALL if not 0xAC00 <= c < 0xD7A4}
    rows = ranges_of({c: value for c, value in breaks.items() if value})
    emit("const uint32_t kBreaks16[][3]", [f"{{{a},{b},{v}}}" for a, b, v in rows])
    print(f"const size_t kBreaks16Count = {len(rows)};\n")
    print("}  // namespace ingot::unicode")


def main():
    if unicode.unidata_version != VERSION:
        sys.exit(f"unicodedataplus has Unicode {unicode.unidata_version}, {VERSION} is wanted")
    {"properties": properties, "library": library}[sys.argv[1]]()


main()
