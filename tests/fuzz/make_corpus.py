#!/usr/bin/env python3
"""Writes the seed inputs of tests/fuzz/corpus: small files that reach the parsers' branches, valid and not.

usage: make_corpus.py [directory]      (default: corpus/ beside this file)
"""
import json
import struct
import sys
from pathlib import Path

KINDS = {"u8": (0, "<B"), "i8": (1, "<b"), "u16": (2, "<H"), "i16": (3, "<h"), "u32": (4, "<I"), "i32": (5, "<i"),
         "f32": (6, "<f"), "bool": (7, "<B"), "u64": (10, "<Q"), "i64": (11, "<q"), "f64": (12, "<d")}


def text(value):
    raw = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(raw)) + raw


def key(name, kind, value):
    """kind: a name of KINDS, "string", or ["array", element]."""
    if kind == "string":
        return text(name) + struct.pack("<I", 8) + text(value)
    if isinstance(kind, list):
        element = kind[1]
        number = 8 if element == "string" else 9 if element == "array" else KINDS[element][0]
        items = b"".join(text(v) if element == "string" else struct.pack(KINDS[element][1], v) for v in value)
        return text(name) + struct.pack("<IIQ", 9, number, len(value)) + items
    number, form = KINDS[kind]
    return text(name) + struct.pack("<I", number) + struct.pack(form, value)


def tensor(name, dims, kind, offset):
    return text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


def gguf(keys=(), tensors=(), data=0, version=3, alignment=32, n_keys=None, n_tensors=None, magic=b"GGUF"):
    head = magic + struct.pack("<IQQ", version, len(tensors) if n_tensors is None else n_tensors,
                               len(keys) if n_keys is None else n_keys)
    out = head + b"".join(keys) + b"".join(tensors)
    return out + bytes(-len(out) % alignment) + bytes(range(256)) * (data // 256) + bytes(data % 256) if data else out


def gguf_seeds():
    numbers = [key("k." + kind, kind, 1) for kind in KINDS]
    arrays = [key("a." + kind, ["array", kind], [1, 0, 1]) for kind in KINDS]
    strings = [key("s", "string", "text"), key("ss", ["array", "string"], ["a", "", b"\xff"])]
    good = [tensor("a", [4], 0, 0), tensor("b", [32, 2], 2, 32)]
    split = [key("split.no", "u16", 0), key("split.count", "u16", 2), key("split.tensors.count", "i32", 1)]
    yield "numbers", gguf(numbers)
    yield "negative", gguf([key("k." + kind, kind, -1) for kind in ("i8", "i16", "i32", "i64", "f32", "f64")])
    yield "arrays", gguf(arrays)
    yield "strings", gguf(strings, version=2)
    yield "tensors", gguf(strings, good, 96)
    yield "aligned", gguf([key("general.alignment", "u32", 64)], [tensor("a", [4], 0, 0)], 16, alignment=64)
    yield "bad_alignment", gguf([key("general.alignment", "u32", 48)])
    yield "alignment_type", gguf([key("general.alignment", "u64", 64)])
    yield "nested", gguf([key("a", ["array", "array"], [])])
    yield "many_strings", gguf([text("a") + struct.pack("<IIQ", 9, 8, 1 << 40)])
    yield "many_numbers", gguf([text("a") + struct.pack("<IIQ", 9, 4, 1 << 62)])
    yield "kind", gguf([text("a") + struct.pack("<I", 13)])
    yield "bool", gguf([key("a", "bool", 2)])
    yield "long_key", gguf([struct.pack("<Q", 1 << 20) + bytes(16)])
    yield "empty_key", gguf([key("", "u32", 1)])
    yield "twice", gguf([key("a", "u8", 1), key("a", "u8", 1)])
    yield "counts", gguf(n_keys=1 << 40)
    yield "tensor_count", gguf(n_tensors=1 << 40)
    yield "dims", gguf([], [tensor("a", [1] * 5, 0, 0)], 32)
    yield "zero_dim", gguf([], [tensor("a", [0], 0, 0)], 32)
    yield "huge", gguf([], [tensor("a", [1 << 40, 1 << 40], 0, 0)], 32)
    yield "type", gguf([], [tensor("a", [4], 77, 0)], 32)
    yield "removed_type", gguf([], [tensor("a", [4], 4, 0)], 32)
    yield "block", gguf([], [tensor("a", [31], 2, 0)], 32)
    yield "overlap", gguf([], [tensor("a", [32], 0, 0), tensor("b", [4], 0, 32)], 256)
    yield "gap", gguf([], [tensor("a", [4], 0, 0), tensor("b", [4], 0, 64)], 256)
    yield "offset", gguf([], [tensor("a", [4], 0, 1)], 32)
    yield "cut", gguf([], good, 64)
    yield "same_tensor", gguf([], [tensor("a", [4], 0, 0), tensor("a", [4], 0, 32)], 96)
    yield "no_name", gguf([], [tensor("", [4], 0, 0)], 32)
    yield "split", gguf(split, [tensor("a", [4], 0, 0)], 16)
    yield "split_total", gguf(split, [tensor("a", [4], 0, 0), tensor("b", [4], 0, 32)], 48)
    yield "split_range", gguf([key("split.no", "u16", 5), key("split.count", "u16", 2)])
    yield "split_name", gguf([key("split.no", "u16", 1), key("split.count", "u16", 3)])
    yield "magic", gguf(magic=b"TEXT")
    yield "version", gguf(version=1)
    yield "big_endian", gguf(version=3 << 24)
    yield "short", b"GGUF\3\0"
    yield "empty", b""


def safetensors(header, data=0, length=None):
    raw = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(raw) if length is None else length) + raw + bytes(data)


def safetensors_seeds():
    def one(dtype="F32", shape=(2,), offsets=(0, 8)):
        return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}

    good = {"__metadata__": {"format": "pt"}, "b": one(offsets=(4, 12)), "a": one("BF16", (2, 1), (0, 4))}
    yield "good", safetensors(good, 12)
    yield "scalar", safetensors({"s": one("I64", ()), "e": one("U8", (0,), (0, 0))}, 8)
    yield "duplicate", safetensors(b'{"a":{},"a":{}}')
    yield "overlap", safetensors({"a": one(), "b": one(offsets=(4, 12))}, 12)
    yield "gap", safetensors({"a": one(), "b": one(offsets=(9, 17))}, 17)
    yield "tail", safetensors({"a": one()}, 9)
    yield "cut", safetensors({"a": one()}, 7)
    yield "dtype", safetensors({"a": one("F31")}, 8)
    yield "size", safetensors({"a": one(shape=(3,))}, 8)
    yield "bits", safetensors({"a": one("F4", (3,), (0, 2))}, 2)
    yield "backwards", safetensors({"a": one(offsets=(8, 0))}, 8)
    yield "negative", safetensors({"a": one(shape=(-2,))}, 8)
    yield "overflow", safetensors({"a": one(shape=(1 << 40, 1 << 40))}, 8)
    yield "dims", safetensors({"a": one(shape=(1,) * 17, offsets=(0, 4))}, 4)
    yield "offsets", safetensors({"a": one(offsets=(0,))}, 8)
    yield "fields", safetensors({"a": {"dtype": "U8"}})
    yield "field_names", safetensors({"a": {"dtype": "U8", "shape": [0], "x": [0, 0]}})
    yield "field_types", safetensors({"a": {"dtype": 1, "shape": 2, "data_offsets": 3}})
    yield "float_dim", safetensors({"a": one(shape=(2.0,))}, 8)
    yield "metadata", safetensors({"__metadata__": 1})
    yield "metadata_value", safetensors({"__metadata__": {"k": 1}})
    yield "no_object", safetensors(b"[]")
    yield "not_json", safetensors(b"{x")
    yield "length", safetensors(b"{}", length=1 << 40)
    yield "length_file", safetensors(b"{}", length=100)
    yield "short", b"\2\0"
    yield "empty", b""
    index = {"metadata": {"total_size": 4}, "weight_map": {"a": "a.safetensors", "b": "b.safetensors"}}
    yield "index", json.dumps(index).encode()
    yield "index_wrong", b'{"weight_map":{"a":"b.safetensors"}}'
    yield "index_missing", b'{"weight_map":{"a":"c.safetensors"}}'
    yield "index_path", b'{"weight_map":{"a":"../a.safetensors"}}'
    yield "index_type", b'{"weight_map":{"a":1}}'
    yield "index_none", b"{}"


def json_seeds():
    yield "config", json.dumps({"architectures": ["LlamaForCausalLM"], "hidden_size": 64, "rms_norm_eps": 1e-05,
                                "tie_word_embeddings": False, "rope_scaling": None, "rope_theta": 10000.0,
                                "sliding_window": 4096.5, "big": 1 << 63, "huge": 1e300,
                                "rope_parameters": {"rope_type": "yarn", "factor": 4}}, indent=1).encode()
    yield "nonfinite", b'{"a":[Infinity,-Infinity,NaN],"s":"NaN \\" Infinity"}'
    yield "duplicate", b'{"a":1,"b":{"a":1},"a":2}'
    yield "escapes", b'["\\u00e9\\ud83e\\udd8a\\n\\t\\r\\"\\\\\\u0001", "\xc3\xa9"]'
    yield "numbers", b"[0,-0.0,-1.4E-300,1e5,1.5E-300,18446744073709551615,-9223372036854775808,1e999]"
    yield "deep", b"[" * 70 + b"]" * 70
    yield "trailing", b"{} x"
    yield "incomplete", b'{"a":'
    yield "bad_utf8", b'"\xff"'
    yield "long_key", b'{"' + b"k" * 3000 + b'":1,"' + b"k" * 3000 + b'":2}'
    yield "many", b"[" + b"1," * 1100 + b"1]"
    yield "empty", b""


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "corpus"
    for target, seeds in (("gguf", gguf_seeds()), ("safetensors", safetensors_seeds()), ("json", json_seeds())):
        folder = root / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in seeds:
            (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
