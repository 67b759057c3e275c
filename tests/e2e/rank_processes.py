"""Ranks that are processes, as their tests see them: which they are, a client that reads while one is lost, and what
follows when one is."""
import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import typing

import support

# What is promised is 5 s and 10 s; machines that are shared get more.
TOLD_SECONDS, GONE_SECONDS = 8, 16


def launched(mark):
    """The processes with INGOT_TEST_LAUNCH=MARK, whatever they run."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"INGOT_TEST_LAUNCH={mark}\0" in (folder / "environ").read_text(errors="replace"):
                found.append(int(folder.name))
    return found


def ranks_of(mark):
    """{rank: pid} of the processes that were launched with INGOT_TEST_LAUNCH=MARK."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if f"INGOT_TEST_LAUNCH={mark}\0" not in (folder / "environ").read_text(errors="replace"):
                continue
            if not (folder / "exe").readlink().name == support.BINARY.name:
                continue
            variables = dict(pair.split("=", 1) for pair in (folder / "environ").read_text().split("\0") if "=" in pair)
        except OSError:
            continue
        names = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
        rank = next((variables[name] for name in names if name in variables), None)
        if rank is not None:
            found[int(rank)] = int(folder.name)
    return found


class Launcher(typing.NamedTuple):
    kind: str
    command: str
    wrapper: str     # its compiler
    options: tuple   # before those of any run
    lets_live: tuple  # what keeps it from ending all at once with the first
    segments: tuple  # how its files of shared memory are called


OPEN_MPI = Launcher("openmpi", "mpirun.openmpi", "mpic++.openmpi", ("--allow-run-as-root", "--oversubscribe"), (), ("vader",))
MPICH = Launcher("mpich", "mpirun.mpich", "mpicxx.mpich", (), ("-disable-auto-cleanup",), ("mpich", "ucx"))


def ended(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


def ask(connection, tokens, key="", prompt="Once upon"):
    """The response, a stream of `tokens` tokens."""
    body = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True}
    headers = {"content-type": "application/json", **({"authorization": f"Bearer {key}"} if key else {})}
    connection.request("POST", "/v1/completions", json.dumps(body), headers)
    return connection.getresponse()


class Listener(threading.Thread):
    """Reads a long answer to its end: `seen` of it, `told` when it ended. `first` is set with its first bytes."""

    def __init__(self, connection, key="", prompt="Once upon"):
        super().__init__()
        self.connection, self.key, self.prompt = connection, key, prompt
        self.first, self.seen, self.told = threading.Event(), b"", 0
        self.start()

    def run(self):
        try:
            response = ask(self.connection, 480, self.key, self.prompt)
            while piece := response.read1(65536):
                self.seen += piece
                self.first.set()
        except (OSError, http.client.HTTPException):
            pass
        self.told = time.monotonic()


def make_model(path):
    """A model that loads for long enough to be lost meanwhile, and reads a prompt for some seconds. It has no words."""
    support.run("bench", "--shape", "smollm2-135m", "--format", "q4_0", "--prompt", "1", "--gen", "1", "--save", path, timeout=300)
    return path


def maps(pid, path):
    with contextlib.suppress(OSError):
        return str(path) in pathlib.Path(f"/proc/{pid}/maps").read_text()
    return False


def listens(pid):
    """The ports at which a process listens."""
    sockets = set()
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            sockets.update(re.findall(r"^socket:\[(\d+)\]$", os.readlink(entry)))
    rows = [line.split() for table in ("tcp", "tcp6")
            for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]]
    return sorted(int(row[1].rsplit(":", 1)[1], 16) for row in rows if row[3] == "0A" and row[9] in sockets)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Served:
    """`mpirun -n 2 ingot serve MODEL`."""

    def __init__(self, launcher, model, mark, options=(), words=(), env=None):
        self.launcher, self.model, self.mark, self.port = launcher, model, mark, free_port()
        self.shared_before = set(os.listdir("/dev/shm"))
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [launcher.command, *launcher.options, *options, "-n", "2", str(support.BINARY), "serve", str(model), "--port",
             str(self.port), "--log", "off", *words], stdout=subprocess.PIPE, stderr=self.errors, stdin=subprocess.DEVNULL,
            text=True, env={**os.environ, "INGOT_TEST_LAUNCH": mark, **(env or {})})
        self.pids = {}

    def find(self, ranks=2):
        """{rank: pid} once all have begun."""
        end = time.monotonic() + 60
        while len(self.pids) < ranks and time.monotonic() < end:
            self.pids = ranks_of(self.mark)
        assert sorted(self.pids) == list(range(ranks)), self.pids
        return self.pids

    def await_load(self, rank):
        """Until that rank has mapped the model."""
        pid, end = self.find()[rank], time.monotonic() + 60
        while not maps(pid, self.model) and time.monotonic() < end:
            time.sleep(0.002)
        assert maps(pid, self.model), "the model was not mapped"

    def await_ready(self):
        line = self.process.stdout.readline()
        assert line.rstrip().endswith(f":{self.port}"), line
        self.find()

    def connection(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def await_end(self, seconds):
        """Whether all ranks have gone by then."""
        end = time.monotonic() + seconds
        while not all(map(ended, self.pids.values())):
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True

    def lines(self):
        """What the ranks have said of their end."""
        self.errors.seek(0)
        return [line for line in self.errors if line.startswith("ingot: ")]

    def leftovers(self):
        """What is there that was not before: files of shared memory, a port that cannot be bound."""
        names = set(os.listdir("/dev/shm")) - self.shared_before
        left = [f"/dev/shm/{name}" for name in names if any(part in name.lower() for part in self.launcher.segments)]
        left = [path for path in left if not any(maps(pid, path) for pid in os.listdir("/proc") if pid.isdigit())]
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", self.port))
            except OSError as error:
                left.append(f"port {self.port}: {error}")
        return left

    def close(self):
        """Ranks end with their launcher, and remove what they share."""
        self.process.kill()
        self.process.wait()
        self.await_end(5)
        for process in filter(lambda pid: not ended(pid), self.pids.values()):
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        self.process.stdout.close()
        self.errors.close()


class Loss(typing.NamedTuple):
    told: float       # seconds until the client's answer ended; 0 without a client
    gone: float       # until all ranks had gone; more than a minute: they had not
    status: int       # the launcher's
    seen: bytes       # of the answer
    lines: list       # of the ranks
    left: list        # Served.leftovers()


def lose(launcher, model, mark, number, rank, phase, words=(), env=None):
    """Sends a signal to one of two ranks, or to their launcher (rank None), while they load ("init"), read a prompt
    ("prefill"), answer ("decode"), or do nothing ("idle"). `model`: make_model's, but to decode."""
    # A launcher that ends all ranks at once with the first leaves rank 0 no time to say who it was.
    options = launcher.lets_live if number == signal.SIGKILL and rank is not None else ()
    with contextlib.closing(Served(launcher, model, mark, options, words, env)) as served:
        listener = None
        if phase == "init":
            served.await_load(rank)
        else:
            served.await_ready()
            # The first step reads the weights, and is waited for longer.
            ids = list(range(5, 9))
            with contextlib.closing(served.connection()) as first:
                ask(first, 5, prompt=ids).read()
            if phase != "idle":
                listener = Listener(served.connection(), prompt=list(range(5, 4005)) if phase == "prefill" else ids)
            if phase == "decode":
                assert listener.first.wait(60)
            if phase == "prefill":
                time.sleep(0.15)
                assert not listener.first.is_set(), "the prompt was read too soon"
        began = time.monotonic()
        os.kill(served.process.pid if rank is None else served.pids[rank], number)
        served.await_end(61)
        gone = time.monotonic() - began
        if listener:
            listener.join(60)
            listener.connection.close()
        status = served.process.wait(60)
        return Loss(listener.told - began if listener else 0, gone, status, listener.seen if listener else b"",
                    served.lines(), served.leftovers())


def faults(loss):
    """What of the promise was not kept."""
    found = []
    if loss.told > TOLD_SECONDS:
        found.append(f"the client was told after {loss.told:.1f} s")
    if loss.gone > GONE_SECONDS:
        found.append(f"gone after {loss.gone:.1f} s")
    if loss.status == 0:
        found.append("status 0")
    if b"[DONE]" in loss.seen:
        found.append("an answer that has an end")
    if len(loss.lines) > 1:
        found.append(f"{len(loss.lines)} lines: {loss.lines}")
    return found + [f"left: {name}" for name in loss.left]
