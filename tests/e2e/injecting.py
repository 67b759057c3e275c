"""Faults for the tests: `inject.c` compiled and loaded before the program, and the numbers that it shares with it."""
import errno
import mmap
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import unittest

import support

SOURCE = pathlib.Path(__file__).with_name("inject.c")
FIELDS = ("allocations", "allocation_from", "allocation_to", "allocations_failed",
          "calls", "call_from", "call_to", "calls_failed", "kind")
SHORT = -1
EIO, EINTR, ENOSPC = errno.EIO, errno.EINTR, errno.ENOSPC


class Injector:
    """Makes allocations and calls of a program fail. `env` is what the program must be started with."""

    def __init__(self):
        compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
        if not compiler:
            raise unittest.SkipTest("no C compiler for the fault injection")
        self.folder = tempfile.TemporaryDirectory(prefix="ingot-inject-")
        library = pathlib.Path(self.folder.name) / "inject.so"
        command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
        built = subprocess.run(command, capture_output=True, text=True)
        if built.returncode != 0:
            self.folder.cleanup()
            raise unittest.SkipTest(f"the fault injection cannot be compiled: {built.stderr[-300:]}")
        self.path = pathlib.Path(self.folder.name) / "control"
        self.path.write_bytes(bytes(8 * len(FIELDS)))
        with open(self.path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 0)
        self.env = {"LD_PRELOAD": str(library), "INGOT_INJECT": str(self.path)}

    def check(self):
        """Skips where it has no effect: a program that brings its own malloc, or another libc."""
        self.reset()
        done = support.run("--version", env=self.env)
        if done.returncode != 0 or self.get("allocations") == 0:
            raise unittest.SkipTest("LD_PRELOAD has no effect on this build")

    def get(self, name):
        return struct.unpack_from("=q", self.memory, 8 * FIELDS.index(name))[0]

    def set(self, name, value):
        struct.pack_into("=q", self.memory, 8 * FIELDS.index(name), value)

    def reset(self):
        for name in ("allocation_to", "call_to", *FIELDS):
            self.set(name, 0)

    def fail_allocation(self, n, times=1):
        """The n-th from now, n = 1, 2, …, and those after it."""
        self._arm("allocation", "allocations", n, times)

    def fail_call(self, n, kind, times=1):
        self.set("kind", kind)
        self._arm("call", "calls", n, times)

    def calm(self):
        self.set("allocation_to", 0)
        self.set("call_to", 0)

    def _arm(self, what, count, n, times):
        self.set(f"{what}_to", 0)
        begin = self.get(count) + n - 1
        self.set(f"{what}_from", begin)
        self.set(f"{what}_to", begin + times)

    def close(self):
        self.memory.close()
        self.folder.cleanup()
