#!/usr/bin/env python3
"""Checks of code that is compiled for one instruction set.

Without arguments: no object of a set (its source's suffix names it, cmake/isa.cmake) may define a symbol that another
object could define too, outside a namespace of its own. The linker keeps one copy of an inline function: if it were the
one of a higher set, every CPU would run it.

--qemu [aarch64|x86_64 …]: builds the tests of quant, cpu, matmul and ops for these (both, where none is named) and runs them under
qemu, once for each set that it knows, and on a CPU that has only the baseline: cortex-a53, qemu64. It knows no AVX-512
and no AMX. Needs a compiler for each, qemu-user and GoogleTest's source; without them it prints SKIP lines.

--test FILTER: only these tests, as GoogleTest names them (with --qemu). Those of single operators go through all sets in
one run: then no set is run once more alone.

Exits with 1 and says what is wrong.
"""
import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SETS = "avx2|avx512|avx512vnni|amx|baseline|neon|dotprod|i8mm"
OBJECT = re.compile(rf"_({SETS})\.cpp\.o$")
# W, V and u: of which the linker keeps one. A namespace of the set's own is not shared.
SHARED = re.compile(r"^[0-9a-f]*\s+([WVuwv]) (.*)$")
ALL_TESTS = "-*Vocabulary*:*Speed*:*DeathTest*"  # but those that are too slow in an emulator, or a process for each


def leaks(listing, name):
    """The shared symbols in an nm listing of the set `name` that are not in a namespace of its own."""
    own = re.compile(rf"\bingot(?:_|::cpu::){name}::")
    found = []
    for line in listing.splitlines():
        match = SHARED.match(line)
        if match and not own.search(match[2]) and match[2] != "DW.ref.__gxx_personality_v0":
            found.append(match[2])
    return found


def check_symbols(build):
    objects = sorted(path for path in build.rglob("*.o") if OBJECT.search(path.name))
    if not objects:
        print(f"SKIP symbols of instruction sets: no build in {build}")
        return []
    problems = []
    for path in objects:
        listing = subprocess.run(["nm", "-C", "--defined-only", path], capture_output=True, text=True, check=True).stdout
        for symbol in leaks(listing, OBJECT.search(path.name)[1]):
            problems.append(f"{path.name}: {symbol} may replace the one of other objects: give it internal linkage")
    return problems


@dataclasses.dataclass
class Target:
    """An architecture under qemu: CPUs that have sets, the best of them first, and one that has the last alone."""

    name: str
    full_cpu: str
    least_cpu: str
    sets: tuple

    def missing(self):
        if not any(shutil.which(f"{self.name}-linux-gnu-g++{version}") for version in ("-12", "")):
            return f"no {self.name}-linux-gnu-g++"
        if not shutil.which(f"qemu-{self.name}"):
            return f"no qemu-{self.name}"
        if not pathlib.Path("/usr/src/googletest/CMakeLists.txt").exists():
            return "no GoogleTest in /usr/src/googletest"
        return None


TARGETS = {
    "aarch64": Target("aarch64", "max", "cortex-a53", ("i8mm", "dotprod", "neon")),
    "x86_64": Target("x86_64", "max", "qemu64", ("avx2", "baseline")),
}


def check_qemu(target, build, jobs, tests):
    if reason := target.missing():
        print(f"SKIP {target.name} under qemu: {reason}")
        return []
    configure = ["cmake", "-S", ROOT, "-B", build, "-DCMAKE_BUILD_TYPE=Release", "-DINGOT_KERNELS_ONLY=ON"]
    configure += [f"-DCMAKE_TOOLCHAIN_FILE={ROOT / 'cmake' / target.name}.cmake"]
    configure += ["-G", "Ninja" if shutil.which("ninja") else "Unix Makefiles"]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    programs = ("quant_tests", "cpu_tests", "matmul_tests", "ops_tests")
    subprocess.run(["cmake", "--build", build, "-j", str(jobs), "--target", *programs], check=True)
    # The longest first.
    runs = [(program, cpu, None) for program in reversed(programs) for cpu in (target.full_cpu, target.least_cpu)]
    # Without INGOT_ISA the best set runs, and tests of single operators go through all: the others in whole steps.
    if tests == ALL_TESTS:
        runs += [("ops_tests", target.full_cpu, name) for name in target.sets[1:]]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        found = pool.map(lambda run: run_qemu(target, build / run[0], run[1], run[2], tests), runs)
        problems = check_symbols(build) + [problem for run in found for problem in run]
    best = target.sets[0]
    if run_qemu(target, build / "ops_tests", target.least_cpu, best, "Linear.OddSizes") == []:
        problems.append(f"{target.least_cpu} ran the set {best}, which it does not have")
    return problems


def run_qemu(target, program, cpu, name, tests):
    env = {**os.environ, "QEMU_LD_PREFIX": f"/usr/{target.name}-linux-gnu"}
    env.pop("INGOT_ISA", None)
    if name:
        env["INGOT_ISA"] = name
    command = [f"qemu-{target.name}", "-cpu", cpu, program, f"--gtest_filter={tests}"]
    started = time.monotonic()
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    label = f"{program.name} of {target.name} on {cpu}, INGOT_ISA={name or ''}"
    if done.returncode != 0:
        return [f"{label}: exit status {done.returncode}\n{(done.stdout + done.stderr)[-3000:]}"]
    count = re.search(r"\[  PASSED  \] (\d+) test", done.stdout)
    if count is None or count[1] == "0":
        return [f"{label}: no test ran"]
    print(f"{label}: {count[1]} tests passed in {time.monotonic() - started:.0f} s", flush=True)
    return []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, help="of the symbols that are looked at (INGOT_BUILD, build/release)")
    parser.add_argument("--qemu", nargs="*", choices=sorted(TARGETS), help="build for these and run the tests under qemu")
    parser.add_argument("--test", default=ALL_TESTS, metavar="FILTER", help="only these tests, with --qemu")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    if args.qemu is not None:
        problems = []
        for name in args.qemu or sorted(TARGETS):
            problems += check_qemu(TARGETS[name], ROOT / "build" / name, args.jobs, args.test)
    else:
        problems = check_symbols(args.build or pathlib.Path(os.environ.get("INGOT_BUILD", ROOT / "build/release")))
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
