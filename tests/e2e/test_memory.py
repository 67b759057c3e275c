"""What loading and running a model takes beside its weights: they are packed as they are read and their pages given back,
or used where they lie in the file."""
import os
import shutil
import subprocess
import unittest

import support

ALONE = "measures memory"  # not beside other modules: tools/run_tests.py

SLACK = 64 << 20


class MemoryTest(support.TestCase):
    def peak(self, *args):
        """The largest resident set of `ingot ARGS…`, in bytes."""
        process = subprocess.Popen([support.BINARY, *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0)
        return usage.ru_maxrss * 1024

    def check_format(self, name, shape="smollm2-135m"):
        model = self.temp_dir() / f"{name}.gguf"
        if shutil.disk_usage(model.parent).free < 4 << 30:
            raise unittest.SkipTest("less than 4 GB free for a model")
        made = support.run("bench", "--shape", shape, "--format", name, "--save", model, "--prompt", "1", "--gen", "1",
                           "--repeat", "1", "--device", "cpu", timeout=600)
        self.assertEqual(made.returncode, 0, made.stderr)
        weights = model.stat().st_size
        self.assertGreater(weights, 2 * SLACK)  # a second copy would not go unseen
        peak = self.peak("eval", "logits", model, "--ids", "1,2,3,4,5", "--threads", "2", "--device", "cpu")
        model.unlink()
        self.assertLess(peak, weights + SLACK)

    def test_float32_is_used_where_it_lies(self):
        self.check_format("f32")

    def test_16_bit_floats_are_packed_piece_by_piece(self):
        self.check_format("bf16")

    def test_8_bit_blocks_are_packed_piece_by_piece(self):
        self.check_format("q8_0")

    def test_4_bit_blocks_with_mins_are_packed_piece_by_piece(self):
        # The default model's format. Its own shape is no larger than two slacks in it.
        self.check_format("q4_1", "smollm2-360m")


if __name__ == "__main__":
    unittest.main()
