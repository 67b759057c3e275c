"""Writes docs/models.md: every architecture of the registry, src/models/, with the names under which files publish it.

Names and what is peculiar are read from the model's own file, the checkpoints that hold it to the reference
implementation from tests/data/arch. tools/test_docs.py holds the committed page to what this script writes.

    python3 tools/write_models_page.py
"""
import json
import re

from cpp_text import ROOT

# What gguf_test.cpp does not write GGUF files of.
NOT_AS_GGUF = {"smollm3", "gpt_oss"}
PAGE = ROOT / "docs/models.md"
HEAD = """# Models

For whoever wants to know whether a model runs. Written by `tools/write_models_page.py` from `src/models`; a new file
there is a new row.

Every architecture is read from a Hugging Face directory (by `model_type` of its config.json) and, where GGUF has a name
for it, from GGUF files (by `general.architecture`), with weights in any [format](../src/quant/formats), and runs on the CPU
and with `--device cuda`. It is held against the reference implementation by the checkpoints in `tests/data/arch` that the
last columns name, in the formats there: `arch` is `tests/golden/arch_test.cpp` (hidden states and logits, both sets of
kernels) with `exact_test.cpp` (bit for bit in chunks, company, threads and without each fusion), `cuda` is
`src/engine/model/golden_cuda_test.cpp`, `gguf` is `tests/golden/gguf_test.cpp`, with a file of llama.cpp's converter where
it says `gguf (published)`. How to add one: [adding a model](adding-a-model.md).

| model | what it is | config.json | GGUF | formats | devices | checkpoints | tests |
|---|---|---|---|---|---|---|---|
"""
TAIL = """
Models with experts (in `src/models/experts`): each row meets a few of many MLPs. On the CPU each expert's weights are read
once for all rows that meet it, by the kernels that every linear has. On a GPU experts run on plain kernels for now:
right in every format, but slower than the rest of the model.

Attention over chunks (Llama 4, where the context is longer than a chunk) and over values of another size than keys
(MiMo-V2-Flash) runs on a plain kernel on a GPU: right, but slower.

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


def formats(folders):
    """The formats of the weights in these checkpoints."""
    found = set()
    for folder in folders:
        for file in (ROOT / "tests/data/arch" / folder).glob("*.safetensors"):
            with file.open("rb") as data:
                tensors = json.loads(data.read(int.from_bytes(data.read(8), "little")))
            found |= {"MXFP4" if t["dtype"] == "U8" else t["dtype"] for n, t in tensors.items() if n != "__metadata__"}
    return ", ".join(sorted(found))


def tests(folders, gguf):
    """The tests that run the checkpoints."""
    if not folders:
        return "none"
    published = any((ROOT / "tests/data/arch-gguf" / folder).is_dir() for folder in folders)
    return "arch, cuda" + (", gguf (published)" if published else ", gguf" if gguf else "")


def page():
    held = checkpoints()
    rows = []
    for file in sorted((ROOT / "src/models").rglob("*.cpp"), key=lambda f: f.stem):
        text = file.read_text()
        if not re.search(r"^extern const Architecture arch_\w+ = ", text, re.MULTILINE):
            continue
        types = strings(text, "hf_types")
        folders = sorted({folder for kind in types for folder in held.get(kind, [])})
        gguf = strings(text, "gguf_types")
        code = lambda names: " ".join(f"`{name}`" for name in names) or "–"  # noqa: E731
        rows.append(f"| [{file.stem}](../{file.relative_to(ROOT)}) | {what(text)} | {code(types)} | "
                    f"{code(gguf)} | any; {formats(folders)} | CPU, CUDA | {', '.join(folders) or 'none'} | "
                    f"{tests(folders, gguf and file.stem not in NOT_AS_GGUF)} |")
    return HEAD + "\n".join(rows) + "\n" + TAIL


if __name__ == "__main__":
    PAGE.write_text(page())
