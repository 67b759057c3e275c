"""A server that behaves like the Hugging Face hub, for the tests of `ingot pull`.

The hub (one origin) lists repositories and redirects large files to a store (another origin: another port),
which knows ranges. Faults are planted in Hub.faults: a function that gets the handler and returns True when it
has answered the request itself.
"""
import contextlib
import hashlib
import http.server
import json
import re
import threading
import urllib.parse

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = 1000  # files from this size on are "LFS" files, with a SHA-256 and a redirect to the store


class Hub:
    """Use in a `with`; `endpoint` is for HF_ENDPOINT, `requests` records (origin, path, headers)."""

    def __init__(self, repos, token=None, has_tree=True, page_size=1000):
        self.repos = repos  # {"org/name": {file: bytes}}
        self.token = token  # what it takes to read them; None: public
        self.has_tree = has_tree
        self.page_size = page_size
        self.lies = {}  # {file: sha256}: announced instead of the true one
        self.faults = []
        self.requests = []
        self.hub = _server(self, "hub")
        self.store = _server(self, "store")
        self.endpoint = f"http://127.0.0.1:{self.hub.server_port}"
        # Another name and another port: both make another origin.
        self.store_origin = f"http://localhost:{self.store.server_port}"

    def __enter__(self):
        for server in (self.hub, self.store):
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_):
        for server in (self.hub, self.store):
            server.shutdown()
            server.server_close()

    def paths(self, origin):
        return [path for where, path, _ in self.requests if where == origin]

    def sha256(self, file, content):
        return self.lies.get(file, hashlib.sha256(content).hexdigest())


def _server(hub, origin):
    class Bound(_Handler):
        pass

    Bound.hub_state, Bound.origin = hub, origin
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Bound)
    server.daemon_threads = True
    return server


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def handle(self):
        with contextlib.suppress(ConnectionError):  # a client that hangs up is part of the tests
            super().handle()

    def do_GET(self):
        self.hub_state.requests.append((self.origin, self.path, dict(self.headers)))
        with contextlib.suppress(ConnectionError):
            if any(fault(self) for fault in list(self.hub_state.faults)):
                return
            self.answer_hub() if self.origin == "hub" else self.answer_store()

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def answer_hub(self):
        hub = self.hub_state
        if hub.token and self.headers.get("Authorization") != f"Bearer {hub.token}":
            return self.answer(401, b'{"error":"Invalid credentials"}', X_Error_Code="GatedRepo")
        url = urllib.parse.urlsplit(self.path)
        api = re.fullmatch(r"/api/models/([^/]+(?:/[^/]+)?)/(revision|tree)/([^/]+)", url.path)
        if api:
            files = hub.repos.get(api[1])
            if files is None:
                return self.answer(404, b"{}", X_Error_Code="RepoNotFound")
            if urllib.parse.unquote(api[3]) not in ("main", "refs/pr/1", COMMIT):
                return self.answer(404, b"{}", X_Error_Code="RevisionNotFound")
            return self.answer_revision(files) if api[2] == "revision" else self.answer_tree(api[1], files, url.query)
        file = re.fullmatch(r"/([^/]+(?:/[^/]+)?)/resolve/([^/]+)/(.+)", url.path)
        content = hub.repos.get(file[1], {}).get(urllib.parse.unquote(file[3])) if file else None
        if content is None:
            return self.answer(404, b"Entry not found", X_Error_Code="EntryNotFound")
        if len(content) < LARGE:
            return self.answer(200, content, X_Repo_Commit=COMMIT)
        name = urllib.parse.unquote(file[3])
        self.answer(
            302,
            b"Found",
            Location=f"{hub.store_origin}/{file[1]}/{file[3]}?signature=abc",
            X_Linked_Etag=f'"{hub.sha256(name, content)}"',
            X_Linked_Size=str(len(content)),
        )

    def answer_revision(self, files):
        body = {"id": "x", "sha": COMMIT, "siblings": [{"rfilename": name} for name in files]}
        self.answer(200, json.dumps(body).encode())

    def answer_tree(self, repo, files, query):
        hub = self.hub_state
        if not hub.has_tree:
            return self.answer(404)
        start = int(urllib.parse.parse_qs(query).get("cursor", ["0"])[0])
        entries = []
        for name, content in list(files.items())[start : start + hub.page_size]:
            entry = {"type": "file", "path": name, "size": len(content), "oid": "0" * 40}
            if len(content) >= LARGE:
                entry["lfs"] = {"oid": hub.sha256(name, content), "size": len(content), "pointerSize": 134}
            entries.append(entry)
        headers = {}
        if start + hub.page_size < len(files):
            following = f"{hub.endpoint}/api/models/{repo}/tree/{COMMIT}?recursive=true&cursor={start + hub.page_size}"
            headers["Link"] = f'<{following}>; rel="next"'
        self.answer(200, json.dumps(entries).encode(), **headers)

    def content(self):
        repo, name = re.fullmatch(r"/([^/]+(?:/[^/]+)?)/([^/]+)", urllib.parse.urlsplit(self.path).path).groups()
        return self.hub_state.repos[repo][urllib.parse.unquote(name)]

    def answer_store(self):
        content = self.content()
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if not wanted:
            return self.answer(200, content)
        start = int(wanted[1])
        if start >= len(content):
            return self.answer(416, Content_Range=f"bytes */{len(content)}")
        self.answer(206, content[start:], Content_Range=f"bytes {start}-{len(content) - 1}/{len(content)}")

    def break_off(self, content, start, count):
        """Sends `count` bytes of a body that claims to be longer, then closes the connection."""
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        self.wfile.write(content[start : start + count])
        self.wfile.flush()
        self.close_connection = True


def times(count, answer, where=""):
    """A fault for the first `count` requests whose path contains `where`."""
    left = [count]

    def fault(handler):
        if left[0] == 0 or where not in handler.path:
            return False
        left[0] -= 1
        answer(handler)
        return True

    return fault
