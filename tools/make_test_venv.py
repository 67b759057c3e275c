"""Makes a virtual environment with what the end-to-end tests drive: other people's clients, and the browser's driver.

`python3 tools/make_test_venv.py [FOLDER]`, build/venv left out. Done once for a list of packages; exits with 1 and says
why where they cannot be had, and the tests that need them are then skipped by name. The tests themselves run in the
system's Python and find the packages through tests/e2e, so that only what needs them depends on them.
"""
import pathlib
import subprocess
import sys
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = ("anthropic==2.8.0", "openai==3.49.0", "schemathesis==4.32.5", "selenium==4.51.0")


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build/venv"
    stamp = folder / "installed.txt"
    wanted = "\n".join(PACKAGES) + "\n"
    if stamp.exists() and stamp.read_text() == wanted:
        return 0
    # Without a pip of its own: Debian's Python has none to give, but the system's pip can install into it.
    venv.create(folder, with_pip=False, clear=True)
    command = [sys.executable, "-m", "pip", "--python", folder / "bin/python", "install", "-q", "--disable-pip-version-check"]
    done = subprocess.run([*map(str, command), *PACKAGES], capture_output=True, text=True)
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip() or "pip failed").splitlines()
        print(f"the test packages cannot be installed: {lines[-1]}", file=sys.stderr)
        return 1
    stamp.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
