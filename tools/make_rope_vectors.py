#!/usr/bin/env python3
"""Writes tests/data/rope/vectors.json: inverse frequencies and magnitudes as transformers computes them.

Usage: make_rope_vectors.py [OUT]. Needs torch and transformers. Each case holds the fields of RopeSpec
that differ from their defaults, the context, and the expected inv_freq and magnitude."""
import json
import math
import pathlib
import sys

import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding


def compute(kind, spec, context):
    """The (inv_freq, magnitude) of one case."""
    parameters = {"rope_type": kind, "rope_theta": float(spec.get("theta", 10000.0))}
    names = {
        "factor": "factor", "original_context": "original_max_position_embeddings", "beta_fast": "beta_fast",
        "beta_slow": "beta_slow", "attention_factor": "attention_factor", "mscale": "mscale",
        "mscale_all_dim": "mscale_all_dim", "truncate": "truncate", "low_freq_factor": "low_freq_factor",
        "high_freq_factor": "high_freq_factor", "short_factor": "short_factor", "long_factor": "long_factor",
        "partial": "partial_rotary_factor",
    }
    for ours, theirs in names.items():
        if ours in spec:
            parameters[theirs] = spec[ours]
    head_dim = spec["head_dim"]
    config = LlamaConfig(
        hidden_size=head_dim * 4, num_attention_heads=4, head_dim=head_dim,
        max_position_embeddings=spec.get("max_context", 2048), rope_parameters=parameters)
    if kind == "default":
        dim = int(head_dim * spec.get("partial", 1.0))
        if dim == head_dim:
            return LlamaRotaryEmbedding.compute_default_rope_parameters(config)
        # The default kind of a partial model is the linear one with factor 1.
        config.rope_parameters.update(rope_type="linear", factor=1.0)
        return ROPE_INIT_FUNCTIONS["linear"](config)
    return ROPE_INIT_FUNCTIONS[kind](config, seq_len=context)


def ramp(n, first, step):
    return [round(first + step * i, 6) for i in range(n)]


def cases():
    yield "default", {"head_dim": 64}, 2048
    yield "default", {"head_dim": 128, "theta": 1e6}, 40960
    yield "default", {"head_dim": 80, "partial": 0.4}, 2048
    yield "linear", {"head_dim": 64, "factor": 4.0}, 8192
    yield "linear", {"head_dim": 96, "partial": 0.5, "theta": 500000.0, "factor": 2.5}, 8192
    for context in (100, 2048, 2049, 8192):
        yield "dynamic", {"head_dim": 64, "factor": 2.0, "max_context": 2048}, context
    yield "dynamic", {"head_dim": 80, "partial": 0.5, "factor": 8.0, "max_context": 4096}, 32768
    yarn = {"head_dim": 128, "theta": 1e6, "factor": 4.0, "original_context": 32768, "max_context": 131072}
    yield "yarn", yarn, 131072
    yield "yarn", {**yarn, "truncate": False}, 131072
    yield "yarn", {**yarn, "attention_factor": 0.75}, 131072
    yield "yarn", {**yarn, "mscale": 1.0, "mscale_all_dim": 0.707}, 131072
    yield "yarn", {**yarn, "mscale": 0.707}, 131072
    yield "yarn", {**yarn, "beta_fast": 48.0, "beta_slow": 2.0}, 131072
    yield "yarn", {"head_dim": 64, "partial": 0.5, "factor": 40.0, "original_context": 4096, "max_context": 163840}, 4096
    yield "yarn", {"head_dim": 64, "theta": 150000.0, "factor": 32.0, "truncate": False, "original_context": 4096,
                   "max_context": 131072}, 131072
    yield "yarn", {"head_dim": 64, "factor": 1.0, "original_context": 4096, "max_context": 4096}, 4096
    llama3 = {"head_dim": 64, "theta": 500000.0, "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_context": 8192, "max_context": 131072}
    yield "llama3", llama3, 131072
    yield "llama3", {**llama3, "head_dim": 128, "factor": 8.0}, 131072
    yield "llama3", {**llama3, "low_freq_factor": 2.0, "high_freq_factor": 16.0, "partial": 0.5}, 131072
    longrope = {"head_dim": 96, "original_context": 4096, "max_context": 131072,
                "short_factor": ramp(48, 1.0, 0.01), "long_factor": ramp(48, 1.0, 1.3)}
    for context in (4096, 4097, 131072):
        yield "longrope", {**longrope, "factor": 32.0}, context
    yield "longrope", longrope, 8192
    yield "longrope", {**longrope, "attention_factor": 1.25}, 8192
    yield "longrope", {**longrope, "head_dim": 128, "partial": 0.75, "theta": 250000.0}, 2048


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1
                       else pathlib.Path(__file__).parent.parent / "tests/data/rope/vectors.json")
    result = []
    for kind, spec, context in cases():
        inv_freq, magnitude = compute(kind, dict(spec), context)
        assert inv_freq.dtype == torch.float32 and torch.isfinite(inv_freq).all() and math.isfinite(magnitude)
        result.append({"kind": kind, "spec": spec, "context": context, "magnitude": magnitude,
                       "inv_freq": [float(f"{x:.9g}") for x in inv_freq.tolist()]})
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("[\n" + ",\n".join(json.dumps(r, separators=(",", ":")) for r in result) + "\n]\n")
    print(f"{len(result)} cases, {out.stat().st_size} bytes: {out}")


if __name__ == "__main__":
    main()
