"""Ranks of `mpirun` that are lost, killed or stopped, while they load, read a prompt, answer or wait: who is told, by what
line, and what is left. `tools/lose_ranks.py` does the same as often as one likes."""
import os
import pathlib
import shutil
import signal
import tempfile
import unittest

import mpi_case
import support
from mpi_case import MODEL
from rank_processes import GONE_SECONDS, MPICH, OPEN_MPI, faults, lose, make_model

ALONE = "waits for ranks that are lost"  # not beside other modules: tools/run_tests.py

HOST = os.uname().nodename
LAUNCHER_SECONDS = 6  # 2 are promised; machines that are shared get more
LARGE = None


def setUpModule():
    global LARGE
    if not support.BINARY.exists():
        return
    folder = tempfile.mkdtemp(prefix="ingot-e2e-")
    unittest.addModuleCleanup(shutil.rmtree, folder, ignore_errors=True)
    LARGE = make_model(pathlib.Path(folder) / "model.gguf")


class LostCase(mpi_case.MpiCase):
    def lose(self, number, rank, phase="decode", words=(), model=MODEL, gone=GONE_SECONDS):
        """The lines of the ranks."""
        loss = lose(self.launcher, model, self.mark, number, rank, phase, words, self.environment)
        self.assertEqual(faults(loss), [], loss.lines)
        self.assertLess(loss.gone, gone)
        return loss.lines

    def assert_line(self, lines, pattern):
        self.assertEqual(len(lines), 1, lines)
        self.assertRegex(lines[0], pattern)

    def assert_killed(self, lines, pattern):
        """MPICH's launcher may end all before rank 0 can say who was lost."""
        if lines or self.launcher.kind != "mpich":
            self.assert_line(lines, pattern)

    def test_a_killed_rank(self):
        self.assert_killed(self.lose(signal.SIGKILL, 1),
                           rf"rank 0 on {HOST}, step \d+: in \w+, for rank 1 on {HOST}: its process has ended")

    def test_a_killed_stage(self):
        self.assert_killed(self.lose(signal.SIGKILL, 1, words=("--pp", "2")),
                           r"rank 0 on .*, step \d+: in \w+, for rank 1 on .*: its process has ended")

    def test_a_stopped_stage(self):
        self.assert_line(self.lose(signal.SIGSTOP, 1, words=("--pp", "2")),
                         r"rank 0 on .*, step \d+: in recv, for rank 1 on .*: it was not heard of in 4500 ms")

    def test_rank_0_is_killed(self):
        self.lose(signal.SIGKILL, 0, gone=LAUNCHER_SECONDS)

    def test_the_launcher_is_killed(self):
        self.assertEqual(self.lose(signal.SIGKILL, None, gone=LAUNCHER_SECONDS), [])


class OpenMpi(LostCase, support.TestCase):
    launcher = OPEN_MPI

    def test_rank_0_is_stopped(self):
        """The launcher lets it go on before it is ended: then it says nothing, since the other did."""
        self.assert_line(self.lose(signal.SIGSTOP, 0),
                         r"rank 1 on .*, step \d+: in \w+, for rank 0 on .*: it (did not come|was not heard of) in 4500 ms")

    def test_a_rank_that_loads_is_stopped(self):
        self.assert_line(self.lose(signal.SIGSTOP, 1, "init", model=LARGE),
                         r"rank 0 on .*, step 0: in recv, for rank 1 on .*: it was not heard of in 8000 ms")

    def test_a_rank_is_stopped_in_a_prompt(self):
        self.assert_line(self.lose(signal.SIGSTOP, 1, "prefill", model=LARGE),
                         r"rank 0 on .*, step \d+: in \w+, for rank 1 on .*: it did not come in 4500 ms")

    def test_rank_0_is_stopped_and_nothing_to_do(self):
        self.assert_line(self.lose(signal.SIGSTOP, 0, "idle", words=("--pp", "2")),
                         r"rank 1 on .*, step \d+: in recv, for rank 0 on .*: it was not heard of in 4500 ms")


class Mpich(LostCase, support.TestCase):
    launcher = MPICH

    def test_a_stopped_rank(self):
        self.assert_line(self.lose(signal.SIGSTOP, 1),
                         r"rank 0 on .*, step \d+: in \w+, for rank 1 on .*: it did not come in 4500 ms")

    def test_a_rank_that_loads_is_killed(self):
        self.assert_killed(self.lose(signal.SIGKILL, 1, "init", model=LARGE),
                           r"rank 0 on .*, step 0: in recv, for rank 1 on .*: its process has ended")

    def test_a_rank_is_killed_in_a_prompt(self):
        self.assert_killed(self.lose(signal.SIGKILL, 1, "prefill", model=LARGE),
                           r"rank 0 on .*, step \d+: in \w+, for rank 1 on .*: its process has ended")


if __name__ == "__main__":
    unittest.main()
