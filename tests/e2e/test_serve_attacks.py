"""`ingot serve` and clients that want it for themselves: whatever they do, the others are served.

Each attack is a short one with few clients, on a server with small limits where that shows the same; tools/attack_load.py
has all of them at once, for minutes, with the default model. Memory is looked at while the attack goes on.
"""
import concurrent.futures
import contextlib
import http.client
import os
import pathlib
import tempfile
import time

import attack_clients
import attack_keys
import attacks
import models
import serving
import support

ALONE = "measures times and memory"  # not beside other modules: tools/run_tests.py

MIB = attacks.MIB
HONEST, ATTACKER = "key-of-honest-0001", "key-of-attacker-01"


class AttackCase(serving.ToyCase):
    """Two tenants; /health is asked and the memory looked at all the time."""

    OPTIONS = ()
    MEMORY = 96 * MIB  # what a test may cost beyond the server's start

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="ingot-e2e-keys-")
        cls.addClassCleanup(folder.cleanup)
        keys = pathlib.Path(folder.name) / "keys"
        keys.write_text(f"honest {HONEST}\nattacker {ATTACKER}\n")
        cls.ARGS = ("--api-key-file", keys, "--log", "off", *cls.OPTIONS)
        super().setUpClass()

    def honest(self, path="/v1/completions", **fields):
        """One request of an honest user; its answer."""
        body = {"prompt": "once upon", "max_tokens": 4, "ignore_eos": True, **fields}
        return self.server.post(path, body, headers={"authorization": f"Bearer {HONEST}"}, timeout=60)

    def attack(self, name, **more):
        return attacks.Attackers(name, self.server.host, self.server.port, **more)

    @contextlib.contextmanager
    def under(self, name, **more):
        """The attack goes on; in the end /health has always said 200, and memory has stayed within what is allowed."""
        self.honest()
        with attacks.Watch(self.server) as watch, self.attack(name, **more) as attacker:
            yield attacker
        self.assertEqual(set(watch.statuses), {200}, watch.statuses)
        self.assertGreater(watch.statuses[200], 0)
        self.assertLess(watch.longest, 5)  # 1 s by tools/attack_load.py, where nothing else runs
        self.assertLess(watch.grown(), self.MEMORY, f"{watch.grown() >> 20} MiB more during the attack")
        self.assert_alive()

    def assert_honest_is_served(self, times=8, **fields):
        for _ in range(times):
            answer = self.honest(**fields)
            self.assertEqual(answer.status, 200, answer.body[:300])


class Bodies(AttackCase):
    MEMORY = 224 * MIB  # 128 of bodies that are read, the rest around it

    def test_bodies_that_lack_a_byte_where_none_is_read(self):
        """Without a key: enough of them fill the room for all bodies."""
        with self.under("missing-byte", count=36):
            self.assert_honest_is_served()

    def test_the_same_by_other_methods_and_routes(self):
        for method, path in (("GET", "/"), ("HEAD", "/ready"), ("GET", "/nothing"), ("POST", "/v1/completions"),
                             ("DELETE", "/health")):
            with self.subTest(path), self.under("missing-byte", count=36, method=method, path=path):
                self.assert_honest_is_served(3)

    def test_bodies_of_a_key_take_no_room_from_another(self):
        for name, path in (("missing-byte", "/tokenize"), ("chunked-byte", "/v1/chat/completions")):
            with self.subTest(name), self.under(name, count=36, key=ATTACKER, method="POST", path=path):
                self.assert_honest_is_served()

    def test_slow_bodies(self):
        with self.under("slow-body", count=40, key=ATTACKER):
            self.assert_honest_is_served(prompt="x" * 400)
            text = "y" * (1 * MIB)
            answer = self.server.post("/tokenize", {"text": text}, headers={"authorization": f"Bearer {HONEST}"})
            self.assertEqual((answer.status, answer.json().get("count")), (200, len(text)))


class Connections(AttackCase):
    """So few places that an attack is small; once with the real number."""

    OPTIONS = ("--max-connections", "64")

    def check(self, name, **more):
        with self.under(name, **more):
            self.assert_honest_is_served()
            self.assertEqual(self.server.get("/ready").status, 200)

    def test_idle_sockets(self):
        self.check("idle", count=160)

    def test_half_a_first_line(self):
        self.check("idle", count=160, text="GET /hea")

    def test_connections_that_were_answered_and_stay(self):
        self.check("idle", count=160, text="GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")

    def test_slow_heads(self):
        self.check("slow-head", count=160)

    def test_slow_bodies(self):
        self.check("slow-body", count=160, first=1000, key=ATTACKER)

    def test_a_stream_goes_on(self):
        """Whoever gives way to an honest user, it is no honest user."""
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            streams = [pool.submit(attacks.Streamed, self.server, HONEST, max_tokens=450) for _ in range(8)]
            with self.under("idle", count=160):
                streams += [pool.submit(attacks.Streamed, self.server, HONEST, max_tokens=450) for _ in range(8)]
                for stream in streams:
                    result = stream.result()
                    self.assertEqual((result.status, result.whole), (200, True))


class ManyConnections(AttackCase):
    def test_idle_sockets(self):
        with self.under("idle", count=1200):
            self.assert_honest_is_served()


class Handshakes(AttackCase):
    """Behind TLS, strangers from another address who begin handshakes and end none."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="ingot-e2e-tls-")
        cls.addClassCleanup(folder.cleanup)
        cert, key, trusting = serving.make_certificate(pathlib.Path(folder.name))
        cls.OPTIONS = ("--tls-cert", cert, "--tls-key", key)
        super().setUpClass()
        cls.server.connect = lambda timeout=60: http.client.HTTPSConnection(
            cls.server.host, cls.server.port, context=trusting, timeout=timeout)

    def test_a_flood_of_hellos(self):
        calm = attacks.Streamed(self.server, HONEST, max_tokens=300).longest_gap()
        with concurrent.futures.ThreadPoolExecutor(1) as pool, self.under("hellos", address="127.0.0.2") as attacker:
            time.sleep(1)
            stream = pool.submit(attacks.Streamed, self.server, HONEST, max_tokens=300)
            self.assert_honest_is_served()
            result = stream.result()
        self.assertEqual((result.status, result.whole), (200, True))
        self.assertLess(result.longest_gap(), 2 + 4 * calm)
        self.assertGreater(attacker.answers.get("signed", 0), 100, attacker.answers)


class Hashes(AttackCase):
    def cpu_seconds(self):
        """Of all threads, so far."""
        fields = pathlib.Path(f"/proc/{self.server.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def check(self, bodies):
        """Each body is refused; what that costs is told by the CPU's time, which does not depend on who else runs."""
        before = self.cpu_seconds()
        for body in bodies:
            answer = self.server.post("/v1/completions", body, headers={"authorization": f"Bearer {ATTACKER}"})
            self.assertEqual(answer.status, 400, answer.body[:200])
        self.assertLess(self.cpu_seconds() - before, 0.6)

    def test_keys_that_collide_for_the_standard_hash(self):
        keys = attack_keys.object_text(attack_keys.known_hash_keys(14))
        self.check([b'{"prompt":"a","metadata":' + keys + b"}"])

    def test_keys_that_collide_in_the_table_of_an_object(self):
        self.check(attack_clients.salted_bodies((0, 80, 144)))

    def test_others_meanwhile(self):
        with self.under("salted-hash", key=ATTACKER):
            self.assert_honest_is_served(20)


class Memory(AttackCase):
    """The budget for what waits to be sent is 64 MiB; an answer that is being made takes some, too."""

    CONFIG = {"max_position_embeddings": 4096}
    MEMORY = 160 * MIB

    def test_slow_readers_of_whole_answers(self):
        with self.under("detokenize-reader", count=64, key=ATTACKER, pause=1.0):
            self.assert_honest_is_served()

    def test_slow_readers_of_scores(self):
        with self.under("echo-reader", count=16, key=ATTACKER, pause=2.0, length=500, n=8):
            self.assert_honest_is_served()

    def test_slow_readers_of_streams(self):
        with self.under("stream-reader", count=12, key=ATTACKER, pause=2.0):
            self.assert_honest_is_served()

    def test_many_choices_with_all_their_scores(self):
        """A short request whose answer would be a hundred megabytes."""
        with self.under("choices", count=1, key=ATTACKER, prompts=8, n=16) as attacker:
            self.assert_honest_is_served()
            limit = time.monotonic() + 60
            while not attacker.so_far().keys() - {"cut"} and time.monotonic() < limit:
                time.sleep(0.1)


class Tenants(AttackCase):
    """One with far more requests than there are places, at the highest priority, and all of them long."""

    CONFIG = {"max_position_embeddings": 4096}
    OPTIONS = ("--parallel", "4", "--max-queue", "64")

    def test_a_flood_leaves_room_for_the_others(self):
        with self.under("flood", count=120, key=ATTACKER, tokens=4000):
            self.assert_honest_is_served(10)

    def test_a_flood_that_fits_does_not_starve(self):
        """All of it waits or runs: what comes after it, at an ordinary priority, is served before it ends."""
        with self.under("flood", count=40, key=ATTACKER, tokens=4000) as attacker:
            before = attacker.so_far().get("200", 0)  # some end while the last of its clients come
            self.assert_honest_is_served(5)
            ended = attacker.so_far().get("200", 0) - before
        self.assertLess(ended, 20, "the honest tenant was served last")


class Workers(AttackCase):
    def test_long_texts_to_cut_do_not_hold_up_a_stream(self):
        calm = attacks.Streamed(self.server, HONEST, max_tokens=450).longest_gap()  # of this machine, now
        with self.under("tokenize", count=8, key=ATTACKER):
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                streams = [pool.submit(attacks.Streamed, self.server, HONEST, max_tokens=450) for _ in range(2)]
                for stream in streams:
                    result = stream.result()
                    self.assertEqual((result.status, result.whole), (200, True))
                    self.assertLess(result.longest_gap(), 1 + 4 * calm)


class Grammars(AttackCase):
    """What answers are held to: dear to compile, dear at each token, large, many. Others compile, read and stream."""

    MEMORY = 192 * MIB  # of which grammars have 128 at most
    CONFIG = {"max_position_embeddings": 2048}
    TOOLS = (
        "{% if tools %}{{ '<s>system\\nCall as <tool_call>{\"name\": .., \"arguments\": ..}</tool_call></s>' }}{% endif %}"
        "{% for message in messages %}{{ '<s>' + message['role'] + '\\n' + (message['content'] or '') }}"
        "{% for call in message.tool_calls or [] %}{{ '<tool_call>\\n{\"name\": \"' + call.function.name + '\", \"arguments\": ' }}"
        "{{ call.function.arguments | tojson }}{{ '}\\n</tool_call>' }}{% endfor %}{{ '</s>' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<s>assistant\\n' }}{% endif %}")

    @classmethod
    def make_model(cls, path):
        return models.make_tiny(path, template=cls.TOOLS, **cls.CONFIG)

    def stream_beside(self, name, **more):
        """Streams and requests of the honest tenant, held to a schema or free, while the attack goes on."""
        schema = {"json_schema": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}
        calm = attacks.Streamed(self.server, HONEST, max_tokens=300).longest_gap()  # of this machine, now
        with self.under(name, key=ATTACKER, **more) as attacker:
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                stream = pool.submit(attacks.Streamed, self.server, HONEST, max_tokens=300)
                self.assert_honest_is_served(4, max_tokens=24, **schema)
                self.assert_honest_is_served(4)
                result = stream.result()
            self.assertEqual((result.status, result.whole), (200, True))
            self.assertLess(result.longest_gap(), 2 + 4 * calm)
        limits = self.server.get("/v1/limits", headers={"authorization": f"Bearer {HONEST}"}).json()["constraints"]
        self.assertLessEqual(limits["memory_bytes"], 128 * MIB)
        return attacker.answers

    def test_large_schemas(self):
        self.stream_beside("large-schemas")

    def test_schemas_that_are_dear_to_compile(self):
        self.stream_beside("dear-schemas", count=6)

    def test_patterns_with_many_states(self):
        self.stream_beside("regex-states")

    def test_masks_that_are_dear(self):
        self.stream_beside("dear-masks", count=2)

    def test_texts_that_can_be_read_in_many_ways(self):
        self.stream_beside("ambiguous")

    def test_many_choices_with_a_schema(self):
        self.stream_beside("schema-choices", tokens=60)

    def test_calls_without_end(self):
        answers = self.stream_beside("endless-calls", tokens=200)
        self.assertIn("200", answers)

    def test_a_compile_is_paid_for_and_ends_with_its_client(self):
        """Whoever leaves while its schema is compiled has paid for what was done."""
        usage = lambda: self.server.get("/v1/usage", headers={"authorization": f"Bearer {ATTACKER}"}).json()["own"]
        before = usage().get("tokenizer_tokens", 0)
        with self.under("dear-schemas", count=2, key=ATTACKER):
            time.sleep(1)
        limit = time.monotonic() + 30
        while usage().get("tokenizer_tokens", 0) <= before and time.monotonic() < limit:
            time.sleep(0.1)
        self.assertGreater(usage().get("tokenizer_tokens", 0), before)


if __name__ == "__main__":
    support.unittest.main()
