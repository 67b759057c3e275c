"""`--ttft-target` on a server: who would wait for longer is sent away at once, and nobody where there is a place."""
import json
import re
import time
import unittest

import serving
import support

ALONE = "overloads a server"  # not beside other modules: tools/run_tests.py


class InTime(serving.ToyCase):
    # Two answers at a time, each of which takes longer than the target on any machine.
    ARGS = ("--parallel", "2", "--ttft-target", "2")

    def load(self, *args):
        result = support.run("bench", "serve", self.server.url, "--json", "--endpoint", "completions", "--gen-tokens", 200,
                             "--prompt-tokens", 10, "--ignore-eos", "--slo", "ttft=2", *args, timeout=300)
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(result.stdout)
        for problem in report["problems"]:
            self.assertIn("status 503: the first token would come later", problem["what"])
        self.assertEqual(report["requests"]["ok"] + report["requests"]["rejected"], report["requests"]["sent"])
        return report

    def late(self):
        found = re.search(r'^ingot_rejected_total{reason="late"} (\d+)$', self.server.get("/metrics").body.decode(), re.M)
        return int(found[1])

    def test_under_overload_and_after_it(self):
        calm = ("--concurrency", 1, "--requests", 10)
        self.assertEqual(self.load(*calm)["requests"]["rejected"], 0)
        self.assertEqual(self.late(), 0)
        report = self.load("--concurrency", 5, "--duration", 3, "--rest", 0)
        self.assertGreater(report["requests"]["ok"], 0)
        self.assertGreater(report["requests"]["rejected"], 0)
        self.assertEqual(report["rejected"]["503"], report["requests"]["rejected"])
        self.assertEqual(report["rejected_without_retry_after"], 0)
        self.assertGreaterEqual(self.late(), report["requests"]["rejected"])
        # Two at once on the idle server, which come before a step has ended: how it was says nothing of how it is.
        deadline = time.monotonic() + 30
        while True:
            answer = self.server.post("/v1/completions", {"prompt": ["a", "b"], "max_tokens": 4})
            if answer.status == 200 or time.monotonic() > deadline:
                break
            time.sleep(float(answer.headers["retry-after"]))  # the last answers of the load had not ended yet
        self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual(self.load(*calm)["requests"]["rejected"], 0)


if __name__ == "__main__":
    unittest.main()
