"""The web page as `ingot serve` serves it: its files and headers, and a chat with a real, tiny model in a browser."""
import pathlib
import tempfile
import unittest

import models
import serving
import support
from page_case import ROOT, PageCase

UI = ROOT / "src/serve/ui"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def start_server(case, *args):
    """A server on the tiny model for all tests of a class."""
    if not support.BINARY.exists():
        raise unittest.SkipTest(f"{support.BINARY.name} is not built (INGOT_BIN)")
    folder = tempfile.TemporaryDirectory(prefix="ingot-e2e-")
    case.addClassCleanup(folder.cleanup)
    server = serving.Server(models.make_tiny(pathlib.Path(folder.name) / "tiny"), *args)
    case.addClassCleanup(server.close)
    return server


class Files(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="ingot-e2e-")
        cls.addClassCleanup(folder.cleanup)
        keys = pathlib.Path(folder.name) / "keys"
        keys.write_text("tester page-test-key\n")
        keys.chmod(0o644)
        cls.server = start_server(cls, "--api-key-file", str(keys))

    def test_every_file_is_served_without_a_key_and_as_it_is(self):
        for file in [*UI.iterdir(), None]:
            answer = self.server.get(f"/{file.name}" if file else "/")
            file = file or UI / "index.html"
            with self.subTest(file.name):
                self.assertEqual(answer.status, 200)
                self.assertEqual(answer.body, file.read_bytes())
                self.assertEqual(answer.headers["content-type"].split(";")[0], TYPES[file.suffix])
                self.assertEqual(answer.headers["x-content-type-options"], "nosniff")
                policy = answer.headers["content-security-policy"]
                for part in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"):
                    self.assertIn(part, policy)
                self.assertNotIn("unsafe", policy)

    def test_nothing_else_is_a_file(self):
        for path in ("/../etc/passwd", "/%2e%2e/etc/passwd", "/index.html/", "/ui/app.js", "//app.js", "/app.js%00", "/.git"):
            with self.subTest(path):
                self.assertIn(self.server.get(path).status, (400, 401, 404))

    def test_the_engine_is_described_as_the_page_expects(self):
        self.assertEqual(self.server.get("/v1/engine").status, 401)
        answer = self.server.get("/v1/engine", headers={"authorization": "Bearer page-test-key"})
        self.assertEqual(answer.status, 200)
        facts = answer.json()
        wanted = {
            "model": str, "context": int, "running": int, "waiting": int, "tokens": int, "prompt_tokens": int,
            "reused_tokens": int, "steps": int, "step_seconds": (int, float), "gap_ms": (int, float, type(None)),
            "pages": int, "free_pages": int, "cached_pages": int, "kv_bytes": int, "rss_bytes": int,
            "uptime_seconds": (int, float), "expert_layers": int, "experts_touched": int, "expert_busiest_rows": int,
        }  # fmt: skip
        for name, kind in wanted.items():
            with self.subTest(name):
                self.assertIsInstance(facts[name], kind)
        self.assertLessEqual(facts["free_pages"] + facts["cached_pages"], facts["pages"])


class Page(PageCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = start_server(cls)

    def test_a_chat_with_the_server(self):
        self.visit(self.server.url)
        self.until(lambda: self.js("return document.getElementById('dot').dataset.state") == "up", "the server is seen")
        self.press("\ue009", ".")
        box = self.one("#set-max_tokens")
        box.send_keys("\ue009a")
        box.send_keys("24\t")
        self.one("#set-seed").send_keys("7")
        self.send("once upon a time", answers=1)
        self.assertEqual(self.text(".failed:not([hidden])"), [])
        self.assertRegex(self.text(".message.assistant .stats")[0], r"^\d+ tokens? · ")
        self.assertEqual(self.json("/v1/engine")["running"], 0)
        self.press("\ue009", "e")
        self.until(lambda: self.text(".facts dd")[2] not in ("–", "0 tokens"), "the engine's view counts tokens")

    def test_an_answer_that_is_stopped_ends_on_the_server(self):
        self.visit(self.server.url)
        self.type("tell me everything\n")
        self.until(lambda: self.json("/v1/engine")["tokens"] > 0, "the model writes")
        self.press("\ue00c")
        self.until_idle(1)
        self.until(lambda: self.json("/v1/engine")["running"] == 0, "nothing runs any more")
        self.assertEqual(self.text(".failed:not([hidden])"), [])

    def json(self, path):
        return self.server.get(path).json()


if __name__ == "__main__":
    unittest.main()
