"""README and docs/: links and anchors lead somewhere, every page says for whom it is, pictures are what their scripts draw."""
import fnmatch
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check_includes  # noqa: E402
import draw_architecture  # noqa: E402
import write_models_page  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"")
# A file of the sources that a page names: `ops/batch.h`, `core.cpp`, `test_serve_*.py`.
NAMED = re.compile(r"`([\w*/.-]+\.(?:h|cpp|cu|cuh|inc|py|js|cmake))`")
# A commit that a page names: hexadecimal, digits and letters, not part of a longer word or a path.
COMMIT = re.compile(r"(?<![\w#/.-])(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,12}(?![\w/.-])")
OTHERS_COMMITS = {"b21e4de"}  # of llama.cpp
MOST_PERFORMANCE_LINES = 150
MOST_PICTURE_BYTES = 150_000


def prose(text):
    """Without blocks of code, where brackets are no links."""
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def links(text):
    return [first or second for first, second in LINK.findall(prose(text))]


def anchors(text):
    """What a heading can be linked by: lower case, without punctuation, hyphens for spaces."""
    found = re.findall(r"^#+ (.*)$", prose(text), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in found)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


def broken_links(page, root):
    """Links of one page that lead nowhere: no file, no heading, or outside the project."""
    broken = []
    for link in links(page.read_text()):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.is_relative_to(root) or not target.exists():
            broken.append(link)
        elif anchor and (target.suffix != ".md" or anchor not in anchors(target.read_text())):
            broken.append(link)
    return broken


def missing_files(page, root):
    """Files that the page names in its prose and that are nowhere: a name may leave out the folders in front."""
    there = [f"/{path.relative_to(root)}" for top in ("src", "tests", "tools", "cmake") for path in (root / top).rglob("*")]
    named = set(NAMED.findall(prose(page.read_text())))
    return sorted(name for name in named if not any(fnmatch.fnmatch(path, f"*/{name}") for path in there))


def is_commit(name):
    done = subprocess.run(["git", "-C", ROOT, "cat-file", "-e", f"{name}^{{commit}}"], capture_output=True)
    return done.returncode == 0


class DocsTest(unittest.TestCase):
    def test_links(self):
        for page in PAGES:
            with self.subTest(page.relative_to(ROOT)):
                self.assertEqual(broken_links(page, ROOT), [])

    def test_files_that_are_named_exist(self):
        for page in PAGES:
            if page.name.startswith("adding-"):  # they name the files that a reader is to write
                continue
            with self.subTest(page.relative_to(ROOT)):
                self.assertEqual(missing_files(page, ROOT), [])

    def test_commits_that_are_named_exist(self):
        """What was measured at a commit can be measured there again."""
        if not is_commit("HEAD~1") or (ROOT / ".git/shallow").exists():
            self.skipTest("there is no history")
        for page in PAGES:
            with self.subTest(page.relative_to(ROOT)):
                named = set(COMMIT.findall(prose(page.read_text()))) - OTHERS_COMMITS
                self.assertEqual([name for name in sorted(named) if not is_commit(name)], [])

    def test_every_page_says_for_whom_it_is(self):
        for page in PAGES[1:]:
            with self.subTest(page.relative_to(ROOT)):
                heading, _, rest = page.read_text().partition("\n\n")
                self.assertRegex(heading, r"^# [^\n]+$")
                self.assertRegex(rest, r"^For [^\n]", "the first sentence says for whom the page is")

    def test_every_page_can_be_reached_from_the_readme(self):
        seen, waiting = set(), [PAGES[0]]
        while waiting:
            page = waiting.pop()
            if page in seen or page.suffix != ".md" or not page.exists():
                continue
            seen.add(page)
            here = [link.partition("#")[0] for link in links(page.read_text()) if not re.match(r"[a-z]+:", link)]
            waiting += [(page.parent / link).resolve() for link in here if link]
        self.assertEqual([str(page.relative_to(ROOT)) for page in PAGES if page.resolve() not in seen], [])

    def test_performance_is_short(self):
        self.assertLessEqual(len((ROOT / "docs/performance.md").read_text().splitlines()), MOST_PERFORMANCE_LINES)

    def test_pictures_are_small_and_used(self):
        used = {(page.parent / link).resolve() for page in PAGES for link in links(page.read_text())}
        for picture in sorted((ROOT / "docs/images").iterdir()):
            with self.subTest(picture.name):
                self.assertLess(picture.stat().st_size, MOST_PICTURE_BYTES)
                self.assertIn(picture, used)

    def test_the_glossary_is_in_order(self):
        terms = re.findall(r"^\| \*\*(.+?)\*\* \|", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE)
        self.assertGreaterEqual(len(terms), 30)
        self.assertEqual(terms, sorted(terms, key=str.lower))


class ArchitectureTest(unittest.TestCase):
    def test_the_table_is_the_rule(self):
        rule = {folder: may or ["–"] for folder, may in draw_architecture.rule().items()}
        rule[check_includes.TOP] = ["all"]
        rows = draw_architecture.page_rows(draw_architecture.PAGE.read_text())
        self.assertEqual({folder: may.split(", ") for folder, (_, may) in rows.items()}, rule)

    def test_the_picture_is_the_rule(self):
        self.assertEqual(draw_architecture.PICTURE.read_text(), draw_architecture.draw(),
                         "draw it again: python3 tools/draw_architecture.py")


class ModelsTest(unittest.TestCase):
    def test_the_page_is_the_registry(self):
        self.assertEqual(write_models_page.PAGE.read_text(), write_models_page.page(),
                         "write it again: python3 tools/write_models_page.py")

    def test_every_model_has_a_checkpoint(self):
        rows = [line for line in write_models_page.page().splitlines() if line.startswith("| [")]
        self.assertGreater(len(rows), 20)
        for row in rows:
            self.assertFalse(row.endswith("| none |"), row)


class FindsWhatItIsForTest(unittest.TestCase):
    def test_anchors(self):
        text = "# One, two\n## `x` of [y](z)\n```\n# no heading\n```\n### A: soak/start, and more\n"
        self.assertEqual(anchors(text), {"one-two", "x-of-y", "a-soakstart-and-more"})

    def test_links(self):
        text = "[a](b.md) ![c](d.png) [![e](f.svg)](g.md#h)\n```\n[no](link)\n```\n<img src=\"i.png\">"
        self.assertEqual(set(links(text)) & {"b.md", "d.png", "g.md#h", "i.png", "link"}, {"b.md", "d.png", "g.md#h", "i.png"})


if __name__ == "__main__":
    unittest.main()
