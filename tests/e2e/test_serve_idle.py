"""A server that has nothing to do uses no CPU: all its threads sleep."""
import os
import time
import unittest

import serving

ALONE = "measures the CPU"  # not beside other modules: tools/run_tests.py


class Idle(serving.ToyCase):
    # As many threads as cores: these spin before they sleep.
    ARGS = ("--threads", str(len(os.sched_getaffinity(0))), "--device", "cpu")

    def cpu_seconds(self):
        """Of all threads, so far."""
        with open(f"/proc/{self.server.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def test_no_cpu_before_and_after_a_request(self):
        for _ in range(2):
            time.sleep(0.5)  # what spins, spins a moment before it sleeps
            before = self.cpu_seconds()
            time.sleep(2)
            # One spinning thread alone would use up to 2 s.
            self.assertLess(self.cpu_seconds() - before, 0.5)
            self.chat()
        self.assert_alive()


if __name__ == "__main__":
    unittest.main()
