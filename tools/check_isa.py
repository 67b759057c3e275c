#!/usr/bin/env python3
"""Checks of code that is compiled for one instruction set.

Without arguments: no object of a set (its source's suffix names it, cmake/isa.cmake) may define a symbol that another
object could define too, outside a namespace of its own. The linker keeps one copy of an inline function: if it were the
one of a higher set, every CPU would run it.

--qemu: builds the tests of quant and ops for AArch64 and runs them under qemu, once for each set, and on a CPU that has
only the baseline. Needs a cross compiler, qemu-aarch64 and GoogleTest's source; without them it prints SKIP lines.

Exits with 1 and says what is wrong.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SETS = "avx2|avx512|avx512vnni|amx|baseline|neon|dotprod|i8mm"
OBJECT = re.compile(rf"_({SETS})\.cpp\.o$")
# W, V and u: of which the linker keeps one. A namespace of the set's own is not shared.
SHARED = re.compile(r"^[0-9a-f]*\s+([WVuwv]) (.*)$")
SKIPPED_TESTS = "-*Vocabulary*:*Speed*:*DeathTest*"  # too slow in an emulator, or a process for each


def leaks(listing, name):
    """The shared symbols in an nm listing of the set `name` that are not in its own namespace."""
    own = re.compile(rf"\bingot_{name}::")
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


def missing():
    found = [shutil.which(f"aarch64-linux-gnu-g++{version}") for version in ("-12", "")]
    if not any(found):
        return "no aarch64-linux-gnu-g++"
    if not shutil.which("qemu-aarch64"):
        return "no qemu-aarch64"
    if not pathlib.Path("/usr/src/googletest/CMakeLists.txt").exists():
        return "no GoogleTest in /usr/src/googletest"
    return None


def check_qemu(build, jobs):
    if reason := missing():
        print(f"SKIP AArch64 under qemu: {reason}")
        return []
    configure = ["cmake", "-S", ROOT, "-B", build, "-DCMAKE_BUILD_TYPE=Release", "-DINGOT_KERNELS_ONLY=ON"]
    configure += [f"-DCMAKE_TOOLCHAIN_FILE={ROOT / 'cmake/aarch64.cmake'}", "-G", "Ninja" if shutil.which("ninja") else "Unix Makefiles"]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", build, "-j", str(jobs), "--target", "quant_tests", "ops_tests"], check=True)
    problems = check_symbols(build)
    runs = [("max", name) for name in ("neon", "dotprod", "i8mm")] + [("cortex-a53", "neon"), ("cortex-a53", None)]
    for cpu, name in runs:
        for program in ("ops_tests",) if name else ("quant_tests", "ops_tests"):
            problems += run_qemu(build / program, cpu, name)
    if run_qemu(build / "ops_tests", "cortex-a53", "i8mm", "--gtest_filter=Linear.OddSizes") == []:
        problems.append("cortex-a53 ran the set i8mm, which it does not have")
    return problems


def run_qemu(program, cpu, name, tests=f"--gtest_filter={SKIPPED_TESTS}"):
    env = {**os.environ, "QEMU_LD_PREFIX": "/usr/aarch64-linux-gnu"}
    env.pop("INGOT_ISA", None)
    if name:
        env["INGOT_ISA"] = name
    done = subprocess.run(["qemu-aarch64", "-cpu", cpu, program, tests], env=env, capture_output=True, text=True)
    label = f"{program.name} on {cpu}, INGOT_ISA={name}"
    if done.returncode == 0:
        print(f"{label}: passed")
        return []
    return [f"{label}: exit status {done.returncode}\n{(done.stdout + done.stderr)[-3000:]}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, help="build directory (INGOT_BUILD, build/release; with --qemu build/aarch64)")
    parser.add_argument("--qemu", action="store_true", help="build for AArch64 and run the tests under qemu")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    if args.qemu:
        problems = check_qemu(args.build or ROOT / "build/aarch64", args.jobs)
    else:
        problems = check_symbols(args.build or pathlib.Path(os.environ.get("INGOT_BUILD", ROOT / "build/release")))
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
