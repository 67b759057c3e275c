"""Seed inputs of the languages of grammars, for make_corpus.py."""
import json


def schema_seeds():
    """Schemas, as requests send them."""
    seeds = {
        "types": {"type": ["string", "null", "integer", "number", "boolean"]},
        "object": {"type": "object", "properties": {"a": {"type": "integer", "minimum": -3, "exclusiveMaximum": 12.5},
                                                    "b": {"enum": ["x", 1, None, {"c": [True]}]}},
                   "required": ["a", "z"], "additionalProperties": {"type": "string"}, "minProperties": 2,
                   "maxProperties": 4},
        "array": {"type": "array", "prefixItems": [{"const": 1}], "items": {"type": "string"}, "minItems": 1,
                  "maxItems": 5, "contains": {"pattern": "^a"}, "minContains": 1, "maxContains": 2},
        "unique": {"type": "array", "items": {"enum": ["a", "b", 3]}, "uniqueItems": True},
        "one_of": {"oneOf": [{"properties": {"k": {"const": "a"}}, "required": ["k"]}, {"multipleOf": 0.3},
                             {"not": {"type": "object"}}]},
        "if": {"if": {"properties": {"k": {"const": 1}}}, "then": {"required": ["x"]}, "else": {"maxProperties": 1},
               "type": "object"},
        "recursive": {"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {
            "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/n"}]}}, "required": ["next"]}}},
        "itself": {"$ref": "#"},
        "anchors": {"$id": "http://a/b", "$ref": "c#x", "$defs": {"y": {"$id": "c", "$defs": {
            "z": {"$anchor": "x", "type": "null"}}}}, "$schema": "https://json-schema.org/draft/2020-12/schema"},
        "keys": {"type": "object", "patternProperties": {"^a": {"type": "null"}, "b$": False},
                 "propertyNames": {"maxLength": 3}},
        "dependencies": {"type": "object", "dependencies": {"a": ["b"], "c": {"minProperties": 2}},
                         "dependentRequired": {"x": ["y"]}, "dependentSchemas": {"q": {"required": ["r"]}}},
        "unevaluated": {"anyOf": [{"properties": {"a": True}}, {"properties": {"b": True}, "required": ["b"]}],
                        "unevaluatedProperties": False, "unevaluatedItems": {"type": "null"}, "prefixItems": [True]},
        "formats": {"anyOf": [{"format": name, "type": "string"} for name in (
            "date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "uuid", "json-pointer",
            "uri-template", "regex", "none")]},
        "draft4": {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": True,
                   "id": "http://x/y", "items": [{"type": "null"}], "additionalItems": False},
        "not": {"not": {"type": "object", "properties": {"a": {"minLength": 2}}, "required": ["a"],
                        "additionalProperties": False}},
        "bad_type": {"type": "strin"},
        "bad_pattern": {"properties": {"a": {"pattern": "(?=x)"}}},
        "bad_reference": {"$ref": "#/definitions/none"},
        "nothing": {"type": "string", "minLength": 3, "maxLength": 2},
    }
    for name, schema in seeds.items():
        yield name, json.dumps(schema).encode()
    yield "not_json", b'{"type": '
    yield "deep", b'{"anyOf":[' * 200 + b"{}" + b"]}" * 200
    yield "twice", b'{"type":"null","type":"string"}'


def gbnf_seeds():
    """Grammars of llama.cpp."""
    yield "list", b'root ::= item+\n# lines\nitem ::= "- " [^\\r\\n\\x0b]+ "\\n"\n'
    yield "recursive", b'root ::= expr\nexpr ::= term ([-+*/] term)*\nterm ::= [0-9]+ | "(" expr ")"\n'
    yield "counts", b'root ::= "a"{2} "b"{1,} "c"{0,3} .? ( "x" |\n "y" )*\n'
    yield "empty", b'root ::= | "a" root\n'
    yield "escapes", b'root ::= "\\x41\\u00e9\\U0001F600\\t\\"\\\\" [\\]a-z^-]\n'
    yield "no_root", b'start ::= "a"\n'
    yield "no_rule", b"root ::= missing\n"
    yield "twice", b'root ::= "a"\nroot ::= "b"\n'
    yield "endless", b"root ::= root\n"
    yield "open", b'root ::= ("a"\n'
    yield "stars", b'root ::= "a"' + b"*" * 300
    yield "token", b"root ::= <[12]>\n"


def lark_seeds():
    """Lark, as custom tools send it."""
    yield "sum", b'start: expr\n?expr: expr "+" term | term\nterm: INT -> number\n%import common.INT\n%ignore " "\n'
    yield "regex", b'start: NAME ("," NAME)*\nNAME.2: /[a-z]+\\/?/i | "x".."z"\n// end\n'
    yield "counts", b'start: "a"~2 "b"~1..3 ["c"i] (D|E)+\nD: "d"\nE: D D\n'
    yield "imports", b"%import common (WS, NUMBER, ESCAPED_STRING)\n%ignore WS\nstart: NUMBER | ESCAPED_STRING\n"
    yield "special", b"start: <end> | /a/\n"
    yield "itself", b'start: A\nA: "a" A\n'
    yield "rule_in_terminal", b'start: A\nA: start\n'
    yield "template", b"start: list{A}\n"
    yield "declare", b"%declare A\nstart: A\n"
    yield "no_start", b'rule: "a"\n'
    yield "flags", b"start: /a/x\n"


def structural_tag_seeds():
    """Free text with tags."""
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    seeds = {
        "old": {"type": "structural_tag", "triggers": ["<f="], "structures": [
            {"begin": "<f=x>", "schema": schema, "end": "</f>"}, {"begin": "<f=y>", "schema": {}, "end": "</f>"}]},
        "triggered": {"format": {"type": "triggered_tags", "triggers": ["<t>"], "at_least_one": True,
                                 "stop_after_first": True, "tags": [
                                     {"type": "tag", "begin": "<t>", "content": {"type": "any_text"}, "end": "</t>"}]}},
        "sequence": {"format": {"type": "sequence", "elements": [
            {"type": "const_string", "value": "a"}, {"type": "regex", "pattern": "[0-9]+"},
            {"type": "or", "elements": [{"type": "json_schema", "json_schema": schema},
                                        {"type": "grammar", "grammar": 'root ::= "x" root | ""'}]},
            {"type": "any_text"}]}},
        "separated": {"format": {"type": "tags_with_separator", "separator": ",", "tags": [
            {"type": "tag", "begin": "[", "content": {"type": "json_schema", "json_schema": True}, "end": "]"}]}},
        "no_trigger": {"triggers": ["<x"], "structures": [{"begin": "<f>", "schema": {}, "end": ""}]},
        "unknown": {"format": {"type": "qwen"}},
        "nothing": {"triggers": ["<"], "structures": [{"begin": "<", "schema": False, "end": ""}]},
    }
    for name, tag in seeds.items():
        yield name, json.dumps(tag).encode()


def calls_seeds():
    """Calls of tools, as the server asks for them."""
    schema = {"type": "object", "properties": {"a": {"type": ["string", "number"]}, "b": {"enum": ["x", None, [1]]}},
              "required": ["a"], "additionalProperties": False}
    for form in ("hermes", "qwen-coder", "glm", "deepseek-v3.2", "kimi-k3", "lfm2", "gemma4", "harmony", "llama3", "solar",
                 "minicpm5", "functionary"):
        for required in (False, True):
            tools = [{"name": "f", "schema": schema, "strict": required}, {"name": "g", "schema": True}]
            yield f"{form}_{required}", json.dumps({"form": form, "required": required, "one": not required, "tools": tools}).encode()
    custom = [{"name": "c", "text": {"lark": 'start: "a"+ "<"?'}}, {"name": "d", "text": {"regex": "[a-z]{2}"}}]
    yield "custom", json.dumps({"form": "qwen-coder", "required": True, "tools": custom}).encode()
    bad = [{"name": "f", "schema": {"properties": {"a": {"pattern": "(?=x)"}}}}]
    yield "relaxed", json.dumps({"form": "hermes", "tools": bad}).encode()
    yield "no_form", b'{"form": "none", "tools": [{"name": "f", "schema": {}}]}'
    yield "no_tools", b'{"form": "hermes", "tools": []}'
