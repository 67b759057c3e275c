"""Writes docs/models.md: every architecture of the registry, src/models/, with the names under which files publish it.

Names and what is peculiar are read from the model's own file, the checkpoints that hold it to the reference
implementation from tests/data/arch. tools/test_docs.py holds the committed page to what this script writes.

    python3 tools/write_models_page.py
"""
import json
import re

from cpp_text import ROOT

PAGE = ROOT / "docs/models.md"
HEAD = """# Models

For whoever wants to know whether a model runs. Written by `tools/write_models_page.py` from `src/models`; a new file
there is a new row.

Every architecture is read from a Hugging Face directory (by `model_type` of its config.json) and, where GGUF has a name
for it, from GGUF files (by `general.architecture`), with weights in any [format](../src/quant/formats), and runs on the CPU
and with `--device cuda`. It is held against the reference implementation by the checkpoints in `tests/data/arch` that the
last column names, in `tests/golden/arch_test.cpp` (hidden states and logits, both sets of kernels) and `exact_test.cpp` (bit
for bit in chunks, company, threads and without each fusion). How to add one: [adding a model](adding-a-model.md).

| model | what it is | config.json | GGUF | checkpoints |
|---|---|---|---|---|
"""
TAIL = """
Models with experts (in `src/models/experts`): each row meets a few of many MLPs. On the CPU each expert's weights are read
once for all rows that meet it, by the kernels that every linear has. On a GPU experts run on plain kernels for now:
right in every format, but slower than the rest of the model.

Models with latent attention (in `src/models/latent`): the cache holds a latent and its rotary part for each token, in every
type of `--kv` (the rotary part in 16 bits or more), and attention runs in absorbed form at every number of rows, on both
devices.
"""


def strings(text, field):
    found = re.search(r"\.%s = \{([^}]*)\}" % field, text)
    return re.findall(r'"([^"]*)"', found.group(1)) if found else []


def what(text):
    """The first sentence of the file's comment, without the model's name before the colon."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        lines.append(line[2:].strip())
    return re.split(r"(?<=[a-z0-9)])\. ", " ".join(lines) + " ")[0].strip().rstrip(".")


def checkpoints():
    """{model_type: [folder]} of tests/data/arch."""
    folders = {}
    for config in sorted((ROOT / "tests/data/arch").glob("*/config.json")):
        kind = json.loads(config.read_text())
        kind = kind.get("text_config", kind).get("model_type", "")
        folders.setdefault(kind, []).append(config.parent.name)
    return folders


def page():
    held = checkpoints()
    rows = []
    for file in sorted((ROOT / "src/models").rglob("*.cpp"), key=lambda f: f.stem):
        text = file.read_text()
        if not re.search(r"^extern const Architecture arch_\w+ = ", text, re.MULTILINE):
            continue
        types = strings(text, "hf_types")
        tests = sorted({folder for kind in types for folder in held.get(kind, [])})
        code = lambda names: " ".join(f"`{name}`" for name in names) or "–"  # noqa: E731
        rows.append(f"| [{file.stem}](../{file.relative_to(ROOT)}) | {what(text)} | {code(types)} | "
                    f"{code(strings(text, 'gguf_types'))} | {', '.join(tests) or 'none'} |")
    return HEAD + "\n".join(rows) + "\n" + TAIL


if __name__ == "__main__":
    PAGE.write_text(page())
