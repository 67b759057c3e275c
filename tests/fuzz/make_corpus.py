#!/usr/bin/env python3
"""Writes the seed inputs of tests/fuzz/corpus: small files that reach the parsers' branches, valid and not.

usage: make_corpus.py [directory]      (default: corpus/ beside this file)
"""
import json
import struct
import sys
from pathlib import Path

from grammar_seeds import calls_seeds, gbnf_seeds, lark_seeds, schema_seeds, structural_tag_seeds
from rank_seeds import handshake_seeds, step_message_seeds
from scheme_seeds import safetensors, scheme_seeds

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


def tokenizer_json(model=None, added=(), **stages):
    model = model or {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "\u2581": 3}, "merges": ["a b"]}
    names = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
    root = {"added_tokens": list(added), **{name: stages.get(name) for name in names}, "model": model}
    return json.dumps(root, separators=(",", ":")).encode()


def tokenizer_json_seeds():
    pattern = {"Regex": r"\p{N}{1,3}"}
    special = {"id": 4, "content": "<s>", "special": True, "lstrip": True, "rstrip": True, "single_word": True}
    normalizers = [{"type": name} for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt")] + [
        {"type": "Strip", "strip_left": True, "strip_right": True}, {"type": "Prepend", "prepend": "\u2581"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
        {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
        {"type": "Precompiled", "precompiled_charsmap": "BAAAAAAAAAAA"}]
    splits = [{"type": "Split", "pattern": pattern, "behavior": behavior, "invert": behavior == "Removed"}
              for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")]
    pre = splits + [{"type": name} for name in ("Whitespace", "WhitespaceSplit", "BertPreTokenizer", "UnicodeScripts")] + [
        {"type": "Split", "pattern": {"String": "a"}, "behavior": "Isolated"},
        {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True},
        {"type": "Digits", "individual_digits": True}, {"type": "Punctuation", "behavior": "Isolated"}]
    decoders = [{"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0},
                {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always"},
                {"type": "WordPiece", "prefix": "##", "cleanup": True}, {"type": "BPEDecoder", "suffix": "</w>"},
                {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": True}]
    template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
                "special_tokens": {"<s>": {"id": "<s>", "ids": [4], "tokens": ["<s>"]}}}
    pair = {"sep": ["<s>", 4], "cls": ["<s>", 4]}
    byte_level = {"type": "ByteLevel", "add_prefix_space": True, "use_regex": True, "trim_offsets": True}
    yield "bpe", tokenizer_json(added=[special], post_processor=template)
    for i, stage in enumerate(normalizers):
        yield f"normalizer{i}", tokenizer_json(normalizer=stage)
    for i, stage in enumerate(pre):
        yield f"pre{i}", tokenizer_json(pre_tokenizer=stage)
    for i, stage in enumerate(decoders):
        yield f"decoder{i}", tokenizer_json(decoder=stage)
    yield "sequences", tokenizer_json(
        normalizer={"type": "Sequence", "normalizers": normalizers[:2]}, decoder={"type": "Sequence", "decoders": decoders[:2]},
        pre_tokenizer={"type": "Sequence", "pretokenizers": pre[:2]})
    yield "byte_level", tokenizer_json(pre_tokenizer=byte_level, decoder=byte_level, post_processor=byte_level)
    yield "bert", tokenizer_json({"type": "WordPiece", "unk_token": "a", "continuing_subword_prefix": "##",
                                  "max_input_chars_per_word": 100, "vocab": {"a": 0, "##b": 1}}, [special],
                                 post_processor={"type": "BertProcessing", **pair})
    yield "roberta", tokenizer_json(added=[special], post_processor={"type": "RobertaProcessing", **pair})
    yield "unigram", tokenizer_json({"type": "Unigram", "unk_id": 0, "byte_fallback": False,
                                     "vocab": [["<unk>", 0], ["a", -1.5], ["ab", -2], ["b", -1]]})
    yield "wordlevel", tokenizer_json({"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0, "b": 1}})
    yield "fallback", tokenizer_json({"type": "BPE", "unk_token": "a", "fuse_unk": True, "byte_fallback": True,
                                      "ignore_merges": True, "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]})
    for name, change in {"dropout": {"dropout": 0.1}, "merge": {"merges": ["a c"]}, "merges": {"merges": [1]},
                         "ids": {"vocab": {"a": 0, "b": 0}}, "far": {"vocab": {"a": 1 << 31}}, "unk": {"unk_token": "x"},
                         "suffix": {"end_of_word_suffix": "</w>"}, "type": {"type": "Zip"}}.items():
        yield name, tokenizer_json({"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": [], **change})
    yield "no_model", b"{}"


def gguf_vocab_seeds():
    def vocab(model, tokens, types, *more, pre="gpt-2"):
        return gguf([key("tokenizer.ggml.model", "string", model), key("tokenizer.ggml.pre", "string", pre),
                     key("tokenizer.ggml.tokens", ["array", "string"], tokens),
                     key("tokenizer.ggml.token_type", ["array", "i32"], types), *more])

    merges = key("tokenizer.ggml.merges", ["array", "string"], ["a b"])
    ids = [key(f"tokenizer.ggml.{name}_token_id", "u32", 3) for name in ("bos", "eos", "unknown", "padding", "eot")]
    flags = [key(f"tokenizer.ggml.{name}", "bool", 1)
             for name in ("add_bos_token", "add_eos_token", "add_space_prefix", "remove_extra_whitespaces")]
    scores = key("tokenizer.ggml.scores", ["array", "f32"], [-1.0, -2.0, -0.5, 0.0])
    charsmap = key("tokenizer.ggml.precompiled_charsmap", ["array", "u8"], [4, 0, 0, 0, 0, 0, 0, 0, 0])
    tokens = ["a", "b", "ab", "<s>"]
    for pre in ("gpt-2", "llama-bpe", "qwen2", "default", "deepseek-llm", "tiny_aya", "superbpe", "gemma4", "whitespace", "x"):
        yield "gpt2_" + pre.replace("-", "_"), vocab("gpt2", tokens, [1, 1, 1, 3], merges, *ids, *flags, pre=pre)
    yield "llama", vocab("llama", tokens, [1, 1, 1, 2], scores, *ids, *flags)
    yield "llama_plain", vocab("llama", ["\u2581", "<0x41>", "c", "<u>"], [1, 6, 4, 2], scores)
    yield "t5", vocab("t5", tokens, [1, 1, 1, 2], scores, charsmap, *ids, *flags)
    yield "t5_plain", vocab("t5", tokens, [1, 5, 4, 2], scores, *ids)
    yield "bert", vocab("bert", ["\u2581a", "b", "\u2581ab", "[UNK]"], [1, 1, 1, 3], *ids)
    yield "rwkv", vocab("rwkv", ["a\\n", "\\x41", "\\t\\\\", "<s>"], [1, 1, 1, 3], *ids)
    yield "rwkv_escape", vocab("rwkv", ["a\\", "b", "c", "<s>"], [1, 1, 1, 3])
    yield "twice", vocab("gpt2", ["a", "a", "ab", "<s>"], [1, 1, 1, 3], merges)
    yield "merge", vocab("gpt2", tokens, [1, 1, 1, 3], key("tokenizer.ggml.merges", ["array", "string"], ["ab"]))
    yield "types", vocab("gpt2", tokens, [1, 1, 1], merges)
    yield "type", vocab("gpt2", tokens, [1, 1, 1, 9], merges)
    yield "scores", vocab("llama", tokens, [1, 1, 1, 3], key("tokenizer.ggml.scores", ["array", "f32"], [0.0]))
    yield "id", vocab("gpt2", tokens, [1, 1, 1, 3], merges, key("tokenizer.ggml.bos_token_id", "u32", 99))
    yield "none", gguf()
    yield "phi3", vocab("llama", tokens, [1, 1, 1, 3], scores, key("general.name", "string", "Phi-3"))


def protobuf_field(number, wire, value):
    def varint(n):
        out = bytearray()
        while n >= 0x80:
            out.append(n & 0x7F | 0x80)
            n >>= 7
        return bytes(out) + bytes([n])

    tag = varint(number << 3 | wire)
    return tag + (varint(value) if wire == 0 else value if wire in (1, 5) else varint(len(value)) + value)


def sentencepiece_seeds():
    def piece(content, score, kind):
        raw = protobuf_field(1, 2, content.encode()) + protobuf_field(2, 5, struct.pack("<f", score))
        return protobuf_field(1, 2, raw + protobuf_field(3, 0, kind))

    def trainer(**fields):
        numbers = {"type": 3, "suffix": 24, "fallback": 35, "unk": 40, "bos": 41, "eos": 42, "pad": 43}
        return protobuf_field(2, 2, b"".join(protobuf_field(numbers[k], 0, v) for k, v in fields.items()))

    def rules(charsmap=b"", dummy=1, squeeze=1, escape=1):
        return protobuf_field(3, 2, (protobuf_field(2, 2, charsmap) if charsmap else b"") + protobuf_field(3, 0, dummy) +
                              protobuf_field(4, 0, squeeze) + protobuf_field(5, 0, escape))

    pieces = piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3) + piece("\u2581", -1, 1) + piece("a", -2, 1)
    pieces += piece("\u2581a", -1, 1) + piece("KK", -1, 4) + piece("old", 0, 5) + piece("<0x41>", 0, 6)
    folder = Path(__file__).parent.parent / "data" / "tokenizers"
    tsv = folder / "sp_unigram.model"
    yield "published_unigram", tsv.read_bytes()
    for kind in (1, 2, 3, 4):
        yield f"type{kind}", pieces + trainer(type=kind, unk=0, bos=1, eos=2, pad=3)
        yield f"plain{kind}", pieces + trainer(type=kind) + rules(squeeze=0)
    yield "suffix", pieces + trainer(type=1, suffix=1, fallback=1) + rules()
    yield "no_escape", pieces + trainer(type=2) + rules(escape=0, dummy=0)
    yield "charsmap", pieces + trainer(type=1) + rules(struct.pack("<III", 8, 0, 0) + b"a\0")
    yield "bad_charsmap", pieces + trainer(type=1) + rules(b"xyz")
    yield "outside", pieces + trainer(type=1) + rules(struct.pack("<II", 4, 0x100) + b"\0")
    yield "twice", pieces + piece("a", 0, 1)
    yield "unknown_twice", pieces + piece("u", 0, 2)
    yield "kind", pieces + piece("u", 0, 9)
    yield "decoding", pieces + protobuf_field(5, 2, protobuf_field(2, 2, b"x"))
    yield "wire", pieces + protobuf_field(9, 1, bytes(8)) + protobuf_field(9, 5, bytes(4)) + b"\x0b"
    yield "long", pieces + b"\x0a\xff\xff\xff\xff\x07"
    yield "endless", pieces + b"\xff" * 12
    yield "message", protobuf_field(1, 0, 1)


def tiktoken_seeds():
    yield "lines", b"YWI= 256\nYWJj 257\r\n\ndGhl 300\nIHRo 301\n"
    yield "odd_ranks", b"YWJj 256\nYWI= 257\nYmM= 258\n"
    yield "clash", b"YWI= 900\n"
    yield "far", b"YWI= 99999\n"
    yield "twice", b"YWI= 256\nYWI= 257\n"
    yield "rank_twice", b"YWI= 256\nYWM= 256\n"
    yield "not_base64", b"Y\n"
    yield "no_rank", b"YWI=\n"
    yield "empty", b""
    vocab = ',"vocab":["BYTES",{"rank":256,"token_bytes":"YWI="},{"rank":257,"token_bytes":"YWJj"}]}'
    config = (r'{"config":{"pattern":"\\p{N}","default_vocab_size":%s,"default_num_special_tokens":%s,"version":"%s"}')
    yield "tekken", (config % (282, 24, "v3") + vocab).encode()
    special = ',"special_tokens":[{"rank":0,"token_str":"<unk>"},{"rank":1,"token_str":"<s>"},{"rank":2,"token_str":"</s>"}]'
    yield "tekken_special", (config % (261, 4, "v13") + special + vocab).encode()
    yield "tekken_none", (config % (261, 4, "v13") + vocab).encode()
    yield "tekken_version", (config % (261, 4, "x") + vocab).encode()
    yield "tekken_sizes", (config % (3, 4, "v3") + vocab).encode()
    yield "tekken_short", (config % (2820, 24, "v3") + vocab).encode()
    yield "tekken_rank", (config % (282, 24, "v3") + vocab.replace("257", "258")).encode()
    yield "tekken_twice", (config % (261, 4, "v3") + special.replace("</s>", "<s>") + vocab).encode()
    yield "tekken_config", b"{}"


def http_seeds():
    get, post = b"GET / HTTP/1.1\r\nHost: h\r\n", b"POST /p?q=1 HTTP/1.1\r\nHost: h\r\n"
    chunked = post + b"Transfer-Encoding: chunked\r\n\r\n"
    requests = {
        "pipelined": get + b"\r\n" + post + b"Content-Length: 5\r\n\r\nhello" + get + b"Connection: close\r\n\r\n",
        "chunks": chunked + b"5\r\nhello\r\nA;x=y\r\n0123456789\r\n0\r\nT: x\r\n\r\n" + get + b"\r\n",
        "old": b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n\r\nGET / HTTP/1.0\r\n\r\n",
        "absolute": b"GET http://a:1/b?c HTTP/1.1\r\nHost: h\r\n\r\nGET HTTPS://a HTTP/1.1\r\nHost: h\r\n\r\n",
        "no_authority": b"GET http:///b HTTP/1.1\r\nHost: h\r\n\r\n",
        "expect": post + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\nab",
        "expectation": get + b"Expect: more\r\n\r\n",
        "both_lengths": post + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "two_lengths": post + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        "other_lengths": post + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "bad_length": post + b"Content-Length: 5x\r\n\r\nhello",
        "long_length": post + b"Content-Length: 301\r\n\r\n",
        "huge_length": post + b"Content-Length: 99999999999999999999\r\n\r\n",
        "coding": post + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
        "codings": post + b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n",
        "two_codings": post + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        "old_coding": b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
        "gzip": post + b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
        "bare_lf": b"GET / HTTP/1.1\nHost: h\n\n",
        "folded": get + b"X: a\r\n b\r\n\r\n",
        "nul": get + b"X: a\0b\r\n\r\n",
        "control": get + b"X: a\x01b\r\n\r\n",
        "no_colon": get + b"X\r\n\r\n",
        "no_host": b"GET / HTTP/1.1\r\n\r\n",
        "two_hosts": get + b"Host: h\r\n\r\n",
        "version": b"GET / HTTP/2.0\r\n\r\n",
        "minor": b"GET / HTTP/1.7\r\nHost: h\r\n\r\n",
        "method": b"G@T / HTTP/1.1\r\n\r\n",
        "long_method": b"M" * 40 + b" / HTTP/1.1\r\nHost: h\r\n\r\n",
        "target": b"GET x HTTP/1.1\r\nHost: h\r\n\r\n",
        "raw_target": b"GET /\x80 HTTP/1.1\r\nHost: h\r\n\r\n",
        "tls": b"\x16\x03\x01\x02\x00\x01",
        "empty_lines": b"\r\n\r\n" + get + b"\r\n",
        "many_empty_lines": b"\r\n\r\n\r\n" + get + b"\r\n",
        "long_target": b"GET /" + b"a" * 300 + b" HTTP/1.1\r\nHost: h\r\n\r\n",
        "target_beyond": b"GET /" + b"a" * 200 + b" HTTP/1.1\r\nHost: h\r\n\r\n",
        "long_head": get + b"X: " + b"a" * 600 + b"\r\n\r\n",
        "many_headers": get + b"X: y\r\n" * 8 + b"\r\n",
        "chunk_bare_lf": chunked + b"5\nhello\r\n0\r\n\r\n",
        "chunk_size": chunked + b"x\r\n",
        "chunk_digits": chunked + b"0000000000000005\r\nhello",
        "chunk_line": chunked + b"5;" + b"e" * 300,
        "chunk_control": chunked + b"5;\x01\r\n",
        "chunk_end": chunked + b"5\r\nhello!!",
        "chunk_end_lf": chunked + b"5\r\nhello\r!",
        "chunk_beyond": chunked + b"12d\r\n",
        "chunk_trailers": chunked + b"0\r\n" + b"T: x\r\n" * 200,
        "chunk_framing": chunked + (b"1;" + b"e" * 240 + b"\r\nx\r\n") * 290,
    }
    for number, (name, data) in enumerate(requests.items()):
        yield name, bytes([number]) + data


def config_seeds():
    """Configurations as they are published, and each of their parts in forms that must be refused."""
    llama = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
             "num_key_value_heads": 2, "intermediate_size": 128, "max_position_embeddings": 512, "vocab_size": 256,
             "rms_norm_eps": 1e-5, "hidden_act": "silu", "rope_theta": 10000.0, "tie_word_embeddings": True}
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128, "beta_fast": 32, "beta_slow": 1,
            "mscale": 1.0, "mscale_all_dim": 0.8, "truncate": False}
    llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 128}
    longrope = {"type": "longrope", "short_factor": [1.0] * 8, "long_factor": [2.0] * 8, "attention_factor": 1.1}
    forms = {
        "llama": llama,
        "yarn": {**llama, "rope_scaling": yarn},
        "yarn_plain": {**llama, "rope_scaling": {"rope_type": "yarn", "factor": 2.0}},
        "llama3": {**llama, "rope_parameters": {**llama3, "rope_theta": 500000.0}},
        "longrope": {**llama, "rope_scaling": longrope, "original_max_position_embeddings": 64},
        "longrope_short": {**llama, "rope_scaling": {**longrope, "short_factor": [1.0]}},
        "linear": {**llama, "rope_scaling": {"type": "linear", "factor": 2.0}},
        "dynamic": {**llama, "rope_scaling": {"type": "dynamic", "factor": 2.0}, "head_dim": 32},
        "rope_type": {**llama, "rope_scaling": {"type": "spiral"}},
        "rope_share": {**llama, "partial_rotary_factor": 1e300},
        "rope_odd": {**llama, "partial_rotary_factor": 0.2},
        "rope_theta": {**llama, "rope_theta": -1},
        "rope_factor": {**llama, "rope_scaling": {"type": "linear", "factor": 0}},
        "two_ropes": {**llama, "sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"],
                      "rope_parameters": {"full_attention": llama3, "sliding_attention": {"rope_type": "default"}}},
        "local_base": {**llama, "rope_local_base_freq": 1000.0, "sliding_window": 8, "rope_scaling": yarn},
        "layer_types": {**llama, "sliding_window": 8, "layer_types": ["full_attention"]},
        "layer_names": {**llama, "sliding_window": 8, "layer_types": [1, 2]},
        "nested": {"model_type": "gemma3", "text_config": {**llama, "model_type": "gemma3_text"}},
        "older": {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128, "vocab_size": 256,
                  "activation_function": "gelu_new"},
        "activation": {**llama, "hidden_act": "relu6"},
        "hidden_activation": {**{k: v for k, v in llama.items() if k != "hidden_act"}, "hidden_activation": "gelu"},
        "heads": {**llama, "num_key_value_heads": 3},
        "huge": {**llama, "hidden_size": 1 << 40},
        "negative": {**llama, "num_hidden_layers": -1},
        "float_size": {**llama, "hidden_size": 64.5},
        "whole_float": {**llama, "hidden_size": 64.0},
        "eps": {**llama, "rms_norm_eps": -1},
        "fp8": {**llama, "quantization_config": {"quant_method": "fp8"}},
        "quantized": {**llama, "quantization_config": {"quant_method": "gptq"}},
        "no_type": {k: v for k, v in llama.items() if k != "model_type"},
        "missing": {"model_type": "llama"},
        "sampling": {**llama, "do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "min_p": 0.1,
                     "repetition_penalty": 1.1, "eos_token_id": [1, 2], "bos_token_id": 1},
        "greedy": {"do_sample": False, "temperature": -5, "top_k": 1e9, "eos_token_id": 3},
        "tokens": {"bos_token": {"content": "<s>"}, "eos_token": "</s>", "unk_token": None, "pad_token": "<pad>",
                   "add_bos_token": True, "add_eos_token": False, "do_lower_case": True, "tokenizer_class": "X",
                   "added_tokens_decoder": {"5": {"content": "<e>", "special": True, "lstrip": True}},
                   "chat_template": "{{ messages }}"},
        "templates": {"chat_template": [{"name": "default", "template": "{{ a }}"}, {"name": "tool_use", "template": "b"}]},
        "template_list": {"chat_template": [1]},
        "token_id": {"added_tokens_decoder": {"x": {}}},
        "token_name": {"bos_token": 5},
        "end_token": {"eos_token_id": ["x"]},
    }
    for name, value in forms.items():
        yield name, json.dumps(value).encode()
    yield "nonfinite", json.dumps(llama).replace("1e-05", "Infinity").encode()
    yield "no_object", b"[1]"
    yield "no_json", b"{"
    yield "empty", b""


def pattern_seeds():
    """A pattern on the first line, a text behind it: those of published tokenizers, and what the translation knows."""
    gpt2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
    llama3 = ("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
              "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+")
    text = "The king's 1234 men\r\n\n  don't é中文\t x"
    patterns = {
        "gpt2": gpt2, "llama3": llama3, "digits": "\\p{N}{1,3}", "single": "\\d", "space": "\\s+$", "any": ".", "empty": "",
        "look_behind": "(?<=a)b|(?<!c)d", "class": "[^a-z\\]\\\\&&[x-z]]+", "posix": "[[:alpha:]]+", "hex": "\\x{4e2d}|\\h",
        "atomic": "(?>a+)b", "possessive": "a++b", "named": "(?<n>a)\\k<n>", "back": "(a)\\1", "unclosed": "(a", "range": "[z-a]",
        "bad_escape": "\\q\\", "property": "\\p{Han}+|\\p{^L}|\\P{L}", "bad_property": "\\p{Nonsense}", "flags": "(?imx: a b )",
        "anchors": "^a$|\\A|\\z|\\b", "repeat": "(a{1,500}){1,500}", "nested": "(" * 101 + ")" * 101,
        "catastrophe": "(a*)*b", "subroutine": "(?<x>a\\g<x>?b)", "conditional": "(?(1)a|b)", "comment": "(?#x)a",
        "newline": "\\R|\\X|\\N|\\O", "keep": "a\\Kb", "unicode": "é|[中-文]", "empty_match": "x*",
    }
    for name, pattern in patterns.items():
        yield name, (pattern + "\n" + text + ("a" * 40 if name == "catastrophe" else "")).encode()
    yield "bytes", b"\xff[\xfe]\n\xff\xfe"
    yield "no_text", b"a+"


def grammar_seeds():
    """A pattern that an answer is held to on the first line, a text behind it."""
    patterns = {
        "word": ("[a-z]{2,40}", "abc"), "number": ("-?(0|[1-9]\\d*)(\\.\\d+)?([eE][+-]?\\d+)?", "-12.5e+3"),
        "either": ("(?:north|south)+!?", "north"), "date": ("\\d{4}-(0[1-9]|1[0-2])-\\d\\d", "2024-05"),
        "mail": ("[\\w.+-]+@[\\w-]+\\.[a-z]{2,}", "a.b@c"), "any": (".{3,30}", "é中x"), "lines": ("(?s).*", "a\nb"),
        "bomb": ("(a?){64}a{64}", "aaaa"), "stars": ("(a*)*b", "aaaa"), "counts": ("(a{1,500}){1,500}b", "aaab"),
        "classes": ("[^\\x00-\\x1f\"\\\\]*[\\u{1F600}-\\u{1F64F}]\\S\\D\\W\\s", "ab"), "property": ("\\p{Lu}\\p{Letter}+\\P{L}", "Ab1"),
        "anchors": ("^a|b$|(^|/)x(/|$)", "a"), "repeated_anchor": ("(^a)*", "a"), "flags": ("(?i)ab(?-i:c)(?s:.)", "ABc"),
        "names": ("(?<year>\\d+)(?P<x>y)", "1y"), "lazy": ("a+?b*?c??d{2,3}?", "abdd"), "brace": ("a{,3}{", "a{,3}{"),
        "escapes": ("\\t\\n\\v\\f\\r\\cA\\0\\x41\\u0041\\uD83D\\uDE00\\/\\.", "\t"), "bad_escape": ("\\q", ""),
        "look": ("(?=a)b|(?<!c)d", ""), "back": ("(a)\\1", ""), "named_back": ("(?<n>a)\\k<n>", ""), "border": ("\\ba", ""),
        "unclosed": ("(a", ""), "closed": ("a)", ""), "class_end": ("[a", ""), "range": ("[z-a]", ""), "twice": ("a**", ""),
        "nested": ("(" * 60 + ")" * 60, ""), "empty": ("", ""), "nothing": ("[]", ""), "anything": ("[^]", "a"),
        "script": ("\\p{Script=Greek}", ""), "wide": ("\\u{110000}", ""), "hex": ("\\xZ1", ""), "set": ("[\\w-\\d\\b]-", "--"),
    }
    for name, (pattern, text) in patterns.items():
        yield name, (pattern + "\n" + text).encode()
    yield "bytes", b"\xff[\xfe]\n\xff\xfe"
    yield "no_text", b"a+"


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "corpus"
    targets = {"gguf": gguf_seeds, "safetensors": safetensors_seeds, "json": json_seeds,
               "tokenizer_json": tokenizer_json_seeds, "gguf_vocab": gguf_vocab_seeds,
               "sentencepiece": sentencepiece_seeds, "tiktoken": tiktoken_seeds, "http": http_seeds,
               "config": config_seeds, "pattern": pattern_seeds, "grammar": grammar_seeds, "schema": schema_seeds, "gbnf": gbnf_seeds,
               "lark": lark_seeds, "structural_tag": structural_tag_seeds, "calls": calls_seeds, "scheme": scheme_seeds,
               "step_message": step_message_seeds, "handshake": handshake_seeds}
    for target, seeds in targets.items():
        folder = root / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in seeds():
            (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
