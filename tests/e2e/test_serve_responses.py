"""/v1/responses as the `openai` Python client sees it, unpatched, and every event by the schema of the client's own types."""
import copy
import json
import os
import pathlib
import tempfile
import unittest

import client_case
import models
import packages
import scripted
import serving
import support
from test_serve_bad_requests import poison
from test_serve_clients import OpenAiCase

PATH = "/v1/responses"
TOOLS = [{"type": "function", "name": t["name"], "description": t["description"], "parameters": t["schema"], "strict": False}
         for t in (client_case.WEATHER, client_case.TIME)]
SHELL = {"type": "custom", "name": "shell", "description": "Runs a command"}
CODEX = json.loads((support.DATA / "clients/codex_request.json").read_text())
UNSTREAMED = {name: value for name, value in CODEX.items() if not name.startswith("stream")}
SCHEMAS = client_case.Schemas("openai_responses")


def plain(response):
    """What must not depend on how an answer is sent: without its ids and times."""
    response = copy.deepcopy(response)
    for name in ("id", "created_at", "completed_at"):
        response.pop(name, None)
    response["usage"].pop("input_tokens_details", None)  # the second one finds its prompt in the cache
    for item in response["output"]:
        item.pop("id"), item.pop("call_id", None)
    return response


class ResponsesCase(OpenAiCase):
    seen = set()  # kinds of events and items that streams had

    def respond(self, given="hello", **more):
        return self.client.responses.create(model=self.model, input=given, **more)

    def events_of(self, body):
        """The events of a stream as sent: numbered, each by its schema, whole objects at both ends."""
        answer = self.server.post(PATH, {**body, "stream": True})
        self.assertEqual(answer.status, 200, answer.body[:1000])
        events = answer.events()
        self.assertEqual([e["sequence_number"] for e in events], list(range(len(events))))
        self.assertEqual([line[7:] for line in answer.body.decode().split("\n") if line.startswith("event: ")],
                         [e["type"] for e in events])
        for event in events:
            SCHEMAS.check_event(event)
            self.seen |= {event["type"], event.get("item", {}).get("type")}
        self.assertEqual([e["type"] for e in events[:2]], ["response.created", "response.in_progress"])
        return events

    def both(self, body):
        """The answer whole; the stream has the same."""
        whole = self.post(PATH, body)
        SCHEMAS.check("Response", whole)
        events = self.events_of(body)
        last = events[-1]
        self.assertEqual(last["type"], f"response.{whole['status']}")
        self.assertEqual(plain(last["response"]), plain(whole))
        self.assertEqual([e["item"] for e in events if e["type"] == "response.output_item.done"], last["response"]["output"])
        for index, item in enumerate(last["response"]["output"]):
            self.check_deltas([e for e in events if e.get("output_index") == index], item)
        return whole

    def check_deltas(self, events, item):
        """The pieces of one item, joined, are the item."""
        text = "".join(e["delta"] for e in events if e["type"].endswith(".delta"))
        parts = item.get("content") or item.get("summary") or [{"text": item.get("arguments", item.get("input"))}]
        self.assertEqual(text, parts[0]["text"])
        self.assertEqual({e.get("item_id", item["id"]) for e in events}, {item["id"]})
        self.assertEqual(events[0]["type"], "response.output_item.added")
        self.assertEqual(events[-1]["type"], "response.output_item.done")
        done = [e for e in events if e["type"].endswith(("text.done", "arguments.done", "input.done"))]
        self.assertEqual([e.get("text", e.get("arguments", e.get("input"))) for e in done], [text])


class Text(ResponsesCase):
    def test_an_answer(self):
        answer = self.respond(instructions="Be brief.", max_output_tokens=100, temperature=0.7, top_p=0.9, user="me",
                              metadata={"a": "b"}, truncation="auto", service_tier="auto", store=True)
        self.assertEqual(answer.output_text, scripted.PLAIN)
        self.assertEqual((answer.object, answer.status, answer.model), ("response", "completed", self.model))
        self.assertEqual((answer.instructions, answer.metadata, answer.temperature), ("Be brief.", {"a": "b"}, 0.7))
        self.assertFalse(answer.store)
        self.assertRegex(answer.id, "^resp_[0-9a-f]{32}$")
        self.assertEqual(answer.usage.total_tokens, answer.usage.input_tokens + answer.usage.output_tokens)
        self.assertGreater(answer.usage.output_tokens, 20)
        self.assertEqual(answer.usage.output_tokens_details.reasoning_tokens, 0)
        again = self.respond(instructions="Be brief.")
        self.assertGreater(again.usage.input_tokens_details.cached_tokens, 0)

    def test_streams_are_what_whole_answers_are(self):
        self.both({"input": "hello"})
        self.both({"input": [{"role": "user", "content": [{"type": "input_text", "text": "think"}]}]})
        self.both({"input": "think", "reasoning": {"summary": "auto"}})
        self.both({"input": "hello", "tools": TOOLS})
        self.both({"input": "two at once", "tools": TOOLS})
        self.both({"input": "hello", "include": ["message.output_text.logprobs"], "top_logprobs": 2})
        self.both({"input": "hello", "max_output_tokens": 3})
        self.both({"input": "hello", "tools": TOOLS, "max_output_tokens": 12})
        shell = {**SHELL, "format": {"type": "grammar", "syntax": "regex", "definition": "(ls|pwd) -[a-z]"}}
        self.both({"input": "hello", "tools": [shell], "tool_choice": "required", "temperature": 0})
        failures = {"response.failed", "error"}  # test_serve_stream_ends.py
        self.assertEqual(self.seen - {None} | failures, set(SCHEMAS.events) | {
            "message", "reasoning", "function_call", "custom_tool_call"})

    def test_the_stream_helper(self):
        with self.client.responses.stream(model=self.model, input="hello") as stream:
            kinds = [event.type for event in stream]
            final = stream.get_final_response()
        self.assertEqual((kinds[0], kinds[-1]), ("response.created", "response.completed"))
        self.assertGreater(kinds.count("response.output_text.delta"), 5)
        self.assertEqual(final.output_text, scripted.PLAIN)

    def test_parse(self):
        pydantic = packages.need("pydantic")
        typing = packages.need("typing")
        shape = pydantic.create_model("Shape", kind=(typing.Literal["round", "square"], ...), sides=(typing.Literal[3, 4], ...))
        answer = self.client.responses.parse(model=self.model, input="hello", text_format=shape, temperature=0)
        self.assertIn(answer.output_parsed.kind, ("round", "square"))
        whole = self.respond(text={"format": {"type": "json_object"}}, max_output_tokens=200, temperature=0)
        self.assertTrue(whole.output_text.lstrip().startswith("{"))

    def test_reasoning(self):
        answer = self.respond("think about it", reasoning={"effort": "low"})
        thought, said = answer.output
        self.assertEqual((thought.type, thought.content[0].text, thought.summary), ("reasoning", scripted.THOUGHT, []))
        self.assertEqual(said.content[0].text, "Then I answer.")
        self.assertTrue(3 < answer.usage.output_tokens_details.reasoning_tokens < answer.usage.output_tokens)
        summed = self.respond("think about it", reasoning={"summary": "auto"})
        self.assertEqual(summed.output[0].summary[0].text, scripted.THOUGHT)
        # All of it may be sent back.
        more = self.respond([{"role": "user", "content": "think"}, *[i.model_dump() for i in answer.output],
                             {"role": "user", "content": "and?"}])
        self.assertEqual(more.output_text, scripted.PLAIN)

    def test_logprobs(self):
        answer = self.respond(include=["message.output_text.logprobs"], top_logprobs=2, max_output_tokens=5)
        scores = answer.output[0].content[0].logprobs
        self.assertEqual(len(scores), 5)
        self.assertEqual({len(s.top_logprobs) for s in scores}, {2})

    def test_the_length_ends_it(self):
        answer = self.respond(max_output_tokens=3)
        self.assertEqual((answer.status, answer.incomplete_details.reason), ("incomplete", "max_output_tokens"))
        self.assertTrue(scripted.PLAIN.startswith(answer.output_text))
        self.assertEqual((answer.usage.output_tokens, answer.output[0].status), (3, "incomplete"))

    def test_what_does_not_fit_loses_its_oldest_turns(self):
        turns = [{"role": role, "content": "x" * 900} for _ in range(6) for role in ("user", "assistant")]
        turns.append({"role": "user", "content": "hello"})
        with self.assertRaises(self.openai.BadRequestError) as caught:
            self.respond(turns)
        self.assertEqual((caught.exception.param, caught.exception.code), ("input", "context_length_exceeded"))
        answer = self.respond(turns, truncation="auto")
        self.assertEqual(answer.output_text, scripted.PLAIN)
        self.assertTrue(1000 < answer.usage.input_tokens <= 3072, answer.usage.input_tokens)

    def test_every_field_of_the_client_is_known(self):
        for method in (self.client.responses.create, self.client.responses.parse):
            names = client_case.parameters(method) - {"text_format", "parse_as"}
            self.assertEqual(names - self.known_fields(PATH), set())

    def test_refused_by_name(self):
        def refused(**body):
            return self.post(PATH, {"input": "a", **body}, 400)["error"]

        error = refused(previous_response_id="resp_1")
        self.assertEqual(error["param"], "previous_response_id")
        self.assertIn("--store-responses", error["message"])
        for name, value in (("background", True), ("conversation", "conv_1"), ("prompt", {"id": "p"}), ("truncation", "x"),
                            ("max_output_tokens", 0), ("no_such_field", 1), ("input", []), ("metadata", {"a": 1}),
                            ("metadata", {"a": "x" * 3000})):
            self.assertEqual(refused(**{name: value})["param"], name)
        for item, param in (({"type": "item_reference", "id": "msg_1"}, "type"),
                            ({"type": "web_search_call", "id": "ws_1"}, "type"),
                            ({"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}, "content[0].type"),
                            ({"role": "user"}, "content"), ({"content": "a"}, "role"),
                            ({"type": "function_call", "call_id": "1", "name": "f"}, "arguments"),
                            ({"type": "function_call_output", "output": "1"}, "call_id")):
            self.assertEqual(refused(input=[item])["param"], f"input[0].{param}")
        wide = [{**SHELL, "name": f"t{i}", "description": "x" * 3000} for i in range(100)]
        self.assertIn("repeats", refused(tools=wide, tool_choice="none")["message"])
        schema = {"format": {"type": "json_schema", "name": "x", "schema": {"type": "nonsense"}}}
        self.assertEqual(refused(text=schema)["param"], "text.format.schema")
        self.assertEqual(self.server.get(PATH + "/resp_1").status, 404)
        self.assertEqual(self.server.request("DELETE", PATH + "/resp_1").status, 404)

    def test_unknown_models_are_told_what_is_served(self):
        with self.assertRaises(self.openai.NotFoundError) as caught:
            self.client.responses.create(model="no-such-model", input="a")
        self.assertIn(self.model, str(caught.exception))


class Tools(ResponsesCase):
    def test_a_call_and_its_result(self):
        items = [{"role": "user", "content": "hello"}]
        answer = self.respond(items, tools=TOOLS)
        said, call = answer.output
        self.assertEqual(said.content[0].text.strip(), "I will look.")
        self.assertEqual((call.type, call.name, call.status), ("function_call", "get_weather", "completed"))
        self.assertEqual(json.loads(call.arguments), json.loads(scripted.CITY))
        items += answer.output
        items.append({"type": "function_call_output", "call_id": call.call_id, "output": "18"})
        self.assertEqual(self.respond(items, tools=TOOLS).output_text, scripted.AFTER)
        items[-1]["output"] = [{"type": "input_text", "text": "18"}]
        self.assertEqual(self.respond(items, tools=TOOLS).output_text, scripted.AFTER)

    def test_choices(self):
        self.assertEqual(self.respond(tools=TOOLS, tool_choice="none").output_text, scripted.PLAIN)
        calls = [i for i in self.respond("two at once", tools=TOOLS, parallel_tool_calls=False).output]
        self.assertEqual([c.name for c in calls], ["get_weather"])
        schema = {"type": "object", "properties": {"unit": {"enum": ["C", "F"]}}, "required": ["unit"],
                  "additionalProperties": False}
        tools = [{"type": "function", "name": name, "parameters": schema, "strict": True} for name in ("warm", "cold")]
        for choice, names in (("required", {"warm", "cold"}), ({"type": "function", "name": "cold"}, {"cold"}),
                              ({"type": "allowed_tools", "mode": "required", "tools": [
                                  {"type": "web_search"}, {"type": "function", "name": "warm"}]}, {"warm"})):
            answer = self.respond(tools=tools, tool_choice=choice, temperature=0)
            call, = answer.output
            self.assertIn(call.name, names)
            self.assertIn(json.loads(call.arguments), ({"unit": "C"}, {"unit": "F"}))
        with self.assertRaises(self.openai.BadRequestError) as caught:
            self.respond(tools=TOOLS, tool_choice={"type": "function", "name": "none_such"})
        self.assertEqual(caught.exception.param, "tool_choice.name")

    def test_tools_beside_a_format(self):
        schema = {"type": "object", "properties": {"unit": {"enum": ["C", "F"]}}, "required": ["unit"],
                  "additionalProperties": False}
        held = {"tools": TOOLS, "temperature": 0,
                "text": {"format": {"type": "json_schema", "name": "unit", "schema": schema, "strict": True}}}
        calls = self.both({"input": "two at once", **held})["output"]
        self.assertEqual([c["name"] for c in calls], ["get_weather", "get_time"])
        results = [{"type": "function_call_output", "call_id": c["call_id"], "output": "18"} for c in calls]
        said, = self.both({"input": [{"role": "user", "content": "two"}, *calls, *results], **held})["output"]
        self.assertIn(json.loads(said["content"][0]["text"]), ({"unit": "C"}, {"unit": "F"}))

    def test_custom_tools(self):
        tool = {**SHELL, "format": {"type": "grammar", "syntax": "regex", "definition": "(ls|pwd) -[a-z]"}}
        body = {"input": "hello", "tools": [tool], "tool_choice": {"type": "custom", "name": "shell"}, "temperature": 0}
        whole = self.both(body)
        call = whole["output"][-1]
        self.assertEqual((call["type"], call["name"]), ("custom_tool_call", "shell"))
        self.assertRegex(call["input"], r"^(ls|pwd) -[a-z]$")
        items = [{"role": "user", "content": "hello"}, call,
                 {"type": "custom_tool_call_output", "call_id": call["call_id"], "output": "a b"}]
        self.assertEqual(self.respond(items, tools=[SHELL]).status, "completed")

    def test_custom_tools_of_a_grammar(self):
        lark = {"type": "grammar", "syntax": "lark", "definition": 'start: COMMAND (" -" FLAG)?\nCOMMAND: "ls" | "pwd"\nFLAG: /[a-z]/\n'}
        body = {"input": "hello", "tools": [{**SHELL, "format": lark}], "tool_choice": "required", "temperature": 0}
        call, = self.both(body)["output"]
        self.assertRegex(call["input"], r"^(ls|pwd)( -[a-z])?$")
        for format, param in (({**lark, "definition": "start: nowhere"}, "tools"),
                              ({**lark, "syntax": "regex", "definition": "("}, "tools"),
                              ({"type": "grammar", "syntax": "lark"}, "tools[0].format.definition")):
            error = self.post(PATH, {**body, "tool_choice": "auto", "tools": [{**SHELL, "format": format}]}, 400)["error"]
            self.assertEqual(error["param"], param, error)

    def test_tools_that_run_elsewhere(self):
        tools = [{"type": "web_search"}, *TOOLS, {"type": "mcp", "server_label": "x", "server_url": "http://127.0.0.1/"},
                 {"type": "file_search", "vector_store_ids": ["a"]}]
        answer = self.both({"input": "hello", "tools": tools})
        self.assertEqual(answer["tools_left_out"], ["web_search", "mcp", "file_search"])
        self.assertEqual([t["name"] for t in answer["tools"]], ["get_weather", "get_time"])
        only = self.post(PATH, {"input": "hello", "tools": [{"type": "web_search"}]})
        self.assertEqual((only["tools"], only["tools_left_out"]), ([], ["web_search"]))
        for choice, param in (({"type": "web_search_preview"}, "tool_choice.type"), ("required", "tool_choice")):
            error = self.post(PATH, {"input": "a", "tools": [{"type": "web_search"}], "tool_choice": choice}, 400)["error"]
            self.assertEqual(error["param"], param)
        twice = self.post(PATH, {"input": "a", "tools": [tools[0], TOOLS[0], TOOLS[0]]}, 400)["error"]
        self.assertEqual(twice["param"], "tools[2].name")
        self.assertEqual(self.post(PATH, {"input": "a", "tools": [{"type": "functoin"}]}, 400)["error"]["param"],
                         "tools[0].type")

    def test_what_codex_sends(self):
        events = self.events_of(CODEX)
        self.assertEqual(events[-1]["type"], "response.completed")
        self.assertEqual(events[-1]["response"]["tools_left_out"], ["local_shell", "web_search"])
        self.assertFalse(events[-1]["response"]["store"])
        self.both(UNSTREAMED)

    def test_malformed_bodies(self):
        """A body of every kind of item and tool with any value in any place."""
        # Of a small grammar: most bodies are compiled anew.
        tools = [{**tool, "format": {**tool["format"], "definition": "start: /[a-z]+/"}} if "format" in tool else tool
                 for tool in CODEX["tools"]]
        self.check_malformed({PATH: {**CODEX, "tools": tools, "max_output_tokens": 2}})


class Patches(ResponsesCase):
    """A model that answers Codex with a patch, by the tool whose input has a grammar."""

    PATCH = "*** Begin Patch\n*** Add File: hello.txt\n+Grüße, \"you\"\n*** Update File: b.py\n@@ def f():\n-  old\n+  new\n*** End Patch"

    @classmethod
    def make_model(cls, path):
        call = json.dumps({"name": "apply_patch", "arguments": {"input": cls.PATCH}}, ensure_ascii=False)
        return scripted.make(path, {"<|call|>": f"I edit.\n<tool_call>\n{call}\n</tool_call>"},
                             scripted.TEMPLATE.replace("<|after|>", "<|call|>"))

    def test_a_patch(self):
        said, call = self.both(UNSTREAMED)["output"]
        self.assertEqual(said["content"][0]["text"].strip(), "I edit.")
        self.assertEqual((call["type"], call["name"], call["status"]), ("custom_tool_call", "apply_patch", "completed"))
        self.assertEqual(call["input"], self.PATCH)
        output = {"type": "custom_tool_call_output", "call_id": call["call_id"], "output": "Done"}
        more = self.post(PATH, {**UNSTREAMED, "input": [*CODEX["input"], said, call, output]})
        self.assertEqual(more["status"], "completed")


class Stored(ResponsesCase):
    """With --store-responses and two keys."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="ingot-e2e-")
        cls.addClassCleanup(folder.cleanup)
        keys = pathlib.Path(folder.name) / "keys"
        keys.write_text(f"tester {client_case.KEY}\nother other-{client_case.KEY}\n")
        keys.chmod(0o644)
        os.chmod(folder.name, 0o755)
        cls.ARGS = ("--api-key-file", str(keys), "--store-responses", "1M", "--alias", "gpt-5", "--alias", "tiny:8b")
        super().setUpClass()
        cls.other = cls.connect_client(api_key=f"other-{client_case.KEY}")
        cls.addClassCleanup(cls.other.close)

    def test_kept_for_its_key(self):
        made = self.respond("hello", instructions="Be brief.")
        self.assertTrue(made.store)
        self.assertEqual(self.client.responses.retrieve(made.id).to_dict(), made.to_dict())
        items = self.client.responses.input_items.list(made.id).data
        self.assertEqual([(i.role, i.content[0].text) for i in items], [("user", "hello")])
        for refused in (lambda: self.other.responses.retrieve(made.id), lambda: self.other.responses.delete(made.id),
                        lambda: self.other.responses.input_items.list(made.id),
                        lambda: self.other.responses.create(input="a", previous_response_id=made.id),
                        lambda: self.client.responses.retrieve("resp_" + "0" * 32)):
            self.assertRaises(self.openai.NotFoundError, refused)
        self.client.responses.delete(made.id)
        self.assertRaises(self.openai.NotFoundError, lambda: self.client.responses.retrieve(made.id))

    def test_a_conversation_goes_on(self):
        first = self.respond("hello", tools=TOOLS)
        call = first.output[-1]
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "18"}
        second = self.respond([output], tools=TOOLS, previous_response_id=first.id)
        self.assertEqual((second.output_text, second.previous_response_id), (scripted.AFTER, first.id))
        pages = self.client.responses.input_items.list(second.id, limit=2, order="asc")
        self.assertEqual([i.type for i in pages], ["message", "message", "function_call", "function_call_output"])
        with self.client.responses.stream(model=self.model, input="more", previous_response_id=second.id) as stream:
            third = stream.get_final_response()
        self.assertGreater(third.usage.input_tokens, self.respond("more").usage.input_tokens + 50)
        self.assertEqual(self.client.responses.retrieve(third.id).output_text, third.output_text)

    def test_what_is_not_kept_says_so(self):
        unkept = self.respond(store=False)
        self.assertFalse(unkept.store)
        self.assertRaises(self.openai.NotFoundError, lambda: self.client.responses.retrieve(unkept.id))

    def test_the_oldest_gives_way(self):
        mine = self.other.responses.create(input="mine")
        wide = [{**SHELL, "name": f"t{i}", "description": "x" * 1000} for i in range(100)]
        made = [self.respond("hello", tools=wide, tool_choice="none") for _ in range(15)]
        self.assertTrue(all(m.store for m in made))
        self.assertRaises(self.openai.NotFoundError, lambda: self.client.responses.retrieve(made[0].id))
        self.assertEqual(self.client.responses.retrieve(made[-1].id).id, made[-1].id)
        self.assertEqual(self.other.responses.retrieve(mine.id).id, mine.id)

    def test_names(self):
        self.assertEqual([m.id for m in self.client.models.list().data], [self.model, "gpt-5", "tiny:8b"])
        for name in (self.model, f"{self.model}:latest", "gpt-5", "gpt-5:latest", "tiny:8b"):
            self.assertEqual(self.client.responses.create(model=name, input="hello").output_text, scripted.PLAIN)
        for name in ("gpt", "tiny:7b", "tiny:8b:latest:latest"):
            with self.assertRaises(self.openai.NotFoundError) as caught:
                self.client.responses.create(model=name, input="hello")
            for known in (self.model, "gpt-5", "tiny:8b"):
                self.assertIn(known, str(caught.exception))


class LongConversations(serving.ToyCase):
    ARGS = ("--store-responses", "8M")

    def test_one_that_no_body_could_bring_is_not_kept(self):
        """What goes on from an answer reads its whole conversation: each may be as long as a body's, and no longer."""
        turns = [{"role": role, "content": "a"} for _ in range(1500) for role in ("user", "assistant")]
        body = {"input": [*turns, {"role": "user", "content": "b"}], "truncation": "auto", "max_output_tokens": 2}
        first = self.post(PATH, body)
        self.assertTrue(first["store"])
        longer = self.post(PATH, {**body, "previous_response_id": first["id"]})
        self.assertFalse(longer["store"])
        self.assertEqual(self.server.get(f"{PATH}/{longer['id']}").status, 404)
        self.assertTrue(self.post(PATH, {"input": "c", "truncation": "auto", "max_output_tokens": 2,
                                         "previous_response_id": first["id"]})["store"])


class Failure(serving.ToyCase):
    """A model whose logits are not numbers after one token."""

    POISONED = 40

    @classmethod
    def make_model(cls, path):
        models.make_tiny(path)
        poison(path, cls.POISONED)
        return path

    def test_a_stream_that_cannot_go_on(self):
        body = {"input": "a", "max_output_tokens": 5, "temperature": 0, "logit_bias": {str(self.POISONED): 100}}
        events = self.server.post(PATH, {**body, "stream": True}).events()
        self.assertEqual([e["sequence_number"] for e in events], list(range(len(events))))
        for event in events:
            SCHEMAS.check_event(event)
        last = events[-1]
        self.assertEqual((last["type"], last["response"]["status"]), ("response.failed", "failed"))
        self.assertEqual(last["response"]["error"]["code"], "server_error")
        self.assertEqual(self.post(PATH, body, 500)["error"]["code"], "model_error")


if __name__ == "__main__":
    unittest.main()
