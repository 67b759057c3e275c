"""What a model writes, shown by the page: markdown becomes nodes, and nothing ever becomes markup or a script."""
import re
import unittest

from page_case import ROOT, PageCase

UI = ROOT / "src/serve/ui"

# text → what the nodes look like, written as markup without the attributes of links and the heads of code.
CASES = {
    "plain": "<p>plain</p>",
    "one\n\ntwo": "<p>one</p><p>two</p>",
    "one\ntwo": "<p>one<br>two</p>",
    "*a* **b** ***c*** _d_ ~~e~~": "<p><em>a</em> <strong>b</strong> <em><strong>c</strong></em> <em>d</em> <del>e</del></p>",
    "**a *b* c**": "<p><strong>a <em>b</em> c</strong></p>",
    "snake_case_name and 2 * 3 * 4": "<p>snake_case_name and 2 * 3 * 4</p>",
    "**open and *open": "<p>**open and *open</p>",
    r"\*not\* \[x\]": "<p>*not* <span>x</span></p>",
    "`a*b*` and ``c`d``": "<p><code>a*b*</code> and <code>c`d</code></p>",
    "`open": "<p>`open</p>",
    "# One\n### Three ###\n#no": "<h2>One</h2><h4>Three</h4><p>#no</p>",
    "- a\n- b\n  - c\n- d": "<ul><li>a</li><li>b<ul><li>c</li></ul></li><li>d</li></ul>",
    "3. a\n4. b": '<ol start="3"><li>a</li><li>b</li></ol>',
    "1. a\n\n   more\n\n2. b": "<ol><li><p>a</p><p>more</p></li><li><p>b</p></li></ol>",
    "- [x] done\n- [ ] open": "<ul><li><input>done</li><li><input>open</li></ul>",
    "text\n- item": "<p>text</p><ul><li>item</li></ul>",
    "> a\n> > b\n\nc": "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote><p>c</p>",
    "a\n\n---\n\nb": "<p>a</p><hr><p>b</p>",
    "```py\nx = 1 < 2\n```\nend": "<div><pre><code>x = 1 &lt; 2</code></pre></div><p>end</p>",
    "```\nopen\n\n# code": "<div><pre><code>open\n\n# code</code></pre></div>",
    "~~~\n```\n~~~": "<div><pre><code>```</code></pre></div>",
    "- a\n  ```\n  code\n  ```": "<ul><li>a<div><pre><code>code</code></pre></div></li></ul>",
    "| a | b |\n|---|--:|\n| 1 | 2\\|3 |": "<div><table><thead><tr><th>a</th><th>b</th></tr></thead>"
    "<tbody><tr><td>1</td><td>2|3</td></tr></tbody></table></div>",
    "a | b\nno table": "<p>a | b<br>no table</p>",
    "[text](https://example.com/a_(b))": "<p><a>text</a></p>",
    "see https://example.com/x. And <https://example.com>": "<p>see <a>https://example.com/x</a>. And <a>https://example.com</a></p>",
    "![alt](https://example.com/i.png)": "<p><a>alt</a></p>",
    "[a](javascript:alert(1)) [b](data:text/html,x) [c](/local)": "<p><span>a</span> <span>b</span> <span>c</span></p>",
    "<b>bold</b> &amp; <script>x</script>": "<p>&lt;b&gt;bold&lt;/b&gt; &amp;amp; &lt;script&gt;x&lt;/script&gt;</p>",
    r"\(x^2\)": "<p><span>x^2</span></p>",
    "a\tb\r\nc\0d": "<p>a    b<br>c\0d</p>",
    "😀 **é** 漢字": "<p>😀 <strong>é</strong> 漢字</p>",
    "": "",
    "\n\n": "",
}

HOSTILE = [
    "<script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    "<svg/onload=window.hacked=1>",
    "</code></pre><iframe srcdoc='<script>parent.hacked=1</script>'></iframe>",
    "```html\n</code><img src=x onerror=window.hacked=1>\n```",
    "```\"><img src=x onerror=window.hacked=1>\nx\n```",
    "[x](javascript:window.hacked=1)",
    "[x](JaVaScRiPt:window.hacked=1)",
    "[x]( javascript:window.hacked=1 )",
    "[x](&#106;avascript:window.hacked=1)",
    "[x](java\tscript:window.hacked=1)",
    "[x](vbscript:x) [y](data:text/html;base64,PHNjcmlwdD4=) [z](file:///etc/passwd)",
    "[x](https://example.com\" onmouseover=\"window.hacked=1)",
    "![x](javascript:window.hacked=1) ![y](https://example.com/track.gif)",
    "<javascript:window.hacked=1> <https://a\"onclick=window.hacked=1>",
    "| a |\n|---|\n| <img src=x onerror=window.hacked=1> |",
    "# <style>*{display:none}</style>",
    "- <a href='javascript:window.hacked=1'>x</a>",
    "<form action=/v1/chat/completions><input name=x></form>",
    "<base href='https://example.com/'><meta http-equiv=refresh content='0;url=https://example.com'>",
    "__proto__ constructor ```constructor\nx\n``` ",
    "```__proto__\nx\n```\n```toString\ny\n```",
]

# What makes careless parsers slow or deep. n is about the number of characters.
HEAVY = {
    "stars": lambda n: "*" * n,
    "open emphasis": lambda n: "*a " * (n // 3),
    "closing emphasis": lambda n: "a* " * (n // 3),
    "nested emphasis": lambda n: "*a **b " * (n // 14) + "c** d* " * (n // 14),
    "mixed marks": lambda n: "*_~~" * (n // 4),
    "brackets": lambda n: "[" * n,
    "bracket pairs": lambda n: "[a](" * (n // 4),
    "links": lambda n: "[a](b)" * (n // 6),
    "ticks": lambda n: "".join("`" * (i % 40) + "a" for i in range(n // 20)),
    "quotes": lambda n: ">" * n,
    "quoted lines": lambda n: "> > > > > > > > > > > > a\n" * (n // 26),
    "nested lists": lambda n: "".join(" " * (2 * (i % 60)) + "- a\n" for i in range(n // 64)),
    "spaces": lambda n: "# " + " " * n + "x",
    "table rules": lambda n: "a | b\n" + "|" + " " * n + "x",
    "fence with ticks": lambda n: "```" + " " * n + "`",
    "fences": lambda n: "```\n" * (n // 4),
    "blank lines": lambda n: "\n" * n,
    "one word": lambda n: "a" * n,
    "addresses": lambda n: "http://" * (n // 7),
    "angles": lambda n: "<" * n,
    "escapes": lambda n: "\\" * n,
    "formulas": lambda n: "\\(" * (n // 2),
    "strings in code": lambda n: "```py\n" + "\"'" * (n // 2),
    "comments in code": lambda n: "```c\n" + "/*" * (n // 2),
    "table": lambda n: "|a" * 50 + "\n" + "|-" * 50 + "\n" + ("|b" * 50 + "\n") * (n // 100),
}

RENDER = """
const [texts, done] = arguments;
import('/markdown.js').then(({renderMarkdown}) => {
  const bare = node => {
    if (node.nodeType === 3) return node.data.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');
    const name = node.tagName.toLowerCase();
    if (node.className === 'code-head') return '';
    const inside = [...node.childNodes].map(bare).join('');
    if (name === 'span' && node.className.startsWith('tok-')) return inside;
    if (name === 'br' || name === 'hr' || name === 'input') return `<${name}>`;
    const start = node.getAttribute('start');
    return `<${name}${start ? ` start="${start}"` : ''}>${inside}</${name}>`;
  };
  done(texts.map(text => {
    const box = document.createElement('div');
    for (const part of [].concat(text)) renderMarkdown(box, part);
    return [...box.childNodes].map(bare).join('');
  }));
}, error => done(String(error)));
"""


class Markdown(PageCase):
    def render(self, texts):
        drawn = self.browser.execute_async_script(RENDER, texts)
        self.assertIsInstance(drawn, list, drawn)
        return drawn

    def test_text_becomes_nodes(self):
        self.open_page()
        for text, drawn in zip(CASES, self.render(list(CASES)), strict=True):
            with self.subTest(text):
                self.assertEqual(drawn, CASES[text])

    def test_a_growing_text_ends_as_if_it_had_come_whole(self):
        self.open_page()
        texts = [*CASES, *HOSTILE, (ROOT / "tests/ui/demo.md").read_text()]
        whole = self.render(texts)
        grown = self.render([[text[:end] for end in range(len(text) + 1)] for text in texts])
        for text, one, other in zip(texts, whole, grown, strict=True):
            with self.subTest(text):
                self.assertEqual(one, other)

    def test_heavy_input_is_drawn(self):
        self.open_page()
        texts = {name: make(20000) for name, make in HEAVY.items()}
        for name, text in texts.items():
            with self.subTest(name):
                [drawn] = self.render([text])  # within the browser's time limit for a script
                depth = most = 0
                for tag in re.findall(r"</?[a-z]", drawn.replace("<br>", "").replace("<hr>", "").replace("<input>", "")):
                    depth += -1 if tag.startswith("</") else 1
                    most = max(most, depth)
                self.assertLess(most, 60)
        words, comments = self.render([texts["one word"], texts["comments in code"]])
        self.assertEqual(words.count("a"), 20000)
        self.assertEqual(comments.count("/*"), 10000)


class Safety(PageCase):
    def test_nothing_a_model_writes_becomes_markup(self):
        mock = self.open_page()
        for number, text in enumerate(HOSTILE, 1):
            self.js("document.getElementById('input').value = 'say: ' + arguments[0]", text)
            self.type("\n")
            self.until_idle(number)
        self.assertEqual(len(mock.requests), len(HOSTILE))
        self.assertIsNone(self.js("return window.hacked ?? null"))
        found = self.js("""const root = document.getElementById('messages');
            return [...root.querySelectorAll('script, iframe, img, object, embed, style, base, meta, form, link, svg a')].map(n => n.outerHTML)""")
        self.assertEqual(found, [])
        handlers = self.js("""return [...document.querySelectorAll('#messages *')].flatMap(n =>
            [...n.attributes].filter(a => a.name.startsWith('on') || a.name === 'style' || a.name === 'src').map(a => a.name))""")
        self.assertEqual(handlers, [])
        addresses = self.js("return [...document.querySelectorAll('#messages a')].map(a => a.href)")
        self.assertTrue(all(re.match(r"https?://|mailto:", address) for address in addresses), addresses)
        rels = self.js("return [...document.querySelectorAll('#messages a')].map(a => a.rel)")
        self.assertTrue(all("noopener" in rel and "noreferrer" in rel for rel in rels), rels)
        shown = " ".join(self.text("#messages .markdown"))
        self.assertIn("<script>window.hacked = 1</script>", shown)

    def test_the_browser_refuses_markup_from_strings(self):
        self.open_page()
        self.expected += ["TrustedHTML", "Trusted Type", "Content Security Policy", "Content-Security-Policy"]
        refused = self.js("""try { document.createElement('div').innerHTML = '<b>x</b>'; return 'allowed'; }
            catch (error) { return error.name; }""")
        self.assertEqual(refused, "TypeError")
        self.assertEqual(
            self.browser.execute_async_script("""const done = arguments[0];
            const script = document.createElement('img');
            script.onerror = () => done('blocked'); script.onload = () => done('loaded');
            script.src = 'data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA=';"""),
            "blocked",
        )

    def test_the_source_has_no_way_from_text_to_markup(self):
        forbidden = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|srcdoc\s*=|createContextualFragment|setHTML")
        for file in sorted(UI.glob("*.js")):
            for number, line in enumerate(file.read_text().splitlines(), 1):
                self.assertIsNone(forbidden.search(line), f"{file.name}:{number}")
        html = (UI / "index.html").read_text()
        self.assertIsNone(re.search(r"\son\w+=|\sstyle=|<style|javascript:", html))
        for attribute in re.findall(r'(?:src|href)="([^"]*)"', html):
            self.assertTrue(attribute.startswith("#") or (UI / attribute).is_file(), attribute)
        self.assertIsNone(re.search(r"https?://", "".join(f.read_text() for f in UI.glob("*.css"))))

    def test_files_are_within_their_budget(self):
        for file in sorted(UI.glob("*.js")):
            lines = file.read_text().splitlines()
            self.assertLessEqual(len(lines), 400, file.name)
            begin = None
            for number, line in enumerate(lines):
                # The house style: a function or method begins at column 0 or 2 and its brace closes there.
                if re.match(r"( {0,2})(export )?(async )?(function\*? |[#\w]+\(.*\) \{$|get |set )", line) and line.endswith("{"):
                    begin = number
                elif re.match(r" {0,2}\}$", line) and begin is not None:
                    self.assertLessEqual(number - begin + 1, 60, f"{file.name}:{begin + 1}")
                    begin = None


if __name__ == "__main__":
    unittest.main()
