"""`ingot eval`, `bench` and `inspect`: the JSON documents of the contract, on tiny checkpoints."""
import array
import json
import math
import shutil

import models
import support


class LogitsTest(support.TestCase):
    def logits(self, name, *args):
        expected = json.loads((models.checkpoint(name) / "expected.json").read_text())
        ids = ",".join(map(str, expected["token_ids"]))
        result = support.run("eval", "logits", models.checkpoint(name), "--ids", ids, "--json", *args)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout), expected

    def test_equals_the_reference(self):
        for args in ([], ["--ref"], ["--chunk", "7", "--no-fuse", "all", "--threads", "2"]):
            got, expected = self.logits("gemma2", "--hidden", *args)
            self.assertEqual(got["argmax"], expected["argmax"])
            for a, b in zip(got["logsumexp"], expected["logsumexp"], strict=True):
                self.assertAlmostEqual(a, b, delta=1e-3)
            self.assertEqual(len(got["hidden"]), len(expected["hidden"]))
            for layer, wanted in zip(got["hidden"], expected["hidden"], strict=True):
                self.assertEqual(len(layer), len(expected["token_ids"]))
                largest = max(abs(v) for v in wanted[2])
                for a, b in zip(layer[-1], wanted[2], strict=True):
                    self.assertAlmostEqual(a, b, delta=1e-3 * largest)

    def test_half_precision_cache_is_close(self):
        got, expected = self.logits("llama", "--kv", "f16")
        for a, b in zip(got["logits_last"], expected["logits_last"], strict=True):
            self.assertAlmostEqual(a, b, delta=2e-2)

    def test_bad_ids(self):
        model = models.checkpoint("llama")
        self.assert_fails(support.run("eval", "logits", model, "--ids", "1,999"), 1, "token 999")
        self.assert_fails(support.run("eval", "logits", model, "--ids", "1,x"), 2, "--ids")
        self.assert_fails(support.run("eval", "logits", model, "--ids", ""), 2, "--ids")
        self.assert_fails(support.run("eval", "logits", model, "--ids", "1", "--no-fuse", "nonsense"), 1, "nonsense")
        self.assert_fails(support.run("eval", "logits", model, "--ids", "1", "--kv", "q2"), 2, "--kv", "q2")


class TextTest(support.TestCase):
    def setUp(self):
        super().setUp()
        self.directory = self.temp_dir()
        self.model = models.make_tiny(self.directory / "tiny")

    def test_perplexity(self):
        text = self.directory / "text"
        text.write_text("The quick brown fox jumps over the lazy dog. " * 20)
        result = support.run("eval", "ppl", self.model, "--text", text, "--chunks", "3", "--chunk-tokens", "64", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        got = json.loads(result.stdout)
        self.assertEqual(len(got["chunk_nll"]), 3)
        self.assertEqual(got["tokens"], 3 * 31)
        self.assertAlmostEqual(got["perplexity"], math.exp(sum(got["chunk_nll"]) / got["tokens"]), places=6)
        text.write_text("short")
        self.assert_fails(support.run("eval", "ppl", self.model, "--text", text), 1, "tokens")

    def test_task(self):
        data = self.directory / "task.jsonl"
        items = [{"query": f"Question {i}", "choices": ["yes", "no", "perhaps"], "gold": i % 3} for i in range(6)]
        data.write_text("".join(json.dumps(item) + "\n" for item in items))
        result = support.run("eval", "task", self.model, "--task", "arc_easy", "--data", data, "--limit", "5", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        got = json.loads(result.stdout)
        self.assertEqual(got["n"], 5)
        self.assertTrue(0 <= got["accuracy"] <= 1 and 0 <= got["accuracy_norm"] <= 1)
        self.assertAlmostEqual(got["accuracy_error"], math.sqrt(got["accuracy"] * (1 - got["accuracy"]) / 5), places=12)
        data.write_text('{"query": "x", "choices": ["a"], "gold": 4}\n')
        self.assert_fails(support.run("eval", "task", self.model, "--task", "piqa", "--data", data), 1, "gold")
        self.assert_fails(support.run("eval", "task", self.model, "--task", "nonsense", "--data", data), 1, "nonsense")
        packed = self.directory / "task.bz2"
        self.assert_fails(support.run("eval", "task", self.model, "--task", "piqa", "--data", packed), 1, "task.bz2")
        packed.write_text("no archive")
        self.assert_fails(support.run("eval", "task", self.model, "--task", "piqa", "--data", packed), 1, "task.bz2")


class CompareTest(support.TestCase):
    """`eval compare`: models of random weights, of which one is the teacher's own."""

    def setUp(self):
        super().setUp()
        self.directory = self.temp_dir()
        self.teacher = models.make_tiny(self.directory / "teacher")
        self.text = self.directory / "text"
        self.text.write_text("The quick brown fox jumps over the lazy dog. " * 20)

    def compare(self, *args):
        return support.run("eval", "compare", *args, "--text", self.text, "--chunks", "3", "--chunk-tokens", "64")

    def test_report(self):
        same = models.make_tiny(self.directory / "same")
        shutil.copy(self.teacher / "model.safetensors", same / "model.safetensors")
        other = self.other(self.directory / "other")
        page = self.directory / "report.html"
        result = self.compare(self.teacher, same, other, "--html", page, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        got = json.loads(result.stdout)
        self.assertEqual(json.loads(page.read_text().split('id="data">')[1].split("</script>")[0]), got)
        self.assertEqual(got["tokens"], 3 * 31)
        teacher, (equal, away) = got["teacher"], got["models"]
        self.assertEqual((equal["kld"], equal["kld_max"], equal["top1"]), (0, 0, 1))
        self.assertEqual(equal["perplexity"], teacher["perplexity"])
        self.assertGreater(away["kld"], 0)
        self.assertLess(away["top1"], 1)
        self.assertTrue(equal["on_front"] and not away["on_front"])
        for row in (teacher, equal, away):
            for key in ("bytes", "bits", "perplexity", "prefill_tps", "decode_tps"):
                self.assertGreater(row[key], 0, key)
        for row in (equal, away):
            self.assertAlmostEqual(row["kld"], sum(row["chunk_kld"]) / 3, places=9)
            self.assertLessEqual(row["kld_median"], row["kld_p99"])
            self.assertLessEqual(row["kld_p99"], row["kld_max"])
        # The same perplexity as `eval ppl` tells.
        alone = support.run("eval", "ppl", other, "--text", self.text, "--chunks", "3", "--chunk-tokens", "64", "--json")
        self.assertAlmostEqual(json.loads(alone.stdout)["perplexity"] / away["perplexity"], 1, places=5)

    def test_report_of_quantize(self):
        out, page = self.directory / "small.gguf", self.directory / "report.html"
        self.text.write_text("The quick brown fox jumps over the lazy dog. " * 40)
        args = ("quantize", self.teacher, out, "--format", "q4_0", "--json")
        result = support.run(*args, "--report", page, "--report-text", self.text)
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(result.stdout)["report"]
        self.assertGreater(report["models"][0]["kld"], 0)
        self.assertLess(report["models"][0]["bytes"], report["teacher"]["bytes"])
        self.assertEqual(json.loads(page.read_text().split('id="data">')[1].split("</script>")[0]), report)
        worst = report["models"][0]["worst_tensors"]
        self.assertEqual({t["format"] for t in worst["tensors"]}, {"q4_0"})
        self.assertTrue(all(0.001 < t["error"] < 0.1 for t in worst["tensors"]), worst)
        self.assert_fails(support.run(*args, "--report", page), 2, "--report-text")

    def planted(self):
        """The teacher with one of its matrices halved."""
        path = models.make_tiny(self.directory / "planted")
        file = path / "model.safetensors"
        data = bytearray(file.read_bytes())
        size = 8 + int.from_bytes(data[:8], "little")
        name = "model.layers.1.mlp.down_proj.weight"
        entry = json.loads(data[8:size])[name]
        self.assertEqual(entry["dtype"], "F32")
        begin, end = (size + offset for offset in entry["data_offsets"])
        values = array.array("f", bytes(data[begin:end]))
        data[begin:end] = array.array("f", [v / 2 for v in values]).tobytes()
        file.write_bytes(data)
        return path, name

    def folded(self):
        """A model that says it was made with awq."""
        path = self.other(self.directory / "folded")
        config = json.loads((path / "config.json").read_text())
        config["ingot_quantize"] = {"recipe": json.dumps({"format": "int4", "method": "awq"})}
        (path / "config.json").write_text(json.dumps(config))
        return path

    def test_worst_tensors(self):
        planted, name = self.planted()
        page = self.directory / "report.html"
        args = (self.teacher, planted, self.folded(), "--no-speed", "--html", page)
        result = self.compare(*args, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        got = json.loads(result.stdout)
        worst, skipped = (model["worst_tensors"] for model in got["models"])
        self.assertEqual(worst["tensors"], [{"name": name, "format": "f32", "bits": 32.0, "error": 0.25}])
        self.assertEqual((worst["compared"], worst["alone"]), (2 * 7 + 2, 0))
        self.assertEqual(skipped["tensors"], [])
        self.assertIn("--method awq", skipped["skipped"])
        self.assertNotIn("worst_tensors", got["teacher"])
        self.assertIn(name, page.read_text())
        self.assertIn("Worst tensors of", page.read_text())
        text = self.compare(*args).stdout.splitlines()
        at = next(i for i, line in enumerate(text) if line.startswith("worst tensors of planted, of 16"))
        self.assertEqual(text[at + 1].split(), [name, "f32", "32.00", "0.25"])
        self.assertIn("worst tensors of folded: not told: made with --method awq", text[at + 2])

    def task(self, name, count=6):
        path = self.directory / name
        items = [{"query": f"Question {i}", "choices": ["yes", "no", "perhaps"], "gold": i % 3} for i in range(count)]
        path.write_text("".join(json.dumps(item) + "\n" for item in items))
        return path

    def test_tasks(self):
        same = models.make_tiny(self.directory / "same")
        other = self.other(self.directory / "other")
        page = self.directory / "report.html"
        one, two = self.task("one.jsonl"), self.task("two.jsonl", 3)
        args = (self.teacher, same, other, "--no-speed", "--task", f"arc_easy={one}", "--task", f"piqa={two}", "--limit",
                "4", "--html", page)
        result = self.compare(*args, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        got = json.loads(result.stdout)
        self.assertEqual(json.loads(page.read_text().split('id="data">')[1].split("</script>")[0]), got)
        for row, path in zip((got["teacher"], *got["models"]), (self.teacher, same, other), strict=True):
            self.assertEqual([(t["task"], t["n"]) for t in row["tasks"]], [("arc_easy", 4), ("piqa", 3)])
            for task, data in zip(row["tasks"], (one, two), strict=True):
                # The same as `eval task` tells of the model alone.
                alone = support.run("eval", "task", path, "--task", task["task"], "--data", data, "--limit", "4", "--json")
                self.assertEqual(json.loads(alone.stdout), task)
                for key in ("accuracy", "accuracy_norm"):
                    self.assertAlmostEqual(task[f"{key}_error"], math.sqrt(task[key] * (1 - task[key]) / task["n"]),
                                           places=12)
        self.assertEqual(got["teacher"]["tasks"], got["models"][0]["tasks"])
        head, *rows = self.compare(*args).stdout.splitlines()[:4]
        self.assertEqual(head.split()[-2:], ["arc_easy", "piqa"])
        for row, model in zip(rows, (got["teacher"], *got["models"]), strict=True):
            cells = [f"{100 * t['accuracy']:.2f} ± {100 * t['accuracy_error']:.2f}%" for t in model["tasks"]]
            self.assertEqual(" ".join(row.split()[-6:]), " ".join(cells))
        # A question may be longer than a chunk, but not than the context.
        two.write_text(json.dumps({"query": "a" * 100, "choices": ["yes", "no"], "gold": 0}) + "\n")
        self.assertEqual(self.compare(*args).returncode, 0)
        two.write_text(json.dumps({"query": "a" * 1000, "choices": ["yes", "no"], "gold": 0}) + "\n")
        self.assert_fails(self.compare(*args), 1, "'piqa'", "context")

    def test_bad_tasks(self):
        # No model is looked for before the tasks are known to be good.
        def fails(status, *words, task):
            self.assert_fails(self.compare("/nowhere/teacher", "/nowhere/model", *task), status, *words)

        good = self.task("good.jsonl")
        text = self.directory / "prose"
        text.write_text("No task.\nNor this.\n")
        empty = self.directory / "empty"
        empty.write_text("\n")
        fails(1, "missing.jsonl", task=("--task", f"piqa={self.directory}/missing.jsonl"))
        fails(1, "prose, question 1", "right ending", task=("--task", f"piqa={text}"))
        fails(1, "no question", task=("--task", f"piqa={empty}"))
        fails(1, "'nonsense' is unknown", "hellaswag", task=("--task", f"nonsense={good}"))
        for form in ("piqa", "piqa=", f"={good}"):
            fails(2, "--task", "NAME=FILE", task=("--task", form))
        fails(2, "named twice", task=("--task", f"piqa={good}", "--task", f"piqa={good}"))
        fails(2, "--limit", "--task", task=("--limit", "3"))

    def other(self, directory):
        """The teacher with every weight of its file a little off: bf16 rounded to 4 bits of mantissa."""
        path = models.make_tiny(directory)
        data = bytearray((self.teacher / "model.safetensors").read_bytes())
        begin = 8 + int.from_bytes(data[:8], "little")
        width = 4 if b'"F32"' in data[:begin] else 2
        for at in range(begin + width - 2, len(data), width):
            data[at] &= 0xF8
        (path / "model.safetensors").write_bytes(data)
        return path

    def test_what_cannot_be_compared(self):
        tokenizer = json.loads((self.teacher / "tokenizer.json").read_text())
        names = {i: name for name, i in tokenizer["model"]["vocab"].items()}
        names[40], names[41] = names[41], names[40]
        tokenizer["model"]["vocab"] = {name: i for i, name in names.items()}
        other = models.make_tiny(self.directory / "other")
        (other / "tokenizer.json").write_text(json.dumps(tokenizer))
        self.assert_fails(self.compare(self.teacher, other), 1, "another vocabulary", "token 40")
        self.assert_fails(self.compare(self.teacher), 2, "MODEL")
        self.assert_fails(self.compare(self.teacher, self.teacher, "--html", "/nowhere/page.html"), 1, "/nowhere")


class BenchTest(support.TestCase):
    def test_json_and_saved_model(self):
        path = self.temp_dir() / "tiny.gguf"
        page = self.temp_dir() / "speed.html"
        result = support.run("bench", "--shape", "tiny", "--format", "q4_0", "--prompt", "20", "--gen", "5", "--batch",
                             "1,3", "--repeat", "2", "--json", "--save", path, "--html", page)
        self.assertEqual(result.returncode, 0, result.stderr)
        got = json.loads(result.stdout)
        self.assertEqual(got["model"], {"architecture": "llama", "format": "q4_0"})
        self.assertEqual(self.data_of(page), got)
        self.assertEqual([r["batch"] for r in got["results"]], [1, 3])
        for row in got["results"]:
            for key in ("prefill_tps", "decode_tps", "ttft_ms", "weight_bytes", "percent_of_bandwidth"):
                self.assertGreater(row[key], 0, key)
            # The shape's head is a matrix of its own: of the table of 256 tokens a step reads a row.
            self.assertEqual(row["weight_bytes"] - row["step_weight_bytes"], 256 * 64 // 32 * 18)
        self.check_reads(got["machine"])
        # The file is a model like any other, and gives finite numbers.
        result = support.run("eval", "logits", path, "--ids", "1,5,9", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(all(math.isfinite(v) for v in json.loads(result.stdout)["logits_last"]))

    def data_of(self, page):
        return json.loads(page.read_text().split('id="data">')[1].split("</script>")[0])

    def check_reads(self, machine):
        both = [machine["measured_read_ahead_gbs"], machine["measured_read_plain_gbs"]]
        self.assertGreater(min(both), 0)
        self.assertEqual(machine["measured_read_gbs"], max(both))

    def test_wrong_usage(self):
        self.assert_fails(support.run("bench", "--shape", "nonsense"), 1, "nonsense")
        self.assert_fails(support.run("bench", "--shape", "tiny", "--format", "q9"), 1, "q9")
        self.assert_fails(support.run("bench", "--batch", "0"), 2, "--batch")
        self.assert_fails(support.run("bench", "ops", "nonsense"), 1, "nonsense")
        self.assert_fails(support.run("bench", "ops", "linear", "--device", "cuda:99"), 1, "[device]", "cuda:99")
        self.assert_fails(support.run("bench", "serve"), 2, "URL")

    def test_options_before_ops_still_count(self):
        result = support.run("bench", "--threads", "1", "--json", "ops", "rope", timeout=300)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(result.stdout)["machine"]["threads"], 1)
        self.assertIn("bench ops OPTIONS", result.stderr)

    def test_ops(self):
        page = self.temp_dir() / "ops.html"
        result = support.run("bench", "ops", "rope", "sample", "linear", "attention", "q8_0", "f8_e5m2", "--threads", "2",
                             "--json", "--html", page, timeout=300)
        self.assertEqual(result.returncode, 0, result.stderr)
        got = json.loads(result.stdout)
        self.assertEqual(self.data_of(page), got)
        self.assertEqual({(r["op"], r["format"]) for r in got["results"]},
                         {("rope", None), ("sample", None), ("linear", "q8_0"), ("linear", "f8_e5m2"),
                          ("attention", "q8_0")})
        for row in got["results"]:
            for key in ("seconds", "gbs", "percent_of_ceiling"):
                self.assertGreater(row[key], 0, row["shape"])
        self.check_reads(got["machine"])
        for key in ("measured_int8_gops", "measured_f32_gflops", "measured_bf16_gflops"):
            self.assertGreater(got["machine"][key], 0, key)


class InspectTest(support.TestCase):
    def test_json(self):
        result = support.run("inspect", models.checkpoint("qwen3"), "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        got = json.loads(result.stdout)
        self.assertEqual(got["architecture"], "qwen3")
        self.assertEqual(got["format"], "f32")
        self.assertEqual(got["layers"], 2)
        self.assertEqual(sum(t["bytes"] for t in got["tensors"]), got["weight_bytes"])

    def test_graph_names_the_rules(self):
        text = support.run("inspect", models.checkpoint("llama"), "--graph").stdout
        for rule in ("share_input", "glu_epilogue", "residual_epilogue", "rope_kv_write", "norm_prologue", "heads_epilogue"):
            self.assertIn(f"[{rule}]", text)
        self.assertIn("parallel regions of the layers: 5 5\n", text)
        plain = support.run("inspect", models.checkpoint("llama"), "--graph", "--no-fuse", "all").stdout
        self.assertNotIn("[share_input]", plain)

    def test_manifest_finds_a_changed_bit(self):
        directory = self.temp_dir()
        model = directory / "model.gguf"
        support.run("bench", "--shape", "tiny", "--prompt", "2", "--gen", "1", "--repeat", "1", "--save", model)
        manifest = directory / "manifest"
        self.assertEqual(support.run("inspect", model, "--hash", manifest).returncode, 0)
        ids = ["--ids", "1", "--verify", manifest]
        self.assertEqual(support.run("eval", "logits", model, *ids).returncode, 0)
        data = bytearray(model.read_bytes())
        data[-1000] ^= 4
        model.write_bytes(data)
        self.assert_fails(support.run("eval", "logits", model, *ids), 1, "manifest")


if __name__ == "__main__":
    support.unittest.main()
