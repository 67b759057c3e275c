"""Requests whose answers are held to something that is dear: to compile, at each token, or to keep. Each is another one, so
that none is found compiled."""

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"


def large_schemas(number, properties=400):
    """Large schemas, each of them another."""
    names = [f"p{number}_{i}" for i in range(properties)]
    member = {"anyOf": [{"type": "string", "maxLength": 40}, {"type": "array", "items": {"type": "integer", "minimum": 7}}]}
    return COMPLETIONS, {"json_schema": {"type": "object", "properties": dict.fromkeys(names, member), "required": names[::7]}}


def dear_schemas(number, classes=15000):
    """One schema that is dear to compile, in ever new words: a pattern of many large classes of characters."""
    return COMPLETIONS, {"json_schema": {"title": f"{number}", "type": "string", "pattern": "\\p{L}" * classes}}


def regex_states(number):
    """A pattern that has another state after every text."""
    return COMPLETIONS, {"guided_regex": f"([a-z ]*x[^q]{{{200 + number % 50}}}y){{1,9}}|[^0-9]*a[^0-9]{{30}}b"}


def dear_masks(number, rules=300):
    """Hundreds of lexemes under way at once, so that masks are dear at each token."""
    lines = [f'r{i} ::= [^{chr(97 + i % 26)}{chr(65 + i // 26 % 26)}!]* "!{i}" r{i} | "z"' for i in range(rules)]
    root = f'root ::= "{number}"? (' + " | ".join(f"r{i}" for i in range(rules)) + ")"
    return COMPLETIONS, {"grammar": "\n".join([root, *lines])}


def ambiguous(number, length=1500):
    """Each token may end parts of the text that begin at all tokens before it; and it must not end."""
    return COMPLETIONS, {"grammar": f'root ::= "{number}"? s\ns ::= s s | "a" | "b" | "e" | "o" | " "',
                         "max_tokens": length, "min_tokens": length}


def schema_choices(number, n=64):
    """As many answers as may be asked for, each with a parser of its own."""
    value = {"type": "object", "additionalProperties": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/v"}}}
    return COMPLETIONS, {"n": n, "json_schema": {"title": f"{number}", "$ref": "#/$defs/v", "$defs": {"v": value}}}


def endless_calls(number, tools=3):
    """Calls of a tool whose arguments never end."""
    parameters = {"type": "object", "properties": {"a": {"type": "string"}}, "title": f"{number}"}
    listed = [{"type": "function", "function": {"name": f"tool_{i}", "parameters": parameters}} for i in range(tools)]
    return CHAT, {"messages": [{"role": "user", "content": "call"}], "tools": listed, "n": 8,
                  "tool_choice": {"type": "function", "function": {"name": "tool_1"}}}


REQUESTS = {
    "large-schemas": large_schemas,
    "dear-schemas": dear_schemas,
    "regex-states": regex_states,
    "dear-masks": dear_masks,
    "ambiguous": ambiguous,
    "schema-choices": schema_choices,
    "endless-calls": endless_calls,
}
