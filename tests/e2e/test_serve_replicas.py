"""`ingot serve --dp 2`: answers, streams, clients that leave, numbers of each engine, tenants, the end."""
import concurrent.futures
import json
import threading
import time

import serving
import support
from test_serve_probes import series

DP = ("--dp", "2", "--threads", "2", "--parallel", "8")


def questions(n):
    """Greedy and drawn in turn, of many lengths."""
    return [{"messages": [{"role": "user", "content": f"question {i} " + "and more " * (3 * i % 17)}], "max_tokens": 24,
             "seed": i, "temperature": 0 if i % 2 else 1, "n": 1 + i % 2} for i in range(n)]


class Replicas(serving.ToyCase):
    ARGS = DP

    def each(self, name, server=None):
        """What each engine counts."""
        found = series((server or self.server).get("/metrics").body.decode())
        return [found[f'ingot_each_engine_{name}{{engine="{e}"}}'] for e in range(2)]

    def ask(self, server, bodies, **fields):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            return list(pool.map(lambda body: server.post("/v1/chat/completions", {**body, **fields}), bodies))

    def test_answers_and_usage_are_those_of_one_engine(self):
        bodies = questions(24)
        several = [answer.json() for answer in self.ask(self.server, bodies)]
        with serving.Server(self.model, "--threads", "2") as one:
            alone = [answer.json() for answer in self.ask(one, bodies)]
            self.assertNotIn("ingot_each_engine", one.get("/metrics").body.decode())
            self.assertEqual(one.get("/v1/engine").json()["engines"], [])
        for a, b in zip(several, alone, strict=True):
            self.assertEqual(a["choices"], b["choices"])
            for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
                self.assertEqual(a["usage"][name], b["usage"][name])
        self.assertGreaterEqual(min(self.each("requests_total")), 4)

    def test_streams(self):
        bodies = questions(12)
        whole = [answer.json() for answer in self.ask(self.server, bodies)]
        streamed = self.ask(self.server, bodies, stream=True)
        for body, a, b in zip(bodies, whole, streamed, strict=True):
            events = b.events()
            self.assertEqual(events[-1], "[DONE]")
            texts = [""] * body["n"]
            for event in events[:-1]:
                for choice in event["choices"]:
                    texts[choice["index"]] += choice["delta"].get("content") or ""
            self.assertEqual(texts, [choice["message"]["content"] for choice in a["choices"]])

    def test_a_conversation_stays_where_it_was_read(self):
        before = self.server.get("/metrics").body.decode()
        text = "a long beginning " * 12
        for turn in range(6):
            self.chat(content=text + f"turn {turn}", max_tokens=4)
        hit = "ingot_prefix_hit_tokens_total"
        after = self.server.get("/metrics").body.decode()
        self.assertGreaterEqual(series(after)[hit] - series(before)[hit], 5 * 96)

    def test_clients_that_leave(self):
        connections = []
        for i in range(8):
            connection = self.server.connect()
            body = {"prompt": f"leaves {i}", "max_tokens": 480, "stream": True, "ignore_eos": True, "seed": i}
            connection.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
            connections.append(connection)
        for connection in connections:
            connection.getresponse().read1(10)
            connection.close()
        deadline = time.monotonic() + serving.ANSWER_SECONDS
        while any(self.each("running")) or any(self.each("waiting")):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        self.assertEqual(self.server.get("/health").status, 200)

    def test_numbers_of_each_engine_add_up(self):
        self.ask(self.server, questions(8))
        deadline = time.monotonic() + serving.ANSWER_SECONDS
        while any(self.each("running")):
            self.assertLess(time.monotonic(), deadline)
        found = series(self.server.get("/metrics").body.decode())
        for name, of_all in (("rows_total", "ingot_rows_total"), ("tokens_total", "ingot_engine_tokens_total"),
                             ("steps_total", "ingot_steps_total"), ("cached_pages", 'ingot_kv_pages{state="cached"}'),
                             ("prefix_hit_tokens_total", "ingot_prefix_hit_tokens_total")):
            self.assertEqual(sum(self.each(name)), found[of_all], name)
        engine = self.server.get("/v1/engine").json()
        self.assertEqual([e["rows"] for e in engine["engines"]], self.each("rows_total"))
        self.assertEqual(self.server.get("/v1/limits").json()["requests"]["running"], 8)


class ReplicasEnd(support.TestCase):
    """Servers of their own."""

    def test_limits_of_a_key_are_counted_once(self):
        folder = self.temp_dir()
        keys = folder / "keys"
        keys.write_text("alice sk-alice-0123456789 rpm=6\n")
        keys.chmod(0o644)
        with serving.Server(serving.models.make_tiny(folder / "tiny"), *DP, "--api-key-file", str(keys)) as server:
            header = {"authorization": "Bearer sk-alice-0123456789"}
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                answers = list(pool.map(
                    lambda i: server.post("/v1/completions", {"prompt": f"{i} is", "max_tokens": 4}, headers=header),
                    range(12)))
            self.assertEqual(sorted(answer.status for answer in answers), [200] * 6 + [429] * 6)

    def test_drains_all_engines(self):
        with serving.Server(serving.models.make_tiny(self.temp_dir() / "tiny"), *DP) as server:
            answers = []
            body = {"max_tokens": 300, "ignore_eos": True, "temperature": 0}
            threads = [threading.Thread(target=lambda i=i: answers.append(
                server.post("/v1/completions", {"prompt": f"{i} goes on", **body}))) for i in range(6)]
            for thread in threads:
                thread.start()
            deadline = time.monotonic() + serving.ANSWER_SECONDS
            while server.get("/v1/engine").json()["in_flight"] < 6 and len(answers) < 6:
                self.assertLess(time.monotonic(), deadline)
            self.assertEqual(server.stop(), 0)
            for thread in threads:
                thread.join()
            self.assertEqual([answer.json()["usage"]["completion_tokens"] for answer in answers], [300] * 6)

    def test_engines_of_ranks(self):
        tiny = serving.models.make_tiny(self.temp_dir() / "tiny")
        body = {"prompt": "ranks of engines", "max_tokens": 32, "temperature": 1, "seed": 3}
        answers = []
        for args in (("--threads", "1"), ("--dp", "2", "--tp", "2", "--threads", "4")):
            with serving.Server(tiny, *args) as server:
                answers.append([server.post("/v1/completions", body).json()["choices"] for _ in range(3)])
        self.assertEqual(*answers)

    def test_counts_that_do_not_fit(self):
        tiny = serving.models.make_tiny(self.temp_dir() / "tiny")
        text = self.temp_dir() / "text"
        text.write_text("once upon a time")
        elsewhere = "[dp] several engines are a server's: ingot serve --dp"
        for command, words in (
                (("serve", tiny, "--dp", "3", "--threads", "2"),
                 "[dp] 3 engines of 1 rank each need 3 threads, and there are 2"),
                (("serve", tiny, "--dp", "2", "--tp", "2", "--threads", "3"),
                 "[dp] 2 engines of 2 ranks each need 4 threads, and there are 3"),
                (("serve", tiny, "--dp", "2", "--threads", "2", "--parallel", "1"), "and 1 requests may run at once"),
                (("serve", tiny, "--dp", "2", "--threads", "2", "--kv-memory", "64K"), "bytes for 2 engines hold"),
                (("run", tiny, "hello", "--dp", "2"), elsewhere),
                (("bench", tiny, "--dp", "2"), elsewhere),
                (("eval", "ppl", tiny, "--text", text, "--dp", "2"), elsewhere)):
            with self.subTest(command):
                port = ("--port", "0") if command[0] == "serve" else ()
                result = support.run(*map(str, command), *port, "--device", "cpu")
                self.assertEqual(result.stdout, "")
                self.assertNotEqual(result.returncode, 0)
                lines = [line for line in result.stderr.splitlines() if line.startswith("ingot: ")]
                self.assertEqual(len(lines), 1, result.stderr)
                self.assertIn(words, lines[0])


if __name__ == "__main__":
    serving.unittest.main()
