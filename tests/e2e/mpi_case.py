"""What tests of ranks under `mpirun` share: both MPIs, a launch of `ingot`, and the one line of its end."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import support

MODEL = support.DATA / "models/stories260K/stories260K.gguf"
PROMPT = ("--temp", "0", "--raw", "Once upon a time")


def plugin_of(launcher, case):
    """The plug-in of its MPI, and what makes `ingot` load it: one of the class `case` where MPI came after the build."""
    plugin = support.BINARY.parent / f"libingot_{launcher.kind}.so"
    if plugin.exists():
        return plugin, {}
    if shutil.which(launcher.wrapper) is None:
        raise unittest.SkipTest(f"there is neither {plugin.name} nor {launcher.wrapper}")
    folder = tempfile.mkdtemp(prefix="ingot-e2e-")
    case.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
    plugin = pathlib.Path(folder) / plugin.name
    subprocess.run([launcher.wrapper, "-std=c++20", "-shared", "-fPIC", "-I", support.ROOT / "src", "-o", plugin,
                    support.ROOT / "src/comm/mpi_plugin.cpp"], check=True)
    return plugin, {"INGOT_MPI": str(plugin)}


class MpiCase:
    """For each MPI, which is its `launcher`. Skipped, by name, where it is not installed."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        launcher = cls.launcher
        if shutil.which(launcher.command) is None:
            raise unittest.SkipTest(f"{launcher.command} is not installed")
        cls.plugin, cls.environment = plugin_of(launcher, cls)
        # Ubuntu 24.04's MPICH starts every process as rank 0 of 1.
        alone = subprocess.run([launcher.command, *launcher.options, "-n", "2", str(support.BINARY), "run", "--help"],
                               text=True, capture_output=True, env={**os.environ, **cls.environment}, timeout=120)
        if "sees 1 ranks where" in alone.stderr:
            raise unittest.SkipTest(f"{launcher.command} starts processes that do not find each other")

    def setUp(self):
        super().setUp()
        self.mark = f"{os.getpid()}-{self.id()}"

    def variables(self, env):
        return {**os.environ, **self.environment, "INGOT_TEST_LAUNCH": self.mark, **(env or {})}

    def mpirun(self, *words, ranks=2, env=None, before=(), other=support.BINARY):
        """All that `mpirun -n RANKS ingot WORDS` does. Several lists of words, separated by ":", for one rank each; those
        after the first run `other`."""
        count = 1 if ":" in words else ranks
        command = [*before, self.launcher.command, *self.launcher.options, "-n", str(count), str(support.BINARY)]
        for word in words:
            command += [":", "-n", "1", str(other)] if word == ":" else [str(word)]
        return subprocess.run(command, capture_output=True, text=True, env=self.variables(env), timeout=120,
                              stdin=subprocess.DEVNULL)

    def own_lines(self, result):
        return [line for line in result.stderr.splitlines() if line.startswith("ingot: ")]

    def assert_one_line(self, result, *words):
        self.assertNotEqual(result.returncode, 0)
        lines = self.own_lines(result)
        self.assertEqual(len(lines), 1, result.stderr)
        for word in words:
            self.assertIn(word, lines[0])
