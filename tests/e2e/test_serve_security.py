"""What the server gives away, to whom it answers, and what it may do: Host, CORS, bodies, sandbox."""
import json
import os
import re
import shutil
import socket
import subprocess
import unittest

import models
import serving
import support


class Hosts(serving.ToyCase):
    def test_no_cors_and_no_foreign_host(self):
        own = f"127.0.0.1:{self.server.port}"
        for host in (own, "localhost", f"localhost:{self.server.port}"):
            answer = self.server.get("/v1/models", headers={"host": host})
            self.assertEqual(answer.status, 200, host)
        for host in ("evil.example", "127.0.0.1.evil.example", "10.1.2.3:80"):
            answer = self.server.get("/v1/models", headers={"host": host})
            self.assertEqual(answer.status, 403, host)
        for origin in ("http://evil.example", "null", "https://127.0.0.1.evil.example"):
            for method, path in (("GET", "/v1/models"), ("POST", "/v1/completions"), ("OPTIONS", "/v1/completions")):
                answer = self.server.request(method, path, "{}" if method == "POST" else None,
                                             headers={"origin": origin})
                self.assertEqual(answer.status, 403, f"{method} {path} {origin}")
                self.assertFalse([name for name in answer.headers if name.startswith("access-control")])
        same = self.server.get("/v1/models", headers={"host": own, "origin": f"http://{own}"})
        self.assertEqual(same.status, 200)
        self.assertNotIn("access-control-allow-origin", same.headers)

    def test_cors_where_it_was_asked_for(self):
        with serving.Server(self.model, "--cors", "https://app.example") as server:
            headers = {"origin": "https://app.example", "access-control-request-method": "POST"}
            answer = server.request("OPTIONS", "/v1/chat/completions", headers=headers)
            self.assertEqual(answer.status, 204)
            self.assertEqual(answer.headers["access-control-allow-origin"], "https://app.example")
            answer = server.get("/v1/models", headers={"origin": "https://app.example"})
            self.assertEqual(answer.headers["access-control-allow-origin"], "https://app.example")
            self.assertEqual(server.get("/v1/models", headers={"origin": "https://evil.example"}).status, 403)

    def bad_requests(self):
        """(method, path, body): wrong in as many ways as there are layers."""
        yield "GET", "/../../etc/passwd", None
        yield "GET", "/nowhere", None
        yield "DELETE", "/v1/models", None
        yield "GET", "/v1/models/%2e%2e%2fetc%2fpasswd", None
        for path in ("/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/embeddings", "/tokenize",
                     "/detokenize", "/v1/messages/count_tokens"):
            for body in ("", "{", "[]", "nul", '{"model": 3}', '{"model": "../../etc/passwd"}', '{"a": 1, "a": 2}',
                         "[" * 1000, '{"messages": [{"role": "user", "content": "x"}], "n": 1e99}', "\xff\xfe",
                         json.dumps({"messages": [{"role": "x" * 1000, "content": None}], "prompt": [-1]})):
                yield "POST", path, body.encode("latin-1")

    def test_no_address_path_or_stack_in_bodies(self):
        inside = re.compile(
            rb"0x[0-9a-f]{6,}|/(?:work|home|root|tmp|usr|proc|src)/|[.](?:cpp|h|so)\b|terminate called|"
            rb"what\(\)|std::|boost::|ingot::|Traceback|\bat line \d+ of\b"
        )
        for method, path, body in self.bad_requests():
            answer = self.server.request(method, path, body)
            self.assertTrue(400 <= answer.status < 500, f"{method} {path} {body}: {answer.status}")
            self.assertIsNone(inside.search(answer.body), f"{method} {path} {body}: {answer.body[:500]}")
            self.assertNotIn(os.fsencode(self.directory.name), answer.body)
        for path in ("/v1/models", "/v1/limits", "/v1/engine", "/metrics", "/health"):
            answer = self.server.get(path)
            self.assertEqual(answer.status, 200)
            self.assertIsNone(re.search(rb"0x[0-9a-f]{6,}|/(?:work|home|root|tmp|usr|proc)/", answer.body), path)
        self.assert_alive()


def status_of(pid):
    with open(f"/proc/{pid}/status") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


class Sandbox(serving.ToyCase):
    def test_no_new_rights_and_a_filter_on_every_thread(self):
        if "no sandbox" in self.server.errors():
            self.skipTest("this build or kernel has no sandbox: " + self.server.errors())
        self.assertEqual(status_of(self.server.pid)["NoNewPrivs"], "1")
        tasks = os.listdir(f"/proc/{self.server.pid}/task")
        self.assertGreater(len(tasks), 2)
        for task in tasks:
            self.assertEqual(status_of(f"{self.server.pid}/task/{task}")["Seccomp"], "2", task)
        self.chat()
        self.assertEqual(self.server.get("/metrics").status, 200)

    def test_another_user_on_a_read_only_root(self):
        if os.geteuid() != 0:
            self.skipTest("only root can become another user")
        for tool in ("setpriv", "unshare", "mount"):
            if shutil.which(tool) is None:
                self.skipTest(f"{tool} is not installed")
        # The binary and the model must be readable by anybody, wherever the build lies.
        folder = support.pathlib.Path(self.directory.name)
        os.chmod(folder, 0o755)
        binary = folder / "ingot-copy"
        shutil.copy(support.BINARY, binary)
        os.chmod(binary, 0o755)
        script = ("mount --make-rprivate / && mount -o remount,ro,bind / && "
                  f"exec setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs {binary} "
                  f"serve {self.model} --port 0")
        probe = subprocess.run(["unshare", "-m", "sh", "-c", "mount --make-rprivate / && mount -o remount,ro,bind /"],
                               capture_output=True, text=True)
        if probe.returncode != 0:
            self.skipTest(f"a read-only root cannot be made here: {probe.stderr.strip()}")
        process = subprocess.Popen(["unshare", "-m", "sh", "-c", script], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env={**os.environ, "HOME": "/nonexistent"})
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        line = process.stdout.readline()
        self.assertIn("listening on ", line, line or process.stderr.read())
        port = int(line.rsplit(":", 1)[1])
        self.assertEqual(status_of(process.pid)["Uid"].split()[0], "65534")
        body = json.dumps({"prompt": "a", "max_tokens": 2})
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            connection.sendall(
                f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        self.assertTrue(answer.startswith(b"HTTP/1.1 200 "), answer[:300])
        process.terminate()
        self.assertEqual(process.wait(60), 0)


class UnixSocket(support.TestCase):
    def test_a_unix_socket_inside_the_sandbox(self):
        folder = self.temp_dir()
        model = models.make_tiny(folder / "tiny")
        path = folder / "socket"
        with serving.Server(model, "--unix", path) as server:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(60)
                connection.connect(str(path))
                connection.sendall(b"GET /health HTTP/1.1\r\nHost: any\r\nConnection: close\r\n\r\n")
                answer = b"".join(iter(lambda: connection.recv(65536), b""))
            self.assertTrue(answer.startswith(b"HTTP/1.1 200 "), answer)
            self.assertEqual(server.stop(), 0)
        self.assertFalse(path.exists())


if __name__ == "__main__":
    unittest.main()
