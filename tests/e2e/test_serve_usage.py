"""The usage log: a line for every request that was worked on, whatever becomes of the server; and /v1/usage."""
import contextlib
import http.client
import json
import os
import pathlib
import resource
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import models
import scripted
import serving
import support

# A write of a line of usage takes 30 s.
SLOW_DISK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
ssize_t write(int fd, const void* bytes, size_t size) {
  ssize_t (*real)(int, const void*, size_t) = (ssize_t (*)(int, const void*, size_t))dlsym(RTLD_NEXT, "write");
  if (size > 20 && memmem(bytes, size, "\"tenant\"", 8)) sleep(atoi(getenv("SLOW_SECONDS")));
  return real(fd, bytes, size);
}
"""

ALICE, BOSS, SMALL = "key-of-alice-0001", "key-of-boss-00001", "key-of-small-0001"


def bearer(key=ALICE):
    return {"authorization": f"Bearer {key}"}


def read_all(response, arrived):
    """Reads a stream as it comes, since who reads slowly is sent away; and notes when each event came."""
    try:
        while part := response.read1(65536):
            arrived.extend([time.monotonic()] * part.count(b"data: "))
    except (OSError, http.client.HTTPException):
        pass  # one of the two ends before the answer does


class Usage(support.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="ingot-e2e-")
        cls.addClassCleanup(folder.cleanup)
        cls.model = models.make_tiny(pathlib.Path(folder.name) / "tiny", max_position_embeddings=16384)

    def setUp(self):
        self.folder = self.temp_dir()
        self.log = self.folder / "usage.jsonl"
        (self.folder / "keys").write_text(f"alice {ALICE}\nboss {BOSS} admin\n")

    def serve(self, *args, **more):
        server = serving.Server(self.model, "--api-key-file", self.folder / "keys", "--usage-log", self.log, *args, **more)
        self.addCleanup(server.close)
        return server

    def lines(self):
        text = self.log.read_text()
        self.assertTrue(text == "" or text.endswith("\n"), text[-200:])
        return [json.loads(line) for line in text.splitlines()]

    def metric(self, server, name):
        body = server.get("/metrics", headers=bearer()).body.decode()
        return next(float(line.split()[1]) for line in body.splitlines() if line.startswith(name + " "))

    def test_a_line_for_each_request_with_names_and_counts_alone(self):
        server = self.serve()
        secret = "a-secret-prompt"
        chat = {"messages": [{"role": "user", "content": secret}], "max_tokens": 5}
        for path, body, made in (
            ("/v1/completions", {"prompt": secret, "max_tokens": 5, "ignore_eos": True}, 5),
            ("/v1/completions", {"prompt": secret, "max_tokens": 5, "ignore_eos": True, "stream": True, "n": 2}, 10),
            ("/v1/chat/completions", {**chat, "ignore_eos": True}, 5),
            ("/v1/messages", chat, None),
            ("/v1/embeddings", {"input": secret}, 0),
            ("/tokenize", {"text": secret}, 0),
            ("/v1/messages/count_tokens", {"messages": chat["messages"]}, 0),
        ):
            answer = server.post(path, body, headers=bearer())
            self.assertEqual(answer.status, 200, path)
            line = self.lines()[-1]  # it is there before the answer is
            self.assertEqual(line["id"], answer.headers["x-request-id"])
            self.assertEqual((line["tenant"], line["route"], line["status"], line["end"]), ("alice", path, 200, "complete"))
            if made is not None:
                self.assertEqual(line["completion_tokens"], made, path)
            self.assertTrue(line["prompt_tokens"] > 0 or line["tokenizer_tokens"] > 0, line)
            self.assertLessEqual(set(line), {"time", "id", "tenant", "route", "model", "status", "end", "prompt_tokens",
                                             "cached_tokens", "completion_tokens", "tokenizer_tokens", "ms"})
        count = len(self.lines())
        # What was refused has cost nothing: nobody can fill the disk with it.
        self.assertEqual(server.post("/v1/completions", {"prompt": secret, "n": 0}, headers=bearer()).status, 400)
        self.assertEqual(server.post("/v1/completions", {"prompt": secret}, headers=bearer("wrong-key-00000")).status, 401)
        self.assertEqual(server.get("/v1/models", headers=bearer()).status, 200)
        self.assertEqual(len(self.lines()), count)
        text = self.log.read_text()
        for never in (secret, ALICE, BOSS):
            self.assertNotIn(never, text)

    def test_one_that_was_cut_has_its_line(self):
        server = self.serve()
        connection = server.connect()
        body = {"prompt": "a", "max_tokens": 16000, "ignore_eos": True, "stream": True}
        connection.request("POST", "/v1/completions", json.dumps(body), bearer())
        connection.getresponse().read(100)
        connection.close()
        deadline = time.monotonic() + 60
        while not self.lines():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        (line,) = self.lines()
        self.assertEqual(line["end"], "cancelled")
        self.assertTrue(0 < line["completion_tokens"] < 16000, line)

    def test_one_that_left_before_its_first_token_has_its_line(self):
        server = self.serve("--parallel", "1")
        body = {"prompt": "a", "max_tokens": 12000, "ignore_eos": True, "stream": True}
        first = server.connect()
        first.request("POST", "/v1/completions", json.dumps(body), bearer())
        response = first.getresponse()
        response.read(100)  # it has the only place: the next ones wait
        reader = threading.Thread(target=read_all, args=(response, []), daemon=True)
        reader.start()
        for _ in range(3):
            waiting = server.connect()
            waiting.request("POST", "/v1/completions", json.dumps({**body, "prompt": "b" * 50}), bearer())
            self.until_waiting(server)
            waiting.close()
        first.sock.shutdown(socket.SHUT_RDWR)
        reader.join(timeout=60)
        deadline = time.monotonic() + 60
        while len(self.lines()) < 4:
            self.assertLess(time.monotonic(), deadline, self.lines())
            time.sleep(0.02)
        self.assertEqual({line["end"] for line in self.lines()}, {"cancelled"})
        self.assertEqual(sorted(line["prompt_tokens"] for line in self.lines()), [1, 50, 50, 50])

    def until_waiting(self, server):
        deadline = time.monotonic() + 60
        while server.get("/v1/engine", headers=bearer()).json()["waiting"] == 0:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def serve_on_a_slow_disk(self, seconds, *args):
        """Each write to the log takes so long."""
        compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
        if not compiler:
            self.skipTest("no C compiler")
        (self.folder / "slow.c").write_text(SLOW_DISK)
        built = subprocess.run([compiler, "-shared", "-fPIC", "-o", self.folder / "slow.so", self.folder / "slow.c", "-ldl"],
                               capture_output=True, text=True)
        if built.returncode != 0:
            self.skipTest(f"it cannot be compiled: {built.stderr[-300:]}")
        return self.serve(*args, env={"LD_PRELOAD": str(self.folder / "slow.so"), "SLOW_SECONDS": str(seconds)})

    def test_what_is_written_down_as_complete_is_answered_so(self):
        """Though its deadline passes while its line is written."""
        server = self.serve_on_a_slow_disk(7, "--request-timeout", "4")
        answer = server.post("/v1/completions", {"prompt": "a", "max_tokens": 2}, headers=bearer())
        self.assertEqual(answer.status, 200, answer.body)
        line, = self.lines()
        self.assertEqual((line["end"], line["status"]), ("complete", 200))
        self.assertGreater(line["ms"], 0)
        self.assertEqual(server.get("/v1/usage", headers=bearer()).json()["total"]["timeouts"], 0)

    def test_the_end_of_what_fails_comes_after_its_line(self):
        """A 504, an error event and a refusal of what was cut into tokens, by each API."""
        with open(self.folder / "keys", "a") as keys:
            keys.write(f"small {SMALL} context=50\n")
        self.model = scripted.make(self.folder / "endless", {"<|plain|>": scripted.PLAIN}, endless=True, positions=1 << 18)
        server = self.serve_on_a_slow_disk(1, "--request-timeout", "2", "--parallel", "8", "--kv-memory", "256M")
        talk = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1 << 17, "stream": True}
        plain = {"prompt": "a", "max_tokens": 1 << 17, "ignore_eos": True}
        late, long = b"was not finished within", b"context of this key"
        cases = (
            (ALICE, "/v1/completions", plain, 504, late),
            (ALICE, "/v1/completions", {**plain, "stream": True}, 200, late),
            (ALICE, "/v1/chat/completions", talk, 200, late),
            (ALICE, "/v1/messages", talk, 200, late),
            (ALICE, "/v1/responses", {"input": "a", "stream": True}, 200, late),
            (ALICE, "/api/chat", {"messages": talk["messages"]}, 200, late),
            (SMALL, "/v1/completions", {"prompt": "a" * 1000}, 400, long),
            (SMALL, "/v1/embeddings", {"input": "a" * 1000}, 400, long),
        )
        told = {}

        def ask(number, key, path, body, why):
            connection = server.connect()
            connection.request("POST", path, json.dumps(body), bearer(key))
            response = connection.getresponse()
            text = b""
            while why not in text and (part := response.read1(65536)):
                text += part
            lines = self.log.read_text()  # with the words of its end
            told[number] = response.status, response.getheader("x-request-id") in lines, text[-4000:]
            connection.close()

        threads = [threading.Thread(target=ask, args=(number, key, path, body, why), daemon=True)
                   for number, (key, path, body, _, why) in enumerate(cases)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=120)
        for number, (_, path, body, status, why) in enumerate(cases):
            self.assertIn(number, told, path)
            self.assertEqual(told[number][:2], (status, True), (path, body, told[number]))
            self.assertIn(why, told[number][2], path)

    def test_a_slow_disk_holds_up_nothing_but_ends(self):
        """Meanwhile others connect, are told, and get their tokens."""
        server = self.serve_on_a_slow_disk(30)
        body = {"prompt": "a", "max_tokens": 16000, "ignore_eos": True, "stream": True}
        arrived = []
        stream = server.connect()
        stream.request("POST", "/v1/completions", json.dumps(body), bearer())
        reader = threading.Thread(target=read_all, args=(stream.getresponse(), arrived), daemon=True)
        reader.start()
        leaving = server.connect()
        leaving.request("POST", "/v1/completions", json.dumps(body), bearer())
        leaving.getresponse().read(100)
        began = time.monotonic()
        leaving.close()  # its line is written by whoever sees it go, and that takes long
        answered = 0
        while time.monotonic() - began < 4:
            self.assertEqual(server.get("/health").status, 200)
            self.assertEqual(server.get("/v1/models", headers=bearer()).status, 200)
            answered += 1
            time.sleep(0.05)
        self.assertGreaterEqual(answered, 4)  # it was 1 while the thread of all sockets waited for the disk
        self.assertGreaterEqual(sum(began + 0.2 < at for at in arrived), 4)
        self.assertEqual(self.log.read_text(), "")  # all of that was before the line was there
        server.close()
        reader.join(timeout=60)

    def test_what_is_ended_over_its_work_has_its_line_first(self):
        """Long texts for one worker, whose time passes before it, at it and behind it."""
        server = self.serve("--request-timeout", "0.1")
        there, lock = {}, threading.Lock()

        def ask():
            began = time.monotonic()
            answer = server.post("/tokenize", {"text": "ab c" * 900000}, headers=bearer())
            # A worker that does not notice within a second is not waited for: on a machine that does something else.
            late = time.monotonic() - began > 1
            text = self.log.read_text()
            with lock:
                there[answer.headers["x-request-id"]] = late or answer.headers["x-request-id"] in text

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(there), 8)
        time.sleep(1)  # for lines that come late
        worked_on = {line["id"] for line in self.lines()}
        self.assertGreater(len(worked_on), 0)
        self.assertEqual([id for id in worked_on if not there[id]], [])

    def test_what_was_late_survives_a_kill(self):
        """On a disk that takes a second for each line."""
        server = self.serve_on_a_slow_disk(1, "--request-timeout", "0.3")
        ended, lock = [], threading.Lock()

        def load(stream):
            body = json.dumps({"prompt": "a", "max_tokens": 16000, "ignore_eos": True, "stream": stream})
            try:
                while True:
                    with contextlib.closing(server.connect()) as connection:
                        connection.request("POST", "/v1/completions", body, bearer())
                        response = connection.getresponse()
                        text = b""
                        while b"was not finished within" not in text and (part := response.read1(65536)):
                            text += part
                        if b"was not finished within" in text:
                            with lock:
                                ended.append(response.getheader("x-request-id"))
            except (OSError, http.client.HTTPException):
                pass  # the server is gone

        threads = [threading.Thread(target=load, args=(i % 2 == 0,)) for i in range(6)]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + 60
        while len(ended) < 4 and time.monotonic() < deadline:
            time.sleep(0.005)
        server.process.kill()
        for thread in threads:
            thread.join()
        self.assertGreaterEqual(len(ended), 4)
        lines = {line["id"]: line for line in self.lines()}
        self.assertEqual([id for id in ended if id not in lines], [])
        self.assertEqual({lines[id]["end"] for id in ended}, {"timeout"})

    def test_it_survives_a_kill(self):
        server = self.serve()
        complete, lock = [], threading.Lock()

        def load(stream):
            connection = server.connect()
            body = json.dumps({"prompt": "a", "max_tokens": 20, "ignore_eos": True, "stream": stream})
            try:
                while True:
                    connection.request("POST", "/v1/completions", body, bearer())
                    response = connection.getresponse()
                    text = b""
                    # A reader of streams has its answer with this line; it does not wait for the end of the body.
                    while not (stream and text.endswith(b"data: [DONE]\n\n")):
                        part = response.read1(4096) if stream else response.read()
                        text += part
                        if not stream or not part:
                            break
                    whole = text.endswith(b"data: [DONE]\n\n") if stream else len(text) > 0
                    if response.status == 200 and whole:
                        with lock:
                            complete.append(response.getheader("x-request-id"))
                    response.read()
            except OSError:
                pass  # the server is gone
            except Exception as error:  # noqa: BLE001: half an answer of a killed server reads in many ways
                self.assertFalse(server.alive(), error)

        threads = [threading.Thread(target=load, args=(i % 2 == 0,)) for i in range(6)]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + 60
        while len(complete) < 200 and time.monotonic() < deadline:
            time.sleep(0.005)
        server.process.kill()
        for thread in threads:
            thread.join()
        self.assertGreaterEqual(len(complete), 200)
        told = {line["id"] for line in self.lines()}
        self.assertEqual([id for id in complete if id not in told], [])
        # And the next server goes on with it.
        again = self.serve()
        before = len(self.lines())
        self.assertEqual(again.post("/tokenize", {"text": "a"}, headers=bearer()).status, 200)
        self.assertEqual(len(self.lines()), before + 1)

    def test_a_full_disk_is_counted(self):
        limit = 2000

        def small_disk():
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        server = self.serve("--log", "off", preexec_fn=small_disk)
        for _ in range(20):
            self.assertEqual(server.post("/tokenize", {"text": "a"}, headers=bearer()).status, 200)
        self.assertLessEqual(self.log.stat().st_size, limit)
        self.assertEqual(self.metric(server, "ingot_usage_lost_lines_total"), 20 - len(self.lines()))
        self.assertLess(len(self.lines()), 20)

    def test_at_its_cap_nothing_is_answered_where_usage_is_required(self):
        server = self.serve("--usage-log-bytes", "1500", "--usage-required")
        body = {"prompt": "a", "max_tokens": 2, "ignore_eos": True}
        statuses = [server.post("/v1/completions", body, headers=bearer()).status for _ in range(20)]
        answered = statuses.count(200)
        self.assertEqual(statuses, [200] * answered + [503] * (20 - answered))
        self.assertEqual(len(self.lines()), answered)
        self.assertTrue(0 < answered < 20)
        refused = server.post("/v1/completions", {**body, "stream": True}, headers=bearer())
        self.assertEqual((refused.status, refused.json()["error"]["code"]), (503, "usage_log"))
        self.assertGreater(int(refused.headers["retry-after"]), 0)
        # Looking is free, and whoever empties the file after a copy makes room.
        self.assertEqual(server.get("/v1/models", headers=bearer()).status, 200)
        # That is noticed by the log's own thread, within what Retry-After says: whoever asks does not wait for a disk.
        self.log.write_text("")
        deadline = time.monotonic() + 60
        while server.post("/v1/completions", body, headers=bearer()).status == 503:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        lost, line = self.lines()
        self.assertEqual(lost["lost"], 1)
        self.assertEqual(line["completion_tokens"], 2)

    def test_usage_by_name_is_for_admins(self):
        server = self.serve()
        body = {"prompt": "abc", "max_tokens": 4, "ignore_eos": True}
        self.assertEqual(server.post("/v1/completions", body, headers=bearer()).status, 200)
        own = server.get("/v1/usage", headers=bearer()).json()
        self.assertEqual((own["own"]["completion_tokens"], own["total"]["completion_tokens"]), (4, 4))
        self.assertNotIn("tenants", own)
        self.assertNotIn("boss", json.dumps(own))
        every = server.get("/v1/usage", headers=bearer(BOSS)).json()
        self.assertEqual([tenant["name"] for tenant in every["tenants"]], ["alice", "boss"])
        self.assertEqual(every["tenants"][0]["prompt_tokens"], 3)
        metrics = server.get("/metrics", headers=bearer(BOSS)).body.decode()
        self.assertIn('ingot_tenant_generated_tokens_total{tenant="alice"} 4\n', metrics)
        self.assertNotIn("ingot_tenant_", server.get("/metrics", headers=bearer()).body.decode())


class Start(support.TestCase):
    def test_a_log_that_cannot_be_kept_is_refused(self):
        model = models.make_tiny(self.temp_dir() / "tiny")
        result = support.run("serve", model, "--port", "0", "--usage-log", "/dev/null")
        self.assert_fails(result, 1, "[usage]", "/dev/null")
        result = support.run("serve", model, "--port", "0", "--usage-required")
        self.assert_fails(result, 2, "--usage-log")


if __name__ == "__main__":
    unittest.main()
