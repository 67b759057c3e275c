"""What the tests with other people's clients share: a server whose answers are known, and tools to offer it."""
import copy
import inspect
import json
import os
import random
import time

import packages
import scripted
import serving
import support
from test_serve_bad_requests import strange_values

KEY = "a-key-of-the-tests"
WEATHER = {
    "name": "get_weather",
    "description": "The weather of a place",
    "schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
TIME = {"name": "get_time", "description": "The time", "schema": {"type": "object", "properties": {}}}


class Schemas:
    """What an API's own client takes, of tests/data/clients (tools/make_client_schemas.py)."""

    def __init__(self, name):
        self.data = json.loads((support.DATA / f"clients/{name}.json").read_text())
        self.events = self.data["events"]
        self.validators = {}

    def check(self, kind, value):
        """`kind` is the name of a type."""
        if kind not in self.validators:
            schema = {"$defs": self.data["$defs"], "$ref": f"#/$defs/{kind}"}
            self.validators[kind] = packages.need("jsonschema").Draft202012Validator(schema)
        self.validators[kind].validate(value)

    def check_event(self, event):
        """By its type."""
        self.check(self.events[event["type"]], event)


class ScriptedCase(serving.ToyCase):
    """A server on the scripted model."""

    @classmethod
    def make_model(cls, path):
        return scripted.make(path)

    def known_fields(self, path):
        """The names that the server's description has for the body of a path: honoured, refused or without effect."""
        described = self.server.get("/openapi.json").json()
        schema = described["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        if "$ref" in schema:
            schema = described["components"]["schemas"][schema["$ref"].rsplit("/", 1)[-1]]
        return set(schema["properties"])


    def check_malformed(self, bodies):
        """Bodies by path, with any value in any place: refused as wrong, or answered; never the server's fault."""
        rng = random.Random(26)
        statuses = set()
        connection = self.server.connect()
        for _ in range(10000 if os.environ.get("INGOT_LONG") == "1" else 300):
            path = rng.choice(sorted(bodies))
            body = copy.deepcopy(bodies[path])
            for _ in range(rng.choice([1, 1, 2, 3])):
                at, key = rng.choice(places(body))
                at[key] = strange_values(rng)
            if rng.random() < 0.5:
                body["stream"] = rng.random() < 0.5
            data = json.dumps(body)
            begun = time.monotonic()
            connection.request("POST", path, data, {"content-type": "application/json"})
            response = connection.getresponse()
            answer = response.read()
            serving.check_refusal(response.status, answer, time.monotonic() - begun)
            statuses.add(response.status)
            self.assertIn(response.status, (200, 400, 404), f"{path} {data[:2000]} -> {answer[:500]}")
        connection.close()
        self.assertLessEqual({200, 400}, statuses)
        self.assert_alive()


def places(value):
    """(container, key) of every value inside."""
    found = []
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        found.append((value, key))
        found += places(inner)
    return found


# Of the clients' methods: for the client itself, sent as headers, or turned into another field by it.
NOT_IN_THE_BODY = {"self", "timeout", "user_profile_id", "workspace_id", "output_format"}


def parameters(method):
    """What a client's method sends under its own name."""
    names = inspect.signature(method).parameters
    return {name for name in names if not name.startswith("extra_")} - NOT_IN_THE_BODY
