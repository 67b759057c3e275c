"""The methods that fold something into a model before they round it: awq, smooth and rotate."""
import array
import hashlib
import json
import shutil
import struct
import subprocess
import time

import support
from test_calibrate import story


def read_tensors(path):
    """{name: (shape, floats)} of a safetensors file that is all F32."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = (8 + size + offset for offset in entry["data_offsets"])
            tensors[name] = entry["shape"], array.array("f", data[begin:end])
    return tensors


def write_tensors(path, tensors):
    header, offset = {}, 0
    for name, (shape, values) in tensors.items():
        end = offset + 4 * len(values)
        header[name], offset = {"dtype": "F32", "shape": shape, "data_offsets": [offset, end]}, end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(v.tobytes() for _, v in tensors.values()))


def plant_outliers(model, out, factor):
    """The same function with some channels of what q, k, v, gate and up read `factor` times as large."""
    shutil.copytree(model, out)
    out.chmod(0o755)
    file = out / "model.safetensors"
    file.chmod(0o644)
    tensors = read_tensors(file)
    for name, (shape, norm) in tensors.items():
        readers = {"input_layernorm": "self_attn.{}_proj.weight", "post_attention_layernorm": "mlp.{}_proj.weight"}
        part = name.split(".")[-2]
        if part not in readers:
            continue
        for channel in range(3, shape[0], 17):
            norm[channel] *= factor
            for which in ("q", "k", "v", "gate", "up"):
                reader = name.replace(part + ".weight", readers[part].format(which))
                if reader in tensors:
                    (_, cols), values = tensors[reader]
                    for i in range(channel, len(values), cols):
                        values[i] /= factor
    write_tensors(file, tensors)
    return out


class FoldTest(support.TestCase):
    def setUp(self):
        super().setUp()
        self.folder = self.temp_dir()
        self.stories = support.test_data("models", "stories260K")
        self.text, self.other = self.folder / "text.txt", self.folder / "other.txt"
        self.text.write_text("Once upon a time there was a girl. " + story(1, 400))
        self.other.write_text(story(2, 200))

    def make(self, model, name, *args):
        out = self.folder / name
        result = support.run("quantize", model, out, *args)
        self.assertEqual(result.returncode, 0, result.stderr)
        return out

    def klds(self, teacher, *models, options=("--ref",)):
        result = support.run("eval", "compare", teacher, *models, "--text", self.other, "--chunks", "4", "--chunk-tokens",
                             "256", "--json", *options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return [model["kld"] for model in json.loads(result.stdout)["models"]]

    def refused(self, *args):
        result = support.run("quantize", *args)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)
        return result.stderr

    def test_awq_beats_rounding(self):
        large = support.test_data("models", "stories15M")
        model = large if large.exists() else self.stories
        plain = self.make(model, "plain", "--format", "int4")
        awq = self.make(model, "awq", "--format", "int4", "--method", "awq", "--text", self.text, "--tokens", "2048")
        rtn, scaled = self.klds(model, plain, awq, options=())  # the reference takes a minute for it
        self.assertLess(scaled, rtn)

    def test_smooth_helps_where_channels_stand_out(self):
        planted = plant_outliers(self.stories, self.folder / "planted", 100)
        self.assertLess(self.klds(self.stories, planted)[0], 1e-6)
        smooth = ("--format", "int8", "--method", "smooth", "--text", self.text)
        rtn, better = self.klds(planted, self.make(planted, "a", "--format", "int8"), self.make(planted, "b", *smooth))
        self.assertLess(better, rtn / 2)
        rtn, same = self.klds(self.stories, self.make(self.stories, "c", "--format", "int8"),
                              self.make(self.stories, "d", *smooth))
        self.assertLess(same, rtn * 1.1)

    def test_a_rotated_model_is_the_same(self):
        turned = self.make(self.stories, "turned", "--format", "f32", "--method", "rotate")
        self.assertFalse(json.loads((turned / "config.json").read_text())["tie_word_embeddings"])
        file = self.make(self.stories, "turned.gguf", "--format", "f32", "--method", "rotate")
        again = self.make(self.stories / "stories260K.gguf", "again.gguf", "--format", "f32", "--method", "rotate")
        self.assertLess(max(self.klds(self.stories, turned, file, again)), 1e-6)

    def test_bytes_do_not_depend_on_threads_and_kills(self):
        for method in ("awq", "rotate"):
            args = ("--format", "q4_0", "--method", method) + (("--text", self.text) if method == "awq" else ())
            files = [self.make(self.stories, f"{method}{n}.gguf", *args, "--threads", n) for n in ("1", "2", "7")]
            killed = self.folder / f"{method}.gguf"
            process = support.start("quantize", self.stories, killed, *args, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL)
            time.sleep(0.3)
            process.kill()
            process.wait()
            files.append(killed if killed.exists() else self.make(self.stories, killed.name, *args))
            self.assertEqual(len({hashlib.sha256(file.read_bytes()).hexdigest() for file in files}), 1)

    def test_what_cannot_be_is_refused_in_one_line(self):
        out = self.folder / "out"
        for name in ("gemma2", "gemma3", "olmo2"):
            model = support.test_data("arch", name)
            self.assertIn(f"'{name}' cannot be rotated", self.refused(model, out, "--format", "bf16", "--method", "rotate"))
        self.assertIn("for --format int8", self.refused(self.stories, out, "--format", "int4", "--method", "smooth"))
        self.assertIn("changes nothing", self.refused(self.stories, out, "--format", "bf16", "--method", "awq"))
        self.assertIn("--text", self.refused(self.stories, out, "--format", "int4", "--method", "rotate", "--text",
                                             self.text))
        searched = self.folder / "searched.gguf"
        for method in ("rotate", "smooth", "awq"):
            self.assertIn(f"not with {method}", self.refused(self.stories, searched, "--bits", "5", "--method", method))
        self.assertIn("searched for .gguf", self.refused(self.stories, out, "--bits", "5"))
        self.assertIn("--stats", self.refused(self.stories, searched, "--bits", "5", "--stats", self.text))
        self.assertFalse(out.exists() or searched.exists())
