"""What a server tells of its ranks and stages: `ingot serve --tp 2`, `--pp 2`, both, and both engines of `--dp 2`."""
import shutil
import tempfile

import serving
import support
from test_serve_probes import series

MODEL = support.DATA / "models/stories260K/stories260K.gguf"
QUESTION = {"prompt": "Once upon a time", "max_tokens": 40, "temperature": 0, "ignore_eos": True}
COUNTERS = ("steps_total", "step_seconds_total", "wait_seconds_total", "collective_seconds_total")


class Ranks(support.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="ingot-e2e-")  # there its servers are nobody: opened_to_nobody()
        cls.addClassCleanup(folder.cleanup)
        cls.model = shutil.copy(MODEL, folder.name)

    def counted(self, *options, threads=2):
        """{(engine, rank): {counter: value}}, the bytes by kind, and the ranks of /v1/engine, after some answers."""
        with serving.Server(self.model, "--threads", str(threads), *options) as server:
            if support.nobody()[0]:
                self.assertEqual(set(support.status_of(server.pid)["Uid"].split()), {str(support.NOBODY)})
            answers = [server.post("/v1/completions", {**QUESTION, "n": 4}) for _ in range(2)]
            self.assertEqual([answer.status for answer in answers], [200, 200])
            found = series(server.get("/metrics").body.decode())
            told = server.get("/v1/engine").json()["ranks"]
        self.assertEqual(found.get("ingot_ranks_alive", 0), len(told))
        numbers, sent = {}, {}
        for one in told:
            labels = f'engine="{one["engine"]}",rank="{one["rank"]}"'
            self.assertEqual(found[f'ingot_rank_alive{{{labels},host=""}}'], 1)
            self.assertIs(one["alive"], True)
            key = one["engine"], one["rank"]
            numbers[key] = {name: found[f"ingot_rank_{name}{{{labels}}}"] for name in COUNTERS}
            sent[key] = one["sent_bytes"]
            for kind, value in one["sent_bytes"].items():
                self.assertLessEqual(found[f'ingot_rank_sent_bytes_total{{{labels},kind="{kind}"}}'], value)
            self.assertGreaterEqual(one["step_seconds"], one["collective_seconds"])
        return numbers, sent

    def test_ranks(self):
        numbers, sent = self.counted("--tp", "2")
        self.assertEqual(list(numbers), [(0, 0), (0, 1)])
        self.assertAlmostEqual(numbers[0, 0]["steps_total"], numbers[0, 1]["steps_total"], delta=1)
        for key, one in numbers.items():
            self.assertGreaterEqual(one["steps_total"], 80)
            self.assertGreater(one["step_seconds_total"], one["collective_seconds_total"])
            self.assertGreater(one["collective_seconds_total"], 0)
            self.assertGreater(sent[key]["all_gather"], 0)
        self.assertIn("gather", sent[0, 1])      # its logits
        self.assertNotIn("gather", sent[0, 0])   # which rank 0 keeps
        self.assertIn("message", sent[0, 0])     # the steps

    def test_stages(self):
        numbers, sent = self.counted("--pp", "2")
        self.assertEqual(list(numbers), [(0, 0), (0, 1)])
        for key, one in numbers.items():
            self.assertGreaterEqual(one["steps_total"], 80)
            self.assertEqual(one["collective_seconds_total"], 0)
            self.assertEqual(list(sent[key]), ["message"])
        self.assertGreater(numbers[0, 0]["wait_seconds_total"], 0)  # for the rows of the stage before

    def test_stages_of_ranks(self):
        numbers, sent = self.counted("--tp", "2", "--pp", "2", threads=4)
        self.assertEqual(list(numbers), [(0, rank) for rank in range(4)])
        for key, one in numbers.items():
            self.assertGreaterEqual(one["steps_total"], 80)
            self.assertGreater(one["collective_seconds_total"], 0)
            self.assertGreater(sent[key]["all_gather"], 0)
        self.assertEqual([rank for (_, rank), kinds in sent.items() if "gather" in kinds], [1])  # logits, to rank 0

    def test_engines(self):
        numbers, _ = self.counted("--dp", "2", "--tp", "2", threads=4)
        self.assertEqual(list(numbers), [(0, 0), (0, 1), (1, 0), (1, 1)])

    def test_one_rank_is_not_told(self):
        self.assertEqual(self.counted(), ({}, {}))


if __name__ == "__main__":
    serving.unittest.main()
