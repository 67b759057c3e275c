"""API keys: who may call, reading the file again, limits of each key."""
import concurrent.futures
import os
import pathlib
import tempfile
import time
import unittest

import serving
import support

KEY = "key-of-alice-0001"


def bearer(key=KEY):
    return {"authorization": f"Bearer {key}"}


class Keys(serving.ToyCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="ingot-e2e-keys-")
        cls.addClassCleanup(folder.cleanup)
        cls.file = pathlib.Path(folder.name) / "keys"
        cls.write(f"alice {KEY}\nbob key-of-bob-000001 tpm=50\ncarol key-of-carol-0001 concurrency=1\n")
        cls.ARGS = ("--api-key-file", cls.file)
        super().setUpClass()

    @classmethod
    def write(cls, text):
        new = cls.file.with_suffix(".new")
        new.write_text(text)
        os.replace(new, cls.file)

    def complete_as(self, key, **fields):
        body = {"prompt": "a", "max_tokens": 4, "ignore_eos": True, **fields}
        return self.server.post("/v1/completions", body, headers=bearer(key))

    def until(self, status, ask):
        """Asks until the status comes; the file is looked at every two seconds."""
        deadline = time.monotonic() + 60
        while True:
            answer = ask()
            if answer.status == status:
                return answer
            self.assertLess(time.monotonic(), deadline, f"{answer.status} instead of {status}")
            time.sleep(0.05)

    def test_no_route_but_the_open_ones_without_a_key(self):
        document = self.server.get("/openapi.json", headers=bearer()).json()
        open_routes = {"/health", "/ready", "/"}
        paths = {**document["paths"], "/v1/engine": {"get": {}}, "/nothing": {"get": {}}, "/v1/models/x": {"get": {}}}
        self.assertIn("/v1/chat/completions", paths)
        for path, methods in paths.items():
            for method in methods:
                for headers in ({}, bearer("wrong-key-0000000"), bearer(KEY[:-1]), {"authorization": KEY}):
                    body = "{}" if method == "post" else None
                    answer = self.server.request(method.upper(), path.replace("{", "").replace("}", ""), body,
                                                 headers=headers)
                    expected = 200 if path in open_routes else 401
                    self.assertEqual(answer.status, expected, f"{method} {path} {headers}")
        refused = self.server.get("/v1/models")
        self.assertEqual(refused.headers["www-authenticate"], "Bearer")
        self.assertEqual(refused.json()["error"]["code"], "invalid_api_key")

    def test_both_headers_carry_a_key(self):
        self.assertEqual(self.server.get("/v1/models", headers=bearer()).status, 200)
        self.assertEqual(self.server.get("/v1/models", headers={"x-api-key": KEY}).status, 200)

    def test_anthropic_errors_have_their_own_shape(self):
        answer = self.server.post("/v1/messages", {})
        self.assertEqual(answer.status, 401)
        self.assertEqual(answer.json()["error"]["type"], "authentication_error")

    def test_a_key_has_its_tokens_of_a_minute(self):
        used = self.complete_as("key-of-bob-000001", max_tokens=200)
        self.assertEqual(used.status, 200)
        refused = self.complete_as("key-of-bob-000001")
        self.assertEqual(refused.status, 429)
        self.assertGreater(int(refused.headers["retry-after"]), 0)
        self.assertEqual(refused.json()["error"]["code"], "rate_limit_exceeded")
        self.assertEqual(self.complete_as(KEY).status, 200)
        # What generates nothing is not limited: the page of this user goes on.
        for path in ("/v1/engine", "/v1/models", "/v1/limits", "/metrics"):
            self.assertEqual(self.server.get(path, headers=bearer("key-of-bob-000001")).status, 200, path)

    def test_a_key_has_its_requests_at_once(self):
        def ask(_):
            return self.complete_as("key-of-carol-0001", max_tokens=400).status

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for _ in range(20):  # until two of them met
                statuses = list(pool.map(ask, range(4)))
                self.assertLessEqual(set(statuses), {200, 429})
                self.assertIn(200, statuses)
                if 429 in statuses:
                    break
            else:
                self.fail("never more than one at once")
        self.assertEqual(self.complete_as("key-of-carol-0001").status, 200)

    def test_the_file_is_read_again(self):
        with serving.Server(self.model, "--api-key-file", self.file) as server:
            def ask(key):
                return server.get("/v1/models", headers=bearer(key))

            old = self.file.read_text()
            self.addCleanup(self.write, old)
            self.write(old + "dave key-of-dave-00001\n")
            self.until(200, lambda: ask("key-of-dave-00001"))
            self.write("dave\n")  # wrong: the keys before it stay
            deadline = time.monotonic() + 60
            while "the old keys stay" not in server.errors():
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)
            self.assertEqual(ask("key-of-dave-00001").status, 200)
            self.write(old)
            self.until(401, lambda: ask("key-of-dave-00001"))
            self.assertEqual(ask(KEY).status, 200)

    def test_a_key_of_the_environment(self):
        with serving.Server(self.model, env={"INGOT_API_KEY": "from-the-environment"}) as server:
            self.assertEqual(server.get("/v1/models").status, 401)
            self.assertEqual(server.get("/v1/models", headers=bearer("from-the-environment")).status, 200)

    def test_no_key_or_prompt_in_the_log(self):
        with serving.Server(self.model, "--api-key-file", self.file) as server:
            body = {"messages": [{"role": "user", "content": "a-secret-prompt"}], "max_tokens": 2}
            self.assertEqual(server.post("/v1/chat/completions", body, headers=bearer()).status, 200)
            self.assertEqual(server.get("/v1/models", headers=bearer("a-wrong-secret-key")).status, 401)
            self.assertEqual(server.stop(), 0)
            log = server.errors()
        self.assertIn("/v1/chat/completions", log)
        self.assertIn("alice", log)
        self.assertIn("refused", log)
        for secret in (KEY, "a-secret-prompt", "a-wrong-secret-key"):
            self.assertNotIn(secret, log)


class Start(support.TestCase):
    def test_an_address_of_other_machines_needs_a_key(self):
        import models

        model = models.make_tiny(self.temp_dir() / "tiny")
        result = support.run("serve", model, "--host", "0.0.0.0", "--port", "0", env={"INGOT_API_KEY": None})
        self.assert_fails(result, 1, "0.0.0.0", "--api-key-file")

    def test_a_wrong_key_file_is_refused_by_line(self):
        import models

        folder = self.temp_dir()
        model = models.make_tiny(folder / "tiny")
        (folder / "keys").write_text("alice key-of-alice-1\nbob\n")
        result = support.run("serve", model, "--port", "0", "--api-key-file", folder / "keys")
        self.assert_fails(result, 1, "[keys]", "line 2")


if __name__ == "__main__":
    unittest.main()
