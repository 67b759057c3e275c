"""The limits that /v1/limits tells, at the limit and one beyond."""
import concurrent.futures
import json
import time
import unittest

import models
import serving
import support
from test_serve_bad_requests import CHAT, MESSAGES, OLLAMA, TEXT, chat, find_tables, text

ALONE = "measures times"  # not beside other modules: tools/run_tests.py

CONTEXT = 512


def bytes_of_row():
    """Of the tiny model's KV cache: keys and values of all layers in f16."""
    config = json.loads((models.checkpoint() / "config.json").read_text())
    head = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    return config["num_hidden_layers"] * config["num_key_value_heads"] * head * 2 * 2


class LimitsTest(serving.ToyCase):
    def status(self, path, body):
        answer = self.server.post(path, body)
        return answer.status, (answer.json().get("error") or {}).get("param")

    def limit(self, path, field, key):
        return find_tables(self.server.get("/v1/limits").json())[path][field][key]

    def check_limit(self, path, field, limit, make, body, param=None):
        """`make(n)` is the field's value of size n."""
        self.assertEqual(self.status(path, {**body, field: make(limit)})[0], 200, f"{field} at its limit of {limit}")
        self.assertEqual(self.status(path, {**body, field: make(limit + 1)}), (400, param or field))

    def test_lists_and_lengths(self):
        self.check_limit(CHAT, "n", self.limit(CHAT, "n", "maximum"), int, chat())
        self.check_limit(CHAT, "stop", self.limit(CHAT, "stop", "max_items"), lambda n: [f"#{i}#" for i in range(n)], chat())
        self.check_limit(CHAT, "stop", self.limit(CHAT, "stop", "max_length"), lambda n: "#" * n, chat())
        self.check_limit(CHAT, "stop", self.limit(CHAT, "stop", "item_max_length"), lambda n: ["#" * n], chat(),
                         param="stop[0]")
        self.check_limit(CHAT, "top_logprobs", self.limit(CHAT, "top_logprobs", "maximum"), int, chat(logprobs=True))
        self.check_limit(TEXT, "logprobs", self.limit(TEXT, "logprobs", "maximum"), int, text())
        self.check_limit(TEXT, "prompt", self.limit(TEXT, "prompt", "max_prompts"), lambda n: ["a"] * n, text(max_tokens=1))
        # No model here has so many tokens: beyond the limit it is the number of members that is refused.
        many = {str(i): 0 for i in range(self.limit(CHAT, "logit_bias", "max_items") + 1)}
        self.assertEqual(self.status(CHAT, chat(logit_bias=many)), (400, "logit_bias"))
        self.assertEqual(self.status(CHAT, chat(logit_bias={str(i): 0 for i in range(256)}))[0], 200)

    def test_members_of_a_body(self):
        most = self.server.get("/v1/limits").json()["body_members"]

        def body(members):
            """So many, in objects of a thousand."""
            left = members - 7  # messages, role, content, max_tokens, seed, metadata, and this:
            return chat(metadata={"a": [{str(i): 0 for i in range(min(1000, left - at))} for at in range(0, left, 1000)]})

        self.assertEqual(self.status(CHAT, body(most))[0], 200)
        begun = time.monotonic()
        answer = self.server.post(CHAT, body(most + 1))
        self.assertEqual(answer.status, 400, answer.body[:300])
        self.assertIn("members", answer.json()["error"]["message"])
        self.assertLess(time.monotonic() - begun, 20)

    def test_messages_and_tools(self):
        most = self.limit(CHAT, "messages", "max_items")
        one = {"role": "user", "content": ""}
        status, param = self.status(CHAT, chat(messages=[one] * most))
        self.assertEqual((status, param), (400, "messages"))  # the list is read, and too long for this context
        code = self.server.post(CHAT, chat(messages=[one] * most)).json()["error"]["code"]
        self.assertEqual(code, "context_length_exceeded")
        code = self.server.post(CHAT, chat(messages=[one] * (most + 1))).json()["error"]["code"]
        self.assertNotEqual(code, "context_length_exceeded")
        tools = [{"type": "function", "function": {"name": f"f{i}"}} for i in range(129)]
        self.assertEqual(self.status(CHAT, chat(tools=tools)), (400, "tools"))

    def test_body(self):
        """A body at the limit is read, one beyond it is refused, and neither leaves its memory behind."""
        limit = 4 << 20
        before = self.server.memory()
        start = '{"prompt":"'
        end = '"}'
        for size, statuses in ((limit, (400,)), (limit + 1, (413,))):
            for _ in range(3):
                body = start + "a" * (size - len(start) - len(end)) + end
                self.assertEqual(len(body), size)
                try:
                    answer = self.server.post(TEXT, body)
                except (BrokenPipeError, ConnectionResetError):
                    # The server may close before all of a body that it does not want was sent.
                    self.assertIn(413, statuses)
                    continue
                self.assertIn(answer.status, statuses, answer.body[:300])
        grown = self.server.memory() - before
        self.assertLess(grown, 3 * limit + (32 << 20), f"{grown} bytes more than before")
        self.assert_alive()

    def refused(self, path, body):
        """The field that an error is about, whatever its shape; empty where there is none."""
        answer = self.server.post(path, body)
        if answer.status == 200:
            return ""
        self.assertEqual(answer.status, 400, answer.body[:300])
        error = answer.json()["error"]
        if isinstance(error, str):
            return error.split()[0]
        return error["param"] if "param" in error else error["message"].split()[0]

    def test_every_number_at_both_ends(self):
        """For every number of every endpoint: the ends of its range are taken, what lies beyond is refused by name."""
        base = {CHAT: chat(max_tokens=1), TEXT: text(max_tokens=1), "/v1/messages": {"messages": MESSAGES, "max_tokens": 1},
                "/v1/responses": {"input": "a", "max_output_tokens": 1},
                "/v1/messages/count_tokens": {"messages": MESSAGES}, "/v1/embeddings": {"input": "a"},
                "/tokenize": {"text": "a"}, "/detokenize": {"ids": [5]}, **OLLAMA}
        # What some numbers need beside them. Vectors have one size: of `dimensions` only that one is taken.
        beside = {"best_of": lambda value: {"n": value},
                  "min_tokens": lambda value: {k: max(value, 1) for k in base[path] if k.startswith("max_")},
                  "top_logprobs": lambda value: {"logprobs": True} if path == CHAT else {}}
        tested = 0
        for path, table in find_tables(self.server.get("/v1/limits").json()).items():
            for name, field in table.items():
                if field["effect"] == "refused" or "minimum" not in field:
                    continue
                low, high = field["minimum"], field["maximum"]
                self.assertLess(low, high)
                step = 0.01 if "number" in field["type"] else 1
                for value in (low, high):
                    if name == "dimensions":
                        continue
                    echo = {"echo": True} if path == TEXT and value == 0 else {}
                    body = {**base[path], **beside.get(name, lambda value: {})(value), **echo, name: value}
                    self.assertEqual(self.refused(path, body), "", f"{path} {name} {value}")
                for value in (low - step, high + step):
                    self.assertEqual(self.refused(path, {**base[path], name: value}), name, f"{path} {name} {value}")
                tested += 1
        self.assertGreater(tested, 40)

    def test_length_edges(self):
        endless = {"logit_bias": {"2": -100}, "seed": 1}
        answer = self.post(TEXT, {"prompt": "x" * (CONTEXT - 1), "max_tokens": 2**30, **endless})
        self.assertEqual(answer["choices"][0]["finish_reason"], "length")
        self.assertEqual(answer["usage"]["completion_tokens"], 1)
        for length in (CONTEXT, CONTEXT + 1, 5 * CONTEXT):
            begun = time.monotonic()
            error = self.post(TEXT, {"prompt": "x" * length, "max_tokens": 1, **endless}, 400)["error"]
            self.assertLess(time.monotonic() - begun, 20)
            self.assertEqual(error["code"], "context_length_exceeded")
            self.assertIn(str(CONTEXT), error["message"])
            self.assertIn(str(length), error["message"])
        self.assertEqual(self.status(TEXT, {"prompt": "x", "max_tokens": 2**31}), (400, "max_tokens"))
        self.assertEqual(self.status(TEXT, {"prompt": "x", "max_tokens": 2**63}), (400, "max_tokens"))
        until_full = self.post(CHAT, {"messages": MESSAGES, **endless})
        self.assertEqual(until_full["choices"][0]["finish_reason"], "length")
        self.assertEqual(until_full["usage"]["total_tokens"], CONTEXT)


class HeldAnswersTest(serving.ToyCase):
    """What one small request can make the server hold, measured while it does."""

    CONFIG = {"max_position_embeddings": 32768}
    ARGS = ("--ctx", "32768", "--kv-memory", "64M")
    TOKENS = 9000  # of two digits: a request of 27 KB

    def scored(self, tokens, **fields):
        return {"prompt": [10 + i % 90 for i in range(tokens)], "max_tokens": 1, "echo": True, "logprobs": 20, **fields}

    def grown(self, ask):
        """By how much the most that was ever resident grew while `ask()` went on."""
        before = self.server.memory()
        ask()
        return max(0, self.server.peak_memory() - before)

    def test_scores_of_many_choices_are_refused(self):
        def ask():
            for stream in (False, True):
                error = self.post(TEXT, self.scored(self.TOKENS, n=16, stream=stream), 400)["error"]
                self.assertEqual(error["param"], "echo")
                self.assertIn(str(16 * self.TOKENS), error["message"])
            body = {"prompt": "a", "max_tokens": 20000, "logprobs": 20}
            self.assertEqual(self.post(TEXT, body, 400)["error"]["param"], "max_tokens")
            self.assertEqual(self.post(CHAT, chat(max_tokens=2000, n=16, logprobs=True, top_logprobs=20), 400)["error"]["param"],
                             "max_tokens")

        self.assertLess(self.grown(ask), 100 << 20)

    def test_the_largest_answers_that_are_allowed(self):
        """One prompt at the limit, and many choices of a shorter one, which all have its scores."""
        limits = self.server.get("/v1/limits").json()
        most = limits["answer_logprobs"] // 21

        def ask():
            for tokens, choices in ((most - 1, 1), (most // 16 - 1, 16)):
                answer = self.post(TEXT, self.scored(tokens, n=choices))
                self.assertEqual(len(answer["choices"]), choices)
                for choice in answer["choices"]:
                    logprobs = choice["logprobs"]
                    self.assertIn(len(logprobs["tokens"]), (tokens, tokens + 1))
                    self.assertEqual(len(logprobs["tokens"]), len(logprobs["text_offset"]))
                    self.assertEqual(logprobs["token_logprobs"][1:tokens],
                                     answer["choices"][0]["logprobs"]["token_logprobs"][1:tokens])
                    self.assertGreaterEqual(len(logprobs["top_logprobs"][1]), 5)  # bytes that are no text have one name

        # The answers themselves are 10 MB; the KV cache fills by up to 64 MiB beside them.
        self.assertLess(self.grown(ask), (64 + 96) << 20)
        self.assertEqual(self.server.post(TEXT, self.scored(most, n=1, max_tokens=2)).status, 400)

    def test_detokenize_takes_a_context(self):
        context = 32768
        ids = [100] * context
        self.assertEqual(self.post("/detokenize", {"ids": ids})["content"], "a" * context)
        error = self.post("/detokenize", {"tokens": [*ids, 100]}, 400)["error"]
        self.assertEqual((error["param"], error["code"]), ("tokens", "context_length_exceeded"))
        answer = self.post("/tokenize", {"text": "a" * (3 << 20)})
        self.assertEqual((answer["count"], len(answer["tokens"]), answer["tokens"][5]), (3 << 20, 3 << 20, 100))
        self.assertEqual(answer["max_model_len"], context)


class SmallCacheTest(serving.ToyCase):
    """A KV cache of one context: what can never fit is refused, everything else is answered, one after the other."""

    MEMORY = str(256 * bytes_of_row())
    ARGS = ("--ctx", "256", "--kv-memory", MEMORY)

    def test_the_cache_holds_one_context_and_no_row_less(self):
        result = support.run("serve", self.model, "--port", "0", "--ctx", "257", "--kv-memory", self.MEMORY)
        self.assertEqual(result.returncode, 1)
        self.assertIn("257", result.stderr)

    def test_more_than_the_cache_holds_at_once(self):
        """Capacity + 1 in all: each has room alone, together they have not. All are answered as if they were alone."""
        def ask(prompt):
            body = {"prompt": prompt, "max_tokens": 56, "ignore_eos": True, "temperature": 0}
            return self.post(TEXT, body)

        # One row more than the cache has in all, then many times as much.
        for prompts in (["a" * 74, "b" * 73], ["cdefghij"[i] * 200 for i in range(8)]):
            alone = [ask(prompt)["choices"][0]["text"] for prompt in prompts]
            with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
                together = list(pool.map(ask, prompts))
            for text, answer in zip(alone, together):
                self.assertEqual(answer["choices"][0]["text"], text)
                self.assertEqual(answer["choices"][0]["finish_reason"], "length")

    def test_longer_than_this_context(self):
        error = self.post(TEXT, {"prompt": "x" * 256, "max_tokens": 1}, 400)["error"]
        self.assertEqual(error["code"], "context_length_exceeded")
        self.assertIn("256", error["message"])
        answer = self.post(TEXT, {"prompt": "x" * 255, "max_tokens": 5})
        self.assertEqual(answer["choices"][0]["finish_reason"], "length" if answer["usage"]["completion_tokens"] else "stop")


class SmallQueueTest(serving.ToyCase):
    ARGS = ("--parallel", "1", "--max-queue", "4")

    def test_a_list_that_can_never_wait_is_refused_by_name(self):
        for path, field in (("/v1/completions", "prompt"), ("/v1/embeddings", "input")):
            answer = self.server.post(path, {field: ["a"] * 6, **({"max_tokens": 1} if field == "prompt" else {})})
            self.assertEqual(answer.status, 400, answer.body)
            self.assertEqual(answer.json()["error"]["param"], field)
            answer = self.server.post(path, {field: ["a"] * 5, **({"max_tokens": 1} if field == "prompt" else {})})
            self.assertEqual(answer.status, 200, answer.body)


class QueueTimeoutTest(serving.ToyCase):
    ARGS = ("--parallel", "1", "--queue-timeout", "0.2")

    def test_who_waits_too_long_is_told_to_come_again(self):
        def ask(tokens):
            return self.server.post("/v1/completions", {"prompt": "a", "max_tokens": tokens, "ignore_eos": True}).status

        # So many that the last of them waits for too long on a fast machine, too.
        with concurrent.futures.ThreadPoolExecutor(64) as pool:
            for _ in range(40):
                statuses = set(pool.map(ask, [240] * 64))
                self.assertLessEqual(statuses, {200, 503})
                if 503 in statuses:
                    break
            else:
                self.fail("nobody waited for too long")
        self.assertEqual(ask(1), 200)


if __name__ == "__main__":
    unittest.main()
