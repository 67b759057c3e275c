#!/usr/bin/env python3
"""Makes a teacher for measurements of compression: the same function as a Llama model in GGUF, off every grid.

    tools/make_teacher.py MODEL.gguf TEACHER.gguf [--seed 1] [--pad 768] [--type f16|f32]

A model that was published in 4 bits lies on a grid that another format of 4 bits finds again: what such a format loses
cannot be measured with it. Here its values are decoded, and three kinds of channels are put into another order, by a
seed: those of the residual stream, those between the two halves of each feed-forward, and those of each head's values.
No order changes what is computed, but blocks of neighbours have other neighbours then.

--pad N makes the residual stream N channels wide, the new ones all zero, and adds heads of zeros until they fill N too:
formats in blocks of 256 need rows of whole blocks. A norm divides by the root of the mean over N then: its weights are
multiplied by sqrt(D / N) and its epsilon by D / N.

Needs the Python packages numpy and gguf.
"""
import argparse
import math

import gguf
import numpy as np


class Teacher:
    def __init__(self, reader, pad, seed):
        self.fields = reader.fields
        self.tensors = {t.name: t for t in reader.tensors}
        self.arch = self.text("general.architecture")
        if self.arch != "llama":
            raise SystemExit(f"make_teacher: architecture '{self.arch}', only llama is known")
        self.width = self.number("embedding_length")
        self.layers = self.number("block_count")
        self.heads = self.number("attention.head_count")
        self.kv_heads = self.number("attention.head_count_kv")
        self.head = self.width // self.heads
        self.pad = pad or self.width
        if self.pad < self.width or self.pad % self.head or (self.pad // self.head) % (self.heads // self.kv_heads):
            raise SystemExit(f"make_teacher: {self.width} channels cannot be padded to {self.pad}")
        self.new_heads = self.pad // self.head
        self.new_kv = self.new_heads // (self.heads // self.kv_heads)
        self.random = np.random.default_rng(seed)
        self.order = self.random.permutation(self.width)

    def text(self, key):
        return bytes(self.fields[key].parts[-1]).decode()

    def number(self, key):
        return int(self.fields[f"{self.arch}.{key}"].parts[-1][0])

    def values(self, name):
        t = self.tensors[name]
        return gguf.dequantize(t.data, t.tensor_type).astype(np.float32).reshape([int(d) for d in t.shape[::-1]])

    def columns(self, w):
        """Reads the residual stream: its columns in the new order, and zeros behind."""
        out = np.zeros((w.shape[0], self.pad), np.float32)
        out[:, : self.width] = w[:, self.order]
        return out

    def rows(self, w):
        """Writes to the residual stream."""
        out = np.zeros((self.pad, w.shape[1]), np.float32)
        out[: self.width] = w[self.order]
        return out

    def norm(self, w):
        out = np.zeros(self.pad, np.float32)
        out[: self.width] = w[self.order] * math.sqrt(self.width / self.pad)
        return out

    def heads_of(self, w, count):
        """Rows are heads; zeros for those that are added."""
        out = np.zeros((count * self.head, w.shape[1]), np.float32)
        out[: w.shape[0]] = w
        return out

    def layer(self, i):
        name = lambda part: f"blk.{i}.{part}.weight"
        get = lambda part: self.values(name(part))
        yield name("attn_norm"), self.norm(get("attn_norm"))
        yield name("ffn_norm"), self.norm(get("ffn_norm"))
        yield name("attn_q"), self.columns(self.heads_of(get("attn_q"), self.new_heads))
        yield name("attn_k"), self.columns(self.heads_of(get("attn_k"), self.new_kv))
        inside = [self.random.permutation(self.head) for _ in range(self.kv_heads)]
        v_order = np.concatenate([h * self.head + inside[h] for h in range(self.kv_heads)])
        yield name("attn_v"), self.columns(self.heads_of(get("attn_v")[v_order], self.new_kv))
        group = self.heads // self.kv_heads
        o_order = np.concatenate([h * self.head + inside[h // group] for h in range(self.heads)])
        o = get("attn_output")[:, o_order]
        wide = np.zeros((o.shape[0], self.new_heads * self.head), np.float32)
        wide[:, : o.shape[1]] = o
        yield name("attn_output"), self.rows(wide)
        between = self.random.permutation(get("ffn_up").shape[0])
        yield name("ffn_gate"), self.columns(get("ffn_gate")[between])
        yield name("ffn_up"), self.columns(get("ffn_up")[between])
        yield name("ffn_down"), self.rows(get("ffn_down")[:, between])

    def all(self):
        yield "token_embd.weight", self.columns(self.values("token_embd.weight"))
        if "output.weight" in self.tensors:
            yield "output.weight", self.columns(self.values("output.weight"))
        yield "output_norm.weight", self.norm(self.values("output_norm.weight"))
        for i in range(self.layers):
            yield from self.layer(i)


def copy_metadata(teacher, writer):
    new = {
        f"{teacher.arch}.embedding_length": teacher.pad,
        f"{teacher.arch}.attention.head_count": teacher.new_heads,
        f"{teacher.arch}.attention.head_count_kv": teacher.new_kv,
    }
    epsilon = f"{teacher.arch}.attention.layer_norm_rms_epsilon"
    left_out = ("GGUF.", "general.architecture", "general.file_type", "general.quantization_version")
    for key, field in teacher.fields.items():
        if key.startswith(left_out):
            continue
        kind = field.types[0]
        value = field.contents()
        if key in new:
            value = new[key]
        if key == epsilon:
            value = value * teacher.width / teacher.pad
        writer.add_key_value(key, value, kind, field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("teacher")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pad", type=int, default=0)
    parser.add_argument("--type", choices=("f16", "f32"), default="f16")
    args = parser.parse_args()
    teacher = Teacher(gguf.GGUFReader(args.model), args.pad, args.seed)
    writer = gguf.GGUFWriter(args.teacher, teacher.arch)
    copy_metadata(teacher, writer)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16 if args.type == "f16" else gguf.LlamaFileType.ALL_F32)
    for name, values in teacher.all():
        small = args.type == "f16" and values.ndim > 1
        writer.add_tensor(name, values.astype(np.float16 if small else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
