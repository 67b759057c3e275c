"""The `openai-agents` package on /v1/responses, unpatched: a loop of two tools, a hand-off, guardrails."""
import asyncio
import json
import os
import unittest

import client_case
import packages
import scripted


def call(name, **arguments):
    return f'<tool_call>\n{{"name": "{name}", "arguments": {json.dumps(arguments)}}}\n</tool_call>'


DONE = "Rome has 21 degrees, and it is noon there."
POEM = "Roses are red; this verse was handed over."
ANSWERS = {"<|first|>": call("get_weather", city="Rome"), "<|second|>": call("get_time", place="Roma"), "<|done|>": DONE,
           "<|over|>": call("transfer_to_poet"), "<|poem|>": POEM}
# What comes next is told by what was called so far.
TEMPLATE = """\
{%- if tools %}{{ '<s>system\\n' }}Call as <tool_call>{"name": ..., "arguments": ...}</tool_call>
{%- for tool in tools %}{{ tool | tojson }}{% endfor %}{{ '</s>' }}{% endif %}
{%- set state = namespace(results=0, poem=false) %}
{%- for message in messages %}{{ '<s>' + message.role + '\\n' + message.content }}
{%- if message.role == 'tool' %}{% set state.results = state.results + 1 %}{% endif %}
{%- if 'poem' in message.content %}{% set state.poem = true %}{% endif %}
{%- for call in message.tool_calls or [] %}{{ '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments | tojson }}{{ '}\\n</tool_call>' }}{% endfor %}{{ '</s>' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<s>assistant\\n' }}
{%- if not tools %}<|poem|>{% elif state.poem %}<|over|>{% elif state.results == 0 %}<|first|>
{%- elif state.results == 1 %}<|second|>{% else %}<|done|>{% endif %}{% endif %}"""


class Agents(client_case.ScriptedCase):
    @classmethod
    def make_model(cls, path):
        return scripted.make(path, ANSWERS, TEMPLATE)

    @classmethod
    def setUpClass(cls):
        os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"  # it would send traces to its maker
        cls.agents = packages.need("agents")
        super().setUpClass()

    def setUp(self):
        self.called = []

        @self.agents.function_tool
        def get_weather(city: str) -> str:
            """The weather of a place"""
            self.called.append(("get_weather", city))
            return "21 degrees"

        @self.agents.function_tool
        def get_time(place: str) -> str:
            """The time of a place"""
            self.called.append(("get_time", place))
            return "12:00"

        self.tools = [get_weather, get_time]

    def agent(self, client, name="helper", **more):
        model = self.agents.OpenAIResponsesModel(model="default", openai_client=client)
        return self.agents.Agent(name=name, instructions=f"You are the {name}.", model=model, **more)

    def run_agent(self, make, text, stream=False):
        """What the agent that make(client) gives says to a text."""
        openai = packages.need("openai")

        async def run():
            async with openai.AsyncOpenAI(base_url=self.server.url + "/v1", api_key="x", timeout=120, max_retries=0) as client:
                if not stream:
                    return await self.agents.Runner.run(make(client), text)
                result = self.agents.Runner.run_streamed(make(client), text)
                self.kinds = [event.type async for event in result.stream_events()]
                return result

        return asyncio.run(run())

    def test_a_loop_of_two_tools(self):
        for stream in (False, True):
            self.called.clear()
            result = self.run_agent(lambda client: self.agent(client, tools=self.tools), "What about Rome?", stream)
            self.assertEqual(result.final_output, DONE)
            self.assertEqual(self.called, [("get_weather", "Rome"), ("get_time", "Roma")])
            self.assertEqual(len(result.raw_responses), 3)
            self.assertGreater(result.context_wrapper.usage.total_tokens, 100)
        self.assertIn("raw_response_event", self.kinds)

    def test_a_hand_off(self):
        def make(client):
            return self.agent(client, handoffs=[self.agent(client, "poet")], tools=self.tools)

        result = self.run_agent(make, "A poem, please")
        self.assertEqual((result.final_output, result.last_agent.name), (POEM, "poet"))

    def test_guardrails(self):
        """One agent judges, held to a schema, before another answers."""
        pydantic, typing = packages.need("pydantic"), packages.need("typing")
        verdict = pydantic.create_model("Verdict", words=(typing.Literal["judged by the guard"], ...))
        judged = []

        def make(client):
            guard = self.agent(client, "guard", output_type=verdict)

            async def judge(context, agent, given):
                found = await self.agents.Runner.run(guard, given, context=context.context)
                judged.append(found.final_output.words)
                return self.agents.GuardrailFunctionOutput(output_info=None, tripwire_triggered="forbidden" in given)

            return self.agent(client, tools=self.tools, input_guardrails=[self.agents.InputGuardrail(judge)])

        self.assertEqual(self.run_agent(make, "What about Rome?").final_output, DONE)
        with self.assertRaises(self.agents.InputGuardrailTripwireTriggered):
            self.run_agent(make, "Something forbidden")
        self.assertEqual(judged, ["judged by the guard"] * 2)


if __name__ == "__main__":
    unittest.main()
