"""`schemathesis` against /openapi.json: whatever the description allows, and much that it forbids, without a
5xx; refusals within their time, and without a word of what is inside."""
import os
import pathlib
import re
import subprocess
import sys

import packages
import serving

EXAMPLES = 300 if os.environ.get("INGOT_LONG") else 12
MAIN = "import sys; from schemathesis.cli import schemathesis; sys.exit(schemathesis())"
# A check of theirs that is ours: each answer is searched as those of all other tests are. At the end it tells how many.
HOOKS = """
import atexit
import schemathesis
import serving
seen = {}
@schemathesis.check
def refusal(ctx, response, case):
    seen[response.status_code] = seen.get(response.status_code, 0) + 1
    serving.check_refusal(response.status_code, response.content, response.elapsed)
atexit.register(lambda: print("searched", seen))
"""


class Schemathesis(serving.ToyCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = os.path.dirname(os.path.dirname(packages.need("schemathesis").__file__))
        super().setUpClass()

    def test_no_answer_is_a_server_error(self):
        # Of a request that asks for a second, a busy machine rightly says that it was not enough.
        config = pathlib.Path(self.directory.name) / "schemathesis.toml"
        config.write_text('[checks.not_a_server_error]\nexpected-statuses = ["2xx", "3xx", "4xx", "504"]\n')
        (pathlib.Path(self.directory.name) / "ingot_hooks.py").write_text(HOOKS)
        command = [
            sys.executable, "-B", "-c", MAIN, "--config-file", str(config), "run", self.server.url + "/openapi.json",
            "--checks", "not_a_server_error,refusal", "--phases", "examples,coverage,fuzzing", "--max-examples", str(EXAMPLES), "--seed", "7",
            "--generation-database", "none", "--request-timeout", "120", "--workers", "1", "--no-color",
            "--suppress-health-check", "all", "--warnings", "off", "--continue-on-failure",
        ]
        path = os.pathsep.join([self.directory.name, os.path.dirname(os.path.abspath(__file__)), self.folder])
        env = {**os.environ, "PYTHONPATH": path, "SCHEMATHESIS_HOOKS": "ingot_hooks",
               "HYPOTHESIS_STORAGE_DIRECTORY": self.directory.name}
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env=env, cwd=self.directory.name, timeout=800)
        self.assertEqual(done.returncode, 0, done.stdout[-6000:])
        self.assertRegex(done.stdout, r"[1-9]\d* generated")
        searched = re.search(r"^searched .*\b400: (\d+)", done.stdout, re.MULTILINE)
        self.assertTrue(searched and int(searched[1]) > 100, done.stdout[-500:])
        self.assert_alive()
        self.chat()


if __name__ == "__main__":
    import unittest

    unittest.main()
