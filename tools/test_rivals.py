"""tools/rivals.py without the libraries that it looks for."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import rivals

ROOT = pathlib.Path(__file__).resolve().parent.parent
WITHOUT = {"q4_linear"}  # formats of our own: no library multiplies them


def ask(lines, torch):
    """The answers of the program where `torch` is the text of the module of that name."""
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "torch.py").write_text(torch)
        text = "".join(json.dumps(line) + "\n" for line in lines)
        done = subprocess.run([sys.executable, ROOT / "tools/rivals.py"], input=text, capture_output=True, text=True,
                              env={"PYTHONPATH": folder}, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]


class RivalsTest(unittest.TestCase):
    case = {"op": "softmax", "size": [8, 8], "dtype": "f32", "variant": "", "device": "cpu", "threads": 1}

    def test_every_operator_has_a_rival(self):
        operators = {path.parent.name for path in ROOT.glob("src/ladder/*/*.h") if path.stem == path.parent.name}
        self.assertEqual(set(rivals.OPERATORS), operators - WITHOUT)

    def test_what_is_absent_is_named(self):
        answers = ask([self.case, {"run": "torch"}], "raise ImportError('broken\\nin two lines')")
        self.assertEqual(answers[0], {"rivals": [{"name": "torch", "absent": "ImportError: broken"}]})
        self.assertIn("absent", answers[1])

    def test_an_operator_that_no_library_has(self):
        self.assertEqual(ask([{**self.case, "op": "q4_linear"}], ""), [{"rivals": []}])

    def test_a_rival_that_fails_is_one_line(self):
        fails = "__version__ = '0'\ndef set_num_threads(n): pass\ndef __getattr__(name): raise RuntimeError('no\\nroom')"
        (answer,) = ask([self.case], fails)
        self.assertEqual(answer, {"rivals": [{"name": "torch 0", "absent": "RuntimeError: no"}]})


if __name__ == "__main__":
    unittest.main()
