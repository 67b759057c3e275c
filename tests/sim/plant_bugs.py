#!/usr/bin/env python3
"""Proves that the simulation bites: plants one bug after another into a copy of the engine and demands that each is
found within 500 seeds. Takes some minutes; --check-texts looks only whether each bug can still be planted.

    python3 tests/sim/plant_bugs.py [--build DIR]     DIR: a finished build, for the libraries of other folders
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SEEDS = 500

# (what goes wrong, file, right text, wrong text)
BUGS = [
    ("a shared page is not counted", "kv_pages.cpp", "      if (page != kNoPage) hold(g, page);\n", ""),
    ("a shared page is written without a copy", "kv_pages.cpp",
     "  return entry.refs > 1 || entry.address >= 0;", "  return false;"),
    ("content is taken for equal when its hash is", "prefix_cache.cpp",
     "node.parent == parent && std::ranges::equal(tokens_of(id), tokens)", "node.parent == parent"),
    ("a hit ends where no state was kept", "prefix_cache.cpp",
     "  if (options_.has_state && at(node).snapshot < 0) return false;\n", ""),
    ("a preempted seq stays in the plan", "scheduler.cpp",
     "void Scheduler::preempt(Sequence& seq, Plan& plan) {\n  take_out(seq, &plan);\n",
     "void Scheduler::preempt(Sequence& seq, Plan& plan) {\n"),
    ("refused guesses stay in the cache", "core_collect.cpp",
     "    rows -= refused;\n    seq.kv_len -= refused;\n", ""),
    ("a window is left behind too early", "core_collect.cpp",
     "pages_.slide(seq.pages, rows);", "pages_.slide(seq.pages, rows + page_rows);"),
    ("rows of a second page go into the first", "fill.cpp", "place = 0, ++page", "place = 0"),
    ("after a failed step the others go on as if nothing were", "core_collect.cpp",
     "  scheduler_.restart(flight.plan);\n", ""),
    ("tenants share pages", "core_submit.cpp", "request.tenant.size(), request.tenant,", '0, "",'),
    ("a new seq begins with the state of the last one", "scheduler.cpp",
     "  if (limits_.has_state) plan.states.push_back({.kind = StateOp::Kind::kClear, .to = seq.state_slot});\n", ""),
    ("a part that throws ends nothing", "core.h", "      end(seq, FinishReason::kError);\n", ""),
    ("what a step launched ahead makes of a seq that has ended goes to whoever lies there now", "core_end.cpp",
     "    it->seq = nullptr;\n    last = &flight;\n", "    last = &flight;\n"),
    ("pages whose last row is still under way are given addresses", "core_collect.cpp",
     "  settle(seq, rows);\n", "  settle(seq, seq.kv_len);\n"),
    ("a row reads the token that another seq was given", "fill.cpp",
     "      seq.result = static_cast<int>(work.samples.size());\n", ""),
    ("a step that reads penalties is launched ahead", "core_ahead.cpp",
     " && !reads_history(r.sampling)", ""),
    ("end tokens may come too early in a step launched ahead", "fill.cpp",
     "  const int made = seq.n_made() + seq.awaited;\n",
     "  const int made = seq.n_made() + 2 * seq.awaited;\n"),
    ("a step behind one that failed is never waited for", "core_collect.cpp",
     "  for (int behind = 1; behind < flights_.in_flight(); ++behind) model_.wait();\n", ""),
    ("a row follows a token of a step that is not the one in front", "core_ahead.cpp",
     "seq.result_step == in_front.number && ", ""),
    ("a prompt is given more rows and no pages for them", "scheduler_share.cpp",
     "  const bool grown = pages_.grow(seq.pages, seq.kv_len, seq.kv_len + fit, plan.copies);\n  CHECK(grown,",
     "  const bool grown = true;\n  CHECK(grown,"),
    ("a seq that waits itself is set back for its own page", "scheduler_take.cpp",
     "  return found == &seq ? nullptr : found;", "  return found;"),
    ("who is past its deadline keeps its pages", "core_end.cpp",
     "      await_deadline(seq->deadline_ns);\n    }\n  }\n  sweep();\n",
     "      await_deadline(seq->deadline_ns);\n    }\n  }\n"),
    ("a row whose mask was late is taken for good", "core_masks.cpp", "  seq.kv_len -= item.samples;\n", ""),
    ("what is drawn without a mask stands", "core_masks.cpp", "  item.late = true;\n", ""),
    ("a deadline ends a seq that was preempted", "sequence.h",
     "return state_ == SeqState::kWaiting || state_ == SeqState::kHeldBack;", "return !running();"),
]


def find(src, name):
    """The file of this name, wherever it lies in the engine."""
    found = sorted((src / "engine").rglob(name))
    if len(found) != 1:
        sys.exit(f"{len(found)} files of the engine are called {name}")
    return found[0]


def run(command, **kwargs):
    return subprocess.run(command, capture_output=True, text=True, **kwargs)


class Builder:
    def __init__(self, build, work):
        self.build, self.work = build, work
        self.src = work / "src"
        shutil.copytree(ROOT / "src" / "engine", self.src / "engine")
        self.flags = ["-std=c++20", "-O1", "-ffp-contract=off", f"-I{self.src}", f"-I{ROOT}/src", f"-I{ROOT}/tests",
                      f"-I{build}/generated", f'-DINGOT_SOURCE_DIR="{ROOT}"', "-iquote", str(self.src)]
        self.core = [path.stem for path in sorted((self.src / "engine").glob("core*.cpp"))]
        names = ["kv_pages", "prefix_cache", "tenants", "admission", "scheduler", "scheduler_share", "scheduler_take", "fill",
                 "sampler", "mask_task", "step_message", *self.core]
        self.sources = {n: find(self.src, f"{n}.cpp") for n in names}
        self.sources |= {n: ROOT / "tests" / "sim" / f"{n}.cpp" for n in ["simulation", "allocation", "simulation_test"]}

    def compile(self, names, into):
        running = []
        for name in names:
            out = into / f"{name}.o"
            running.append(subprocess.Popen(["g++", *self.flags, "-c", str(self.sources[name]), "-o", str(out)]))
            if len(running) >= (os.cpu_count() or 1):
                if running.pop(0).wait():
                    sys.exit(f"{name} does not compile")
        if any(p.wait() for p in running):
            sys.exit("a planted bug does not compile")

    def link(self, objects, program):
        done = run(["g++", *map(str, objects), f"{self.build}/libingot_base.a", "-o", str(program), "-lgtest",
                    "-lgtest_main", "-lfmt", "-lpthread"])
        if done.returncode:
            sys.exit(done.stderr)


def simulate(program, seeds):
    """Whether the run failed, and by how many of its seeds."""
    done = run([str(program), "--gtest_filter=Simulation.EverySeedHolds"],
               env={**os.environ, "INGOT_SIM_SEEDS": str(seeds), "INGOT_SIM_STEPS": "1000"}, timeout=600)
    found = set(re.findall(r"INGOT_SIM_SEED=(\d+)", done.stdout))
    crashed = done.returncode not in (0, 1)
    return bool(found) or crashed, "it crashed" if crashed else f"{len(found)} seeds or more"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("--check-texts", action="store_true", help="only whether the texts to replace are there")
    options = parser.parse_args()
    changed = [f"{name}: {what}" for what, name, right, _ in BUGS
               if find(ROOT / "src", name).read_text().count(right) != 1]
    if changed or options.check_texts:
        print("\n".join(["to be planted anew:", *changed]) if changed else f"all {len(BUGS)} bugs can be planted")
        return 1 if changed else 0
    build = pathlib.Path(options.build).resolve()
    missed = []
    with tempfile.TemporaryDirectory() as directory:
        work = pathlib.Path(directory)
        builder = Builder(build, work)
        plain = work / "plain"
        plain.mkdir()
        builder.compile(builder.sources, plain)
        builder.link(sorted(plain.glob("*.o")), work / "sim")
        found, how = simulate(work / "sim", 100)
        if found:
            sys.exit(f"the simulation fails without any planted bug: {how}")
        for what, name, right, wrong in BUGS:
            path = find(builder.src, name)
            text = path.read_text()
            path.write_text(text.replace(right, wrong))
            broken = work / "broken"
            broken.mkdir()
            changed = [path.stem] if path.suffix == ".cpp" else builder.core
            builder.compile(changed, broken)
            objects = [broken / o.name if (broken / o.name).exists() else o for o in sorted(plain.glob("*.o"))]
            builder.link(objects, work / "sim")
            found, how = simulate(work / "sim", SEEDS)
            print(f"{'found ' if found else 'MISSED'} {what}: {how}", flush=True)
            if not found:
                missed.append(what)
            path.write_text(text)
            shutil.rmtree(broken)
    print(f"{len(BUGS) - len(missed)} of {len(BUGS)} planted bugs found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
