"""Malformed bodies of every route that takes one: made of the server's own table of fields, with any value in any place."""
import json
import os
import random
import time
import unittest

import client_case
import serving
from test_serve_bad_requests import find_tables, strange_values

LONG = os.environ.get("INGOT_LONG") == "1"
EACH = 10000 if LONG else 150  # bodies of a route
WORDS = ("", "a", "hello", "think", "two", "f", "get_weather", "{}", '{"type": "object"}', "default", "(a|b)+", "start: \"a\"")
LENGTHS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def made(table, rng):
    """An object that the table allows, as far as tables tell."""
    chance = 3 / max(6, len(table))
    return {name: value_of(field, rng) for name, field in table.items() if field.get("required") or rng.random() < chance}


def value_of(field, rng, depth=0):
    kind = rng.choice(field["type"])
    if kind == "boolean":
        return rng.random() < 0.5
    if kind == "integer":
        return int(rng.choice([field.get("minimum", 0), field.get("maximum", 1), 1, 2]))
    if kind == "number":
        return rng.choice([field.get("minimum", 0), field.get("maximum", 1), 0.5])
    if kind == "string":
        return rng.choice(field["values"].split("|") if "values" in field else WORDS)
    if kind == "object":
        return made(field["members"], rng) if "members" in field else rng.choice([{}, {"type": "object"}, {"a": "b"}])
    kinds = field.get("items") or ["string", "integer", "object"]
    item = {**field, "type": kinds}
    item.pop("values", None)
    return [value_of(item, rng, depth + 1) for _ in range(rng.choice([1, 1, 2, 3]))] if depth < 3 else []


class Malformed(client_case.ScriptedCase):
    ARGS = ("--ctx", "512")

    def test_no_body_is_the_servers_fault(self):
        tables = find_tables(self.server.get("/v1/limits").json())
        described = self.server.get("/openapi.json").json()["paths"]
        self.assertEqual(set(tables), {path for path, methods in described.items() if "requestBody" in methods.get("post", {})})
        connection, seen = self.server.connect(), set()
        for path, table in sorted(tables.items()):
            rng, statuses = random.Random(path), {}
            for _ in range(EACH):
                body = made(table, rng)
                body.update({name: 3 for name in LENGTHS if name in table})
                for _ in range(rng.choice([0, 1, 1, 2, 3])):
                    places = client_case.places(body)
                    if places:
                        at, key = rng.choice(places)
                        at[key] = strange_values(rng)
                data = json.dumps(body)
                begun = time.monotonic()
                connection.request("POST", path, data, {"content-type": "application/json"})
                response = connection.getresponse()
                answer = response.read()
                serving.check_refusal(response.status, answer, time.monotonic() - begun)
                statuses[response.status] = statuses.get(response.status, 0) + 1
                late = (504,) if "timeout" in body else ()  # on a busy machine, where a second was asked for
                self.assertIn(response.status, (200, 400, 404, *late), f"{path} {data[:2000]} -> {answer[:500]}")
            self.assertIn(400, statuses, path)
            # Few bodies of a long table are right in every field: of 150 there may be none.
            self.assertTrue(200 in statuses or not LONG, path)
            seen.update(statuses)
            if LONG:
                print(path, statuses, flush=True)
        connection.close()
        self.assertIn(200, seen)
        self.assert_alive()


if __name__ == "__main__":
    unittest.main()
