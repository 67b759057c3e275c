"""The server as the `anthropic` Python client sees it, unpatched."""
import client_case
import packages
import scripted

HELLO = [{"role": "user", "content": "hello"}]
TOOLS = [
    {"name": t["name"], "description": t["description"], "input_schema": t["schema"]}
    for t in (client_case.WEATHER, client_case.TIME)
]


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

    def test_every_field_of_the_client_is_known(self):
        known = self.known_fields("/v1/messages")
        self.assertEqual(client_case.parameters(self.client.messages.create) - known, set())
        known = self.known_fields("/v1/messages/count_tokens")
        self.assertEqual(client_case.parameters(self.client.messages.count_tokens) - known, set())

    def test_tokens_are_counted(self):
        counted = self.client.messages.count_tokens(model=self.name, messages=HELLO).input_tokens
        usage = self.ask().usage
        self.assertEqual(counted, usage.input_tokens + usage.cache_read_input_tokens)

    def test_errors(self):
        for more in ({"max_tokens": 0}, {"messages": []}, {"extra_body": {"temperature": 9}},
                     {"extra_body": {"no_such_field": 1}},
                     {"tools": TOOLS, "tool_choice": {"type": "any"}},
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
