"""`ingot report`: a quick one of this machine, one from kept figures, both opened in Chromium: no error, no request."""
import copy
import json
import os
import shutil
import stat
import unittest

import models
import support
from page_case import PageCase

ALONE = "measures times"  # not beside other modules: tools/run_tests.py

NAME = "</script><b>&'\"--><!--<script>"  # would end the page's script, were it not escaped

OLD = {
    "ingot_report": 1, "version": "0.0.9", "date": "2026-01-02T03:04:05Z", "quick": False, "seconds": 1.5,
    "machine": {"cpu": "A CPU " + NAME, "gpu": "cuda:0 NVIDIA H200", "cores": 2, "threads": 2, "set": "neon",
                "memory_bytes": 1 << 34, "system": "Linux", "driver": "580.1", "gpu_clock_mhz": 1980.0,
                "gpu_clock_most_mhz": 1980.0, "gpu_power_w": 611.5, "gpu_power_limit_w": 700.0,
                "measured_read_gbs": 4600.0, "measured_copy_gbs": 4280.0, "measured_bf16_gflops": 790000.0},
    "ops": [{"op": "linear", "format": None, "shape": "bf16 4096x4096, 16 rows", "seconds": 1e-5, "gbs": 3356.0,
             "gops": 53687.0, "limit": "memory", "percent_of_ceiling": 73.0},
            {"op": "copy", "shape": "1", "seconds": 1e-6, "gbs": 3.0, "gops": 0.0, "limit": "memory",
             "percent_of_ceiling": 1.0}],
    "ladders": [{"op": "softmax", "device": "cuda", "shape": "16384 x 16384 f32", "size": [16384, 16384], "dtype": "f32",
                 "variant": "", "bytes": 2147483648.0, "flops": 1342177280.0, "unit": "GB/s", "limit": "copy",
                 "limit_seconds": 0.000501, "ratio_to_best_rival": 1.17,
                 "steps": [{"order": 1, "name": "plain", "reason": "three reads", "source": "src/ladder/softmax/1_plain.cu",
                            "hash": "0123456789ab", "seconds": 0.0012, "figure": 1789.5, "percent_of_limit": 41.8,
                            "gain": None},
                           {"order": 2, "name": NAME, "reason": "two", "source": "src/ladder/softmax/2_online.cu",
                            "hash": "0123456789ab", "seconds": 0.0006, "figure": 3579.0, "percent_of_limit": 83.5,
                            "gain": 2.0}],
                 "rivals": [{"name": "torch", "seconds": 0.00066, "figure": 3264.0},
                            {"name": "cuDNN", "absent": "no module"}]}],
    "model": {"name": "m", "architecture": "llama", "format": "bf16",
              "limits": {"measured_read_gbs": 4600.0, "product_gflops": 790000.0},
              "profiles": [{"title": "decode, batch 1", "profile": {
                  "rows": 1, "seconds": 0.004, "timeline": [[0, 0.003, "layers.0"], [1, 0.0005, "head"]],
                  "nodes": [{"node": "linear q", "nodes": 1, "seconds": 0.003, "bytes": 1e7, "flops": 1e7},
                            {"node": "add", "nodes": 1, "seconds": 0.0005, "bytes": 0.0, "flops": 0.0}]}}],
              "steps": [{"name": "all", "what": "as it serves", "prompt": 512, "gen": 64, "batch": 1,
                         "prefill_tps": 47000.0, "decode_tps": 269.0}]},
    "not_measured": ["Something " + NAME],
}


class ReportCase(support.TestCase):
    def setUp(self):
        super().setUp()
        self.directory = self.temp_dir()

    def old(self, change=None, name="old.json"):
        report = copy.deepcopy(OLD)
        if change:
            change(report)
        path = self.directory / name
        path.write_text(json.dumps(report))
        return path

    def report(self, *args, **options):
        return support.run("report", "--out", self.directory / "page.html", *args, timeout=300, **options)

    def made(self, *args, **options):
        result = self.report(*args, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout


class ReportFileTest(ReportCase):
    def test_broken_files_are_one_line(self):
        def set_at(*path_and_value):
            *path, last, value = path_and_value

            def change(report):
                for key in path:
                    report = report[key]
                report[last] = value
            return change

        for change, word in ((set_at("ingot_report", 7), "7"), (set_at("machine", None), "machine"),
                             (set_at("ops", 0, "seconds", "soon"), "seconds"), (set_at("ops", {}), "ops"),
                             (set_at("ladders", 0, "steps", 0, "name", 3), "name"), (set_at("ladders", 0, 5), "ladder"),
                             (set_at("ladders", 0, "rivals", 0, "figure", []), "figure"),
                             (set_at("model", "profiles", 0, "profile", "timeline", 0, [1]), "timeline"),
                             (set_at("model", "steps", 0, "decode_tps", "fast"), "decode_tps"),
                             (set_at("not_measured", [1]), "not measured")):
            with self.subTest(word):
                self.assert_fails(self.report("--from", self.old(change)), 1, "old.json", word)
        cut = self.directory / "cut.json"
        cut.write_text(json.dumps(OLD)[:500])
        for text in ("", "[]", "{}", "null"):
            cut.write_text(text)
            self.assert_fails(self.report("--against", cut), 1, "cut.json")
        self.assert_fails(self.report("--from", "/nowhere.json"), 1, "/nowhere.json")
        self.assertFalse((self.directory / "page.html").exists())

    def test_wrong_usage(self):
        good = self.old()
        self.assert_fails(support.run("report", "--from", good, "--out", "/nowhere/page.html"), 1, "/nowhere")
        self.assert_fails(self.report("--device", "cuda:99"), 1, "cuda:99")
        self.assert_fails(self.report("--shape", "tiny", "a model"), 2, "--shape")
        self.assert_fails(self.report("no/such-model"), 1, "no/such-model")
        self.assert_fails(self.report("--docs", "/nowhere"), 1, "/nowhere")
        pages = self.directory / "learn"
        shutil.copytree(support.ROOT / "docs/learn", pages)
        self.assert_fails(self.report("--docs", pages, "--from", good), 2, "--commit")
        good.write_text("{}")
        self.assert_fails(self.report("--docs", pages, "--from", good, "--commit", "1"), 1, "no ladders")

    def test_figures_pass_through_unchanged(self):
        kept = self.directory / "kept.json"
        self.made("--from", self.old(), "--json", kept)
        self.assertEqual(json.loads(kept.read_text()), OLD)

    def test_pdf_without_chromium_is_one_line(self):
        out = self.made("--from", self.old(), "--pdf", env={"PATH": "/nowhere", "INGOT_CHROMIUM": None})
        self.assertIn("no PDF", out.splitlines()[-1])
        self.assertTrue((self.directory / "page.html").exists())
        dying = self.directory / "chromium"
        dying.write_text("#!/bin/sh\nexit 1\n")
        dying.chmod(dying.stat().st_mode | stat.S_IXUSR)
        self.assertIn("did not print", self.made("--from", self.old(), "--pdf", env={"INGOT_CHROMIUM": str(dying)}))


class ReportPageTest(ReportCase, PageCase):
    def open(self):
        page = self.directory / "page.html"
        text = page.read_text()
        self.assertEqual((text.count("<script"), text.count("</script>")), (2, 2))
        self.browser.get(page.as_uri())
        asked = self.js("return performance.getEntriesByType('resource').map(e => e.name)")
        self.assertEqual([name for name in asked if not name.startswith("data:")], [], "the page asks for nothing")
        self.until(lambda: self.js("return [...document.images].every(i => i.complete && i.naturalWidth > 0)"),
                   "pictures are drawn")
        self.shot("report")
        return self.text("h1")

    def setUp(self):
        PageCase.setUp(self)
        ReportCase.setUp(self)

    def test_old_figures(self):
        def slower(report):
            report["ops"][0]["seconds"] *= 2
            report["model"]["steps"][0]["decode_tps"] /= 2
            report["machine"]["measured_copy_gbs"] = None

        self.made("--from", self.old(), "--against", self.old(slower, "slower.json"))
        self.assertEqual(self.open(), ["Ingot: a report", "Limits", "Before and after", "Ladders", "The model", "Operators",
                                       "Not measured"])
        body = self.js("return document.body.innerText")
        for text in ("2.00 ×", "1.17 ×", "cuDNN (no module)", "612 of 700 W", "Something " + NAME, "only now: 1"):
            self.assertIn(text.lower(), body.lower())
        self.assertEqual(self.js("return document.querySelectorAll('circle').length"), 1)
        self.assertEqual(self.js("return [...document.querySelectorAll('svg rect')].map(r => r.getBBox().height)"), [52, 52])
        self.assertEqual(self.js("return document.querySelectorAll('b').length"), 0)
        self.assertEqual(len(self.all("img")), 1)

    def test_this_machine_quickly(self):
        model = models.make_tiny(self.directory / "model")
        kept = self.directory / "new.json"
        self.made(model, "--quick", "--threads", "2", "--json", kept, "--against", self.old())
        report = json.loads(kept.read_text())
        self.assertLess(report["seconds"], 120)  # a minute on cores that nobody else uses
        self.assertGreater(report["machine"]["measured_read_gbs"], 0)
        self.assertGreaterEqual(len({r["op"] for r in report["ops"]}), 3)
        self.assertGreaterEqual(len(report["ladders"]), 1)
        steps = [s["name"] for s in report["model"]["steps"]]
        self.assertEqual(steps[-1], "all")
        for name in ("reference", "no fusion"):  # on a busy machine there may be no time for them, which is told
            self.assertTrue(name in steps or any(f"'{name}'" in text for text in report["not_measured"]), name)
        for ladder in report["ladders"]:
            for step in ladder["steps"]:
                self.assertGreater(step["seconds"], 0, step["source"])
        for step in report["model"]["steps"]:
            self.assertGreater(step["decode_tps"], 0)
        self.assertEqual(len(report["model"]["profiles"]), 2)
        titles = self.open()
        for title in ("Limits", "The model", "Operators"):
            self.assertIn(title, titles)
        self.assertGreater(self.js("return document.querySelectorAll('circle').length"), 0)
        self.assertEqual(len(self.all("img")), len(report["ladders"]))
        self.assertIn("another machine", self.js("return document.body.innerText"))

    def test_pdf(self):
        if not (os.environ.get("INGOT_CHROMIUM") or shutil.which("chromium")):
            raise unittest.SkipTest("chromium is not installed")
        self.assertIn("page.pdf", self.made("--from", self.old(), "--pdf"))
        self.assertEqual((self.directory / "page.pdf").read_bytes()[:5], b"%PDF-")


if __name__ == "__main__":
    unittest.main()
