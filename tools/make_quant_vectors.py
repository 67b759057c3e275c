#!/usr/bin/env python3
"""Writes tests/data/quant/vectors.bin: blocks of every weight format and what they decode to.

Oracles: the Python packages gguf (0.19) and, for 8-bit floats, torch (2.x); numpy's generator gives the
bytes. The formats of this project alone are written out here in numpy, from the pictures in their headers. Usage: tools/make_quant_vectors.py [output]. Same versions, same file.

Layout, little-endian, records one after the other until the end of the file:
  char[4] "dec " or "enc "    decode: bytes are given, floats expected; encode: the other way round
  char[12] name of the format, padded with zeros
  u32 blocks, u32 values per block, u32 bytes per block; of int4, int4_asym and int8 a block is a whole row
  bytes of all blocks, then float32 of all values
"""
import struct
import sys
from pathlib import Path

import gguf
import numpy as np
import torch

TYPES = gguf.GGMLQuantizationType
# Where the f16 scales of a block lie.
SCALES = {
    "q4_0": [0], "q4_1": [0, 2], "q5_0": [0], "q5_1": [0, 2], "q8_0": [0], "q2_k": [80, 82], "q3_k": [108],
    "q4_k": [0, 2], "q5_k": [0, 2], "q6_k": [208], "iq4_nl": [0], "iq4_xs": [0],
}
# Zeros, smallest and largest subnormal, smallest normal, one, a third, largest finite; both signs.
SPECIAL = [h | s for h in (0x0000, 0x0001, 0x03FF, 0x0400, 0x3C00, 0x3555, 0x7BFF) for s in (0, 0x8000)]
ENCODERS = ["f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0"]


def record(kind, name, data, values):
    data = np.ascontiguousarray(data, np.uint8)
    values = np.ascontiguousarray(values, np.float32)
    head = struct.pack("<4s12sIII", kind.encode(), name.encode(), data.shape[0], values.shape[1], data.shape[1])
    return head + data.tobytes() + values.tobytes()


def random_blocks(rng, name, count, size):
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for k, at in enumerate(SCALES.get(name, [])):
        # Random finite halves of moderate size; then each special one, shifted so that pairs differ.
        halves = rng.integers(0x1800, 0x3C00, count, dtype=np.uint16) | (rng.integers(0, 2, count, dtype=np.uint16) << 15)
        special = np.array(SPECIAL, np.uint16)[: count // 2]
        halves[: len(special)] = np.roll(special, 3 * k)
        blocks[:, at : at + 2] = halves.view(np.uint8).reshape(count, 2)
    return blocks


def decode_gguf(rng, name):
    kind = TYPES[name.upper()]
    values, size = gguf.GGML_QUANT_SIZES[kind]
    if name in ("f16", "bf16"):
        bits = rng.integers(0, 0x10000, 512, dtype=np.uint16)
        exponent = 0x7C00 if name == "f16" else 0x7F80
        bits[: len(SPECIAL)] = SPECIAL
        finite = (bits & exponent) != exponent
        bits = np.concatenate([bits[finite], np.array([exponent, exponent | 0x8000], np.uint16)])
        blocks = bits.view(np.uint8).reshape(-1, 2)
    else:
        blocks = random_blocks(rng, name, 16 if values == 256 else 40, size)
        if name == "mxfp4":
            blocks[:8, 0] = [0, 1, 2, 3, 127, 128, 254, 255]
    with np.errstate(over="ignore"):
        out = np.concatenate([gguf.quants.dequantize(b.reshape(1, -1), kind).reshape(1, values) for b in blocks])
    return record("dec ", name, blocks, out)


def encode_gguf(rng, name):
    kind = TYPES[name.upper()]
    values, size = gguf.GGML_QUANT_SIZES[kind]
    n = 512 if values == 1 else 32
    x = rng.standard_normal((n, values)).astype(np.float32)
    x *= np.exp2(rng.integers(-12, 6, (n, 1))).astype(np.float32)
    if values > 1:
        x[0] = 0
        x[1] = np.arange(32) - 16  # ties and both ends
        x[2] = np.abs(x[2])
        x[3, 5] *= 100  # an outlier
    data = gguf.quants.quantize(x, kind).view(np.uint8).reshape(n, size)
    return record("enc ", name, data, x)


def decode_f8(name, dtype):
    codes = np.arange(256, dtype=np.uint8)
    values = torch.from_numpy(codes).view(dtype).to(torch.float32).numpy()
    keep = ~np.isnan(values)
    return record("dec ", name, codes[keep].reshape(-1, 1), values[keep].reshape(-1, 1))


def encode_f8(rng, name, dtype, largest):
    x = rng.standard_normal(1024).astype(np.float32) * np.exp2(rng.integers(-18, 16, 1024)).astype(np.float32)
    x = x[np.abs(x) <= largest]
    data = torch.from_numpy(x).to(dtype).view(torch.uint8).numpy()
    return record("enc ", name, data.reshape(-1, 1), x.reshape(-1, 1))


def decode_int4(rng, name, head, n):
    """Rows of n values: groups of 128, the last one shorter."""
    rows, out = [], []
    for _ in range(6):
        row, values = b"", []
        for first in range(0, n, 128):
            scale = np.float16(rng.standard_normal())
            zero = 8 if head == 2 else int(rng.integers(0, 256))
            row += scale.tobytes() + (b"" if head == 2 else bytes([zero]))
            for _ in range(first, min(n, first + 128), 32):
                q = rng.integers(0, 16, 32)
                row += bytes(int(q[i] | q[i + 16] << 4) for i in range(16))
                values += [np.float32(scale) * np.float32(int(v) - zero) for v in q]
        rows.append(np.frombuffer(row, np.uint8))
        out.append(values)
    return record("dec ", name, np.stack(rows), out)


def decode_nvfp4(rng):
    """Blocks of 64: four scales, the sign of which says nothing, then nibbles. Every scale is met."""
    e2m1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
    blocks = rng.integers(0, 256, (64, 36), dtype=np.uint8)
    blocks[:, :4] = np.arange(256, dtype=np.uint8).reshape(64, 4)
    s = (blocks[:, :4] & 127).astype(np.int32)
    scale = np.where(s < 8, s * 2.0**-9, (8 + s % 8) * 2.0 ** (s // 8 - 10)) * (s != 127)
    codes = blocks[:, 4:].reshape(64, 4, 8)
    values = e2m1[np.concatenate([codes & 15, codes >> 4], 2)] * scale.astype(np.float32)[:, :, None]
    return record("dec ", "nvfp4", blocks, values.reshape(64, 64))


def decode_int8(rng, n):
    scale = rng.standard_normal((6, 1)).astype(np.float32)
    q = rng.integers(-128, 128, (6, n)).astype(np.int8)
    rows = np.concatenate([scale.view(np.uint8).reshape(6, 4), q.view(np.uint8)], 1)
    return record("dec ", "int8", rows, scale * q.astype(np.float32))


def main():
    default = Path(__file__).resolve().parent.parent / "tests/data/quant/vectors.bin"
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    rng = np.random.default_rng(20240607)
    out = b""
    for name in ["f16", "bf16", *SCALES, "mxfp4"]:
        out += decode_gguf(rng, name)
    for name in ENCODERS:
        out += encode_gguf(rng, name)
    for name, dtype, largest in (("f8_e4m3", torch.float8_e4m3fn, 448), ("f8_e5m2", torch.float8_e5m2, 57344)):
        out += decode_f8(name, dtype) + encode_f8(rng, name, dtype, largest)
    for n in (256, 352):
        out += decode_int4(rng, "int4", 2, n) + decode_int4(rng, "int4_asym", 3, n) + decode_int8(rng, n)
    out += decode_nvfp4(np.random.default_rng(20260318))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(out)
    print(f"{path}: {len(out)} bytes")


if __name__ == "__main__":
    main()
