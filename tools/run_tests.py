"""Runs the tests of a build and counts them: GoogleTest programs, check scripts, Python tests.

Called by `./ingot test [--fast] [NAME…]`. Ends with the failures, every skipped test with its reason, where time went
(the seconds of each program or module, the ten slowest tests by name), and the line `N passed, N failed, N skipped`; exits with 1 when a test failed. A program that crashes or runs out
of time counts as a failure of the test it was in. Only the standard library is used.

What fails in a GoogleTest program or an end-to-end module is run once more, alone, after everything else. If it passes
then, it counts as passed and is listed with its first failure: to be mended, but no verdict on the change.
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
# Tests of golden_tests that run on the best instruction set alone: the reference kernels, which no set changes; a minute
# of perplexity, beside which every set is held to the same logits and ids; what our own formats cost in perplexity, whose
# kernels ops_tests hold to the reference on every set; checkpoints as GGUF, published or written by us, which differ
# in their names and order of rows from those that every set runs.
ANY_SET = ("*_ref", "*ReferenceKernels*", "*PerplexityOfFastKernels*", "*PerplexityOnRealWeights*", "*AsGguf*",
           "*Written*")
# And on a CPU without any set: real models' ids and logits are held there too, and a text of theirs takes minutes; that
# others in a batch change nothing is held there for Q4_K and BF16.
BASELINE = ("*Real.GreedyTokens*", "Settings/Company.*/q4_0*", "Settings/Company.*/q4_1*", "Settings/Company.*/q5_1*",
            "Settings/Company.*/q8_0*", "Settings/Company.*/int*")
# Of what runs side by side these begin first, so that no core waits for the last of them.
LONGEST = ("golden_tests", "cuda_emulated_tests", "test_howtos.py", "test_page.py", "test_page_looks.py",
           "test_serve_schema.py")
SLOW_MODULES = ("test_howtos.py",)  # compiles: not in the fast set
TAIL = 6000  # characters of a crashed program's output that are shown
SLOWEST = 10  # tests that are named at the end
MOST_RETRIED = 20  # failures of one job: more are no accident


@dataclasses.dataclass
class Result:
    name: str
    status: str  # passed, failed or skipped
    detail: str = ""  # why it failed or was skipped
    first_failure: str = ""  # of one that passed only when it was run again
    seconds: float = 0


@dataclasses.dataclass
class Job:
    """A program whose end gives results; several jobs may be shards of one program."""

    name: str
    command: list
    read: object  # (returncode, output) -> [Result]
    env: dict = dataclasses.field(default_factory=dict)
    again: object = None  # [failed Result] -> the Job that runs them once more; None: they are not


def main():
    args = parse_arguments()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ingot-tests-") as temp:
        parallel, beside, alone = collect_jobs(args, pathlib.Path(temp))
        if not parallel and not beside and not alone:
            print("no tests found: build them first", file=sys.stderr)
            return 1
        spent = {}
        outcomes = run_all(parallel, args.jobs, args.timeout, spent)
        outcomes += run_all(beside, args.jobs, args.timeout, spent)
        outcomes += run_all(alone, 1, args.timeout, spent)
        results = [result for job, found in outcomes for result in second_try(job, found, args.timeout)]
    return report(results, time.monotonic() - started, args.summary, spent)


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
    """Jobs that may run side by side; end-to-end modules that may; and those that want the machine for themselves,
    because they measure or wait for moments. A module says which by a line `ALONE = …` with its reason."""
    parallel, beside, alone = [], [], []
    for program in sorted(args.build.glob("*_tests")):
        if os.access(program, os.X_OK) and not (args.fast and program.name in SLOW_PROGRAMS):
            for isa in [None, *other_sets(program)]:
                parallel += gtest_jobs(program, min(args.jobs, 4), temp, isa)
    if not args.programs_only:
        for script in sorted((ROOT / "tools").glob("check_*.py")):
            env = {"INGOT_BUILD": str(args.build)}
            parallel.append(Job(f"tools/{script.name}", [sys.executable, script], check_reader(script.name), env))
        for module in sorted((ROOT / "tools").glob("test_*.py")):
            if args.fast and module.name in SLOW_MODULES:
                continue
            parallel.append(unittest_job(module, args.build, temp))
        for module in [] if args.fast else sorted((ROOT / "tests/e2e").glob("test_*.py")):
            (alone if wants_the_machine(module) else beside).append(unittest_job(module, args.build, temp, retried=True))

    def wanted(job):
        return not args.names or any(name in job.name for name in args.names)

    def place(job):
        return next((i for i, name in enumerate(LONGEST) if name in job.name), len(LONGEST))

    return [sorted(filter(wanted, jobs), key=place) for jobs in (parallel, beside, alone)]


def wants_the_machine(module):
    return any(line.startswith("ALONE = ") for line in module.read_text().splitlines())


def other_sets(program):
    """The instruction sets that the goldens run on beside the best one, which they run on by themselves."""
    if program.name != "golden_tests" or os.environ.get("INGOT_ISA"):
        return []
    command = [program, "--gtest_filter=Sets.TheOneAskedForRuns"]
    output = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout
    return [line.split()[1] for line in output.splitlines() if line.startswith("set ")][1:]


def gtest_jobs(program, shards, temp, isa=None):
    return [gtest_job(program, shard, shards, temp, isa) for shard in range(shards)]


def gtest_job(program, shard, shards, temp, isa=None):
    name = f"{program.name} ({isa})" if isa else program.name
    report_file = temp / f"{name}.{shard}.xml"
    isa_env = {"INGOT_ISA": isa} if isa else {}
    env = {"GTEST_TOTAL_SHARDS": str(shards), "GTEST_SHARD_INDEX": str(shard), **isa_env}
    command = [program, f"--gtest_output=xml:{report_file}", "--gtest_color=no"]
    left_out = ["--gtest_filter=-" + ":".join((*ANY_SET, *(BASELINE if isa == "baseline" else ())))] if isa else []
    read = gtest_reader(name, report_file)

    def again(failed):
        whole = not report_file.exists()  # it crashed: the tests after that did not run
        report_file.unlink(missing_ok=True)
        names = [result.name.partition(": ")[2] for result in failed]
        if whole or not all(names):
            return Job(name, [*command, *left_out], read, env)
        return Job(name, [*command, "--gtest_filter=" + ":".join(names)], read, isa_env)

    return Job(name, [*command, *left_out], read, env, again)


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
    seconds = float(case.get("time") or 0)
    if failures:
        return Result(name, "failed", "\n".join(failures), seconds=seconds)
    if skipped is not None:
        # The first line is the place in the source, the reason follows.
        message = (skipped.get("message") or "").split("\n", 1)
        return Result(name, "skipped", message[-1].strip() or "no reason given")
    if case.get("status") == "notrun":
        return Result(name, "skipped", "disabled in the source")
    return Result(name, "passed", seconds=seconds)


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


def unittest_job(module, build, temp, retried=False):
    name = str(module.relative_to(ROOT))
    report_file = temp / (module.stem + ".json")

    def read(returncode, output):
        try:
            entries = json.loads(report_file.read_text())
        except (OSError, ValueError):
            return [Result(name, "failed", describe_exit(returncode) + "\n" + output[-TAIL:])]
        return [
            Result(f"{name}: {entry['name']}", entry["status"], entry["detail"], seconds=entry["seconds"]) for entry in entries
        ]

    command = [sys.executable, "-B", ROOT / "tools/unittest_json.py", module, report_file]
    env = {"INGOT_BIN": os.environ.get("INGOT_BIN", str(build / "ingot"))}

    def again(failed):
        whole = not report_file.exists()
        report_file.unlink(missing_ok=True)
        names = [result.name.partition(": ")[2] for result in failed]
        # What failed before a class began has no name that could be run.
        alone = all(part.isidentifier() for test in names for part in test.split(".")) and not whole
        return Job(name, [*command, *names] if alone else command, read, env)

    return Job(name, command, read, env, again if retried else None)


def run_all(jobs, workers, timeout, spent):
    """What came of each job: [(job, [Result])]. Adds each program's seconds, all shards together, to `spent`."""
    outcomes = []
    with concurrent.futures.ThreadPoolExecutor(max(1, workers)) as pool:
        futures = {}
        for job in jobs:
            futures[pool.submit(run_job, job, timeout)] = job
        for future in concurrent.futures.as_completed(futures):
            found, seconds = future.result()
            print(f"  {futures[future].name:<32} {count_text(found)}  {seconds:.1f} s", flush=True)
            spent[futures[future].name] = spent.get(futures[future].name, 0) + seconds
            outcomes.append((futures[future], found))
    return outcomes


def second_try(job, results, timeout):
    """The results, after those that failed were run again."""
    failed = [result for result in results if result.status == "failed"]
    if not failed or job.again is None or len(failed) > MOST_RETRIED:
        return results
    found, seconds = run_job(job.again(failed), timeout)
    print(f"  {job.name:<32} once more: {count_text(found)}  {seconds:.1f} s", flush=True)
    second = {result.name: result for result in found}
    failed_again = any(result.status == "failed" for result in found)
    for result in failed:
        if result.name in second and second[result.name].status == "passed":
            second[result.name].first_failure = result.detail
        elif result.name not in second and found and not failed_again:
            # A crash, or an error at the end, that did not come again.
            second[result.name] = Result(result.name, "passed", first_failure=result.detail)
        elif result.name not in second or second[result.name].status != "failed":
            second[result.name] = result
    kept = [result for result in results if result.name not in second]
    return kept + list(second.values())


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


def report(results, seconds, summary, spent):
    by_name = sorted(results, key=lambda result: result.name)
    for result in by_name:
        if result.status == "failed":
            print(f"\nFAILED {result.name}\n{indent(result.detail)}")
    second = [result for result in by_name if result.first_failure]
    if second:
        print("\nPassed only at the second try:")
    for result in second:
        print(f"  {result.name}\n{indent(result.first_failure)}")
    skipped = [result for result in by_name if result.status == "skipped"]
    if skipped:
        print("\nSkipped:")
    for result in skipped:
        print(f"  {result.name}: {' '.join(result.detail.split())}")
    report_time(results, spent)
    counts = count(results)
    print(f"\n{len(results)} tests in {seconds:.0f} s")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    if summary:
        summary.write_text(json.dumps(counts))
    return 1 if counts["failed"] else 0


def report_time(results, spent):
    """Where time went, longest first; programs of less than a second are one line."""
    print("\nSeconds of each program, its shards together:")
    by_time = sorted(spent.items(), key=lambda item: -item[1])
    long = [(name, seconds) for name, seconds in by_time if seconds >= 1]
    for name, seconds in long:
        print(f"  {seconds:7.1f}  {name}")
    if len(long) < len(by_time):
        rest = sum(seconds for _, seconds in by_time[len(long) :])
        print(f"  {rest:7.1f}  {len(by_time) - len(long)} others")
    print("\nThe slowest tests:")
    for result in sorted(results, key=lambda result: -result.seconds)[:SLOWEST]:
        print(f"  {result.seconds:7.1f}  {result.name}")


def indent(text):
    return "\n".join("    " + line for line in text.splitlines())


if __name__ == "__main__":
    sys.exit(main())
