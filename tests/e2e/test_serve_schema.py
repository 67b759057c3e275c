"""`schemathesis` against /openapi.json: whatever the description allows, and much that it forbids, without a 5xx."""
import os
import subprocess
import sys

import packages
import serving

EXAMPLES = 300 if os.environ.get("INGOT_LONG") else 12
MAIN = "import sys; from schemathesis.cli import schemathesis; sys.exit(schemathesis())"


class Schemathesis(serving.ToyCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = os.path.dirname(os.path.dirname(packages.need("schemathesis").__file__))
        super().setUpClass()

    def test_no_answer_is_a_server_error(self):
        command = [
            sys.executable, "-B", "-c", MAIN, "run", self.server.url + "/openapi.json", "--checks", "not_a_server_error",
            "--phases", "examples,coverage,fuzzing", "--max-examples", str(EXAMPLES), "--seed", "7",
            "--generation-database", "none", "--request-timeout", "120", "--workers", "1", "--no-color",
            "--suppress-health-check", "all", "--warnings", "off", "--continue-on-failure",
        ]
        env = {**os.environ, "PYTHONPATH": self.folder, "HYPOTHESIS_STORAGE_DIRECTORY": self.directory.name}
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env=env, cwd=self.directory.name, timeout=800)
        self.assertEqual(done.returncode, 0, done.stdout[-6000:])
        self.assertRegex(done.stdout, r"[1-9]\d* generated")
        self.assert_alive()
        self.chat()


if __name__ == "__main__":
    import unittest

    unittest.main()
