#!/usr/bin/env python3
"""Makes the tiny checkpoints of tests/data/arch, with what the reference implementation computes from them.

    make_tiny_checkpoints.py [--seed N] [--modules] FOLDER…     a FOLDER has a config.json: weights and expected.json
    make_tiny_checkpoints.py --check FOLDER…                    the values of expected.json again, from stored weights

A new architecture is a new folder with the config.json of a small model: two layers, 64 columns, 256 tokens. Weights are
seeded Gaussians; norms and biases, whose defaults of one and zero would hide a mistake, are moved. The model is read
back from its files before it is run, so that what is compared is what is stored. Values are those of transformers in
float32 on the CPU with eager attention:

  token_ids    40 of them
  hidden       after the embedding and after each layer (the last one after the final norm), rows 0, 1 and the last
  logits_last  of the last position; logsumexp and argmax of all
  margin       the smallest distance between the two best logits

With --modules, modules.json has the output of every named module at the same rows: where a layer differs, it says in
which part of it. Needs torch and transformers.
"""
import argparse
import json
import pathlib
import sys

import torch
import transformers

TOKENS = 40
DIGITS = 5


def main():
    parser = argparse.ArgumentParser(description="Make tiny checkpoints, or check their expected values.")
    parser.add_argument("folders", nargs="+", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--modules", action="store_true", help="also write modules.json")
    parser.add_argument("--check", action="store_true", help="compare and write nothing")
    args = parser.parse_args()
    torch.set_num_threads(1)
    wrong = 0
    for folder in args.folders:
        if not args.check:
            make_weights(folder, args.seed)
        model = load(folder)
        if args.check:
            wrong += check(folder, model)
            continue
        tokens = some_tokens(model.config.vocab_size, args.seed)
        (folder / "expected.json").write_text(json.dumps(expected(model, tokens)))
        if args.modules:
            (folder / "modules.json").write_text(json.dumps(modules(model, tokens)))
        print(f"{folder}: {sum(p.numel() for p in model.parameters())} parameters")
    return 1 if wrong else 0


def make_weights(folder, seed):
    config = transformers.AutoConfig.from_pretrained(folder)
    config._attn_implementation = "eager"
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config).float()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            noise = torch.randn(weight.shape, generator=generator)
            if weight.dim() == 1:  # a norm's weight or a bias: its default, moved
                weight += 0.1 * noise
            elif "embed" in name or "wte" in name or "wpe" in name:
                weight.copy_(noise)
            else:  # outputs as large as inputs
                weight.copy_(noise / weight.shape[-1] ** 0.5)
    model.save_pretrained(folder)


def load(folder):
    """The model as it lies in its files; a weight that is missing or not wanted is an error."""
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if info.get(kind):
            sys.exit(f"{folder}: {kind}: {sorted(info[kind])}")
    return model.eval()


def some_tokens(vocab, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, vocab, (TOKENS,), generator=generator).tolist()


def rounded(tensor):
    if tensor.dim() == 0:
        return round(float(tensor), DIGITS)
    return [rounded(part) for part in tensor]


def chosen_rows(tensor):
    return rounded(tensor[0][[0, 1, -1]])


def run(model, tokens):
    with torch.no_grad():
        return model(torch.tensor([tokens]), output_hidden_states=True, use_cache=False)


def expected(model, tokens):
    out = run(model, tokens)
    logits = out.logits[0]
    best = logits.topk(2).values
    return {
        "oracle": f"transformers {transformers.__version__}, float32, CPU, eager attention",
        "token_ids": tokens,
        "hidden_states": "after the embedding, then after each layer (the last one after the final norm, as transformers "
                         "returns it); rows 0, 1 and the last, all columns",
        "hidden": [chosen_rows(hidden) for hidden in out.hidden_states],
        "logits_last": rounded(logits[-1]),
        "logsumexp": rounded(logits.logsumexp(-1)),
        "argmax": logits.argmax(-1).tolist(),
        "margin": rounded((best[:, 0] - best[:, 1]).min()),
    }


def modules(model, tokens):
    """What each named module gives, where that is one row of values for each token."""
    found = {}

    def keep(name):
        def hook(_, __, output):
            value = output[0] if isinstance(output, tuple) else output
            if isinstance(value, torch.Tensor) and value.dim() >= 3 and value.shape[:2] == (1, TOKENS):
                found[name] = chosen_rows(value.flatten(2))

        return hook

    handles = [module.register_forward_hook(keep(name)) for name, module in model.named_modules() if name]
    run(model, tokens)
    for handle in handles:
        handle.remove()
    return found


def largest_difference(a, b):
    return float((torch.tensor(a) - torch.tensor(b)).abs().max())


def check(folder, model):
    want = json.loads((folder / "expected.json").read_text())
    got = expected(model, want["token_ids"])
    off = {key: largest_difference(got[key], want[key]) for key in ("hidden", "logits_last", "logsumexp")}
    same = got["argmax"] == want["argmax"] and all(value <= 1e-4 for value in off.values())
    text = ", ".join(f"{key} {value:.1e}" for key, value in off.items())
    print(f"{folder}: {'as expected' if same else 'DIFFERS'}: largest differences: {text}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
