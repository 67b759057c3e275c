"""Answers that are held to a schema, a pattern, a grammar or a list: on the default model and on a tiny one."""
import concurrent.futures
import json
import re

import client_case
import models
import packages
import serving
import support

SHORT = {"type": "string", "maxLength": 12}
POINT = {"type": "object", "properties": {"x": {"type": "integer", "minimum": 0, "maximum": 9},
                                          "y": {"type": "integer", "minimum": -5, "maximum": 5}},
         "required": ["x", "y"], "additionalProperties": False}
# Each is bounded, so that an answer always comes to its end.
SCHEMAS = [
    {"type": "object", "properties": {"name": SHORT, "age": {"type": "integer", "minimum": 0, "maximum": 150}},
     "required": ["name", "age"], "additionalProperties": False},
    {"enum": ["red", "green", {"rgb": [1, 2, 3]}, None, 4.5]},
    {"const": {"a": [True, False, None], "b": "\"quoted\"\n"}},
    {"type": "boolean"},
    {"type": "integer", "minimum": -120, "exclusiveMaximum": 7},
    {"type": "number", "minimum": 0, "maximum": 1000, "multipleOf": 5},
    {"type": "string", "minLength": 3, "maxLength": 8},
    {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{4}$"},
    {"type": "array", "items": POINT, "minItems": 1, "maxItems": 3},
    {"anyOf": [{"type": "null"}, {"type": "array", "items": {"enum": [1, 2]}, "maxItems": 4}]},
    {"type": "object", "properties": {"a": POINT, "b": {"type": "boolean"}, "c": {"type": "null"}},
     "required": ["b"], "additionalProperties": False},
    {"$ref": "#/$defs/pair", "$defs": {"pair": {"type": "array", "prefixItems": [{"type": "boolean"}, {"type": "null"}],
                                                "items": False, "minItems": 2}}},
    {"type": "string", "format": "date"},
    {"type": "object", "properties": {"kind": {"const": "circle"}, "radius": {"type": "integer", "minimum": 1,
                                                                             "maximum": 99}},
     "required": ["kind", "radius"], "additionalProperties": False},
    {"oneOf": [{"type": "string", "maxLength": 3}, {"type": "integer", "minimum": 0, "maximum": 99}]},
    {"allOf": [{"type": "object", "properties": {"id": {"type": "integer", "minimum": 0, "maximum": 999}},
                "required": ["id"]}, {"maxProperties": 1}]},
]

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def is_type(value, name):
    if name in ("integer", "number"):
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return number and (name == "number" or value == int(value))
    return isinstance(value, TYPES[name])


def same(a, b):
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def valid(value, schema, root):
    """Whether a value fits a schema, for the keywords that the schemas here have."""
    if isinstance(schema, bool):
        return schema
    if "$ref" in schema:
        target = root
        for part in schema["$ref"].split("/")[1:]:
            target = target[part]
        if not valid(value, target, root):
            return False
    checks = [
        "type" not in schema or is_type(value, schema["type"]),
        "enum" not in schema or any(same(value, each) for each in schema["enum"]),
        "const" not in schema or same(value, schema["const"]),
        all(valid(value, each, root) for each in schema.get("allOf", [])),
        "anyOf" not in schema or any(valid(value, each, root) for each in schema["anyOf"]),
        "oneOf" not in schema or sum(valid(value, each, root) for each in schema["oneOf"]) == 1,
    ]
    if is_type(value, "number"):
        checks += [value >= schema.get("minimum", value), value <= schema.get("maximum", value),
                   value < schema.get("exclusiveMaximum", value + 1), value % schema.get("multipleOf", 1) == 0
                   or "multipleOf" not in schema]
    if isinstance(value, str):
        checks += [schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)),
                   re.search(schema.get("pattern", ""), value) is not None,
                   schema.get("format") != "date" or re.fullmatch(r"\d{4}-\d\d-\d\d", value) is not None]
    if isinstance(value, list):
        first = schema.get("prefixItems", [])
        checks += [schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)),
                   all(valid(item, each, root) for item, each in zip(value, first)),
                   all(valid(item, schema.get("items", True), root) for item in value[len(first):])]
    if isinstance(value, dict):
        named = schema.get("properties", {})
        checks += [set(schema.get("required", [])) <= set(value), len(value) <= schema.get("maxProperties", len(value)),
                   all(valid(item, named.get(key, schema.get("additionalProperties", True)), root)
                       for key, item in value.items())]
    return all(checks)


def response_format(schema, **more):
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, **more}}


def deltas(events, n):
    texts = [""] * n
    for event in events:
        for choice in event["choices"] if event != "[DONE]" else []:
            texts[choice["index"]] += choice["delta"].get("content") or ""
    return texts


class DefaultModelTest(support.TestCase):
    """What a small real model writes, alone and beside others."""

    @classmethod
    def setUpClass(cls):
        cls.model = models.default_model()
        cls.server = serving.Server(cls.model, "--ctx", "2048")
        cls.addClassCleanup(cls.server.close)

    def ask(self, schema, **more):
        question = f"Answer in JSON that fits this schema: {json.dumps(schema)}"
        body = {"messages": [{"role": "user", "content": question}], "max_tokens": 400, "temperature": 1, "seed": 11,
                "response_format": response_format(schema), **more}
        return self.server.post("/v1/chat/completions", body)

    def test_every_answer_fits_its_schema(self):
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            batched = list(pool.map(self.ask, SCHEMAS))
        for schema, answer in zip(SCHEMAS, batched):
            with self.subTest(schema):
                self.assertEqual(answer.status, 200, answer.body[:500])
                choice = answer.json()["choices"][0]
                self.assertEqual(choice["finish_reason"], "stop", choice)
                self.assertTrue(valid(json.loads(choice["message"]["content"]), schema, schema), choice["message"])
        alone = self.ask(SCHEMAS[0]).json()["choices"][0]
        self.assertEqual(alone, batched[0].json()["choices"][0])

    def test_choices_and_streams(self):
        schema = SCHEMAS[0]
        whole = self.ask(schema, n=3).json()["choices"]
        for choice in whole:
            self.assertTrue(valid(json.loads(choice["message"]["content"]), schema, schema), choice)
        events = self.ask(schema, n=3, stream=True).events()
        self.assertEqual(deltas(events, 3), [choice["message"]["content"] for choice in whole])

    def test_run(self):
        question = "Is the sky blue? Yes or no?"
        chosen = support.run("run", self.model, question, "--choice", "yes,no,perhaps", "--temp", "1", "--seed", "3",
                             timeout=300)
        self.assertEqual(chosen.returncode, 0, chosen.stderr)
        self.assertIn(chosen.stdout.strip(), ("yes", "no", "perhaps"))
        path = self.temp_dir() / "schema.json"
        path.write_text(json.dumps(SCHEMAS[0]))
        person = support.run("run", self.model, "A person", "--schema", str(path), "-n", "200", timeout=300)
        self.assertTrue(valid(json.loads(person.stdout), SCHEMAS[0], SCHEMAS[0]), person)


class ParseTest(client_case.ScriptedCase):
    """The `openai` client's own way to ask for a schema."""

    def test_parse(self):
        openai, pydantic = packages.need("openai"), packages.need("pydantic")

        class Point(pydantic.BaseModel):
            x: int
            tag: bool

        with openai.OpenAI(base_url=self.server.url + "/v1", api_key="x", max_retries=0, timeout=120) as client:
            answer = client.chat.completions.parse(model=client.models.list().data[0].id, response_format=Point,
                                                   messages=[{"role": "user", "content": "a point"}], max_tokens=200,
                                                   logit_bias={})
        choice = answer.choices[0]
        if choice.finish_reason == "stop":
            self.assertIsInstance(choice.message.parsed, Point)


class ToyTest(serving.ToyCase):
    """On random weights, where each answer would be noise."""

    def texts(self, **fields):
        answer = self.chat(n=8, temperature=1, **{"max_tokens": 200, **fields})
        self.assertEqual({choice["finish_reason"] for choice in answer["choices"]}, {"stop"})
        return [choice["message"]["content"] for choice in answer["choices"]]

    def test_every_spelling(self):
        schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False}
        for fields in ({"response_format": response_format(schema)}, {"json_schema": schema}, {"guided_json": schema},
                       {"guided_json": json.dumps(schema)}, {"structured_outputs": {"json": schema}},
                       {"response_format": {"type": "json_object", "schema": schema}}):
            with self.subTest(fields):
                for text in self.texts(**fields):
                    self.assertIn(json.loads(text), ({"a": 1}, {"a": 2}))
        for fields in ({"guided_regex": "[ab]{2}c"}, {"structured_outputs": {"regex": "[ab]{2}c"}},
                       {"grammar": 'root ::= [ab] [ab] "c"'}, {"guided_grammar": 'root ::= [ab] [ab] "c"'}):
            with self.subTest(fields):
                for text in self.texts(**fields):
                    self.assertRegex(text, "^[ab]{2}c$")
        for text in self.texts(guided_choice=["one", "two"]):
            self.assertIn(text, ("one", "two"))
        answer = self.complete(prompt=["a", "b"], n=2, max_tokens=20, guided_choice=["one", "two"])
        self.assertLessEqual({choice["text"] for choice in answer["choices"]}, {"one", "two"})

    def test_what_cannot_be_held_is_refused_with_its_place(self):
        schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "(?=x)y"}}}
        error = self.chat(400, response_format=response_format(schema))["error"]
        self.assertEqual(error["param"], "response_format.json_schema.schema")
        self.assertIn("#/properties/a/pattern", error["message"])
        unknown = {"type": "string", "maximumLength": 4}
        self.chat(200, max_tokens=4, response_format=response_format(unknown))
        error = self.chat(400, response_format=response_format(unknown, strict=True))["error"]
        self.assertIn("maximumLength", error["message"])
        metrics = self.server.get("/metrics").body.decode()
        self.assertIn("ingot_grammar_compile_seconds_count", metrics)
        self.assertGreaterEqual(int(re.search(r"ingot_grammars_refused_total (\d+)", metrics)[1]), 2)
        self.assertGreater(self.server.get("/v1/limits").json()["constraints"]["kept_bytes"], 0)
        self.assert_alive()

    def test_bans_and_least_lengths_do_not_break_it(self):
        body = {"guided_choice": ["ab"], "min_tokens": 50, "logit_bias": {str(ord(c) + 3): -100 for c in "ab"}}
        self.assertEqual(set(self.texts(**body)), {"ab"})
