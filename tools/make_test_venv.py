"""Makes a virtual environment with what the end-to-end tests drive: other people's clients, and the browser's driver.

`python3 tools/make_test_venv.py [FOLDER]`, build/venv left out. Done once for a list of packages; exits with 1 and says
why where they cannot be had, and the tests that need them are then skipped by name. The tests themselves run in the
system's Python and find the packages through tests/e2e, so that only what needs them depends on them.
"""
import pathlib
import subprocess
import sys
import time
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = (
    "anthropic==2.8.0",
    "kubernetes-validate==1.37.0",
    "langchain-ollama==1.1.0",
    "langchain-openai==1.7.3",
    "ollama==0.6.3",
    "openai==3.49.0",
    "openai-agents==0.24.0",
    "PyYAML==6.0.3",
    "schemathesis==4.32.5",
    "selenium==4.51.0",
)
# Clients that ask for older versions of the above: each in an environment of its own, FOLDER-NAME.
APART = {"instructor": ("instructor==1.17.0",), "litellm": ("litellm[mcp]==1.106.2",)}
WAITS = (0, 5, 20)  # seconds before each try


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build/venv"
    status = ensure(folder, PACKAGES)
    for name, packages in APART.items():
        status = ensure(folder.with_name(f"{folder.name}-{name}"), packages) or status
    return status


def ensure(folder, packages):
    """Makes the environment unless it is there; the exit status."""
    stamp = folder / "installed.txt"
    wanted = "\n".join(packages) + "\n"
    if stamp.exists() and stamp.read_text() == wanted:
        return 0
    print(f"ingot: installing the tests' packages with pip in {folder}: {' '.join(packages)}", file=sys.stderr)
    why = ""
    for seconds in WAITS:
        time.sleep(seconds)
        why = install(folder, packages)
        if not why:
            stamp.write_text(wanted)
            return 0
    print(f"the test packages cannot be installed: {why}", file=sys.stderr)
    return 1


def install(folder, packages):
    """Makes the environment anew; returns why that failed, or nothing."""
    # Without a pip of its own: Debian's Python has none to give, but the system's pip can install into it.
    try:
        venv.create(folder, with_pip=False, clear=True)
    except OSError as error:
        return str(error)
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin/python", "install"]
    options = ["-q", "--disable-pip-version-check", "--no-input", "--retries", "5", "--timeout", "30"]
    done = subprocess.run([*map(str, pip), *options, *packages], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode == 0:
        return ""
    return (done.stderr.strip() or done.stdout.strip() or "pip failed").splitlines()[-1]


if __name__ == "__main__":
    sys.exit(main())
