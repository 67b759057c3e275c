"""`ingot bench --as-rank R --links FILE`: one rank of several that do not exist, and waits of modelled length."""
import json
import pathlib

import support

ALONE = "measures times"  # not beside other modules: tools/run_tests.py

PUBLISHED = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "links"
WORK = ("--prompt", "12", "--gen", "6", "--repeat", "2", "--device", "cpu", "--threads", "1")


class BenchPaperTest(support.TestCase):
    def setUp(self):
        super().setUp()
        self.directory = self.temp_dir()

    def links(self, latency_us=1.0, gbs=100.0, form="direct", **more):
        path = self.directory / "links.json"
        ranks = {"kind": "wire", "collectives": form, "latency_us": latency_us, "gbs": gbs, **more}
        path.write_text(json.dumps({"name": "a wire", "source": "its maker", "date": "2026-11-19", "ranks": ranks}))
        return path

    def bench(self, *args, shape="tiny", **options):
        return support.run("bench", "--shape", shape, *WORK, *map(str, args), timeout=120, **options)

    def document(self, *args, **options):
        result = self.bench(*args, "--json", **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_what_is_told(self):
        links = self.links()
        found = self.document("--tp", "2", "--as-rank", "0", "--links", links, "--batch", "1,3")
        self.assertIs(found["on_paper"], True)
        self.assertEqual((found["rank"], found["ranks"], found["tp"], found["ep"], found["pp"]), (0, 2, 2, 1, 1))
        self.assertEqual(found["published"]["links"],
                         {"file": str(links), "name": "a wire", "source": "its maker", "date": "2026-11-19",
                          "ranks": {"kind": "wire", "collectives": "direct", "call_us": 0, "latency_us": 1, "gbs": 100},
                          "stages": {"kind": "wire", "call_us": 0, "latency_us": 1, "gbs": 100}})
        self.assertEqual(found["measured"]["machine"]["threads"], 1)
        self.assertGreaterEqual(found["measured"]["sync_us"], 0)
        self.assertEqual([r["batch"] for r in found["results"]], [1, 3])
        for r in found["results"]:
            self.assertIs(r["on_paper"], True)
            self.assertGreater(r["prefill_tps"], 0)
            self.assertGreater(r["decode_tps"], 0)
            decode = r["decode"]
            # Two layers that meet four times, and the logits; steps of a warm engine overlap the moment of the count.
            self.assertAlmostEqual(decode["collectives_of_step"], 9, delta=2)
            self.assertAlmostEqual(decode["steps"], 5, delta=1)
            self.assertGreater(decode["message_bytes_of_step"], 0)
            self.assertGreater(decode["measured_us_of_step"], 0)
            for part in (r["prefill"], decode):
                self.assertAlmostEqual(part["modelled_share"] + part["measured_share"], 1)
        self.assertEqual(found["model"]["architecture"], "llama")

    def test_every_line_says_so(self):
        result = self.bench("--tp", "2", "--as-rank", "1", "--links", self.links(), "--batch", "1,2")
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = result.stdout.splitlines()
        self.assertEqual(len(lines), 7)
        for line in lines:
            self.assertTrue(line.startswith("on paper"), line)
        self.assertIn("a wire (its maker; 2026-11-19): direct, wire, 0 us a call, 1 us a step, 100 GB/s", lines[1])

    def test_ranks_together_have_what_is_cut(self):
        for shape, format, split in (("tiny", "q8_0", ("--tp", 2)), ("tiny", "bf16", ("--tp", 3)),
                                     ("moe-tiny", "q4_0", ("--ep", 2)), ("latent-tiny", "f32", ("--tp", 2)),
                                     ("tiny", "q8_0", ("--tp", 2, "--tp-form", "reduce"))):
            with self.subTest(f"{shape} {format} {split}"):
                every = [self.document("--format", format, *split, "--as-rank", r, "--links", self.links(), shape=shape)
                         for r in range(split[1])]
                cut = [one["rank_bytes"]["cut_weights"] for one in every]
                for one in every:
                    self.assertEqual(one["rank_bytes"]["whole_weights"], every[0]["rank_bytes"]["whole_weights"])
                    self.assertEqual(one["rank_bytes"]["weights"],
                                     one["rank_bytes"]["cut_weights"] + one["rank_bytes"]["whole_weights"])
                    self.assertGreater(one["rank_bytes"]["kv"], 0)
                self.assertGreater(min(cut), 0)
                repeated = 0
                if split == ("--tp", 3):  # two KV heads: one of them, of 16 rows in k and in v, on two ranks
                    repeated = 2 * 2 * 16 * 64 * 2
                bytes_of_all = every[0]["rank_bytes"]["model_weights"] - every[0]["rank_bytes"]["whole_weights"]
                self.assertEqual(sum(cut), bytes_of_all + repeated)

    def test_a_slow_link_is_waited_for(self):
        slow = self.document("--tp", "2", "--as-rank", "0", "--links", self.links(latency_us=10000))["results"][0]
        self.assertGreater(slow["decode"]["modelled_collective_us_of_step"], 7 * 10000)  # nine meetings
        self.assertLess(slow["decode_tps"], 1 / (7 * 1e-2))
        # Of the step that reads twelve rows: 32 floats of each and more, a byte in a microsecond, eight times.
        narrow = self.document("--tp", "2", "--as-rank", "0", "--links", self.links(gbs=0.001))["results"][0]
        self.assertGreater(narrow["prefill"]["modelled_collective_us_of_step"], 4000)

    def test_published_links(self):
        for path in sorted(PUBLISHED.glob("*.json")):
            with self.subTest(path.name):
                found = self.document("--tp", "2", "--as-rank", "1", "--links", path)
                self.assertIn("NVIDIA", found["published"]["links"]["source"])
        self.assertEqual(len(list(PUBLISHED.glob("*.json"))), 3)

    def test_stages(self):
        stage = ("--pp", "2", "--as-rank", "0", "--links")
        fast = self.document(*stage, self.links(), "--batch", "1,4")
        self.assertEqual((fast["ranks"], fast["tp"], fast["pp"]), (2, 1, 2))
        self.assertLess(fast["rank_bytes"]["weights"], fast["rank_bytes"]["model_weights"])
        one = fast["results"][0]["decode"]
        # One seq waits while the stage before does its part, which is taken to be as long.
        self.assertGreater(one["modelled_stages_us_of_step"], 0)
        self.assertEqual(one["collectives_of_step"], 0)
        slow = self.document(*stage, self.links(latency_us=2000))["results"][0]
        self.assertLess(slow["decode_tps"], 1 / 4e-3)  # the message, and the rows
        both = self.document("--tp", "2", "--pp", "2", "--as-rank", "1", "--links", self.links())
        self.assertEqual((both["ranks"], both["tp"], both["pp"]), (4, 2, 2))
        self.assertGreater(both["results"][0]["decode"]["collectives_of_step"], 1)
        self.assert_fails(self.bench("--tp", "2", "--pp", "2", "--as-rank", "2", "--links", self.links()), 1, "0 to 1")
        self.assert_fails(self.bench("--tp", "2", "--pp", "2", "--as-rank", "4", "--links", self.links()), 2, "0 to 3")

    def test_wrong_usage(self):
        links = self.links()
        for args, words in ((("--as-rank", "0", "--links", links), ("--tp",)),
                            (("--tp", "2", "--as-rank", "0"), ("--links",)),
                            (("--tp", "2", "--links", links), ("--as-rank",)),
                            (("--tp", "2", "--as-rank", "2", "--links", links), ("--as-rank 2", "0 to 1")),
                            (("--tp", "2", "--as-rank", "-1", "--links", links), ("--as-rank",)),
                            (("--tp", "2", "--as-rank", "0", "--links", links, "--profile"), ("--profile",)),
                            (("--tp", "2", "--as-rank", "0", "--links", links, "--svg", "x.svg"), ("--svg",)),
                            (("--tp", "2", "--as-rank", "0", "--links", links, "--save", "x.gguf"), ("--save",))):
            with self.subTest(str(args)):
                self.assert_fails(self.bench(*args), 2, *words)

    def test_refusals(self):
        rank = ("--tp", "2", "--as-rank", "0", "--links")
        self.assert_fails(self.bench(*rank, "/nowhere/links.json"), 1, "/nowhere/links.json")
        self.assert_fails(self.bench(*rank, self.links(gbs=-1)), 1, "gbs", "-1")
        self.assert_fails(self.bench(*rank, self.links(latency_us=-5)), 1, "latency_us", "-5")
        self.assert_fails(self.bench(*rank, self.links(form="tree")), 1, "tree", "ring")
        self.links().write_text('{"name": ')
        self.assert_fails(self.bench(*rank, self.directory / "links.json"), 1, "links.json")
        self.assert_fails(self.bench("--tp", "5", "--as-rank", "4", "--links", self.links()), 1, "5 ranks", "4 heads")


if __name__ == "__main__":
    support.unittest.main()
