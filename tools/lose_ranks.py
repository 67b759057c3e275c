"""Loses ranks of `mpirun -n 2 ingot serve` again and again: killed and stopped, while they load, read a prompt or answer.

    python3 tools/lose_ranks.py [--times 100] [--mpi openmpi] [--phase init] [--rank 1] [--signal kill] [-- --pp 2]

Each time clients must be told, all processes gone, the status not 0, at most one line printed, and no file of shared memory
or port left. Times beyond what is promised (5 s and 10 s; 8 s of silence while a model loads, and how long rank 0 loads) are
shown. Words behind `--` are options of `serve`. Prints a table; exits with 1 where anything was not kept.
"""
import argparse
import itertools
import os
import pathlib
import shutil
import signal
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/e2e"))

import rank_processes  # noqa: E402
import support  # noqa: E402

SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
LAUNCHERS = {one.kind: one for one in (rank_processes.OPEN_MPI, rank_processes.MPICH)}


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=100, help="of each kind of loss")
    parser.add_argument("--mpi", choices=LAUNCHERS, help="default: those that are installed")
    parser.add_argument("--phase", choices=("init", "prefill", "decode"), help="default: all")
    parser.add_argument("--rank", type=int, choices=(0, 1), help="default: both")
    parser.add_argument("--signal", choices=SIGNALS, help="default: both")
    parser.add_argument("words", nargs="*", help="options of serve")
    return parser.parse_args()


def rows(asked, model):
    """(what, losses that failed, told at most, gone at most) of each kind of loss."""
    installed = [one.kind for one in LAUNCHERS.values() if shutil.which(one.command)]
    kinds = itertools.product([asked.mpi] if asked.mpi else installed,
                              [asked.phase] if asked.phase else ("init", "prefill", "decode"),
                              [asked.signal] if asked.signal else SIGNALS, [asked.rank] if asked.rank is not None else (0, 1))
    for kind, phase, name, rank in kinds:
        told = gone = failed = 0
        for number in range(asked.times):
            mark = f"{os.getpid()}-{kind}-{phase}-{name}-{rank}-{number}"
            loss = rank_processes.lose(LAUNCHERS[kind], model, mark, SIGNALS[name], rank, phase, asked.words)
            told, gone = max(told, loss.told), max(gone, loss.gone)
            if found := rank_processes.faults(loss):
                failed += 1
                print(f"{mark}: {'; '.join(found)}", file=sys.stderr, flush=True)
        yield f"{kind:8} {phase:8} {name} rank {rank}", failed, told, gone


def main():
    asked = options()
    bad = 0
    with tempfile.TemporaryDirectory(prefix="ingot-lose-") as folder:
        model = rank_processes.make_model(pathlib.Path(folder) / "model.gguf")
        print(f"{support.BINARY}, {asked.times} times each\n{'':30} failed   told    gone", flush=True)
        for what, failed, told, gone in rows(asked, model):
            print(f"{what:30} {failed:6} {told:6.1f} {gone:7.1f}", flush=True)
            bad += failed
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
