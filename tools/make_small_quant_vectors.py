#!/usr/bin/env python3
"""Cuts the vectors of quantized types to the size that is committed: make_small_quant_vectors.py SOURCE [OUTPUT].

SOURCE holds one small Llama in GGUF files of every type, as another project's quantizer wrote them, and expected.json
with the logits of the reference implementation. A cut keeps the quantizer's bytes: the last layer alone, the first rows
of each matrix, the first 256 columns where there are more, so that a file is a smaller Llama; the unquantized files have
128 columns. The forward pass is written out here in float64 and must first give SOURCE's logits. Needs numpy and gguf.
"""
import json
import pathlib
import sys

import gguf
import numpy as np

VOCAB, FFN, HEAD = 64, 256, 64
TOKENS = 32
PLAIN = ("f32", "f16", "bf16")


class File:
    """A GGUF file as a dictionary of tensors: type, shape (rows, columns), bytes of the rows."""

    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.numbers = {key: field.contents() for key, field in reader.fields.items() if not key.startswith("GGUF.")}
        self.tensors = {}
        for tensor in reader.tensors:
            shape = tuple(int(n) for n in reversed(tensor.shape))
            data = np.ascontiguousarray(tensor.data).view(np.uint8).reshape(shape[0] if len(shape) == 2 else 1, -1)
            self.tensors[tensor.name] = (tensor.tensor_type, shape, data)

    def values(self, name):
        kind, shape, data = self.tensors[name]
        return gguf.quants.dequantize(data, kind).reshape(shape)

    def number(self, key):
        return self.numbers["llama." + key]

    def set(self, key, value):
        self.numbers["llama." + key] = value


def cut(tensor, rows, columns):
    kind, shape, data = tensor
    block, size = gguf.GGML_QUANT_SIZES[kind]
    assert columns % block == 0, (kind, columns)
    if len(shape) == 1:
        return kind, (columns,), data[:, : columns // block * size]
    return kind, (rows, columns), np.ascontiguousarray(data[:rows, : columns // block * size])


def smaller(file, hidden):
    """The same file with its last layer alone and every matrix cut."""
    last = file.number("block_count") - 1
    sizes = {
        "attn_q": (hidden, hidden), "attn_k": (HEAD, hidden), "attn_v": (HEAD, hidden), "attn_output": (hidden, hidden),
        "ffn_gate": (FFN, hidden), "ffn_up": (FFN, hidden), "ffn_down": (hidden, FFN),
        "attn_norm": (1, hidden), "ffn_norm": (1, hidden),
    }
    tensors = {}
    for name in ("token_embd", "output", "output_norm"):
        tensors[name + ".weight"] = cut(file.tensors[name + ".weight"], VOCAB, hidden)
    for name, (rows, columns) in sizes.items():
        tensors[f"blk.0.{name}.weight"] = cut(file.tensors[f"blk.{last}.{name}.weight"], rows, columns)
    file.tensors = tensors
    for key, value in (("block_count", 1), ("embedding_length", hidden), ("feed_forward_length", FFN),
                       ("attention.head_count", hidden // HEAD), ("attention.head_count_kv", 1), ("vocab_size", VOCAB)):
        file.set(key, value)
    for key in ("tokens", "scores", "token_type"):
        file.numbers["tokenizer.ggml." + key] = file.numbers["tokenizer.ggml." + key][:VOCAB]
    return file


def norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def rotate(x, base):
    """Pairs of neighbours, as GGUF stores the rows of q and k."""
    n, _, width = x.shape
    angle = np.arange(n)[:, None] * base ** (-np.arange(0, width, 2) / width)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    out = np.empty_like(x)
    out[..., 0::2] = x[..., 0::2] * cos - x[..., 1::2] * sin
    out[..., 1::2] = x[..., 0::2] * sin + x[..., 1::2] * cos
    return out


def attention(q, k, v):
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(q.shape[2])
    scores += np.triu(np.full(scores.shape[1:], -np.inf), 1)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hij,jhd->ihd", weights / weights.sum(-1, keepdims=True), v).reshape(len(q), -1)


def logits(file, tokens):
    """Of every position, in float64."""
    w = {name: file.values(name).astype(np.float64) for name in file.tensors}
    eps, base = file.number("attention.layer_norm_rms_epsilon"), file.number("rope.freq_base")
    n = len(tokens)
    x = w["token_embd.weight"][tokens]
    for layer in range(file.number("block_count")):
        def of(name):
            return w[f"blk.{layer}.{name}.weight"]

        h = norm(x, of("attn_norm"), eps)
        q, k, v = ((h @ of(name).T).reshape(n, -1, HEAD) for name in ("attn_q", "attn_k", "attn_v"))
        x = x + attention(rotate(q, base), rotate(k, base), v) @ of("attn_output").T
        h = norm(x, of("ffn_norm"), eps)
        gate = h @ of("ffn_gate").T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ of("ffn_up").T)) @ of("ffn_down").T
    return norm(x, w["output_norm.weight"], eps) @ w["output.weight"].T


def write(file, path):
    writer = gguf.GGUFWriter(path, "llama")
    adders = {str: writer.add_string, float: writer.add_float32, int: writer.add_uint32, list: writer.add_array}
    for key, value in file.numbers.items():
        if key not in ("general.architecture", "general.alignment"):
            adders[type(value)](key, value)
    for name, (kind, shape, data) in file.tensors.items():
        writer.add_tensor(name, data if len(shape) == 2 else data.reshape(-1), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    source = pathlib.Path(sys.argv[1])
    root = pathlib.Path(__file__).resolve().parent.parent
    output = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else root / "tests/data/quant-vectors"
    output.mkdir(parents=True, exist_ok=True)
    expected = json.loads((source / "expected.json").read_text())["files"]
    tokens = [1, *(int(t) for t in np.random.default_rng(7).integers(3, VOCAB, TOKENS - 1))]
    files = {}
    for path in sorted(source.glob("*.gguf")):
        file, want = File(path), expected[path.name]
        off = np.abs(logits(file, want["token_ids"])[-1] - want["logits_last"]).max()
        assert off < 1e-4, f"{path.name}: this program's logits are {off} off"
        smaller(file, 128 if path.stem in PLAIN else 256)
        rows = logits(file, tokens)
        first = {name: [round(float(v), 7) for v in file.values(name).reshape(-1)[:256]]
                 for name, (_, shape, _) in file.tensors.items()
                 if name.rsplit(".", 2)[-2] in ("output", "token_embd", "attn_q", "attn_v", "ffn_down")}
        files[path.name] = {
            "token_ids": tokens, "logits_last": [round(float(v), 5) for v in rows[-1]],
            "logsumexp": [round(float(v), 5) for v in np.log(np.exp(rows).sum(-1))],
            "argmax": [int(v) for v in rows.argmax(-1)], "first_256_values": first,
        }
        write(file, output / path.name)
        print(f"{path.name}: {(output / path.name).stat().st_size} bytes, the source's logits {off:.1e} off")
    oracle = "weights dequantized by the gguf Python package, forward pass in float64 by tools/make_small_quant_vectors.py"
    (output / "expected.json").write_text(json.dumps({"oracle": oracle, "files": files}))


if __name__ == "__main__":
    main()
