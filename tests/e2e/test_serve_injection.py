"""Cancels at every moment, memory that runs out and calls that fail.

The short form runs here; INGOT_LONG=1 takes 5,000 cancels and every allocation and call.
"""
import concurrent.futures
import http.client
import json
import os
import pathlib
import random
import socket
import tempfile
import threading
import time

import injecting
import models
import serving
import support

ALONE = "waits for moments of a load"  # not beside other modules: tools/run_tests.py

LONG = bool(os.environ.get("INGOT_LONG"))
PROMPT = "once upon a time there was a little model that told stories"
WAIT_SECONDS = 60


def engine_state(server):
    return server.get("/v1/engine").json()


def wait_until_idle(case, server):
    """Until nothing runs or waits and no page is in use but for the cache's."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        state = engine_state(server)
        used = state["pages"] - state["free_pages"] - state["cached_pages"]
        if state["running"] == state["waiting"] == state["in_flight"] == used == 0:
            return
        case.assertLess(time.monotonic(), deadline, state)
        time.sleep(0.02)


class Cancels(serving.ToyCase):
    CANCELS = 5000 if LONG else 240
    ARGS = ("--parallel", "3")

    def body(self, which, stream, n=60):
        fields = {"prompt": f"{PROMPT} {which}" * 3, "max_tokens": n, "temperature": 0, "ignore_eos": True}
        return json.dumps({**fields, "stream": stream})

    def leave(self, seed):
        """Asks, reads some of the answer or none, and goes."""
        chance = random.Random(seed)
        with socket.create_connection((self.server.host, self.server.port), timeout=WAIT_SECONDS) as connection:
            stream = chance.random() < 0.7
            body = self.body(seed % 7, stream)
            head = f"POST /v1/completions HTTP/1.1\r\nhost: {self.server.host}\r\ncontent-length: {len(body)}\r\n\r\n"
            data = (head + body).encode()
            # Some go in the middle of the request, some at once, some after the first or the last token.
            end = chance.choice((chance.randrange(len(data)), len(data), len(data), len(data)))
            connection.sendall(data[:end])
            if end < len(data):
                return
            want = chance.choice((0, 0, 1, 500, 2000, 10**9))
            if chance.random() < 0.3:
                time.sleep(chance.random() * 0.02)
            got = 0
            while stream and got < want:
                piece = connection.recv(min(want - got, 4096))
                if not piece or b"[DONE]" in piece:
                    return
                got += len(piece)

    def test_cancels_leave_nothing_behind_and_neighbours_are_equal(self):
        golden = [self.server.post("/v1/completions", self.body(i, False)).json()["choices"] for i in range(7)]

        def neighbour(i):
            return self.server.post("/v1/completions", self.body(i % 7, False)).json()["choices"] == golden[i % 7]

        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            leaving = [pool.submit(self.leave, seed) for seed in range(self.CANCELS)]
            staying = [pool.submit(neighbour, i) for i in range(self.CANCELS // 12)]
            for done in leaving:
                done.result()
            self.assertTrue(all(done.result() for done in staying))
        wait_until_idle(self, self.server)
        self.assertTrue(neighbour(0))
        self.assert_alive()


class FaultCase(support.TestCase):
    """A server with faults. The golden answer must be the same after each of them."""

    @classmethod
    def setUpClass(cls):
        cls.injector = injecting.Injector()
        cls.addClassCleanup(cls.injector.close)
        cls.injector.check()
        folder = tempfile.TemporaryDirectory(prefix="ingot-e2e-")
        cls.addClassCleanup(folder.cleanup)
        cls.model = models.make_tiny(pathlib.Path(folder.name) / "tiny")

    def serve(self):
        self.injector.reset()
        server = serving.Server(self.model, env=self.injector.env)
        self.addCleanup(server.close)
        return server

    def requests(self):
        chat = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 4, "temperature": 0, "logprobs": True}
        text = {"prompt": PROMPT, "max_tokens": 4, "temperature": 0, "n": 2, "stream": True}
        return [("/v1/chat/completions", json.dumps(chat)), ("/v1/completions", json.dumps(text)),
                ("/v1/embeddings", json.dumps({"input": ["a", "b"]}))]

    def try_request(self, server, path, body):
        """The answer's status; None where the connection ended without one."""
        try:
            return server.post(path, body, timeout=WAIT_SECONDS).status
        except (http.client.HTTPException, ConnectionError):
            return None

    def golden(self, server):
        path, body = self.requests()[0]
        choice = self.answered(server, path, body)["choices"][0]
        return choice["message"]["content"], choice["logprobs"]["content"]

    def answered(self, server, path, body):
        answer = server.post(path, body)
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json()

    def assert_serves(self, server, golden, what):
        self.assertTrue(server.alive(), f"{what}: ended with {server.process.poll()}: {server.errors()[-2000:]}"
                        if not server.alive() else "")
        self.assertEqual(self.golden(server), golden, what)

    def assert_load_error(self, process, what):
        """Ended by itself, with the status of a bad file or of memory that is missing, and a line that says so."""
        try:
            _, errors = process.communicate(timeout=WAIT_SECONDS)
        except Exception:
            process.kill()
            process.communicate()
            raise
        self.assertEqual(process.returncode, 1, f"{what}: {errors[-500:]}")
        self.assertIn("ingot: ", errors, what)

    def load_with(self, what):
        """Starts the server with a fault that is armed already: it must end with an error or become ready."""
        process = support.start("serve", self.model, "--port", "0", env=self.injector.env)
        late = threading.Timer(WAIT_SECONDS, process.kill)
        late.start()
        ready = process.stdout.readline()
        late.cancel()
        if ready:
            self.injector.calm()
            process.terminate()
            process.communicate(timeout=WAIT_SECONDS)
            self.assertIn(process.returncode, (0, 1), what)
        else:
            self.assert_load_error(process, what)
        process.stdout.close()
        process.stderr.close()
        return bool(ready)


class Memory(FaultCase):
    def test_an_allocation_fails_while_loading(self):
        with self.serve() as server:
            total = self.injector.get("allocations")
            server.stop()
        step = 1 if LONG else max(1, total // 25)
        failed = 0
        for n in range(1, min(total, 5000) if LONG else total, step):
            self.injector.reset()
            self.injector.fail_allocation(n)
            failed += not self.load_with(f"allocation {n} of {total}")
        self.assertGreater(failed, 0)

    def test_an_allocation_fails_in_a_request(self):
        server = self.serve()
        golden = self.golden(server)
        counts = []
        for path, body in self.requests():
            before = self.injector.get("allocations")
            self.assertEqual(self.try_request(server, path, body), 200)
            counts.append(self.injector.get("allocations") - before)
        before = self.injector.get("allocations_failed")
        for (path, body), count in zip(self.requests(), counts):
            for n in range(1, min(count, 5000), 1 if LONG else max(1, count // 60)):
                for times in (1, 40):
                    what = f"{path}: {times} from allocation {n} of {count}"
                    self.injector.fail_allocation(n, times)
                    status = self.try_request(server, path, body)
                    self.injector.calm()
                    self.assertIn(status, (200, 500, 503, None), what)
                    self.assertTrue(server.alive(), what)
            self.assert_serves(server, golden, path)
        self.assertGreater(self.injector.get("allocations_failed"), before + 20)
        wait_until_idle(self, server)
        self.assertEqual(server.stop(), 0)


class Calls(FaultCase):
    KINDS = {"EIO": injecting.EIO, "EINTR": injecting.EINTR, "ENOSPC": injecting.ENOSPC, "short": injecting.SHORT}

    def test_a_call_fails_while_loading(self):
        with self.serve() as server:
            total = self.injector.get("calls")
            server.stop()
        for name, kind in self.KINDS.items():
            for n in range(1, total + 1, 1 if LONG else max(1, total // 6)):
                self.injector.reset()
                self.injector.fail_call(n, kind)
                ready = self.load_with(f"{name} at call {n} of {total}")
                if name in ("EINTR", "short"):
                    self.assertTrue(ready, f"{name} at call {n} of {total} is no reason to end")

    def test_a_call_fails_in_a_request(self):
        server = self.serve()
        golden = self.golden(server)
        before = self.injector.get("calls_failed")
        for name, kind in self.KINDS.items():
            for path, body in self.requests():
                for n in range(1, 400 if LONG else 16):
                    self.injector.fail_call(n, kind)
                    status = self.try_request(server, path, body)
                    self.injector.calm()
                    allowed = (200,) if name in ("EINTR", "short") else (200, 500, 503, None)
                    self.assertIn(status, allowed, f"{path}: {name} at call {n}")
                    self.assertTrue(server.alive(), f"{path}: {name} at call {n}")
            self.assert_serves(server, golden, name)
        self.assertGreater(self.injector.get("calls_failed"), before + 20)
        wait_until_idle(self, server)
        self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    import unittest

    unittest.main()
