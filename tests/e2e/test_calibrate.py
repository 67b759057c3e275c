"""`ingot calibrate` and the methods that stand on it: imatrix and gptq."""
import hashlib
import json
import os
import random
import re
import shutil
import signal
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
        quantize = ("quantize", self.stories, out, "--format", "q4_0", "--method", "imatrix", "--stats")
        self.assertIn("no importance matrix", self.refused(*quantize, model))
        self.assertIn("statistics", self.refused("quantize", self.stories, out, "--format", "q8_0", "--method", "gptq",
                                                 "--stats", model))
        self.assertIn("--text", self.refused("quantize", self.stories, out, "--format", "q8_0", "--text", self.text))
        self.assertEqual(support.run("quantize", self.stories, out, "--format", "q8_0", "--method", "magic").returncode, 2)

    def test_gptq_asks_for_enough_text_before_it_writes(self):
        self.text.write_text("Once upon a time there was a girl. " + story(1, 60))
        model = self.folder / "model"
        shutil.copytree(self.stories, model)
        config = model / "config.json"
        config.chmod(0o644)
        config.write_text(json.dumps(json.loads(config.read_text()) | {"max_position_embeddings": 128}))
        before = sorted(self.folder.iterdir())
        for out, form in (("out.gguf", "q4_0"), ("out", "int4")):
            said = self.refused("quantize", model, self.folder / out, "--format", form, "--method", "gptq", "--text",
                                self.text, "--tokens", "128")
            self.assertIn("128 tokens", said)
            self.assertIn("172 columns", said)
            self.assertEqual(sorted(self.folder.iterdir()), before)

    def test_a_method_that_can_change_nothing_is_refused(self):
        before = sorted(self.folder.iterdir())
        cases = [("gptq", "fp8", "d"), ("gptq", "fp8_block", "d"), ("gptq", "bf16", "d"), ("gptq", "f16", "a.gguf"),
                 ("imatrix", "fp8", "d"), ("imatrix", "int8", "d"), ("imatrix", "q8_0", "a.gguf"), ("awq", "f16", "a.gguf")]
        for method, form, out in cases:
            for more in ((), ("--dry-run",)):
                with self.subTest(method=method, form=form, more=more):
                    said = self.refused("quantize", self.stories, self.folder / out, "--format", form, "--method", method,
                                        "--text", self.text, *more)
                    self.assertIn(f"{method} changes nothing in '{form}'", said)
        self.assertEqual(sorted(self.folder.iterdir()), before)

    def test_a_dry_run_foresees_the_passes_over_the_text(self):
        self.text.write_text(story(1, 20000))
        seconds = {}
        for method, tokens in (("rtn", ()), ("imatrix", "20000"), ("gptq", "20000"), ("gptq", "200000")):
            text = ("--text", self.text, "--tokens", tokens) if tokens else ()
            made = self.run_ok("quantize", self.stories, self.folder / "out.gguf", "--format", "q4_0", "--method", method,
                               *text, "--threads", "1", "--dry-run", "--json")
            seconds[method, tokens] = json.loads(made.stdout)["seconds"]
        self.assertGreater(seconds["imatrix", "20000"], 2 * seconds["rtn", ()])
        self.assertGreater(seconds["gptq", "200000"], 3 * seconds["gptq", "20000"])
        self.assertEqual([file.name for file in self.folder.iterdir()], ["text.txt"])

    def test_a_report_that_cannot_be_made_is_told_before_the_work(self):
        stats, out = self.folder / "stats.gguf", self.folder / "out.gguf"
        self.run_ok("calibrate", self.stories, "--text", self.text, "--out", stats)
        other = self.folder / "other.txt"
        other.write_text(story(2, 200))
        before = sorted(self.folder.iterdir())
        common = ("quantize", self.stories, out, "--format", "q4_0", "--pure", "--method", "imatrix", "--stats", stats)
        page = self.folder / "report.html"
        self.assertIn("was gathered from", self.refused(*common, "--report", page, "--report-text", self.text))
        nowhere = self.folder / "nowhere" / "report.html"
        self.assertIn("cannot be written", self.refused(*common, "--report", nowhere, "--report-text", other))
        few = self.folder / "few.txt"
        few.write_text("Too short.")
        self.assertIn("a chunk is 512", self.refused(*common, "--report", page, "--report-text", few))
        few.unlink()
        self.assertEqual(sorted(self.folder.iterdir()), before)
        self.run_ok(*common, "--report", page, "--report-text", other)
        self.assertTrue(page.exists())

    def on_a_terminal(self, *args):
        """The process, and the end of its terminal to read what it says on stderr from."""
        ours, its = os.openpty()
        process = support.start(*args, stdout=subprocess.DEVNULL, stderr=its)
        os.close(its)
        self.addCleanup(os.close, ours)
        return process, ours

    def read_until(self, process, terminal, wanted):
        said = ""
        limit = time.monotonic() + 120
        while not re.search(wanted, said) and time.monotonic() < limit:
            try:
                said += os.read(terminal, 4096).decode(errors="replace")
            except OSError:  # its end is closed
                break
        self.assertRegex(said, wanted)
        return said

    def test_progress_is_shown_and_ctrl_c_heard_while_layers_are_passed(self):
        self.text.write_text(story(1, 20000))
        common = ("--text", self.text, "--tokens", "200000", "--threads", "1")
        stats = self.folder / "stats.gguf"
        process, terminal = self.on_a_terminal("calibrate", self.stories, "--out", stats, *common)
        self.read_until(process, terminal, r"calibrating +\d+ %, \d+:\d\d left")
        process.kill()
        process.wait()
        out = self.folder / "out.gguf"
        process, terminal = self.on_a_terminal("quantize", self.stories, out, "--format", "q4_0", "--pure", "--method",
                                               "imatrix", *common)
        self.read_until(process, terminal, r"calibrating +\d+ %, \d+:\d\d left")
        process.kill()
        process.wait()
        args = ("quantize", self.stories, out, "--format", "q4_0", "--pure", "--method", "gptq", *common)
        process, terminal = self.on_a_terminal(*args)
        said = self.read_until(process, terminal, r"quantizing +\d+ %, \d+:\d\d left")
        self.assertLess(int(re.findall(r"(\d+) %", said)[-1]), 60)
        process.send_signal(signal.SIGINT)
        begun = time.monotonic()
        self.assertEqual(process.wait(timeout=60), 130)
        self.assertLess(time.monotonic() - begun, 20)
        self.assertFalse(out.exists())
        self.assertTrue((self.folder / "out.gguf.gptq").exists())
