"""What the tests with other people's clients share: a server whose answers are known, and tools to offer it."""
import inspect

import scripted
import serving

KEY = "a-key-of-the-tests"
WEATHER = {
    "name": "get_weather",
    "description": "The weather of a place",
    "schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
TIME = {"name": "get_time", "description": "The time", "schema": {"type": "object", "properties": {}}}


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


# Of the clients' methods: for the client itself, sent as headers, or turned into another field by it.
NOT_IN_THE_BODY = {"self", "timeout", "user_profile_id", "workspace_id", "output_format"}


def parameters(method):
    """What a client's method sends under its own name."""
    names = inspect.signature(method).parameters
    return {name for name in names if not name.startswith("extra_")} - NOT_IN_THE_BODY
