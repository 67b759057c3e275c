"""tools/attack_load.py in short: every attack at once beside an honest tenant. With the tiny model, so that the server and
not the matrices is under test, and with marks that hold on a machine with other work; with INGOT_LONG=1 with the default
model, too. Each attack alone is in test_serve_attacks.py."""
import json
import os
import subprocess
import sys

import models
import support

ALONE = "measures times and memory"  # not beside other modules: tools/run_tests.py

TOOL = support.ROOT / "tools/attack_load.py"


class AttackLoad(support.TestCase):
    def run_tool(self, *args):
        """The marks that were missed, and what was measured."""
        path = self.temp_dir() / "measured.json"
        command = [sys.executable, TOOL, "--json", path, *map(str, args)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=600)
        self.assertIn(result.returncode, (0, 1), result.stderr)
        self.assertTrue(path.exists(), result.stderr)
        measured = json.loads(path.read_text())
        missed = [mark for mark in measured["marks"] if not mark["holds"]]
        self.assertEqual(result.returncode, 1 if missed else 0)
        return missed, measured

    def check(self, *args, without=()):
        missed, measured = self.run_tool(*args)
        missed = [mark for mark in missed if mark["what"] not in without]
        self.assertEqual(missed, [], measured["attacked"]["answers"])
        self.assertGreater(measured["attacked"]["report"]["requests"]["ok"], 0)
        return measured

    def test_every_attack_at_once(self):
        model = models.make_tiny(self.temp_dir() / "tiny", max_position_embeddings=4096)
        # Gaps of the tiny model are so short that they are the machine's.
        measured = self.check("--model", model, "--minutes", 0.2, "--calm", 6, "--tolerance", 5, without=["its p99 gap"])
        # A share depends less on what else the machine does than a time.
        fair = min(0.5, measured["calm"]["share"])
        self.assertGreater(measured["attacked"]["share"], 0.5 * fair, f"a fair share is {fair:.2f}")

    @support.unittest.skipUnless(os.environ.get("INGOT_LONG"), "takes a minute and wants the machine: INGOT_LONG=1")
    def test_with_the_default_model(self):
        self.check("--model", models.default_model(), "--minutes", 0.4, "--tolerance", 2)


if __name__ == "__main__":
    support.unittest.main()
