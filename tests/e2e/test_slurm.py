"""Ranks on the nodes of a Slurm cluster, under Open MPI by pmix and MPICH by pmi2: answers, the job script, a
rank that is killed, and a node that is cut off. The cluster is the tests' own; skipped, by name, where there can be none."""
import http.client
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest

import slurm_cluster
import support
from mpi_case import plugin_of
from rank_processes import GONE_SECONDS, MPICH, OPEN_MPI, TOLD_SECONDS, Listener, ask, ended, ranks_of

ALONE = "waits for ranks that are lost"  # not beside other modules: tools/run_tests.py

MODEL = support.DATA / "models/stories260K/stories260K.gguf"
KEY, PORT = "sk-for-the-cluster-0123456789", 8080
CLUSTER = None


def setUpModule():
    global CLUSTER
    if why := slurm_cluster.missing():
        raise unittest.SkipTest(f"slurm: {why}")
    CLUSTER = slurm_cluster.Cluster()
    unittest.addModuleCleanup(CLUSTER.close)


class SlurmCase:
    """For each MPI: its `launcher`, and `pmi`, how srun starts it."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        _, cls.variables = plugin_of(cls.launcher, cls)

    def setUp(self):
        super().setUp()
        self.mark = f"{os.getpid()}-{self.id()}"
        # UCX, below MPICH, takes both nodes for one machine, since they have one kernel: it would share memory.
        self.environment = {**self.variables, "INGOT_TEST_LAUNCH": self.mark, "INGOT_API_KEY": KEY, "UCX_TLS": "tcp,self"}

    def step(self, *words, mpi=None):
        return ("srun", f"--mpi={mpi or self.pmi}", "--nodes=2", "--ntasks=2", *words)

    def srun(self, *words, mpi=None):
        return CLUSTER.run(*self.step(support.BINARY, *words, mpi=mpi), env=self.environment)

    def test_logits_are_those_of_one_rank(self):
        for name in ("llama", "qwen3-moe"):
            words = ("eval", "logits", support.DATA / "arch" / name, "--ids", "1,5,9,2,7,30,4,11", "--json")
            one, two = support.run(*words), self.srun(*words)
            self.assertEqual(two.returncode, 0, two.stderr)
            self.assertEqual(json.loads(two.stdout), json.loads(one.stdout), name)

    def test_each_node_has_a_rank(self):
        words = ("run", MODEL, "-n", "30", "--temp", "0", "--raw", "Once upon a time")
        seen = CLUSTER.run(*self.step("sh", "-c", 'echo "on $(hostname)"; exec "$@"', "sh", support.BINARY, *words),
                           env=self.environment)
        self.assertEqual(seen.returncode, 0, seen.stderr)
        for node in slurm_cluster.NODES:
            self.assertIn(f"on {node}\n", seen.stdout)
        self.assertIn(support.run(*words).stdout, seen.stdout)

    def connection(self):
        connection = http.client.HTTPConnection(slurm_cluster.NODES["node1"], PORT, timeout=60)
        connection.sock = CLUSTER.connect("node1", PORT, 60)
        self.addCleanup(connection.close)
        return connection

    def await_server(self):
        """{rank: pid} once an answer has come: the weights are read, so the first wait is a short one."""
        def answers():
            try:
                return b"[DONE]" in ask(self.connection(), 5, KEY).read()
            except OSError:
                return False
        CLUSTER.until(answers, 30, "server")
        ranks = ranks_of(self.mark)
        self.assertEqual(sorted(ranks), [0, 1])
        return ranks

    def serve(self, errors=subprocess.PIPE):
        words = ("--kill-on-bad-exit=1", support.BINARY, "serve", MODEL, "--host", "0.0.0.0", "--port", PORT,
                 "--log", "off")
        return CLUSTER.popen(*self.step(*words), env=self.environment, stderr=errors)

    def listen(self):
        listener = Listener(self.connection(), KEY)
        self.assertTrue(listener.first.wait(60))
        return listener

    def await_end(self, processes):
        end = time.monotonic() + 60
        while not all(map(ended, processes)) and time.monotonic() < end:
            time.sleep(0.05)

    def test_a_killed_rank(self):
        shared = CLUSTER.shared_memory()
        with self.serve() as server:
            self.addCleanup(server.kill)
            ranks = self.await_server()
            listener = self.listen()
            began = time.monotonic()
            os.kill(ranks[1], signal.SIGKILL)
            listener.join(60)
            printed = server.communicate(timeout=60)
        self.await_end(ranks.values())
        self.assertLess(listener.told - began, TOLD_SECONDS)
        self.assertLess(time.monotonic() - began, GONE_SECONDS)
        self.assertNotEqual(server.returncode, 0)
        self.assertNotIn(b"[DONE]", listener.seen)
        lines = [line for line in printed[1].splitlines() if line.startswith("ingot: ")]
        self.assertEqual(len(lines), 1, printed[1])
        self.assertRegex(lines[0], r"rank 0 on node1, step \d+: in \w+, for rank 1 on node2: ")
        self.assertEqual(CLUSTER.shared_memory(), shared)

    def test_the_job_script(self):
        output = CLUSTER.folder / f"{self.pmi}.out"
        sent = CLUSTER.run("sbatch", "--parsable", f"--output={output}", support.ROOT / "deploy/slurm/ingot.sbatch", MODEL,
                           env={**self.environment, "INGOT": str(support.BINARY), "INGOT_PMI": self.pmi})
        self.assertEqual(sent.returncode, 0, sent.stderr)
        job = sent.stdout.strip()
        ranks = self.await_server()
        CLUSTER.run("scancel", "--signal=TERM", job)
        CLUSTER.until(lambda: "JobState=COMPLETED" in CLUSTER.run("scontrol", "show", "job", job).stdout, 20,
                      f"end of job {job}")
        self.assertIn(f"rank 0 serves on node1, port {PORT}\n", output.read_text())
        self.assertTrue(all(map(ended, ranks.values())))

    def test_tasks_without_mpi_are_one_line_each(self):
        result = self.srun("run", MODEL, "-n", "5", "--raw", "Once", mpi="none")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("srun started 2 tasks without MPI: --mpi=pmix or --mpi=pmi2", result.stderr)


class OpenMpi(SlurmCase, support.TestCase):
    launcher, pmi = OPEN_MPI, "pmix"

    def test_a_link_goes_down_in_a_step(self):
        """Both sides end by themselves; the launcher hears of rank 0's end alone."""
        shared = CLUSTER.shared_memory()
        with tempfile.TemporaryFile("w+") as errors, self.serve(errors) as server:
            self.addCleanup(server.kill)
            ranks = self.await_server()
            listener = self.listen()
            began = time.monotonic()
            with CLUSTER.without_link("node2"):
                listener.join(60)
                self.await_end(ranks.values())
                gone = time.monotonic() - began
                errors.seek(0)
                lines = [line for line in errors if line.startswith("ingot: ")]
            status = server.wait(60)
        self.assertLess(listener.told - began, TOLD_SECONDS)
        self.assertLess(gone, GONE_SECONDS)
        self.assertNotEqual(status, 0)
        self.assertNotIn(b"[DONE]", listener.seen)
        self.assertEqual(len(lines), 1, lines)
        self.assertRegex(lines[0], r"rank 0 on node1, step \d+: in \w+, for rank 1 on node2: ")
        self.assertEqual(CLUSTER.shared_memory(), shared)


class Mpich(SlurmCase, support.TestCase):
    launcher, pmi = MPICH, "pmi2"

    def test_a_link_goes_down_with_nothing_to_do(self):
        """The rank that is cut off ends, though its launcher cannot reach it; rank 0 once the launcher hears of that."""
        with self.serve(subprocess.DEVNULL) as server:
            self.addCleanup(server.kill)
            ranks = self.await_server()
            began = time.monotonic()
            with CLUSTER.without_link("node2"):
                self.await_end([ranks[1]])
                self.assertLess(time.monotonic() - began, GONE_SECONDS)
            self.assertNotEqual(server.wait(60), 0)
            self.await_end(ranks.values())
        self.assertLess(time.monotonic() - began, 60)


if __name__ == "__main__":
    unittest.main()
