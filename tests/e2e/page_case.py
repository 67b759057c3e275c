"""What the tests of the web page share: a Chromium driven by selenium, and the mock server of tests/ui.

Chromium and its driver are Debian's packages; selenium is the environment's or that of build/venv. Where one of them is
missing the tests are skipped and say which. INGOT_CHROMIUM and INGOT_CHROMEDRIVER name other programs.
"""
import os
import pathlib
import shutil
import sys
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/ui"))

import mock_server  # noqa: E402
import packages  # noqa: E402

PATIENCE = 120  # seconds that anything may take on a machine that is busy with other things
SHOTS = os.environ.get("INGOT_PAGE_SHOTS")  # a folder: pictures of the page are kept there


def start_browser():
    """A headless Chromium, or SkipTest that says what is missing."""
    webdriver = packages.need("selenium.webdriver")
    browser = os.environ.get("INGOT_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    driver = os.environ.get("INGOT_CHROMEDRIVER") or shutil.which("chromedriver")
    if not browser or not driver:
        raise unittest.SkipTest("chromium or chromedriver is not installed (Debian: chromium, chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in ("--headless=new", "--disable-dev-shm-usage", "--disable-gpu", "--window-size=1280,860"):
        options.add_argument(argument)
    if os.getuid() == 0:
        options.add_argument("--no-sandbox")  # Chromium's own sandbox does not start as root
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for attempt in range(3):
        try:
            started = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
            started.set_page_load_timeout(PATIENCE)
            started.set_script_timeout(PATIENCE)
            return started
        except Exception as error:  # of selenium or the system: no fault of the page
            why = str(error).strip().splitlines()[0]
            time.sleep(attempt + 1)
    raise unittest.SkipTest(f"chromium does not start: {why}")


class PageCase(unittest.TestCase):
    """One browser for the class. Each test has a server of its own, so another origin and an empty store."""

    expected_errors = ()  # texts of console messages that a test provokes

    @classmethod
    def setUpClass(cls):
        cls.browser = start_browser()
        cls.addClassCleanup(cls.browser.quit)

    def setUp(self):
        self.expected = list(self.expected_errors)
        self.metrics(1280, 860)

    def tearDown(self):
        errors = [entry["message"] for entry in self.browser.get_log("browser") if entry["level"] == "SEVERE"]
        self.browser.get("about:blank")  # or the page asks for a server that is gone when the next test begins
        unexpected = [text for text in errors if not any(known in text for known in self.expected)]
        self.assertEqual(unexpected, [], "errors on the browser's console")

    def mock(self, **options):
        mock = mock_server.Mock(**options)
        self.addCleanup(mock.stop)
        return mock

    def visit(self, url):
        self.browser.get(url)
        self.until(lambda: self.js("return document.documentElement.dataset.ready === 'true'"), "the page is ready")

    def open_page(self, **options):
        mock = self.mock(**options)
        self.visit(mock.url)
        return mock

    def metrics(self, width, height, theme="light"):
        """The size of the window and the system's theme; a system that asks for no motion, so nothing is still moving."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        wishes = {"prefers-color-scheme": theme, "prefers-reduced-motion": "reduce"}
        media = {"features": [{"name": name, "value": value} for name, value in wishes.items()]}
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)

    def shot(self, name):
        if SHOTS:
            pathlib.Path(SHOTS).mkdir(parents=True, exist_ok=True)
            self.browser.save_screenshot(str(pathlib.Path(SHOTS) / f"{name}.png"))

    # Looking at the page

    def js(self, script, *args):
        return self.browser.execute_script(script, *args)

    def until(self, condition, what):
        deadline = time.monotonic() + PATIENCE
        while True:
            value = condition()
            if value:
                return value
            self.assertLess(time.monotonic(), deadline, f"waited {PATIENCE} s, and still not: {what}")
            time.sleep(0.05)

    def all(self, selector):
        return self.browser.find_elements("css selector", selector)

    def one(self, selector):
        return self.until(lambda: self.all(selector), f"there is {selector}")[0]

    def text(self, selector):
        """Texts of all that match, read at one moment."""
        return self.js("return [...document.querySelectorAll(arguments[0])].map(n => n.textContent)", selector)

    def until_text(self, selector, wanted):
        self.until(lambda: any(wanted in text for text in self.text(selector)), f"{selector} says {wanted!r}")

    def is_busy(self):
        return self.js("return document.querySelector('.send').classList.contains('stops')")

    def until_idle(self, answers):
        """Waits until this many answers are shown and none is being written."""
        count = "return document.querySelectorAll('.message.assistant[aria-busy=\"false\"]').length"
        self.until(lambda: self.js(count) == answers and not self.is_busy(), f"{answers} answers are complete")

    # Acting on it

    def click(self, selector):
        node = self.one(selector)
        self.js("arguments[0].scrollIntoView({block: 'center'})", node)
        self.tap(node)

    def tap(self, node):
        """Clicks once the node can be reached: a layout may still be on its way."""
        from selenium.common import exceptions

        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return node.click()
            except (exceptions.ElementNotInteractableException, exceptions.ElementClickInterceptedException):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def press(self, *keys):
        """Keys pressed together, wherever the focus is."""
        from selenium.webdriver import ActionChains

        chain = ActionChains(self.browser)
        for key in keys[:-1]:
            chain.key_down(key)
        chain.send_keys(keys[-1])
        for key in reversed(keys[:-1]):
            chain.key_up(key)
        chain.perform()

    def type(self, text):
        self.one("#input").send_keys(text)

    def send(self, text, answers):
        """Sends a message and waits until as many answers as said are there."""
        self.type(text + "\n")
        self.until_idle(answers)

    def named(self, name, within=""):
        """The button with this accessible name."""
        return self.one(f"{within} button[aria-label='{name}']")
