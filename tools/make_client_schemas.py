"""Writes tests/data/clients/openai_responses.json: JSON Schemas of what /v1/responses answers, from the types of the `openai`
Python client, for tests that run without it.

`python3 tools/make_client_schemas.py`, with the environment of tools/make_test_venv.py.
"""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/e2e"))
import packages  # noqa: E402

# What the server sends. Items and tools of kinds that it has not would be most of the schema.
EVENTS = (
    "ResponseCreatedEvent", "ResponseInProgressEvent", "ResponseCompletedEvent", "ResponseIncompleteEvent",
    "ResponseFailedEvent", "ResponseErrorEvent", "ResponseOutputItemAddedEvent", "ResponseOutputItemDoneEvent",
    "ResponseContentPartAddedEvent", "ResponseContentPartDoneEvent", "ResponseTextDeltaEvent", "ResponseTextDoneEvent",
    "ResponseReasoningTextDeltaEvent", "ResponseReasoningTextDoneEvent", "ResponseReasoningSummaryPartAddedEvent",
    "ResponseReasoningSummaryPartDoneEvent", "ResponseReasoningSummaryTextDeltaEvent",
    "ResponseReasoningSummaryTextDoneEvent", "ResponseFunctionCallArgumentsDeltaEvent",
    "ResponseFunctionCallArgumentsDoneEvent", "ResponseCustomToolCallInputDeltaEvent",
    "ResponseCustomToolCallInputDoneEvent",
)
ITEMS = {"message", "reasoning", "function_call", "custom_tool_call"}
TOOLS = {"function", "custom"}
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
            wanted = next((w for w in (ITEMS, TOOLS) if w <= set(kinds)), None)
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


def main():
    openai = packages.need("openai")
    pydantic = packages.need("pydantic")
    types = packages.need("openai.types.responses")
    definitions, events = {}, {}
    for name in (*EVENTS, "Response"):
        schema = pydantic.TypeAdapter(getattr(types, name)).json_schema()
        definitions.update(schema.pop("$defs", {}))
        definitions[name] = schema
    definitions = {name: trimmed(schema, definitions) for name, schema in definitions.items()}
    for name in EVENTS:
        events[type_of(definitions[name])] = name
    names = set()
    for name in (*EVENTS, "Response"):
        used({"$ref": "#/$defs/" + name}, definitions, names)
    data = {"openai": openai.__version__, "events": events, "$defs": {name: definitions[name] for name in sorted(names)}}
    path = ROOT / "tests/data/clients/openai_responses.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(data, indent=None, separators=(",", ":"), sort_keys=True).replace('},"', '},\n"') + "\n")
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes, {len(events)} events")


if __name__ == "__main__":
    main()
