"""Tenants of one server share it by their weights: tokens, places and pages. tools/attack_load.py --fairness measures the
same for a minute with the default model."""
import collections
import concurrent.futures
import pathlib
import tempfile
import threading
import time

import serving
import support
from test_serve_limits import bytes_of_row

ALONE = "measures times"  # not beside other modules: tools/run_tests.py

WEIGHTS = {"one": 1, "two": 2, "four": 4}


def key_of(name):
    return f"key-of-{name}-000001"


class Tenants(serving.ToyCase):
    CONFIG = {"max_position_embeddings": 4096}
    OPTIONS = ("--parallel", "6")

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="ingot-e2e-keys-")
        cls.addClassCleanup(folder.cleanup)
        keys = pathlib.Path(folder.name) / "keys"
        keys.write_text("".join(f"{name} {key_of(name)} weight={weight}\n" for name, weight in WEIGHTS.items()))
        cls.ARGS = ("--api-key-file", keys, "--log", "off", "--ctx", "4096", *cls.OPTIONS)
        super().setUpClass()

    def ask(self, name, **fields):
        body = {"prompt": "once upon", "max_tokens": 8, "ignore_eos": True, "seed": 1, **fields}
        headers = {"authorization": f"Bearer {key_of(name)}"}
        return self.server.post("/v1/completions", body, headers=headers, timeout=600)  # long ones beside other work

    def timed(self, name, **fields):
        """The answer, and how long it took."""
        begun = time.monotonic()
        return self.ask(name, **fields), time.monotonic() - begun

    def assert_newcomers_do_not_wait(self, long, prompts):
        """`long`: futures of timed() that fill the server. Who comes now is served long before one of them ends."""
        headers = {"authorization": f"Bearer {key_of('two')}"}
        deadline = time.monotonic() + 60
        while (now := self.server.get("/v1/engine", headers=headers).json())["waiting"] == 0 or now["tokens"] == 0:
            self.assertLess(time.monotonic(), deadline, "nobody waits for a place or pages")
            time.sleep(0.01)
        self.assertFalse(any(f.done() for f in long), "the answers are too short for this machine")
        newcomers = [self.timed("two", prompt=prompt) for prompt in prompts]
        self.assertEqual({answer.status for answer, _ in newcomers}, {200})
        answers = [f.result() for f in long]
        self.assertEqual({answer.status for answer, _ in answers}, {200})
        self.assertLess(max(seconds for _, seconds in newcomers), min(seconds for _, seconds in answers) / 2)
        return [answer for answer, _ in answers]


class Shares(Tenants):
    def tokens_of(self, answers, seqs=8):
        """What each tenant gets of so many answers of an engine that none of them leaves idle: {name: tokens}."""
        tokens, ended, refused = collections.Counter(), threading.Event(), []
        counts = threading.Lock()

        def work(name):
            while not ended.is_set():
                answer = self.ask(name, max_tokens=150, cache_prompt=False)
                if answer.status != 200:
                    refused.append((name, answer.status))
                    continue
                with counts:
                    tokens[name] += answer.json()["usage"]["total_tokens"]

        with concurrent.futures.ThreadPoolExecutor(seqs * len(WEIGHTS)) as pool:
            for name in WEIGHTS:
                for _ in range(seqs):
                    pool.submit(work, name)
            before = self.until(lambda: sum(tokens.values()) > 60 * 150, tokens, counts)  # every place has changed hands
            end = sum(before.values()) + answers * 150
            after = self.until(lambda: sum(tokens.values()) > end or refused, tokens, counts)
            got = {name: after[name] - before.get(name, 0) for name in WEIGHTS}
            ended.set()
        self.assertEqual(refused, [])
        return got

    def until(self, condition, tokens, lock):
        """The tokens as they are then. A quick machine takes seconds, a loaded one a minute."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            with lock:
                if condition():
                    return dict(tokens)
            time.sleep(0.02)
        return dict(tokens)

    def test_tokens_come_by_weight(self):
        got = self.tokens_of(400)
        unit = sum(got.values()) / sum(WEIGHTS.values())
        for name, weight in WEIGHTS.items():
            # 5 % over a minute; here whole answers are counted, and few.
            self.assertGreater(got[name], 0.8 * weight * unit, got)
            self.assertLess(got[name], 1.2 * weight * unit, got)


class Places(Tenants):
    """Pages for all of them: only places are few."""

    OPTIONS = ("--parallel", "4", "--kv-memory", str(8 * 4352 * bytes_of_row()))

    def test_long_answers_give_up_a_place(self):
        """All places are taken by answers of thousands of tokens: who comes does not wait for one of them to end, and
        none of them is lost or changed."""
        alone = self.ask("one", max_tokens=3500).json()["choices"][0]["text"]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            long = [pool.submit(self.timed, "one", max_tokens=3500) for _ in range(6)]
            for answer in self.assert_newcomers_do_not_wait(long, ["once upon"] * 3):
                self.assertEqual(answer.json()["choices"][0]["text"], alone)


class Pages(Tenants):
    """The cache holds one context and a little: one tenant's seqs fill it."""

    OPTIONS = ("--parallel", "8", "--kv-memory", str(4352 * bytes_of_row()))

    def test_who_holds_all_pages_gives_some(self):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            long = [pool.submit(self.timed, "one", prompt="x" * 500, max_tokens=2500, seed=n) for n in range(6)]
            self.assert_newcomers_do_not_wait(long, [letter * 300 for letter in "abc"])


if __name__ == "__main__":
    support.unittest.main()
