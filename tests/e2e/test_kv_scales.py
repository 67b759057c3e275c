"""Scales of 8-bit KV caches: found by `calibrate` and `quantize`, kept in both kinds of files, used by `--kv`."""
import array
import json
import random
import shutil
import struct

import support
from test_calibrate import story


def read_tensors(path):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (one["dtype"], one["shape"], data[8 + size + one["data_offsets"][0]:8 + size + one["data_offsets"][1]])
            for name, one in header.items()}


def write_tensors(path, tensors):
    header, body = {}, b""
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def floats(*values):
    return array.array("f", values).tobytes()


class SmallModelTest(support.TestCase):
    HEADS, KV_HEADS, DIM, WIDTH, LAYERS = 8, 4, 8, 64, 5

    def setUp(self):
        super().setUp()
        self.folder = self.temp_dir()
        self.stories = support.test_data("models", "stories260K")
        self.text, self.other = self.folder / "text.txt", self.folder / "other.txt"
        self.text.write_text(story(1, 200))
        self.other.write_text(story(2, 200))

    def run_ok(self, *args):
        result = support.run(*args)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def refused(self, *args):
        result = support.run(*args)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)
        return result.stderr

    def kld(self, teacher, model, kv):
        made = self.run_ok("eval", "compare", teacher, model, "--text", self.other, "--chunks", "3", "--chunk-tokens", "128",
                           "--no-speed", "--kv", kv, "--json")
        return json.loads(made.stdout)["models"][0]["kld"]

    def copy(self, name, tensors=None, config=None):
        folder = self.folder / name
        folder.mkdir()
        for file in self.stories.iterdir():
            if not file.name.endswith(".gguf"):
                shutil.copy(file, folder / file.name)
        (folder / "config.json").chmod(0o644)
        (folder / "model.safetensors").chmod(0o644)
        if tensors is not None:
            write_tensors(folder / "model.safetensors", tensors)
        if config is not None:
            now = json.loads((folder / "config.json").read_text())
            (folder / "config.json").write_text(json.dumps(now | config))
        return folder


class KvScalesTest(SmallModelTest):
    def planted(self):
        """The same function with a pair of channels of K 500 times as large in all heads of each layer but the last."""
        tensors = read_tensors(self.stories / "model.safetensors")
        shared = self.HEADS // self.KV_HEADS
        for layer in range(self.LAYERS):
            for part, heads, factor in (("k", range(3), 500.0), ("q", range(3 * shared), 1 / 500.0)):
                name = f"model.layers.{layer}.self_attn.{part}_proj.weight"
                dtype, shape, data = tensors[name]
                values = array.array("f", data)
                for row in (h * self.DIM + d for h in heads for d in (1, 1 + self.DIM // 2)):
                    for c in range(row * self.WIDTH, (row + 1) * self.WIDTH):
                        values[c] *= factor
                tensors[name] = (dtype, shape, values.tobytes())
        return self.copy("planted", tensors)

    def test_scales_save_a_model_with_large_keys(self):
        model, gguf, folder = self.planted(), self.folder / "scaled.gguf", self.folder / "scaled"
        common = ("--format", "f32", "--text", self.text, "--kv")
        self.run_ok("quantize", model, gguf, *common, "fp8")
        self.run_ok("quantize", model, folder, *common, "fp8")
        plain, scaled = self.kld(model, model, "fp8"), self.kld(model, gguf, "fp8")
        self.assertGreater(plain, 5 * scaled)
        self.assertAlmostEqual(self.kld(model, folder, "fp8") / scaled, 1, delta=0.01)
        # Without an 8-bit cache nothing of it is seen.
        self.assertLess(self.kld(model, gguf, "f32"), 1e-6)
        tensors = read_tensors(folder / "model.safetensors")
        self.assertEqual(tensors["model.layers.4.self_attn.v_scale"][:2], ("F32", [self.KV_HEADS, 1, 1]))
        keys = array.array("f", tensors["model.layers.0.self_attn.k_scale"][2])
        self.assertGreater(min(keys[:3]), 20 * keys[3])
        scheme = json.loads((folder / "config.json").read_text())["quantization_config"]["kv_cache_scheme"]
        self.assertEqual((scheme["type"], scheme["strategy"]), ("float", "attn_head"))
        # The other way: a directory's scales go into GGUF.
        again = self.folder / "again.gguf"
        self.run_ok("quantize", folder, again, "--format", "f32")
        self.assertEqual(self.kld(model, again, "fp8"), scaled)

    def test_int8_and_layers_that_keep_16_bits(self):
        stats, out, folder = self.folder / "stats.gguf", self.folder / "out.gguf", self.folder / "out"
        self.assertIn("no scales for int8", self.refused("run", "-m", self.stories, "--kv", "int8", "--raw", "Once"))
        made = json.loads(self.run_ok("calibrate", self.stories, "--text", self.text, "--out", stats, "--kv", "int8",
                                      "--kv-bits", "11.3", "--json").stdout)["kv"]
        worst = sorted(range(self.LAYERS), key=lambda i: -made["kld"][i])[:2]
        self.assertEqual(made["keep"], sorted(worst))
        common = ("--format", "f32", "--stats", stats, "--kv")
        self.assertIn("no scales for fp8", self.refused("quantize", self.stories, out, *common, "fp8"))
        self.run_ok("quantize", self.stories, out, *common, "int8")
        self.run_ok("quantize", self.stories, folder, *common, "int8")
        kept = self.kld(self.stories, out, "int8")
        self.assertAlmostEqual(self.kld(self.stories, folder, "int8") / kept, 1, delta=0.01)
        self.assertEqual(json.loads((folder / "config.json").read_text())["ingot_kv"]["keep"], sorted(worst))
        all_eight = self.folder / "all.gguf"
        self.run_ok("quantize", self.stories, all_eight, "--format", "f32", "--text", self.text, "--kv", "int8")
        self.assertLess(kept, 0.9 * self.kld(self.stories, all_eight, "int8"))
        self.assertLess(kept, 0.01)
        answers = {self.run_ok("run", "-m", out, "--kv", "int8", "--raw", "--temp", "0", "-n", "40", "--threads", n,
                               "Once upon a time").stdout for n in ("1", "3")}
        self.assertEqual(len(answers), 1)
        self.assertIn("rotate", self.refused("quantize", self.stories, self.folder / "no", "--format", "f32", "--kv",
                                             "int8", "--method", "rotate"))

    def test_published_scales_and_what_is_wrong_with_them(self):
        tensors = read_tensors(self.stories / "model.safetensors")
        one = {f"model.layers.{i}.self_attn.{name}": ("F32", shape, floats(0.1))
               for i in range(self.LAYERS) for name, shape in (("k_proj.k_scale", []), ("v_proj.v_scale", [1]))}
        published = self.copy("published", tensors | one)
        self.assertLess(self.kld(self.stories, published, "fp8"), 0.02)
        self.assertLess(self.kld(self.stories, published, "f32"), 1e-9)
        name = "model.layers.2.self_attn.k_scale"
        for i, (shape, values, said) in enumerate([([3], (1, 1, 1), "4 KV heads"), ([4], (1, 0, 1, 1), "is 0"),
                                                   ([4], (1, float("nan"), 1, 1), "is nan"), ([], (-1,), "is -1")]):
            bad = tensors | {name: ("F32", shape, floats(*values)), name.replace("k_", "v_"): ("F32", [1], floats(1))}
            model = self.copy(f"bad{i}", bad)
            self.assertIn(said, self.refused("run", "-m", model, "--kv", "fp8", "--raw", "Once"))
            self.run_ok("run", "-m", model, "--raw", "-n", "2", "Once")


class CalibrationTextTest(SmallModelTest):
    def test_chats_go_through_the_template(self):
        model = self.copy("chatty")
        chats = self.folder / "chats.jsonl"
        lines = [[{"role": "user", "content": story(i, 3)}, {"role": "assistant", "content": story(100 + i, 8)}]
                 for i in range(30)]
        chats.write_text("".join(json.dumps(line) + "\n" for line in lines))
        out = self.folder / "a.gguf"
        self.assertIn("no template", self.refused("calibrate", model, "--text", chats, "--out", out))
        template = model / "chat_template.jinja"
        template.write_text("{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}")
        common = ("calibrate", model, "--chunk-tokens", "128", "--json")
        made = json.loads(self.run_ok(*common, "--text", chats, "--out", out).stdout)
        # The same tokens as of what the template writes, but for where chats begin.
        written = self.folder / "written.txt"
        written.write_text("".join(f"{m['role']}: {m['content']}" for line in lines for m in line))
        plain = json.loads(self.run_ok(*common, "--text", written, "--out", self.folder / "b.gguf").stdout)
        self.assertAlmostEqual(made["tokens"] / plain["tokens"], 1, delta=0.05)
        # Lines may be objects; without what the template adds there are fewer tokens.
        chats.write_text("\n".join(json.dumps({"messages": line}) for line in lines))
        self.run_ok(*common, "--text", chats, "--out", self.folder / "c.gguf")
        bodies = [(self.folder / name).read_bytes()[-20000:] for name in ("a.gguf", "c.gguf")]
        self.assertEqual(bodies[0], bodies[1])
        template.write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
        bare = json.loads(self.run_ok(*common, "--text", chats, "--out", self.folder / "d.gguf").stdout)
        self.assertLess(bare["tokens"], made["tokens"])
        chats.write_text('{"text": "no chat"}\n')
        self.assertIn("line 1", self.refused("calibrate", model, "--text", chats, "--out", self.folder / "e.gguf"))

    def test_without_a_text_the_model_samples_its_own(self):
        made = {}
        for threads in ("1", "3"):
            out = self.folder / f"own{threads}.gguf"
            said = json.loads(self.run_ok("calibrate", self.stories, "--out", out, "--tokens", "2048", "--chunk-tokens", "128",
                                          "--threads", threads, "--json").stdout)
            self.assertGreater(said["tokens"], 1000)
            made[threads] = out.read_bytes()
        self.assertEqual(made["1"], made["3"])
        small = self.folder / "small.gguf"
        self.run_ok("quantize", self.stories, small, "--format", "q4_0", "--pure", "--method", "imatrix", "--stats",
                    self.folder / "own1.gguf")
        plain = self.folder / "plain.gguf"
        self.run_ok("quantize", self.stories, plain, "--format", "q4_0", "--pure")
        self.assertLess(self.kld(self.stories, small, "f32"), self.kld(self.stories, plain, "f32"))

    def test_a_head_of_its_own_is_rounded_by_what_it_reads(self):
        model, stats = self.folder / "model.gguf", self.folder / "stats.gguf"
        self.run_ok("quantize", self.stories, model, "--format", "f16", "--method", "rotate")
        self.run_ok("calibrate", model, "--text", self.text, "--out", stats)
        self.assertIn(b"output.weight.in_sum2", stats.read_bytes())
        cost = {}
        for method in ("rtn", "imatrix", "gptq"):
            out = self.folder / f"{method}.gguf"
            text = () if method == "rtn" else ("--text", self.text)
            self.run_ok("quantize", model, out, "--format", "q4_0", "--pure", "--tensor", "blk.*=f16", "--tensor",
                        "token_embd.weight=f16", "--method", method, *text)
            cost[method] = self.kld(model, out, "f32")
        self.assertLess(cost["imatrix"], 0.97 * cost["rtn"])
        self.assertLess(cost["gptq"], 0.97 * cost["imatrix"])

    def with_experts(self):
        """A Mixtral of the model's matrices: of five experts the last is never among the two that a row meets."""
        tensors = read_tensors(self.stories / "model.safetensors")
        chance = random.Random(5)
        made = {}
        for name, tensor in tensors.items():
            if ".mlp." not in name:
                made[name] = tensor
                continue
            part = {"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"}[name.split(".")[-2]]
            moe = name.split(".mlp.")[0] + ".block_sparse_moe"
            for expert in range(5):
                made[f"{moe}.experts.{expert}.{part}.weight"] = tensor
            one, other = ([chance.gauss(0, 1) for _ in range(self.WIDTH)] for _ in range(2))
            rows = one + [-v for v in one] + other + [-v for v in other] + [0.0] * self.WIDTH
            made[f"{moe}.gate.weight"] = ("F32", [5, self.WIDTH], floats(*rows))
        return self.copy("experts", made, {"model_type": "mixtral", "architectures": ["MixtralForCausalLM"],
                                           "num_local_experts": 5, "num_experts_per_tok": 2})

    def test_experts_that_the_text_hardly_met_are_named(self):
        model, stats = self.with_experts(), self.folder / "stats.gguf"
        made = json.loads(self.run_ok("calibrate", model, "--text", self.text, "--out", stats, "--json").stdout)
        want = [f"blk.{i}.ffn_{part}_exps.weight: experts 4" for i in range(5) for part in ("down", "gate", "up")]
        self.assertEqual([line for line in made["hardly_met"] if line.endswith("experts 4")], want)
        runs = (("imatrix", "--stats", stats), ("imatrix", "--text", self.text), ("gptq", "--text", self.text),
                ("awq", "--text", self.text))
        for i, (method, *text) in enumerate(runs):
            with self.subTest(method=method, text=text):
                notes = json.loads(self.run_ok("quantize", model, self.folder / f"out{i}", "--format", "int4_g32", "--method",
                                               method, *text, "--json").stdout)["notes"]
                for line in want:
                    self.assertIn("fewer than 32 rows met " + line, notes)

    def test_a_text_that_was_calibrated_with_is_not_evaluated(self):
        stats, gguf, folder = self.folder / "stats.gguf", self.folder / "a.gguf", self.folder / "a"
        self.run_ok("calibrate", self.stories, "--text", self.text, "--out", stats)
        self.run_ok("quantize", self.stories, gguf, "--format", "q4_0", "--pure", "--method", "imatrix", "--stats", stats)
        self.run_ok("quantize", self.stories, folder, "--format", "int8", "--method", "gptq", "--text", self.text)
        again = self.folder / "again.gguf"
        self.run_ok("quantize", gguf, again, "--format", "f16")
        for model in (gguf, folder, again):
            self.assertIn("was compressed with", self.refused("eval", "ppl", model, "--text", self.text))
            self.assertIn("was compressed with", self.refused("eval", "compare", self.stories, model, "--text", self.text))
            self.run_ok("eval", "ppl", model, "--text", self.other, "--chunks", "1", "--chunk-tokens", "64")
        same = self.folder / "same.txt"
        same.write_text(self.text.read_text())
        self.assertIn("--report-text", self.refused("quantize", self.stories, self.folder / "b.gguf", "--format", "q4_0",
                                                    "--method", "imatrix", "--text", self.text, "--report",
                                                    self.folder / "r.html", "--report-text", same))
