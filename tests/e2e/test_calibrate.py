"""`ingot calibrate` and the methods that stand on it: imatrix and gptq."""
import hashlib
import json
import random
import subprocess
import time

import support


def story(seed, sentences):
    """Plain sentences of a small vocabulary, as the model's own."""
    chance = random.Random(seed)
    pick = chance.choice
    text = []
    for _ in range(sentences):
        who, what = pick(["Lily", "Tom", "The dog", "A big bear", "Her mom"]), pick(["ball", "tree", "cake", "boat", "bird"])
        text.append(pick([f"{who} saw a {pick(['red', 'big', 'little'])} {what}. ", f"One day, {who.lower()} wanted to play. ",
                          f'"I like the {what}," said {who}. ', f"{who} was very happy and went home with the {what}. "]))
    return "".join(text)


class CalibrateTest(support.TestCase):
    def setUp(self):
        super().setUp()
        self.folder = self.temp_dir()
        self.stories = support.test_data("models", "stories260K")
        self.text = self.folder / "text.txt"
        self.text.write_text("Once upon a time there was a girl. " + story(1, 400))

    def run_ok(self, *args):
        result = support.run(*args)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def perplexity(self, model):
        text = self.folder / "other.txt"
        text.write_text(story(2, 200))
        result = self.run_ok("eval", "ppl", model, "--text", text, "--chunk-tokens", "256", "--chunks", "4", "--json")
        return json.loads(result.stdout)["perplexity"]

    def refused(self, *args):
        result = support.run(*args)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)
        return result.stderr

    def test_statistics_go_into_a_smaller_model(self):
        stats = self.folder / "stats.gguf"
        made = json.loads(self.run_ok("calibrate", self.stories, "--text", self.text, "--out", stats, "--json").stdout)
        self.assertEqual(made["tensors"], 36)  # seven of each layer, and the head
        self.assertEqual(made["tokens"] % made["chunks"], 0)
        by_stats, by_text = self.folder / "a.gguf", self.folder / "b.gguf"
        common = ("--format", "q4_0", "--pure", "--method", "imatrix")
        self.run_ok("quantize", self.stories, by_stats, *common, "--stats", stats)
        self.run_ok("quantize", self.stories, by_text, *common, "--text", self.text)
        self.assertLess(abs(self.perplexity(by_stats) / self.perplexity(by_text) - 1), 1e-6)
        self.assertEqual(sorted(f.name for f in self.folder.iterdir()),
                         ["a.gguf", "b.gguf", "other.txt", "stats.gguf", "text.txt"])

    def test_gptq_goes_on_after_kills(self):
        plain, want, out = (self.folder / name for name in ("plain.gguf", "want.gguf", "out.gguf"))
        args = ("--format", "q4_0", "--pure", "--method", "gptq", "--text", str(self.text))
        self.run_ok("quantize", self.stories, plain, "--format", "q4_0", "--pure")
        begun = time.monotonic()
        self.run_ok("quantize", self.stories, want, *args, "--threads", "1")
        whole = time.monotonic() - begun
        chance = random.Random(3)
        for _ in range(8):
            process = support.start("quantize", self.stories, out, *args, "--threads", "2", stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL)
            time.sleep(chance.uniform(0, whole))
            process.kill()
            process.wait()
            if out.exists():
                break
        if not out.exists():
            self.run_ok("quantize", self.stories, out, *args, "--threads", "3")
        digests = {hashlib.sha256(file.read_bytes()).hexdigest() for file in (want, out)}
        self.assertEqual(len(digests), 1)
        self.assertEqual([f.name for f in self.folder.iterdir() if ".gptq" in f.name], [])
        best = self.perplexity(self.stories)
        self.assertLess(self.perplexity(want) - best, self.perplexity(plain) - best)

    def test_gptq_writes_a_directory(self):
        out = self.folder / "int4"
        self.run_ok("quantize", self.stories, out, "--format", "int4", "--method", "gptq", "--text", self.text)
        self.assertLess(self.perplexity(out) / self.perplexity(self.stories), 1.4)

    def test_bad_input_is_told_in_one_line(self):
        out = self.folder / "out.gguf"
        self.text.write_text("Too short.")
        self.assertIn("tokens", self.refused("calibrate", self.stories, "--text", self.text, "--out", out))
        model = support.test_data("models", "stories260K", "stories260K.gguf")
        quantize = ("quantize", self.stories, out, "--format", "q8_0", "--method", "imatrix", "--stats")
        self.assertIn("no importance matrix", self.refused(*quantize, model))
        self.assertIn("statistics", self.refused("quantize", self.stories, out, "--format", "q8_0", "--method", "gptq",
                                                 "--stats", model))
        self.assertIn("--text", self.refused("quantize", self.stories, out, "--format", "q8_0", "--text", self.text))
        self.assertEqual(support.run("quantize", self.stories, out, "--format", "q8_0", "--method", "magic").returncode, 2)
