"""Other people's packages for the tests: of this Python, or of build/venv (tools/make_test_venv.py).

A test that asks for a package that is not there is skipped by that package's name.
"""
import importlib
import os
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def need(name, apart=None):
    """The module. Skips the test, or the class where setUpClass asks, when it cannot be imported.

    `apart`: of the environment of this name, which has versions of its own; whoever needs it needs nothing else.
    """
    folder = pathlib.Path(os.environ.get("INGOT_TEST_VENV", ROOT / "build/venv"))
    if apart:
        folder = folder.with_name(f"{folder.name}-{apart}")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    path = str(folder / "lib" / version / "site-packages")
    if path not in sys.path and pathlib.Path(path).is_dir():
        # Before the system's packages, which may be too old for these; after Python's own modules.
        system = [i for i, entry in enumerate(sys.path) if entry.endswith(("site-packages", "dist-packages"))]
        sys.path.insert(min(system, default=len(sys.path)), path)
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise unittest.SkipTest(f"{name} cannot be imported ({error}); tools/make_test_venv.py installs it") from None
