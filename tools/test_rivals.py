"""tools/rivals.py without the libraries that it looks for."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import rivals

ROOT = pathlib.Path(__file__).resolve().parent.parent
WITHOUT = {"q4_linear", "q4_k_gemv"}  # formats of our own: no library multiplies them


CUB = """
#include <string.h>
static double seconds = 0.25;
const char* cub_rival_version() { return "9.8.7"; }
void* cub_rival_open(const char* op, const char* dtype, const char* variant, const long* size, int sizes, int device,
                     char* error, int room) {
  if (strcmp(op, "scan") == 0) { strncpy(error, "no\\nroom", room); return 0; }
  seconds = strcmp(op, "reduce") || strcmp(dtype, "f32") || strcmp(variant, "v") || size[0] != 7 || device != 2 ? -2 : 0.5;
  return &seconds;
}
double cub_rival_seconds(double* rival, char* error, int room) { strncpy(error, "lost", room); return *rival; }
void cub_rival_close(double* rival) { *rival = 0; }
"""


def ask(lines, torch, **env):
    """The answers of the program where `torch` is the text of the module of that name."""
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "torch.py").write_text(torch)
        text = "".join(json.dumps(line) + "\n" for line in lines)
        done = subprocess.run([sys.executable, ROOT / "tools/rivals.py"], input=text, capture_output=True, text=True,
                              env={"PYTHONPATH": folder, **env}, check=True)
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

    def test_cub_is_a_library_of_its_own(self):
        on_gpu = {**self.case, "op": "reduce", "size": [7], "variant": "v", "device": "cuda:2"}
        no_torch = "raise ImportError('none')"
        with tempfile.TemporaryDirectory() as folder:
            source, library = pathlib.Path(folder) / "cub.c", pathlib.Path(folder) / "cub.so"
            source.write_text(CUB)
            subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
            answers = ask([on_gpu, {"run": "CUB 9.8.7"}, {**on_gpu, "op": "scan"}, {**on_gpu, "size": [8]},
                           {"run": "CUB 9.8.7"}], no_torch, INGOT_CUB_RIVALS=str(library))
        torch = {"name": "torch", "absent": "ImportError: none"}
        self.assertEqual(answers[0], {"rivals": [torch, {"name": "CUB 9.8.7"}]})
        self.assertEqual(answers[1], {"seconds": 0.5})
        self.assertEqual(answers[2], {"rivals": [torch, {"name": "CUB 9.8.7", "absent": "RuntimeError: no"}]})
        self.assertEqual(answers[4], {"absent": "RuntimeError: lost"})

    def test_cub_that_is_not_there_is_named(self):
        (answer,) = ask([{**self.case, "op": "sort", "device": "cuda"}], "raise ImportError('none')",
                        INGOT_CUB_RIVALS="/nowhere/libcub.so")
        self.assertEqual(answer["rivals"][1]["name"], "CUB")
        self.assertIn("libcub.so", answer["rivals"][1]["absent"])

    def test_cudnn_for_attention_on_a_gpu(self):
        torch = """
import types
__version__ = "0"
def set_num_threads(n): pass
def compile(run): return run
cuda = types.SimpleNamespace(set_device=lambda d: None, empty_cache=lambda: None)
backends = types.SimpleNamespace(cuda=types.SimpleNamespace(matmul=types.SimpleNamespace(allow_tf32=True)),
                                 cudnn=types.SimpleNamespace(version=lambda: 91000))
def __getattr__(name): raise RuntimeError("no " + name)
"""
        case = {**self.case, "op": "prompt_attention", "size": [8, 2, 1], "device": "cuda"}
        (answer,) = ask([case], torch)
        self.assertEqual([rival["name"] for rival in answer["rivals"]], ["torch 0", "torch 0 compiled", "cuDNN 91000"])
        self.assertTrue(all("absent" in rival for rival in answer["rivals"]))


if __name__ == "__main__":
    unittest.main()
