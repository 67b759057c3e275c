"""tools/attack_load.py in its short form, with INGOT_LONG=1: every attack at once beside an honest tenant, with the
default model. Each attack alone is in test_serve_attacks.py."""
import json
import os
import subprocess
import sys

import models
import support

ALONE = "measures times and memory"  # not beside other modules: tools/run_tests.py

TOOL = support.ROOT / "tools/attack_load.py"


@support.unittest.skipUnless(os.environ.get("INGOT_LONG"), "takes a minute and wants the machine: INGOT_LONG=1")
class AttackLoad(support.TestCase):
    def run_tool(self, *args):
        """The marks that were missed, and what was measured."""
        path = self.temp_dir() / "measured.json"
        command = [sys.executable, TOOL, "--model", models.default_model(), "--json", path, *map(str, args)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=600)
        self.assertIn(result.returncode, (0, 1), result.stderr)
        self.assertTrue(path.exists(), result.stderr)
        measured = json.loads(path.read_text())
        missed = [mark for mark in measured["marks"] if not mark["holds"]]
        self.assertEqual(result.returncode, 1 if missed else 0)
        return missed, measured

    def test_every_attack_at_once(self):
        missed, measured = self.run_tool("--minutes", 0.4, "--tolerance", 2)
        self.assertEqual(missed, [], measured["attacked"]["answers"])
        self.assertGreater(measured["attacked"]["report"]["requests"]["ok"], 0)


if __name__ == "__main__":
    support.unittest.main()
