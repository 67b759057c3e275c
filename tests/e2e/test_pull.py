"""`ingot pull` against a server that behaves like the hub: what is fetched, and what is refused."""
import json
import socket
import time
import unittest

import hub
import support
from pull_case import NAME, WANTED, PullCase, repository, safetensors


class PlainTest(PullCase):
    def test_takes_what_a_model_needs_and_nothing_else(self):
        server = self.serve()
        result = self.pull(server)
        self.assert_pulled(result, server)
        self.assertEqual(self.files(), WANTED)
        self.assertEqual(result.stderr, "")
        self.assertEqual(result.stdout.strip(), str(self.home / "models" / NAME))

    def test_json(self):
        server = self.serve()
        result = json.loads(self.pull(server, "--json").stdout)
        self.assertEqual((result["name"], result["format"], result["revision"]), (NAME, "safetensors", hub.COMMIT))

    def test_second_pull_fetches_nothing(self):
        server = self.serve()
        self.assert_pulled(self.pull(server), server)
        server.requests.clear()
        result = self.pull(server)
        self.assertEqual(result.returncode, 0)
        self.assertIn("already", result.stderr)
        self.assertEqual(server.paths("store"), [])

    def test_new_content_replaces_the_old_and_keeps_what_is_the_same(self):
        server = self.serve()
        self.assert_pulled(self.pull(server), server)
        (self.home / "models" / NAME / "ingot.source").write_text('{"revision": "older"}')
        server.repos[NAME]["config.json"] = b'{"model_type": "qwen2"}'
        server.requests.clear()
        self.assert_pulled(self.pull(server), server)
        self.assertEqual(server.paths("store"), [], "the weights had the right hash and were to be kept")

    def test_sharded_weights_without_their_double(self):
        files = {
            "config.json": b"{}",
            "model.safetensors.index.json": b"{}",
            "model-00001-of-00002.safetensors": safetensors(5000, 1),
            "model-00002-of-00002.safetensors": safetensors(5000, 2),
            "consolidated.safetensors": safetensors(9000, 3),
        }
        server = self.serve({NAME: files}, page_size=2)
        self.assert_pulled(self.pull(server), server)
        self.assertEqual(self.files() - {"ingot.source", "ingot.manifest"}, set(files) - {"consolidated.safetensors"})

    def test_revision(self):
        server = self.serve()
        self.assert_pulled(self.pull(server, "--revision", "refs/pr/1"), server)
        result = self.pull(server, "--revision", "nope")
        self.assert_fails(result, 1, NAME, "nope", "no such revision")

    def test_a_server_without_the_tree_listing(self):
        server = self.serve(has_tree=False)
        self.assert_pulled(self.pull(server), server)

    def test_empty_file(self):
        server = self.serve({NAME: {**repository(), "merges.txt": b""}})
        self.assert_pulled(self.pull(server), server)
        self.assertIn("merges.txt", self.files())


class GgufTest(PullCase):
    FILES = {
        "tiny-Q4_0.gguf": b"a" * 4000,
        "tiny-Q8_0.gguf": b"b" * 4000,
        "tiny-BF16-00001-of-00002.gguf": b"c" * 4000,
        "tiny-BF16-00002-of-00002.gguf": b"d" * 4000,
        "mmproj-tiny.gguf": b"e" * 4000,
    }

    def test_choice_by_part_of_the_name_and_by_pattern(self):
        server = self.serve({NAME: self.FILES})
        for pattern in ("q4_0", "*Q4*.gguf"):
            result = self.pull(server, "--file", pattern)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(result.stdout.strip(), str(self.home / "models" / NAME / "tiny-Q4_0.gguf"))
            self.assertEqual(support.run("rm", NAME, env=self.env()).returncode, 0)

    def test_all_parts_of_a_split_file(self):
        server = self.serve({NAME: self.FILES})
        result = self.pull(server, "--file", "BF16")
        self.assertTrue(result.stdout.strip().endswith("tiny-BF16-00001-of-00002.gguf"), result.stderr)
        self.assertEqual(len([name for name in self.files() if name.endswith(".gguf")]), 2)

    def test_several_or_none_are_an_error_that_lists_them(self):
        server = self.serve({NAME: self.FILES})
        self.assert_fails(self.pull(server), 1, "3 GGUF files", "--file", "tiny-Q8_0.gguf")
        self.assert_fails(self.pull(server, "--file", "Q2_K"), 1, "Q2_K", "tiny-Q8_0.gguf")
        self.assertEqual(self.files(), set())

    def test_repository_without_weights(self):
        server = self.serve({NAME: {"README.md": b"x", "pytorch_model.bin": b"y"}})
        self.assert_fails(self.pull(server), 1, NAME, "no *.safetensors")


class TokenTest(PullCase):
    def test_token_opens_and_stays_at_its_origin(self):
        server = self.serve(token="secret")
        self.assert_pulled(self.pull(server, HF_TOKEN="secret"), server)
        self.assertTrue(server.paths("store"))
        for origin, path, headers in server.requests:
            if origin == "store":
                self.assertNotIn("Authorization", headers, path)
                self.assertNotIn("secret", str(headers))

    def test_401_names_the_token(self):
        server = self.serve(token="secret")
        self.assert_fails(self.pull(server), 1, NAME, "set HF_TOKEN", "401")
        self.assert_fails(self.pull(server, HF_TOKEN="wrong"), 1, NAME, "HF_TOKEN is not accepted")

    def test_token_that_would_break_the_header(self):
        server = self.serve()
        self.assert_fails(self.pull(server, HF_TOKEN="a\r\nX-Evil: 1"), 1, "HF_TOKEN")
        self.assertEqual(server.requests, [])

    def test_token_is_not_sent_to_a_listing_elsewhere(self):
        server = self.serve(token="secret")

        def to_store(handler):
            location = server.store_origin + "/steal"
            handler.answer(307, Location=location)

        server.faults.append(hub.times(1, to_store, "/api/"))
        server.faults.append(hub.times(1, lambda handler: handler.answer(403), "/steal"))
        self.assert_fails(self.pull(server, HF_TOKEN="secret"), 1, "403")
        stolen = [headers for _, path, headers in server.requests if path == "/steal"]
        self.assertEqual(len(stolen), 1)
        self.assertNotIn("Authorization", stolen[0])


class FaultTest(PullCase):
    def test_404(self):
        self.assert_fails(self.pull(self.serve(), name="org/missing"), 1, "org/missing", "not found", "404")

    def test_429_waits_as_long_as_it_is_told(self):
        server = self.serve()
        server.faults.append(hub.times(1, lambda h: h.answer(429, Retry_After="2")))
        started = time.monotonic()
        self.assert_pulled(self.pull(server), server)
        self.assertGreaterEqual(time.monotonic() - started, 2)

    def test_wait_that_is_too_long_is_left_to_the_user(self):
        server = self.serve()
        server.faults.append(hub.times(1, lambda h: h.answer(429, Retry_After="4000")))
        self.assert_fails(self.pull(server), 1, "429", "4000 s")

    def test_5xx_is_tried_again_and_in_the_end_given_up(self):
        server = self.serve()
        server.faults.append(hub.times(2, lambda h: h.answer(503)))
        self.assert_pulled(self.pull(server), server)
        server.faults.append(hub.times(1000, lambda h: h.answer(500)))
        self.assert_fails(self.pull(server, "--retries", "1"), 1, "500", "2 tries")

    def test_broken_transfer_is_resumed_in_the_same_pull(self):
        server = self.serve()
        server.faults.append(hub.times(1, lambda h: h.break_off(h.content(), 0, 100_000), "signature"))
        server.faults.append(hub.times(1, lambda h: h.break_off(h.content(), 100_000, 50_000), "signature"))
        self.assert_pulled(self.pull(server), server)
        ranges = [headers.get("Range") for origin, _, headers in server.requests if origin == "store"]
        self.assertEqual(len(ranges), 3)
        self.assertEqual(ranges[0], None)
        self.assertEqual(ranges[1:], ["bytes=100000-", "bytes=150000-"])

    def test_broken_transfer_is_resumed_by_the_next_pull(self):
        server = self.serve()
        server.faults.append(hub.times(1, lambda h: h.break_off(h.content(), 0, 100_000), "signature"))
        self.assert_fails(self.pull(server, "--retries", "0"), 1, "model.safetensors", "gave up")
        self.assertEqual(self.files(), set(), "a model must not appear before it is complete")
        server.requests.clear()
        self.assert_pulled(self.pull(server), server)
        ranges = [headers.get("Range") for origin, _, headers in server.requests if origin == "store"]
        self.assertEqual(ranges, ["bytes=100000-"])

    def test_server_that_ignores_ranges_sends_the_whole_file_again(self):
        server = self.serve()
        server.faults.append(hub.times(1, lambda h: h.break_off(h.content(), 0, 100_000), "signature"))
        server.faults.append(hub.times(1, lambda h: h.answer(200, h.content()), "signature"))
        self.assert_pulled(self.pull(server), server)

    def test_wrong_range_is_refused(self):
        server = self.serve()
        server.faults.append(hub.times(1, lambda h: h.break_off(h.content(), 0, 100_000), "signature"))
        wrong = hub.times(1, lambda h: h.answer(206, h.content()[7:], Content_Range="bytes 7-9/10"), "signature")
        server.faults.append(wrong)
        self.assert_fails(self.pull(server), 1, "model.safetensors", "bytes 7-9/10")

    def test_damaged_part_of_an_earlier_pull_is_fetched_anew(self):
        server = self.serve()
        server.faults.append(hub.times(1, lambda h: h.break_off(h.content(), 0, 100_000), "signature"))
        self.pull(server, "--retries", "0")
        part = next(path for path in self.leftovers() if path.suffix == ".part")
        with part.open("r+b") as file:
            file.write(b"damage")
        self.assert_pulled(self.pull(server), server)

    def test_wrong_hash_is_refused_and_removed(self):
        for has_tree in (True, False):
            with self.subTest(has_tree=has_tree):
                server = self.serve(has_tree=has_tree)
                server.lies["model.safetensors"] = "0" * 64
                self.assert_fails(self.pull(server), 1, "model.safetensors", "wrong SHA-256", "0" * 64)
                self.assertEqual(self.files(), set())
                self.assertFalse([path for path in self.leftovers() if "model.safetensors" in path.name])

    def test_too_many_bytes_are_refused(self):
        server = self.serve()
        server.faults.append(hub.times(1, lambda h: h.answer(200, h.content() + b"more"), "signature"))
        self.assert_fails(self.pull(server), 1, "model.safetensors", "more than")

    def test_endless_redirects(self):
        server = self.serve()
        server.faults.append(hub.times(100, lambda h: h.answer(302, Location=h.path)))
        self.assert_fails(self.pull(server), 1, "redirects")

    def test_redirect_to_a_file_is_refused(self):
        server = self.serve()
        server.faults.append(hub.times(1, lambda h: h.answer(302, Location="file:///etc/passwd")))
        self.assert_fails(self.pull(server), 1, "file:///etc/passwd")

    def test_a_listing_goes_on_only_where_it_began(self):
        """The next page may be neither a file, nor another machine, nor another port."""
        secret = self.temp_dir() / "secret.json"
        secret.write_text("[]")
        for token in (None, "hf_secret"):
            server = self.serve(token=token)
            for following in (f"file://{secret}", f"{server.store_origin}/api", "http://127.0.0.1:9/api", "ftp://127.0.0.1/x",
                              "/etc/passwd", "https://example.org/api"):
                with self.subTest(following=following, token=token):
                    link = f'<{following}>; rel="next"'
                    server.faults.append(hub.times(1, lambda h, link=link: h.answer(200, b"[]", Link=link), "/tree/"))
                    more = {"HF_TOKEN": token} if token else {}
                    self.assert_fails(self.pull(server, **more), 1, following)
                    server.faults.clear()
            self.assertEqual(server.paths("store"), [])

    def test_a_pinned_commit_that_is_there_needs_no_hub(self):
        server = self.serve()
        self.assert_pulled(self.pull(server, "--revision", hub.COMMIT), server)
        server.requests.clear()
        before = {path: path.stat().st_mtime_ns for path in self.home.rglob("*")}
        result = self.pull(server, "--revision", hub.COMMIT)
        self.assert_pulled(result, server)
        self.assertEqual(server.requests, [])
        self.assertEqual({path: path.stat().st_mtime_ns for path in self.home.rglob("*")}, before)
        # A branch may have moved: the hub is asked.
        self.assert_pulled(self.pull(server), server)
        self.assertNotEqual(server.requests, [])

    def test_another_commit_than_the_pinned_one_is_refused(self):
        server = self.serve()
        body = json.dumps({"sha": "f" * 40, "siblings": [{"rfilename": name} for name in repository()]}).encode()
        server.faults.append(hub.times(1, lambda h: h.answer(200, body), "/revision/"))
        self.assert_fails(self.pull(server, "--revision", hub.COMMIT), 1, "f" * 40, hub.COMMIT)
        self.assertEqual(self.files(), set())

    def test_answers_that_are_no_listing(self):
        for body in (b"<html>", b"[]", b"{}", b'{"siblings": 1}', b'{"sha": 5, "siblings": []}', b"[" * 10000):
            with self.subTest(body=body[:20]):
                server = self.serve()
                server.faults.append(hub.times(1, lambda h, body=body: h.answer(200, body)))
                self.assert_fails(self.pull(server), 1)

    def test_unsafe_file_names_are_refused(self):
        for name in ("../../evil.safetensors", "/etc/evil.safetensors", "a/../../b.safetensors", "a\\b.safetensors",
                     "a\nb.safetensors"):
            with self.subTest(name=name):
                server = self.serve({NAME: {**repository(), name: b"x" * 2000}})
                self.assert_fails(self.pull(server), 1, "unsafe")
                self.assertEqual(server.paths("store"), [])

    def test_no_server(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            endpoint = f"http://127.0.0.1:{free.getsockname()[1]}"
        started = time.monotonic()
        self.assert_fails(self.pull(None, HF_ENDPOINT=endpoint), 1, endpoint)
        self.assertLess(time.monotonic() - started, 5)

    def test_endpoint_that_is_no_address(self):
        for endpoint in ("ftp://example.org", "nonsense", "file:///tmp"):
            with self.subTest(endpoint=endpoint):
                self.assert_fails(self.pull(None, HF_ENDPOINT=endpoint), 1, endpoint)


if __name__ == "__main__":
    unittest.main()
