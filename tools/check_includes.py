"""Checks who includes whom: the folders of src/ and the libraries that only some of them may use.

A folder may include itself, base, tensor and the folders listed for it. Its tests may reach what those
include in turn (they are linked with it), and the helpers under tests/.
"""
import pathlib
import re
import sys

import cpp_text
from cpp_text import ROOT

MAY_INCLUDE = {
    "base": (),
    "tensor": (),
    "files": (),
    "text": ("files",),
    "grammar": ("text", "files"),
    "quant": (),
    "emulator": (),
    "comm": (),
    "cpu": (),
    "cuda": ("emulator", "quant"),
    "matmul": ("cpu", "cuda", "quant"),
    "ops": ("comm", "matmul", "cpu", "cuda", "quant"),
    "weights": ("files", "quant"),
    "graph": ("comm", "ops", "weights"),
    "models": ("graph", "weights"),
    "bench": ("graph", "ops", "matmul", "cpu", "cuda"),
    "ladder": ("bench", "graph", "ops", "matmul", "cpu", "cuda", "quant", "files"),
    "engine": ("models", "graph", "comm"),
    "devices": ("models", "graph", "ops", "weights", "matmul", "cuda", "quant", "comm"),
    "app": ("engine", "models", "grammar", "text", "files"),
    "serve": ("app", "engine", "grammar", "text", "files"),
    "compress": ("app", "models", "graph", "weights", "quant", "text", "files"),
}
FOR_ALL = ("base", "tensor")
NOT_FOR_ALL = {"base": ("tensor",)}  # base knows nothing of tensors
# cli is the top: it may include everything, and nobody may include it.
TOP = "cli"

# A header that is the interface between two folders that do not otherwise meet, and who may include it.
SHARED_HEADERS = {
    "ops/batch.h": ("engine",),  # the flat arrays of one step: the engine fills them, ops read them
    "ops/sample/sample.h": ("engine",),  # a launch of its own after the head
    # What a request may ask of it, and the ranges.
    "ops/sample/sampling_params.h": ("engine", "app", "serve"),
    "graph/kv_store.h": ("app",),  # types and bytes of the KV cache, which follow from model and machine
    "weights/model_files.h": ("app",),  # what its publisher says of sampling and of end tokens
    "comm/world.h": ("app",),  # processes that share a model compare what they were given
    "weights/stored_tensors.h": ("serve",),  # the weights' format, for /v1/models
    "matmul/cuda/cuda_blas.h": ("graph",),  # a runner owns the library of products of its device
    "cuda/peer_board.h": ("engine",),  # what ranks hand over at once: they count it
    "cuda/kernel.cuh": ("graph",),  # random weights are made by a kernel
}

# Libraries and where they may be used: a prefix of the path under src/, or "test" for tests.
LIBRARIES = {
    "CLI/": ("cli/",),
    "curl/": ("cli/",),
    "histedit.h": ("cli/",),
    "pcre2.h": ("text/split/regex_pcre2.cpp",),
    "editline/": ("cli/",),
    "boost/": ("files/json", "serve/http"),
    "openssl/": ("serve/http",),
    "gtest/": ("test",),
    "mpi.h": ("comm/mpi_plugin.cpp",),
}

TEST = re.compile(r"_test(_\w+)?\.(h|cpp)$|/test_\w+\.(h|cpp)$")  # tests and what only they use
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def reachable(folder):
    seen, waiting = set(), [folder]
    while waiting:
        for name in MAY_INCLUDE.get(waiting.pop(), ()):
            if name not in seen:
                seen.add(name)
                waiting.append(name)
    return seen


def allowed_folders(folder, is_test):
    if folder == TOP:
        return {*MAY_INCLUDE, TOP}
    direct = reachable(folder) if is_test else set(MAY_INCLUDE[folder])
    return direct | {folder} | (set(FOR_ALL) - set(NOT_FOR_ALL.get(folder, ())))


def problem_with(path, bracket, target, src):
    """Why `path` (relative to src/) may not include `target`, or None."""
    # The cases of an op for the bench lie beside the op and are linked with the bench.
    folder = "bench" if path.endswith("_bench.cpp") else path.split("/")[0]
    is_test = TEST.search(path) is not None
    for prefix, places in LIBRARIES.items():
        if target.startswith(prefix):
            if any(path.startswith(place) or (place == "test" and is_test) for place in places):
                return None
            return f"<{target}> may only be used in {' and '.join(places)}"
    first = target.split("/")[0]
    if first not in MAY_INCLUDE and first != TOP:
        if bracket == "<" or (is_test and (src.parent / "tests" / target).exists()):
            return None
        return f'"{target}" is not a path from src/'
    if first in allowed_folders(folder, is_test) or folder in SHARED_HEADERS.get(target, ()):
        return None
    return f"{folder} may not include {first}"


def check(root):
    src = root / "src"
    problems = []
    for file in sorted(src.rglob("*")):
        if file.suffix not in cpp_text.CPP_SUFFIXES:
            continue
        path = str(file.relative_to(src))
        if path.split("/")[0] not in MAY_INCLUDE and not path.startswith(TOP + "/"):
            problems.append(f"src/{path}: the folder is not in tools/check_includes.py")
            continue
        code = cpp_text.code_only(file.read_text(), keep_strings=True)
        for match in INCLUDE.finditer(code):
            problem = problem_with(path, match[1], match[2], src)
            if problem:
                line = code.count("\n", 0, match.start(1)) + 1
                problems.append(f"src/{path}:{line}: {problem}")
    return problems


if __name__ == "__main__":
    found = check(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
    print("\n".join(found) or "includes follow the rules")
    sys.exit(1 if found else 0)
