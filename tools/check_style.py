"""Checks what a compiler does not: formatting, left-over markers, and things the project does without.

Formatting is checked with the clang-format of Debian 12, because other versions disagree on details;
where it is not installed this is said and skipped.
"""
import pathlib
import re
import shutil
import subprocess
import sys

import cpp_text
from cpp_text import ROOT

CLANG_FORMAT_VERSION = "14"
TEXT_SUFFIXES = cpp_text.CPP_SUFFIXES + (".py", ".md", ".txt", ".cmake", ".json", ".jinja", ".js", ".css", ".html", ".yaml", ".service", "")
FOLDERS = ("src", "tests", "tools", "docs", "cmake", "bench", "deploy", ".ci")
SKIPPED_FOLDERS = ("tests/data/", "tests/fuzz/corpus/")

# Words are put together here so that this file does not find itself.
MARKERS = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK")) + r")\b")
REGISTRIES = re.compile(
    r"\b(" + "|".join(host.replace("/", r"\.") for host in (
        "pypi/org", "pythonhosted/org", "deb/debian/org", "archive/ubuntu/com", "registry/npmjs/org", "crates/io",
        "anaconda/org", "docker/io", "ghcr/io")) + r")\b"
)
SWITCHED_OFF = re.compile(r"^\s*#\s*if\s+0\b|\bDISABLED_\w+|GTEST_SKIP\(\)\s*;", re.MULTILINE)
STD_REGEX = re.compile(r"\bstd::(?:w?regex|regex_\w+|[sc]?match_results)\b|#\s*include\s*<regex>")

# Strings come from outside, and the standard's hash of them has a fixed seed: base/seeded_hash.h has tables for them.
UNSEEDED = re.compile(r"\bunordered_(?:multi)?(?:map|set)\s*<\s*std::(?:basic_)?string(?:_view)?\s*[,>](?!.*SeededHash)")

# clang-format writes a product with a space on either side and a pointer with none before the star.
PRODUCT = re.compile(r"(?P<left>[\w.:>\-\[\]]+|\))\s\*\s(?P<right>[\w.:>\-]+|\()|\S\s\*=\s\S")
CONSTANT = re.compile(r"\d[\w']*$|size_t\{\d+\}$")


# Products that are no sizes of a file's data, or were checked before: the code as written, and why.
HARMLESS_PRODUCTS = {
    "index * sizeof(T)": "an index within an array whose bytes were computed with CheckedSize",
    "word * (at / 8 * kStep | 1)": "a checksum, no size",
    "(byte ^ hash) * kFnvPrime": "a hash, no size",
    "sizeof(T) * 8": "bits of a type",
    "2 * depth": "indentation",
}


def raw_products(code):
    """Places in a file reader where sizes are multiplied without CheckedSize. Products of literals are none."""
    names = set(re.findall(r"\bCheckedSize&?\s+(\w+)", code)) | {"CheckedSize"}
    checked = re.compile(r"\b(" + "|".join(names) + r")\b")
    for match in PRODUCT.finditer(code):
        if match["left"] and CONSTANT.match(match["left"]) and CONSTANT.match(match["right"]):
            continue
        begin = code.rfind("\n", 0, match.start()) + 1
        end = code.find("\n", match.end())
        line = code[begin : end if end >= 0 else len(code)]
        if not checked.search(line) and not any(text in line for text in HARMLESS_PRODUCTS):
            yield match.start()


# Where sizes come from a model's files or a request, beyond the readers of files.
SIZED_FOLDERS = ("src/app/", "src/models/", "src/serve/", "src/text/load/", "src/weights/")
ALLOCATION = re.compile(
    r"(?:\b(?:resize|reserve|assign|allocate|malloc|calloc|Memory|make_unique\w*<[^<>]*\[\]>)|"
    r"\bstd::(?:vector|string)\b(?:<[^;{}()]*>)?\s+\w+|\bnew\s+[\w:]+\s*(?=\[))(?=[(\[])")


def arguments(code, begin):
    """From the bracket at `begin` to the one that closes it."""
    depth = 0
    for at in range(begin, len(code)):
        depth += (code[at] in "([{") - (code[at] in ")]}")
        if depth == 0:
            return code[begin : at + 1]
    return code[begin:]


def raw_allocations(code):
    """Places where memory is asked for by a product that is no CheckedSize."""
    names = set(re.findall(r"\bCheckedSize&?\s+(\w+)", code)) | {"CheckedSize"}
    checked = re.compile(r"\b(" + "|".join(names) + r")\b")
    for match in ALLOCATION.finditer(code):
        given = arguments(code, match.end())
        products = [p for p in PRODUCT.finditer(given)
                    if not (p["left"] and CONSTANT.match(p["left"]) and CONSTANT.match(p["right"]))]
        if products and not checked.search(given):
            yield match.start()


def findings_of(path, text):
    """(offset, message) for each thing in one file that the project does without."""
    for match in MARKERS.finditer(text):
        yield match.start(), f"left-over marker {match[0]}"
    for match in REGISTRIES.finditer(text):
        yield match.start(), f"the host of a registry of packages: {match[0]}"
    if not path.endswith(cpp_text.CPP_SUFFIXES):
        return
    code = cpp_text.code_only(text)
    for match in SWITCHED_OFF.finditer(code):
        yield match.start(), f"switched off without a reason: {match[0].strip()}"
    for match in STD_REGEX.finditer(code):
        yield match.start(), "std::regex overflows the stack on long input"
    if path.startswith("src/") and not path.endswith(("_test.cpp", "_test_support.h")):
        for match in UNSEEDED.finditer(code):
            yield match.start(), "a table of strings is a SeededMap or a SeededSet"
    if path.startswith("src/files/") and not path.endswith("_test.cpp"):
        for offset in raw_products(code):
            yield offset, "sizes from files are multiplied through CheckedSize only"
    if path.startswith(SIZED_FOLDERS) and not path.endswith(("_test.cpp", "_test_support.h")):
        for offset in raw_allocations(code):
            yield offset, "what is allocated is multiplied through CheckedSize only"


def check_texts(root):
    problems = []
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            path = str(file.relative_to(root))
            if not file.is_file() or file.suffix not in TEXT_SUFFIXES or path.startswith(SKIPPED_FOLDERS):
                continue
            try:
                text = file.read_text()
            except UnicodeDecodeError:
                continue  # a fixture of bytes
            for offset, message in findings_of(path, text):
                problems.append(f"{path}:{text.count(chr(10), 0, offset) + 1}: {message}")
    return problems


def check_format(root):
    """Files that clang-format would change, or None where its version is not there."""
    program = shutil.which(f"clang-format-{CLANG_FORMAT_VERSION}") or shutil.which("clang-format")
    version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout if program else ""
    if f"version {CLANG_FORMAT_VERSION}." not in version:
        return None
    files = [str(file) for folder in ("src", "tests") for file in sorted((root / folder).rglob("*"))
             if file.suffix in cpp_text.CPP_SUFFIXES]
    first_lines = {}
    for start in range(0, len(files), 50):
        command = [program, "--dry-run", *files[start : start + 50]]
        result = subprocess.run(command, capture_output=True, text=True, cwd=root)
        for line in result.stderr.splitlines():
            match = re.match(r"(.*?):(\d+):\d+: warning:", line)
            if match:
                first_lines.setdefault(pathlib.Path(match[1]).relative_to(root), match[2])
    return [f"{name}:{line}: not formatted (clang-format -i {name})" for name, line in first_lines.items()]


def main():
    root = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT
    problems = check_texts(root)
    formatting = check_format(root)
    if formatting is None:
        print(f"SKIP formatting: clang-format {CLANG_FORMAT_VERSION} is not installed")
    problems += formatting or []
    print("\n".join(problems) or "style is in order")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
