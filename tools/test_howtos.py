"""The examples of docs/adding-*.md, compiled and run as they stand there, and a reader's step of a ladder.

A block of code below a line with "`src/…`, complete:" is that file. It is laid into a scratch tree beside the folders of
src/ that it belongs to, CMake's registry writes the lists of that tree, and the smallest program is linked: the tests of
the new op, those of formats with every file that the list of formats reaches, the golden tests of architectures with the
list of models. Everything else is taken from the build as it is, with its compiler and flags.
"""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("INGOT_BIN", ROOT / "build/release/ingot")).parent
EXAMPLE = re.compile(r"`(src/[^`\s]+)`, complete:\n+```cpp\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples(page):
    """{path: text} of the files that a page holds."""
    return dict(EXAMPLE.findall((ROOT / "docs" / page).read_text()))


class HowTo(unittest.TestCase):
    def setUp(self):
        if not (BUILD / "compile_commands.json").exists():
            self.skipTest(f"no build in {BUILD}")
        scratch = tempfile.TemporaryDirectory(prefix="ingot-howtos-")
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)
        self.commands = {}  # of each source, also of one that is compiled with its neighbours (cmake/unity.cmake)
        for entry in json.loads((BUILD / "compile_commands.json").read_text()):
            file = pathlib.Path(entry["file"])
            parts = re.findall(r'#include "(.*)"', file.read_text()) if file.parent.name == "Unity" else [entry["file"]]
            self.commands.update((part, entry) for part in parts)

    def lay_out(self, page):
        """Writes the page's files and the lists of the tree that has them; returns the files."""
        files = examples(page)
        self.write_lists(files)
        return files

    def write_lists(self, files, folders=("ops", "models", "quant/formats"), commands=""):
        """Lays files, {path: text}, beside those of the folders; CMake writes the lists of that tree."""
        for folder in folders:
            (self.root / "src" / folder).mkdir(parents=True)
            for entry in (ROOT / "src" / folder).iterdir():
                (self.root / "src" / folder / entry.name).symlink_to(entry)
        for name, text in files.items():
            path = self.root / name
            self.assertFalse(path.exists(), f"{name} is there already")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        (self.root / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(lists NONE)\n"
            f'include("{ROOT}/cmake/registry.cmake")\n{commands}')
        self.call(["cmake", "-G", "Ninja", "-S", self.root, "-B", self.root / "build"])

    def call(self, command, **options):
        done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", cwd=BUILD, **options)
        self.assertEqual(done.returncode, 0, done.stdout[-6000:])
        return done.stdout

    def compile(self, source, like, *options):
        """The object of `source`, compiled as the build compiles `like`, with the scratch tree before the real one."""
        entry = self.commands[str(ROOT / like)]
        words = shlex.split(entry["command"])
        target = self.root / (pathlib.Path(source).name + ".o")
        words[words.index("-o") + 1] = str(target)
        words = [str(source) if word == entry["file"] else word for word in words]
        before = [f"-I{self.root}/src", f"-I{self.root}/build/generated"]
        self.call([words[0], *before, *words[1:], "-O1", *options])
        return target

    def link(self, program, objects, kept=(), without=("?",)):
        """`program` with these objects in place of its own, of which those that end with a name of `kept` stay, and of
        others' that end with one of `without`."""
        line = self.call(["ninja", "-t", "commands", "-s", program]).splitlines()[-1]
        words = shlex.split(line.removeprefix(": && ").removesuffix(" && :"))
        own = f"CMakeFiles/{program}.dir/"
        words = [word for word in words if not word.startswith(own) or word.endswith(tuple(kept) or ("?",))]
        words = [word for word in words if not word.endswith(without)]
        target = self.root / program
        at = words.index("-o")
        words[at + 1 : at + 2] = [str(target), *map(str, objects)]
        self.call(words)
        return target

    def run_tests(self, program, pattern, least, **env):
        output = self.call([program, f"--gtest_filter={pattern}"], env={**os.environ, **env})
        passed = int(re.search(r"\[  PASSED  \] (\d+) test", output)[1])
        self.assertGreaterEqual(passed, least, output[-3000:])
        self.assertNotIn("SKIPPED", output)

    def test_an_op(self):
        files = self.lay_out("adding-an-op.md")
        self.assertEqual(len(files), 5)
        objects = [self.compile(self.root / name, f"src/ops/scale/scale_{name.rsplit('_', 1)[1]}")
                   for name in files if name.endswith(".cpp")]
        kernel = next(name for name in files if name.endswith(".cu"))
        if str(ROOT / "src/ops/scale/scale_cuda.cu") in self.commands:
            self.compile(self.root / kernel, "src/ops/scale/scale_cuda.cu")
        self.run_tests(self.link("ops_tests", objects), "Clamp.*", 1)

    def test_a_format(self):
        self.assertEqual(len(self.lay_out("adding-a-format.md")), 1)
        reached = [path for path in sorted((ROOT / "src/quant").glob("*.cpp"))
                   if not path.stem.endswith("_test") and str(path) in self.commands]  # not those of other machines
        tests = [ROOT / "src/quant/format_test.cpp", ROOT / "src/quant/weight_test.cpp"]
        objects = [self.compile(path, path.relative_to(ROOT)) for path in reached + tests]
        self.run_tests(self.link("quant_tests", objects), "*tq2_0*:Weight*", 5)

    def test_a_model(self):
        files = self.lay_out("adding-a-model.md")
        self.assertEqual(len(files), 1)
        objects = [self.compile(self.root / name, "src/models/qwen3.cpp") for name in files]
        objects.append(self.compile(ROOT / "src/models/model.cpp", "src/models/model.cpp"))
        checkpoint = self.root / "data/arch/example"
        shutil.copytree(ROOT / "tests/data/arch/qwen3", checkpoint)
        config = json.loads((checkpoint / "config.json").read_text())
        (checkpoint / "config.json").write_text(json.dumps({**config, "model_type": "example"}))
        program = self.link("golden_tests", objects, kept=(".o",))
        self.run_tests(program, "*Arch*example*", 4, INGOT_TEST_DATA=str(self.root / "data"))

    def test_a_step(self):
        # One new file: it is in the list, from which tables and pages are made, and the operator's test runs it. This one
        # writes nothing, so the test must name it.
        step = "src/ladder/transpose/9_mine.cu"
        text = ('// What I try.\n#include "ladder/cuda_step.cuh"\n#include "ladder/transpose/transpose.h"\n'
                "namespace ingot::cuda::INGOT_STEP {\nvoid run(const Transpose&, Ctx&) {}\n}\n")
        others = [f"ladder/{path.name}" for path in (ROOT / "src/ladder").iterdir() if path.is_dir()]
        self.write_lists({step: text}, ["ops", "models", "quant/formats", *others],
                         f"function(ingot_isa list)\nendfunction()\ninclude({ROOT}/cmake/ladder.cmake)\n"
                         "ingot_generate_ladders()\n")
        lists = self.root / "build/generated/ladder"
        self.assertRegex((lists / "step_list.inc").read_text(), f'X\\("transpose", true, 9, "mine", "What I try.", "{step}"')
        unit = "generated/ladder/transpose_cuda.cpp"
        objects = [self.compile(lists / "transpose_cuda.cpp", (BUILD / unit).resolve().relative_to(ROOT)),
                   self.compile(ROOT / "src/ladder/ladder.cpp", "src/ladder/ladder.cpp")]
        test = "src/ladder/transpose/transpose_test.cpp"
        objects.append(self.compile(ROOT / test, test))
        program = self.link("ladder_tests", objects, without=(unit + ".o",))
        done = subprocess.run([program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 1, done.stdout[-3000:])
        self.assertIn("CUDA step 9", done.stdout)
        self.assertNotRegex(done.stdout, "CUDA step [1-8]")


if __name__ == "__main__":
    unittest.main()
