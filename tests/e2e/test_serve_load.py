"""`ingot serve` under load: replay of a published trace, bursts, overload and a soak, on the tiny model.

In short forms; INGOT_LONG=1 runs the long ones (about 45 minutes) and prints what they measured; INGOT_SOAK_SECONDS
makes the soak longer still. Nothing here depends on the machine's speed but the marks of the long forms.
"""
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time

import models
import serving
import support

ALONE = "measures times"  # not beside other modules: tools/run_tests.py

LONG = bool(os.environ.get("INGOT_LONG"))
SOAK_SECONDS = int(os.environ.get("INGOT_SOAK_SECONDS", 1800 if LONG else 24))
VOCAB = 256
TRACE = ("traces", "AzureLLMInferenceTrace_conv.csv")
HEADER = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


def metrics(server):
    """{series: value} of /metrics."""
    answer = server.get("/metrics")
    assert answer.status == 200, answer.body[:500]
    lines = [line.rpartition(" ") for line in answer.body.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


class ServeLoadTest(support.TestCase):
    def serve(self, *args):
        model = models.make_tiny(self.temp_dir() / "tiny", max_position_embeddings=1024)
        server = serving.Server(model, *args)
        self.addCleanup(server.close)
        return server

    def start_load(self, server, *args):
        """`ingot bench serve` in the background: ids of the tiny model's vocabulary, answers of the full length."""
        return self.start_bench(server, "--endpoint", "completions", "--prompt-ids", VOCAB, "--ignore-eos", *args)

    def start_bench(self, server, *args):
        process = support.start("bench", "serve", server.url, "--json", *args)
        for cleanup in (process.stderr.close, process.stdout.close, process.wait, process.kill):  # the last one first
            self.addCleanup(cleanup)
        return process

    def report_of(self, process, timeout=600):
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        self.assertEqual(process.returncode, 0, err)
        return json.loads(out)

    def load(self, server, *args, timeout=600):
        return self.report_of(self.start_load(server, *args), timeout)

    def assert_idle(self, server, seconds=120):
        """All requests end, and every page is free or kept for reuse."""
        names = ("ingot_requests_running", "ingot_requests_waiting", "ingot_requests_in_flight",
                 'ingot_kv_pages{state="used"}')
        limit = time.monotonic() + seconds
        while True:
            now = metrics(server)
            busy = {name: now[name] for name in names if now[name] != 0}
            if not busy:
                return now
            self.assertLess(time.monotonic(), limit, busy)
            time.sleep(0.1)

    def say(self, row, report, **more):
        if LONG:
            keys = ("requests", "seconds", "output_tps", "prompt_tps", "ttft_ms", "gap_ms", "e2e_ms", "reject_ms", "late_ms")
            print(f"row {row}:", json.dumps({**{key: report[key] for key in keys}, **more}), file=sys.stderr, flush=True)

    def test_replay_of_a_conversation_trace(self):
        trace = support.test_data(*TRACE)
        server = self.serve("--max-queue", 4096)
        some = () if LONG else ("--requests", 500)
        report = self.load(server, "--trace", trace, "--length-divisor", 16, "--time-divisor", 6, *some, timeout=1800)
        self.say(27, report)
        requests = report["requests"]
        self.assertEqual(requests["ok"], requests["sent"], report["problems"])
        self.assertEqual(requests["sent"], 19366 if LONG else 500)
        self.assert_idle(server)
        if LONG:
            self.assertLessEqual(report["ttft_ms"]["p99"], max(5 * report["ttft_ms"]["p50"], 250))

    def write_bursts(self, bursts):
        """67 requests of the conversation trace in 1/6 s, then nothing for 3 s, again and again (time is divided by 6)."""
        with open(support.test_data(*TRACE)) as file:
            source = list(csv.reader(file))[1:]
        path = self.temp_dir() / "bursts.csv"
        with open(path, "w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(HEADER)
            for burst in range(bursts):
                for i in range(67):
                    at = 19 * burst + i / 67
                    minutes, seconds = divmod(at, 60)
                    when = f"2023-11-16 {18 + int(minutes) // 60}:{int(minutes) % 60:02}:{seconds:010.7f}"
                    rows.writerow((when, *source[67 * burst + i][1:]))
        return path

    def test_bursts(self):
        bursts = 60 if LONG else 4
        server = self.serve("--parallel", 4, "--max-queue", 16)
        report = self.load(server, "--trace", self.write_bursts(bursts), "--length-divisor", 16, "--time-divisor", 6)
        self.say(28, report)
        requests = report["requests"]
        self.assertEqual(requests["sent"], 67 * bursts)
        # Only "busy" is said no with, and says when to come back.
        self.assertEqual(requests["ok"] + requests["rejected"], requests["sent"], report["problems"])
        self.assertEqual(report["rejected_without_retry_after"], 0)
        self.assertGreater(requests["ok"], 0)
        self.assert_idle(server)
        self.assertEqual(self.load(server, "--requests", 3, "--gen-tokens", 4)["requests"]["ok"], 3)

    def test_overload(self):
        server = self.serve("--parallel", 8, "--max-queue", 16)
        seconds = 60 if LONG else 6
        shape = ("--prompt-tokens", 32, "--gen-tokens", 300, "--duration", seconds)
        peak = self.load(server, "--concurrency", 8, *shape)
        self.say(31, peak)
        report = self.load(server, "--concurrency", 500, *shape)
        self.say(31, report)
        self.assertEqual(peak["requests"]["ok"], peak["requests"]["sent"], peak["problems"])
        requests = report["requests"]
        # Whoever was let in gets the whole answer, the others hear at once that they were not.
        self.assertEqual(requests["ok"] + requests["rejected"], requests["sent"], report["problems"])
        self.assertEqual(report["output_tokens"], 300 * requests["ok"])
        self.assertGreater(requests["ok"], 0)
        self.assertGreater(requests["rejected"], 0)
        self.assertEqual(report["rejected_without_retry_after"], 0)
        self.assertLess(report["reject_ms"]["p50"], 5000)
        if LONG:
            self.assertGreaterEqual(report["output_tps"], 0.9 * peak["output_tps"])
        self.assert_idle(server)

    def bad_requests(self, server, stop, counts, failures):
        """Bad requests, one after the other until `stop`; each must be refused for what it is."""
        good = {"prompt": [5, 6, 7], "max_tokens": 4}
        bad = [
            ("/v1/completions", b'{: "model"', 400),
            ("/v1/completions", {**good, "max_tokens": -1}, 400),
            ("/v1/completions", {**good, "temperature": "hot"}, 400),
            ("/v1/completions", {**good, "prompt": [VOCAB]}, 400),
            ("/v1/completions", {**good, "prompt": [5] * 5000}, 400),
            ("/v1/completions", {**good, "no_such_field": 1}, 400),
            ("/v1/completions", {**good, "logit_bias": {"99999": 1}}, 400),
            ("/v1/chat/completions", {"messages": []}, 400),
            ("/v1/chat/completions", {"messages": [{"role": "nobody", "content": "x"}]}, 400),
            ("/v1/embeddings", {"input": 7}, 400),
            ("/v1/nothing", good, 404),
        ]
        while not stop.is_set():
            path, body, status = bad[counts["bad"] % len(bad)]
            try:
                answer = server.post(path, body)
                # The queue may be full before the body is looked at.
                if answer.status not in (status, 429, 503):
                    failures.append((path, str(body)[:80], answer.status, answer.body[:200]))
            except OSError as error:
                failures.append((path, str(body)[:80], repr(error)))
            counts["bad"] += 1
            stop.wait(0.05)

    def soak(self, server, seconds):
        """Mixed load for so long; the reports and [(seconds, resident bytes)…]."""
        shape = ("--concurrency", 8, "--duration", seconds, "--cancel", 10)
        loads = [
            self.start_load(server, *shape, "--prompt-tokens", 60, "--gen-tokens", 40),
            self.start_load(server, *shape, "--prompt-tokens", 20, "--shared-words", 200, "--gen-tokens", 10,
                            "--seed", 2),
            self.start_bench(server, *shape, "--prompt-tokens", 15, "--gen-tokens", 20, "--seed", 3),
        ]
        stop, counts, failures = threading.Event(), {"bad": 0}, []
        bad = threading.Thread(target=self.bad_requests, args=(server, stop, counts, failures))
        bad.start()
        begin, memory = time.monotonic(), []
        try:
            while any(process.poll() is None for process in loads) and time.monotonic() < begin + 3 * seconds + 300:
                memory.append((time.monotonic() - begin, server.memory()))
                time.sleep(0.5)
        finally:
            stop.set()
            bad.join()
        reports = [self.report_of(process, 60) for process in loads]
        self.assertEqual(failures, [])
        self.assertGreater(counts["bad"], 0)
        return reports, memory

    def test_soak(self):
        shm = pathlib.Path("/dev/shm")
        before_shm = {path.name for path in shm.iterdir()} if shm.exists() else set()
        server = self.serve("--max-queue", 64)
        self.load(server, "--concurrency", 24, "--requests", 48, "--gen-tokens", 20)
        before = self.assert_idle(server)
        reports, memory = self.soak(server, SOAK_SECONDS)
        for report in reports:
            self.say(30, report, problems=report["problems"])
            requests = report["requests"]
            self.assertEqual(requests["failed"] + requests["lost"] + requests["rejected"], 0, report["problems"])
            self.assertGreater(requests["ok"], 0)
            self.assertGreater(requests["cancelled"], 0)
        # The tests' own connections end with their processes, and the server notices.
        limit = time.monotonic() + 120
        names = ("process_open_fds", "process_threads")
        while True:
            after = self.assert_idle(server)
            if all(after[name] <= before[name] for name in names):
                break
            self.assertLess(time.monotonic(), limit, [(name, before[name], after[name]) for name in names])
            time.sleep(0.5)
        self.assertEqual({name for name in os.listdir(shm) if "ingot" in name} - before_shm if shm.exists() else set(), set())
        self.check_memory(memory)
        self.assertTrue(server.alive())

    def check_memory(self, memory):
        """Flat: after a third of the time (pages are touched for the first time) it hardly grows any more."""
        end = memory[-1][0]
        third = [statistics.median(size for at, size in memory if from_ <= at / end < to)
                 for from_, to in ((1 / 3, 1 / 2), (5 / 6, 1))]
        if LONG:
            print("soak: resident MiB", [(round(at), round(size / 2**20, 1)) for at, size in memory[::120]],
                  file=sys.stderr)
        minutes = end * (11 / 12 - 5 / 12) / 60
        # Allocators breathe by a few MiB; a leak of one KiB for each request would be 4 MiB and more in the short form.
        self.assertLessEqual(third[1] - third[0], max(8 * 2**20, minutes / 10 * 2**20), memory[:: max(1, len(memory) // 20)])


if __name__ == "__main__":
    support.unittest.main()
