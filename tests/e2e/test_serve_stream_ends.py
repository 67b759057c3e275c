"""Streams that the server ends: a model that fails in a step, a deadline, the end of the server; in the shape of each API."""
import json
import pathlib
import signal
import tempfile
import threading
import unittest

import client_case
import packages
import scripted
import serving
from test_serve_bad_requests import poison

HELLO = [{"role": "user", "content": "hello"}]
BODIES = {
    "/v1/chat/completions": {"messages": HELLO},
    "/v1/responses": {"input": "hello"},
    "/v1/messages": {"messages": HELLO, "max_tokens": 1 << 17},
    "/api/chat": {"messages": HELLO},
    "/api/generate": {"prompt": "hello"},
}
OPENAI = client_case.Schemas("openai_responses")
ANTHROPIC = client_case.Schemas("anthropic_messages")
ANSWER = {"<|plain|>": scripted.PLAIN}


class Ends(client_case.ScriptedCase):
    """Checks of the last event by each API: `why` are the words of the server, `kind` is Anthropic's."""

    def check_chat(self, answer, why, kind):
        *pieces, last = answer.events()
        self.assertGreater(len(pieces), 1)
        self.assertIn(why, last["error"]["message"])
        self.assertTrue(last["error"]["code"])
        self.assertNotIn("[DONE]", pieces)

    def check_responses(self, answer, why, kind):
        events = answer.events()
        self.assertEqual([e["sequence_number"] for e in events], list(range(len(events))))
        for event in events[:5] + events[-5:]:
            OPENAI.check_event(event)
        last = events[-1]
        self.assertIn(last["type"], ("response.failed", "error"))
        error = last["response"]["error"] if last["type"] == "response.failed" else last
        self.assertIn(why, error["message"])
        if last["type"] == "response.failed":
            self.assertEqual((last["response"]["status"], error["code"]), ("failed", "server_error"))
        self.assertIn("response.output_text.delta", [e["type"] for e in events])

    def check_messages(self, answer, why, kind):
        events = [e for e in answer.events() if e["type"] != "ping"]
        for event in events[:5] + events[-5:]:
            ANTHROPIC.check_event(event)
        self.assertEqual((events[0]["type"], events[-1]["type"]), ("message_start", "error"))
        self.assertEqual(events[-1]["error"]["type"], kind)
        self.assertIn(why, events[-1]["error"]["message"])
        self.assertNotIn("message_stop", [e["type"] for e in events])
        self.assertIn(b"event: error\n", answer.body)

    def check_ollama(self, answer, why, kind):
        lines = [json.loads(line) for line in answer.body.decode().splitlines()]
        self.assertGreater(len(lines), 1)
        self.assertEqual(list(lines[-1]), ["error"])
        self.assertIn(why, lines[-1]["error"])
        self.assertNotIn(True, [line["done"] for line in lines[:-1]])

    def check(self, path, answer, why, kind):
        self.assertEqual(answer.status, 200, answer.body[:500])
        checks = {"/v1/chat/completions": self.check_chat, "/v1/responses": self.check_responses,
                  "/v1/messages": self.check_messages}
        checks.get(path, self.check_ollama)(answer, why, kind)


class AFailure(Ends):
    """Logits are not numbers from the middle of the answer on."""

    @classmethod
    def make_model(cls, path):
        scripted.make(path, ANSWER)
        poison(path, scripted.tokens_of(path, scripted.PLAIN)[5])
        return path

    def test_streams(self):
        for path, body in BODIES.items():
            with self.subTest(path):
                answer = self.server.post(path, {**body, "stream": True})
                self.check(path, answer, "the model could not compute this answer", "api_error")

    def test_whole_answers(self):
        for path, body in BODIES.items():
            with self.subTest(path):
                error = self.post(path, {**body, "stream": False}, 500)["error"]
                if path == "/v1/messages":
                    self.assertEqual(error["type"], "api_error")
                elif path.startswith("/v1"):
                    self.assertEqual(error["code"], "model_error")
                else:
                    self.assertIsInstance(error, str)

    def test_clients_raise(self):
        """Whoever reads by a client learns it, and has what came before."""
        openai, anthropic, ollama = map(packages.need, ("openai", "anthropic", "ollama"))
        url = self.server.url
        with openai.OpenAI(base_url=url + "/v1", api_key="x", max_retries=0) as client:
            seen = []
            with self.assertRaises(openai.APIError):
                for piece in client.chat.completions.create(model="default", messages=HELLO, stream=True):
                    seen.append(piece)
            self.assertGreater(len(seen), 1)
            with client.responses.stream(model="default", input="hello") as stream:
                self.assertEqual([event.type for event in stream][-1], "response.failed")
        with anthropic.Anthropic(base_url=url, api_key="x", max_retries=0) as client:
            with self.assertRaises(anthropic.APIError):
                with client.messages.stream(model="default", max_tokens=100, messages=HELLO) as stream:
                    list(stream)
        client = ollama.Client(host=url)
        with self.assertRaises(ollama.ResponseError):
            list(client.chat("default", HELLO, stream=True))
        client.close()


def make_endless(path):
    return scripted.make(path, ANSWER, endless=True, positions=1 << 18)


class ADeadline(Ends):
    ARGS = ("--request-timeout", "1", "--parallel", "2", "--kv-memory", "256M")

    @classmethod
    def make_model(cls, path):
        return make_endless(path)

    def test_streams(self):
        for path, body in BODIES.items():
            with self.subTest(path):
                for _ in range(20):  # 504 where nothing came in time: on a machine that does something else
                    answer = self.server.post(path, {**body, "stream": True})
                    if answer.status != 504:
                        break
                self.check(path, answer, "within its 1 s", "timeout_error")


class TheEnd(Ends):
    """SIGTERM while an answer comes by each API, and no time to finish it."""

    ARGS = ("--drain", "0", "--parallel", "8", "--kv-memory", "256M")

    @classmethod
    def make_model(cls, path):
        return make_endless(path)

    def test_streams(self):
        answers, begun = {}, {path: threading.Event() for path in BODIES}

        def read(path):
            connection = self.server.connect()
            connection.request("POST", path, json.dumps({**BODIES[path], "stream": True}), {"content-type": "application/json"})
            response = connection.getresponse()
            data = b""
            while piece := response.read1(65536):
                data += piece
                if len(data) > 2000:
                    begun[path].set()
            answers[path] = serving.Answer(response.status, {}, data)
            begun[path].set()
            connection.close()

        threads = [threading.Thread(target=read, args=(path,), daemon=True) for path in BODIES]
        for thread in threads:
            thread.start()
        for path in BODIES:
            self.assertTrue(begun[path].wait(serving.ANSWER_SECONDS), path)
        self.server.process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join(serving.ANSWER_SECONDS)
        self.assertEqual(self.server.process.wait(serving.ANSWER_SECONDS), 0)
        for path in BODIES:
            with self.subTest(path):
                self.check(path, answers[path], "the server is shutting down", "overloaded_error")


class AKeysContext(client_case.ScriptedCase):
    """`truncation: auto` makes room in the context of the key, where that is less than the model's."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="ingot-e2e-")
        cls.addClassCleanup(folder.cleanup)
        keys = pathlib.Path(folder.name) / "keys"
        keys.write_text("small small-key context=600\nlarge large-key\n")
        keys.chmod(0o644)
        cls.ARGS = ("--api-key-file", str(keys))
        super().setUpClass()

    def respond(self, key, **more):
        turns = [{"role": role, "content": "x" * 150} for _ in range(5) for role in ("user", "assistant")]
        body = {"input": [*turns, {"role": "user", "content": "hello"}], **more}
        return self.server.post("/v1/responses", body, headers={"authorization": f"Bearer {key}"})

    def test_the_oldest_turns_go(self):
        whole = self.respond("large-key").json()
        self.assertGreater(whole["usage"]["input_tokens"], 1500)
        self.assertEqual(self.respond("large-key", truncation="auto").json()["usage"]["input_tokens"],
                         whole["usage"]["input_tokens"])
        refused = self.respond("small-key")
        self.assertEqual((refused.status, refused.json()["error"]["code"]), (400, "context_length_exceeded"))
        cut = self.respond("small-key", truncation="auto")
        self.assertEqual(cut.status, 200, cut.body)
        self.assertEqual(cut.json()["status"], "completed")
        self.assertTrue(20 < cut.json()["usage"]["input_tokens"] <= 450, cut.json()["usage"])


if __name__ == "__main__":
    unittest.main()
