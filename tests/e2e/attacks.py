"""Attacks on a server, for tests and tools: the clients of attack_clients.py in processes of their own, and what is
looked at while they are at it."""
import collections
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

MIB = 1 << 20
CLIENTS = pathlib.Path(__file__).with_name("attack_clients.py")


class Attackers:
    """One attack in a process of its own, at the lowest priority of the CPU once it is in place: what is measured is what
    the server spends, not what the attacker does. A context manager. `answers` has what its clients were told, once it has ended."""

    def __init__(self, name, host, port, count=0, key="", address="", wait=True, **fields):
        command = [sys.executable, str(CLIENTS), name, host, str(port), "--count", str(count), "--key", key,
                   "--address", address]
        for field, value in fields.items():
            command += ["--field", f"{field}={json.dumps(value)}"]
        self.name, self.answers = name, {}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if wait:
            self.wait()

    def wait(self):
        """Until all its clients are in place."""
        line = self.process.stdout.readline()
        if line.strip() != "ready":
            raise AssertionError(f"the attack {self.name} could not begin: {line!r}")

    def so_far(self):
        """What its clients were answered until now."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def stop(self):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            line = self.process.stdout.readline()
            line = self.process.stdout.readline() if line.strip() == "ready" else line
            self.answers = json.loads(line or "{}")
            self.process.wait(30)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
        return self.answers

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.returncode is None:
            self.stop()


class Watch:
    """A thread that asks /health again and again and looks at the server's resident memory. Context manager."""

    def __init__(self, server, every=0.1):
        self.server, self.every = server, every
        self.statuses, self.longest, self.peak = collections.Counter(), 0, server.memory()
        self.before = self.peak
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while True:
            begun = time.monotonic()
            try:
                status = self.server.get("/health", timeout=30).status
            except OSError as error:
                status = type(error).__name__
            self.statuses[status] += 1
            self.longest = max(self.longest, time.monotonic() - begun)
            self.peak = max(self.peak, self.server.memory())
            if self.ended.wait(self.every):
                return

    def grown(self):
        return self.peak - self.before

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join(60)


class Streamed:
    """A stream as it came: its status, when each piece came, and whether it ended as streams do."""

    def __init__(self, server, key="", path="/v1/completions", timeout=120, **fields):
        body = {"prompt": "once upon", "stream": True, "max_tokens": 64, "ignore_eos": True, "seed": 1, **fields}
        headers = {"content-type": "application/json", **({"authorization": f"Bearer {key}"} if key else {})}
        self.times, self.whole = [], False
        self.begun = time.monotonic()
        connection = server.connect(timeout)
        try:
            connection.request("POST", path, json.dumps(body), headers)
            response = connection.getresponse()
            self.status = response.status
            for line in response:
                if line.startswith(b"data: [DONE]"):
                    self.whole = True
                elif line.startswith(b"data: "):
                    self.times.append(time.monotonic())
        finally:
            connection.close()

    def longest_gap(self):
        return max((b - a for a, b in zip(self.times, self.times[1:])), default=0)

    def first(self):
        return self.times[0] - self.begun if self.times else None
