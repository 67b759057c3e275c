"""A server that speaks just enough of OpenAI's API to be put under load, and that misbehaves on request."""
import http.server
import json
import threading
import time


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        with self.server.lock:
            self.server.connections += 1

    def log_message(self, *args):
        pass

    def answer(self, status, document, headers=()):
        body = json.dumps(document).encode()
        self.send_response(status)
        for name, value in (("Content-Type", "application/json"), ("Content-Length", len(body)), *headers):
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def event(self, document):
        self.chunk(b"data: " + json.dumps(document).encode() + b"\n\n")

    def do_GET(self):
        if self.path == "/v1/models":
            self.answer(200, {"object": "list", "data": [{"id": "mock-model"}]})
        else:
            self.answer(404, {"error": {"message": "no such path"}})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        with server.lock:
            index = len(server.requests)
            server.requests.append((self.path, dict(self.headers), body))
            server.open += 1
            server.most_open = max(server.most_open, server.open)
        try:
            self.serve(server.behave(index), body)
        except OSError:
            with server.lock:
                server.cut += 1
            self.close_connection = True
        finally:
            with server.lock:
                server.open -= 1

    def serve(self, kind, body):
        if kind == "hang":
            self.server.stopping.wait(60)
            self.close_connection = True
            return
        if kind in (400, 429, 500, 503):
            headers = [("Retry-After", self.server.retry_after)] if kind == 429 else []
            self.answer(kind, {"error": {"message": f"this is a {kind}", "type": "x"}}, headers)
            return
        self.stream(kind, body)

    def stream(self, kind, body):
        chat = self.path == "/v1/chat/completions"
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        n = body["max_tokens"]
        for i in range(n):
            if kind == "cut" and i == n // 2:
                self.wfile.flush()
                self.close_connection = True
                return
            if kind == "error" and i == n // 2:
                self.event({"error": {"message": "broken inside"}})
                break
            text = f" {i}"
            choice = {"index": 0, **({"delta": {"content": text}} if chat else {"text": text}), "finish_reason": None}
            self.event({"choices": [choice]})
            time.sleep(self.server.pause)
        else:
            self.event({"choices": [{"index": 0, **({"delta": {}} if chat else {"text": ""}), "finish_reason": "length"}]})
            if self.server.usage:
                self.event({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": n}})
        self.chunk(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")


class MockServer(http.server.ThreadingHTTPServer):
    """`behave(index)` says what the request of this number gets: "ok", a status, "cut", "error" or "hang"."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, behave=lambda index: "ok", usage=True, pause=0.001, retry_after=0):
        super().__init__(("127.0.0.1", 0), Handler)
        self.behave, self.usage, self.pause, self.retry_after = behave, usage, pause, retry_after
        self.lock, self.stopping = threading.Lock(), threading.Event()
        self.requests, self.connections, self.open, self.most_open, self.cut = [], 0, 0, 0, 0
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # clients go when they like

    def stop(self):
        self.stopping.set()
        self.shutdown()
        self.server_close()
