"""Writes tests/data/clients/*.json: JSON Schemas of what the server answers by each API, from the types of that API's own Python
client, for tests that run without it.

`python3 tools/make_client_schemas.py`, with the environment of tools/make_test_venv.py.
"""
import importlib.metadata
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/e2e"))
import packages  # noqa: E402

# What the server sends, by the names of the clients' types. Items, blocks and tools of kinds that it has not would be most
# of the schemas: of alternatives by "type" that have all of a set of KINDS, those alone are kept.
OPENAI = (
    "ResponseCreatedEvent", "ResponseInProgressEvent", "ResponseCompletedEvent", "ResponseIncompleteEvent",
    "ResponseFailedEvent", "ResponseErrorEvent", "ResponseOutputItemAddedEvent", "ResponseOutputItemDoneEvent",
    "ResponseContentPartAddedEvent", "ResponseContentPartDoneEvent", "ResponseTextDeltaEvent", "ResponseTextDoneEvent",
    "ResponseReasoningTextDeltaEvent", "ResponseReasoningTextDoneEvent", "ResponseReasoningSummaryPartAddedEvent",
    "ResponseReasoningSummaryPartDoneEvent", "ResponseReasoningSummaryTextDeltaEvent",
    "ResponseReasoningSummaryTextDoneEvent", "ResponseFunctionCallArgumentsDeltaEvent",
    "ResponseFunctionCallArgumentsDoneEvent", "ResponseCustomToolCallInputDeltaEvent",
    "ResponseCustomToolCallInputDoneEvent",
)
ANTHROPIC = (
    "RawMessageStartEvent", "RawContentBlockStartEvent", "RawContentBlockDeltaEvent", "RawContentBlockStopEvent",
    "RawMessageDeltaEvent", "RawMessageStopEvent", "ErrorResponse",
)
FILES = (  # the package, its types, those of events, others
    ("openai_responses", "openai", "openai.types.responses", OPENAI, ("Response",)),
    ("anthropic_messages", "anthropic", "anthropic.types", ANTHROPIC, ("Message", "MessageTokensCount")),
    ("ollama", "ollama", "ollama._types", (),
     ("ChatResponse", "GenerateResponse", "EmbedResponse", "EmbeddingsResponse", "ListResponse", "ShowResponse",
      "ProcessResponse")),
)
KINDS = (
    {"message", "reasoning", "function_call", "custom_tool_call"}, {"function", "custom"},
    {"text", "thinking", "tool_use"}, {"text_delta", "thinking_delta", "signature_delta", "input_json_delta"},
)
NOISE = {"title", "description", "default"}


def type_of(schema):
    """The one value of its "type" member, where a schema has such."""
    return schema.get("properties", {}).get("type", {}).get("const")


def trimmed(value, definitions):
    """Without titles, and of alternatives only those of the kinds above."""
    if isinstance(value, list):
        return [trimmed(item, definitions) for item in value]
    if not isinstance(value, dict):
        return value
    out = {}
    for key, inner in value.items():
        if key == "properties":
            out[key] = {name: trimmed(field, definitions) for name, field in inner.items()}
        elif key in ("anyOf", "oneOf"):
            kinds = [type_of(definitions.get(i.get("$ref", "").rsplit("/", 1)[-1], {})) for i in inner]
            wanted = next((w for w in KINDS if w <= set(kinds)), None)
            kept = [i for i, kind in zip(inner, kinds) if wanted is None or kind in wanted or kind is None]
            out["anyOf"] = [trimmed(i, definitions) for i in kept]
        elif key not in NOISE and key not in ("discriminator", "$defs"):
            out[key] = trimmed(inner, definitions)
    return out


def used(schema, definitions, names):
    """Adds the names of all definitions that a schema needs."""
    if isinstance(schema, list):
        for item in schema:
            used(item, definitions, names)
    elif isinstance(schema, dict):
        name = schema.get("$ref", "").rsplit("/", 1)[-1]
        if name and name not in names:
            names.add(name)
            used(definitions[name], definitions, names)
        for inner in schema.values():
            used(inner, definitions, names)


def write(name, package, module, events, others):
    pydantic = packages.need("pydantic")
    types = packages.need(module)
    definitions = {}
    for kind in (*events, *others):
        schema = pydantic.TypeAdapter(getattr(types, kind)).json_schema()
        definitions.update(schema.pop("$defs", {}))
        definitions[kind] = schema
    definitions = {kind: trimmed(schema, definitions) for kind, schema in definitions.items()}
    names = set()
    for kind in (*events, *others):
        used({"$ref": "#/$defs/" + kind}, definitions, names)
    data = {package: importlib.metadata.version(package), "events": {type_of(definitions[kind]): kind for kind in events},
            "$defs": {kind: definitions[kind] for kind in sorted(names)}}
    path = ROOT / f"tests/data/clients/{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(data, indent=None, separators=(",", ":"), sort_keys=True).replace('},"', '},\n"') + "\n")
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes, {len(events)} events")


def main():
    for file in FILES:
        packages.need(file[1])
        write(*file)


if __name__ == "__main__":
    main()
