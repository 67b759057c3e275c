"""`ingot bench serve` against a small server whose behaviour is known, so that every count is."""
import json
import signal
import threading
import time

import mock_openai
import support

ALONE = "measures times"  # not beside other modules: tools/run_tests.py

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


class BenchServeTest(support.TestCase):
    def serve(self, **options):
        server = mock_openai.MockServer(**options)
        self.addCleanup(server.stop)
        return server

    def bench(self, server, *args, **options):
        return support.run("bench", "serve", server.url, *args, timeout=300, **options)

    def report(self, server, *args, **options):
        result = self.bench(server, "--json", *args, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(result.stdout)
        requests = report["requests"]
        self.assertEqual(requests["sent"], sum(n for name, n in requests.items() if name != "sent"))
        for key in ("ttft_ms", "gap_ms", "e2e_ms", "request_tps", "reject_ms"):
            order = [report[key][p] for p in ("p1", "p10", "p50", "p90", "p95", "p99", "max")]
            self.assertEqual(order, sorted(order), key)
        self.assertEqual(report["e2e_ms"]["count"], requests["ok"])
        self.assertAlmostEqual(report["output_tps"] * report["seconds"], report["output_tokens"], delta=0.01)
        return report

    def test_closed_loop(self):
        together = threading.Barrier(4)  # the four clients are there at once, or this breaks

        def behave(index):
            if 1 <= index <= 4:
                together.wait(60)
            return "ok"

        server = self.serve(behave=behave)
        report = self.report(server, "--concurrency", 4, "--requests", 20, "--gen-tokens", 5, "--shared-words", 3)
        self.assertEqual(report["requests"]["ok"], 20)
        self.assertEqual((report["mode"], report["concurrency"], report["rate"]), ("closed", 4, None))
        self.assertEqual(report["model"], "mock-model")
        self.assertEqual(report["output_tokens"], 100)
        self.assertEqual(report["prompt_tokens"], 140)
        self.assertEqual(report["tokens_from"], "usage")
        self.assertEqual(report["gap_ms"]["count"], 80)
        self.assertEqual(report["finish_reasons"], [{"reason": "length", "count": 20}])
        self.assertEqual(report["problems"], [])
        self.assertIsNone(report["goodput"])
        self.assertEqual(server.most_open, 4)
        self.assertEqual(len(server.requests), 21)  # one warms up
        self.assertLess(server.connections, 12)  # they are kept
        prompts = [body["messages"][0]["content"].split() for path, _, body in server.requests[1:]]
        self.assertEqual({len(words) for words in prompts}, {103})
        self.assertEqual(len({tuple(words[:3]) for words in prompts}), 1)
        self.assertEqual(len({tuple(words[3:]) for words in prompts}), 20)
        path, headers, body = server.requests[1]
        self.assertEqual(path, "/v1/chat/completions")
        self.assertNotIn("Authorization", headers)
        self.assertEqual({key: body[key] for key in ("model", "max_tokens", "stream", "stream_options")}, {
            "model": "mock-model", "max_tokens": 5, "stream": True, "stream_options": {"include_usage": True}})

    def test_duration(self):
        server = self.serve()
        report = self.report(server, "--concurrency", 2, "--duration", 0.5, "--gen-tokens", 2)
        self.assertGreater(report["requests"]["ok"], 0)
        self.assertEqual(report["requests"]["ok"], report["requests"]["sent"])
        self.assertGreaterEqual(report["seconds"], 0.5)

    def test_open_loop(self):
        server = self.serve(usage=False)
        report = self.report(server, "--rate", 200, "--requests", 40, "--gen-tokens", 3, "--seed", 7, "--warm-up", 0)
        self.assertEqual(report["requests"]["ok"], 40)
        self.assertEqual((report["mode"], report["rate"], report["concurrency"]), ("open", 200, None))
        self.assertEqual((report["tokens_from"], report["output_tokens"]), ("pieces", 120))
        self.assertEqual(len(server.requests), 40)

    def test_trace(self):
        path = self.temp_dir() / "trace.csv"
        path.write_text(HEADER + "".join(f"2023-11-16 18:15:{40 + i}.0,{160 + 32 * i},{64}\n" for i in range(8)))
        server = self.serve()
        report = self.report(server, "--trace", path, "--length-divisor", 32, "--time-divisor", 100, "--requests", 6)
        self.assertEqual(report["requests"]["ok"], 6)
        self.assertEqual(report["trace"], {"file": str(path), "length_divisor": 32, "time_divisor": 100.0})
        self.assertEqual(report["output_tokens"], 12)
        words = [len(body["messages"][0]["content"].split()) for _, _, body in server.requests[1:]]
        self.assertEqual(sorted(words), [5, 6, 7, 8, 9, 10])
        self.assertGreaterEqual(report["seconds"], 0.05)

    def test_every_way_to_end(self):
        kinds = ("ok", 429, 503, 500, 400, "cut", "error", "ok")
        server = self.serve(behave=lambda index: kinds[index % len(kinds)])
        report = self.report(server, "--concurrency", 3, "--requests", 80, "--gen-tokens", 4, "--warm-up", 0, "--rest", 0)
        self.assertEqual(report["requests"], {
            "sent": 80, "ok": 20, "cancelled": 0, "rejected": 20, "failed": 30, "lost": 10})
        self.assertEqual(report["rejected_without_retry_after"], 10)
        self.assertEqual(report["reject_ms"]["count"], 20)
        # Those of a key's limit and those of a busy server apart; only the former say when to come again here.
        self.assertEqual((report["rejected"]["429"], report["rejected"]["503"]), (10, 10))
        self.assertEqual(report["rejected"]["retry_after_s"]["count"], 10)
        problems = {problem["what"]: problem["count"] for problem in report["problems"]}
        for what in ("status 500: this is a 500", "status 400: this is a 400", "an event says: broken inside"):
            self.assertEqual(problems.get(what), 10, problems)
        # Pieces of answers that broke off are tokens, too.
        self.assertEqual(report["ttft_ms"]["count"], 40)
        self.assertEqual(report["output_tokens"], 20 * 4 + 20 * 2)

    def test_rejected_clients_rest(self):
        server = self.serve(behave=lambda index: 429 if index < 2 else "ok", retry_after=1)
        limits = ("--concurrency", 2, "--requests", 4, "--gen-tokens", 2, "--warm-up", 0)
        report = self.report(server, *limits)
        self.assertEqual((report["requests"]["rejected"], report["requests"]["ok"]), (2, 2))
        self.assertGreaterEqual(report["seconds"], 1)
        server = self.serve(behave=lambda index: 429 if index < 50 else "ok", retry_after=3000)
        report = self.report(server, "--rest", 0, "--requests", 60, "--gen-tokens", 2, "--warm-up", 0)
        self.assertEqual((report["requests"]["rejected"], report["requests"]["ok"]), (50, 10))

    def test_completions_with_ids_fields_and_key(self):
        server = self.serve()
        report = self.report(
            server, "--endpoint", "completions", "--prompt-ids", 50, "--prompt-tokens", 9, "--requests", 3,
            "--gen-tokens", 2, "--ignore-eos", "--field", "top_k=5", "--field", 'stop=["a"]', "--field", "user=me",
            "--model", "named", env={"INGOT_API_KEY": "secret-key"})
        self.assertEqual((report["endpoint"], report["model"]), ("completions", "named"))
        self.assertNotIn("secret-key", json.dumps(report))
        for path, headers, body in server.requests:
            self.assertEqual(path, "/v1/completions")
            self.assertEqual(headers["Authorization"], "Bearer secret-key")
            self.assertEqual(len(body["prompt"]), 9)
            self.assertTrue(all(0 <= token < 50 for token in body["prompt"]))
            self.assertEqual((body["top_k"], body["stop"], body["user"], body["model"]), (5, ["a"], "me", "named"))
            self.assertIs(body["ignore_eos"], True)

    def test_goodput(self):
        server = self.serve(behave=lambda index: 500 if index % 2 else "ok")
        limits = ("--slo", "ttft=100s,itl=100s", "--requests", 10, "--gen-tokens", 3, "--warm-up", 0)
        good = self.report(server, *limits)["goodput"]
        self.assertEqual((good["requests"], good["percent"], good["ttft_ms"], good["e2e_ms"]), (5, 50.0, 100000.0, None))
        self.assertEqual(good["first_tokens_in_time"], 5)
        good = self.report(server, "--slo", "ttft=0.0001", *limits[2:])["goodput"]
        self.assertEqual((good["requests"], good["percent"], good["output_tps"]), (0, 0.0, 0.0))
        self.assertEqual(good["first_tokens_in_time"], 0)
        # Of an answer that breaks off, the first token was in time all the same.
        server = self.serve(behave=lambda index: ("ok", "cut", 503)[index % 3])
        good = self.report(server, "--slo", "ttft=100s", *limits[2:], "--rest", 0)["goodput"]
        self.assertEqual((good["requests"], good["first_tokens_in_time"]), (4, 7))

    def test_cancels(self):
        server = self.serve(pause=0.02)
        report = self.report(server, "--cancel", 100, "--requests", 24, "--concurrency", 8, "--gen-tokens", 40)
        requests = report["requests"]
        self.assertGreater(requests["cancelled"], 0)
        # One whose time had not come when its answer was complete is ok.
        self.assertEqual(requests["cancelled"] + requests["ok"], 24)

    def test_time_is_up(self):
        server = self.serve(behave=lambda index: "hang" if index == 1 else "ok")
        report = self.report(server, "--timeout", 5, "--requests", 3, "--gen-tokens", 2, "--warm-up", 0)
        requests = report["requests"]
        # The others need milliseconds; on a machine that stands still for so long they are lost, too.
        self.assertGreaterEqual(requests["lost"], 1)
        self.assertEqual(requests["lost"] + requests["ok"], 3)
        self.assertEqual(sum(problem["count"] for problem in report["problems"]), requests["lost"])

    def test_table_and_page(self):
        page = self.temp_dir() / "page.html"
        server = self.serve(behave=lambda index: 500 if index == 3 else "ok")
        result = self.bench(server, "--requests", 8, "--gen-tokens", 6, "--html", page, "--slo", "ttft=9s", "--model",
                            "<b>&'\"--><!--<script>")
        self.assertEqual(result.returncode, 0, result.stderr)
        for words in ("8 requests in", "7 ok", "1 failed", "this is a 500", "p99", "first token ms", "goodput"):
            self.assertIn(words, result.stdout)
        text = page.read_text()
        for outside in ("https:", "//cdn", "src=", "href=", "@import", "url("):
            self.assertNotIn(outside, text)
        self.assertEqual(text.count("<script"), 2)
        data = json.loads(text.split('id="data">')[1].split("</script>")[0])
        self.assertEqual(data["requests"]["ok"], 7)
        self.assertEqual(data["ttft_curve"][-1], [data["ttft_ms"]["max"], 100])
        self.assertGreater(len(data["series"]), 0)

    def test_nobody_answers(self):
        server = mock_openai.MockServer()
        url = server.url
        server.stop()
        self.assert_fails(support.run("bench", "serve", url), 1, "[load]", url)
        self.assert_fails(support.run("bench", "serve", url, "--model", "m"), 1, "[load]")
        server = self.serve(behave=lambda index: 400)
        self.assert_fails(self.bench(server), 1, "[load]", "this is a 400")
        server = self.serve(behave=lambda index: 503)
        result = self.bench(server, "--requests", 2, "--rest", 0)
        self.assertEqual(result.returncode, 1)
        self.assertIn("2 rejected", result.stdout)
        self.assertIn("no request was answered", result.stderr)

    def test_wrong_usage(self):
        url = "http://127.0.0.1:9"
        for args, word in (
            ([], "URL"),
            ([url, "--concurrency", "0"], "--concurrency"),
            ([url, "--rate", "nan"], "--rate"),
            ([url, "--rate", "1", "--concurrency", "2"], "--rate"),
            ([url, "--trace", "x", "--rate", "2"], "--trace"),
            ([url, "--time-divisor", "2"], "--trace"),
            ([url, "--endpoint", "rerank"], "--endpoint"),
            ([url, "--slo", "ttft=soon"], "--slo"),
            ([url, "--field", "novalue"], "--field"),
            ([url, "--prompt-ids", "9"], "--endpoint"),
            ([url, "--cancel", "101"], "--cancel"),
        ):
            with self.subTest(args):
                self.assert_fails(support.run("bench", "serve", *args), 2, word)
        self.assert_fails(support.run("bench", "serve", "ftp://example"), 1, "ftp://example")
        self.assert_fails(support.run("bench", "serve", url, "--api-key", "a b"), 1, "key")

    def test_interrupt(self):
        server = self.serve(behave=lambda index: "hang")
        process = support.start("bench", "serve", server.url)
        limit = time.monotonic() + 60
        while not server.requests and time.monotonic() < limit:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out, err), (130, "", "ingot: interrupted\n"))


if __name__ == "__main__":
    support.unittest.main()
