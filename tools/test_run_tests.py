"""What failed is run once more: who passes then is counted and named, who fails again has failed."""
import contextlib
import io
import pathlib
import sys
import tempfile
import textwrap
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import run_tests  # noqa: E402

# Stands for a GoogleTest program with three tests: each line of its plan file says what one run does.
PROGRAM = """\
#!{python}
import os, pathlib, sys
here = pathlib.Path(__file__).parent
plan = (here / "plan").read_text().splitlines()
(here / "plan").write_text("\\n".join(plan[1:]))
report = next(a for a in sys.argv if a.startswith("--gtest_output=xml:"))[len("--gtest_output=xml:"):]
chosen = [a.split("=", 1)[1].split(":") for a in sys.argv if a.startswith("--gtest_filter=")]
names = chosen[0] if chosen else ["S.A", "S.B", "S.C"]
with open(here / "runs", "a") as runs:
    print(" ".join(names), os.environ.get("GTEST_TOTAL_SHARDS", "-"), file=runs)
if plan[0] == "crash":
    print("[ RUN      ] S.A\\n[       OK ] S.A (0 ms)\\n[ RUN      ] S.B", flush=True)
    os.abort()
failing = plan[0].split()
cases = ""
for name in names:
    suite, test = name.split(".")
    inner = '<failure message="m">broken ' + name + '</failure>' if name in failing else ""
    cases += '<testcase classname="%s" name="%s" status="run">%s</testcase>' % (suite, test, inner)
pathlib.Path(report).write_text("<testsuites>" + cases + "</testsuites>")
sys.exit("exit" in failing or any(name in failing for name in names))
"""


class SecondTry(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)

    def gtest(self, *plan):
        """The results after a first run and, where it is wanted, a second one."""
        program = self.root / "x_tests"
        program.write_text(PROGRAM.format(python=sys.executable))
        program.chmod(0o755)
        (self.root / "plan").write_text("\n".join(plan))
        return self.finish(run_tests.gtest_job(program, 0, 1, self.root))

    def finish(self, job):
        found, _ = run_tests.run_job(job, 60)
        with contextlib.redirect_stdout(io.StringIO()):
            return {result.name: result for result in run_tests.second_try(job, found, 60)}

    def runs(self):
        return (self.root / "runs").read_text().splitlines()

    def test_nothing_failed(self):
        results = self.gtest("none")
        self.assertEqual([r.status for r in results.values()], ["passed"] * 3)
        self.assertEqual(len(self.runs()), 1)

    def test_only_the_failed_ones_run_again(self):
        results = self.gtest("S.A S.C", "S.C")
        self.assertEqual(self.runs(), ["S.A S.B S.C 1", "S.A S.C -"])
        self.assertEqual({n: r.status for n, r in results.items()},
                         {"x_tests: S.A": "passed", "x_tests: S.B": "passed", "x_tests: S.C": "failed"})
        self.assertEqual(results["x_tests: S.A"].first_failure, "broken S.A")
        self.assertEqual(results["x_tests: S.B"].first_failure, "")
        self.assertEqual(results["x_tests: S.C"].first_failure, "")

    def test_a_crash_runs_all_again(self):
        results = self.gtest("crash", "none")
        self.assertEqual(self.runs(), ["S.A S.B S.C 1"] * 2)
        self.assertEqual([r.status for r in results.values()], ["passed"] * 3)
        self.assertIn("signal 6", results["x_tests: S.B"].first_failure)
        twice = self.gtest("crash", "crash")
        self.assertEqual(twice["x_tests: S.B"].status, "failed")

    def test_an_error_at_the_end(self):
        results = self.gtest("exit", "none")
        self.assertEqual(results["x_tests (at exit)"].status, "passed")
        self.assertTrue(results["x_tests (at exit)"].first_failure)
        self.assertEqual(self.gtest("exit", "exit")["x_tests (at exit)"].status, "failed")

    def test_many_failures_are_no_accident(self):
        with unittest.mock.patch.object(run_tests, "MOST_RETRIED", 1):
            results = self.gtest("S.A S.B", "none")
        self.assertEqual(len(self.runs()), 1)
        self.assertEqual(results["x_tests: S.A"].status, "failed")

    def test_goldens_on_every_set(self):
        program = self.root / "golden_tests"
        program.write_text(f"#!{sys.executable}\nprint('[ RUN      ] Sets\\nset best\\nset middle\\nset least\\n[       OK ]')\n")
        program.chmod(0o755)
        with unittest.mock.patch.dict(run_tests.os.environ, INGOT_ISA=""):
            self.assertEqual(run_tests.other_sets(program), ["middle", "least"])
            self.assertEqual(run_tests.other_sets(self.root / "x_tests"), [])
        with unittest.mock.patch.dict(run_tests.os.environ, INGOT_ISA="least"):
            self.assertEqual(run_tests.other_sets(program), [])  # one was asked for
        job = run_tests.gtest_job(program, 0, 2, self.root, "middle")
        self.assertEqual(job.name, "golden_tests (middle)")
        self.assertEqual(job.env["INGOT_ISA"], "middle")
        self.assertEqual(job.command[-1], "--gtest_filter=-" + ":".join(run_tests.ANY_SET))
        self.assertFalse(any("filter" in str(word) for word in run_tests.gtest_job(program, 0, 2, self.root).command))
        (self.root / "golden_tests (middle).0.xml").write_text("<testsuites/>")
        again = job.again([run_tests.Result("golden_tests (middle): S.A", "failed")])
        self.assertEqual((again.env, again.command[-1]), ({"INGOT_ISA": "middle"}, "--gtest_filter=S.A"))

    def test_the_longest_begin_first(self):
        (self.root / "a_tests").write_text("")
        (self.root / "golden_tests").write_text("#!/bin/sh\n")
        for name in ("a_tests", "golden_tests"):
            (self.root / name).chmod(0o755)
        args = unittest.mock.Mock(build=self.root, fast=False, programs_only=False, jobs=1, names=[])
        parallel, beside, _ = run_tests.collect_jobs(args, self.root)
        places = [[[job.name for job in jobs].index(name) for name in names] for jobs, names in (
            (parallel, ("golden_tests", "tools/test_howtos.py", "a_tests")),
            (beside, ("tests/e2e/test_page.py", "tests/e2e/test_serve_schema.py", "tests/e2e/test_eval.py")))]
        self.assertEqual(places, [sorted(place) for place in places])

    def test_modules_that_want_the_machine_say_so(self):
        modules = sorted((run_tests.ROOT / "tests/e2e").glob("test_*.py"))
        alone = {module.name for module in modules if run_tests.wants_the_machine(module)}
        self.assertIn("test_serve_idle.py", alone)
        self.assertNotIn("test_tokenize.py", alone)

    def module(self, body, retried=True):
        path = run_tests.ROOT / "tools"  # names of jobs are relative to the repository
        module = self.root / "test_planted.py"
        module.write_text(textwrap.dedent(body))
        with unittest.mock.patch.object(run_tests, "ROOT", self.root):
            (self.root / "tools").mkdir(exist_ok=True)
            (self.root / "tools/unittest_json.py").write_text((path / "unittest_json.py").read_text())
            return self.finish(run_tests.unittest_job(module, self.root, self.root, retried))

    FLAKY = """\
        import pathlib, unittest
        runs = pathlib.Path(__file__).parent / "runs"
        class T(unittest.TestCase):
            def test_flaky(self):
                with open(runs, "a") as file:
                    print("flaky", file=file)
                self.assertGreater(len(runs.read_text().splitlines()), 1, "the first time")
            def test_other(self):
                pass
    """

    def test_a_module(self):
        results = self.module(self.FLAKY)
        self.assertEqual(results["test_planted.py: T.test_flaky"].status, "passed")
        self.assertIn("the first time", results["test_planted.py: T.test_flaky"].first_failure)
        self.assertEqual(results["test_planted.py: T.test_other"].status, "passed")
        self.assertEqual(len(self.runs()), 2)

    def test_a_module_that_is_not_retried(self):
        self.assertEqual(self.module(self.FLAKY, retried=False)["test_planted.py: T.test_flaky"].status, "failed")

    def test_a_class_that_could_not_begin(self):
        results = self.module("""\
            import pathlib, unittest
            runs = pathlib.Path(__file__).parent / "runs"
            class T(unittest.TestCase):
                @classmethod
                def setUpClass(cls):
                    with open(runs, "a") as file:
                        print("class", file=file)
                    if len(runs.read_text().splitlines()) == 1:
                        raise OSError("not yet")
                def test_it(self):
                    pass
        """)
        self.assertEqual({r.status for r in results.values()}, {"passed"})
        self.assertEqual(results["test_planted.py: T.test_it"].status, "passed")
        self.assertTrue(any("not yet" in r.first_failure for r in results.values()))

    def test_the_report_names_them(self):
        out = io.StringIO()
        results = [run_tests.Result("x: A", "passed", first_failure="it was late"), run_tests.Result("x: B", "passed")]
        with contextlib.redirect_stdout(out):
            self.assertEqual(run_tests.report(results, 1, None, {}), 0)
        self.assertIn("Passed only at the second try:\n  x: A\n    it was late\n", out.getvalue())
        self.assertIn("2 passed, 0 failed, 0 skipped", out.getvalue())

    def test_the_report_says_where_time_went(self):
        out = io.StringIO()
        results = [run_tests.Result(f"x: T{n}", "passed", seconds=n) for n in range(12)]
        with contextlib.redirect_stdout(out):
            run_tests.report(results, 70, None, {"short": 0.2, "long": 60, "middle": 5.5, "shorter": 0.1})
        self.assertIn("     60.0  long\n      5.5  middle\n      0.3  2 others\n", out.getvalue())
        self.assertIn("The slowest tests:\n     11.0  x: T11\n     10.0  x: T10\n", out.getvalue())
        self.assertEqual(out.getvalue().count("x: T"), 10)

    def test_each_test_has_its_seconds(self):
        results = self.module("""\
            import time, unittest
            class T(unittest.TestCase):
                def test_slow(self):
                    time.sleep(0.05)
                def test_skipped(self):
                    self.skipTest("why")
        """)
        self.assertGreaterEqual(results["test_planted.py: T.test_slow"].seconds, 0.05)
        self.assertLess(results["test_planted.py: T.test_skipped"].seconds, 0.05)


if __name__ == "__main__":
    unittest.main()
