"""`ingot run`: one answer, streamed."""
import json
import os
import select
import signal
import subprocess
import time

import models
import support


class TinyRunTest(support.TestCase):
    """With random weights: what is said does not matter, how it is said does."""

    def setUp(self):
        super().setUp()
        self.model = models.make_tiny(self.temp_dir() / "tiny")

    def run_model(self, *args, **kwargs):
        result = support.run("run", *args, **kwargs)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def answer(self, *args, **kwargs):
        """The JSON document of an answer of 20 tokens."""
        return json.loads(self.run_model(self.model, *args, "--json", "-n", "20", *models.ENDLESS, **kwargs).stdout)

    def test_json(self):
        answer = self.answer("Hello", "--temp", "0")
        self.assertEqual(answer["finish_reason"], "length")
        self.assertEqual(answer["completion_tokens"], 20)
        self.assertEqual(len(answer["tokens"]), 20)
        # <s>user\nHello</s><s>assistant\n with three control tokens
        self.assertEqual(answer["prompt_tokens"], len("user\nHello" + "assistant\n") + 3)
        for key in ("load_s", "prefill_tps", "decode_tps", "peak_memory_bytes"):
            self.assertGreater(answer["stats"][key], 0, key)
        self.assertNotIn("logprobs", answer)

    def test_stdout_is_the_text_and_a_line_break(self):
        args = [self.model, "Hello", "--temp", "0", "-n", "20", *models.ENDLESS]
        result = self.run_model(*args)
        text = json.loads(self.run_model(*args, "--json").stdout)["text"]
        self.assertEqual(result.stdout, text if text.endswith("\n") else text + "\n")
        self.assertEqual(result.stderr, "")

    def test_users_cannot_write_control_tokens(self):
        plain = self.answer("a")["prompt_tokens"]
        self.assertEqual(self.answer("a</s>")["prompt_tokens"], plain + len("</s>"))
        raw = self.answer("--raw", "a</s>")["prompt_tokens"]
        self.assertEqual(raw, len("a</s>"))
        self.assertEqual(self.answer("--raw", "--parse-special", "a</s>")["prompt_tokens"], 2)

    def test_prompt_from_stdin(self):
        given = self.answer("Hello", "--temp", "0")
        piped = self.answer("-", "--temp", "0", stdin="Hello\n")
        self.assertEqual(piped["tokens"], given["tokens"])
        self.assertEqual(piped["prompt_tokens"], given["prompt_tokens"])
        self.assertEqual(self.answer("--raw", "-", stdin="ab\n")["prompt_tokens"], 3)

    def test_system_message(self):
        plain = self.answer("Hello")["prompt_tokens"]
        longer = self.answer("Hello", "--system", "Be brief")["prompt_tokens"]
        self.assertEqual(longer, plain + len("system\nBe brief") + 2)

    def test_model_by_option_and_by_name(self):
        given = self.answer("Hello", "--temp", "0")
        result = self.run_model("-m", self.model, "Hello", "--temp", "0", "--json", "-n", "20", *models.ENDLESS)
        self.assertEqual(json.loads(result.stdout)["tokens"], given["tokens"])
        home = self.temp_dir()
        models.make_tiny(home / "models" / "org" / "tiny")
        result = self.run_model(
            "org/tiny", "Hello", "--temp", "0", "--json", "-n", "20", *models.ENDLESS, env={"INGOT_HOME": str(home)}
        )
        self.assertEqual(json.loads(result.stdout)["tokens"], given["tokens"])

    def test_seed(self):
        first, second, other = (self.answer("Hello", "--temp", "1", "--seed", seed)["tokens"] for seed in "114")
        self.assertEqual(first, second)
        self.assertNotEqual(first, other)
        random = [self.answer("Hello", "--temp", "1", "--top-k", "0", "--top-p", "1") for _ in range(2)]
        self.assertNotEqual(random[0]["seed"], random[1]["seed"])
        again = self.answer("Hello", "--temp", "1", "--top-k", "0", "--top-p", "1", "--seed", random[0]["seed"])
        self.assertEqual(again["tokens"], random[0]["tokens"])

    def test_stop_string(self):
        whole = self.answer("Hello", "--temp", "0")["text"]
        stop = whole[5:7]
        answer = self.answer("Hello", "--temp", "0", "--stop", "never there", "--stop", stop)
        self.assertEqual(answer["text"], whole[: whole.index(stop)])
        self.assertEqual(answer["finish_reason"], "stop")

    def test_end_token(self):
        answer = json.loads(self.run_model(self.model, "Hello", "--json", "--logit-bias", "2:inf").stdout)
        self.assertEqual(answer["tokens"], [2])
        self.assertEqual(answer["text"], "")
        self.assertEqual(answer["finish_reason"], "stop")

    def test_end_tokens_of_generation_config(self):
        model = models.make_tiny(self.temp_dir() / "tiny", generation={"eos_token_id": [2, 100]})
        answer = json.loads(self.run_model(model, "Hello", "--json", "--logit-bias", "100:inf").stdout)
        self.assertEqual(answer["tokens"], [100])
        self.assertEqual(answer["finish_reason"], "stop")

    def test_sampling_of_generation_config(self):
        greedy = self.answer("Hello", "--temp", "0")["tokens"]
        model = models.make_tiny(self.temp_dir() / "tiny", generation={"do_sample": False})
        args = ["Hello", "--json", "-n", "20", *models.ENDLESS]
        self.assertEqual(json.loads(self.run_model(model, *args).stdout)["tokens"], greedy)
        model = models.make_tiny(self.temp_dir() / "tiny", generation={"do_sample": True, "top_k": 1})
        self.assertEqual(json.loads(self.run_model(model, *args).stdout)["tokens"], greedy)

    def test_logprobs(self):
        answer = self.answer("Hello", "--temp", "0", "--logprobs", "3")
        self.assertEqual(len(answer["logprobs"]), 20)
        for entry, token in zip(answer["logprobs"], answer["tokens"]):
            self.assertEqual(entry["token"], token)
            self.assertEqual(len(entry["top"]), 3)
            self.assertLessEqual(entry["logprob"], 0)
            self.assertGreaterEqual(entry["top"][0]["logprob"], entry["top"][2]["logprob"])

    def test_full_context_is_said(self):
        result = self.run_model(self.model, "Hello", "--ctx", "30", "--temp", "0", *models.ENDLESS)
        self.assertEqual(result.stderr.splitlines(), ["ingot: the answer is cut: the context of 30 tokens is full"])

    def test_no_tokens(self):
        self.assertEqual(self.run_model(self.model, "Hello", "-n", "0").stdout, "\n")

    def test_reference_and_fusion(self):
        tokens = self.answer("Hello", "--temp", "0")["tokens"]
        self.assertEqual(self.answer("Hello", "--temp", "0", "--no-fuse", "all")["tokens"], tokens)
        self.assertEqual(self.answer("Hello", "--temp", "0", "--ref")["tokens"], tokens)
        self.assertEqual(self.answer("Hello", "--temp", "0", "--threads", "1")["tokens"], tokens)
        self.answer("Hello", "--kv", "f16")
        self.answer("Hello", "--kv", "bf16")
        self.answer("Hello", "--kv", "fp8")
        self.answer("Hello", "--kv", "q8_0")

    def test_stats_and_verbose(self):
        result = self.run_model(self.model, "Hello", "-n", "5", "--stats", "--verbose", "--seed", "7")
        for words in ("load", "prefill", "decode", "memory", "seed 7"):
            self.assertIn(words, result.stderr)

    def test_interrupt(self):
        config = {"max_position_embeddings": 1 << 20}
        model = models.make_tiny(self.temp_dir() / "tiny", **config)
        process = support.start("run", model, "Hello", "--temp", "0", *models.ENDLESS)
        self.addCleanup(process.kill)
        self.assertTrue(select.select([process.stdout], [], [], 30)[0])
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130, err)
        self.assertEqual(err, "ingot: interrupted\n")
        self.assertTrue(out.endswith("\n"))

    def test_reader_that_goes_away(self):
        model = models.make_tiny(self.temp_dir() / "tiny", max_position_embeddings=1 << 20)
        process = support.start("run", model, "Hello", "--temp", "0", *models.ENDLESS)
        process.stdout.read(10)
        process.stdout.close()
        self.assertNotEqual(process.wait(timeout=30), 0)
        process.stderr.close()

    def test_full_disk(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        with open("/dev/full", "w") as full:
            result = subprocess.run(
                [support.BINARY, "run", self.model, "Hello", "-n", "5", *models.ENDLESS],
                stdout=full, stderr=subprocess.PIPE, text=True, timeout=60,
            )
        self.assertEqual(result.returncode, 1)
        self.assertIn("standard output", result.stderr)


class StoriesTest(support.TestCase):
    def test_greedy_text_equals_the_published(self):
        cases = json.loads(support.test_data("golden", "llama2c_greedy.json").read_text())
        for case in cases:
            model = support.test_data("models", case["model"])
            if not case["prompt"] or not model.exists():  # the repository has the smaller of the two
                continue
            with self.subTest(model=case["model"], prompt=case["prompt"]):
                # The published program keeps its cache in float32, and counts BOS and the prompt among its 200 positions;
                # the last one made is not shown.
                options = ("--raw", "--temp", "0", "--kv", "f32", "--json", "-n", "200")
                result = support.run("run", model, *options, case["prompt"])
                self.assertEqual(result.returncode, 0, result.stderr)
                answer = json.loads(result.stdout)
                text = case["prompt"] + answer["text"]
                self.assertGreater(len(case["text"]), len(case["prompt"]))
                self.assertTrue(text.startswith(case["text"].rstrip("\n")), text)


class DefaultModelTest(support.TestCase):
    def test_answers_a_question(self):
        model = models.default_model()
        result = support.run("run", model, "What is the chemical symbol of water?", "--temp", "0", "-n", "30", timeout=300)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("H2O", result.stdout)

    def test_greedy_text_equals_the_reference(self):
        golden = json.loads(support.test_data("golden", "smollm2.json").read_text())
        model = models.default_model()
        # The golden tests compare all of them, and every logit; here it is the way through the program that counts.
        for case in golden["cases"][:3]:
            tokens, margin = case["greedy"][:24], case["greedy_margin"]
            sure = next((i for i, value in enumerate(margin) if value < 0.5), len(margin))
            result = support.run("run", model, "--raw", "--temp", "0", "--json", "-n", str(len(tokens)),
                                 case["prompt"], timeout=300)
            self.assertEqual(result.returncode, 0, result.stderr)
            with self.subTest(case["prompt"][:40]):
                self.assertEqual(json.loads(result.stdout)["tokens"][:sure], tokens[:sure])
