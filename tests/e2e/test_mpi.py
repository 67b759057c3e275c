"""Ranks that are processes: `mpirun -n N ingot …` under Open MPI and MPICH, their answers, and what cannot be. Each MPI is
skipped, by name, where it is not installed."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import unittest

import mpi_case
import serving
import support
from mpi_case import MODEL, PROMPT
from rank_processes import MPICH, OPEN_MPI, Listener, Served, ask, launched, listens
from test_serve_probes import series

ALONE = "measures what a rank that does nothing takes"  # not beside other modules: tools/run_tests.py

LONG = os.environ.get("INGOT_LONG") == "1"

# Runs what follows a file's name, and writes there its status and how many bytes it has read from disks. SIGUSR1 is how
# MPICH's launcher tells that a rank has left without it, as one does that MPICH lets hang at the end.
COUNTS_READS = """
import resource, signal, subprocess, sys
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
status = subprocess.call(sys.argv[2:], close_fds=False)
with open(sys.argv[1], "w") as out:
    print(status, 512 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_inblock, file=out)
sys.exit(status)
"""


class ModelFiles:
    """A random model in several files, as several machines have it. No page of them is in memory when they are read."""

    def __init__(self, folder, copies):
        self.folder = folder
        self.paths = [folder / str(i) / "model.gguf" for i in range(copies)]
        self.paths[0].parent.mkdir()
        made = support.run("bench", "--shape", "smollm2-360m", "--format", "q4_0", "--save", self.paths[0],
                           "--prompt", "1", "--gen", "1", timeout=240)
        assert made.returncode == 0, made.stderr
        self.bytes = self.paths[0].stat().st_size
        for path in self.paths[1:]:
            path.parent.mkdir()
            shutil.copyfile(self.paths[0], path)

    def counted(self, *words, rank=0):
        """The words of a command whose reads are counted."""
        return [sys.executable, "-c", COUNTS_READS, str(self.folder / f"read-{rank}"), str(support.BINARY), *map(str, words)]

    def forget(self):
        for path in self.paths:
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        for path in self.folder.glob("read-*"):
            path.unlink()

    def read(self, ranks):
        """By all since forget(), as a part of one file. None where one of them has failed."""
        found = [list(map(int, path.read_text().split())) for path in self.folder.glob("read-*")]
        if [status for status, _ in found] != [0] * ranks:
            return None
        return sum(read for _, read in found) / self.bytes


def cpu_ticks(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


class MpiCase(mpi_case.MpiCase):
    def test_logits_are_those_of_one_rank(self):
        for name, ranks in (("llama", 2), ("qwen3-moe", 3)):
            words = ("eval", "logits", support.DATA / "arch" / name, "--ids", "1,5,9,2,7,30,4,11", "--json")
            one = support.run(*words)
            several = self.mpirun(*words, ranks=ranks)
            self.assertEqual(several.returncode, 0, several.stderr)
            self.assertEqual(json.loads(several.stdout), json.loads(one.stdout), name)

    def test_experts_are_spread(self):
        words = ("eval", "logits", support.DATA / "arch/qwen3-moe", "--ids", "1,5,9,2,7,30,4,11", "--json")
        one = json.loads(support.run(*words).stdout)
        several = self.mpirun(*words, "--ep", "3", ranks=3)
        self.assertEqual(several.returncode, 0, several.stderr)
        self.assertEqual(json.loads(several.stdout), one)
        # Sums in another order: near, and equal on both ranks, or they would part.
        summed = self.mpirun(*words, "--tp-form", "reduce", ranks=2)
        self.assertEqual(summed.returncode, 0, summed.stderr)
        self.assertEqual(json.loads(summed.stdout)["argmax"], one["argmax"])
        self.assert_one_line(self.mpirun(*words, "--ep", "3", ranks=2), "--ep 3 for 2 processes")

    def test_logits_of_stages_are_those_of_one_rank(self):
        for name, pp, ranks in (("llama", 2, 2), ("qwen3-moe", 2, 4)):
            words = ("eval", "logits", support.DATA / "arch" / name, "--ids", "1,5,9,2,7,30,4,11", "--json")
            one = support.run(*words)
            several = self.mpirun(*words, "--pp", pp, "--threads", "1", ranks=ranks)
            self.assertEqual(several.returncode, 0, several.stderr)
            self.assertEqual(json.loads(several.stdout), json.loads(one.stdout), name)

    def test_rank_0_alone_prints(self):
        one = support.run("run", MODEL, "-n", "30", *PROMPT)
        self.assertEqual(self.mpirun("run", MODEL, "-n", "30", *PROMPT).stdout, one.stdout)
        self.assertEqual(self.mpirun("run", "--help").stdout, support.run("run", "--help").stdout)

    def test_every_call_of_comm(self):
        program = support.BINARY.parent / "comm_tests"
        if not program.exists():
            self.skipTest("comm_tests is not built")
        result = subprocess.run([self.launcher.command, *self.launcher.options, "-n", "2", program, "--gtest_filter=CommMpi.*"],
                                capture_output=True, text=True, timeout=120, env=self.variables(
                                    {"INGOT_MPI": str(self.plugin)}))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(result.stdout.count("OK ]"), 2, result.stdout)

    def test_the_first_difference_is_named(self):
        first = ("run", MODEL, "--ctx", "256", "-n", "5", *PROMPT)
        host = os.uname().nodename
        self.assert_one_line(self.mpirun(*first, ":", "run", MODEL, "--ctx", "128", "-n", "5", *PROMPT),
                             f"--ctx of rank 1 on {host} is another: 128", "256 on rank 0")
        other = self.temp_dir() / "other.gguf"
        content = bytearray(MODEL.read_bytes())
        content[-1000] ^= 1
        other.write_bytes(content)
        self.assert_one_line(self.mpirun(*first, ":", "run", other, "--ctx", "256", "-n", "5", *PROMPT),
                             f"the model of rank 1 on {host} is another")
        self.assert_one_line(self.mpirun(*first, ":", "run", "/nowhere.gguf", *PROMPT), f"rank 1 on {host}", "/nowhere.gguf")

    def test_what_cannot_be_is_one_line(self):
        words = ("run", MODEL, "-n", "5", *PROMPT)
        self.assert_one_line(self.mpirun(*words, "--tp", "3"), "--tp 3 for 2 processes")
        self.assert_one_line(self.mpirun(*words, "--pp", "3"), "[pp] 3 stages for 2 processes: each is one rank of one")
        self.assert_one_line(self.mpirun(*words, "--tp", "2", "--pp", "2"), "[pp] 2 stages of 2 ranks for 2 processes")
        self.assert_one_line(self.mpirun("serve", MODEL, "--port", "0", "--dp", "2", "--threads", "8", "--log", "off"),
                             "[dp] 2 engines of several processes")
        self.assert_one_line(self.mpirun(*words, env={"INGOT_MPI": "nothing"}), "libingot_nothing.so", "no MPI can be loaded")
        old = self.temp_dir() / "old.so"
        source = "extern \"C\" const void* ingot_mpi_plugin() { static const unsigned v[32] = {99}; return v; }"
        subprocess.run(["g++", "-x", "c++", "-shared", "-fPIC", "-o", old, "-"], input=source, text=True, check=True)
        self.assert_one_line(self.mpirun(*words, env={"INGOT_MPI": str(old)}), "of another version of Ingot")

    def test_a_full_dev_shm(self):
        if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
            self.skipTest("only root can mount a small /dev/shm")
        small = ("unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=4m tmpfs /dev/shm && exec \"$@\"", "sh")
        self.assert_one_line(self.mpirun("run", MODEL, "-n", "5", *PROMPT, before=small), "/dev/shm has 4 MiB free")

    def test_four_ranks_read_a_file_once(self):
        files = ModelFiles(self.temp_dir(), 4)
        answer = ("--ids", "1,5,9", "--json", "--threads")

        def read_by(ranks, command, **how):
            files.forget()
            result = subprocess.run(command, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, **how)
            read = files.read(ranks)
            self.assertIsNotNone(read, f"{result.returncode}: {result.stderr}")
            self.assertEqual(len(json.loads(result.stdout.splitlines()[0])["argmax"]), 3)
            return read

        def one_process(*more):
            return read_by(1, files.counted("eval", "logits", files.paths[0], *answer, "4", *more))

        def processes(paths, *more):
            command = [self.launcher.command, *self.launcher.options, *self.launcher.lets_live]
            for rank, path in enumerate(paths):
                command += [*([":"] if rank else []), "-n", "1",
                            *files.counted("eval", "logits", path, *answer, "1", *more, rank=rank)]
            return read_by(len(paths), command, env=self.variables(None))

        alone = one_process()
        if not 0.9 < alone < 1.1:
            self.skipTest(f"{files.folder}: of a file that is read whole {alone:.2f} is counted: no disk, or not its own")
        for form in ("gather", "reduce"):
            with self.subTest(form, ranks="threads"):
                self.assertLess(one_process("--tp", "4", "--tp-form", form), 1.05)
            with self.subTest(form, ranks="processes of one machine"):
                self.assertLess(processes(files.paths[:1] * 4, "--tp-form", form), 1.05)
        with self.subTest("gather", ranks="processes of four machines"):
            self.assertLess(processes(files.paths, "--tp-form", "gather"), 1.05)
        # Of what is cut by its inputs a rank has a part of each row, and each page of these has parts of all ranks.
        layers, hidden, ffn, bytes_of_value = 32, 960, 2560, 18 / 32
        cut_by_inputs = layers * hidden * (hidden + ffn) * bytes_of_value / files.bytes
        with self.subTest("reduce", ranks="processes of four machines"):
            self.assertLess(processes(files.paths, "--tp-form", "reduce"), 1.05 + 3 * cut_by_inputs)

    def serve(self):
        """A server of two ranks that listens."""
        served = Served(self.launcher, MODEL, self.mark, env=self.environment)
        self.addCleanup(served.close)
        served.await_ready()
        return served

    def answer(self, served, tokens):
        with contextlib.closing(served.connection()) as connection:
            return ask(connection, tokens).read()

    def test_ranks_are_counted(self):
        served = self.serve()
        for _ in range(2):  # what others tell is at most 0.25 s behind, and told with a step
            self.answer(served, 60)
            time.sleep(0.3)
        self.answer(served, 1)
        with contextlib.closing(served.connection()) as connection:
            connection.request("GET", "/metrics")
            found = series(connection.getresponse().read().decode())
        os.kill(served.pids[0], signal.SIGTERM)
        self.assertEqual(served.process.wait(60), 0)
        self.assertEqual(found["ingot_ranks_alive"], 2)
        for rank in range(2):
            labels = f'engine="0",rank="{rank}"'
            self.assertEqual(found[f'ingot_rank_alive{{{labels},host="hidden"}}'], 1)  # but for admins
            self.assertGreaterEqual(found[f"ingot_rank_steps_total{{{labels}}}"], 120)
            self.assertGreater(found[f"ingot_rank_step_seconds_total{{{labels}}}"],
                               found[f"ingot_rank_collective_seconds_total{{{labels}}}"])
            self.assertGreater(found[f"ingot_rank_collective_seconds_total{{{labels}}}"], 0)
            self.assertGreater(found[f'ingot_rank_sent_bytes_total{{{labels},kind="all_gather"}}'], 0)
            self.assertGreater(found[f'ingot_rank_sent_bytes_total{{{labels},kind="message"}}'], 0)  # steps, counts
        self.assertGreater(found['ingot_rank_sent_bytes_total{engine="0",rank="1",kind="gather"}'], 0)

    def test_every_rank_is_closed(self):
        """As rank 0, though a rank above it talks to none but its kind: each reads the model."""
        if not serving.has_sandbox():
            self.skipTest("this build or kernel has no sandbox")
        served = self.serve()
        for rank, pid in served.pids.items():
            tasks = os.listdir(f"/proc/{pid}/task")
            self.assertGreaterEqual(len(tasks), 1)
            for task in tasks:
                status = support.status_of(f"{pid}/task/{task}")
                self.assertEqual((status["Seccomp"], status["NoNewPrivs"]), ("2", "1"), rank)
                self.assertEqual(int(status.get("Seccomp_filters", 2)), 2, rank)  # while it is loaded, and once it is
        self.answer(served, 5)
        os.kill(served.pids[0], signal.SIGTERM)
        self.assertEqual(served.process.wait(60), 0)

    def test_rank_0_ends_all(self):
        served = self.serve()
        self.answer(served, 5)
        os.kill(served.pids[0], signal.SIGTERM)
        self.assertEqual(served.process.wait(60), 0)
        self.assertTrue(served.await_end(0))
        self.assertEqual(served.leftovers(), [])

    def test_an_idle_rank_sleeps_and_the_api_alone_listens(self):
        served = self.serve()
        self.answer(served, 5)
        ticks, seconds = os.sysconf("SC_CLK_TCK"), 5 if LONG else 3
        before, began = cpu_ticks(served.pids[1]), time.monotonic()
        time.sleep(seconds)
        used = (cpu_ticks(served.pids[1]) - before) / ticks / (time.monotonic() - began)
        self.assertLessEqual(used, 0.01 if LONG else 0.03)
        self.assertEqual({rank: listens(pid) for rank, pid in served.pids.items()}, {0: [served.port], 1: []})

    def test_one_that_never_comes(self):
        """A minute without a variable for tests."""
        began = time.monotonic()
        result = subprocess.run(
            [self.launcher.command, *self.launcher.options, "-n", "1", str(support.BINARY), "run", MODEL, *PROMPT, ":",
             "-n", "1", "sleep", "100"], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
            env=self.variables({"INGOT_MEET_SECONDS": "2"}))
        self.assertLess(time.monotonic() - began, 20)
        self.assert_one_line(result, f"rank 0 on {os.uname().nodename}, in the meeting: not all of 2 ranks have come in 2 s")
        # What did not come is ended too.
        self.assertEqual(launched(self.mark), [])

    def test_another_program(self):
        other = self.temp_dir() / "other"
        other.write_bytes(support.BINARY.read_bytes() + b"\0")
        other.chmod(0o755)
        words = ("run", MODEL, "-n", "5", *PROMPT)
        self.assert_one_line(self.mpirun(*words, ":", *words, other=other, env={"INGOT_MPI": str(self.plugin)}),
                             f"the program of rank 1 on {os.uname().nodename} is another", " on rank 0 on ")


class OpenMpi(MpiCase, support.TestCase):
    launcher = OPEN_MPI

    def test_a_rank_that_is_stopped_for_a_moment_loses_nobody(self):
        served = self.serve()
        self.answer(served, 5)
        listener = Listener(served.connection())
        self.addCleanup(listener.connection.close)
        self.assertTrue(listener.first.wait(60))
        for rank in (0, 1):
            os.kill(served.pids[rank], signal.SIGSTOP)
            time.sleep(2)
            os.kill(served.pids[rank], signal.SIGCONT)
        listener.join(60)
        self.assertIn(b"[DONE]", listener.seen)
        self.assertEqual(served.lines(), [])


class Mpich(MpiCase, support.TestCase):
    launcher = MPICH


class OneProcess(support.TestCase):
    def test_the_api_alone_listens(self):
        for words in (("--tp", "2"), ("--dp", "2")):
            with support.start("serve", MODEL, "--port", "0", "--log", "off", "--threads", "2", *words) as server:
                port = int(server.stdout.readline().rsplit(":", 1)[1])
                self.assertEqual(listens(server.pid), [port], words)
                server.terminate()


if __name__ == "__main__":
    unittest.main()
