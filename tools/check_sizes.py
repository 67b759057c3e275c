"""Checks the size budgets: a file about 400 lines, a function about 60, the body of one kernel about 200.

"About" is ten percent: 440, 66 and 220 are still let through. What must be longer is listed in
tools/size_exceptions.txt with its reason; an exception that is no longer needed is an error too.
"""
import ast
import pathlib
import re
import sys

import cpp_text
from cpp_text import ROOT

FILE_LINES = 400  # 500 where one idea needs it
FUNCTION_LINES = 60
KERNEL_LINES = 200
ABOUT = 1.1
IDEA = 1.25
EXCEPTIONS = "tools/size_exceptions.txt"
FOLDERS = ("src", "tests", "tools", "bench")


def is_kernel(path):
    """Files that hold kernels: <op>_cpu*.cpp and _cuda.cu, and the headers they are made of, those under cpu/ and cuda/."""
    return re.match(r"src/(ops|matmul)/.*(_(cpu|cuda)[^/]*\.(cpp|h|cu|cuh)$|/cuda/|/cpu/.*\.h$|simd)", path) is not None


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield cpp_text.Function(node.name, node.lineno, node.end_lineno - node.lineno + 1)


def findings_of(path, text):
    """(key, message) for each thing in the file that is too long; the key is what an exception names."""
    lines = text.count("\n") + (not text.endswith("\n") and text != "")
    if lines > FILE_LINES * IDEA:
        yield path, f"{path}: {lines} lines, about {FILE_LINES} allowed, {FILE_LINES * IDEA:.0f} where one idea needs it"
    limit = KERNEL_LINES if is_kernel(path) else FUNCTION_LINES
    functions = python_functions(text) if path.endswith(".py") else cpp_text.functions(text)
    for function in functions:
        if function.lines > limit * ABOUT:
            message = f"{path}:{function.first_line}: {function.name} has {function.lines} lines, about {limit} allowed"
            yield f"{path}:{function.name}", message


def read_exceptions(text):
    """{key: reason}, and what is wrong with the list. A line is `path[:function] - reason`; # begins a comment."""
    exceptions, problems = {}, []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, separator, reason = line.partition(" - ")
        if not separator or len(reason.strip()) < 10:
            problems.append(f"{EXCEPTIONS}:{number}: expected 'path[:function] - reason', found '{line}'")
        exceptions[key.strip()] = reason.strip()
    return exceptions, problems


def check(root):
    listed = root / EXCEPTIONS
    exceptions, problems = read_exceptions(listed.read_text() if listed.exists() else "")
    used = set()
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            if file.suffix not in cpp_text.CPP_SUFFIXES + (".py",) or not file.is_file():
                continue
            path = str(file.relative_to(root))
            for key, message in findings_of(path, file.read_text()):
                used.add(key)
                if key not in exceptions:
                    problems.append(message)
    for key in sorted(set(exceptions) - used):
        problems.append(f"{EXCEPTIONS}: '{key}' is within its budget or gone: remove the line")
    return problems


if __name__ == "__main__":
    found = check(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
    print("\n".join(found) or "sizes are within their budgets")
    sys.exit(1 if found else 0)
