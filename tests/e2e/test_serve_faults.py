"""The end of the server, its death, a full disk, and two servers on one model."""
import concurrent.futures
import http.client
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import socket
import subprocess
import threading
import time
import unittest

import models
import serving
import support

ALONE = "waits for moments of a load"  # not beside other modules: tools/run_tests.py

LONG = bool(os.environ.get("INGOT_LONG"))


class Case(support.TestCase):
    def setUp(self):
        super().setUp()
        self.folder = self.temp_dir()
        self.model = models.make_tiny(self.folder / "tiny")

    def serve(self, *args, **more):
        server = serving.Server(self.model, *args, **more)
        self.addCleanup(server.close)
        return server

    def wait_for(self, condition, what):
        deadline = time.monotonic() + 120
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.01)


class Stream(threading.Thread):
    """One streamed answer, read to its end. `first` is set with its first bytes."""

    def __init__(self, server, max_tokens, choices=1):
        super().__init__(daemon=True)
        self.server = server
        self.request = {"prompt": "a", "max_tokens": max_tokens, "n": choices, "ignore_eos": True, "stream": True}
        self.first, self.status, self.body, self.error = threading.Event(), None, b"", None
        self.start()

    def run(self):
        connection = self.server.connect()
        try:
            headers = {"content-type": "application/json"}
            connection.request("POST", "/v1/completions", json.dumps(self.request), headers)
            response = connection.getresponse()
            self.status = response.status
            while True:
                piece = response.read1(65536)
                self.first.set()
                if not piece:
                    return
                self.body += piece
        except (OSError, http.client.HTTPException) as error:
            self.error = error
        finally:
            self.first.set()
            connection.close()


class Drain(Case):
    def test_what_is_under_way_finishes(self):
        server = self.serve("--parallel", "8", "--drain", "300")
        streams = [Stream(server, 300) for _ in range(50)]
        for stream in streams[:8]:
            self.assertTrue(stream.first.wait(120))
        # All must be in before the end is announced: later ones would rightly be refused.
        self.wait_for(lambda: self.in_flight(server) + sum(not s.is_alive() for s in streams) >= 50, "all requests in")
        server.process.send_signal(signal.SIGTERM)
        self.wait_for(lambda: self.is_refused(server), "new requests are refused")
        for stream in streams:
            stream.join(300)
            self.assertIsNone(stream.error)
            self.assertEqual(stream.status, 200)
            self.assertTrue(stream.body.endswith(b"data: [DONE]\n\n"), stream.body[-200:])
        self.assertEqual(server.process.wait(120), 0)

    def in_flight(self, server):
        return server.get("/v1/engine").json()["in_flight"]

    def is_refused(self, server):
        try:
            answer = server.post("/v1/completions", {"prompt": "a", "max_tokens": 1})
        except OSError:  # it has ended already
            return True
        if answer.status == 503:
            self.assertIn("retry-after", answer.headers)
            self.assertIn("error", answer.json())
        return answer.status == 503

    def test_what_outlasts_the_drain_ends_with_an_error_event(self):
        server = self.serve("--parallel", "1", "--drain", "0")
        # One seq after another: they have work for many times as long as it takes to send a signal.
        streams = [Stream(server, 400, choices=16) for _ in range(12)]
        self.wait_for(lambda: self.in_flight(server) + sum(not s.is_alive() for s in streams) >= 12, "all requests in")
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(120), 0)
        cut = 0
        for stream in streams:
            stream.join(120)
            self.assertFalse(stream.is_alive())
            self.assertIsNone(stream.error)
            if stream.status == 200 and stream.body.endswith(b"data: [DONE]\n\n"):
                continue
            cut += 1
            last = stream.body.strip().split(b"\n\n")[-1]
            error = json.loads(last.removeprefix(b"data: "))["error"]
            self.assertEqual(error["code"], "server_busy")
            self.assertIn(stream.status, (200, 503))
        self.assertGreater(cut, 0)

    def test_ready_says_so_and_health_stays(self):
        server = self.serve("--parallel", "1", "--drain", "300")
        streams = [Stream(server, 450) for _ in range(8)]
        self.assertTrue(streams[0].first.wait(120))
        server.process.send_signal(signal.SIGTERM)
        seen = []
        while not seen or seen[-1] != 503:
            try:
                ready, health = server.get("/ready").status, server.get("/health").status
            except OSError:
                break  # all were answered before it was asked
            self.assertEqual(health, 200)
            seen.append(ready)
        self.assertEqual(server.process.wait(300), 0)
        self.assertLessEqual(set(seen), {200, 503})

    def test_a_second_signal_ends_at_once(self):
        server = self.serve("--parallel", "1", "--drain", "3000")
        streams = [Stream(server, 450) for _ in range(30)]
        self.assertTrue(streams[0].first.wait(120))
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(120), 0)
        for stream in streams:
            stream.join(120)

    def test_ctrl_c_ends_an_idle_server(self):
        server = self.serve()
        self.assertEqual(server.stop(signal.SIGINT), 0)


class Death(Case):
    def test_killed_at_any_time_it_starts_again(self):
        rng = random.Random(45)
        path = self.folder / "socket"
        for _ in range(100 if LONG else 4):
            # As whoever comes after it: nobody removes what is another user's.
            process = support.start("serve", self.model, "--unix", path, "--log", "off",
                                    before=serving.opened_to_nobody(self.model, [path], {}))
            time.sleep(rng.random() * 0.2)
            process.kill()
            process.communicate()
        server = self.serve("--unix", path)
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(60)
            connection.connect(str(path))
            connection.sendall(b"GET /ready HTTP/1.1\r\nHost: any\r\nConnection: close\r\n\r\n")
            self.assertTrue(connection.recv(65536).startswith(b"HTTP/1.1 200 "))
        self.assertEqual(server.stop(), 0)
        left = [name for name in os.listdir("/dev/shm") if "ingot" in name] if os.path.isdir("/dev/shm") else []
        self.assertEqual(left, [])


class FullDisk(Case):
    def counted(self, server):
        for line in server.get("/metrics").body.decode().splitlines():
            if line.startswith("ingot_log_dropped_lines_total "):
                return float(line.split()[1])
        self.fail("no such series")

    def ask(self, server, times):
        for _ in range(times):
            answer = server.post("/v1/completions", {"prompt": "a", "max_tokens": 1})
            self.assertEqual(answer.status, 200)

    def test_serving_goes_on_without_its_log(self):
        server = self.serve("--log", "/dev/full")
        self.ask(server, 5)
        self.wait_for(lambda: self.counted(server) >= 5, "dropped lines are counted")
        self.assertEqual(server.stop(), 0)

    def test_a_disk_that_fills_up_leaves_whole_lines(self):
        log = self.folder / "log"
        log.write_text("x" * 3000 + "\n")
        log.chmod(0o666)  # whoever the server is
        limit = 4096  # of every file that the process writes: what a full disk is to it

        def small_disk():
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        server = self.serve("--log", log, "--log-json", preexec_fn=small_disk)
        self.ask(server, 30)
        self.wait_for(lambda: self.counted(server) > 0, "dropped lines are counted")
        self.assertEqual(server.stop(), 0)
        self.assertLessEqual(log.stat().st_size, limit)
        lines = log.read_text().split("\n")
        self.assertEqual(lines[-1], "")
        for line in lines[1:-1]:
            json.loads(line)

    @staticmethod
    def is_whole(log):
        """Every line is a JSON document; not so for a moment while a line that found no room is taken back."""
        try:
            *lines, rest = log.read_text().split("\n")
            return rest == "" and all(json.loads(line) for line in lines)
        except ValueError:
            return False

    def test_a_full_tmpfs(self):
        """A file system of 1 MiB with the log and little else on it."""
        disk = self.folder / "disk"
        disk.mkdir()
        mount = ["unshare", "--mount", "--map-root-user", "sh", "-c",
                 'mount -t tmpfs -o size=1m tmpfs "$0" && head -c 1040000 /dev/zero > "$0/filler" && exec "$@"', disk]
        if shutil.which("unshare") is None:
            self.skipTest("unshare is not installed")
        probe = subprocess.run([*mount, "true"], capture_output=True, text=True, timeout=120)
        if probe.returncode != 0:
            self.skipTest(f"no tmpfs can be mounted here: {probe.stderr.strip()}")
        log = disk / "log"
        server = self.serve("--log", log, "--log-json", before=mount)
        self.ask(server, 120)
        self.wait_for(lambda: self.counted(server) > 0, "dropped lines are counted")
        self.ask(server, 5)
        # Seen from its mount namespace.
        seen = f"/proc/{server.pid}/root{log}"
        if os.path.exists(seen):
            self.wait_for(lambda: self.is_whole(pathlib.Path(seen)), "the log holds whole lines")
        self.assertEqual(server.stop(), 0)

    def test_the_log_has_a_size(self):
        log = self.folder / "log"
        server = self.serve("--log", log, "--max-log", "2048")
        self.ask(server, 40)
        self.wait_for(lambda: self.counted(server) > 0, "dropped lines are counted")
        self.assertLessEqual(log.stat().st_size, 2048)
        self.assertEqual(server.stop(), 0)


class DamagedModel(Case):
    def test_a_file_that_is_cut_turns_health_to_503(self):
        """What was mapped is gone when it is read: the request says so, and whoever asks for health learns it."""
        server = self.serve()
        body = {"prompt": [40, 41, 42], "max_tokens": 4, "cache_prompt": False}
        self.assertEqual(server.post("/v1/completions", body).status, 200)
        self.assertEqual(server.get("/health").status, 200)
        os.truncate(self.model / "model.safetensors", 4096)
        # The weights are read from the file, or were packed and the embedding is: one token in 256 is in each page.
        statuses = set()
        for first in range(3, 250, 8):
            answer = server.post("/v1/completions", {**body, "prompt": list(range(first, first + 6))})
            statuses.add(answer.status)
            if answer.status == 500:
                self.assertEqual(answer.json()["error"]["code"], "model_damaged")
                break
        self.assertIn(500, statuses)
        # One that is not answered with a text says it by the same code.
        vector = server.post("/v1/embeddings", {"input": list(range(3, 250, 7))})
        self.assertEqual((vector.status, vector.json()["error"]["code"]), (500, "model_damaged"))
        health, ready = server.get("/health"), server.get("/ready")
        self.assertEqual((health.status, health.json()["status"]), (503, "damaged"))
        self.assertEqual(ready.status, 503)
        self.assertTrue(server.alive())


class TwoServers(Case):
    def text(self, server):
        body = {"prompt": "a", "max_tokens": 24, "ignore_eos": True, "temperature": 0}
        answer = server.post("/v1/completions", body)
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json()["choices"][0]["text"]

    def assert_mapped_once(self, server):
        """The file is mapped once in each, and its pages are shared. What was packed from it is each server's own."""
        with open(f"/proc/{server.pid}/maps") as file:
            mapped = [line.split()[1] for line in file if line.rstrip().endswith(".safetensors")]
        self.assertEqual(mapped, ["r--s"])

    def test_two_servers_on_one_model(self):
        for _ in range(20 if LONG else 2):
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                pair = list(pool.map(lambda _: serving.Server(self.model), range(2)))
            try:
                self.assertEqual(self.text(pair[0]), self.text(pair[1]))
                for server in pair:
                    self.assert_mapped_once(server)
            finally:
                for server in pair:
                    server.close()

    def test_another_with_other_options_while_the_first_is_busy(self):
        first = self.serve()
        streams = [Stream(first, 400) for _ in range(8)]
        self.assertTrue(streams[0].first.wait(120))
        second = self.serve("--ctx", "256", "--parallel", "2", "--kv", "f32")
        self.assertEqual(second.get("/v1/models").json()["data"][0]["max_model_len"], 256)
        self.text(second)
        for stream in streams:
            stream.join(300)
            self.assertTrue(stream.body.endswith(b"data: [DONE]\n\n"), stream.body[-200:])
        self.assertEqual(second.stop(), 0)
        self.text(first)


if __name__ == "__main__":
    unittest.main()
