"""What is wrong is said in one line, with exit 1 for a bad model or request and 2 for wrong usage: no crash, no half answer."""

import models
import support


class BadModelTest(support.TestCase):
    def setUp(self):
        super().setUp()
        self.dir = self.temp_dir()

    def fails(self, model, *words):
        """Every command that opens a model refuses it with the same kind of line."""
        for command in (["run", model, "Hello", "-n", "1"], ["chat", model]):
            with self.subTest(command[0]):
                self.assert_fails(support.run(*command), 1, *words)

    def test_text_file(self):
        path = self.dir / "notes.txt"
        path.write_text("Dear diary,\n" * 100)
        self.fails(path, "notes.txt")

    def test_text_file_named_gguf(self):
        path = self.dir / "notes.gguf"
        path.write_text("Dear diary,\n" * 100)
        self.fails(path, "notes.gguf")

    def test_empty_file(self):
        path = self.dir / "empty.gguf"
        path.touch()
        self.fails(path, "empty.gguf", "empty")

    def test_directory_without_config(self):
        path = self.dir / "model"
        path.mkdir()
        self.fails(path, "config.json")

    def test_directory_without_weights(self):
        model = models.make_tiny(self.dir / "tiny")
        (model / "model.safetensors").unlink()
        self.fails(model, "safetensors")

    def test_unknown_architecture(self):
        model = models.make_tiny(self.dir / "tiny", model_type="perceptron", architectures=["Perceptron"])
        self.fails(model, "perceptron")

    def test_broken_config(self):
        model = models.make_tiny(self.dir / "tiny")
        (model / "config.json").write_text('{"model_type": "llama",')
        self.fails(model, "config.json")

    def test_missing_tokenizer(self):
        self.fails(models.checkpoint(), "tokenizer")

    def test_missing_file(self):
        self.fails(self.dir / "none.gguf", "none.gguf")

    def test_unknown_name(self):
        empty = {"INGOT_HOME": str(self.dir / "cache")}
        self.assert_fails(support.run("run", "org/name", "Hello", env=empty), 1, "org/name", "ingot pull org/name")
        self.assert_fails(support.run("run", "Hello", "world", env=empty), 1, "'Hello'", "quotes")
        self.assert_fails(support.run("chat", "nothing", env=empty), 1, "nothing")

    def cut(self, source, size):
        path = self.dir / f"cut-{size}.gguf"
        with open(source, "rb") as file:
            path.write_bytes(file.read(size))
        return path

    def test_gguf_cut_short(self):
        source = support.test_data("models", "stories260K", "stories260K.gguf")
        size = source.stat().st_size
        for part in (size // 2, size - 1, 5000, 24, 4, 1):
            with self.subTest(part):
                self.fails(self.cut(source, part), f"cut-{part}.gguf")

    def test_default_model_cut_in_half(self):
        source = models.default_model()
        with open(source, "rb") as file:
            size = file.seek(0, 2)
        self.fails(self.cut(source, size // 2), ".gguf")


class BadRequestTest(support.TestCase):
    def setUp(self):
        super().setUp()
        self.model = models.make_tiny(self.temp_dir() / "tiny")

    def test_prompt_longer_than_the_context(self):
        words = "word " * 200
        self.assert_fails(support.run("run", self.model, words, "-n", "1"), 1, "512")
        self.assert_fails(support.run("run", self.model, "--ctx", "16", "--raw", "a" * 16), 1, "16 tokens")
        self.assert_fails(support.run("run", self.model, "-", "--raw", stdin="x" * 100_000), 1, "100000 tokens")

    def test_prompt_that_just_fits(self):
        result = support.run("run", self.model, "--ctx", "16", "--raw", "a" * 15, "--temp", "0", *models.ENDLESS)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("context of 16 tokens is full", result.stderr)

    def test_empty_prompt(self):
        self.assert_fails(support.run("run", self.model, "--raw", ""), 1, "empty")

    def test_prompt_that_is_not_utf8(self):
        self.assert_fails(support.run("run", self.model, b"\xff\xfe".decode(errors="surrogateescape")), 1, "UTF-8")

    def test_context_beyond_the_model(self):
        self.assert_fails(support.run("run", self.model, "--ctx", "100000", "a"), 1, "512")

    def test_system_message_without_template(self):
        self.assert_fails(support.run("run", self.model, "--raw", "--system", "x", "a"), 1, "--system")

    def test_chat_without_template(self):
        model = models.make_tiny(self.model.parent / "base", template=None)
        self.assert_fails(support.run("chat", model, stdin="Hi\n"), 1, "no chat template")

    def test_bias_outside_the_vocabulary(self):
        self.assert_fails(support.run("run", self.model, "a", "--logit-bias", "256:1"), 1, "256")

    def test_template_that_refuses(self):
        (self.model / "chat_template.jinja").write_text("{{ raise_exception('Roles must alternate') }}")
        self.assert_fails(support.run("run", self.model, "a"), 1, "Roles must alternate")

    def test_template_that_cannot_be_read(self):
        (self.model / "chat_template.jinja").write_text("{% for %}")
        self.assert_fails(support.run("run", self.model, "a"), 1, "line 1")

    def test_unknown_fusion_rule(self):
        self.assert_fails(support.run("run", self.model, "a", "--no-fuse", "nonsense"), 1, "nonsense")


class BadDeviceTest(support.TestCase):
    """A GPU that is not there is said before the model is read: by a build without CUDA, a machine without a GPU, or one
    with fewer."""

    def test_missing_device(self):
        model = models.make_tiny(self.temp_dir() / "tiny")
        for command in (["run", model, "Hello", "-n", "1"], ["bench", model, "--gen", "1"], ["chat", model]):
            with self.subTest(command[0]):
                self.assert_fails(support.run(*command, "--device", "cuda:99"), 1, "[device]", "cuda:99")

    def test_reference_kernels_are_the_cpus(self):
        model = models.make_tiny(self.temp_dir() / "tiny")
        self.assert_fails(support.run("run", model, "Hello", "--ref", "--device", "cuda"), 1, "[device]", "--ref")


class BadUsageTest(support.TestCase):
    """Refused before any model is opened."""

    def refused(self, *args, words=()):
        result = support.run(*args, env={"INGOT_HOME": "/nonexistent/ingot"})
        self.assert_fails(result, 2, *words)

    def test_options_out_of_range(self):
        for option, value in [
            ("-n", "-5"), ("-n", "five"), ("-n", "1.5"), ("-n", "99999999999999999999"), ("--temp", "nan"),
            ("--temp", "-1"), ("--temp", "inf"), ("--temp", "warm"), ("--temp", ""), ("--top-p", "1.5"),
            ("--top-p", "-0.1"), ("--top-k", "-1"), ("--min-p", "2"), ("--typical", "nan"), ("--seed", "-1"),
            ("--seed", "x"), ("--repeat-penalty", "0"), ("--presence-penalty", "nan"), ("--dry-base", "0"),
            ("--xtc-probability", "2"), ("--logit-bias", "5"), ("--logit-bias", "x:1"), ("--logit-bias", "5:nan"),
            ("--ctx", "0"), ("--kv", "int3"), ("--threads", "0"), ("--threads", "-1"), ("--device", "tpu"),
            ("--device", "cuda:"), ("--device", "cuda:-1"), ("--device", "cuda:x"), ("--device", "cuda:0,"),
            ("--device", "cuda:0/0"), ("--logprobs", "-2"),
        ]:
            with self.subTest(option=option, value=value):
                self.refused("run", "Hello", option, value, words=[option])

    def test_wrong_words(self):
        self.refused("run", words=["PROMPT"])
        self.refused("run", "Why", "is", "the", "sky", "blue", words=["quotes"])
        self.refused("run", "Hello", "--colour", words=["--colour"])
        self.refused("run", "Hello", "--logprobs", "1", words=["--json"])
        self.refused("run", models.checkpoint(), words=["prompt is missing"])
        self.refused("chat", "a", "b")
        self.refused("tokenize", "--nonsense", words=["--nonsense"])


class HelpTest(support.TestCase):
    def test_help_fits_a_screen_and_has_an_example(self):
        listed = support.run("--help").stdout.split("Commands:\n")[1].split("\n\n")[0].splitlines()
        commands = [line.split()[0] for line in listed]
        self.assertIn("bench", commands)
        self.assertGreaterEqual(len(commands), 12)
        forms = [[], *([command] for command in commands), ["bench", "serve"], ["bench", "ops"], ["bench", "trace"],
                 ["bench", "grammar"], ["bench", "comm"], ["bench", "matmul"], ["devices", "plan"], ["eval", "ppl"]]
        for form in forms:
            with self.subTest(form):
                result = support.run(*form, "--help")
                self.assertEqual(result.returncode, 0)
                self.assertIn("Example", result.stdout)
                lines = result.stdout.splitlines()
                self.assertLessEqual(len(lines), 50)
                self.assertLessEqual(max(map(len, lines)), 120)

    def test_help_of_bench_lists_its_subcommands(self):
        text = support.run("bench", "--help").stdout.split("Subcommands:")[1]
        self.assertEqual([line.split()[0] for line in text.split("Example")[0].split("\n") if line.strip()],
                         ["ops", "ladder", "serve", "trace", "grammar", "schema", "comm", "matmul"])
