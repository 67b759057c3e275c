"""The server as LangChain sees it, unpatched: `langchain-openai` and `langchain-ollama`, each with a bound tool."""
import json
import unittest

import client_case
import packages
import scripted

TOOL = {"type": "function", "function": {"name": client_case.WEATHER["name"], "description": "The weather of a place",
                                         "parameters": client_case.WEATHER["schema"]}}


class LangChain(client_case.ScriptedCase):
    def check(self, model):
        """An answer, a stream, a bound tool with its result, and the same streamed."""
        messages = packages.need("langchain_core.messages")
        self.assertEqual(model.invoke("hello").content, scripted.PLAIN)
        pieces = list(model.stream("hello"))
        self.assertGreater(len(pieces), 5)
        self.assertEqual("".join(piece.content for piece in pieces), scripted.PLAIN)
        bound = model.bind_tools([TOOL])
        answer = bound.invoke("hello")
        call, = answer.tool_calls
        self.assertEqual((call["name"], call["args"]), ("get_weather", json.loads(scripted.CITY)))
        self.assertGreater(answer.usage_metadata["output_tokens"], 5)
        result = messages.ToolMessage(content="18", tool_call_id=call["id"], name=call["name"])
        conversation = [messages.SystemMessage("Be brief."), messages.HumanMessage("hello"), answer, result]
        self.assertEqual(bound.invoke(conversation).content, scripted.AFTER)
        whole = None
        for piece in bound.stream("hello"):
            whole = piece if whole is None else whole + piece
        self.assertEqual([call["args"] for call in whole.tool_calls], [json.loads(scripted.CITY)])

    def test_openai(self):
        langchain = packages.need("langchain_openai")
        url = self.server.url + "/v1"
        self.check(langchain.ChatOpenAI(model="default", base_url=url, api_key="x", max_retries=0, timeout=120))

    def test_ollama(self):
        langchain = packages.need("langchain_ollama")
        self.check(langchain.ChatOllama(model="default", base_url=self.server.url, temperature=0.5, num_ctx=1024))
        vectors = langchain.OllamaEmbeddings(model="default", base_url=self.server.url).embed_documents(["one", "two"])
        self.assertEqual(len(vectors), 2)
        self.assertEqual(len(vectors[0]), len(vectors[1]))


if __name__ == "__main__":
    unittest.main()
