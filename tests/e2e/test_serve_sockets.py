"""`ingot serve` behind TLS and on a Unix socket, with its sandbox on."""
import http.client
import json
import signal
import socket

import models
import serving
import support


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class SocketsTest(support.TestCase):
    def setUp(self):
        super().setUp()
        self.directory = self.temp_dir()
        self.model = models.make_tiny(self.directory / "tiny")

    def check(self, connection):
        """Answers, whole and streamed, on one connection."""
        for stream in (False, True, False):
            body = json.dumps({"prompt": "once", "max_tokens": 3, "seed": 1, "stream": stream})
            connection.request("POST", "/v1/completions", body, {"content-type": "application/json"})
            response = connection.getresponse()
            self.assertEqual(response.status, 200)
            self.assertIn(b"text_completion", response.read())
        connection.close()

    def test_tls(self):
        cert, key, trusting = serving.make_certificate(self.directory)
        with serving.Server(self.model, "--tls-cert", cert, "--tls-key", key) as server:
            self.assertTrue(server.url.startswith("https://127.0.0.1:"), server.url)
            self.check(http.client.HTTPSConnection(server.host, server.port, context=trusting, timeout=60))
            self.assertEqual(server.stop(), 0)
        missing = self.directory / "none.pem"
        result = support.run("serve", self.model, "--port", "0", "--tls-cert", missing, "--tls-key", key)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("none.pem", result.stderr)

    def test_unix_socket(self):
        """After a kill the file is left, and the next server takes it over; at an orderly end it is removed."""
        path = self.directory / "s"
        with serving.Server(self.model, "--unix", path) as server:
            self.check(UnixConnection(path))
            server.stop(signal.SIGKILL)
        self.assertTrue(path.exists())
        with serving.Server(self.model, "--unix", path) as server:
            self.check(UnixConnection(path))
            result = support.run("serve", self.model, "--unix", path)
            self.assertNotEqual(result.returncode, 0)  # the first one answers there
            self.check(UnixConnection(path))
            self.assertEqual(server.stop(), 0)
        self.assertFalse(path.exists())
