"""Tenants: limits and rights of each key, the file read again on SIGHUP, isolation of caches, deadlines."""
import concurrent.futures
import json
import os
import pathlib
import pty
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import models
import serving
import support
from test_serve_bad_requests import find_tables

ROUTES = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1},
    "/v1/completions": {"prompt": "a", "max_tokens": 1},
    "/v1/responses": {"input": "a", "max_output_tokens": 1},
    "/v1/messages": {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1},
    "/v1/messages/count_tokens": {"messages": [{"role": "user", "content": "a"}]},
    "/v1/embeddings": {"input": "a"},
    "/api/chat": {"messages": [{"role": "user", "content": "a"}], "options": {"num_predict": 1}},
    "/api/generate": {"prompt": "a", "options": {"num_predict": 1}},
    "/api/embed": {"input": "a"},
    "/api/embeddings": {"prompt": "a"},
    "/api/show": {},
    "/tokenize": {"text": "a"},
    "/detokenize": {"tokens": [70]},
}


def bearer(key):
    return {"authorization": f"Bearer {key}"}


def key_of(name):
    return f"key-of-{name}-0001"


class KeyFile:
    """A key file in a folder of its own, replaced as a whole."""

    def __init__(self, case, *lines):
        self.path = pathlib.Path(case.enterContext(tempfile.TemporaryDirectory(prefix="ingot-e2e-keys-"))) / "keys"
        self.write(*lines)

    def write(self, *lines):
        """Lines of "NAME settings": the key of a name is key_of(name)."""
        text = ""
        for line in lines:
            name, _, settings = line.partition(" ")
            text += f"{name} {key_of(name)} {settings}\n"
        new = self.path.with_suffix(".new")
        new.write_text(text)
        os.replace(new, self.path)


class Tenants(support.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="ingot-e2e-")
        cls.addClassCleanup(folder.cleanup)
        cls.model = models.make_tiny(pathlib.Path(folder.name) / "tiny", max_position_embeddings=16384)

    def enterContext(self, context):  # of Python 3.11 on
        value = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return value

    def serve(self, file, *args, **more):
        return self.enterContext(serving.Server(self.model, "--api-key-file", file.path, *args, **more))

    def until(self, condition, what):
        deadline = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.02)

    def test_limits_are_told_on_every_route_that_computes(self):
        names = [f"t{i}" for i in range(len(ROUTES))]
        file = KeyFile(self, *(f"{name} rpm=1 tpm=100000" for name in names))
        server = self.serve(file)
        limits = server.get("/v1/limits", headers=bearer(key_of(names[0]))).json()
        self.assertEqual(set(ROUTES), set(find_tables(limits)), "each route that takes a body has one here")
        for name, (path, body) in zip(names, ROUTES.items()):
            first = server.post(path, body, headers=bearer(key_of(name)))
            self.assertEqual(first.status, 200, path)
            self.assertEqual(first.headers["x-ratelimit-limit-requests"], "1", path)
            self.assertEqual(first.headers["x-ratelimit-remaining-requests"], "0", path)
            self.assertEqual(first.headers["x-ratelimit-limit-tokens"], "100000", path)
            self.assertRegex(first.headers["x-ratelimit-reset-requests"], r"^(\d+m)?\d+s$")
            refused = server.post(path, body, headers=bearer(key_of(name)))
            self.assertEqual(refused.status, 429, path)
            self.assertTrue(1 <= int(refused.headers["retry-after"]) <= 60, refused.headers)
            self.assertEqual(refused.headers["x-ratelimit-remaining-requests"], "0", path)
            if not path.startswith("/api/"):  # whose errors are a sentence
                self.assertIn("rate_limit", refused.body.decode(), path)
            # Looking costs nothing.
            self.assertEqual(server.get("/v1/models", headers=bearer(key_of(name))).status, 200)

    def test_tokens_count_as_they_are_made(self):
        server = self.serve(KeyFile(self, "a tpm=200"))
        connection = server.connect()
        self.addCleanup(connection.close)
        body = {"prompt": "a", "max_tokens": 10000, "ignore_eos": True, "stream": True}
        connection.request("POST", "/v1/completions", json.dumps(body), bearer(key_of("a")))
        text = b""
        response = connection.getresponse()
        while text.count(b"data: ") < 300:
            text += response.read1(4096)
        self.assertNotIn(b"[DONE]", text)
        # Not when the answer ends: else many at once would each have the whole minute.
        refused = server.post("/tokenize", {"text": "a"}, headers=bearer(key_of("a")))
        self.assertEqual(refused.status, 429)
        self.assertEqual(refused.headers["x-ratelimit-remaining-tokens"], "0")

    def test_routes_models_and_context_of_a_key(self):
        file = KeyFile(self, "narrow routes=/v1/completions,/v1/models context=64", "other models=another/model", "all")
        server = self.serve(file)
        narrow = bearer(key_of("narrow"))
        for path, body in ROUTES.items():
            expected = 200 if path == "/v1/completions" else 403
            self.assertEqual(server.post(path, body, headers=narrow).status, expected, path)
            self.assertEqual(server.post(path, body, headers=bearer(key_of("other"))).status, 404, path)
            self.assertEqual(server.post(path, body, headers=bearer(key_of("all"))).status, 200, path)
        self.assertEqual(server.get("/metrics", headers=narrow).status, 403)
        self.assertEqual(server.get("/health", headers=narrow).status, 200)
        self.assertEqual(server.get("/v1/models", headers=bearer(key_of("other"))).json()["data"], [])
        body = {"prompt": "a" * 60, "max_tokens": 100, "ignore_eos": True}
        answer = server.post("/v1/completions", body, headers=narrow).json()
        self.assertEqual(answer["usage"]["total_tokens"], 64)
        refused = server.post("/v1/completions", {"prompt": "a" * 64}, headers=narrow)
        self.assertEqual((refused.status, refused.json()["error"]["code"]), (400, "context_length_exceeded"))

    def test_no_tenant_finds_anothers_prompt_in_the_cache(self):
        server = self.serve(KeyFile(self, "alice", "bob"))

        def rows():
            """Computed so far: what is found in the cache is not."""
            lines = server.get("/metrics", headers=bearer(key_of("alice"))).body.decode().splitlines()
            return next(int(line.split()[1]) for line in lines if line.startswith("ingot_rows_total "))

        def computed(name, path, body):
            before = rows()
            self.assertEqual(server.post(path, body, headers=bearer(key_of(name))).status, 200)
            self.until(lambda: rows() > before, "its step is not counted")
            return rows() - before

        text = "a secret of two hundred letters " * 6
        for path, body in {
            "/v1/chat/completions": {"messages": [{"role": "user", "content": text}], "max_tokens": 1},
            "/v1/completions": {"prompt": "1" + text, "max_tokens": 1},
            "/v1/messages": {"messages": [{"role": "user", "content": "2" + text}], "max_tokens": 1},
            "/v1/responses": {"input": "4" + text, "max_output_tokens": 1},
            "/v1/embeddings": {"input": "3" + text, "pooling": "last"},
        }.items():
            whole = computed("alice", path, body)
            self.assertGreaterEqual(whole, len(text), path)
            self.assertEqual(computed("bob", path, body), whole, f"{path}: found what was not its own")
            self.assertLess(computed("alice", path, body), whole / 2, f"{path}: does not find its own")
            self.assertLess(computed("bob", path, body), whole / 2, f"{path}: does not find its own")

    def test_sighup_reads_the_file_and_a_wrong_one_changes_nothing(self):
        file = KeyFile(self, "alice")
        server = self.serve(file)

        def hup_until(text):
            count = server.errors().count(text)
            server.process.send_signal(signal.SIGHUP)
            self.until(lambda: server.errors().count(text) > count, text)

        # Though nothing has changed: whoever sends it wants to see that it was read.
        hup_until("the key file was read again")
        file.path.write_text("alice\n")
        hup_until("the old keys stay")
        self.assertEqual(server.get("/v1/models", headers=bearer(key_of("alice"))).status, 200)
        file.write("bob")
        hup_until("the key file was read again")
        self.assertEqual(server.get("/v1/models", headers=bearer(key_of("bob"))).status, 200)
        self.assertEqual(server.get("/v1/models", headers=bearer(key_of("alice"))).status, 401)
        self.assertEqual(server.stop(), 0)

    def test_sighup_of_a_terminal_ends_it(self):
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        # Whoever runs the tests may ignore it (nohup), and so would the server.
        was = signal.signal(signal.SIGHUP, signal.SIG_DFL)
        self.addCleanup(signal.signal, signal.SIGHUP, was)
        server = self.serve(KeyFile(self, "alice"), stdin=theirs)
        os.close(theirs)
        self.assertEqual(server.stop(signal.SIGHUP), -signal.SIGHUP)

    def test_a_removed_key_ends_what_waits_and_not_what_runs(self):
        file = KeyFile(self, "alice", "bob")
        server = self.serve(file, "--parallel", "1")
        body = {"prompt": "a", "max_tokens": 10000, "ignore_eos": True}

        def ask(name, **more):
            return server.post("/v1/completions", {**body, **more}, headers=bearer(key_of(name)))

        def engine():
            return server.get("/v1/engine", headers=bearer(key_of("bob"))).json()

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            running = pool.submit(ask, "alice")
            self.until(lambda: engine()["tokens"] > 0, "it does not run")
            waits = pool.submit(ask, "alice")
            self.until(lambda: engine()["waiting"] == 1, "it does not wait")
            file.write("bob")
            server.process.send_signal(signal.SIGHUP)
            refused = waits.result()
            self.assertEqual((refused.status, refused.json()["error"]["code"]), (401, "invalid_api_key"))
            self.assertFalse(running.done())
            self.assertEqual(ask("bob", max_tokens=4).status, 200)
            self.assertEqual(running.result().json()["usage"]["completion_tokens"], 10000)


class Written(unittest.TestCase):
    def test_a_log_that_is_read_while_it_is_written_loses_nothing(self):
        """All that waits for a line of the server's log stands on it."""
        lines = 3000
        log = serving.WrittenFile()
        self.addCleanup(log.close)
        writer = subprocess.Popen([sys.executable, "-c", f"""
import os
for i in range({lines}): os.write(2, b"line %d\\n" % i)"""], stderr=log)
        while writer.poll() is None:
            log.text()
        self.assertEqual(log.text(), "".join(f"line {i}\n" for i in range(lines)))


class Deadlines(support.TestCase):
    """Answers that would take many seconds, and end after one."""

    LONG = {"max_tokens": 200000, "ignore_eos": True}

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="ingot-e2e-")
        cls.addClassCleanup(folder.cleanup)
        model = models.make_tiny(pathlib.Path(folder.name) / "tiny", max_position_embeddings=1 << 18)
        cls.server = serving.Server(model, "--request-timeout", "2", "--parallel", "1", "--kv-memory", "256M")
        cls.addClassCleanup(cls.server.close)

    def ask(self, path, body, **more):
        before = time.monotonic()
        answer = self.server.post(path, body, **more)
        self.seconds = time.monotonic() - before
        return answer

    def assert_idle(self):
        deadline = time.monotonic() + 60
        while True:
            now = self.server.get("/v1/engine").json()
            if now["running"] == 0 and now["waiting"] == 0 and now["free_pages"] + now["cached_pages"] == now["pages"]:
                return
            self.assertLess(time.monotonic(), deadline, now)
            time.sleep(0.02)

    def test_a_whole_answer_says_that_its_time_is_over(self):
        for path, prompt in (("/v1/completions", {"prompt": "a"}),
                             ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]})):
            answer = self.ask(path, {**prompt, **self.LONG})
            self.assertEqual(answer.status, 504, answer.body)
            self.assertEqual(answer.headers["x-should-retry"], "false")
            self.assertNotIn("retry-after", answer.headers)
            self.assertIn("within its 2 s", answer.json()["error"]["message"])
            self.assertGreaterEqual(self.seconds, 1.9)
            self.assert_idle()

    def test_a_stream_ends_with_an_event_that_says_so(self):
        for _ in range(5):  # a machine with much other work may make no token in two seconds
            answer = self.ask("/v1/completions", {"prompt": "a", "stream": True, **self.LONG})
            self.assertEqual(answer.status, 200)
            *pieces, last = answer.events()
            if pieces:
                break
        self.assertGreater(len(pieces), 0)
        self.assertEqual(last["error"]["code"], "timeout")
        self.assertNotIn("[DONE]", pieces)
        self.assert_idle()

    def test_the_smaller_time_counts_and_waiting_counts_too(self):
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            first = pool.submit(self.server.post, "/v1/completions", {"prompt": "a", **self.LONG})
            deadline = time.monotonic() + 60
            while self.server.get("/v1/engine").json()["running"] == 0:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.01)
            second = self.ask("/v1/completions", {"prompt": "b", "timeout": 1, **self.LONG})
            self.assertEqual(second.status, 504)
            self.assertIn("within its 1 s", second.body.decode())
            self.assertEqual(first.result().status, 504)
        self.assert_idle()
        more = self.ask("/v1/completions", {"prompt": "c", "timeout": 3600, **self.LONG})
        self.assertEqual(more.status, 504)
        self.assertIn("within its 2 s", more.body.decode())

    def test_what_is_in_time_is_answered_and_a_wrong_time_refused(self):
        self.assertEqual(self.ask("/v1/completions", {"prompt": "a", "max_tokens": 4}).status, 200)
        self.assertEqual(self.ask("/v1/embeddings", {"input": "a", "timeout": 60}).status, 200)
        for wrong in (0, -1, 86401, "1"):
            refused = self.ask("/v1/completions", {"prompt": "a", "timeout": wrong})
            self.assertEqual((refused.status, refused.json()["error"]["param"]), (400, "timeout"))
        metrics = self.server.get("/metrics").body.decode()
        self.assertIn('ingot_rejected_total{reason="timeout"}', metrics)


if __name__ == "__main__":
    unittest.main()
