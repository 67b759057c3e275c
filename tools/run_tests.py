"""Runs the tests of a build and counts them: GoogleTest programs, check scripts, Python tests.

Called by `./ingot test [--fast] [NAME…]`. Ends with the failures, every skipped test with its reason, and
the line `N passed, N failed, N skipped`; exits with 1 when a test failed. A program that crashes or runs out
of time counts as a failure of the test it was in. Only the standard library is used.
"""
import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
SLOW_PROGRAMS = ("golden_tests", "issues_tests")  # whole models: not in the fast set
TAIL = 6000  # characters of a crashed program's output that are shown


@dataclasses.dataclass
class Result:
    name: str
    status: str  # passed, failed or skipped
    detail: str = ""  # why it failed or was skipped


@dataclasses.dataclass
class Job:
    """A program whose end gives results; several jobs may be shards of one program."""

    name: str
    command: list
    read: object  # (returncode, output) -> [Result]
    env: dict = dataclasses.field(default_factory=dict)


def main():
    args = parse_arguments()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ingot-tests-") as temp:
        parallel, serial = collect_jobs(args, pathlib.Path(temp))
        if not parallel and not serial:
            print("no tests found: build them first", file=sys.stderr)
            return 1
        results = run_all(parallel, args.jobs, args.timeout) + run_all(serial, 1, args.timeout)
    return report(results, time.monotonic() - started, args.summary)


def parse_arguments():
    parser = argparse.ArgumentParser(prog="ingot test", description="Run the tests.")
    parser.add_argument("names", nargs="*", help="only those whose name contains one of these")
    parser.add_argument("--fast", action="store_true", help="the unit tests and checks only, about a minute")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", help="a build directory")
    parser.add_argument("--programs-only", action="store_true", help="the GoogleTest programs only")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="programs at a time")
    parser.add_argument("--timeout", type=int, default=900, help="seconds for one program")
    parser.add_argument("--summary", type=pathlib.Path, help="also write the three counts to this file as JSON")
    return parser.parse_args()


def collect_jobs(args, temp):
    """Jobs that may run side by side, and those that want the machine for themselves (they measure or serve)."""
    parallel, serial = [], []
    for program in sorted(args.build.glob("*_tests")):
        if os.access(program, os.X_OK) and not (args.fast and program.name in SLOW_PROGRAMS):
            parallel += gtest_jobs(program, min(args.jobs, 4), temp)
    if not args.programs_only:
        for script in sorted((ROOT / "tools").glob("check_*.py")):
            env = {"INGOT_BUILD": str(args.build)}
            parallel.append(Job(f"tools/{script.name}", [sys.executable, script], check_reader(script.name), env))
        for module in sorted((ROOT / "tools").glob("test_*.py")):
            parallel.append(unittest_job(module, args.build, temp))
        for module in [] if args.fast else sorted((ROOT / "tests/e2e").glob("test_*.py")):
            serial.append(unittest_job(module, args.build, temp))

    def wanted(job):
        return not args.names or any(name in job.name for name in args.names)

    return list(filter(wanted, parallel)), list(filter(wanted, serial))


def gtest_jobs(program, shards, temp):
    jobs = []
    for shard in range(shards):
        report_file = temp / f"{program.name}.{shard}.xml"
        env = {"GTEST_TOTAL_SHARDS": str(shards), "GTEST_SHARD_INDEX": str(shard)}
        command = [program, f"--gtest_output=xml:{report_file}", "--gtest_color=no"]
        jobs.append(Job(program.name, command, gtest_reader(program.name, report_file), env))
    return jobs


def gtest_reader(program, report_file):
    def read(returncode, output):
        try:
            results = [gtest_case(program, case) for case in xml.etree.ElementTree.parse(report_file).iter("testcase")]
        except (OSError, xml.etree.ElementTree.ParseError):
            return crashed_program(program, returncode, output)
        if returncode != 0 and all(result.status != "failed" for result in results):
            # A leak found at exit, a crash in a destructor: no test failed and yet the program did.
            results.append(Result(f"{program} (at exit)", "failed", describe_exit(returncode) + "\n" + output[-TAIL:]))
        return results

    return read


def gtest_case(program, case):
    name = f"{program}: {case.get('classname')}.{case.get('name')}"
    failures = [failure.text or failure.get("message", "") for failure in case.findall("failure")]
    skipped = case.find("skipped")
    if failures:
        return Result(name, "failed", "\n".join(failures))
    if skipped is not None:
        # The first line is the place in the source, the reason follows.
        message = (skipped.get("message") or "").split("\n", 1)
        return Result(name, "skipped", message[-1].strip() or "no reason given")
    if case.get("status") == "notrun":
        return Result(name, "skipped", "disabled in the source")
    return Result(name, "passed")


def crashed_program(program, returncode, output):
    """What a program without a report had done: its last test is the one that failed."""
    results, last = [], "(before any test)"
    for line in output.splitlines():
        tag, _, test = line.partition("] ")
        test = test.split(" (")[0].split(",")[0].strip()
        if tag == "[ RUN      ":
            last = test
        elif tag == "[       OK ":
            results.append(Result(f"{program}: {test}", "passed"))
        elif tag == "[  SKIPPED ":
            results.append(Result(f"{program}: {test}", "skipped", "see the output"))
        elif tag == "[  FAILED  ":
            results.append(Result(f"{program}: {test}", "failed", "see the output"))
    detail = f"{describe_exit(returncode)}; the tests after it did not run\n{output[-TAIL:]}"
    return results + [Result(f"{program}: {last}", "failed", detail)]


def check_reader(script):
    """A check prints its findings and exits with 1, or prints `SKIP what: why` for what it could not look at."""

    def read(returncode, output):
        results = []
        for line in output.splitlines():
            if line.startswith("SKIP "):
                what, _, why = line[len("SKIP ") :].partition(": ")
                results.append(Result(f"tools/{script}: {what}", "skipped", why))
        status = "passed" if returncode == 0 else "failed"
        return results + [Result(f"tools/{script}", status, output.strip())]

    return read


def unittest_job(module, build, temp):
    name = str(module.relative_to(ROOT))
    report_file = temp / (module.stem + ".json")

    def read(returncode, output):
        try:
            entries = json.loads(report_file.read_text())
        except (OSError, ValueError):
            return [Result(name, "failed", describe_exit(returncode) + "\n" + output[-TAIL:])]
        return [Result(f"{name}: {entry['name']}", entry["status"], entry["detail"]) for entry in entries]

    command = [sys.executable, "-B", ROOT / "tools/unittest_json.py", module, report_file]
    return Job(name, command, read, {"INGOT_BIN": os.environ.get("INGOT_BIN", str(build / "ingot"))})


def run_all(jobs, workers, timeout):
    results = []
    with concurrent.futures.ThreadPoolExecutor(max(1, workers)) as pool:
        futures = {}
        for job in jobs:
            futures[pool.submit(run_job, job, timeout)] = job
        for future in concurrent.futures.as_completed(futures):
            found, seconds = future.result()
            print(f"  {futures[future].name:<32} {count_text(found)}  {seconds:.1f} s", flush=True)
            results += found
    return results


def run_job(job, timeout):
    started = time.monotonic()
    env = {**os.environ, **job.env}
    try:
        process = subprocess.run(
            [str(part) for part in job.command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=env,
            cwd=ROOT,
            timeout=timeout,
        )
        returncode, output = process.returncode, process.stdout
    except subprocess.TimeoutExpired as expired:
        returncode, output = f"stopped after {timeout} s", expired.stdout or b""
    except OSError as error:
        returncode, output = str(error), b""
    return job.read(returncode, output.decode(errors="replace")), time.monotonic() - started


def describe_exit(returncode):
    if isinstance(returncode, str):
        return returncode
    return f"killed by signal {-returncode}" if returncode < 0 else f"exit status {returncode}"


def count(results):
    return {status: sum(r.status == status for r in results) for status in ("passed", "failed", "skipped")}


def count_text(results):
    return ", ".join(f"{n} {status}" for status, n in count(results).items() if n or status == "passed")


def report(results, seconds, summary):
    by_name = sorted(results, key=lambda result: result.name)
    for result in by_name:
        if result.status == "failed":
            print(f"\nFAILED {result.name}\n{indent(result.detail)}")
    skipped = [result for result in by_name if result.status == "skipped"]
    if skipped:
        print("\nSkipped:")
    for result in skipped:
        print(f"  {result.name}: {' '.join(result.detail.split())}")
    counts = count(results)
    print(f"\n{len(results)} tests in {seconds:.0f} s")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    if summary:
        summary.write_text(json.dumps(counts))
    return 1 if counts["failed"] else 0


def indent(text):
    return "\n".join("    " + line for line in text.splitlines())


if __name__ == "__main__":
    sys.exit(main())
