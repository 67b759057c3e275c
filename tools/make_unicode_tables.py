#!/usr/bin/env python3
"""Writes src/text/unicode_tables.cpp: the Unicode properties that tokenizers ask for.

    pip install --target DIR unicodedata2==16.0.0
    PYTHONPATH=DIR tools/make_unicode_tables.py > src/text/unicode_tables.cpp

General categories and White_Space are those of Unicode 16.0, as the regular expressions of the `tokenizers` library
have them. Normalization is that of Unicode 9.0, as that library's NFC has it: characters assigned later neither
compose nor reorder. Normalization never changes for an assigned character, so 9.0 is 16.0 without the later ones.
"""

import sys

import unicodedata2 as unicode

VERSION = "16.0.0"
BLOCK = 128
CATEGORIES = "Cn Cc Cf Co Cs Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp".split()
WHITE_SPACE = [*range(0x9, 0xE), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]
NFC_MAY_CHANGE = 0x20
IS_SPACE = 0x40

# Characters assigned after Unicode 9.0 that have a combining class or a canonical decomposition.
AFTER_9_0 = [
    (0x7FD, 0x7FD), (0x897, 0x89F), (0x8CA, 0x8D3), (0x9FE, 0x9FE), (0xC3C, 0xC3C), (0xD3B, 0xD3C), (0xEBA, 0xEBA),
    (0x1715, 0x1715), (0x1ABF, 0x1ACE), (0x1DF6, 0x1DFA), (0xA82C, 0xA82C), (0x105C9, 0x105C9), (0x105E4, 0x105E4),
    (0x10D24, 0x10D27), (0x10D69, 0x10D6D), (0x10EAB, 0x10EAC), (0x10EFD, 0x10EFF), (0x10F46, 0x10F50),
    (0x10F82, 0x10F85), (0x11070, 0x11070), (0x1133B, 0x1133B), (0x11383, 0x11383), (0x11385, 0x11385),
    (0x1138E, 0x1138E), (0x11391, 0x11391), (0x113C5, 0x113C5), (0x113C7, 0x113C8), (0x113CE, 0x113D0),
    (0x1145E, 0x1145E), (0x11839, 0x1183A), (0x11938, 0x11938), (0x1193D, 0x1193E), (0x11943, 0x11943),
    (0x119E0, 0x119E0), (0x11A34, 0x11A34), (0x11A47, 0x11A47), (0x11A99, 0x11A99), (0x11D42, 0x11D42),
    (0x11D44, 0x11D45), (0x11D97, 0x11D97), (0x11F41, 0x11F42), (0x16121, 0x16128), (0x1612F, 0x1612F),
    (0x16D68, 0x16D6A), (0x16FF0, 0x16FF1), (0x1E08F, 0x1E08F), (0x1E130, 0x1E136), (0x1E2AE, 0x1E2AE),
    (0x1E2EC, 0x1E2EF), (0x1E4EC, 0x1E4EF), (0x1E5EE, 0x1E5EF),
]  # fmt: skip
LATER = {c for first, last in AFTER_9_0 for c in range(first, last + 1)}


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


def main():
    if unicode.unidata_version != VERSION:
        sys.exit(f"unicodedata2 has Unicode {unicode.unidata_version}, {VERSION} is wanted")
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
    print('#include "text/unicode_tables.h"\n')
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


main()
