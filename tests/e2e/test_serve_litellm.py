"""The server as `litellm` sees it, unpatched, by each of the three APIs: answers, streams and a tool with its result."""
import json
import os
import unittest

import client_case
import packages
import scripted

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks for one elsewhere when it is loaded
os.environ["LITELLM_MODE"] = "PRODUCTION"  # no settings of a .env

HELLO = [{"role": "user", "content": "hello"}]
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "The weather of a place",
                                         "parameters": client_case.WEATHER["schema"]}}


class LiteLlm(client_case.ScriptedCase):
    @classmethod
    def setUpClass(cls):
        cls.litellm = packages.need("litellm", apart="litellm")
        super().setUpClass()
        url = cls.server.url
        cls.apis = {"openai/default": url + "/v1", "anthropic/default": url, "ollama_chat/default": url}

    def ask(self, model, messages=HELLO, base=None, **more):
        return self.litellm.completion(model=model, api_base=base or self.apis[model], api_key="any", messages=messages,
                                       timeout=120, num_retries=0, max_tokens=300, **more)

    def test_answers(self):
        for model in self.apis:
            with self.subTest(model):
                answer = self.ask(model, temperature=0.5)
                self.assertEqual(answer.choices[0].message.content, scripted.PLAIN)
                self.assertEqual(answer.choices[0].finish_reason, "stop")
                self.assertGreater(answer.usage.completion_tokens, 20)
                self.assertEqual(self.ask(model, [{"role": "system", "content": "Be brief."}, *HELLO]).choices[0].message.content,
                                 scripted.PLAIN)
        # Its other way to Ollama's API, by /api/generate.
        self.assertEqual(self.ask("ollama/default", base=self.server.url).choices[0].message.content, scripted.PLAIN)

    def test_streams(self):
        for model in self.apis:
            with self.subTest(model):
                pieces = [piece.choices[0].delta.content or "" for piece in self.ask(model, stream=True)]
                self.assertEqual("".join(pieces), scripted.PLAIN)
                self.assertGreater(len([piece for piece in pieces if piece]), 5)

    def test_a_tool_and_its_result(self):
        for model in self.apis:
            with self.subTest(model):
                message = self.ask(model, tools=[TOOL]).choices[0].message
                call, = message.tool_calls
                self.assertEqual(call.function.name, "get_weather")
                self.assertEqual(json.loads(call.function.arguments), json.loads(scripted.CITY))
                result = {"role": "tool", "tool_call_id": call.id, "name": "get_weather", "content": "18"}
                after = self.ask(model, [*HELLO, message.model_dump(exclude_none=True), result], tools=[TOOL])
                self.assertEqual(after.choices[0].message.content, scripted.AFTER)
                whole = self.litellm.stream_chunk_builder(list(self.ask(model, tools=[TOOL], stream=True)))
                call, = whole.choices[0].message.tool_calls
                self.assertEqual(json.loads(call.function.arguments), json.loads(scripted.CITY))

    def test_thoughts_and_responses(self):
        ask = [{"role": "user", "content": "think about it"}]
        for model in self.apis:
            with self.subTest(model):
                message = self.ask(model, ask).choices[0].message
                self.assertEqual((message.content, message.reasoning_content), ("Then I answer.", scripted.THOUGHT))
        made = self.litellm.responses(model="openai/default", api_base=self.apis["openai/default"], api_key="any", input="hello")
        self.assertEqual(made.output[0].content[0].text, scripted.PLAIN)


if __name__ == "__main__":
    unittest.main()
