"""`ingot serve` and bytes that no library would send, and many slow clients at once."""
import contextlib
import json
import os
import pathlib
import re
import resource
import signal
import socket
import tempfile
import time

import serving

ALONE = "waits for deadlines"  # not beside other modules: tools/run_tests.py

LONG = bool(os.environ.get("INGOT_LONG"))
MIB = 1 << 20
PATIENCE = 60  # seconds: only a broken server needs them
REFUSED = 20  # seconds for any refusal: a machine of its own needs milliseconds, and half a second for 64 MiB of header


def body_of(request):
    return json.dumps(request).encode()


def post(body, *headers, path="/v1/completions"):
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json",
             f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


GET_HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
CHUNKED = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
SHORT = body_of({"prompt": "once", "max_tokens": 2, "seed": 1})


class Raw:
    """A connection of plain bytes."""

    def __init__(self, server, receive_buffer=None):
        self.socket = socket.socket()
        self.socket.settimeout(PATIENCE)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect((server.host, server.port))
        self.received, self.sent = b"", time.monotonic()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        """What the server takes of it: it may have answered and closed before the end."""
        with contextlib.suppress(ConnectionError):
            self.socket.sendall(data)
        self.sent = time.monotonic()
        return self

    def until(self, what):
        while what not in self.received:
            data = self._receive()
            if not data:
                break
            self.received += data
        return self.received

    def rest(self):
        """All until the connection ends."""
        while True:
            data = self._receive()
            if not data:
                return self.received
            self.received += data

    def _receive(self):
        try:
            data = self.socket.recv(65536)
        except ConnectionError:
            return b""
        refused = re.match(rb"HTTP/1\.1 ([45]\d\d)", self.received + data)
        if refused:
            untimed = self.received or refused[1] == b"408"  # more of one; one that waited for what did not come
            serving.check_refusal(400, self.received + data, 0 if untimed else time.monotonic() - self.sent)
        return data

    def statuses(self):
        return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", self.received)]


class RawHttpTest(serving.ToyCase):
    ARGS = ("--log", "off")

    def setUp(self):
        super().setUp()
        self.began = time.monotonic()
        self.golden = self.complete(max_tokens=8, temperature=0)["choices"][0]["text"]
        self.memory = self.server.memory()

    def tearDown(self):
        """Whatever came, the same process gives the same answer, and has not grown."""
        self.assert_alive()
        self.assertEqual(self.complete(max_tokens=8, temperature=0)["choices"][0]["text"], self.golden)
        self.assertLess(time.monotonic() - self.began, 3 * REFUSED)  # whatever it was, it was answered soon

    def test_refusals_have_the_shape_of_their_api_and_an_id(self):
        """Also what is refused before the request was whole: Anthropic's clients read another shape."""
        big = b"Content-Length: 99999999999\r\n\r\n"
        long_header = b"X: " + b"a" * 20000 + b"\r\n\r\n"
        for path, anthropic in (("/v1/messages", True), ("/v1/messages/count_tokens?beta=1", True),
                                ("/v1/chat/completions", False)):
            first = f"POST {path} HTTP/1.1\r\nHost: localhost\r\n".encode()
            requests = {
                413: first + big,
                415: first + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
                417: first + b"Expect: miracles\r\nContent-Length: 2\r\n\r\n{}",
                431: first + long_header,
                400: first + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
            }
            ids = set()
            for status, data in requests.items():
                with Raw(self.server) as raw:
                    head, _, body = raw.send(data).rest().partition(b"\r\n\r\n")
                self.assertEqual(int(head.split()[1]), status, data[:100])
                ids.add(re.search(rb"(?i)\r\nx-request-id: (req-\S+)", head)[1])
                answer = json.loads(body)
                if anthropic:
                    self.assertEqual(answer["type"], "error")
                    kind = "request_too_large" if status == 413 else "invalid_request_error"
                    self.assertEqual(answer["error"]["type"], kind)
                    self.assertEqual(set(answer["error"]), {"type", "message"})
                else:
                    self.assertEqual(set(answer["error"]), {"message", "type", "param", "code"})
            self.assertEqual(len(ids), len(requests))

    def status_of(self, data):
        """The status of one answer, after which the connection ends. Its body is an error that tells no secrets."""
        began = time.monotonic()
        with Raw(self.server) as raw:
            head, _, body = raw.send(data).rest().partition(b"\r\n\r\n")
        self.assertLess(time.monotonic() - began, REFUSED, data[:200])
        self.assertTrue(head.startswith(b"HTTP/1.1 "), (data[:200], head[:200]))
        self.assertIn("message", json.loads(body)["error"], body[:500])
        self.assertNotRegex(body.decode(), r"0x[0-9a-f]{6,}|/src/|\.cpp|/work|/home|/tmp")
        return int(head.split()[1])

    def test_smuggling(self):
        hidden = GET_HEALTH  # would be answered, were it taken for a request
        for name, headers, body in [
            ("both lengths", b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n" + hidden),
            ("both, other way", b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", b"0\r\n\r\n" + hidden),
            ("two lengths", b"Content-Length: 0\r\nContent-Length: %d\r\n" % len(hidden), hidden),
            ("equal lengths", b"Content-Length: 2\r\nContent-Length: 2\r\n", b"{}" + hidden),
            ("list of lengths", b"Content-Length: 2, 2\r\n", b"{}" + hidden),
            ("coding with space", b"Transfer-Encoding : chunked\r\n", b"0\r\n\r\n" + hidden),
            ("unknown coding", b"Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n" + hidden),
            ("two codings", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", b"0\r\n\r\n" + hidden),
            ("folded", b"X: a\r\n Content-Length: 2\r\n", b"{}" + hidden),
            ("bare LF", b"X: a\nContent-Length: 2\r\n", b"{}" + hidden),
            ("bare CR", b"X: a\rContent-Length: 2\r\n", b"{}" + hidden),
            ("NUL", b"X: a\0b\r\n", hidden),
            ("two hosts", b"Host: localhost\r\n", hidden),
        ]:
            with self.subTest(name), Raw(self.server) as raw:
                raw.send(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n" + body).rest()
                self.assertEqual(raw.statuses(), [400], raw.received[:500])

    def test_bad_lengths(self):
        head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
        for value in (b"-1", b"+2", b"2x", b"0x2", b"", b"1e3", b"99999999999999999999999", b"2 2"):
            with self.subTest(value):
                self.assertEqual(self.status_of(head + b"Content-Length: " + value + b"\r\n\r\n{}"), 400)
        for value in (b"4194305", b"1000000000000"):
            with self.subTest(value):
                self.assertEqual(self.status_of(head + b"Content-Length: " + value + b"\r\n\r\n{}"), 413)
        for chunks in (b"x\r\n", b"-1\r\n", b"2\n{}\r\n0\r\n\r\n", b"2\r\n{}}\r\n0\r\n\r\n", b"fffffffffffffffff\r\n",
                       b"2;" + b"e" * 1000 + b"\r\n{}\r\n"):
            with self.subTest(chunks[:20]):
                self.assertEqual(self.status_of(CHUNKED + chunks), 400)
        self.assertEqual(self.status_of(CHUNKED + b"ffffffff\r\n"), 413)

    def test_bad_first_lines(self):
        for line in (b"GET", b"GET /health", b"GET  /health HTTP/1.1", b"GET /health HTTP/9.9", b"GET health HTTP/1.1",
                     b"G\x01T /health HTTP/1.1", b"GET /hea\x00lth HTTP/1.1", b"GET /\xff HTTP/1.1", b"\x16\x03\x01\x02",
                     b"PRI * HTTP/2.0", b"{\"prompt\": 1}", b": HTTP/1.1"):
            with self.subTest(line):
                self.assertEqual(self.status_of(line + b"\r\nHost: localhost\r\n\r\n"), 400)

    def test_giant_headers(self):
        """R18: a single GET with a giant header brought a server down."""
        start = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
        self.assertEqual(self.status_of(start + b"X: " + b"a" * (64 * MIB)), 431)
        self.assertEqual(self.status_of(start + b"X: y\r\n" * 500_000), 431)
        self.assertEqual(self.status_of(b"GET /" + b"a" * (8 * MIB) + b" HTTP/1.1\r\n\r\n"), 414)
        print(f"{(self.server.memory() - self.memory) / MIB:.1f} MiB more after giant headers")
        self.assertLessEqual(self.server.memory() - self.memory, 16 * MIB)

    def test_small_chunks(self):
        """R33: 3 MB in chunks of 6 bytes. A whole request, so it is read, and then refused for what it says."""
        text = "a" * (3 * 1000 * 1000)
        data = body_of({"prompt": text, "max_tokens": 1})
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(data[i : i + 6]), data[i : i + 6]) for i in range(0, len(data), 6))
        status = self.status_of(CHUNKED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + chunks + b"0\r\n\r\n")
        self.assertEqual(status, 400)  # longer than the context
        # The body, its JSON and its ids are gone again.
        self.complete(max_tokens=1)
        print(f"{(self.server.memory() - self.memory) / MIB:.1f} MiB more after a body of 3 MB")
        self.assertLessEqual(self.server.memory() - self.memory, 16 * MIB)

    def test_pipelining(self):
        with Raw(self.server) as raw:
            first = post(SHORT)
            last = GET_HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
            raw.send(first + GET_HEALTH + first + first + GET_HEALTH * 50 + last).rest()
            self.assertEqual(raw.statuses(), [200] * 55)
            self.assertEqual(raw.received.count(b'"text_completion"'), 3)
            # In order: a completion comes before the first answer of /health.
            self.assertLess(raw.received.index(b'"text_completion"'), raw.received.index(b'"status"'))

    def test_gzip(self):
        for coding in ("gzip", "deflate", "br", "identity, gzip"):
            with self.subTest(coding):
                self.assertEqual(self.status_of(post(b"\x1f\x8b\x08\0\0\0\0\0", f"Content-Encoding: {coding}")), 415)

    def test_partial_bodies(self):
        whole = post(SHORT)
        for cut in (1, 10, 40, len(whole) - len(SHORT) - 1, len(whole) - len(SHORT) + 1, len(whole) - 1):
            with self.subTest(cut), Raw(self.server) as raw:
                raw.send(whole[:cut])
                raw.socket.shutdown(socket.SHUT_WR)
                raw.rest()
                self.assertEqual(raw.statuses(), [400])
        for end in ("close", "reset"):
            with self.subTest(end), Raw(self.server) as raw:
                raw.send(whole[:-1])
                if end == "reset":
                    raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    def test_half_close_and_old_clients(self):
        with Raw(self.server) as raw:
            raw.send(post(SHORT))
            raw.socket.shutdown(socket.SHUT_WR)
            raw.rest()
            self.assertEqual(raw.statuses()[-1], 200)
            self.assertTrue(all(status == 100 for status in raw.statuses()[:-1]))
            self.assertIn(b'"text_completion"', raw.received)
        with Raw(self.server) as raw:
            raw.send(post(body_of({"prompt": "once", "max_tokens": 3, "stream": True})).replace(b"HTTP/1.1", b"HTTP/1.0"))
            raw.rest()
            self.assertNotIn(b"chunked", raw.received)
            self.assertTrue(raw.received.rstrip().endswith(b"[DONE]"), raw.received[-200:])
        with Raw(self.server) as raw:
            raw.send(post(b"", "Expect: 100-continue").replace(b"Length: 0", b"Length: %d" % len(SHORT)))
            self.assertEqual(raw.until(b"\r\n\r\n"), b"HTTP/1.1 100 Continue\r\n\r\n")
            raw.send(SHORT).until(b'"text_completion"')
            self.assertEqual(raw.statuses(), [100, 200])

    def test_a_server_that_was_stopped_goes_on(self):
        """SIGSTOP for longer than the deadline of a request that came meanwhile."""
        with serving.Server(self.model, "--log", "off", "--header-timeout", "4", "--idle-timeout", "4") as server:
            with Raw(server) as idle, Raw(server) as begun:
                begun.send(GET_HEALTH[:10])
                time.sleep(0.2)  # so that its deadline runs; nothing depends on it
                os.kill(server.pid, signal.SIGSTOP)
                try:
                    idle.send(GET_HEALTH)
                    begun.send(GET_HEALTH[10:])
                    time.sleep(5)
                finally:
                    os.kill(server.pid, signal.SIGCONT)
                for raw in (idle, begun):
                    self.assertEqual(raw.until(b'"status"').split(b"\r\n")[0], b"HTTP/1.1 200 OK")


class LoadCase(serving.ToyCase):
    """Streams that are long: the answer of one takes thousands of steps."""

    CONFIG = {"max_position_embeddings": 4096}

    def stream(self, **fields):
        return post(body_of({"prompt": "once", "max_tokens": 3900, "ignore_eos": True, "stream": True, **fields}))

    def metric(self, name):
        for line in self.server.get("/metrics").body.decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split()[1])
        self.fail(f"no metric {name}")

    def wait_until_idle(self, meanwhile=lambda: None):
        """Until no request is under way."""
        deadline = time.monotonic() + 3 * PATIENCE
        while self.metric("ingot_requests_in_flight") > 0:
            meanwhile()
            self.assertLess(time.monotonic(), deadline, "requests of clients that have gone or stand still go on")
            time.sleep(0.05)


class ManyClientsTest(LoadCase):
    ARGS = ("--log", "off", "--parallel", "16", "--max-queue", "1000")
    COUNT = 200

    def test_health_beside_streams_idle_and_slow_clients(self):
        """The probe answers beside streams, idle connections and clients that send a byte at a time."""
        with contextlib.ExitStack() as stack:
            streams = [stack.enter_context(Raw(self.server)) for _ in range(self.COUNT)]
            for raw in streams:
                raw.send(self.stream())
            for _ in range(self.COUNT):
                stack.enter_context(Raw(self.server))
            slow = [stack.enter_context(Raw(self.server)) for _ in range(self.COUNT)]
            # Tokens flow before it is measured.
            self.assertIn(b"data: ", streams[0].until(b"data: "))
            times = []
            for i in range(60):
                for raw in slow[i % 4 :: 4]:
                    raw.send(GET_HEALTH[min(i // 4, 20) :][:1])
                began = time.monotonic()
                answer = self.server.get("/health")
                times.append(time.monotonic() - began)
                self.assertEqual(answer.status, 200)
            times.sort()
            # On a machine of its own it takes less than 0.1 s; a shared one may be far slower.
            print(f"/health median {times[30] * 1e3:.1f} ms, worst {times[-1] * 1e3:.1f} ms")
            self.assertLess(times[30], 5)
        # All have gone: their work ends, and there is room for others.
        self.wait_until_idle()
        self.complete(max_tokens=4)


class SlowReadersTest(LoadCase):
    ARGS = ("--log", "off", "--write-timeout", "2")
    READERS = 50 if LONG else 10
    TOKENS = 10000 if LONG else 3900
    CONFIG = {"max_position_embeddings": 12288 if LONG else 4096}

    def test_slow_readers_are_cut_and_cost_little(self):
        """Readers that take a byte a second, of streams that the kernel cannot hold."""
        self.complete(max_tokens=4)
        before, most = self.server.memory(), 0
        with contextlib.ExitStack() as stack:
            readers = [stack.enter_context(Raw(self.server, receive_buffer=4096)) for _ in range(self.READERS)]
            for raw in readers:
                raw.send(self.stream(logprobs=5, max_tokens=self.TOKENS))
            taken = time.monotonic()

            def read_a_byte():
                nonlocal taken, most
                most = max(most, self.server.memory() - before)
                if time.monotonic() - taken < 1:
                    return
                taken = time.monotonic()
                for raw in readers:
                    with contextlib.suppress(OSError):
                        raw.socket.recv(1, socket.MSG_DONTWAIT)

            self.wait_until_idle(read_a_byte)
            # No client has closed: the server has cut them all.
            self.assertGreaterEqual(self.metric("ingot_http_stalled_readers_total"), self.READERS // 2)
        print(f"{self.READERS} slow readers cost {most / MIB:.1f} MiB at most")
        self.assertLessEqual(most, (32 + self.READERS) * MIB)
        self.complete(max_tokens=4)


class GreedyClientsTest(serving.ToyCase):
    """Clients without a key, and one key among others, that take what they can and give nothing back."""

    KEYS = "greedy sk-greedy\nhonest sk-honest\n"
    SECONDS = 20  # for any single answer: a machine of its own needs milliseconds

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="ingot-e2e-")
        cls.addClassCleanup(folder.cleanup)
        keys = pathlib.Path(folder.name) / "keys"
        keys.write_text(cls.KEYS)
        cls.ARGS = ("--log", "off", "--api-key-file", keys)
        super().setUpClass()

    def assert_served(self):
        """The probe without a key, and a request with one, soon."""
        began = time.monotonic()
        self.assertEqual(self.server.get("/health").status, 200)
        headers = {"authorization": "Bearer sk-honest"}
        answer = self.server.post("/v1/completions", {"prompt": "once", "max_tokens": 2}, headers=headers)
        self.assertEqual(answer.status, 200, answer.body[:500])
        self.assertLess(time.monotonic() - began, self.SECONDS)

    def test_bodies_that_nobody_reads_take_no_room(self):
        """32 times 4 MiB without their last byte: on a route that reads none, without a key, and with one."""
        length = 4 * MIB
        for name, head in (
            ("GET", f"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"),
            ("no key", f"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"),
            ("a key", "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer sk-greedy\r\n"
                      f"Content-Length: {length}\r\n\r\n"),
        ):
            with self.subTest(name), contextlib.ExitStack() as stack:
                began, before, most = time.monotonic(), self.server.memory(), 0
                for _ in range(34):
                    raw = stack.enter_context(Raw(self.server))
                    raw.send(head.encode() + b"b" * (length - 1))
                    most = max(most, self.server.memory() - before)
                self.assert_served()
                self.assertLess(time.monotonic() - began, 3 * self.SECONDS)
                print(f"{name}: {most / MIB:.1f} MiB for 34 bodies")
                # The room for bodies is 128 MiB; of what is refused by its head nothing is kept.
                self.assertLessEqual(most, (128 + 48 if name == "a key" else 24) * MIB)
                if name != "a key":
                    self.assertEqual(raw.rest()[:13], b"HTTP/1.1 413 " if name == "GET" else b"HTTP/1.1 401 ")

    def test_idle_sockets_keep_nobody_out(self):
        """More than there are places, silent ones and such that have begun a head."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard != resource.RLIM_INFINITY and hard < 2000:
            self.skipTest("too few file descriptors")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2000), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for begun in (b"", b"GET /he"):
            with contextlib.ExitStack() as stack:
                for _ in range(1100):
                    stack.enter_context(Raw(self.server)).send(begun)
                for _ in range(5):
                    self.assert_served()


class SlowWholeAnswersTest(serving.ToyCase):
    """Whole answers that nobody reads: memory is looked at while they wait."""

    ARGS = ("--log", "off")
    READERS = 20
    BUDGET = 64 * MIB

    def test_slow_readers_of_whole_answers_cost_the_budget(self):
        request = post(body_of({"text": "some words " * 200_000}), path="/tokenize")
        with Raw(self.server) as raw:  # once, so that what a worker needs for it is known
            before = self.server.memory()
            raw.send(request).until(b"max_model_len")
            answer = len(raw.received)
        self.assertGreater(answer * self.READERS, 2 * self.BUDGET)
        most = 0
        with contextlib.ExitStack() as stack:
            readers = []
            for _ in range(self.READERS):
                readers.append(stack.enter_context(Raw(self.server, receive_buffer=4096)))
                readers[-1].send(request).until(b"\r\n\r\n")  # its answer has begun
                most = max(most, self.server.memory() - before)
            with Raw(self.server) as honest:
                self.assertGreaterEqual(len(honest.send(request).until(b"max_model_len")), answer - 100)
            most = max(most, self.server.memory() - before)
        print(f"{self.READERS} slow readers of {answer / MIB:.1f} MiB cost {most / MIB:.1f} MiB at most")
        # The budget, what a worker needs to make one (15 times the text), and some of the allocator's.
        self.assertLessEqual(most, self.BUDGET + 64 * MIB)


if __name__ == "__main__":
    serving.unittest.main()
