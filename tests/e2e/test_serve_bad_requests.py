"""Requests that broke other servers, and requests with every field of the wrong type."""
import json
import os
import random
import shutil
import struct
import threading
import time
import unittest

import models
import serving

LONG = os.environ.get("INGOT_LONG") == "1"
CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
MESSAGES = [{"role": "user", "content": "hello"}]
MOST_SECONDS = serving.REFUSAL_SECONDS  # for any one of these requests, the answered ones too


def chat(**fields):
    return {"messages": MESSAGES, "max_tokens": 4, "seed": 1, **fields}


def text(**fields):
    return {"prompt": "abc", "max_tokens": 4, "seed": 1, **fields}


def tool(**function):
    return [{"type": "function", "function": {"name": "f", **function}}]


def nested(n, inner=""):
    return "[" * n + inner + "]" * n


def rules(n):
    """A grammar in which each rule leads to the next."""
    return "\n".join(["root ::= r0", *(f"r{i} ::= r{i + 1}" for i in range(n)), f'r{n} ::= "a"'])


def schema(depth):
    """A response_format whose schema is nested so deep."""
    inner = '{"type":"object","properties":{"a":' * depth + "{}" + "}}" * depth
    return f'{{"messages":[{{"role":"user","content":"a"}}],"response_format":{{"type":"json_schema","json_schema":' \
           f'{{"schema":{inner}}}}}}}'


# (row of the list, path, body, statuses, the field at fault): what another server died of. Statuses None: any 4xx or 200;
# field None: the body as a whole, or no error.
CORPUS = [
    ("R1", CHAT, '{: "model": "x"}', (400,), None),
    ("R2", CHAT, chat(grammar="Root ::= \"a\""), (400,), "grammar"),
    ("R3", TEXT, {"prompt": [-1]}, (400,), "prompt[0]"),
    ("R4", CHAT, chat(temperature="hot"), (400,), "temperature"),
    ("R4", CHAT, chat(temperature=None, top_p=None, seed=None, n=None, stop=None, logit_bias=None), (200,), None),
    ("R5", CHAT, chat(n_discard=-1), (400,), "n_discard"),
    ("R5", CHAT, chat(n_discard=1 << 62), (400,), "n_discard"),
    ("R6", CHAT, chat(grammar="root ::= " + "(" * 60000), (400,), "grammar"),
    ("R6", CHAT, chat(grammar=rules(5000)), None, None),
    ("R8", CHAT, schema(10), (200,), None),
    ("R8", CHAT, schema(5000), (400,), None),
    ("R8", CHAT, chat(response_format={"type": "json_schema", "json_schema": {"schema": {"pattern": "(?<=x)*"}}}), (400,),
     "response_format.json_schema.schema"),
    ("R8", CHAT, chat(response_format={"type": "json_schema", "json_schema": {"schema": {"$ref": "#/$defs/a", "$defs": {
        "a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}}}), (400,), "response_format.json_schema.schema"),
    ("R8", CHAT, chat(response_format={"type": "json_schema", "json_schema": {"schema": {"$ref": "http://x/y"}}}), (400,),
     "response_format.json_schema.schema"),
    ("R8", CHAT, chat(guided_regex="(a?){64}a{64}", max_tokens=80), (200,), None),
    ("R9", TEXT, text(prompt="a" * 131072), (400,), "prompt"),
    ("R9", TEXT, text(prompt="a" * 26000), (400,), "prompt"),
    ("R9", TEXT, text(prompt="\n" * 100000), (400,), "prompt"),
    ("R9", TEXT, text(prompt="a" * 400), (200,), None),
    ("R10", CHAT, chat(tools=tool(description="ä" * 3000)), None, None),
    ("R12", CHAT, {"messages": MESSAGES, "seed": 1}, (200,), None),
    ("R13", TEXT, text(prompt="x" * 513), (400,), "prompt"),
    ("R13", "/v1/embeddings", {"input": "x" * 600}, (400,), "input"),
    ("R14", CHAT, b'{"messages":[{"role":"user","content":"\xff\xfe"}]}', (400,), None),
    ("R14", CHAT, b'{"\xff":1}', (400,), None),
    ("R17", CHAT, chat(chat_template_kwargs={"tokenize": True}), (400,), "chat_template_kwargs.tokenize"),
    ("R19", TEXT, text(prompt=""), (400,), "prompt"),
    ("R19", TEXT, text(prompt=[]), (400,), "prompt"),
    ("R19", CHAT, {"messages": []}, (400,), "messages"),
    ("R20", TEXT, text(n=10**12), (400,), "n"),
    ("R20", TEXT, text(best_of=10**12), (400,), "best_of"),
    ("R20", TEXT, text(prompt=["a"] * 100000), (400,), "prompt"),
    ("R20", TEXT, text(prompt=["a"] * 64, n=16), (400,), "n"),
    ("R21", CHAT, chat(logit_bias={"256": 1}), (400,), "logit_bias"),
    ("R21", CHAT, chat(logit_bias={"99999999999999999999": 1}), (400,), "logit_bias"),
    ("R22", TEXT, text(prompt=[1, 2, 256]), (400,), "prompt[2]"),
    ("R22", TEXT, text(prompt=[[1], [-5]]), (400,), "prompt[1][0]"),
    ("R23", CHAT, '{"messages":[{"role":"user","content":"a"}],"temperature":NaN}', (400,), None),
    ("R23", CHAT, '{"messages":[{"role":"user","content":"a"}],"temperature":1e999}', (400,), "temperature"),
    ("R23", CHAT, '{"messages":[{"role":"user","content":"a"}],"temperature":-Infinity}', (400,), None),
    ("R23", CHAT, chat(temperature=-1), (400,), "temperature"),
    ("R23", CHAT, chat(repetition_penalty=0), (400,), "repetition_penalty"),
    ("R24", CHAT, chat(guided_regex="(", guided_json={"type": "x"}), (400,), "guided_regex"),
    ("R24", CHAT, chat(tools=tool(parameters={"type": "nonsense", "pattern": "("})), None, None),
    ("R26", CHAT, chat(tools=tool(), response_format={"type": "json_object"}), (400,), "tools"),
    ("R26", CHAT, chat(response_format={"type": "text"}), (200,), None),
    ("R26", CHAT, chat(parallel_tool_calls=None), (200,), None),
    ("R26", CHAT, {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": None, "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "f", "arguments": None}}]}], "max_tokens": 2}, None, None),
    ("R26", CHAT, chat(tools=[{"type": "custom", "custom": {"name": "f"}}]), (400,), "tools"),
    ("R26", CHAT, chat(tools=[{"type": "web_search"}]), (400,), "tools[0].type"),
    ("R26", CHAT, chat(tools=[{"type": "function"}]), (400,), "tools[0].function"),
    ("R27", CHAT, chat(tools=tool(), tool_choice="required", max_tokens=1), (400,), "tools"),
    ("R27", CHAT, chat(tool_choice="required"), (400,), "tool_choice"),
    ("R29", CHAT, chat(priority=5, n=3), (200,), None),
    ("R29", CHAT, chat(lora=[{"id": 7, "scale": 1}]), (400,), "lora"),
    ("R31", TEXT, text(echo=True, logprobs=1, top_k=1), (200,), None),
    ("depth", CHAT, '{"messages":' + nested(10000) + "}", (400,), None),
    ("twice", CHAT, '{"messages":[],"messages":[]}', (400,), None),
    ("nul", CHAT, chat(messages=[{"role": "user", "content": "a\0b"}]), (200,), None),
    ("empty", CHAT, "", (400,), None),
    ("inert", CHAT, chat(messages=[{"role": "user", "content": "{{ 7*7 }}{% raw %}${x}</s><s>"}]), (200,), None),
]


# A template with tools, in the form of Hermes, and with calls of earlier messages.
WITH_TOOLS = (
    "{% if tools %}{{ '<s>system\\n' }}{% for tool in tools %}{{ tool | tojson }}{% endfor %}"
    "{{ 'Answer <tool_call>{\"name\": .., \"arguments\": ..}</tool_call></s>' }}{% endif %}"
    "{% for message in messages %}{{ '<s>' + message['role'] + '\\n' + message['content'] }}"
    "{% for call in message.tool_calls or [] %}{{ '<tool_call>' + call.function.name }}{{ call.function.arguments | tojson }}"
    "{% endfor %}{{ '</s>' }}{% endfor %}{% if add_generation_prompt %}{{ '<s>assistant\\n' }}{% endif %}")


def called(arguments, **function):
    """A conversation in which the assistant called a tool with these arguments."""
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments, **function}}
    return {"messages": [*MESSAGES, {"role": "assistant", "content": None, "tool_calls": [call]},
                         {"role": "tool", "tool_call_id": "1", "content": "42"}], "max_tokens": 2, "seed": 1}


ARGUMENTS = "messages[1].tool_calls[0].function.arguments"
# The same for a template that has a place for tools.
TOOL_CORPUS = [
    ("R10", CHAT, chat(tools=tool(description="ä" * 100)), (200,), None),
    ("R10", CHAT, chat(tools=tool(description="ä" * 3000)), (400,), "messages"),  # longer than this context
    ("R24", CHAT, chat(tools=tool(parameters={"type": "nonsense", "pattern": "("})), (200,), None),
    ("R24", CHAT, chat(tools=tool(parameters={"$ref": "#", "anyOf": [{"$ref": "#/x"}]})), (200,), None),
    ("R26", CHAT, chat(tools=tool(), response_format={"type": "json_object"}), (200,), None),
    ("R26", CHAT, chat(tools=tool(), parallel_tool_calls=None), (200,), None),
    ("R26", CHAT, called(None), (200,), None),
    ("R26", CHAT, called(""), (200,), None),
    ("R26", CHAT, called("not json {"), (200,), None),
    ("R26", CHAT, called("[1, 2]"), (200,), None),
    ("R26", CHAT, called({"a": [1, {"b": None}]}), (200,), None),
    ("R26", CHAT, chat(tools=[{"type": "function"}]), (400,), "tools[0].function"),
    ("R26", CHAT, chat(tools=tool() + tool()), (400,), "tools[1].function.name"),
    ("R26", CHAT, chat(tools=tool(parameters=[])), (400,), "tools[0].function.parameters"),
    ("R26", CHAT, chat(tools=tool(name="f" * 65)), (400,), "tools[0].function.name"),
    ("R26", CHAT, chat(tools=tool(name="<s>")), (400,), "tools[0].function.name"),
    ("R27", CHAT, chat(tools=tool(), tool_choice="required", max_tokens=1), (200,), None),
    ("R27", CHAT, chat(tools=tool(), tool_choice="none"), (200,), None),
    # Arguments are JSON in a text, within the limits of the body that they are a part of.
    ("depth", CHAT, called('{"a":' + nested(58) + "}"), (400,), ARGUMENTS),
    ("depth", CHAT, called('{"a":' + nested(50000) + "}"), (400,), ARGUMENTS),
    ("values", CHAT, called('{"a":[' + "0," * 300000 + "0]}"), (400,), ARGUMENTS),
    ("values", CHAT, called("[" + "0," * 1500000 + "0]"), (400,), ARGUMENTS),
    ("members", CHAT, called("{" + ",".join(f'"{i}":0' for i in range(70000)) + "}"), (400,), ARGUMENTS),
    ("members", CHAT, chat(tools=tool(parameters={str(i): 0 for i in range(70000)})), (400,), None),
    ("depth", CHAT, '{"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"f",'
     '"parameters":{"a":' + nested(10000) + "}}}]}", (400,), None),
]


class BadRequestTest(serving.ToyCase):
    corpus = CORPUS

    def golden(self):
        body = {"messages": MESSAGES, "max_tokens": 12, "temperature": 0}
        return self.post(CHAT, body)["choices"][0]["message"]["content"]

    def test_requests_that_broke_others(self):
        golden = self.golden()
        pid = self.server.pid
        for name, path, body, statuses, param in self.corpus:
            for _ in range(3):
                with self.subTest(name=name, body=str(body)[:80]):
                    begun = time.monotonic()
                    answer = self.server.post(path, body)
                    self.assertLess(time.monotonic() - begun, MOST_SECONDS)
                    self.assertLess(answer.status, 500, answer.body[:500])
                    if statuses:
                        self.assertIn(answer.status, statuses, answer.body[:500])
                    if answer.status >= 400:
                        error = answer.json()["error"]
                        self.assertTrue(error["message"])
                        if statuses:
                            self.assertEqual(error["param"], param, error)
                            self.assertTrue(error["message"].startswith(param or ""), error)
        self.assert_alive()
        self.assertEqual(self.server.pid, pid)
        self.assertEqual(self.golden(), golden)


class ToolTemplateTest(BadRequestTest):
    """The same server with a template that has a place for tools: what is refused above for want of one is rendered."""

    corpus = TOOL_CORPUS

    @classmethod
    def make_model(cls, path):
        return models.make_tiny(path, template=WITH_TOOLS)

    def prompt_tokens(self, **fields):
        return self.post(CHAT, chat(**fields))["usage"]["prompt_tokens"]

    def test_tools_carry_no_control_tokens(self):
        """Of the tiny vocabulary a byte is a token, and <s> and </s> are one each: text that spells them stays bytes."""
        def tools(text):
            return [{"type": "function", "function": {"name": "f", "description": text, "parameters": {
                "type": "object", "properties": {text: {"enum": [text], "description": text}}}}}]

        plain = self.prompt_tokens(tools=tools("abc"))
        self.assertEqual(self.prompt_tokens(tools=tools("<s>")), plain)
        self.assertEqual(self.prompt_tokens(tools=tools("</s>")), plain + 4)
        self.assertEqual(self.prompt_tokens(tools=tools("{{x}}")), plain + 8)
        for text in ("abc", "<s>"):
            body = called(json.dumps({text: text}), name="f")
            self.assertEqual(self.post(CHAT, body)["usage"]["prompt_tokens"],
                             self.post(CHAT, called({"xyz": "xyz"}))["usage"]["prompt_tokens"])

    def test_tools_of_the_other_api_carry_none_either(self):
        """Its tools, calls and results take another way to the same template."""
        def tokens(text):
            schema = {"type": "object", "properties": {text: {"enum": [text], "description": text}}}
            use = {"type": "tool_use", "id": "1", "name": "f", "input": {text: text}}
            result = {"type": "tool_result", "tool_use_id": "1", "content": text}
            messages = [*MESSAGES, {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
            body = {"messages": messages, "tools": [{"name": "f", "description": text, "input_schema": schema}]}
            return self.post("/v1/messages/count_tokens", body)["input_tokens"]

        plain = tokens("abc")
        self.assertEqual(tokens("<s>"), plain)
        self.assertEqual(tokens("</s>"), plain + 7)
        self.assertEqual(tokens("{{x}}"), plain + 14)


class NamesTest(serving.ToyCase):
    def test_names_that_are_paths(self):
        names = ["..", "../x", "../../../../etc/passwd", "/etc/passwd", "/proc/self/environ", "a/../b", "\0", "a\0b", "~",
                 "~root", ".", "./tiny", "tiny/..", "tiny/../tiny", "file:///etc/passwd", "http://127.0.0.1/x", "//x",
                 "\\\\host\\share", "C:\\x", "%2e%2e%2f", "..%00", "con", "-", "--help", "$(id)", "`id`", "a;b", "|x",
                 "x" * 512, "\u202e"]
        self.assertGreaterEqual(len(names), 30)
        for name in names:
            for path, body in ((CHAT, chat(model=name)), (TEXT, text(model=name)), ("/v1/responses", {"input": "a", "model": name}),
                               ("/v1/embeddings", {"input": "a", "model": name})):
                with self.subTest(name=name, path=path):
                    error = self.post(path, body, 404)["error"]
                    self.assertEqual(error["code"], "model_not_found")
                    self.assertNotIn("passwd", error["message"])

    def test_errors_do_not_quote_the_prompt(self):
        secret = "my-secret-words"
        for body in (chat(messages=[{"role": "user", "content": secret}], temperature=9),
                     chat(messages=[{"role": "user", "content": secret * 100}]),
                     chat(messages=[{"role": secret, "content": secret}]),
                     chat(messages=[{"role": "user", "content": [{"type": secret, "text": secret}]}])):
            answer = self.server.post(CHAT, body)
            self.assertEqual(answer.status, 400)
            self.assertNotIn(secret, answer.body.decode())


# A request to each route of Ollama's that takes a body.
OLLAMA = {"/api/chat": {"messages": MESSAGES, "options": {"num_predict": 3}},
          "/api/generate": {"prompt": "a", "options": {"num_predict": 3}}, "/api/embed": {"input": "a"},
          "/api/embeddings": {"prompt": "a"}, "/api/show": {}}


def strange_values(rng):
    """Values of every kind, the usual ones that break parsers among them."""
    return rng.choice([
        None, True, False, "", "x", "\0", "NaN", "1", "-1", -1, 0, 1, 1.5, -0.0, 1e308, -1e308, 5e-324, 2**31, 2**31 - 1, -2**31,
        2**32, 2**53 + 1, 2**63, 2**63 - 1, -2**63, 2**64, 10**30, [], {}, [None], [[]], [{}], [1, "a", None], {"a": 1},
        {"": None}, [[[[[[]]]]]], ["a"] * 1000, list(range(300)), {"type": "text"}, {"type": "function"}, "\ud83d\ude00" * 50,
    ])


class TypeConfusionTest(serving.ToyCase):
    """Each field of each endpoint with values of every kind."""

    def test_type_confusion(self):
        limits = self.server.get("/v1/limits").json()
        fields = {path: sorted(table) for path, table in find_tables(limits).items()}
        self.assertGreaterEqual(len(fields), 6)
        rng = random.Random(20)
        count = 100000 if LONG else 1500
        base = {CHAT: chat(), TEXT: text(), "/v1/messages": {"messages": MESSAGES, "max_tokens": 3},
                "/v1/responses": {"input": "a", "max_output_tokens": 3},
                "/v1/messages/count_tokens": {"messages": MESSAGES}, "/v1/embeddings": {"input": "a"},
                "/tokenize": {"text": "a"}, "/detokenize": {"ids": [5]}, **OLLAMA}
        connection = self.server.connect()
        statuses = set()
        for i in range(count):
            path = rng.choice(sorted(fields))
            body = dict(base[path])
            for _ in range(rng.choice([1, 1, 1, 2, 3])):
                body[rng.choice(fields[path])] = strange_values(rng)
            data = json.dumps(body)
            begun = time.monotonic()
            connection.request("POST", path, data, {"content-type": "application/json"})
            response = connection.getresponse()
            answer = response.read()
            serving.check_refusal(response.status, answer, time.monotonic() - begun)
            self.assertLess(time.monotonic() - begun, MOST_SECONDS, f"{path} {data[:500]}")
            statuses.add(response.status)
            self.assertIn(response.status, (200, 400, 404), f"{path} {data[:500]} -> {answer[:500]}")
        connection.close()
        self.assertEqual(statuses & {200, 400}, {200, 400})
        self.assert_alive()

    def test_deep_and_large(self):
        for value in ("[" * 10000 + "]" * 10000, '{"a":' * 10000 + "1" + "}" * 10000, "[" + "1," * 999999 + "1]"):
            for path, field in ((CHAT, "messages"), (CHAT, "tools"), (TEXT, "prompt"), (TEXT, "logit_bias"), ("/v1/responses", "input"),
                                ("/v1/responses", "tools")):
                begun = time.monotonic()
                answer = self.server.post(path, '{"%s":%s}' % (field, value))
                self.assertEqual(answer.status, 400, answer.body[:300])
                self.assertLess(time.monotonic() - begun, MOST_SECONDS)
        self.assert_alive()


def find_tables(limits):
    """The tables of fields by path, wherever /v1/limits has them."""
    found = {}
    for key, value in limits.items():
        if key.startswith("/") and isinstance(value, dict):
            found[key] = value
        elif isinstance(value, dict):
            found.update(find_tables(value))
    return found


def poison(path, token):
    """NaN in the embedding of one token."""
    file = path / "model.safetensors"
    data = bytearray(file.read_bytes())
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    entry = next(value for name, value in header.items() if name.endswith("embed_tokens.weight"))
    assert entry["dtype"] == "F32", entry["dtype"]
    rows, width = entry["shape"]
    begin = 8 + size + entry["data_offsets"][0] + token * width * 4
    assert token < rows
    data[begin:begin + width * 4] = struct.pack("<f", float("nan")) * width
    file.unlink()
    file.write_bytes(data)


class NotANumberTest(serving.ToyCase):
    """A model whose logits are not numbers after one token."""

    POISONED = 40

    @classmethod
    def make_model(cls, path):
        models.make_tiny(path)
        poison(path, cls.POISONED)
        return path

    def complete_ids(self, ids, **fields):
        body = {"prompt": ids, "max_tokens": 40, "temperature": 0, "seed": 1,
                "logit_bias": {"2": -100, str(self.POISONED): -100}, **fields}
        return self.server.post(TEXT, body)

    def test_only_that_request_errs(self):
        good = [list(range(100 + i, 110 + i)) for i in range(3)]
        alone = [self.complete_ids(ids).json()["choices"][0]["text"] for ids in good]
        answers = {}

        def ask(i, ids):
            answers[i] = self.complete_ids(ids)

        for _ in range(3):
            threads = [threading.Thread(target=ask, args=(i, ids)) for i, ids in enumerate(good)]
            threads.append(threading.Thread(target=ask, args=("bad", [100, self.POISONED, 101])))
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(serving.ANSWER_SECONDS)
            self.assertEqual(answers["bad"].status, 500, answers["bad"].body[:300])
            self.assertEqual(answers["bad"].json()["error"]["code"], "model_error")
            for i, text_alone in enumerate(alone):
                self.assertEqual(answers[i].status, 200)
                self.assertEqual(answers[i].json()["choices"][0]["text"], text_alone)
        self.assert_alive()

    def test_in_a_stream(self):
        # The first token is chosen by a bias, so that the second step is the one that fails.
        body = {"prompt": [100], "max_tokens": 5, "temperature": 0, "logit_bias": {str(self.POISONED): 100}, "stream": True}
        answer = self.server.post(TEXT, body)
        self.assertIn(b'"error"', answer.body)
        self.assertNotIn(b"[DONE]", answer.body)
        self.assertEqual(self.complete_ids([100, 101]).status, 200)
        self.assertEqual(self.complete_ids([self.POISONED], echo=True, logprobs=2).status, 500)


if __name__ == "__main__":
    unittest.main()
