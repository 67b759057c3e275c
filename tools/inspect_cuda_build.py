#!/usr/bin/env python3
"""Checks of a build with CUDA: `inspect_cuda_build.py BUILD LOG`, LOG being what ninja printed while it compiled.

No kernel may spill registers to memory (ptxas says so with -Xptxas -v), but those in MAY_SPILL. The program must start
where there is no CUDA at all, so it may need no library of CUDA's, and its size stays within a bound.
Exits with 1 and says what is wrong.
"""
import pathlib
import re
import subprocess
import sys

MOST_BYTES = 80 << 20
# A part of the kernel's name: what it spills.
MAY_SPILL = {
    "attend_latentINS0_11LatentShapeILNS_5DTypeE1ELi512ELi64ELi4": "36 bytes at 64 rows of 512 + 64 values",
    "attend_latentINS0_11LatentShapeILNS_5DTypeE2ELi512ELi64ELi4": "36 bytes at 64 rows of 512 + 64 values",
    "heads_fewINS0_11StreamCodesINS0_5SixesE": "4 bytes, of Q6_K at up to 8 rows of a head",
    "linear_wideINS0_11StreamCodesINS0_5FivesE": "32 bytes in one of its forms",
    "linear_wideINS0_11StreamCodesINS0_7NibblesENS0_11HalfOfChunkE": "8 bytes or more at 32 rows a warp, read ahead",
}

ENTRY = re.compile(r"Compiling entry function '([^']+)' for '([^']+)'")
SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
LIBRARY = re.compile(r"\(NEEDED\).*\[(lib(?:cuda|cudart|cublas|cublasLt|cudnn|nv)[^\]]*)\]")


def spills(log):
    """(kernel, architecture, bytes stored, bytes loaded) of those that spill, and the number of kernels seen."""
    found, seen, entry = [], set(), None
    for line in log.splitlines():
        if match := ENTRY.search(line):
            entry = match.groups()
            seen.add(entry)
        elif (match := SPILLS.search(line)) and entry:
            stores, loads = int(match[2]), int(match[3])
            if (stores or loads) and not any(name in entry[0] for name in MAY_SPILL):
                found.append((*entry, stores, loads))
            entry = None
    return found, len(seen)


def main():
    build, log = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).read_text(errors="replace")
    wrong = []
    found, seen = spills(log)
    if not seen:
        wrong.append("the log shows no kernel")
    wrong += [f"{name} ({arch}) spills {stores} bytes and loads {loads}" for name, arch, stores, loads in found]
    program = build / "ingot"
    size = program.stat().st_size
    if size > MOST_BYTES:
        wrong.append(f"{program.name} has {size >> 20} MiB, {MOST_BYTES >> 20} allowed")
    dynamic = subprocess.run(["readelf", "-d", str(program)], capture_output=True, text=True, check=True).stdout
    wrong += [f"{program.name} needs {library} to start" for library in LIBRARY.findall(dynamic)]
    for line in wrong:
        print(line)
    if wrong:
        return 1
    print(f"{seen} kernels without spills; {program.name} has {size / 2**20:.1f} MiB and needs no library of CUDA's")
    return 0


if __name__ == "__main__":
    sys.exit(main())
