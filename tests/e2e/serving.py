"""`ingot serve` for the tests: started on a free port, asked over HTTP, stopped at the end."""
import functools
import http.client
import json
import os
import pathlib
import queue
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse

import models
import support

# Generous: machines that are shared, and builds with sanitizers.
START_SECONDS = 120
ANSWER_SECONDS = 120


# What no refusal may tell: addresses in memory, paths of the machine, names of the source, what a runtime says.
INSIDE = re.compile(
    rb"0x[0-9a-f]{6,}|/(?:work|home|root|tmp|usr|proc|src|var|nonexistent)/|[.](?:cpp|cu|h|so)\b|terminate called|"
    rb"what\(\)|std::|boost::|ingot::|Traceback|\bat line \d+ of\b|ingot-e2e-")


# For any request that is refused as wrong, on the slowest machine: some once took a worker for a minute.
REFUSAL_SECONDS = 30


def error_events(body):
    """The events of a stream, of any API, that tell of an error."""
    if b'"error"' not in body:
        return []
    found = []
    for line in body.splitlines():
        if b'"error"' not in line:
            continue
        try:
            event = json.loads(line.removeprefix(b"data: "))
        except ValueError:
            continue
        if isinstance(event, dict):
            response = event.get("response")
            inside = response.get("error") if isinstance(response, dict) else None
            if event.get("error") or event.get("type") == "error" or inside:
                found.append(line)
    return found


def check_refusal(status, body, seconds=0):
    """Every refusal that any test gets is searched, an error in a stream too; those of wrong requests have a time
    limit."""
    if 400 <= status < 500 and seconds > REFUSAL_SECONDS:
        raise AssertionError(f"an answer with {status} came after {seconds:.1f} s: {body[:500]}")
    for told in [body] if status >= 400 else error_events(body):
        if found := INSIDE.search(told):
            raise AssertionError(f"an answer with {status} tells {found[0]}: {told[:500]}")


def make_certificate(folder):
    """PEM files (certificate, key) of localhost, which anybody may read, and a context that trusts it."""
    program = shutil.which("openssl")
    if program is None:
        raise unittest.SkipTest("openssl is not installed: no certificate can be made")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run([program, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    os.chmod(key, 0o644)
    trusting = ssl.create_default_context(cafile=str(cert))
    trusting.check_hostname = False
    return cert, key, trusting


class Answer:
    """What came back: status, headers (lower case) and body."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)

    def events(self):
        """The data of each event of a stream, parsed; "[DONE]" as text."""
        found = []
        for block in self.body.decode().split("\n\n"):
            for line in block.split("\n"):
                if line.startswith("data: "):
                    data = line[6:]
                    found.append(data if data == "[DONE]" else json.loads(data))
        return found


class WrittenFile:
    """What another process writes, read meanwhile. Both have one offset: reading must not move it, or what is written
    then lands on what was."""

    def __init__(self):
        self.file = tempfile.TemporaryFile()

    def fileno(self):
        return self.file.fileno()

    def text(self):
        return os.pread(self.fileno(), os.fstat(self.fileno()).st_size, 0).decode()

    def close(self):
        self.file.close()


def opened_to_nobody(model, args, env):
    """What a server is put behind, so that it runs as somebody who may do nothing: where the tests run as root, and its
    model is a temporary one. The folders of what it reads and writes there are then anybody's. A library that is loaded
    before it counts what it does, and not another program's beside it."""
    folder = tempfile.gettempdir() + "/"
    # A checkout may lie there, too: its folders stay as they are.
    if not str(model).startswith(folder) or str(model).startswith(f"{support.ROOT}/") or "LD_PRELOAD" in (env or {}):
        return ()
    before, _ = support.nobody()
    for path in filter(lambda arg: before and str(arg).startswith(folder), (model, *args)):
        for parent in pathlib.Path(path).parents:
            if not str(parent).startswith(folder):
                break
            os.chmod(parent, 0o777)
    return before


# Ends with 0 where the kernel takes a filter of system calls, here one that allows all, and, with a GPU, has Landlock.
PROBE_SANDBOX = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
if os.path.exists("/dev/nvidiactl") and libc.syscall(444, None, ctypes.c_ulong(0), 1) < 1:  # landlock_create_ruleset
    raise SystemExit(1)
class Rule(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8), ("value", ctypes.c_uint32)]
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("rules", ctypes.POINTER(Rule))]
allow = Rule(0x06, 0, 0, 0x7fff0000)  # return SECCOMP_RET_ALLOW
words = [ctypes.c_ulong(n) for n in (38, 1, 0, 0, 0)]  # PR_SET_NO_NEW_PRIVS
if libc.prctl(*words) != 0:
    raise SystemExit(1)
program = Program(1, ctypes.pointer(allow))
raise SystemExit(libc.prctl(22, ctypes.c_ulong(2), ctypes.byref(program)) != 0)  # PR_SET_SECCOMP, of filters
"""


@functools.cache
def has_sandbox():
    """Whether a server must have its sandbox here, whatever it says itself: the kernel has what it needs, and the build
    is not one with a sanitizer, which needs more."""
    build = support.BINARY.read_bytes()
    if b"__asan_init" in build or b"__tsan_init" in build:
        return False
    return subprocess.run([sys.executable, "-c", PROBE_SANDBOX], capture_output=True, timeout=60).returncode == 0


class Server:
    """A context manager. `model` is a path; further arguments are those of the command. It runs as nobody where that can
    be, and in the sandbox wherever there can be one, but for `--no-sandbox` and with a library before it, which may
    want other system calls."""

    def __init__(self, model, *args, env=None, **popen):
        self.log = WrittenFile()
        popen.setdefault("before", opened_to_nobody(model, args, env))
        sandboxed = "--no-sandbox" not in map(str, args) and "LD_PRELOAD" not in (env or {}) and has_sandbox()
        if sandboxed and "--require-sandbox" not in map(str, args):
            args = (*args, "--require-sandbox")
        self.process = support.start("serve", model, "--port", "0", *args, env=env, **{"stderr": self.log, **popen})
        self.lines = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.url = self._wait_until_ready()
        parts = urllib.parse.urlsplit(self.url)
        self.host, self.port = parts.hostname, parts.port
        if sandboxed:
            self.check_sandbox()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def _wait_until_ready(self):
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                line = self.lines.get(timeout=max(0.1, deadline - time.monotonic()))
            except queue.Empty:
                self.stop()
                raise AssertionError(f"not ready after {START_SECONDS} s: {self.errors()}") from None
            if line is None:
                self.process.wait()
                raise AssertionError(f"ended with {self.process.returncode} before it was ready: {self.errors()}")
            if "listening on " in line:
                return line.split("listening on ", 1)[1].strip()

    def check_sandbox(self):
        told = support.status_of(self.pid)
        if told["Seccomp"] != "2" or told["NoNewPrivs"] != "1":
            self.close()
            raise AssertionError("the server is not in its sandbox")

    def errors(self):
        """What it wrote to stderr."""
        return self.log.text()

    @property
    def pid(self):
        return self.process.pid

    def alive(self):
        return self.process.poll() is None

    def memory(self):
        """Resident bytes."""
        with open(f"/proc/{self.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def peak_memory(self):
        """The most resident bytes that it ever had: also of what was given back before anybody looked."""
        with open(f"/proc/{self.pid}/status") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM:"))

    def connect(self, timeout=ANSWER_SECONDS):
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)

    def request(self, method, path, body=None, headers=None, timeout=ANSWER_SECONDS):
        """One request on a connection of its own. A body that is no bytes or text is sent as JSON."""
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        connection = self.connect(timeout)
        began = time.monotonic()
        try:
            connection.request(method, path, body, {"content-type": "application/json", **(headers or {})})
            response = connection.getresponse()
            answer = Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
            check_refusal(answer.status, answer.body, time.monotonic() - began)
            return answer
        finally:
            connection.close()

    def get(self, path, **more):
        return self.request("GET", path, **more)

    def post(self, path, body, **more):
        return self.request("POST", path, body, **more)

    def stop(self, sign=signal.SIGTERM, timeout=ANSWER_SECONDS):
        """Asks it to end and returns its status; kills what does not end."""
        if self.alive():
            self.process.send_signal(sign)
        try:
            return self.process.wait(timeout)
        except Exception:
            self.process.kill()
            self.process.wait()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.alive():
            self.process.kill()
        self.process.wait()
        self.reader.join(10)
        self.process.stdout.close()
        self.log.close()


class ToyCase(support.TestCase):
    """A server on the tiny model, one for all tests of the class. `ARGS` are its options."""

    ARGS = ()
    CONFIG = {}
    server = None

    @classmethod
    def setUpClass(cls):
        if not support.BINARY.exists():
            raise unittest.SkipTest(f"{support.BINARY.name} is not built (INGOT_BIN)")
        cls.directory = tempfile.TemporaryDirectory(prefix="ingot-e2e-")
        cls.addClassCleanup(cls.directory.cleanup)
        cls.model = cls.make_model(pathlib.Path(cls.directory.name) / "tiny")
        cls.server = Server(cls.model, *cls.ARGS)
        cls.addClassCleanup(cls.server.close)

    @classmethod
    def make_model(cls, path):
        return models.make_tiny(path, **cls.CONFIG)

    def post(self, path, body, status=200, **more):
        """A JSON answer with this status."""
        answer = self.server.post(path, body, **more)
        self.assertEqual(answer.status, status, answer.body[:2000])
        return answer.json()

    def chat(self, status=200, content="hello", **fields):
        body = {"messages": [{"role": "user", "content": content}], "max_tokens": 16, "seed": 1, **fields}
        return self.post("/v1/chat/completions", body, status)

    def complete(self, status=200, prompt="once upon", **fields):
        return self.post("/v1/completions", {"prompt": prompt, "seed": 1, **fields}, status)

    def assert_alive(self):
        self.assertTrue(self.server.alive(), self.server.errors() if not self.server.alive() else "")
