"""The cache: `ingot ls` and `rm`, a full disk, two programs at once, Ctrl-C, names that would leave it."""
import json
import os
import pty
import resource
import select
import signal
import subprocess
import time
import unittest

import hub
import support
from pull_case import NAME, PullCase, repository

ALONE = "waits for moments of a download"  # not beside other modules: tools/run_tests.py


class DiskTest(PullCase):
    def test_write_error_says_so_and_keeps_the_part(self):
        server = self.serve()

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

        process = support.start("pull", NAME, env=self.env(server), preexec_fn=limit, restore_signals=False)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1, errors)
        self.assertIn("cannot write", errors)
        self.assertEqual(self.files(), set())
        self.assertTrue(self.leftovers())
        self.assert_pulled(self.pull(server), server)

    def test_more_than_the_disk_holds_is_refused_before_anything_is_fetched(self):
        server = self.serve()
        size = 1 << 60
        tree = [{"path": "model.safetensors", "size": size, "lfs": {"oid": "0" * 64, "size": size}}]
        server.faults.append(hub.times(1, lambda h: h.answer(200, json.dumps(tree).encode()), "/tree/"))
        self.assert_fails(self.pull(server), 1, "no space", "free")
        self.assertEqual(server.paths("store"), [])

    def test_home_that_cannot_be_written(self):
        self.assert_fails(self.pull(self.serve(), INGOT_HOME="/proc/ingot"), 1, "/proc/ingot")

    def test_interrupt_keeps_the_part(self):
        server = self.serve()

        def stall(handler):
            handler.break_off(handler.content(), 0, 100_000)
            handler.close_connection = False
            time.sleep(20)

        server.faults.append(hub.times(1, stall, "signature"))
        process = support.start("pull", NAME, env=self.env(server))
        while not any(path.suffix == ".part" and path.stat().st_size for path in self.leftovers()):
            self.assertIsNone(process.poll())
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)
        self.assertEqual(process.returncode, 130, errors)
        self.assertIn("interrupted", errors)
        self.assert_pulled(self.pull(server), server)

    def test_two_pulls_at_once_fetch_once(self):
        server = self.serve()
        server.faults.append(hub.times(1, lambda h: (time.sleep(1), h.answer(200, h.content())), "signature"))
        processes = [support.start("pull", NAME, env=self.env(server)) for _ in range(2)]
        outputs = [process.communicate(timeout=60) for process in processes]
        self.assertEqual([process.returncode for process in processes], [0, 0], outputs)
        self.assertEqual(len(server.paths("store")), 1)
        self.assertIn("waiting", outputs[0][1] + outputs[1][1])


class ProgressTest(PullCase):
    def terminal_output(self, seconds):
        """What a pull that takes `seconds` writes to a terminal."""
        server = self.serve()

        def slowly(handler):
            content = handler.content()
            handler.send_response(200)
            handler.send_header("Content-Length", str(len(content)))
            handler.end_headers()
            for start in range(0, len(content), 50_000):
                handler.wfile.write(content[start : start + 50_000])
                time.sleep(seconds / 7)

        server.faults.append(hub.times(1, slowly, "signature"))
        master, slave = pty.openpty()
        env = {name: value for name, value in {**os.environ, **self.env(server)}.items() if value is not None}
        process = subprocess.Popen([support.BINARY, "pull", NAME], env=env, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=slave)
        os.close(slave)
        output = b""
        while True:
            if not select.select([master], [], [], 30)[0]:
                break
            try:
                piece = os.read(master, 4096)
            except OSError:
                break
            output += piece
        os.close(master)
        self.assertEqual(process.wait(timeout=30), 0, output)
        return output.decode()

    def test_bar_on_a_terminal_when_it_takes_long(self):
        output = self.terminal_output(2.5)
        self.assertIn("%", output)
        self.assertIn(NAME, output)
        self.assertTrue(output.endswith("\r\x1b[K"), repr(output[-80:]))

    def test_no_bar_when_it_is_quick(self):
        for _ in range(5):
            started = time.monotonic()
            output = self.terminal_output(0.1)
            if time.monotonic() - started < 0.9:
                self.assertEqual(output, "")
                return
            self.home = self.temp_dir()
        self.skipTest("the machine is too busy to fetch 300 kB within a second")


class CacheTest(PullCase):
    def run_json(self, *args):
        result = support.run(*args, "--json", env=self.env())
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_ls_and_rm(self):
        server = self.serve({NAME: repository(), "gpt2": repository(), "org/g": {"a.gguf": b"x" * 2000}})
        for name in server.repos:
            self.assertEqual(self.pull(server, name=name).returncode, 0)
        models = {model["name"]: model for model in self.run_json("ls")["models"]}
        self.assertEqual(sorted(models), ["gpt2", "org/g", NAME])
        self.assertEqual(models["org/g"]["format"], "gguf")
        self.assertEqual(models[NAME]["format"], "safetensors")
        self.assertGreater(models[NAME]["bytes"], 300_000)
        listed = support.run("ls", env=self.env()).stdout.splitlines()
        self.assertEqual(len(listed), 3)
        self.assertEqual(support.run("rm", NAME, env=self.env()).returncode, 0)
        self.assertEqual([model["name"] for model in self.run_json("ls")["models"]], ["gpt2", "org/g"])
        self.assert_fails(support.run("rm", NAME, env=self.env()), 1, NAME)
        self.assertEqual(self.leftovers(), [])

    def test_empty_cache(self):
        self.assertEqual(self.run_json("ls")["models"], [])

    def test_rm_of_a_broken_download(self):
        server = self.serve()
        server.faults.append(hub.times(1, lambda h: h.break_off(h.content(), 0, 100_000), "signature"))
        self.pull(server, "--retries", "0")
        self.assertTrue(self.leftovers())
        self.assertEqual(support.run("rm", NAME, env=self.env()).returncode, 0)
        self.assertEqual(self.leftovers(), [])

    def test_names_that_would_leave_the_cache(self):
        outside = self.temp_dir() / "precious"
        outside.mkdir()
        (outside / "model.gguf").write_bytes(b"x")
        for name in ("..", "../x", "a/../b", "/etc", "a/b/c", ".", "./a", "a/.", "", "a//b", "-x/y", "a\nb", "a b",
                     "a\\b", "é", str(outside), "x" * 97, "a/", "/a", "~", ".hidden", "a/.hidden"):
            for command in ("pull", "rm"):
                with self.subTest(name=name, command=command):
                    result = support.run(command, "--", name, env=self.env())
                    self.assertIn(result.returncode, (1, 2))
                    self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertTrue((outside / "model.gguf").exists())

    def test_links_are_not_followed(self):
        outside = self.temp_dir() / "precious"
        outside.mkdir()
        (outside / "model.gguf").write_bytes(b"x")
        models = self.home / "models"
        (models / "a").mkdir(parents=True)
        (models / "linked").symlink_to(outside)
        (models / "a/model.gguf").write_bytes(b"x")
        (models / "a/sub").symlink_to(outside)
        self.assertEqual([model["name"] for model in self.run_json("ls")["models"]], ["a"])
        self.assertEqual(support.run("rm", "linked", env=self.env()).returncode, 1)
        self.assertEqual(support.run("rm", "a", env=self.env()).returncode, 0)
        self.assertTrue((outside / "model.gguf").exists())

    def test_model_and_organisation_of_one_name(self):
        server = self.serve({"same": repository(), "same/x": repository()})
        self.assertEqual(self.pull(server, name="same").returncode, 0)
        self.assert_fails(self.pull(server, name="same/x"), 1, "same", "is a model")


class UsageTest(PullCase):
    def test_wrong_usage_is_one_line_and_2(self):
        for args in (["pull"], ["pull", "a", "b"], ["pull", "a", "--retries", "x"], ["pull", "a", "--nope"], ["rm"],
                     ["ls", "x"], ["nonsense"], ["--nope"], ["pull", "default", "--file", "x"]):
            with self.subTest(args=args):
                self.assert_fails(support.run(*args, env=self.env()), 2)

    def test_help_fits_a_screen_and_has_an_example(self):
        for args in ([], ["--help"], ["help"], ["pull", "--help"], ["help", "pull"], ["ls", "-h"], ["rm", "--help"]):
            with self.subTest(args=args):
                result = support.run(*args)
                self.assertEqual(result.returncode, 0)
                self.assertIn("Example", result.stdout)
                self.assertLessEqual(len(result.stdout.splitlines()), 40)
                self.assertLessEqual(max(map(len, result.stdout.splitlines())), 100)

    def test_version(self):
        self.assertRegex(support.run("--version").stdout, r"^ingot \d+\.\d+\.\d+\n$")

    def test_full_stdout_is_an_error(self):
        with open("/dev/full", "w") as full:
            process = subprocess.run([support.BINARY, "--help"], stdout=full, stderr=subprocess.PIPE, text=True)
            self.assertEqual(process.returncode, 1)
            self.assertIn("standard output", process.stderr)


if __name__ == "__main__":
    unittest.main()
