"""`ingot quantize`: files that are read again, kills that leave no trace, and bad input in one line."""
import hashlib
import json
import random
import resource
import signal
import struct
import subprocess
import time

import models
import support


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


class QuantizeTest(support.TestCase):
    def setUp(self):
        super().setUp()
        self.folder = self.temp_dir()
        self.stories = support.test_data("models", "stories260K")

    def quantize(self, *args, status=0, **options):
        result = support.run("quantize", *args, **options)
        self.assertEqual(result.returncode, status, result.stderr)
        return result

    def perplexity(self, model):
        text = self.folder / "text"
        text.write_text("Once upon a time there was a little girl. She liked to play in the park with her dog. " * 30)
        result = support.run("eval", "ppl", model, "--text", text, "--chunks", "2", "--chunk-tokens", "256", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)["perplexity"]

    def test_every_form_answers_like_the_model(self):
        want = self.perplexity(self.stories)
        cases = {"f32.gguf": ("f32", 1e-4), "f16.gguf": ("f16", 1e-2), "q8.gguf": ("q8_0", 0.03),
                 "q4.gguf": ("q4_k_m", 0.25), "bf16": ("bf16", 0.02), "int8": ("int8", 0.05), "fp8": ("fp8", 0.1),
                 "block": ("fp8_block", 0.1), "int4": ("int4", 0.4), "asym": ("int4_asym_g32", 0.4)}
        for name, (form, share) in cases.items():
            with self.subTest(name):
                self.quantize(self.stories, self.folder / name, "--format", form)
                self.assertAlmostEqual(self.perplexity(self.folder / name) / want, 1, delta=share)

    def test_says_sizes_and_writes_nothing(self):
        out = self.folder / "a.gguf"
        result = self.quantize(self.stories, out, "--format", "q8_0", "--dry-run", "--json")
        plan = json.loads(result.stdout)
        self.assertEqual(sorted(self.folder.iterdir()), [])
        made = json.loads(self.quantize(self.stories, out, "--format", "q8_0", "--json").stdout)
        self.assertEqual(plan["bytes"], made["bytes"])
        self.assertEqual(plan["classes"], made["classes"])
        self.assertLess(made["bytes"], out.stat().st_size)
        self.assertEqual([file.name for file in self.folder.iterdir()], ["a.gguf"])
        metadata = support.run("inspect", out, "--json")
        self.assertEqual(metadata.returncode, 0, metadata.stderr)

    def test_goes_on_after_kills(self):
        """Killed at random moments, then run to its end: the same bytes as in one go."""
        want = self.folder / "want.gguf"
        self.quantize(self.stories, want, "--format", "q8_0", "--threads", "1")
        whole = time.monotonic()
        self.quantize(self.stories, self.folder / "again.gguf", "--format", "q8_0", "--threads", "2")
        whole = time.monotonic() - whole
        self.assertEqual(sha256(self.folder / "again.gguf"), sha256(want))
        chance = random.Random(1)
        out = self.folder / "killed.gguf"
        for _ in range(10):
            process = support.start("quantize", self.stories, out, "--format", "q8_0", stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL)
            time.sleep(chance.random() * whole)
            process.send_signal(signal.SIGKILL)
            process.wait()
            if out.exists():
                break
        if not out.exists():
            self.quantize(self.stories, out, "--format", "q8_0", "--threads", "7")
        self.assertEqual(sha256(out), sha256(want))

    def test_a_directory_for_others(self):
        out = self.folder / "out"
        model = models.make_tiny(self.folder / "tiny")
        self.quantize(model, out, "--format", "int8")
        config = json.loads((out / "config.json").read_text())
        quantization = config["quantization_config"]
        self.assertEqual(quantization["quant_method"], "compressed-tensors")
        self.assertEqual(quantization["format"], "int-quantized")
        self.assertEqual(quantization["config_groups"]["group_0"]["weights"]["num_bits"], 8)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            self.assertEqual((out / name).read_bytes(), (model / name).read_bytes())
        with open(out / "model.safetensors", "rb") as file:
            size = struct.unpack("<Q", file.read(8))[0]
            header = json.loads(file.read(size))
        dtypes = {name: value["dtype"] for name, value in header.items() if name != "__metadata__"}
        self.assertIn("I8", dtypes.values())
        self.assertTrue(all(dtypes[name] != "I8" for name in dtypes if "norm" in name or "embed" in name))
        prompt = support.run("run", out, "hello", "-n", "3", "--raw", "--temp", "0")
        self.assertEqual(prompt.returncode, 0, prompt.stderr)

    def test_a_tokenizer_survives(self):
        model = models.make_tiny(self.folder / "tiny")
        out = self.folder / "tiny.gguf"
        self.quantize(model, out, "--format", "f16")
        lines = "".join(json.dumps({"text": text}) + "\n" for text in ("Hello, world 123", "  déjà vu\n\n", "<|im_end|>"))
        want = support.run("tokenize", model, "--special", "--parse-special", stdin=lines)
        got = support.run("tokenize", out, "--special", "--parse-special", stdin=lines)
        self.assertEqual(want.returncode, 0, want.stderr)
        self.assertEqual(got.stdout, want.stdout)
        messages = json.dumps({"messages": [{"role": "user", "content": "Hi"}], "add_generation_prompt": True})
        self.assertEqual(support.run("template", out, stdin=messages).stdout,
                         support.run("template", model, stdin=messages).stdout)

    def test_a_directory_of_a_gguf_file(self):
        """There and back: the same text, prompts and predictions."""
        model = models.make_tiny(self.folder / "tiny")
        file, out = self.folder / "tiny.gguf", self.folder / "out"
        self.quantize(model, file, "--format", "f32")
        self.quantize(file, out, "--format", "f32")
        self.assertEqual(sorted(entry.name for entry in out.iterdir()),
                         ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
                          "tokenizer_config.json"])
        lines = "".join(json.dumps({"text": text}) + "\n" for text in ("Hello, world 123", "  déjà vu\n\n", "<|im_end|>"))
        want = support.run("tokenize", file, "--special", "--parse-special", stdin=lines)
        self.assertEqual(want.returncode, 0, want.stderr)
        self.assertEqual(support.run("tokenize", out, "--special", "--parse-special", stdin=lines).stdout, want.stdout)
        messages = json.dumps({"messages": [{"role": "user", "content": "Hi"}], "add_generation_prompt": True})
        self.assertEqual(support.run("template", out, stdin=messages).stdout,
                         support.run("template", model, stdin=messages).stdout)
        stories = self.folder / "stories"
        self.quantize(self.stories / "stories260K.gguf", stories, "--format", "f32")
        self.assertEqual(self.perplexity(stories), self.perplexity(self.stories / "stories260K.gguf"))

    def test_bad_input(self):
        out = self.folder / "a.gguf"

        def fails(status, words, *args):
            self.assert_fails(support.run("quantize", *args), status, *words)

        fails(2, ["--format"], self.stories, out)
        fails(2, ["--method", "magic"], self.stories, out, "--format", "q8_0", "--method", "magic")
        fails(1, ["q9"], self.stories, out, "--format", "q9")
        fails(1, ["GGUF has no type for int4"], self.stories, out, "--format", "int4")
        fails(1, ["nvfp4", "not written"], self.stories, out, "--format", "q8_0", "--tensor", "*attn_v*=nvfp4")
        fails(1, ["no format of directories", "q4_k_m"], self.stories, self.folder / "d", "--format", "q4_k_m")
        fails(2, ["PATTERN=FORMAT"], self.stories, out, "--format", "q8_0", "--tensor", "x")
        fails(1, ["nothing*"], self.stories, out, "--format", "q8_0", "--tensor", "nothing*=q8_0")
        fails(1, ["the model itself"], self.stories, self.stories, "--format", "bf16")
        gguf = self.stories / "stories260K.gguf"
        fails(1, ["the model itself"], gguf, gguf, "--format", "q8_0")
        fails(1, ["no format of directories", "q8_0"], gguf, self.folder / "d", "--format", "q8_0")
        self.assertEqual(sorted(self.folder.iterdir()), [])
        out.write_text("here")
        fails(1, ["exists"], self.stories, out, "--format", "q8_0")
        self.assertEqual(out.read_text(), "here")
        small = self.folder / "small.gguf"
        self.quantize(self.stories, small, "--format", "q4_0")
        fails(1, ["--requantize"], small, self.folder / "again.gguf", "--format", "q5_0")
        self.quantize(small, self.folder / "again.gguf", "--format", "q5_0", "--requantize")

    def test_a_full_disk(self):
        out = self.folder / "a.gguf"
        process = support.start("quantize", self.stories, out, "--format", "f32",
                                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000)))
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1, errors)
        self.assertEqual(len(errors.splitlines()), 1, errors)
        self.assertIn("no room", errors)
        self.assertEqual(sorted(self.folder.iterdir()), [])
        self.quantize(self.stories, out, "--format", "f32")
