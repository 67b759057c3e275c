"""`ingot devices` and the benchmarks over several devices: a library that plays NVML with 8 GPUs, the CPU itself, and
pages in Chromium."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import models
import support
from page_case import PageCase

ALONE = "measures times"  # not beside other modules: tools/run_tests.py

SOURCE = pathlib.Path(__file__).with_name("nvml_of_8.c")
CORES = len(os.sched_getaffinity(0))


class DevicesCase(support.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
        if not compiler:
            raise unittest.SkipTest("no C compiler for the library that plays NVML")
        folder = tempfile.TemporaryDirectory(prefix="ingot-nvml-")
        cls.addClassCleanup(folder.cleanup)
        subprocess.run([compiler, "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o",
                        f"{folder.name}/libnvidia-ml.so.1", str(SOURCE)], check=True)
        cls.library = folder.name

    def run_with_gpus(self, *args, plays=None, visible=None, **options):
        env = {"LD_LIBRARY_PATH": self.library, "NVML_PLAYS": plays, "CUDA_VISIBLE_DEVICES": visible}
        return support.run(*args, env=env, timeout=120, **options)

    def document(self, *args, **options):
        result = self.run_with_gpus(*args, "--json", **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)


class ListTest(DevicesCase):
    def test_all_gpus(self):
        found = self.document("devices", "list")
        self.assertEqual(found["driver"], "580.65.06")
        self.assertIsNone(found["no_gpus"])
        self.assertEqual([gpu["device"] for gpu in found["gpus"]], [f"cuda:{i}" for i in range(8)])
        gpu = found["gpus"][5]
        self.assertEqual((gpu["name"], gpu["bus_id"], gpu["node"]), ("NVIDIA H200", "0000:a5:00.0", 1))
        self.assertEqual((gpu["total_bytes"], gpu["free_bytes"]), (150754820096, 10754820096))
        self.assertEqual((gpu["clock_mhz"], gpu["most_clock_mhz"], gpu["power_w"], gpu["power_limit_w"], gpu["celsius"]),
                         (350, 1980, 85.5, 700.0, 35))
        self.assertEqual((gpu["pcie_generation"], gpu["pcie_lanes"], gpu["nvlinks"]), (5, 16, 18))
        self.assertAlmostEqual(gpu["memory_gbs"], 4916.7, delta=0.1)
        self.assertEqual(len(gpu["processes"]), 20)  # more than the first call has room for
        self.assertEqual((gpu["processes"][0]["name"], gpu["processes"][0]["bytes"]), ("ingot", 5000000000))
        self.assertEqual(gpu["processes"][19]["bytes"], 0)  # not told
        self.assertEqual(found["gpus"][0]["processes"], [])
        self.assertEqual(sum(len(node["cores"]) for node in found["nodes"]), CORES)
        self.assertGreater(found["nodes"][0]["total_bytes"], found["nodes"][0]["free_bytes"])

    def test_visible_devices_are_numbered_as_cuda_does(self):
        def seen(visible):
            return [(gpu["device"], gpu["nvml_index"]) for gpu in self.document("devices", "list", visible=visible)["gpus"]
                    if gpu["device"]]

        self.assertEqual(seen("6,2"), [("cuda:0", 6), ("cuda:1", 2)])
        self.assertEqual(seen("GPU-d,GPU-a0000000"), [("cuda:0", 3), ("cuda:1", 0)])
        self.assertEqual(seen("1,9,2"), [("cuda:0", 1)])  # what follows a number that is none is not seen
        self.assertEqual(seen(""), [])
        self.assertEqual(seen("GPU-"), [])  # the begin of several
        found = self.document("devices", "list", visible="6,2")["gpus"]
        self.assertEqual((len(found), found[2]["device"]), (8, None))  # the others are listed all the same
        text = self.run_with_gpus("devices", "list", visible="6").stdout
        self.assertIn("cuda:0    NVIDIA H200, 150.8 GB", text)
        self.assertIn("not seen  NVIDIA H200", text)

    def test_bad_input(self):
        self.assert_fails(self.run_with_gpus("devices", "list", visible="2,3,2"), 1, "2,3,2", "twice")
        self.assert_fails(self.run_with_gpus("devices", "list", plays="falling"), 1, "GPU 6", "lost")
        self.assert_fails(self.run_with_gpus("devices"), 2, "subcommand")
        for spelled, words in (("cuda:0,cuda:1,cuda:0", ("cuda:0", "twice")), ("cuda:8", ("cuda:8", "8 GPUs")),
                               ("cpu:77", ("cpu:77",)), ("gpu0", ("gpu0",)), ("cuda:0/4", ("cuda:0/4",)), ("", ()),
                               ("cpu:0,", ("''",)), ("cpu:0/99999", ("99999", "cores")), ("cpu:0,cpu:0/1", ("twice",))):
            if spelled:
                with self.subTest(spelled):
                    self.assert_fails(self.run_with_gpus("devices", "run", "--devices", spelled), 1, *words)
        self.assert_fails(self.run_with_gpus("devices", "test", "--devices", "cuda:3", visible="0"), 1, "sees 1")
        self.assert_fails(self.run_with_gpus("devices", "test", "--devices", "cuda:0", plays="broken"), 1,
                          "Driver Not Loaded")
        self.assert_fails(self.run_with_gpus("devices", "test", "--devices", "cuda:0", plays="empty"), 1, "no GPU")
        self.assert_fails(self.run_with_gpus("devices", "run", "--devices", "cuda:0,cpu:0"), 1, "cannot share")
        self.assert_fails(self.run_with_gpus("devices", "list", "--html", "/nowhere/page.html"), 1, "/nowhere")

    def test_without_nvml(self):
        env = {"LD_LIBRARY_PATH": None, "CUDA_VISIBLE_DEVICES": None}
        found = support.run("devices", "list", "--json", env=env)
        self.assertEqual(found.returncode, 0, found.stderr)
        if json.loads(found.stdout)["gpus"]:
            self.skipTest("this machine has GPUs")
        self.assertIn("NVML", json.loads(found.stdout)["no_gpus"])
        self.assert_fails(support.run("devices", "test", "--devices", "cuda:0", env=env), 1, "cuda:0", "NVML")


class TopoTest(DevicesCase):
    def test_switch(self):
        found = self.document("devices", "topo")
        self.assertEqual(found["matrix"][0], ["X"] + ["NV18"] * 7)
        self.assertEqual(len(found["links"]), 28)

    def test_pairs_and_nodes(self):
        found = self.document("devices", "topo", plays="pairs")
        self.assertEqual(found["matrix"][2], ["NODE", "NODE", "X", "NV4", "SYS", "SYS", "SYS", "SYS"])
        self.assertEqual([gpu["node"] for gpu in found["gpus"]], [0] * 4 + [1] * 4)
        moved = self.document("devices", "topo", plays="pairs", visible="4,0,5")
        self.assertEqual(moved["names"][:3], ["cuda:0", "cuda:1", "cuda:2"])
        self.assertEqual(moved["matrix"][0][:3], ["X", "SYS", "NV4"])
        lines = self.run_with_gpus("devices", "topo", plays="pairs").stdout.splitlines()
        self.assertEqual(lines[0].split(), [f"cuda:{i}" for i in range(8)] + ["near"])
        self.assertEqual(lines[5].split(), ["cuda:4", "SYS", "SYS", "SYS", "SYS", "X", "NV4", "NODE", "NODE", "cpu:1"])


class PlanTest(DevicesCase):
    def test_a_model_that_needs_several(self):
        found = self.document("devices", "plan", "--shape", "llama-3.1-70b", "--format", "bf16", "--ctx", "8192",
                              "--seqs", "16")
        by = {(layout["tp"], layout["pp"]): layout for layout in found["layouts"]}
        self.assertEqual(len(by), 20)  # every tp x pp of at most 8
        self.assertAlmostEqual(found["weight_bytes"] / 1e9, 141.1, delta=0.1)
        self.assertFalse(by[1, 1]["fits"])
        self.assertIn("missing", by[1, 1]["refusal"])
        self.assertTrue(by[4, 1]["fits"])
        self.assertFalse(by[6, 1]["fits"])  # of GPU 5 others have most
        whole, quarters = by[1, 1]["ranks"][0], by[4, 1]["ranks"]
        self.assertEqual(whole["kv_bytes"], 16 * 8192 * 80 * 8 * 2 * 128 * 2)
        self.assertEqual(sum(rank["kv_bytes"] for rank in quarters), whole["kv_bytes"])
        # Each linear is cut; what every rank has whole is the embedding and the norms.
        embedding = 128256 * 8192 * 2
        for rank in quarters:
            self.assertAlmostEqual(rank["weight_bytes"], (whole["weight_bytes"] - embedding) / 4 + embedding,
                                   delta=1e8)
        stages = by[1, 4]["ranks"]
        self.assertEqual([rank["stage"] for rank in stages], [0, 1, 2, 3])
        self.assertEqual(sum(rank["weight_bytes"] for rank in stages), whole["weight_bytes"])
        self.assertEqual([rank["device"] for rank in by[2, 2]["ranks"]], [f"cuda:{i}" for i in range(4)])
        self.assertEqual([by[n, 1]["replicas"] for n in (1, 2, 3, 4)], [0, 3, 1, 1])  # none with GPU 5
        self.assertLess(by[4, 1]["step_ms_on_paper"], by[2, 1]["step_ms_on_paper"])
        best = found["best"]
        self.assertTrue(best["fits"])
        self.assertEqual(best["step_ms_on_paper"], min(l["step_ms_on_paper"] for l in found["layouts"] if l["fits"]))

    def test_refused_by_arithmetic(self):
        def plan(*args, **options):
            return self.run_with_gpus("devices", "plan", "--shape", "llama-3.1-70b", *args, **options)

        self.assert_fails(plan("--devices", "cuda:0"), 1, "no cut fits", "missing")
        self.assert_fails(plan("--tp", "1", "--ctx", "4096", "--seqs", "64"), 1, "does not fit", "missing")
        self.assert_fails(plan("--tp", "4", "--pp", "4"), 1, "16 devices", "8")
        self.assert_fails(plan("--tp", "65"), 1, "65 ranks", "64 heads")
        self.assert_fails(plan("--pp", "81"), 1, "81 stages", "80 layers")
        self.assert_fails(plan("--ctx", "999999"), 1, "999999")
        self.assert_fails(plan("--format", "q3"), 1, "q3")
        self.assert_fails(self.run_with_gpus("devices", "plan", "--shape", "no-such"), 1, "no-such")
        self.assert_fails(self.run_with_gpus("devices", "plan"), 2, "MODEL")

    def test_a_file_on_the_cpu(self):
        model = models.make_tiny(self.temp_dir() / "model")
        result = support.run("devices", "plan", model, "--devices", "cpu:0", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        best = json.loads(result.stdout)["best"]
        self.assertEqual((best["tp"], best["pp"], len(best["ranks"])), (1, 1, 1))
        self.assertGreater(best["ranks"][0]["activation_bytes"], 0)


class CpuTest(DevicesCase):
    PARTS = f"cpu:0/{min(CORES, 2)}"

    def test_copies_between_parts(self):
        found = self.document("devices", "test", "--devices", self.PARTS, "--bytes", "4M")
        self.assertEqual(found["faults"], [])
        self.assertEqual(len(found["cpu"]), min(CORES, 2) ** 2)
        for pair in found["cpu"]:
            self.assertTrue(pair["right"])
            self.assertGreater(pair["copy_gbs"], 0)
            self.assertGreater(pair["load_ns"], 0)
        text = self.run_with_gpus("devices", "test", "--devices", "cpu:0", "--bytes", "1M").stdout
        self.assertIn("cpu:0 is the only memory node", text)

    def test_equal_products(self):
        found = self.document("devices", "run", "--devices", self.PARTS, "--products", "12", "--size", "128")
        self.assertEqual(sum(r["products"] for r in found["results"]), 12)
        self.assertEqual([r["wrong"] for r in found["results"]], [0] * min(CORES, 2))
        text = self.run_with_gpus("devices", "run", "--devices", "cpu:0", "--products", "3", "--size", "64").stdout
        self.assertIn("cpu:0 is the only device", text)

    def test_comm(self):
        found = self.document("bench", "comm", "--ranks", "3", "--most", "64K", "--seconds", "0.002")["results"]
        ops = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send")
        self.assertEqual([(r["op"], r["bytes"]) for r in found], [(op, 1024 << 2 * i) for op in ops for i in range(4)])
        for r in found:
            self.assertGreater(r["us"], 0)
            self.assertGreater(r["bus_gbs"], 0)
        self.assert_fails(self.run_with_gpus("bench", "comm", "--carrier", "pigeon"), 1, "pigeon", "local")
        self.assert_fails(self.run_with_gpus("bench", "comm", "--least", "2K", "--most", "1K"), 2, "--least")

    def test_matmul(self):
        if CORES < 2:
            self.skipTest("one core")
        for name in ("bf16", "q8_0"):
            found = self.document("bench", "matmul", "--devices", "cpu:0/2", "-m", "48", "-n", "512", "-k", "1024",
                                  "--format", name, "--repeat", "2")["results"]
            self.assertEqual([r["by"] for r in found], ["one", "m", "n", "k", "n overlapped"])
            self.assertEqual([r["same_bits"] for r in found if r["by"] != "k"], [True] * 4)
            self.assertLess(max(r["nmse"] for r in found), 1e-9)
        self.assert_fails(self.run_with_gpus("bench", "matmul", "--devices", "cpu:0/2", "-n", "64"), 1, "64")
        self.assert_fails(self.run_with_gpus("bench", "matmul", "--format", "q9"), 1, "q9")
        self.assert_fails(self.run_with_gpus("bench", "matmul", "--devices", "cuda:0"), 1, "cuda:0")


class DevicesPageTest(DevicesCase, PageCase):
    def setUp(self):
        PageCase.setUp(self)
        DevicesCase.setUp(self)

    def test_pictures(self):
        page = self.temp_dir() / "page.html"
        for args, cells in ((("topo",), 64), (("test", "--devices", CpuTest.PARTS, "--bytes", "1M"), 2 * min(CORES, 2) ** 2),
                            (("plan", "--shape", "tiny"), 0)):
            with self.subTest(args[0]):
                result = self.run_with_gpus("devices", *args, "--html", page)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.browser.get(page.as_uri())
                self.assertEqual(self.js("return performance.getEntriesByType('resource').length"), 0)
                self.assertEqual(self.js("return document.querySelectorAll('svg rect').length"), cells)
                self.assertEqual(len(self.text("h1")), 1)
                self.shot(f"devices_{args[0]}")


if __name__ == "__main__":
    unittest.main()
