"""The server as the `anthropic` Python client sees it, unpatched; every event by the schema of the client's own types."""
import json

import client_case
import packages
import scripted

PATH = "/v1/messages"
HELLO = [{"role": "user", "content": "hello"}]
TOOLS = [
    {"name": t["name"], "description": t["description"], "input_schema": t["schema"]}
    for t in (client_case.WEATHER, client_case.TIME)
]
SCHEMAS = client_case.Schemas("anthropic_messages")
UNIT = {"type": "object", "properties": {"unit": {"enum": ["C", "F"]}}, "required": ["unit"],
        "additionalProperties": False}


def plain(message):
    """What must not depend on how an answer is sent: without ids, and what of the prompt was found in the cache."""
    message = json.loads(json.dumps(message))
    message.pop("id")
    usage = message["usage"]
    usage["input_tokens"] += usage.pop("cache_read_input_tokens")
    for block in message["content"]:
        block.pop("id", None)
    return message


def joined(events):
    """The message that a stream tells, put together as a client does."""
    message = events[0]["message"]
    for event in events[1:]:
        block = message["content"][event["index"]] if event["type"] != "content_block_start" and "index" in event else None
        if event["type"] == "content_block_start":
            message["content"].append(event["content_block"])
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            name = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature",
                    "input_json_delta": "partial_json"}[delta["type"]]
            block[name] = block.get(name, "") + delta[name]
        elif event["type"] == "content_block_stop" and block["type"] == "tool_use":
            block["input"] = json.loads(block.pop("partial_json", None) or "{}")
        elif event["type"] == "message_delta":
            message.update(event["delta"])
            message["usage"] = event["usage"]
    return message


class Messages(client_case.ScriptedCase):
    @classmethod
    def setUpClass(cls):
        cls.anthropic = packages.need("anthropic")
        super().setUpClass()
        cls.client = cls.anthropic.Anthropic(base_url=cls.server.url, api_key="x", timeout=120, max_retries=0)
        cls.addClassCleanup(cls.client.close)
        cls.name = cls.server.get("/v1/models").json()["data"][0]["id"]

    def ask(self, messages=HELLO, **more):
        return self.client.messages.create(**{"model": self.name, "max_tokens": 200, "messages": messages, **more})

    def test_an_answer(self):
        answer = self.ask(system="Be brief.", metadata={"user_id": "me"}, extra_body={"temperature": 0.5, "top_k": 3})
        self.assertEqual((answer.type, answer.role, answer.stop_reason), ("message", "assistant", "end_turn"))
        self.assertEqual([block.text for block in answer.content], [scripted.PLAIN])
        self.assertGreater(answer.usage.output_tokens, 20)
        self.assertGreater(answer.usage.input_tokens + answer.usage.cache_read_input_tokens, 10)

    def test_a_stream(self):
        with self.client.messages.stream(model=self.name, max_tokens=200, messages=HELLO) as stream:
            text = list(stream.text_stream)
            final = stream.get_final_message()
        self.assertEqual("".join(text), scripted.PLAIN)
        self.assertGreater(len(text), 5)
        self.assertEqual(final.stop_reason, "end_turn")
        self.assertGreater(final.usage.output_tokens, 20)

    def test_length_and_stop(self):
        self.assertEqual(self.ask(max_tokens=3).stop_reason, "max_tokens")
        stopped = self.ask(stop_sequences=["side"])
        self.assertEqual((stopped.stop_reason, stopped.stop_sequence), ("stop_sequence", "side"))
        self.assertEqual(stopped.content[0].text, scripted.PLAIN[: scripted.PLAIN.index("side")])

    def test_a_call_and_its_result(self):
        answer = self.ask(tools=TOOLS)
        self.assertEqual(answer.stop_reason, "tool_use")
        call = answer.content[-1]
        self.assertEqual((call.type, call.name), ("tool_use", "get_weather"))
        self.assertEqual(call.input, {"city": "Zürich", "days": [1, 2]})
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "18"}
        messages = [*HELLO, {"role": "assistant", "content": answer.content}, {"role": "user", "content": [result]}]
        self.assertEqual(self.ask(messages, tools=TOOLS).content[0].text, scripted.AFTER)

    def test_a_streamed_call(self):
        with self.client.messages.stream(model=self.name, max_tokens=200, messages=HELLO, tools=TOOLS) as stream:
            pieces = [event.partial_json for event in stream if event.type == "input_json"]
            final = stream.get_final_message()
        self.assertEqual("".join(pieces), scripted.CITY)
        self.assertEqual(final.content[-1].input, {"city": "Zürich", "days": [1, 2]})
        self.assertEqual(final.stop_reason, "tool_use")

    def test_several_calls(self):
        ask = [{"role": "user", "content": "two at once"}]
        self.assertEqual([b.name for b in self.ask(ask, tools=TOOLS).content], ["get_weather", "get_time"])
        one = self.ask(ask, tools=TOOLS, tool_choice={"type": "auto", "disable_parallel_tool_use": True})
        self.assertEqual([b.name for b in one.content], ["get_weather"])

    def test_thoughts(self):
        answer = self.ask([{"role": "user", "content": "think about it"}])
        self.assertEqual([block.type for block in answer.content], ["thinking", "text"])
        self.assertEqual(answer.content[0].thinking, scripted.THOUGHT)
        self.assertEqual(answer.content[1].text, "Then I answer.")

    def test_thinking_is_asked_for_and_sent_back(self):
        ask = [{"role": "user", "content": "think about it"}]
        for thinking in ({"type": "enabled", "budget_tokens": 1024}, {"type": "adaptive"}, {"type": "disabled"}):
            with self.client.messages.stream(model=self.name, max_tokens=200, messages=ask, thinking=thinking) as stream:
                kinds = [event.type for event in stream]
                final = stream.get_final_message()
            self.assertIn("thinking", kinds)
            self.assertIn("signature", kinds)
            self.assertEqual(final.content[0].thinking, scripted.THOUGHT)
            self.assertTrue(final.content[0].signature)
            self.assertGreater(final.usage.output_tokens_details.thinking_tokens, 5)
        hidden = {"type": "redacted_thinking", "data": "abc"}
        back = [*ask, {"role": "assistant", "content": [hidden, *(b.model_dump() for b in final.content)]}, *HELLO]
        self.assertEqual(self.ask(back).content[0].text, scripted.PLAIN)

    def test_streams_are_what_whole_answers_are(self):
        seen = set()  # events, blocks and changes of them
        tool = {"name": "warm", "input_schema": UNIT}
        for more in ({}, {"tools": TOOLS}, {"messages": [{"role": "user", "content": "two"}], "tools": TOOLS},
                     {"messages": [{"role": "user", "content": "think"}]}, {"max_tokens": 4},
                     {"tools": TOOLS, "max_tokens": 12}, {"stop_sequences": ["side"]},
                     {"output_config": {"format": {"type": "json_schema", "schema": UNIT}}},
                     {"messages": [{"role": "user", "content": "two"}], "tools": TOOLS,
                      "output_config": {"format": {"type": "json_schema", "schema": UNIT}}},
                     {"tools": [tool], "tool_choice": {"type": "any"}}):
            with self.subTest(more):
                body = {"messages": HELLO, "max_tokens": 200, "temperature": 0, **more}
                whole = self.post(PATH, body)
                SCHEMAS.check("Message", whole)
                events = self.server.post(PATH, {**body, "stream": True}).events()
                for event in events:
                    if event["type"] != "ping":
                        SCHEMAS.check_event(event)
                    inner = event.get("content_block") or event.get("delta", {})
                    seen |= {event["type"], inner.get("type")}
                if more != {"tools": TOOLS, "max_tokens": 12}:  # cut inside of a call, whose arguments are no JSON then
                    self.assertEqual(plain(joined([e for e in events if e["type"] != "ping"])), plain(whole))
                self.assertEqual([e["type"] for e in events[-2:]], ["message_delta", "message_stop"])
        self.assertEqual(seen - {None, "ping"}, set(SCHEMAS.events) - {"error"} | {
            "text", "thinking", "tool_use", "text_delta", "thinking_delta", "signature_delta", "input_json_delta"})

    def test_forced_calls(self):
        """A model that would answer with text makes a call, and its arguments fit the schema."""
        tools = [{"name": name, "input_schema": UNIT, "strict": True} for name in ("warm", "cold")]
        for choice, names in (({"type": "any"}, {"warm", "cold"}), ({"type": "tool", "name": "cold"}, {"cold"}),
                              ({"type": "any", "disable_parallel_tool_use": True}, {"warm", "cold"})):
            with self.subTest(choice):
                answer = self.ask(tools=tools, tool_choice=choice, max_tokens=3000, extra_body={"temperature": 0})
                self.assertEqual(answer.stop_reason, "tool_use")
                call, = answer.content
                self.assertIn(call.name, names)
                self.assertIn(call.input, ({"unit": "C"}, {"unit": "F"}))
        none = self.ask(tools=tools, tool_choice={"type": "none"})
        self.assertEqual(none.content[0].text, scripted.PLAIN)
        strange = {"type": "object", "properties": {"a": {"type": "string", "maximumLength": 2}}}
        named = {"type": "tool", "name": "f"}
        with self.assertRaises(self.anthropic.BadRequestError) as caught:
            self.ask(tools=[{"name": "f", "input_schema": strange, "strict": True}], tool_choice=named)
        self.assertIn("maximumLength", caught.exception.body["error"]["message"])

    def test_an_answer_of_a_schema(self):
        packages.need("pydantic")
        import pydantic

        class Weather(pydantic.BaseModel):
            unit: bool

        answer = self.client.messages.parse(model=self.name, max_tokens=200, messages=HELLO, output_format=Weather)
        self.assertIsInstance(answer.parsed_output, Weather)

    def test_tools_beside_a_format(self):
        held = {"tools": TOOLS, "output_config": {"format": {"type": "json_schema", "schema": UNIT}},
                "max_tokens": 3000, "extra_body": {"temperature": 0}}
        asked = [{"role": "user", "content": "two"}]
        first = self.ask(asked, **held)
        self.assertEqual([block.name for block in first.content], ["get_weather", "get_time"])
        results = [{"type": "tool_result", "tool_use_id": block.id, "content": "18"} for block in first.content]
        history = [*asked, {"role": "assistant", "content": [block.model_dump() for block in first.content]},
                   {"role": "user", "content": results}]
        last = self.ask(history, **held)
        self.assertIn(json.loads(last.content[0].text), ({"unit": "C"}, {"unit": "F"}))
        self.assertEqual(last.stop_reason, "end_turn")

    def test_results_of_every_shape(self):
        use = {"type": "tool_use", "id": "1", "name": "get_weather", "input": {"city": "Rome"}}
        for result in ({"content": "18"}, {"content": [{"type": "text", "text": "18"}, {"type": "text", "text": "C"}]},
                       {"content": "no such city", "is_error": True}, {"is_error": True}, {}):
            block = {"type": "tool_result", "tool_use_id": "1", "cache_control": {"type": "ephemeral"}, **result}
            messages = [*HELLO, {"role": "assistant", "content": [use]}, {"role": "user", "content": [block]}]
            self.assertEqual(self.ask(messages, tools=TOOLS).content[0].text, scripted.AFTER)

    def test_an_agent(self):
        """The client's own loop: it calls the tool, sends the result and has the answer."""
        seen = []

        @self.anthropic.beta_tool
        def get_weather(city: str, days: list[int]) -> str:
            """The weather of a place."""
            seen.append((city, days))
            return "18"

        runner = self.client.beta.messages.tool_runner(model=self.name, max_tokens=200, messages=HELLO,
                                                       tools=[get_weather], betas=["anything-2030-01-01"])
        final = runner.until_done()
        self.assertEqual(seen, [("Zürich", [1, 2])])
        self.assertEqual(final.content[0].text, scripted.AFTER)

    def test_what_coding_agents_send(self):
        """The fields of a request of Claude Code, in its second turn."""
        hint = {"type": "ephemeral", "ttl": "1h"}
        schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "additionalProperties": False, **UNIT}
        use = {"type": "tool_use", "id": "toolu_01", "name": "Read", "input": {"unit": "C"}}
        result = {"type": "tool_result", "tool_use_id": "toolu_01", "content": "18", "is_error": False, "cache_control": hint}
        body = {
            "model": self.name, "max_tokens": 32000, "stream": True, "temperature": 1, "metadata": {"user_id": "user_1"},
            "system": [{"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.37; cc_entrypoint=cli; cch=fa690;"},
                       {"type": "text", "text": "You are an agent.", "cache_control": hint}, {"type": "text", "text": "Be brief."}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "<system-reminder>x</system-reminder>"},
                                             {"type": "text", "text": "Read it.", "cache_control": hint}]},
                {"role": "assistant", "content": [{"type": "thinking", "thinking": "I read.", "signature": "abc"}, use]},
                {"role": "user", "content": [result]},
            ],
            "tools": [{"name": name, "description": "d", "input_schema": schema} for name in ("Read", "Bash", "mcp__a__b")],
            "thinking": {"type": "enabled", "budget_tokens": 31999}, "output_config": {"effort": "high"},
            "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        }
        headers = {"anthropic-version": "2023-06-01", "x-app": "cli",
                   "anthropic-beta": "claude-code-20250219,context-management-2025-06-27"}
        answer = self.server.post(PATH + "?beta=true", body, headers=headers)
        self.assertEqual(answer.status, 200, answer.body[:500])
        events = [e for e in answer.events() if e["type"] != "ping"]
        for event in events:
            SCHEMAS.check_event(event)
        self.assertEqual(joined(events)["content"][0]["text"], scripted.AFTER)
        # The next request says something else to who bills it, and later versions speak as the system once more: what
        # both begin with is found in the cache.
        body["system"][0]["text"] = body["system"][0]["text"].replace("fa690", "0d9e1")
        body["messages"].append({"role": "system", "content": "<system-reminder>Mind the budget.</system-reminder>"})
        again = joined([e for e in self.server.post(PATH, body, headers=headers).events() if e["type"] != "ping"])
        self.assertGreater(again["usage"]["cache_read_input_tokens"], 100)
        counted = {name: body[name] for name in ("model", "system", "messages", "tools", "thinking", "output_config")}
        SCHEMAS.check("MessageTokensCount", self.post(PATH + "/count_tokens?beta=true", counted, headers=headers))

    def test_headers(self):
        body = {"messages": HELLO, "max_tokens": 5}
        beta = {"anthropic-version": "2023-06-01", "anthropic-beta": "a-2030-01-01,interleaved-thinking-2025-05-14"}
        self.assertEqual(self.server.post(PATH + "?beta=true", body, headers=beta).status, 200)
        old = self.server.post(PATH, body, headers={"anthropic-version": "2023-01-01"})
        self.assertEqual((old.status, old.json()["error"]["type"]), (400, "invalid_request_error"))

    def test_malformed_bodies(self):
        """A body of every kind of block and tool with any value in any place."""
        blocks = [{"type": "thinking", "thinking": "t", "signature": "s"}, {"type": "text", "text": "a"},
                  {"type": "tool_use", "id": "1", "name": "f", "input": {"x": [1]}}]
        result = {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "r"}], "is_error": False}
        body = {
            "messages": [*HELLO, {"role": "assistant", "content": blocks}, {"role": "user", "content": [result]}],
            "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}], "max_tokens": 2,
            "tools": [{"name": "f", "description": "d", "input_schema": UNIT, "strict": False}],
            "tool_choice": {"type": "auto"}, "thinking": {"type": "enabled", "budget_tokens": 1024},
            "output_config": {"effort": "low"}, "metadata": {"user_id": "u"}, "stop_sequences": ["x"], "temperature": 0.5,
        }
        counted = {name: body[name] for name in ("messages", "system", "tools", "tool_choice", "thinking", "output_config")}
        self.check_malformed({PATH: body, PATH + "/count_tokens": counted})

    def test_every_field_of_the_client_is_known(self):
        known = self.known_fields("/v1/messages")
        self.assertEqual(client_case.parameters(self.client.messages.create) - known, set())
        beta = client_case.parameters(self.client.beta.messages.create) - {"betas"}
        self.assertEqual(beta - known, set())
        known = self.known_fields("/v1/messages/count_tokens")
        self.assertEqual(client_case.parameters(self.client.messages.count_tokens) - known, set())

    def test_tokens_are_counted(self):
        counted = self.client.messages.count_tokens(model=self.name, messages=HELLO).input_tokens
        usage = self.ask().usage
        self.assertEqual(counted, usage.input_tokens + usage.cache_read_input_tokens)
        with_tools = self.client.messages.count_tokens(model=self.name, messages=HELLO, tools=TOOLS,
                                                       tool_choice={"type": "any"}, thinking={"type": "adaptive"})
        usage = self.ask(tools=TOOLS).usage
        self.assertEqual(with_tools.input_tokens, usage.input_tokens + usage.cache_read_input_tokens)
        self.assertGreater(with_tools.input_tokens, counted + 50)

    def test_errors(self):
        for more in ({"max_tokens": 0}, {"messages": []}, {"extra_body": {"temperature": 9}},
                     {"extra_body": {"no_such_field": 1}},
                     {"tool_choice": {"type": "any"}}, {"tools": TOOLS, "tool_choice": {"type": "tool", "name": "none"}},
                     {"tools": [{"type": "bash_20250124", "name": "bash"}]},
                     {"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}):
            with self.subTest(more):
                with self.assertRaises(self.anthropic.BadRequestError) as caught:
                    self.ask(**more)
                self.assertEqual(caught.exception.body["type"], "error")
                self.assertEqual(caught.exception.body["error"]["type"], "invalid_request_error")
        with self.assertRaises(self.anthropic.NotFoundError):
            self.ask(model="no-such-model")


if __name__ == "__main__":
    import unittest

    unittest.main()
