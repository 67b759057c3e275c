"""`ingot bench trace`: small traces through the engine on a tiny shape; the report's numbers agree with each other."""
import json
import signal
import time

import support

ALONE = "measures times"  # not beside other modules: tools/run_tests.py

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


def azure(requests):
    """Requests are (seconds, prompt, output)."""
    return HEADER + "".join(f"2023-11-16 18:{int(s) // 60:02}:{s % 60:010.7f},{p},{o}\n" for s, p, o in requests)


def mooncake(requests):
    """Requests are (milliseconds, prompt, output, ids)."""
    keys = ("timestamp", "input_length", "output_length", "hash_ids")
    return "".join(json.dumps(dict(zip(keys, request))) + "\n" for request in requests)


class BenchTraceTest(support.TestCase):
    def setUp(self):
        super().setUp()
        self.directory = self.temp_dir()

    def write(self, text, name="trace"):
        path = self.directory / name
        path.write_text(text)
        return path

    def bench(self, text, *args, name="trace"):
        return support.run("bench", "trace", self.write(text, name), "--shape", "tiny", "--threads", "1", *args)

    def report(self, text, *args):
        result = self.bench(text, "--json", *args)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def assert_consistent(self, got):
        requests = got["requests"]
        self.assertEqual(requests["sent"], sum(requests[k] for k in ("finished", "busy", "refused", "failed")))
        self.assertEqual(requests["failed"], 0)
        for key in ("ttft_ms", "gap_ms", "e2e_ms", "request_tps", "total_tps"):
            spread = got[key]
            order = [spread[p] for p in ("p1", "p10", "p50", "p90", "p95", "p99", "max")]
            self.assertEqual(order, sorted(order), key)
            self.assertLessEqual(spread["mean"], spread["max"], key)
        self.assertEqual(got["ttft_ms"]["count"], requests["finished"])
        self.assertEqual(got["gap_ms"]["count"], got["output_tokens"] - requests["finished"])
        self.assertLessEqual(got["ttft_ms"]["max"], got["e2e_ms"]["max"])
        self.assertLessEqual(got["e2e_ms"]["max"], 1e3 * got["seconds"])
        self.assertAlmostEqual(got["output_tps"] * got["seconds"], got["output_tokens"], delta=0.01)
        self.assertAlmostEqual(
            got["prefix"]["hit_percent"] * got["prompt_tokens"] / 100, got["prefix"]["reused_tokens"], delta=0.01)
        self.assertGreater(len(got["series"]), 0)
        self.assertLessEqual(len(got["series"]), 1024)
        for sample in got["series"]:
            self.assertLessEqual(sample["held_pages"] + sample["cached_pages"], got["engine"]["pages"])
            self.assertLessEqual(sample["running"], got["engine"]["seqs"])
        self.assertEqual(got["series"][-1]["running"] + got["series"][-1]["waiting"], 0)

    def test_azure(self):
        requests = [(0.0, 320, 160), (0.5, 1600, 32), (1.0, 15, 0), (3.0, 48, 47)]
        begun = time.monotonic()
        got = self.report(azure(requests))
        self.assertGreaterEqual(time.monotonic() - begun, 0.5)  # 3 s, six times faster
        self.assert_consistent(got)
        self.assertEqual(got["trace"]["kind"], "azure")
        self.assertEqual(got["requests"]["finished"], 4)
        self.assertEqual(got["prompt_tokens"], 20 + 100 + 1 + 3)
        self.assertEqual(got["output_tokens"], 10 + 2 + 1 + 2)
        self.assertGreaterEqual(got["seconds"], 0.5)
        self.assertEqual(got["prefix"]["reused_tokens"], 0)
        self.assertEqual(got["prefix"]["ideal_percent"], 0)
        self.assertIsNone(got["gap_target_ms"])

    def test_limit_and_table(self):
        requests = [(0.0, 64, 64), (0.1, 64, 64), (90.0, 64, 64)]
        result = self.bench(azure(requests), "--limit", "2", "--gap-ms", "50")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, "")
        for words in ("2 requests of azure", "2 finished, 0 busy", "first token ms", "gap between tokens ms", "p99",
                      "prefix ", "preempted", "over the target of 50 ms"):
            self.assertIn(words, result.stdout)

    def test_equal_blocks_are_prefix_hits(self):
        # A block of 512 tokens is 64 rows, a page. The second shares two blocks, the third has the first's prompt, of
        # which the last page is computed again for its last row; the fourth's block comes too late to be a prefix.
        requests = [(0, 1536, 32, [1, 2, 3]), (6000, 1536, 32, [1, 2, 9]), (9000, 1536, 32, [1, 2, 3]),
                    (12000, 1024, 32, [7, 2])]
        got = self.report(mooncake(requests), "--length-divisor", "8")
        self.assert_consistent(got)
        self.assertEqual(got["trace"]["kind"], "mooncake")
        self.assertEqual(got["prefix"]["reused_tokens"], 128 + 128)
        self.assertAlmostEqual(got["prefix"]["ideal_percent"], 100 * (128 + 191) / (3 * 192 + 128))
        # Smaller pages lose less.
        finer = self.report(mooncake(requests), "--length-divisor", "8", "--page-rows", "16")
        self.assertEqual(finer["prefix"]["reused_tokens"], 128 + 176)

    def test_too_long_requests_are_refused(self):
        got = self.report(azure([(0.0, 400, 10), (0.0, 600, 10), (0.0, 500, 40)]), "--length-divisor", "1")
        self.assertEqual((got["requests"]["finished"], got["requests"]["refused"]), (2, 1))
        self.assertEqual(got["output_tokens"], 10 + 12)  # the context of 512 cuts the last one short
        self.assert_consistent(got)

    def test_busy(self):
        got = self.report(azure([(0.0, 1600, 1600)] * 30), "--seqs", "1", "--max-waiting", "1")
        self.assertGreater(got["requests"]["busy"], 0)
        self.assertGreater(got["requests"]["finished"], 0)
        self.assert_consistent(got)

    def test_goodput(self):
        requests = azure([(0.0, 160, 160)] * 4)
        self.assertIsNone(self.report(requests)["goodput"])
        got = self.report(requests, "--slo", "ttft=100s")
        self.assert_consistent(got)
        self.assertEqual((got["goodput"]["requests"], got["goodput"]["percent"]), (4, 100))
        self.assertEqual(got["goodput"]["ttft_ms"], 100e3)
        self.assertEqual(self.report(requests, "--slo", "ttft=0.000001")["goodput"]["requests"], 0)
        self.assert_fails(self.bench(requests, "--slo", "soon"), 2, "--slo", "soon")

    def test_who_would_be_late_is_sent_away(self):
        # A prompt of 200 rows takes milliseconds: after the first of them nobody else is let in.
        requests = azure([(0.0, 3200, 16)] * 100)
        got = self.report(requests, "--ttft-target", "0.001")
        self.assert_consistent(got)
        self.assertGreater(got["requests"]["finished"], 0)
        self.assertGreater(got["late"], 0)
        self.assertEqual(got["late"], got["requests"]["busy"])
        self.assertEqual((got["ttft_target_ms"], got["goodput"]["ttft_ms"]), (0.001, 0.001))
        plain = self.report(requests)
        self.assertEqual((plain["requests"]["busy"], plain["late"], plain["ttft_target_ms"]), (0, 0, None))
        self.assertIn("late ", self.bench(requests, "--ttft-target", "1").stdout)

    def test_few_pages_preempt_and_all_finish(self):
        # Six pages of 16 KiB; a request needs four in the end.
        got = self.report(azure([(0.0, 1600, 1600)] * 8), "--seqs", "4", "--kv-memory", "96K")
        self.assertEqual(got["engine"]["pages"], 6)
        self.assertEqual(got["requests"]["finished"], 8)
        self.assertGreater(got["engine"]["preempted"], 0)
        self.assert_consistent(got)

    def test_page(self):
        page = self.directory / "page.html"
        # The name would end the script, were it not escaped.
        got = self.bench(azure([(0.0, 160, 160), (0.1, 320, 80)]), "--html", page, "--json", "--gap-ms", "20",
                         name="<b>&'\"--><!--<script>")
        self.assertEqual(got.returncode, 0, got.stderr)
        text = page.read_text()
        for outside in ("http:", "https:", "//cdn", "src=", "href=", "@import", "url("):
            self.assertNotIn(outside, text)
        self.assertIn("prefers-color-scheme: dark", text)
        self.assertEqual(text.count("<script"), 2)
        self.assertEqual(text.count("</script>"), 2)
        data = json.loads(text.split('id="data">')[1].split("</script>")[0])
        report = json.loads(got.stdout)
        self.assertEqual({key: data[key] for key in report}, report)
        for key in ("ttft_curve", "gap_curve"):
            self.assertEqual(data[key], sorted(data[key]), key)
            self.assertEqual(data[key][-1], [report[key.replace("_curve", "_ms")]["max"], 100])

    def test_bad_files(self):
        good = azure([(0.0, 16, 16)])
        for text, words in (
            ("", ["empty"]),
            ("Dear diary,\n", ["line 1", "header"]),
            (HEADER, ["no requests"]),
            (good + "2023-11-16 18:15:46,12\n", ["line 3", "three fields"]),
            (good + "2023-11-16 18:15:46,12,-4\n", ["line 3", "GeneratedTokens", "-4"]),
            (good + "yesterday,12,4\n", ["line 3", "yesterday"]),
            ('{"timestamp": 0, "input_length": 4}\n', ["line 1", "output_length"]),
            ('{"timestamp": 0, "input_length": 9999, "output_length": 1, "hash_ids": [1]}\n', ["line 1", "hash_ids"]),
        ):
            with self.subTest(text):
                self.assert_fails(self.bench(text, "--json"), 1, "[trace]", *words)
        missing = self.directory / "none.csv"
        self.assert_fails(support.run("bench", "trace", missing, "--shape", "tiny"), 1, "none.csv")
        self.assert_fails(self.bench(good, "--html", self.directory / "no" / "page.html"), 1, "page.html")
        self.assert_fails(self.bench(good, "--kv-memory", "1K"), 1, "[kv]", "1024")

    def test_wrong_usage(self):
        good = azure([(0.0, 16, 16)])
        self.assert_fails(support.run("bench", "trace"), 2, "FILE")
        self.assert_fails(support.run("bench", "--shape", "tiny", "--seqs", "2"), 2, "--seqs")
        self.assert_fails(self.bench(good, "--batch", "2"), 2, "--batch", "bench trace --help")
        self.assert_fails(support.run("bench", "--threads", "1", "trace", self.write(good)), 2, "--threads", "trace")
        for option, value in (("--length-divisor", "0"), ("--time-divisor", "0"), ("--time-divisor", "nan"),
                              ("--limit", "0"), ("--kv-memory", "much"), ("--kv-memory", "99999999999G"),
                              ("--seqs", "0"), ("--max-waiting", "0"), ("--gap-ms", "-1"), ("--page-rows", "0"),
                              ("--page-rows", "17")):
            with self.subTest(option=option, value=value):
                self.assert_fails(self.bench(good, option, value), 2, option)

    def test_the_old_spelling_works_and_names_the_new_one(self):
        result = support.run("bench", "--shape", "tiny", "--trace", self.write(azure([(0.0, 64, 64)])), "--threads", "1",
                             "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(result.stdout)["requests"]["finished"], 1)
        self.assertEqual(len(result.stderr.splitlines()), 1)
        self.assertIn("bench trace FILE", result.stderr)

    def wait_until_caught(self, process, number):
        """Until it has a handler of this signal."""
        deadline = time.monotonic() + 120
        while True:
            with open(f"/proc/{process.pid}/status") as file:
                caught = next(int(line.split()[1], 16) for line in file if line.startswith("SigCgt:"))
            if caught >> (number - 1) & 1:
                return
            self.assertLess(time.monotonic(), deadline, "it does not catch the signal")
            time.sleep(0.05)

    def test_interrupt(self):
        path = self.write(azure([(0.0, 160, 160), (3000.0, 160, 160)]))
        process = support.start("bench", "trace", path, "--shape", "tiny")
        self.wait_until_caught(process, signal.SIGINT)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        self.assertEqual((process.returncode, out, err), (130, "", "ingot: interrupted\n"))


if __name__ == "__main__":
    support.unittest.main()
