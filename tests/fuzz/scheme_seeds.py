"""Seed inputs of the fuzz target for compressed modules, and the safetensors file that others are made of, too."""
import json
import math
import struct


def safetensors(header, data=0, length=None):
    raw = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(raw) if length is None else length) + raw + bytes(data)


def scheme_seeds():
    """A module of 8 outputs and 64 inputs in each scheme, whole and with one part changed."""
    def file(method, parts):
        header, at = {}, 0
        for name, (dtype, shape, data) in parts.items():
            header["m." + name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(data)]}
            at += len(data)
        return bytes([method]) + safetensors(header) + b"".join(data for _, _, data in parts.values())

    def ints(*shape, value=0x21):
        return "I32", shape, bytes([value]) * (4 * math.prod(shape))

    def floats(*shape, value=0.5):
        return "F32", shape, struct.pack("<f", value) * math.prod(shape)

    def small(dtype, *shape, value=0x21):
        return dtype, shape, bytes([value]) * math.prod(shape)

    columns = "I32", (64,), b"".join(struct.pack("<i", k // 32) for k in range(64))
    turns = "I32", (64,), b"".join(struct.pack("<i", k % 2) for k in range(64))
    gptq = {"qweight": ints(8, 8), "qzeros": ints(2, 1, value=0x77), "scales": floats(2, 8), "g_idx": columns}
    yield "gptq", file(0, gptq)
    yield "gptq_v2", file(1, gptq)
    yield "gptq_order", file(0, gptq | {"g_idx": turns})
    yield "gptq_group", file(0, gptq | {"g_idx": ints(64, value=0x7f)})
    yield "gptq_8", file(0, gptq | {"qweight": ints(16, 8), "qzeros": ints(2, 2, value=0x7f)})
    yield "gptq_short", file(0, gptq | {"qweight": ints(7, 8)})
    yield "gptq_scale", file(0, gptq | {"scales": floats(2, 8, value=float("nan"))})
    yield "gptq_no_zeros", file(0, {name: gptq[name] for name in ("qweight", "scales")})
    yield "awq", file(2, {"qweight": ints(64, 1), "qzeros": ints(2, 1), "scales": floats(2, 8)})
    shape = "I64", (2,), struct.pack("<qq", 8, 64)
    packed = {"weight_packed": ints(8, 8), "weight_scale": floats(8, 2), "weight_shape": shape}
    yield "packed", file(3, packed)
    yield "packed_zeros", file(3, packed | {"weight_zero_point": ints(1, 2)})
    yield "packed_order", file(3, packed | {"weight_g_idx": turns})
    yield "packed_shape", file(3, packed | {"weight_shape": ("I64", (2,), struct.pack("<qq", 8, 1 << 40))})
    yield "ints", file(3, {"weight": small("I8", 8, 64), "weight_scale": floats(8, 1)})
    yield "mxfp8", file(3, {"weight": small("F8_E4M3", 8, 64), "weight_scale": small("U8", 8, 2, value=0x7f)})
    yield "mxfp4", file(3, {"weight_packed": small("U8", 8, 32), "weight_scale": small("U8", 8, 2, value=0x7f)})
    nvfp4 = {"weight_packed": small("U8", 8, 32), "weight_scale": small("F8_E4M3", 8, 4, value=0x38)}
    yield "nvfp4", file(3, nvfp4 | {"weight_global_scale": floats(1)})
    yield "nvfp4_no_scale", file(3, nvfp4)
    yield "modelopt", file(3, {"weight": nvfp4["weight_packed"], "weight_scale": nvfp4["weight_scale"], "weight_scale_2": floats(1)})
    state = json.dumps({"blocksize": 64, "shape": [8, 64], "nested_blocksize": 256, "nested_offset": 0.1}).encode()
    nf4 = {"weight": small("U8", 256, 1), "weight.absmax": floats(8), "weight.quant_map": floats(16),
           "weight.quant_state.bitsandbytes__nf4": ("U8", (len(state),), state)}
    yield "nf4", file(4, nf4)
    yield "nf4_nested", file(4, nf4 | {"weight.absmax": small("U8", 8), "weight.nested_absmax": floats(1),
                                       "weight.nested_quant_map": floats(256)})
    large = state.replace(b"[8, 64]", b"[9, 99]")
    yield "nf4_shape", file(4, nf4 | {"weight.quant_state.bitsandbytes__nf4": ("U8", (len(large),), large)})
    yield "int8", file(4, {"weight": small("I8", 8, 64), "SCB": floats(8)})
    yield "torchao", file(5, {"_weight_qdata": small("I8", 8, 64), "_weight_scale": floats(8, 1),
                              "_weight_zero_point": small("I8", 8, 1, value=0)})
    yield "loose", file(5, {"table": ints(4)})
