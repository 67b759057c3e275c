"""Tokens a second of many users through /v1/responses beside /v1/chat/completions, on one server, in turns.

`python3 tools/compare_apis.py MODEL [--users 16] [--rounds 5] [--tokens 64]`, on a quiet machine. Exits with 1 where the
medians differ by more than --percent.
"""
import argparse
import json
import pathlib
import re
import statistics
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/e2e"))
import serving  # noqa: E402

WORDS = "the sea is calm and the wind has gone to sleep behind the hills where nobody looks for it at night"


def body_of(path, user, turn, tokens):
    text = f"{user} {turn} " + " ".join([WORDS] * 4)
    common = {"temperature": 0, "ignore_eos": True, "stream": True, "cache_prompt": False}
    if path == "/v1/responses":
        return {"input": text, "max_output_tokens": tokens, **common}
    return {"messages": [{"role": "user", "content": text}], "max_tokens": tokens, "stream_options": {"include_usage": True},
            **common}


def tokens_of(data):
    """By the usage of the last event that has one; the rest is not parsed, so as to cost the same for both."""
    found = re.findall(rb'"(?:completion_tokens|output_tokens)":(\d+)', data[-8192:])
    return int(found[-1])


def round_of(server, path, users, turns, tokens):
    made = [0] * users

    def use(user):
        connection = server.connect()
        for turn in range(turns):
            connection.request("POST", path, json.dumps(body_of(path, user, turn, tokens)))
            answer = connection.getresponse()
            data = answer.read()
            assert answer.status == 200, data[:500]
            made[user] += tokens_of(data)
        connection.close()

    threads = [threading.Thread(target=use, args=(user,)) for user in range(users)]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(made) / (time.monotonic() - begun)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--users", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--turns", type=int, default=2, help="answers of each user in a round")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--percent", type=float, default=3)
    options = parser.parse_args()
    rates = {"/v1/chat/completions": [], "/v1/responses": []}
    with serving.Server(options.model, "--log", "off") as server:
        for turn in range(-1, options.rounds):
            for path in rates if turn % 2 else reversed(rates):
                rate = round_of(server, path, options.users, options.turns, options.tokens)
                if turn >= 0:  # the first one warms up
                    rates[path].append(rate)
    medians = {path: statistics.median(values) for path, values in rates.items()}
    for path, values in rates.items():
        print(f"{path}: {medians[path]:.1f} tokens/s, rounds {' '.join(f'{v:.1f}' for v in values)}")
    chat, responses = medians.values()
    print(f"/v1/responses: {100 * (responses / chat - 1):+.2f} %")
    return 0 if responses >= chat * (1 - options.percent / 100) else 1


if __name__ == "__main__":
    sys.exit(main())
