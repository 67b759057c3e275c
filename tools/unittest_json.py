"""Runs one Python test module and writes what became of each test: unittest_json.py MODULE.py REPORT.json [TEST…].

A TEST is Class.method; without any, all of the module run.

The report is a list of {"name", "status", "detail", "seconds"}; run_tests.py reads it. The exit status is not used.
"""
import json
import pathlib
import sys
import time
import unittest


class Recorder(unittest.TextTestResult):
    """Keeps one entry for each test; a test with several failing subtests is one failure with all their texts."""

    def __init__(self, *args):
        super().__init__(*args)
        self.entries = {}
        self.started = time.monotonic()

    def startTest(self, test):
        super().startTest(test)
        self.started = time.monotonic()

    def stopTest(self, test):
        super().stopTest(test)
        entry = self.entries.get(test.id().split(".", 1)[-1])
        if entry:
            entry["seconds"] = time.monotonic() - self.started

    def record(self, test, status, detail=""):
        name = test.id().split(".", 1)[-1]
        entry = self.entries.setdefault(name, {"name": name, "status": status, "detail": "", "seconds": 0})
        if status == "failed" or entry["status"] != "failed":
            entry["status"] = status
        entry["detail"] = "\n".join(filter(None, (entry["detail"], detail)))

    def addSuccess(self, test):
        super().addSuccess(test)
        self.record(test, "passed")

    def addError(self, test, err):
        super().addError(test, err)
        self.record(test, "failed", self._exc_info_to_string(err, test))

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.record(test, "failed", self._exc_info_to_string(err, test))

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.record(test, "failed", f"{subtest.id()}\n{self._exc_info_to_string(err, test)}")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.record(test, "skipped", reason)

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.record(test, "skipped", "expected to fail")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.record(test, "failed", "expected to fail, but passed")


def main():
    module, report = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    sys.path.insert(0, str(module.parent))
    names = [f"{module.stem}.{name}" for name in sys.argv[3:]] or [module.stem]
    suite = unittest.defaultTestLoader.loadTestsFromNames(names)
    runner = unittest.TextTestRunner(stream=sys.stdout, verbosity=2, resultclass=Recorder)
    result = runner.run(suite)
    report.write_text(json.dumps(list(result.entries.values())))


if __name__ == "__main__":
    main()
