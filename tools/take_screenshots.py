"""Takes the README's pictures of the web page: docs/images/{page,engine}.png.

`ingot serve` runs the default model (`ingot pull default` fetches it); Chromium and selenium are those of the page's tests.

    python3 tools/take_screenshots.py
"""
import concurrent.futures
import pathlib
import sys
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/e2e"))

import page_case  # noqa: E402
import serving  # noqa: E402

IMAGES = ROOT / "docs/images"
QUESTION = "Explain photosynthesis in three short steps, as a list."
USERS, SECONDS = 6, 45  # of load beside the engine's view


class Pictures(page_case.PageCase):
    def setUp(self):
        super().setUp()
        self.server = serving.Server("default", "--parallel", "16")
        self.addCleanup(self.server.close)
        self.metrics(1180, 740)

    def save(self, name):
        self.browser.save_screenshot(str(IMAGES / f"{name}.png"))

    def ask(self, user):
        """Answers of one user until the time is over."""
        prompt = "You are a helpful assistant. Answer in a few sentences. " * 8
        end, turn = time.monotonic() + SECONDS, 0
        while time.monotonic() < end:
            messages = [{"role": "system", "content": prompt}, {"role": "user", "content": f"Question {turn} of user {user}: why?"}]
            self.server.post("/v1/chat/completions", {"messages": messages, "max_tokens": 40 + 17 * user})
            turn += 1

    def test_pictures(self):
        self.visit(self.server.url)
        self.send(QUESTION, answers=1)
        self.js("document.getElementById('scroll').scrollTop = 0")
        self.save("page")
        self.click("#open-engine")
        with concurrent.futures.ThreadPoolExecutor(USERS) as pool:
            users = [pool.submit(self.ask, user) for user in range(USERS)]
            time.sleep(SECONDS - 6)
            self.save("engine")
            for user in users:
                user.result()


if __name__ == "__main__":
    unittest.main()
