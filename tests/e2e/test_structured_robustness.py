"""What must not break in answers that are held to something: rows 14 and 16 to 18 of the acceptance catalogue, on random
weights, whose logits are noise. A part of each by default; INGOT_LONG=1 runs all of it. Row 15 is
src/grammar/walk_test.cpp."""
import concurrent.futures
import itertools
import json
import os
import random
import tarfile
import threading
import time
import unittest

import packages
import serving
import support

LONG = "INGOT_LONG" in os.environ
SAMPLE = support.SHARED_DATA / "json-schema/maskbench_sample.tar.gz"


def response_format(schema, **more):
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, **more}}


def sample_schemas():
    """Schemas of the sample of MaskBench."""
    if not SAMPLE.exists():
        raise unittest.SkipTest("no sample of MaskBench")
    with tarfile.open(SAMPLE) as packed:
        names = sorted(m.name for m in packed.getmembers() if m.name.endswith(".json"))
        return {name: json.load(packed.extractfile(name))["schema"] for name in names}


class Case(serving.ToyCase):
    def ask(self, schema, **more):
        body = {"prompt": "x", "max_tokens": 200, "temperature": 1, "response_format": response_format(schema), **more}
        return self.server.post("/v1/completions", body)


class Row14Test(Case):
    """10,000 generations from random logits: all that end are valid, and what is not held is refused."""

    def test_generations_are_valid(self):
        jsonschema = packages.need("jsonschema")
        schemas = sample_schemas()
        rounds = -(-10_000 // (8 * len(schemas))) if LONG else 1
        names = list(schemas) if LONG else random.Random(14).sample(list(schemas), 24)
        validators = {name: jsonschema.validators.validator_for(schemas[name])(schemas[name]) for name in names}
        whole = cut = 0

        def generate(job):
            name, seed = job
            return name, self.ask(schemas[name], n=8 if LONG else 4, seed=seed)

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for name, answer in pool.map(generate, itertools.product(names, range(rounds))):
                self.assertEqual(answer.status, 200, (name, answer.body[:500]))
                for choice in answer.json()["choices"]:
                    if choice["finish_reason"] != "stop":
                        self.assertEqual(choice["finish_reason"], "length", (name, choice))
                        cut += 1
                        continue
                    whole += 1
                    validators[name].validate(json.loads(choice["text"]))
        self.assertGreater(whole, 0)
        print(f"{whole} whole answers are valid, {cut} were cut by their length")
        self.assert_alive()

    def test_nothing_is_dropped_in_silence(self):
        for schema in ({"type": "string", "pattern": "(?=a)b"}, {"$ref": "http://example.com/other"},
                       {"type": "array", "uniqueItems": True}, {"$recursiveRef": "#"}):
            with self.subTest(schema):
                answer = self.ask(schema)
                self.assertEqual(answer.status, 400, answer.body[:300])
                self.assertIn("#", answer.json()["error"]["message"])


class Row16Test(Case):
    """Bombs, beside streams that go on."""

    @staticmethod
    def bombs():
        def nest(n):
            schema = {"type": "null"}
            for _ in range(n):
                schema = {"anyOf": [schema]}
            return schema

        deep = '{"anyOf":[' * 10_000 + "true" + "]}" * 10_000
        return [
            ({"grammar": 'Root ::= "a"'}, 400),
            ({"grammar": "root ::= ("}, 400),
            ({"grammar": "root ::= " + "(" * 60_000 + '"a"' + ")" * 60_000}, 400),
            ({"grammar": "\n".join(["root ::= r0"] + [f"r{i} ::= r{i + 1}" for i in range(5000)] + ['r5000 ::= "a"'])}, None),
            ({"response_format": response_format({"type": "string", "pattern": "(?<=x)*"})}, 400),
            ({"response_format": response_format({"type": "no such type"})}, 400),
            ({"guided_regex": "("}, 400),
            ({"guided_regex": "(a?){64}a{64}"}, None),
            ({"response_format": response_format({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"},
                                                                                "b": {"$ref": "#/$defs/a"}}})}, 400),
            ({"response_format": response_format(nest(300))}, None),
            ({"guided_json": deep}, 400),
        ]

    def test_bombs_beside_streams(self):
        before = self.server.peak_memory()
        stop = threading.Event()
        gaps, made = [], [0] * 10

        def stream(i):
            while not stop.is_set():
                connection = self.server.connect()
                body = {"prompt": f"{i}", "max_tokens": 400, "ignore_eos": True, "stream": True}
                connection.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
                response, last = connection.getresponse(), None
                self.assertEqual(response.status, 200)
                while not stop.is_set() and response.readline():
                    now = time.monotonic()
                    if last:
                        gaps.append((now, now - last))
                    last = now
                    made[i] += 1
                connection.close()

        readers = [threading.Thread(target=stream, args=(i,)) for i in range(10)]
        for reader in readers:
            reader.start()
        try:
            while min(made) < 20:
                time.sleep(0.01)
            for fields, status in self.bombs():
                began, count = time.monotonic(), sum(made)
                answer = self.server.post("/v1/completions", {"prompt": "x", "max_tokens": 5, **fields})
                seconds = time.monotonic() - began
                with self.subTest(str(fields)[:80]):
                    # None: it may be taken, where it can be held within the limits.
                    self.assertIn(answer.status, (status,) if status else (200, 400), answer.body[:300])
                    self.assertLess(seconds, 10)  # 0.25 s on a machine of its own
                    if seconds > 1:
                        self.assertGreater(sum(made), count, "the streams stood still meanwhile")
        finally:
            stop.set()
            for reader in readers:
                reader.join()
        self.assertLess(self.server.peak_memory() - before, 192 << 20)
        self.assert_alive()


class Row17Test(Case):
    """Long strings and lists work."""

    def test_long_strings_and_lists(self):
        for schema in ({"type": "string", "maxLength": 10_000}, {"type": "string", "maxLength": 65_536},
                       {"type": "string", "minLength": 65_000, "maxLength": 65_536},
                       {"type": "array", "items": {"type": "integer"}, "maxItems": 1_000},
                       {"type": "array", "items": {"type": "boolean"}, "minItems": 1_000, "maxItems": 1_000}):
            with self.subTest(schema):
                began = time.monotonic()
                answer = self.ask(schema, max_tokens=64)
                self.assertLess(time.monotonic() - began, 20)
                self.assertEqual(answer.status, 200, answer.body[:300])
                choice = answer.json()["choices"][0]
                self.assertTrue(choice["text"].startswith('"' if schema["type"] == "string" else "["), choice)
                if choice["finish_reason"] == "stop":
                    value = json.loads(choice["text"])
                    self.assertLessEqual(len(value), schema.get("maxLength", schema.get("maxItems")))
                    self.assertGreaterEqual(len(value), schema.get("minLength", schema.get("minItems", 0)))


class Row18Test(Case):
    """20,000 schemas that nobody has asked for before, and none of them again."""

    def test_unique_schemas(self):
        count = 20_000 if LONG else 600
        files = sorted(os.listdir(self.directory.name))

        def one(i):
            schema = {"type": "object", "properties": {f"key{i}": {"enum": [i, f"v{i}"]}}, "required": [f"key{i}"],
                      "additionalProperties": False}
            answer = self.ask(schema, max_tokens=24)
            self.assertEqual(answer.status, 200, answer.body[:300])

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(one, range(count // 10)))
            before = self.server.memory()
            list(pool.map(one, range(count // 10, count)))
        self.assertLess(self.server.memory() - before, 128 << 20)
        self.assertEqual(sorted(os.listdir(self.directory.name)), files)
        self.assert_alive()


if __name__ == "__main__":
    unittest.main()
