"""./ingot, the launcher: what it installs, when it builds, and that it passes everything on to the program.

It runs on a copy of the script in a small tree, with stand-ins for apt, dpkg, cmake, ninja and sudo in PATH that write
down how they were called.
"""
import os
import pathlib
import shutil
import subprocess
import time
import unittest

import support

# Each stand-in logs its call. The packages "installed" are the files in $STATE/packages.
FAKES = {
    "dpkg-query": 'test -e "$STATE/packages/${@: -1}" && printf installed || exit 1',
    "apt-cache": 'test -e "$STATE/available/$2"',
    "apt-get": """
      case "$*" in
        *update*) exit "$(cat "$STATE/update_status" 2>/dev/null || echo 0)" ;;
        *install*) [ ! -e "$STATE/install_fails" ] || { echo "E: no such package"; exit 100; }
          for p in "${@}"; do case $p in -*|install|Acquire*|DPkg*|12[0-9]) ;; *) : >"$STATE/packages/$p" ;; esac; done ;;
      esac""",
    "sudo": 'shift_env() { exec "$@"; }; shift_env "$@"',
    "id": 'cat "$STATE/uid"',
    "cmake": """
      mkdir -p build/release
      printf 'CMAKE_HOME_DIRECTORY:INTERNAL=%s\\n' "$PWD" >build/release/CMakeCache.txt
      case "$*" in *INGOT_TESTS=ON*) echo INGOT_TESTS:BOOL=ON >>build/release/CMakeCache.txt ;; esac
      : >build/release/build.ninja""",
    "ninja": """
      [ ! -e "$STATE/build_fails" ] || { echo "[1/2] CXX x"; echo "x.cpp:1: error: broken"; exit 1; }
      echo "[1/1] Linking"
      printf '#!/bin/sh\\necho "program: $*"; pwd; exit 7\\n' >"$2/ingot"
      chmod +x "$2/ingot" """,
}
# Programs that tests drive: stand-ins that only have to be there.
DRIVEN = ("xz", "openssl", "chromedriver", "promtool", "systemd-analyze", "clang-format-14", "mpirun.openmpi",
          "mpirun.mpich", "srun")
# All else that the launcher calls, of the system.
SYSTEM = ("bash", "cat", "chmod", "dirname", "env", "find", "flock", "grep", "ln", "mkdir", "mv", "nproc", "python3",
          "readlink", "rm", "sh", "tail")
PACKAGES = ("g++ cmake ninja-build libfmt-dev libcli11-dev libcurl4-openssl-dev libedit-dev libpcre2-dev libssl-dev ca-certificates python3 "
            "python3-pip").split()


class LauncherTest(unittest.TestCase):
    def setUp(self):
        self.top = support.TestCase.temp_dir(self)
        self.root = self.top / "a tree"  # a space in the path must not matter
        self.state = self.top / "state"
        fakes = self.top / "fakes"
        for folder in (self.root / "src/base", self.root / "cmake", self.root / "tools", self.state / "packages",
                       self.state / "available", fakes):
            folder.mkdir(parents=True)
        shutil.copy(support.ROOT / "ingot", self.root / "ingot")
        for name in ("CMakeLists.txt", "CMakePresets.json", "src/base/x.cpp", "cmake/y.cmake"):
            (self.root / name).write_text("")
        (self.root / "tools/run_tests.py").write_text(
            "import os, sys; print('tests:', sys.argv[1:], os.environ.get('INGOT_MODELS'))")
        for tool in ("fetch_test_models", "make_test_venv"):
            (self.root / f"tools/{tool}.py").write_text(
                "import os, pathlib, sys\n"
                "state = pathlib.Path(os.environ['STATE'])\n"
                f"(state / '{tool}').write_text(sys.argv[1])\n"
                "sys.exit((state / 'offline').exists())\n")
        for name, script in {**FAKES, **{name: "" for name in DRIVEN}}.items():
            fake = fakes / name
            fake.write_text(f'#!/bin/bash\necho "{name} $*" >>"$STATE/calls"\n{script}\n')
            fake.chmod(0o755)
        for name in SYSTEM:
            if shutil.which(name):
                (fakes / name).symlink_to(shutil.which(name))
        self.fakes = fakes
        self.env = {**os.environ, "PATH": str(fakes), "STATE": str(self.state)}
        self.env.pop("INGOT_MODELS", None)
        self.env.pop("INGOT_TEST_VENV", None)
        (self.state / "uid").write_text("0")
        for package in (*PACKAGES, "libboost1.81-dev"):
            self.installed(package)
        (self.state / "available/libboost1.81-dev").touch()

    def installed(self, package):
        (self.state / "packages" / package).touch()

    def missing(self, package):
        (self.state / "packages" / package).unlink()

    def run_launcher(self, *args, cwd=None, script=None):
        calls = self.state / "calls"
        calls.write_text("")
        result = subprocess.run([script or self.root / "ingot", *args], env=self.env, cwd=cwd or self.top,
                                capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
        self.calls = calls.read_text().splitlines()
        return result

    def called(self, program, *words):
        return [call for call in self.calls if call.split()[0] == program and all(word in call for word in words)]

    def test_first_call_builds_and_later_ones_do_nothing(self):
        result = self.run_launcher("run", "Why is the sky blue?", "--n", "")
        self.assertEqual(result.returncode, 7, result.stderr)
        self.assertEqual(result.stdout, f"program: run Why is the sky blue? --n \n{self.top}\n")
        self.assertTrue(self.called("cmake", "--preset release"))
        self.assertEqual(self.called("apt-get"), [])
        self.assertIn("building", result.stderr)
        result = self.run_launcher("ls")
        self.assertEqual((result.returncode, result.stderr), (7, ""))
        self.assertEqual(self.calls, [], "nothing may be repeated")

    def test_changed_added_and_removed_sources_are_built(self):
        self.run_launcher("ls")
        source = self.root / "src/base/x.cpp"
        for change in (lambda: source.write_text("new"), lambda: (self.root / "src/base/z.h").touch(), source.unlink,
                       lambda: (self.root / "CMakeLists.txt").write_text("new")):
            time.sleep(0.02)
            change()
            self.run_launcher("ls")
            self.assertTrue(self.called("ninja"))
            self.assertEqual(self.called("cmake"), [])
            self.run_launcher("ls")
            self.assertEqual(self.calls, [])

    def test_called_through_a_link_from_elsewhere(self):
        link = self.top / "link"
        link.symlink_to(self.root / "ingot")
        result = self.run_launcher("ls", script=link, cwd="/")
        self.assertEqual(result.stdout, "program: ls\n/\n")

    def test_missing_packages_are_installed_and_named(self):
        for package in ("cmake", "libedit-dev", "libboost1.81-dev"):
            self.missing(package)
        result = self.run_launcher("ls")
        self.assertEqual(result.returncode, 7, result.stderr)
        self.assertIn("installing with apt: cmake libedit-dev libboost1.81-dev", result.stderr)
        update, install = self.called("apt-get")
        self.assertIn("update", update)
        self.assertIn("Acquire::Retries=8", install)
        self.assertIn("cmake libedit-dev libboost1.81-dev", install)
        self.assertNotIn("g++", install)
        self.assertEqual(self.called("sudo"), [])

    def test_newer_boost_where_there_is_one(self):
        self.missing("libboost1.81-dev")
        (self.state / "available/libboost1.83-dev").touch()
        self.run_launcher("ls")
        self.assertTrue(self.called("apt-get", "install", "libboost1.83-dev"))

    def test_sudo_only_when_not_root_and_only_for_apt(self):
        (self.state / "uid").write_text("1000")
        self.run_launcher("ls")
        self.assertEqual(self.called("sudo"), [], "nothing is missing")
        shutil.rmtree(self.root / "build")
        self.missing("cmake")
        result = self.run_launcher("ls")
        self.assertIn("sudo", result.stderr)
        self.assertEqual(len(self.called("sudo", "apt-get")), 2)

    def test_failing_update_is_no_end(self):
        self.missing("cmake")
        (self.state / "update_status").write_text("100")
        result = self.run_launcher("ls")
        self.assertEqual(result.returncode, 7, result.stderr)

    def test_failing_install_shows_why(self):
        self.missing("cmake")
        (self.state / "install_fails").touch()
        result = self.run_launcher("ls")
        self.assertEqual(result.returncode, 1)
        self.assertIn("apt could not install: cmake", result.stderr)
        self.assertIn("E: no such package", result.stderr)

    def test_failing_build_shows_the_error_and_never_runs_the_old_program(self):
        self.run_launcher("ls")
        time.sleep(0.02)
        (self.root / "src/base/x.cpp").write_text("broken")
        (self.state / "build_fails").touch()
        for _ in range(2):
            result = self.run_launcher("ls")
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assertIn("x.cpp:1: error: broken", result.stderr)
        (self.state / "build_fails").unlink()
        self.assertEqual(self.run_launcher("ls").returncode, 7)

    def test_moved_tree_is_built_anew(self):
        self.run_launcher("ls")
        moved = self.top / "moved"
        self.root.rename(moved)
        time.sleep(0.02)
        (moved / "src/base/x.cpp").write_text("new")
        result = self.run_launcher("ls", script=moved / "ingot")
        self.assertEqual(result.returncode, 7, result.stderr)
        self.assertIn("moved", result.stderr)

    def test_tests_are_set_up_and_started(self):
        self.run_launcher("ls")
        result = self.run_launcher("test", "--fast")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(self.called("apt-get", "install", "libgtest-dev"))
        self.assertTrue(self.called("cmake", "INGOT_TESTS=ON"))
        self.assertIn("'--fast'", result.stdout)
        self.run_launcher("test")
        self.assertEqual(self.calls, [])

    def test_whatever_the_tests_are_built_from_is_built(self):
        for name in ("golden/a.cpp", "sim/b.h", "fuzz/c_fuzz.cpp", "issues/d.cpp"):
            (self.root / "tests" / name).parent.mkdir(parents=True)
            (self.root / "tests" / name).write_text("")
        self.run_launcher("test", "--minimal")
        for change in (lambda: (self.root / "tests/sim/b.h").write_text("new"),
                       lambda: (self.root / "tests/golden/a.cpp").write_text("new"),
                       lambda: (self.root / "tests/fuzz/new_fuzz.cpp").touch(),
                       lambda: (self.root / "tests/issues/d.cpp").unlink(),
                       lambda: (self.root / "tests/more").mkdir(),
                       lambda: (self.root / "cmake/y.cmake").write_text("new"),
                       lambda: os.utime(self.root / "ingot")):
            time.sleep(0.02)
            change()
            self.run_launcher("test", "--minimal")
            self.assertTrue(self.called("ninja"))
            self.run_launcher("test", "--minimal")
            self.assertEqual(self.calls, [])

    def test_the_tests_get_what_they_drive(self):
        for name in ("chromedriver", "promtool"):
            (self.fakes / name).unlink()
        result = self.run_launcher("test", "golden")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("installing with apt: chromium chromium-driver\n", result.stderr)
        self.assertIn("installing with apt: prometheus\n", result.stderr)
        self.assertFalse(self.called("apt-get", "xz-utils"))
        self.assertEqual((self.state / "fetch_test_models").read_text(), str(self.root / "build/models"))
        self.assertEqual((self.state / "make_test_venv").read_text(), str(self.root / "build/venv"))
        self.assertIn(f"'golden'] {self.root}/build/models", result.stdout)

    def test_minimal_and_fast_fetch_nothing(self):
        for name in DRIVEN:
            (self.fakes / name).unlink()
        for option in ("--minimal", "--fast"):
            result = self.run_launcher("test", option, "golden")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertFalse(self.called("apt-get", "chromium"))
            self.assertFalse((self.state / "make_test_venv").exists())
            self.assertEqual("--fast" in result.stdout, option == "--fast")
            self.assertNotIn("--minimal", result.stdout)

    def test_what_cannot_be_had_is_named_and_the_tests_run(self):
        self.run_launcher("test", "--minimal")
        (self.fakes / "promtool").unlink()
        (self.state / "install_fails").touch()
        (self.state / "offline").touch()
        result = self.run_launcher("test")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("tests:", result.stdout)
        for what in ("prometheus: E: no such package", "the second model", "the clients", "the default model"):
            self.assertIn(f"going on without {what}", result.stderr)

    def test_models_of_the_user_are_taken(self):
        self.env["INGOT_MODELS"] = "/models"
        result = self.run_launcher("test")
        self.assertIn("/models", result.stdout)
        self.assertFalse((self.state / "fetch_test_models").exists())

    def test_two_at_once_build_once(self):
        (self.state / "calls").write_text("")
        processes = [subprocess.Popen([self.root / "ingot", "ls"], env=self.env, cwd=self.top, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE) for _ in range(3)]
        for process in processes:
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, 7)
        self.calls = pathlib.Path(self.state / "calls").read_text().splitlines()
        self.assertEqual(len(self.called("ninja")), 1)


if __name__ == "__main__":
    unittest.main()
