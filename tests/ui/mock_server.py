"""A server that speaks what the web page needs, without a model: the page's files, /v1/engine, chat completions.

What an answer will be is said by the last message: `say: TEXT` answers TEXT, `long` counts to 2000, `fail: 503` fails
with that status, `cut` ends the connection in the middle, `think: TEXT` reasons first, `call: NAME` calls that tool and
get_time; what tools said last is answered as text; anything else gets a page of markdown. `Mock` runs it inside a test; `python3 tests/ui/mock_server.py` runs it to be looked at.
"""
import argparse
import http.server
import json
import math
import mimetypes
import pathlib
import random
import socket
import threading
import time

UI = pathlib.Path(__file__).resolve().parent.parent.parent / "src/serve/ui"
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
DEMO = (pathlib.Path(__file__).resolve().parent / "demo.md").read_text()
TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}


class Engine:
    """Figures that move like those of a busy engine; counters only grow."""

    def __init__(self, busy):
        self.busy = busy
        self.started = self.last = time.monotonic()
        self.running = 0
        self.tokens = self.prompt_tokens = self.reused_tokens = self.steps = 0
        self.step_seconds = 0.0
        self.lock = threading.Lock()

    def count(self, prompt, reused):
        with self.lock:
            self.prompt_tokens += prompt
            self.reused_tokens += reused

    def token(self):
        with self.lock:
            self.tokens += 1

    def run(self, change):
        with self.lock:
            self.running += change

    def facts(self):
        with self.lock:
            now = time.monotonic()
            seconds, self.last = now - self.last, now
            wave = 0.5 + 0.5 * math.sin(now / 7) + 0.1 * random.random()
            running = self.running + (round(10 * wave) if self.busy else 0)
            waiting = max(0, round(6 * wave - 3)) if self.busy else 0
            if self.busy:
                self.tokens += round(seconds * 400 * wave)
                self.prompt_tokens += round(seconds * 900 * wave)
                self.reused_tokens += round(seconds * 900 * wave * (0.4 + 0.5 * wave))
            if running:
                self.steps += max(1, round(seconds * 40))
                self.step_seconds += seconds
            used = min(1024, running * 30)
            cached = 380 if self.busy else min(1024 - used, self.tokens // 16)
            return {
                "model": "mock-135m-instruct",
                "context": 8192,
                "running": running,
                "waiting": waiting,
                "tokens": self.tokens,
                "prompt_tokens": self.prompt_tokens,
                "reused_tokens": self.reused_tokens,
                "steps": self.steps,
                "step_seconds": self.step_seconds,
                "expert_layers": 24 * self.steps,
                "experts_touched": 192 * self.steps,
                "expert_busiest_rows": 60 * self.steps,
                "gap_ms": 18 + 12 * wave if running else None,
                "pages": 1024,
                "free_pages": 1024 - used - cached,
                "cached_pages": cached,
                "kv_bytes": 94371840,
                "rss_bytes": 251658240,
                "uptime_seconds": now - self.started,
                "ranks": [self.rank(number) for number in range(2)],
            }

    def rank(self, number):
        """Of two: the second has less to do and waits for the first."""
        return {"engine": 0, "rank": number, "host": ("head", "node")[number], "alive": True, "steps": self.steps,
                "step_seconds": 0.02 * self.steps, "wait_seconds": (0.001, 0.005)[number] * self.steps,
                "collective_seconds": (0.002, 0.006)[number] * self.steps,
                "sent_bytes": {"all_gather": 12000 * self.steps, "message": 500 * self.steps}}  # fmt: skip


def pieces(text):
    """Text cut as tokens are: about four characters, never inside a character."""
    step = 4
    return [text[i : i + step] for i in range(0, len(text), step)]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    mock = None  # set by Mock in a subclass

    def setup(self):
        super().setup()
        self.mock.connections.add(self.connection)

    def finish(self):
        self.mock.connections.discard(self.connection)
        try:
            super().finish()
        except OSError:
            pass  # the reader has gone

    def log_message(self, *args):
        pass

    def do_GET(self):
        path = self.path.split("?")[0]
        if path == "/v1/engine":
            self.mock.asked += 1
            if self.allowed():
                self.answer(200, self.mock.engine.facts())
            return
        file = UI / (path[1:] or "index.html")
        if path.count("/") != 1 or not file.is_file():
            self.error(404, "not found")
            return
        kind = TYPES.get(file.suffix) or mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        self.answer(200, file.read_bytes(), kind, {"Content-Security-Policy": CSP, "Cache-Control": "no-cache"})

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not self.allowed():
            return
        if self.path != "/v1/chat/completions":
            self.error(404, "not found")
            return
        request = json.loads(body)
        self.mock.requests.append(request)
        said = request["messages"][-1]["content"]
        if said.startswith("fail: "):
            self.error(int(said[6:9]), "the mock was told to fail")
            return
        try:
            self.stream(said, request)
        except OSError:
            self.mock.gone.set()
            self.close_connection = True

    def allowed(self):
        if self.mock.key is None or self.headers.get("Authorization") == f"Bearer {self.mock.key}":
            return True
        self.error(401, "a key is needed")
        return False

    def error(self, status, message):
        kind = "invalid_request_error" if status < 500 else "server_error"
        error = {"message": message, "type": kind, "param": None, "code": None}
        self.answer(status, {"error": error}, headers={"Retry-After": "1"} if status in (429, 503) else {})

    def answer(self, status, body, kind="application/json", headers=None):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def stream(self, said, request):
        reasoning, text = "", DEMO
        if said.startswith("say: "):
            text = said[5:]
        elif said.startswith("think: "):
            reasoning, text = "First I weigh it. Then I weigh it again.\n\nIt is settled.", said[7:]
        elif said == "long":
            text = " ".join(map(str, range(1, 2001)))
        elif request["messages"][-1]["role"] == "tool":
            text = "The tools said " + ", ".join(m["content"] for m in request["messages"] if m["role"] == "tool")
        if said.startswith("call: "):
            text = "I look."
        parts = [("reasoning_content", p) for p in pieces(reasoning)] + [("content", p) for p in pieces(text)]
        limit = request.get("max_completion_tokens") or request.get("max_tokens") or len(parts)
        finish = "length" if limit < len(parts) else "stop"
        parts = parts[: len(parts) // 2 if said == "cut" else limit]
        if said.startswith("call: "):
            finish = "tool_calls"
            for index, name in enumerate((said[6:], "get_time")):
                first = {"index": index, "id": f"call_{index}", "type": "function"}
                parts.append(("tool_calls", [{**first, "function": {"name": name, "arguments": ""}}]))
                for piece in pieces('{"city": "Oslo <b>"}' if index == 0 else "{}"):
                    parts.append(("tool_calls", [{"index": index, "function": {"arguments": piece}}]))

        prompt = sum(len(message["content"]) // 4 + 4 for message in request["messages"])
        self.mock.engine.count(prompt, prompt // 2)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.mock.engine.run(1)
        try:
            self.event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]})
            for key, part in parts:
                self.event({"choices": [{"index": 0, "delta": {key: part}, "finish_reason": None}]})
                self.mock.engine.token()
                time.sleep(self.mock.pace)
        finally:
            self.mock.engine.run(-1)
        if said == "cut":
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        self.event({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        usage = {"prompt_tokens": prompt, "completion_tokens": len(parts), "total_tokens": prompt + len(parts)}
        self.event({"choices": [], "usage": usage})
        self.chunk(b"data: [DONE]\n\n")
        self.chunk(b"")

    def event(self, fields):
        event = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": "mock", **fields}
        self.chunk(b"data: " + json.dumps(event).encode() + b"\n\n")

    def chunk(self, data):
        self.wfile.write(b"%x\r\n" % len(data) + data + b"\r\n")


class QuietServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # readers that leave are part of the tests


class Mock:
    """The server on a free port of 127.0.0.1, in threads of its own, until stop()."""

    def __init__(self, port=0, key=None, pace=0.002, busy=False):
        self.key, self.pace = key, pace  # the key it wants; seconds between two tokens
        self.requests = []  # bodies of chat completions, as they came
        self.gone = threading.Event()  # a reader left in the middle
        self.asked = 0  # how often /v1/engine was
        self.connections = set()
        self.engine = Engine(busy)
        handler = type("BoundHandler", (Handler,), {"mock": self})
        self.server = QuietServer(("127.0.0.1", port), handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        for connection in list(self.connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # closed already


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--key", help="ask for this API key")
    parser.add_argument("--idle", action="store_true", help="no other users on the engine")
    args = parser.parse_args()
    mock = Mock(args.port, args.key, pace=0.015, busy=not args.idle)
    print(f"listening on {mock.url}", flush=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        mock.stop()


if __name__ == "__main__":
    main()
