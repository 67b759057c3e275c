"""A checkpoint in 8-bit floats as Hugging Face stores them, with a scale for each tensor, row or block beside the data."""
import array
import bisect
import json
import shutil
import struct

import models
import support

# The finite values of e4m3 from zero up; a value's place is its code.
VALUES = [(code % 8) * 2.0**-9 if code < 8 else (8 + code % 8) * 2.0 ** (code // 8 - 10) for code in range(127)]


def encode(value):
    after = min(bisect.bisect_left(VALUES, abs(value)), 126)
    code = after if after == 0 or VALUES[after] - abs(value) < abs(value) - VALUES[after - 1] else after - 1
    return code | (0x80 if value < 0 else 0)


def decode(code):
    return -VALUES[code & 0x7F] if code & 0x80 else VALUES[code]


def read(path):
    """The tensors of a safetensors file in float32: name to shape and values."""
    data = path.read_bytes()
    size = struct.unpack_from("<Q", data)[0]
    tensors = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            tensors[name] = (entry["shape"], array.array("f", data[8 + size + begin:8 + size + end]))
    return tensors


def write(path, tensors):
    """`tensors`: name to dtype, shape and bytes."""
    header, data = {}, b""
    for name, (dtype, shape, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


class Fp8Test(support.TestCase):
    def logits(self, model, *args):
        result = support.run("eval", "logits", model, "--ids", "3,14,15,92,65,35,89", "--json", "--device", "cpu", *args)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)["logits_last"]

    def directory(self, name, tensors, config):
        directory = self.temp_dir() / name
        directory.mkdir()
        shutil.copy(models.checkpoint() / "generation_config.json", directory)
        (directory / "config.json").write_text(json.dumps(config))
        write(directory / "model.safetensors", tensors)
        return directory

    def check(self, rows, columns, shape_of, suffix):
        """Matrices of the layers with a scale for `rows` × `columns` values; the same in float32 is what they stand for."""
        eight, plain = {}, {}
        for name, (shape, values) in read(models.checkpoint() / "model.safetensors").items():
            plain[name] = eight[name] = ("F32", shape, values.tobytes())
            if "_proj." not in name:
                continue
            height, width = min(rows, shape[0]), min(columns, shape[1])
            across = -(-shape[1] // width)
            block = [r // height * across + k // width for r in range(shape[0]) for k in range(shape[1])]
            largest = [0.0] * (max(block) + 1)
            for value, b in zip(values, block, strict=True):
                largest[b] = max(largest[b], abs(value))
            scales = array.array("f", [most / 448 for most in largest])
            codes = [encode(value / scales[b]) for value, b in zip(values, block, strict=True)]
            eight[name] = ("F8_E4M3", shape, bytes(codes))
            eight[name + suffix] = ("F32", shape_of(-(-shape[0] // height), across), scales.tobytes())
            meant = array.array("f", [decode(code) * scales[b] for code, b in zip(codes, block, strict=True)])
            plain[name] = ("F32", shape, meant.tobytes())
        config = json.loads((models.checkpoint() / "config.json").read_text())
        want = self.logits(self.directory("plain", plain, config), "--ref")
        model = self.directory("eight", eight, {**config, "quantization_config": {"quant_method": "fp8"}})
        self.assertEqual(self.logits(model, "--ref"), want)
        # Rows may be rounded to bf16 before each product: 2^-9 of a value.
        got = self.logits(model)
        error = sum((a - b) ** 2 for a, b in zip(got, want, strict=True))
        self.assertLess(error, 1e-3 * sum(b * b for b in want))

    def test_one_scale_for_a_tensor(self):
        self.check(1 << 20, 1 << 20, lambda down, across: [], "_scale")

    def test_a_scale_for_each_row(self):
        self.check(1, 1 << 20, lambda down, across: [down, 1], "_scale")

    def test_a_scale_for_each_block(self):
        self.check(32, 32, lambda down, across: [down, across], "_scale_inv")


if __name__ == "__main__":
    support.unittest.main()
