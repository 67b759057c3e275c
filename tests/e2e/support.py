"""What the tests of the whole program share. INGOT_BIN names the program; left out, it is the release build."""
import functools
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = pathlib.Path(os.environ.get("INGOT_BIN", ROOT / "build/release/ingot"))
# Fixtures: those of the repository, and the larger set beside it where there is one, with the same folders.
DATA = ROOT / "tests/data"
SHARED_DATA = pathlib.Path(os.environ.get("INGOT_TEST_DATA", ROOT.parent / "shared/data"))


def run(*args, stdin=None, env=None, timeout=60, binary=None, cwd=None):
    """Runs `ingot ARGS…` to its end; a CompletedProcess with texts. `env` adds to the environment; None removes."""
    variables = {**os.environ, **(env or {})}
    return subprocess.run(
        [str(binary or BINARY), *map(str, args)],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        env={name: value for name, value in variables.items() if value is not None},
        timeout=timeout,
        cwd=cwd,
    )


def start(*args, env=None, before=(), **popen):
    """Starts `ingot ARGS…` and returns the Popen object, with pipes for stdout and stderr. `before` is a command that
    runs what follows it."""
    variables = {**os.environ, **(env or {})}
    return subprocess.Popen(
        [*map(str, before), str(BINARY), *map(str, args)],
        text=True,
        env={name: value for name, value in variables.items() if value is not None},
        **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **popen},
    )


NOBODY = 65534


@functools.cache
def nobody():
    """What a command is put behind (`before` of start()) so that it runs as an unprivileged user without a way back, and
    "". Or nothing, and why that cannot be: only root can, by setpriv, and that user must have the program."""
    command = ("setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", "--no-new-privs")
    if os.geteuid() != 0:
        return (), "only root can become another user"
    if shutil.which("setpriv") is None:
        return (), "setpriv is not installed"
    probe = subprocess.run([*command, str(BINARY), "--version"], capture_output=True, text=True, timeout=60)
    why = f"user {NOBODY} cannot run {BINARY} (a folder above it is closed): {probe.stderr.strip()}"
    return (command, "") if probe.returncode == 0 else ((), why)


def status_of(process):
    """/proc/PROCESS/status as a dict."""
    with open(f"/proc/{process}/status") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def default_model():
    """The default model's path, fetched into the user's cache once. Skips the test where it cannot be had."""
    result = run("pull", "default", "--json", timeout=900)
    if result.returncode != 0:
        raise unittest.SkipTest(f"the default model cannot be fetched: {result.stderr.strip()}")
    return json.loads(result.stdout)["path"]


def test_data(*parts):
    """A path of the larger set of fixtures where it has it, else of the repository's."""
    path = SHARED_DATA.joinpath(*parts)
    return path if path.exists() else DATA.joinpath(*parts)


class TestCase(unittest.TestCase):
    """A test of the program; skipped as a whole where the program was not built."""

    maxDiff = 4000

    def setUp(self):
        if not BINARY.exists():
            self.skipTest(f"{BINARY.name} is not built (INGOT_BIN)")

    def temp_dir(self):
        path = pathlib.Path(tempfile.mkdtemp(prefix="ingot-e2e-"))
        self.addCleanup(shutil.rmtree, path, ignore_errors=True)
        return path

    def assert_fails(self, result, status, *words):
        """One line `ingot: …` on stderr that holds all words, the status, and nothing on stdout."""
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertEqual(result.stdout, "")
        lines = [line for line in result.stderr.splitlines() if line]
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertTrue(lines[0].startswith("ingot: "), lines[0])
        for word in words:
            self.assertIn(word, lines[0])
