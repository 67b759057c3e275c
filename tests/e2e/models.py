"""Models for the tests of commands that make text: the default one, and a tiny one that is made on the spot."""
import json
import os
import pathlib
import shutil
import unittest

import support

CHATML = (
    "{% for message in messages %}{{ '<s>' + message['role'] + '\\n' + message['content'] + '</s>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<s>assistant\\n' }}{% endif %}"
)


def default_model():
    """The default model: of the directory INGOT_MODELS, or of the cache. Skips the test where it cannot be had."""
    for path in sorted(pathlib.Path(os.environ.get("INGOT_MODELS", "/nowhere")).rglob("SmolLM2-135M-Instruct.Q4_1.gguf")):
        return str(path)
    return support.default_model()


def byte_name(byte):
    """The character that stands for a byte in a byte-level vocabulary."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    if byte in printable:
        return chr(byte)
    return chr(256 + sum(other not in printable for other in range(byte)))


def tiny_tokenizer():
    """A byte-level tokenizer.json of 256 tokens: <pad>, <s>, </s>, then all bytes but three that no text has."""
    left_out = (0xFD, 0xFE, 0xFF)
    special = ["<pad>", "<s>", "</s>"]
    names = special + [byte_name(byte) for byte in range(256) if byte not in left_out]
    added = [
        {"id": i, "content": name, "special": True, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False}
        for i, name in enumerate(special)
    ]
    return {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": {name: i for i, name in enumerate(names)}, "merges": []},
    }


def checkpoint(name="llama"):
    """A directory of tests/data/arch: random weights, no tokenizer."""
    path = support.DATA / "arch" / name
    if not path.exists():
        raise unittest.SkipTest(f"tests/data/arch/{name} is missing")
    return path


def make_tiny(directory, template=CHATML, generation=None, **config):
    """A tiny Llama with a tokenizer in `directory`: 256 tokens, context 512, answers of random bytes."""
    source = checkpoint()
    directory.mkdir(parents=True, exist_ok=True)
    shutil.copy(source / "model.safetensors", directory)
    settings = json.loads((source / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**settings, **config}))
    (directory / "generation_config.json").write_text(json.dumps(generation or {}))
    (directory / "tokenizer.json").write_text(json.dumps(tiny_tokenizer()))
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    if template:
        names["chat_template"] = template
    (directory / "tokenizer_config.json").write_text(json.dumps(names))
    return directory


def to_bf16(directory):
    """The weights of make_tiny() in BF16: the upper half of each float32."""
    path = directory / "model.safetensors"
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header, data = json.loads(raw[8:8 + size]), raw[8 + size:]
    half = bytearray(len(data) // 2)
    half[0::2], half[1::2] = data[2::4], data[3::4]
    for name, tensor in header.items():
        if name != "__metadata__":
            header[name] = {**tensor, "dtype": "BF16", "data_offsets": [at // 2 for at in tensor["data_offsets"]]}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + half)
    return directory


# Answers of the tiny model go on until the length is reached.
ENDLESS = ("--logit-bias", "2:-inf")
