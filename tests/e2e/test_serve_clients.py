"""The server as the `openai` Python client sees it, unpatched."""
import asyncio
import json
import math
import os
import pathlib
import signal
import tempfile
import threading

import client_case
import packages
import scripted

HELLO = [{"role": "user", "content": "hello"}]
TOOLS = [
    {"type": "function", "function": {"name": t["name"], "description": t["description"], "parameters": t["schema"]}}
    for t in (client_case.WEATHER, client_case.TIME)
]


class OpenAiCase(client_case.ScriptedCase):
    @classmethod
    def setUpClass(cls):
        cls.openai = packages.need("openai")
        super().setUpClass()
        cls.client = cls.connect_client()
        cls.addClassCleanup(cls.client.close)
        cls.model = cls.client.models.list().data[0].id

    @classmethod
    def connect_client(cls, **more):
        more = {"api_key": client_case.KEY, "timeout": 120, "max_retries": 0, **more}
        return cls.openai.OpenAI(base_url=cls.server.url + "/v1", **more)

    def chat_with(self, messages=HELLO, **more):
        return self.client.chat.completions.create(model=self.model, messages=messages, **more)

    def stream_of(self, **more):
        """The chunks of a streamed answer."""
        return list(self.chat_with(stream=True, **more))


class Chat(OpenAiCase):
    def test_models(self):
        models = self.client.models.list().data
        self.assertEqual(len(models), 1)
        self.assertEqual(self.client.models.retrieve(self.model).id, self.model)

    def test_an_answer(self):
        answer = self.chat_with(max_completion_tokens=100, temperature=0.7, top_p=0.9, seed=3, user="me", store=False)
        choice = answer.choices[0]
        self.assertEqual(choice.message.content, scripted.PLAIN)
        self.assertEqual(choice.message.role, "assistant")
        self.assertIsNone(choice.message.tool_calls)
        self.assertEqual(choice.finish_reason, "stop")
        self.assertEqual(answer.object, "chat.completion")
        self.assertEqual(answer.model, self.model)
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)
        self.assertGreater(answer.usage.prompt_tokens, 10)
        self.assertGreater(answer.usage.completion_tokens, 20)

    def test_a_stream_with_usage(self):
        chunks = self.stream_of(stream_options={"include_usage": True})
        self.assertEqual({chunk.id for chunk in chunks}, {chunks[0].id})
        self.assertEqual({chunk.object for chunk in chunks}, {"chat.completion.chunk"})
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        text = [c.choices[0].delta.content or "" for c in chunks if c.choices]
        self.assertEqual("".join(text), scripted.PLAIN)
        self.assertGreater(sum(map(bool, text)), 5)
        self.assertEqual([c.choices[0].finish_reason for c in chunks if c.choices][-1], "stop")
        self.assertEqual(chunks[-1].choices, [])
        self.assertGreater(chunks[-1].usage.completion_tokens, 20)

    def test_the_stream_helper(self):
        with self.client.chat.completions.stream(model=self.model, messages=HELLO) as stream:
            events = [event.type for event in stream]
            final = stream.get_final_completion()
        self.assertIn("content.delta", events)
        self.assertEqual(final.choices[0].message.content, scripted.PLAIN)

    def test_a_stream_may_be_left(self):
        stream = self.chat_with(stream=True)
        next(iter(stream))
        stream.close()
        self.assertEqual(self.chat_with().choices[0].message.content, scripted.PLAIN)

    def test_length_and_stop(self):
        short = self.chat_with(max_tokens=3)
        self.assertEqual(short.choices[0].finish_reason, "length")
        self.assertTrue(scripted.PLAIN.startswith(short.choices[0].message.content))
        self.assertEqual(short.usage.completion_tokens, 3)
        stopped = self.chat_with(stop=["side", "never"])
        self.assertEqual(stopped.choices[0].message.content, scripted.PLAIN[: scripted.PLAIN.index("side")])
        self.assertEqual(stopped.choices[0].finish_reason, "stop")
        chunks = self.stream_of(stop="said")
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        self.assertEqual(text, scripted.PLAIN[: scripted.PLAIN.index("said")])

    def test_several_choices(self):
        answer = self.chat_with(n=3)
        self.assertEqual([c.index for c in answer.choices], [0, 1, 2])
        self.assertEqual({c.message.content for c in answer.choices}, {scripted.PLAIN})
        texts = {0: "", 1: ""}
        for chunk in self.stream_of(n=2):
            texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
        self.assertEqual(texts, {0: scripted.PLAIN, 1: scripted.PLAIN})

    def test_logprobs(self):
        scores = self.chat_with(logprobs=True, top_logprobs=2, max_tokens=5).choices[0].logprobs.content
        self.assertEqual(len(scores), 5)
        for score in scores:
            self.assertEqual(len(score.top_logprobs), 2)
            self.assertGreater(score.logprob, -0.1)  # the script leaves no choice
            self.assertEqual(bytes(score.bytes).decode(errors="replace"), score.token)
        chunks = self.stream_of(logprobs=True, max_tokens=5)
        streamed = [s for c in chunks if c.choices and c.choices[0].logprobs for s in c.choices[0].logprobs.content]
        self.assertEqual([s.token for s in streamed], [s.token for s in scores])

    def test_reasoning(self):
        ask = [{"role": "user", "content": "think about it"}]
        message = self.chat_with(ask).choices[0].message
        self.assertEqual(message.content, "Then I answer.")
        self.assertEqual(message.reasoning_content, scripted.THOUGHT)
        chunks = self.stream_of(messages=ask)
        deltas = [c.choices[0].delta for c in chunks if c.choices]
        self.assertEqual("".join(getattr(d, "reasoning_content", None) or "" for d in deltas), scripted.THOUGHT)
        self.assertEqual("".join(d.content or "" for d in deltas), "Then I answer.")

    def test_every_field_of_the_client_is_known(self):
        for path, method in (("/v1/chat/completions", self.client.chat.completions.create),
                             ("/v1/completions", self.client.completions.create),
                             ("/v1/embeddings", self.client.embeddings.create)):
            with self.subTest(path):
                self.assertEqual(client_case.parameters(method) - self.known_fields(path), set())

    def test_async(self):
        async def ask(client, stream):
            answer = await client.chat.completions.create(model=self.model, messages=HELLO, stream=stream)
            if not stream:
                return answer.choices[0].message.content
            return "".join([c.choices[0].delta.content or "" async for c in answer if c.choices])

        async def all_of_them():
            url = self.server.url + "/v1"
            async with self.openai.AsyncOpenAI(base_url=url, api_key="x", timeout=120, max_retries=0) as client:
                return await asyncio.gather(*(ask(client, i % 2 == 0) for i in range(12)))

        self.assertEqual(set(asyncio.run(all_of_them())), {scripted.PLAIN})


class Tools(OpenAiCase):
    def test_a_call_and_its_result(self):
        messages = list(HELLO)
        answer = self.chat_with(messages, tools=TOOLS, tool_choice="auto")
        choice = answer.choices[0]
        self.assertEqual(choice.finish_reason, "tool_calls")
        self.assertEqual(choice.message.content.strip(), "I will look.")
        call = choice.message.tool_calls[0]
        self.assertEqual((call.type, call.function.name), ("function", "get_weather"))
        self.assertEqual(json.loads(call.function.arguments), json.loads(scripted.CITY))
        messages.append(choice.message)
        messages.append({"role": "tool", "tool_call_id": call.id, "content": "18"})
        self.assertEqual(self.chat_with(messages, tools=TOOLS).choices[0].message.content, scripted.AFTER)

    def test_a_streamed_call(self):
        chunks = self.stream_of(tools=TOOLS)
        deltas = [c for chunk in chunks if chunk.choices for c in chunk.choices[0].delta.tool_calls or []]
        self.assertEqual([d.function.name for d in deltas if d.function.name], ["get_weather"])
        self.assertEqual(len({d.id for d in deltas if d.id}), 1)
        pieces = [d.function.arguments for d in deltas if d.function.arguments]
        self.assertGreater(len(pieces), 3)
        self.assertEqual("".join(pieces), scripted.CITY)
        self.assertEqual([c.choices[0].finish_reason for c in chunks if c.choices][-1], "tool_calls")
        with self.client.chat.completions.stream(model=self.model, messages=HELLO, tools=TOOLS) as stream:
            final = stream.get_final_completion()
        self.assertEqual(final.choices[0].message.tool_calls[0].function.arguments, scripted.CITY)

    def test_several_calls(self):
        ask = [{"role": "user", "content": "two at once"}]
        calls = self.chat_with(ask, tools=TOOLS).choices[0].message.tool_calls
        self.assertEqual([c.function.name for c in calls], ["get_weather", "get_time"])
        self.assertEqual([json.loads(c.function.arguments) for c in calls], [{"city": "Rome"}, {}])
        self.assertEqual(len({c.id for c in calls}), 2)
        one = self.chat_with(ask, tools=TOOLS, parallel_tool_calls=False).choices[0]
        self.assertEqual([c.function.name for c in one.message.tool_calls], ["get_weather"])
        self.assertEqual(one.finish_reason, "tool_calls")

    def test_none_means_none(self):
        answer = self.chat_with(tools=TOOLS, tool_choice="none")
        self.assertEqual(answer.choices[0].message.content, scripted.PLAIN)
        self.assertIsNone(answer.choices[0].message.tool_calls)

    def test_forced_calls(self):
        """A model that would answer with text makes a call, and its arguments fit the schema."""
        tools = [{"type": "function", "function": {"name": name, "parameters": {
            "type": "object", "properties": {"unit": {"$ref": "#/$defs/unit"}}, "required": ["unit"],
            "additionalProperties": False, "$defs": {"unit": {"enum": ["C", "F"]}}}}} for name in ("warm", "cold")]
        for choice, names in (("required", {"warm", "cold"}),
                              ({"type": "function", "function": {"name": "cold"}}, {"cold"}),
                              ({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [
                                  {"type": "function", "function": {"name": "warm"}}]}}, {"warm"})):
            with self.subTest(choice):
                answer = self.chat_with(tools=tools, tool_choice=choice, temperature=0).choices[0]
                self.assertEqual(answer.finish_reason, "tool_calls")
                self.assertFalse(answer.message.content)
                call, = answer.message.tool_calls
                self.assertIn(call.function.name, names)
                self.assertIn(json.loads(call.function.arguments), ({"unit": "C"}, {"unit": "F"}))
                chunks = self.stream_of(tools=tools, tool_choice=choice, temperature=0)
                pieces = [d for c in chunks if c.choices for d in c.choices[0].delta.tool_calls or []]
                self.assertEqual("".join(p.function.arguments or "" for p in pieces), call.function.arguments)
        with self.assertRaises(self.openai.BadRequestError) as caught:
            self.chat_with(tools=TOOLS, tool_choice={"type": "function", "function": {"name": "none_such"}})
        self.assertEqual(caught.exception.param, "tool_choice.function.name")


    def test_stop_strings_act_on_visible_text(self):
        whole = self.chat_with(tools=TOOLS).choices[0]
        inside = self.chat_with(tools=TOOLS, stop=["city", "get_weather", "Z"]).choices[0]
        self.assertEqual(inside.message.tool_calls[0].function.arguments, whole.message.tool_calls[0].function.arguments)
        self.assertEqual(inside.finish_reason, "tool_calls")
        before = self.chat_with(tools=TOOLS, stop=["look"]).choices[0]
        self.assertEqual((before.message.content, before.finish_reason), ("I will ", "stop"))
        self.assertIsNone(before.message.tool_calls)

    def test_arguments_are_held_to_the_schema(self):
        """What the model would write is not what the schema says: the call is one of the schema's all the same."""
        tool = {"type": "function", "function": {"name": "get_weather", "parameters": {
            "type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"],
            "additionalProperties": False}}}
        call, = self.chat_with(tools=[tool], parallel_tool_calls=False).choices[0].message.tool_calls
        self.assertIn(json.loads(call.function.arguments), ({"city": "Rome"}, {"city": "Oslo"}))

    def test_tools_beside_a_schema(self):
        """An agent with an output type: a call, and behind its result JSON of the schema."""
        schema = {"type": "object", "properties": {"degrees": {"enum": [17, 18]}}, "required": ["degrees"],
                  "additionalProperties": False}
        held = {"tools": TOOLS, "temperature": 0, "response_format": {
            "type": "json_schema", "json_schema": {"name": "weather", "strict": True, "schema": schema}}}
        asked = [{"role": "user", "content": "two"}]
        first = self.chat_with(asked, **held).choices[0]
        self.assertEqual(first.finish_reason, "tool_calls")
        self.assertEqual([c.function.name for c in first.message.tool_calls], ["get_weather", "get_time"])
        history = asked + [first.message.model_dump(exclude_none=True)]
        history += [{"role": "tool", "tool_call_id": c.id, "content": "18"} for c in first.message.tool_calls]
        last = self.chat_with(history, **held).choices[0]
        self.assertIn(json.loads(last.message.content), ({"degrees": 17}, {"degrees": 18}))
        self.assertEqual((last.finish_reason, last.message.tool_calls), ("stop", None))
        text = "".join(c.choices[0].delta.content or "" for c in self.stream_of(messages=history, **held) if c.choices)
        self.assertEqual(text, last.message.content)

    def test_a_schema_that_cannot_be_held_is_told(self):
        tool = {"type": "function", "function": {"name": "get_weather", "parameters": {
            "type": "object", "properties": {"city": {"type": "string", "pattern": "(?=x)"}}}}}
        raw = self.client.chat.completions.with_raw_response.create(model=self.model, messages=HELLO, tools=[tool])
        self.assertEqual(raw.headers["x-ingot-relaxed-tools"], "get_weather")
        self.assertEqual(raw.parse().choices[0].message.tool_calls[0].function.name, "get_weather")
        self.assertIn("ingot_tools_relaxed_total", self.server.get("/metrics").body.decode())
        tool["function"]["strict"] = True
        for more in ({"tools": [tool]}, {"tools": [{**tool, "function": {**tool["function"], "strict": False}}],
                                         "tool_choice": "required"}):
            with self.assertRaises(self.openai.BadRequestError) as caught:
                self.chat_with(**more)
            self.assertIn("#/properties/city/pattern of the parameters of get_weather", str(caught.exception))

    def test_custom_tools(self):
        tool = {"type": "custom", "custom": {"name": "sum", "description": "adds", "format": {
            "type": "grammar", "grammar": {"syntax": "lark", "definition": 'start: N "+" N\nN: /[0-9]{1,2}/'}}}}
        choice = {"type": "custom", "custom": {"name": "sum"}}
        answer = self.chat_with(tools=[tool], tool_choice=choice, parallel_tool_calls=False, temperature=0).choices[0]
        call, = answer.message.tool_calls
        self.assertEqual((call.type, call.custom.name), ("custom", "sum"))
        self.assertRegex(call.custom.input, r"^\d{1,2}\+\d{1,2}$")
        chunks = self.stream_of(tools=[tool], tool_choice=choice, parallel_tool_calls=False, temperature=0)
        deltas = [d for c in chunks if c.choices for d in c.choices[0].delta.tool_calls or []]
        pieces = [(d.model_extra or {}).get("custom", {}).get("input", "") for d in deltas]
        self.assertEqual("".join(pieces), call.custom.input)
        history = HELLO + [answer.message.model_dump(exclude_none=True),
                           {"role": "tool", "tool_call_id": call.id, "content": "3"}]
        self.assertEqual(self.chat_with(history, tools=[tool]).choices[0].message.content, scripted.AFTER)


class Completions(OpenAiCase):
    def complete_with(self, prompt="<", **more):
        return self.client.completions.create(model=self.model, prompt=prompt, **more)

    def test_text_lists_and_ids(self):
        self.assertEqual(len(self.complete_with(max_tokens=4).choices), 1)
        self.assertEqual([c.index for c in self.complete_with(["a", "b", "c"], max_tokens=2).choices], [0, 1, 2])
        self.assertEqual(len(self.complete_with([5, 6, 7], max_tokens=2).choices), 1)
        self.assertEqual(len(self.complete_with([[5, 6], [7]], max_tokens=2, n=2).choices), 4)

    def test_echo_and_logprobs(self):
        # An end token that is drawn is counted, but has no text and no entry.
        answer = self.complete_with("abc", max_tokens=2, echo=True, logprobs=1, extra_body={"ignore_eos": True})
        self.assertTrue(answer.choices[0].text.startswith("abc"))
        self.assertEqual(len(answer.choices[0].logprobs.tokens), answer.usage.total_tokens)
        self.assertIsNone(answer.choices[0].logprobs.token_logprobs[0])

    def test_a_stream(self):
        whole = self.complete_with("abc", max_tokens=6, temperature=0).choices[0].text
        stream = self.complete_with("abc", max_tokens=6, temperature=0, stream=True)
        self.assertEqual("".join(c.choices[0].text for c in stream if c.choices), whole)


class Embeddings(OpenAiCase):
    def test_vectors(self):
        made = self.client.embeddings.create(model=self.model, input=["one text", "another", "one text"])
        self.assertEqual([e.index for e in made.data], [0, 1, 2])
        first, second, third = (e.embedding for e in made.data)
        self.assertEqual(first, third)
        self.assertEqual(len(first), len(second))
        self.assertGreater(made.usage.prompt_tokens, 5)
        floats = self.client.embeddings.create(model=self.model, input="one text", encoding_format="float")
        for a, b in zip(floats.data[0].embedding, first):
            self.assertTrue(math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-6))


class Errors(OpenAiCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="ingot-e2e-")
        cls.addClassCleanup(folder.cleanup)
        keys = pathlib.Path(folder.name) / "keys"
        keys.write_text(f"tester {client_case.KEY}\nnarrow narrow-{client_case.KEY} concurrency=1\n")
        # For the user that the server runs as, whoever that is.
        keys.chmod(0o644)
        os.chmod(folder.name, 0o755)
        cls.ARGS = ("--api-key-file", str(keys))
        super().setUpClass()

    def refused(self, kind, **more):
        with self.assertRaises(kind) as caught:
            self.chat_with(**more)
        return caught.exception

    def test_errors_name_the_field(self):
        bad = self.openai.BadRequestError
        self.assertEqual(self.refused(bad, temperature=-1).param, "temperature")
        self.assertEqual(self.refused(bad, max_tokens=0).param, "max_tokens")
        self.assertEqual(self.refused(bad, extra_body={"no_such_field": 1}).param, "no_such_field")
        self.assertEqual(self.refused(bad, messages=[]).param, "messages")
        long = self.refused(bad, messages=[{"role": "user", "content": "x" * 5000}])
        self.assertEqual(long.code, "context_length_exceeded")
        schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nonsense"}}}
        self.assertTrue(self.refused(bad, response_format=schema).param.startswith("response_format"))

    def test_unknown_models_and_keys(self):
        with self.assertRaises(self.openai.NotFoundError):
            self.client.chat.completions.create(model="no-such-model", messages=HELLO)
        with self.connect_client(api_key="wrong") as stranger:
            with self.assertRaises(self.openai.AuthenticationError):
                stranger.models.list()

    def test_a_timeout_and_what_follows(self):
        self.server.process.send_signal(signal.SIGSTOP)
        try:
            with self.connect_client(timeout=0.5) as hasty, self.assertRaises(self.openai.APITimeoutError):
                hasty.chat.completions.create(model=self.model, messages=HELLO)
        finally:
            self.server.process.send_signal(signal.SIGCONT)
        self.assertEqual(self.chat_with().choices[0].message.content, scripted.PLAIN)

    def test_the_client_tries_again(self):
        narrow = f"narrow-{client_case.KEY}"
        slow = self.hold(narrow)  # until it ends, another request of the key is refused
        answers = []

        def ask():
            with self.connect_client(api_key=narrow, max_retries=100) as patient:
                answers.append(patient.chat.completions.create(model=self.model, messages=HELLO))

        asking = threading.Thread(target=ask)
        asking.start()
        slow.close()
        asking.join(120)
        self.assertFalse(asking.is_alive())
        self.assertEqual(answers[0].choices[0].message.content, scripted.PLAIN)

    def hold(self, key):
        """A connection with a long answer under way, during which the key's other requests are told to come back."""
        endless = {"prompt": [0], "max_tokens": 4000, "n": 8, "ignore_eos": True, "stream": True, "temperature": 0}
        with self.connect_client(api_key=key) as hasty:
            for _ in range(20):
                slow = self.server.connect()
                slow.request("POST", "/v1/completions", json.dumps(endless), {"authorization": f"Bearer {key}"})
                answer = slow.getresponse()
                if answer.status == 200:
                    try:
                        hasty.chat.completions.create(model=self.model, messages=HELLO)  # the other had ended
                    except self.openai.RateLimitError as error:
                        self.assertGreater(float(error.response.headers["retry-after"]), 0)
                        self.held = answer  # keeps the socket open
                        return slow
                slow.close()
        self.fail("no request was ever refused")


if __name__ == "__main__":
    import unittest

    unittest.main()
