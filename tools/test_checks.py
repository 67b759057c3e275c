"""The checks find what they are for: each is given a small tree with a planted violation, and one without."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check_includes  # noqa: E402
import check_isa  # noqa: E402
import check_sizes  # noqa: E402
import check_style  # noqa: E402
import cpp_text  # noqa: E402
import run_tests  # noqa: E402

TOOLS = pathlib.Path(__file__).resolve().parent
MARKER = "TO" + "DO"


class TreeTest(unittest.TestCase):
    def tree(self, files):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        root = pathlib.Path(directory.name)
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return root


class IsaTest(unittest.TestCase):
    def test_shared_symbols(self):
        listing = "\n".join([
            "0000000000000000 D ingot::cpu::kAvx2Kernels",
            "0000000000000010 t ingot::cpu::(anonymous namespace)::dots(float)",
            "0000000000000000 u ingot_avx2::kSpreadByte",
            "0000000000000000 W ingot::cpu::avx2::tile()",
            "0000000000000000 W ingot::Q4_0::decode(unsigned char const*, float*)",
            "0000000000000000 V std::vector<int>::size",
        ])
        found = check_isa.leaks(listing, "avx2")
        self.assertEqual(found, ["ingot::Q4_0::decode(unsigned char const*, float*)", "std::vector<int>::size"])
        self.assertEqual(len(check_isa.leaks(listing, "avx512")), 4)

    def test_no_build_is_skipped(self):
        self.assertEqual(check_isa.check_symbols(pathlib.Path("/nonexistent")), [])


class PlantedBugsTest(unittest.TestCase):
    def test_each_can_still_be_planted(self):
        """Their runs take minutes; a text that has changed since is seen here."""
        program = TOOLS.parent / "tests/sim/plant_bugs.py"
        result = subprocess.run([sys.executable, str(program), "--check-texts"], capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)


class IncludeTest(TreeTest):
    def problems(self, path, include):
        return check_includes.check(self.tree({path: f"#include {include}\n"}))

    def test_allowed(self):
        for path, include in [
            ("src/files/gguf/gguf.cpp", '"base/error.h"'),
            ("src/quant/format.h", '"tensor/dtype.h"'),
            ("src/weights/names.cpp", '"files/gguf/gguf.h"'),
            ("src/ops/linear/linear_cpu.cpp", '"matmul/cpu/matmul.h"'),
            ("src/matmul/cuda/wide/wide_cuda.cu", '"cuda/wgmma.cuh"'),
            ("src/engine/engine.cpp", '"ops/batch.h"'),
            ("src/engine/engine_test.cpp", '"files/gguf/gguf_writer.h"'),
            ("src/cli/run.cpp", '"engine/engine.h"'),
            ("src/cli/hub/pull.cpp", "<curl/curl.h>"),
            ("src/files/json.h", "<boost/json/value.hpp>"),
            ("src/text/model/bpe.cpp", "<vector>"),
            ("src/base/x_test.cpp", "<gtest/gtest.h>"),
            ("src/ops/linear/linear_bench.cpp", '"bench/op_operands.h"'),
        ]:
            with self.subTest(path=path, include=include):
                self.assertEqual(self.problems(path, include), [])

    def test_forbidden(self):
        for path, include in [
            ("src/files/gguf/gguf.cpp", '"quant/format.h"'),
            ("src/ops/linear/linear.h", '"models/model.h"'),
            ("src/matmul/cpu/matmul.h", '"ops/linear/linear.h"'),
            ("src/emulator/emulator.h", '"cuda/kernel.cuh"'),
            ("src/ops/linear/linear_test.cpp", '"engine/engine.h"'),
            ("src/ops/linear/linear_cpu.cpp", '"bench/op_operands.h"'),
            ("src/ops/linear/linear_bench.cpp", '"engine/engine.h"'),
            ("src/models/llama.cpp", '"ops/linear/linear.h"'),
            ("src/engine/engine.cpp", '"text/model/bpe.h"'),
            ("src/base/log.h", '"tensor/dtype.h"'),
            ("src/serve/http.cpp", '"cli/command.h"'),
            ("src/text/model/bpe.cpp", "<boost/json/value.hpp>"),
            ("src/files/gguf/gguf.cpp", "<curl/curl.h>"),
            ("src/base/check.cpp", "<gtest/gtest.h>"),
            ("src/base/check.cpp", '"check.h"'),
        ]:
            with self.subTest(path=path, include=include):
                self.assertEqual(len(self.problems(path, include)), 1)

    def test_commented_out_include_does_not_count(self):
        root = self.tree({"src/files/x.cpp": '/*\n#include "models/model.h"\n*/\n'})
        self.assertEqual(check_includes.check(root), [])

    def test_unknown_folder_is_found(self):
        self.assertIn("src/new/x.cpp", check_includes.check(self.tree({"src/new/x.cpp": ""}))[0])


def function_of(lines, head="void f()"):
    return head + " {\n" + "  g();\n" * (lines - 2) + "}\n"


class SizeTest(TreeTest):
    def test_long_function_is_found(self):
        root = self.tree({"src/base/x.cpp": "namespace a {\n" + function_of(67) + "}\n"})
        self.assertEqual(check_sizes.check(root), ["src/base/x.cpp:2: f has 67 lines, about 60 allowed"])

    def test_long_method_with_initializers_is_found(self):
        head = "struct S {\n  S() : a_{1}, b_(2)"
        root = self.tree({"src/base/x.cpp": head + " {\n" + "  g({});\n" * 70 + "}\n};\n"})
        self.assertEqual(len(check_sizes.check(root)), 1)

    def test_budgets_are_kept(self):
        root = self.tree({
            "src/base/x.cpp": function_of(66) * 6,
            "src/ops/linear/linear_cpu.cpp": function_of(210),
        })
        self.assertEqual(check_sizes.check(root), [])

    def test_long_file_is_found_and_may_be_excepted(self):
        files = {"src/base/x.h": "int x;\n" * 501}
        self.assertEqual(check_sizes.check(self.tree(files)), ["src/base/x.h: 501 lines, about 400 allowed, 500 where one idea needs it"])
        files[check_sizes.EXCEPTIONS] = "src/base/x.h - a table that is read as a whole\n"
        self.assertEqual(check_sizes.check(self.tree(files)), [])

    def test_exceptions_need_a_reason_and_a_use(self):
        files = {check_sizes.EXCEPTIONS: "src/base/x.h - why\nsrc/base/y.h - once it was a long table\n"}
        self.assertEqual(len(check_sizes.check(self.tree(files))), 3)

    def test_long_python_function_is_found(self):
        root = self.tree({"tools/x.py": "def f():\n" + "    g()\n" * 70})
        self.assertEqual(len(check_sizes.check(root)), 1)

    def test_functions_are_told_from_other_braces(self):
        text = """
        // a { in a comment, and "
        #define M(x) { \\
          x }
        namespace a::b { namespace {
        constexpr int kX = 1'000'000; constexpr char kC = '{';
        const Command kCommand = {"a", f(1), [] { return 1; }};
        std::array<int, 3> kArray{1, 2, 3};
        enum class E : int { A, B };
        template <class T> struct S : Base<T> {
         public:
          explicit S(int x = {}) : a_{x}, b_(2) {}
          int operator()(int y) const { return y; }
          auto m(T v) -> std::vector<T> { if (v) { return {}; } return {v}; }
          const char* s = R"x( } } { )x";
        };
        } }
        void g(struct stat& info, std::function<void(int)> h) { struct Local { int x; }; }
        TEST(Suite, name) { }
        struct alignas(16) Q { void n() { } };
        """
        names = [function.name for function in cpp_text.functions(text)]
        self.assertEqual(names, ["S", "operator()", "m", "g", "TEST(Suite, name)", "n"])


class StyleTest(TreeTest):
    def found(self, path, text):
        return check_style.check_texts(self.tree({path: text}))

    def test_planted_violations_are_found(self):
        host = "py" + "pi.org"
        for path, text in [
            ("src/base/x.cpp", f"// {MARKER}: later\n"),
            ("docs/x.md", "FIX" + "ME\n"),
            ("docs/x.md", f"from https://{host}/simple\n"),
            ("src/text/x.cpp", "std::regex r;\n"),
            ("src/text/x.cpp", "#include <regex>\n"),
            ("src/text/x_test.cpp", "TEST(A, DISABLED_b) {}\n"),
            ("src/text/x_test.cpp", "GTEST_SKIP();\n"),
            ("src/text/x.cpp", "#if 0\n#endif\n"),
            ("src/files/x.cpp", "size_t n = rows * columns;\n"),
            ("src/files/x.cpp", "size_t n = rows() * 4;\n"),
            ("src/files/x.cpp", "bytes *= dim;\n"),
            ("src/weights/x.cpp", "codes.resize(static_cast<size_t>(rows * cols));\n"),
            ("src/serve/x.cpp", "std::vector<float> v(rows * cols);\n"),
            ("src/app/x.cpp", "auto* p = new float[rows * cols];\n"),
            ("src/app/x.h", "std::unordered_map<std::string, int> names_;\n"),
            ("src/text/x.cpp", "std::unordered_set<std::string_view> names;\n"),
        ]:
            with self.subTest(path=path, text=text):
                self.assertEqual(len(self.found(path, text)), 1)

    def test_what_is_allowed(self):
        for path, text in [
            ("src/files/x.cpp", "const char* p = *q; f(const T* a, T* b); // a * b\n"),
            ("src/files/x.cpp", "constexpr size_t k = 64 * 1024;\n"),
            ("src/files/x.cpp", "auto n = CheckedSize(rows) * columns;\n"),
            ("src/files/x.cpp", "CheckedSize n(1, what);\nfor (auto d : dims) n *= d;\n"),
            ("src/files/x_test.cpp", "size_t n = rows * columns;\n"),
            ("src/weights/x.cpp", "codes.resize((CheckedSize(rows, what) * cols).as_size()); row[r * cols] = 0;\n"),
            ("src/weights/x.cpp", "CheckedSize bytes(rows);\nallocate((bytes * cols).as_int64());\n"),
            ("src/weights/x_test.cpp", "codes.resize(rows * cols);\n"),
            ("src/text/x_test.cpp", 'GTEST_SKIP() << "no data";\n'),
            ("src/text/x.cpp", "// unlike std::regex\n"),
            ("src/app/x.h", "std::unordered_map<std::string, int, SeededHash> names_;\n"),
            ("src/app/x.h", "std::unordered_map<const std::string*, int> names_;\n"),
            ("src/app/x.h", "std::unordered_map<int, std::string> names_;\n"),
            ("src/app/x_test.cpp", "std::unordered_map<std::string, int> names_;\n"),
        ]:
            with self.subTest(path=path, text=text):
                self.assertEqual(self.found(path, text), [])

    def test_unformatted_file_is_found(self):
        root = self.tree({"src/base/x.cpp": "int   x ;\n", ".clang-format": "BasedOnStyle: Google\n"})
        problems = check_style.check_format(root.resolve())
        if problems is None:
            self.skipTest(f"clang-format {check_style.CLANG_FORMAT_VERSION} is not installed")
        self.assertEqual(len(problems), 1)

    def test_scripts_exit_with_1_on_a_finding(self):
        root = self.tree({"src/files/x.cpp": f'#include "cli/x.h"\n// {MARKER}\n' + function_of(80)})
        for script in ("check_includes.py", "check_sizes.py", "check_style.py"):
            with self.subTest(script=script):
                result = subprocess.run([sys.executable, TOOLS / script, root], capture_output=True, text=True)
                self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
                self.assertIn("src/files/x.cpp", result.stdout)


class RunTestsTest(unittest.TestCase):
    def test_crash_is_a_failure_of_the_test_it_was_in(self):
        output = "[ RUN      ] A.one\n[       OK ] A.one (0 ms)\n[ RUN      ] A.two\n"
        results = run_tests.crashed_program("x_tests", -11, output)
        found = [(result.name, result.status) for result in results]
        self.assertEqual(found, [("x_tests: A.one", "passed"), ("x_tests: A.two", "failed")])
        self.assertIn("signal 11", results[-1].detail)

    def test_skips_of_a_check_are_named(self):
        results = run_tests.check_reader("check_x.py")(0, "SKIP formatting: not installed\n")
        self.assertEqual([r.status for r in results], ["skipped", "passed"])
        self.assertEqual(results[0].detail, "not installed")


if __name__ == "__main__":
    unittest.main()
