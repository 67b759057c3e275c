"""What tells about the server: probes, metrics, models, limits, the page's files and the tokenizer."""
import json
import os
import random
import re
import shutil
import subprocess
import time
import unittest
import unittest.mock

import models
import serving

ALONE = "measures times"  # not beside other modules: tools/run_tests.py


def series(text):
    """{name with labels: value} of Prometheus' text format; fails on what is not in it."""
    found = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        match = re.fullmatch(r"([a-zA-Z_:][a-zA-Z0-9_:]*(?:\{[^}]*\})?) (\S+)", line)
        assert match, line
        assert match[1] not in found, line
        found[match[1]] = float(match[2])
    return found


class Probes(serving.ToyCase):
    def metrics(self):
        answer = self.server.get("/metrics")
        self.assertEqual(answer.status, 200)
        self.assertTrue(answer.headers["content-type"].startswith("text/plain; version=0.0.4"))
        return series(answer.body.decode())

    def test_health_and_ready(self):
        for path in ("/health", "/ready"):
            answer = self.server.get(path)
            self.assertEqual((answer.status, answer.json()), (200, {"status": "ok"}))

    def test_head_has_no_body(self):
        answer = self.server.request("HEAD", "/health")
        self.assertEqual((answer.status, answer.body), (200, b""))

    def test_models(self):
        listed = self.server.get("/v1/models").json()
        self.assertEqual(listed["object"], "list")
        (model,) = listed["data"]
        self.assertEqual(model["object"], "model")
        self.assertEqual(self.server.get("/v1/models/" + model["id"]).json(), model)
        self.assertEqual(self.server.get("/v1/models/other").status, 404)

    def test_models_of_one_name_differ_by_their_format(self):
        plain = self.server.get("/v1/models").json()["data"][0]
        self.assertEqual((plain["architecture"], plain["format"], list(plain["formats"])), ("llama", "f32", ["f32"]))
        self.assertEqual(self.chat()["system_fingerprint"], plain["fingerprint"])
        name = ("--name", plain["id"])
        with serving.Server(self.model, *name) as again:
            self.assertEqual(again.get("/v1/models").json()["data"][0], {**plain, "created": unittest.mock.ANY})
        with serving.Server(models.to_bf16(models.make_tiny(self.temp_dir() / "half")), *name) as half:
            other = half.get("/v1/models").json()["data"][0]
        self.assertEqual((other["id"], other["architecture"], other["format"]), (plain["id"], "llama", "bf16"))
        self.assertEqual(other["formats"], {"bf16": plain["formats"]["f32"] // 2})
        self.assertNotEqual(other["fingerprint"], plain["fingerprint"])

    def test_limits_and_openapi(self):
        limits = self.server.get("/v1/limits").json()
        self.assertEqual(limits["http"]["body_bytes"], 4 << 20)
        self.assertIn("messages", limits["/v1/chat/completions"])
        self.assertEqual(limits["model"]["context"], 512)
        document = self.server.get("/openapi.json").json()
        self.assertTrue(document["openapi"].startswith("3."))
        self.assertIn("/v1/chat/completions", document["paths"])

    def test_tokenize_and_back(self):
        made = self.post("/tokenize", {"text": "Grüße"})
        self.assertEqual(made["count"], len(made["tokens"]))
        for name in ("content", "prompt"):
            self.assertEqual(self.post("/tokenize", {name: "Grüße"}), made)
            self.assertEqual(self.post("/detokenize", {"tokens": made["tokens"]})[name], "Grüße")
        self.assertEqual(self.post("/tokenize", {}, 400)["error"]["param"], "text")
        for wrong in ([-1], [256], [1 << 40], ["x"], [1.5]):
            error = self.post("/detokenize", {"tokens": wrong}, 400)["error"]
            self.assertTrue(error["param"].startswith("tokens"), error)

    def test_engine_numbers_move(self):
        before = self.server.get("/v1/engine").json()
        self.chat(max_tokens=8, ignore_eos=True)
        deadline = time.monotonic() + 60
        while True:  # the last step is counted a moment after its answer
            after = self.server.get("/v1/engine").json()
            if after["tokens"] >= before["tokens"] + 8 or time.monotonic() > deadline:
                break
            time.sleep(0.02)
        self.assertGreaterEqual(after["tokens"], before["tokens"] + 8)
        self.assertGreater(after["steps"], before["steps"])
        self.assertGreater(after["step_seconds"], before["step_seconds"])
        self.assertGreater(after["rss_bytes"], 1 << 20)
        self.assertEqual(after["context"], 512)

    def test_metrics_count_what_happened(self):
        before = self.metrics()
        self.chat(max_tokens=8, ignore_eos=True)
        self.chat(400, temperature=-1)
        self.server.get("/nowhere")
        after = self.metrics()

        def more(name):
            return after[name] - before[name]

        self.assertEqual(more('ingot_answers_total{route="/v1/chat/completions",status="2xx"}'), 1)
        self.assertEqual(more('ingot_answers_total{route="/v1/chat/completions",status="4xx"}'), 1)
        self.assertEqual(more('ingot_answers_total{route="other",status="4xx"}'), 1)
        self.assertEqual(more('ingot_rejected_total{reason="bad_request"}'), 1)
        self.assertEqual(more('ingot_rejected_total{reason="no_route"}'), 1)
        self.assertEqual(more('ingot_finished_total{reason="length"}'), 1)
        self.assertEqual(more("ingot_generated_tokens_total"), 8)
        self.assertEqual(more("ingot_time_to_first_token_seconds_count"), 1)
        self.assertEqual(more("ingot_token_gap_seconds_count"), 7)
        self.assertEqual(more("ingot_request_seconds_count"), 1)
        self.assertEqual(more("ingot_queue_seconds_count"), 1)
        self.assertGreater(more("ingot_step_seconds_count"), 0)
        self.assertGreater(more("ingot_prompt_tokens_total"), 0)

    def test_promtool_finds_nothing_to_say(self):
        if shutil.which("promtool") is None:
            self.skipTest("promtool is not installed")
        text = self.server.get("/metrics").body
        result = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, timeout=120)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, b"", b""))

    def test_random_names_make_no_series(self):
        before = self.metrics()
        self.assertLessEqual(len(before), 500)
        rng = random.Random(56)
        connection = self.server.connect()
        self.addCleanup(connection.close)
        for _ in range(10000 if os.environ.get("INGOT_LONG") else 300):
            name = "".join(rng.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=12))
            kind = rng.randrange(3)
            if kind == 0:
                connection.request("GET", "/" + name)
            elif kind == 1:
                connection.request("GET", "/v1/models/" + name)
            else:
                body = json.dumps({"model": name, "user": name, "prompt": "a", "max_tokens": 1})
                connection.request("POST", "/v1/completions", body, {"content-type": "application/json"})
            began = time.monotonic()
            response = connection.getresponse()
            serving.check_refusal(response.status, response.read(), time.monotonic() - began)
            self.assertEqual(response.status, 404)
        after = self.metrics()
        self.assertEqual(set(after), set(before))

    def test_page_files_carry_the_policy(self):
        page = self.server.get("/")
        self.assertEqual(page.status, 200)
        self.assertEqual(page.headers["content-type"], "text/html; charset=utf-8")
        for name in ["/"] + ["/" + name for name in re.findall(r'(?:src|href)="([\w.-]+)"', page.body.decode())]:
            answer = self.server.get(name)
            self.assertEqual(answer.status, 200, name)
            policy = answer.headers["content-security-policy"]
            self.assertIn("default-src 'none'", policy)
            self.assertNotIn("unsafe", policy)
            self.assertEqual(answer.headers["x-content-type-options"], "nosniff")


if __name__ == "__main__":
    unittest.main()
