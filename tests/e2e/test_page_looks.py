"""How the web page looks and moves: themes, narrow screens, contrast, and the live view of the engine.

With INGOT_PAGE_SHOTS=FOLDER pictures of every state are kept there, to be looked at.
"""
import unittest

from page_case import PageCase

CONTROL = "\ue009"

CONTRAST = """
const style = getComputedStyle(document.documentElement);
const light = name => {
  const hex = style.getPropertyValue('--' + name).trim();
  const [r, g, b] = [1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16) / 255)
    .map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
return arguments[0].map(([one, other]) => {
  const [a, b] = [light(one), light(other)].sort((x, y) => y - x);
  return [one, other, (a + 0.05) / (b + 0.05)];
});
"""

PAIRS = [
    (text, ground)
    for text, grounds in {
        "text": ("bg", "bg-side", "bg-raised", "bubble", "bg-code", "accent-soft"),
        "text-2": ("bg", "bg-side", "bg-raised", "bg-soft"),
        "text-3": ("bg", "bg-side", "bg-raised", "bg-soft", "bg-code"),
        "accent": ("bg", "bg-side"),
        "accent-strong": ("accent-soft",),
        "on-accent": ("accent",),
        "danger": ("danger-soft", "bg-raised"),
        "tok-comment": ("bg-code",),
        "tok-string": ("bg-code",),
        "tok-number": ("bg-code",),
        "tok-keyword": ("bg-code",),
        "tok-call": ("bg-code",),
    }.items()
    for ground in grounds
]

OVERFLOW = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"

# How many pixels of each canvas have a colour: lines and areas, not the grey grid.
INK = """return [...document.querySelectorAll('.chart canvas')].map(canvas => {
  const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  let ink = 0;
  for (let i = 3; i < data.length; i += 4) ink += data[i] > 0 && Math.max(data[i-1], data[i-2], data[i-3]) - Math.min(data[i-1], data[i-2], data[i-3]) > 60;
  return ink;
})"""


class Looks(PageCase):
    def tour(self, name):
        """Every state of the page, one after another; pictures on the way."""
        self.shot(f"{name}-welcome")
        self.send("Show me what an answer may hold", answers=1)
        self.send("think: It is **settled**.", answers=2)
        self.shot(f"{name}-end")
        self.js("document.getElementById('scroll').scrollTop = 0")
        self.shot(f"{name}-answer")
        self.assertEqual(self.js(OVERFLOW), 0)
        for tab in ("settings", "engine"):
            self.click(f"#open-{tab}") if self.one(f"#open-{tab}").is_displayed() else self.click(f"#tab-{tab}")
            self.until(lambda tab=tab: self.one(f"#pane-{tab}").is_displayed(), f"{tab} is shown")
            if tab == "engine":
                self.until(lambda: all(ink > 30 for ink in self.js(INK)[:2]), "charts are drawn")
            self.shot(f"{name}-{tab}")
            self.assertEqual(self.js(OVERFLOW), 0)
            self.click("#panel-close")
        self.press(CONTROL, "/")
        self.shot(f"{name}-keys")
        self.press("\ue00c")
        self.until(lambda: not self.all("dialog"), "the dialog is closed")

    def test_light(self):
        self.open_page(busy=True)
        self.tour("light")

    def test_dark(self):
        self.metrics(1280, 860, "dark")
        self.open_page(busy=True)
        self.assertEqual(self.js("return document.documentElement.dataset.theme"), "dark")
        self.tour("dark")

    def test_narrow(self):
        self.metrics(390, 780)
        self.open_page(busy=True)
        self.assertTrue(self.js("return document.getElementById('sidebar').inert"))
        self.tour("narrow")
        self.click("#side-open")
        self.until(lambda: not self.js("return document.getElementById('sidebar').inert"), "the list is open")
        self.shot("narrow-list")
        self.click("#conversations .row-open")
        self.until(lambda: self.js("return document.getElementById('sidebar').inert"), "the list has gone")
        box = self.js("const b = document.getElementById('composer').getBoundingClientRect(); return [b.left, b.right, b.bottom]")
        self.assertTrue(0 <= box[0] < box[1] <= 390 and box[2] <= 780, box)

    def test_narrow_and_dark(self):
        self.metrics(360, 640, "dark")
        self.open_page(busy=True)
        self.tour("narrow-dark")

    def test_contrast_of_both_themes(self):
        for theme in ("light", "dark"):
            self.metrics(1280, 860, theme)
            self.open_page()
            for text, ground, ratio in self.js(CONTRAST, PAIRS):
                with self.subTest(f"{theme}: {text} on {ground}"):
                    self.assertGreaterEqual(ratio, 4.5)

    def test_the_theme_is_chosen_kept_and_given_back(self):
        mock = self.open_page()
        theme = "return document.documentElement.dataset.theme"
        self.assertEqual(self.js(theme), "light")
        self.tap(self.named("Dark theme"))
        self.assertEqual(self.js(theme), "dark")
        self.visit(mock.url)
        self.assertEqual(self.js(theme), "dark")
        self.assertEqual(self.named("Dark theme").get_attribute("aria-checked"), "true")
        self.tap(self.named("System theme"))
        self.assertEqual(self.js(theme), "light")
        self.metrics(1280, 860, "dark")
        self.until(lambda: self.js(theme) == "dark", "the system's theme is followed")

    def test_reading_up_is_not_disturbed_by_a_growing_answer(self):
        self.open_page(pace=0.004)
        self.type("long\n")
        grown = "const s = document.getElementById('scroll'); return s.scrollHeight > s.clientHeight + 500"
        self.until(lambda: self.js(grown), "the answer fills the page")
        end = "const s = document.getElementById('scroll'); return s.scrollHeight - s.scrollTop - s.clientHeight"
        self.until(lambda: self.js(end) < 60, "the page follows the answer")
        self.js("document.getElementById('scroll').scrollTop = 10")
        self.until(lambda: self.one("#to-end").is_displayed(), "the way down is offered")
        self.until_idle(1)
        self.assertLess(self.js("return document.getElementById('scroll').scrollTop"), 60)
        self.click("#to-end")
        self.until(lambda: self.js(end) < 60, "the end is shown")


class EngineView(PageCase):
    def facts(self):
        """What the view lists, by name; empty before it does."""
        return dict(zip(self.text(".facts dt"), self.text(".facts dd"), strict=True))

    def test_charts_show_what_the_engine_says(self):
        mock = self.open_page(busy=True)
        self.press(CONTROL, "e")
        self.until(lambda: all(ink > 30 for ink in self.js(INK)), "every chart is drawn")
        said = self.js("return [...document.querySelectorAll('.chart canvas')].map(c => c.getAttribute('aria-label'))")
        for title, text in zip(("Tokens per second", "Requests", "Gap between tokens", "KV pages", "Prefix hit rate"), said, strict=True):
            self.assertTrue(text.startswith(title), text)
        facts = self.facts()
        self.assertEqual(facts["Model"], "mock-135m-instruct")
        self.assertEqual(facts["Context"], "8,192 tokens")
        self.assertEqual(facts["Memory"], "252 MB")
        before = self.js("return document.querySelector('.chart canvas').toDataURL()")
        self.until(lambda: self.js("return document.querySelector('.chart canvas').toDataURL()") != before, "the chart moves")
        asked = mock.asked
        self.until(lambda: mock.asked > asked + 3, "it goes on asking")

    def test_ranks_stand_side_by_side(self):
        mock = self.open_page(busy=True)
        self.press(CONTROL, "e")
        cells = "return [...document.querySelectorAll('.ranks tr')].map(row => [...row.children].map(c => c.textContent))"
        self.until(lambda: self.js(cells) and "–" not in self.js(cells)[1], "the ranks are shown")
        self.assertEqual(self.js(cells), [["", "Rank 0", "Rank 1"], ["A step", "20.0 ms", "20.0 ms"],
                                          ["Waits", "5 %", "25 %"], ["In collectives", "10 %", "30 %"],
                                          ["Sent a step", "13 kB", "13 kB"], ["State", "alive", "alive"],
                                          ["Host", "head", "node"]])
        below = "return ['.ranks', '.facts'].map((name, i) => document.querySelector(name).getBoundingClientRect()[i ? 'top' : 'bottom'])"
        self.assertLessEqual(*self.js(below))  # nothing lies over them
        self.assertEqual(self.js("const n = document.querySelector('.ranks-scroll'); return n.scrollWidth - n.clientWidth"), 0)
        whole = mock.engine.facts
        mock.engine.facts = lambda: {**whole(), "ranks": []}
        self.until(lambda: not self.one(".ranks").is_displayed(), "one rank is not shown")

    def test_an_engine_that_says_little_does_not_break_the_page(self):
        mock = self.mock()
        whole = mock.engine.facts
        mock.engine.facts = lambda: {"model": "bare", "uptime_seconds": whole()["uptime_seconds"], "gap_ms": None}
        self.visit(mock.url)
        self.until_text("#model-name", "bare")
        self.press(CONTROL, "e")
        asked = mock.asked
        self.until(lambda: mock.asked > asked + 3, "it goes on asking")
        self.assertEqual(self.text(".chart-value"), ["–"] * 5)
        self.send("say: still here", answers=1)

    def test_a_restarted_engine_is_followed(self):
        mock = self.open_page(busy=True)
        self.press(CONTROL, "e")
        self.until(lambda: self.facts().get("Up for", "–") != "–", "counters are shown")
        mock.engine.__init__(busy=True)
        self.until(lambda: self.facts()["Up for"] in [f"{s} s" for s in range(60)], "the new uptime is shown")
        rates = self.js("return [...document.querySelectorAll('.chart-value')].map(n => n.textContent)")
        self.assertFalse(any("-" in rate for rate in rates), rates)


if __name__ == "__main__":
    unittest.main()
