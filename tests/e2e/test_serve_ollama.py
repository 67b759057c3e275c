"""Ollama's API as the `ollama` Python client sees it, unpatched; every line by the schema of the client's own types."""
import json
import unittest

import client_case
import packages
import scripted

HELLO = [{"role": "user", "content": "hello"}]
TOOLS = [
    {"type": "function", "function": {"name": t["name"], "description": t["description"], "parameters": t["schema"]}}
    for t in (client_case.WEATHER, client_case.TIME)
]
UNIT = {"type": "object", "properties": {"unit": {"enum": ["C", "F"]}}, "required": ["unit"],
        "additionalProperties": False}
ROUTES = {"/api/chat": "ChatRequest", "/api/generate": "GenerateRequest", "/api/embed": "EmbedRequest",
          "/api/embeddings": "EmbeddingsRequest", "/api/show": "ShowRequest"}
SCHEMAS = client_case.Schemas("ollama")


class OllamaCase(client_case.ScriptedCase):
    @classmethod
    def setUpClass(cls):
        cls.ollama = packages.need("ollama")
        super().setUpClass()
        cls.client = cls.ollama.Client(host=cls.server.url, timeout=120)
        cls.addClassCleanup(cls.client.close)
        cls.name = cls.client.list().models[0].model

    def lines(self, path, body):
        """The objects of a stream."""
        answer = self.server.post(path, body)
        self.assertEqual(answer.status, 200, answer.body[:1000])
        self.assertEqual(answer.headers["content-type"], "application/x-ndjson")
        self.assertTrue(answer.body.endswith(b"\n"))
        return [json.loads(line) for line in answer.body.decode().splitlines()]

    def refused(self, path, body, status=400):
        error = self.post(path, body, status)
        self.assertEqual(set(error), {"error"})
        return error["error"]


class Text(OllamaCase):
    def test_chat(self):
        answer = self.client.chat(self.name, HELLO, options={"temperature": 0.5, "seed": 3, "num_ctx": 512}, keep_alive="5m")
        self.assertEqual(answer.message.content, scripted.PLAIN)
        self.assertEqual((answer.done, answer.done_reason), (True, "stop"))
        self.assertGreater(answer.eval_count, 20)
        self.assertGreater(answer.prompt_eval_count, 10)
        self.assertGreater(answer.total_duration, answer.prompt_eval_duration)
        pieces = list(self.client.chat(self.name, HELLO, stream=True))
        self.assertGreater(len(pieces), 5)
        self.assertEqual("".join(piece.message.content for piece in pieces), scripted.PLAIN)
        self.assertEqual([piece.done for piece in pieces], [False] * (len(pieces) - 1) + [True])

    def test_generate(self):
        self.assertEqual(self.client.generate(self.name, "hello", system="Be brief.").response, scripted.PLAIN)
        pieces = list(self.client.generate(self.name, "think about it", stream=True))
        self.assertEqual("".join(piece.response for piece in pieces), "Then I answer.")
        self.assertEqual("".join(piece.thinking or "" for piece in pieces), scripted.THOUGHT)
        raw = self.client.generate(self.name, "hello", raw=True, options={"num_predict": 2})
        self.assertEqual(raw.prompt_eval_count, 5)
        self.assertEqual(self.client.generate(self.name).done_reason, "load")

    def test_length_and_stop(self):
        short = self.client.chat(self.name, HELLO, options={"num_predict": 3})
        self.assertEqual((short.done_reason, short.eval_count), ("length", 3))
        stopped = self.client.chat(self.name, HELLO, options={"stop": ["side"]})
        self.assertEqual(stopped.message.content, scripted.PLAIN[: scripted.PLAIN.index("side")])
        prompt = short.prompt_eval_count
        limited = self.client.chat(self.name, HELLO, options={"num_ctx": prompt + 4})
        self.assertEqual((limited.done_reason, limited.eval_count), ("length", 4))

    def test_logprobs(self):
        scores = self.client.chat(self.name, HELLO, logprobs=True, top_logprobs=2, options={"num_predict": 5}).logprobs
        self.assertEqual(len(scores), 5)
        for score in scores:
            self.assertEqual(len(score.top_logprobs), 2)
            self.assertGreater(score.logprob, -0.1)  # the script leaves no choice

    def test_formats(self):
        for stream in (False, True):
            body = {"messages": HELLO, "format": UNIT, "stream": stream, "options": {"temperature": 0}}
            answer = self.server.post("/api/chat", body).body.decode().splitlines()
            text = "".join(json.loads(line)["message"]["content"] for line in answer)
            self.assertIn(json.loads(text), ({"unit": "C"}, {"unit": "F"}))
        made = self.client.generate(self.name, "hello", format="json", options={"num_predict": 100, "seed": 1})
        self.assertTrue(made.response.lstrip().startswith("{"), made)

    def test_thinking(self):
        ask = [{"role": "user", "content": "think about it"}]
        for think in (True, False, "high", None):
            message = self.client.chat(self.name, ask, think=think).message
            self.assertEqual((message.thinking, message.content), (scripted.THOUGHT, "Then I answer."))
        back = [*ask, message, *HELLO]
        self.assertEqual(self.client.chat(self.name, back).message.content, scripted.PLAIN)

    def test_embeddings(self):
        made = self.client.embed(self.name, ["one text", "another", "one text"])
        first, second, third = made.embeddings
        self.assertEqual(first, third)
        self.assertEqual(len(first), len(second))
        self.assertGreater(made.prompt_eval_count, 5)
        self.assertEqual(len(self.client.embeddings(self.name, "one text").embedding), len(first))

    def test_every_line_and_every_field(self):
        """Streams are what whole answers are, and the description knows each field of the client's requests."""
        kinds = {"/api/chat": "ChatResponse", "/api/generate": "GenerateResponse"}
        think = [{"role": "user", "content": "think"}]
        for path, body in (("/api/chat", {"messages": HELLO}), ("/api/chat", {"messages": think}),
                           ("/api/chat", {"messages": HELLO, "tools": TOOLS}),
                           ("/api/chat", {"messages": [{"role": "user", "content": "two"}], "tools": TOOLS}),
                           ("/api/chat", {"messages": HELLO, "tools": TOOLS, "options": {"num_predict": 12}}),
                           ("/api/chat", {"messages": HELLO, "logprobs": True, "top_logprobs": 2}),
                           ("/api/generate", {"prompt": "hello"}), ("/api/generate", {"prompt": "think"})):
            with self.subTest(body):
                whole = self.post(path, {**body, "stream": False})
                lines = self.lines(path, body)
                for line in (whole, *lines):
                    SCHEMAS.check(kinds[path], line)
                parts = [line.get("message", line) for line in lines]
                message = whole.get("message", whole)
                for name in ("content", "response", "thinking"):
                    self.assertEqual("".join(part.get(name, "") for part in parts), message.get(name, ""))
                calls = [call["function"] for part in parts for call in part.get("tool_calls", [])]
                self.assertEqual(calls, [call["function"] for call in message.get("tool_calls", [])])
                for name in ("eval_count", "prompt_eval_count", "done_reason"):
                    self.assertEqual(lines[-1][name], whole[name])
                self.assertEqual([score["token"] for line in lines for score in line.get("logprobs", [])],
                                 [score["token"] for score in whole.get("logprobs", [])])
        for kind, told in (("EmbedResponse", self.post("/api/embed", {"input": ["a", "b"]})),
                           ("EmbeddingsResponse", self.post("/api/embeddings", {"prompt": "a"})),
                           ("ShowResponse", self.post("/api/show", {})), ("ListResponse", self.server.get("/api/tags").json()),
                           ("ProcessResponse", self.server.get("/api/ps").json())):
            SCHEMAS.check(kind, told)
        types = packages.need("ollama._types")
        for path, kind in ROUTES.items():
            self.assertEqual(set(getattr(types, kind).model_fields) - self.known_fields(path), set(), path)
        options = self.server.get("/v1/limits").json()["/api/chat"]["options"]["members"]
        self.assertEqual(set(self.ollama.Options.model_fields) - set(options), set())


class Tools(OllamaCase):
    def test_a_call_and_its_result(self):
        for stream in (False, True):
            answer = self.client.chat(self.name, HELLO, tools=TOOLS, stream=stream)
            messages = [piece.message for piece in answer] if stream else [answer.message]
            self.assertEqual("".join(m.content for m in messages).strip(), "I will look.")
            call, = [call for m in messages for call in m.tool_calls or []]
            self.assertEqual(call.function.name, "get_weather")
            self.assertEqual(call.function.arguments, json.loads(scripted.CITY))
        said = {"role": "assistant", "content": "", "tool_calls": [call]}
        result = {"role": "tool", "tool_name": "get_weather", "content": "18"}
        answer = self.client.chat(self.name, [*HELLO, said, result], tools=TOOLS)
        self.assertEqual(answer.message.content, scripted.AFTER)

    def test_tools_beside_a_format(self):
        asked = [{"role": "user", "content": "two"}]
        first = self.client.chat(self.name, asked, tools=TOOLS, format=UNIT, options={"temperature": 0}).message
        self.assertEqual([call.function.name for call in first.tool_calls], ["get_weather", "get_time"])
        history = [*asked, first] + [{"role": "tool", "tool_name": call.function.name, "content": "18"}
                                     for call in first.tool_calls]
        last = self.client.chat(self.name, history, tools=TOOLS, format=UNIT, options={"temperature": 0}).message
        self.assertIn(json.loads(last.content), ({"unit": "C"}, {"unit": "F"}))

    def test_functions_as_tools(self):
        def get_weather(city: str, days: list[int]) -> str:
            """The weather of a place.

            Args:
              city: where
              days: when
            """

        call, = self.client.chat(self.name, HELLO, tools=[get_weather]).message.tool_calls
        self.assertEqual(call.function.arguments["city"], "Zürich")
        two = self.client.chat(self.name, [{"role": "user", "content": "two at once"}], tools=TOOLS).message.tool_calls
        self.assertEqual([call.function.name for call in two], ["get_weather", "get_time"])


class OpenWebUi(OllamaCase):
    """The requests of Open WebUI by an Ollama connection, in the order of a conversation with a tool: recorded fields."""

    def test_what_it_sends(self):
        self.assertEqual(self.server.get("/api/version").status, 200)
        model = self.server.get("/api/tags").json()["models"][0]["model"]
        self.assertEqual(self.server.get("/api/ps").json()["models"][0]["model"], model)
        self.assertIn("tools", self.post("/api/show", {"model": model})["capabilities"])
        options = {"temperature": 0.7, "top_p": 0.9, "top_k": 40, "min_p": 0.05, "seed": 3, "num_ctx": 2048, "num_predict": 128,
                   "repeat_last_n": 64, "repeat_penalty": 1.1, "presence_penalty": 0.0, "frequency_penalty": 0.0,
                   "stop": ["<|never|>"]}
        body = {"model": model, "stream": True, "tools": TOOLS, "options": options, "keep_alive": "5m",
                "messages": [{"role": "system", "content": "Be brief."}, *HELLO]}
        lines = self.lines("/api/chat", body)
        call, = [call for line in lines for call in line["message"].get("tool_calls", [])]
        # It keeps calls as OpenAI has them and turns them back, with the place beside the function.
        body["messages"] += [
            {"role": "assistant", "content": "I will look.",
             "tool_calls": [{"index": 0, "id": call["id"], "function": {"name": "get_weather", "arguments": {"city": "Zürich"}}}]},
            {"role": "tool", "tool_call_id": call["id"], "content": "18"}]
        self.assertEqual("".join(line["message"]["content"] for line in self.lines("/api/chat", body)), scripted.AFTER)
        # Titles and tags of conversations, and searches in documents.
        ask = [{"role": "user", "content": "### Task: a title"}]
        title = self.post("/api/chat", {"model": model, "messages": ask, "stream": False, "options": {"num_predict": 50}})
        self.assertTrue(title["done"])
        found = self.post("/api/embed", {"model": model, "input": ["one text", "another"]})
        self.assertEqual(len(found["embeddings"]), 2)


class Model(OllamaCase):
    ARGS = ("--name", "some/model", "--alias", "other:8b")

    def test_what_is_served(self):
        models = self.client.list().models
        self.assertEqual([model.model for model in models], ["some/model:latest", "other:8b"])
        self.assertGreater(models[0].size, 1000)
        self.assertRegex(models[0].digest, "^[0-9a-f]{64}$")
        self.assertEqual(models[0].details.format, "safetensors")
        self.assertEqual([model.model for model in self.client.ps().models], ["some/model:latest", "other:8b"])
        self.assertEqual(self.client.ps().models[0].context_length, 4096)
        for name in ("some/model", "some/model:latest", "other:8b"):
            self.assertEqual(self.client.chat(name, HELLO).message.content, scripted.PLAIN)
            shown = self.client.show(name)
            self.assertEqual(shown.modelinfo["general.architecture"], "llama")
            self.assertEqual(shown.modelinfo["llama.context_length"], 4096)
            self.assertLessEqual({"completion", "tools", "thinking"}, set(shown.capabilities))
            self.assertIn("messages", shown.template)
        told = self.server.post("/api/show", {}).body.decode()
        self.assertNotIn(str(self.directory.name), told)
        self.assertNotIn("tmp", told)
        self.assertRegex(self.server.get("/api/version").json()["version"], r"^\d+\.\d+\.\d+$")

    def test_what_is_not(self):
        with self.assertRaises(self.ollama.ResponseError) as caught:
            self.client.chat("no-such-model", HELLO)
        self.assertEqual(caught.exception.status_code, 404)
        self.assertIn("some/model", caught.exception.error)
        for name, call in {"pull": self.client.pull, "push": self.client.push, "delete": self.client.delete}.items():
            with self.assertRaises(self.ollama.ResponseError, msg=name) as caught:
                call("some/model")
            self.assertEqual(caught.exception.status_code, 404, name)
        for method, path in (("POST", "/api/copy"), ("POST", "/api/create"), ("HEAD", "/api/blobs/sha256:0"),
                             ("POST", "/api/blobs/sha256:0")):
            self.assertEqual(self.server.request(method, path, "{}" if method == "POST" else None).status, 404, path)


class Errors(OllamaCase):
    def test_refused_by_name(self):
        chat, generate = {"messages": HELLO}, {"prompt": "a"}
        for path, body, field in (
            ("/api/chat", {**chat, "options": {"num_ctx": 4097}}, "options.num_ctx"),
            ("/api/chat", {**chat, "options": {"mirostat": 1}}, "options.mirostat"),
            ("/api/chat", {**chat, "options": {"num_thread": 4}}, "options.num_thread"),
            ("/api/chat", {**chat, "options": {"temperature": 9}}, "options.temperature"),
            ("/api/chat", {**chat, "options": {"temprature": 0.5}}, "options.temprature"),
            ("/api/chat", {"messages": [{"role": "user", "content": "a", "images": ["aaaa"]}]}, "messages[0].images"),
            ("/api/chat", {"messages": [{"role": "user", "content": "x" * 5000}]}, "messages"),
            ("/api/generate", {**generate, "suffix": "b"}, "suffix"),
            ("/api/generate", {**generate, "template": "{{ .Prompt }}"}, "template"),
            ("/api/generate", {**generate, "images": ["aaaa"]}, "images"),
            ("/api/generate", {**generate, "context": [1, 2]}, "context"),
            ("/api/generate", {**generate, "raw": True, "system": "s"}, "system"),
            ("/api/embed", {"input": ["a"] * 65}, "input"),
            ("/api/embed", {"input": "a", "truncate": True}, "truncate"),
            ("/api/show", {"template": "x"}, "template"),
        ):
            with self.subTest(body=str(body)[:80]):
                self.assertTrue(self.refused(path, body).startswith(field + " "), self.refused(path, body))
        self.assertIn("JSON", self.refused("/api/chat", "{"))
        foreign = self.server.post("/api/chat", chat, headers={"origin": "http://evil.example"})
        self.assertEqual((foreign.status, set(foreign.json())), (403, {"error"}))
        host = self.server.get("/api/tags", headers={"host": "evil.example"})
        self.assertEqual(host.status, 403)

    def test_malformed_bodies(self):
        """A body of every kind of message, tool and option with any value in any place."""
        call = {"function": {"name": "f", "arguments": {"x": [1]}}, "id": "1"}
        options = {"num_ctx": 300, "num_predict": 2, "seed": 1, "temperature": 0.5, "top_k": 4, "stop": ["x"],
                   "repeat_penalty": 1.1, "repeat_last_n": 64}
        messages = [{"role": "system", "content": "s"}, *HELLO,
                    {"role": "assistant", "content": "", "thinking": "t", "tool_calls": [call]},
                    {"role": "tool", "content": "r", "tool_name": "f"}]
        tools = [{"type": "function", "function": {"name": "f", "description": "d", "parameters": UNIT}}]
        self.check_malformed({
            "/api/chat": {"messages": messages, "tools": tools, "options": options, "think": True, "keep_alive": "5m"},
            "/api/generate": {"prompt": "a", "system": "s", "raw": False, "options": options, "think": False, "format": UNIT},
            "/api/embed": {"input": ["a", "b"], "options": {"num_ctx": 300}, "keep_alive": 5},
            "/api/embeddings": {"prompt": "a", "options": {}},
            "/api/show": {"model": "", "verbose": True},
        })


if __name__ == "__main__":
    unittest.main()
