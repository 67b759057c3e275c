#!/usr/bin/env python3
"""Writes the cases of tokenizers that do not come as a tokenizer.json, each by the library that defined its container.

    make_source_fixtures.py TEXT RANKS     (TEXT: public domain; RANKS: a directory with cl100k_base.tiktoken, o200k_base.tiktoken)

tiktoken.jsonl: texts and ids of cl100k_base and o200k_base by `tiktoken`. tekken_small.json: a small vocabulary in
tekken.json's form, trained on TEXT; tekken_small.jsonl its cases by `mistral-common`. sp_*.model: SentencePiece models
trained on TEXT; sp_*.jsonl their cases by `sentencepiece`.
"""
import base64
import json
import sys

import sentencepiece
import tiktoken
import tiktoken_ext.openai_public as public
from make_fixtures import byte_level, texts
from mistral_common.tokens.tokenizers.tekken import Tekkenizer

TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|"
    r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def dump(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def tiktoken_cases(folder):
    with open("tiktoken.jsonl", "w") as out:
        for name in ("cl100k_base", "o200k_base"):
            rows = (line.split() for line in open(f"{folder}/{name}.tiktoken", "rb"))
            ranks = {base64.b64decode(token): int(rank) for token, rank in rows}
            public.load_tiktoken_bpe = lambda *_, **__: ranks
            encoding = tiktoken.Encoding(**getattr(public, name)())
            for text in [*texts(21, 150), "\n  ", "a\n \n  ", " <|endoftext|><|endofprompt|>"]:
                out.write(dump({"name": name, "text": text, "ids": encoding.encode(text, allowed_special="all")}) + "\n")


def byte_of_letter():
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {chr(b): b for b in kept}
    for i, byte in enumerate(b for b in range(256) if b not in kept):
        letters[chr(256 + i)] = byte
    return letters


def tekken_small(path):
    trained = json.loads(byte_level(path, TEKKEN, None, "<s>").to_str())["model"]["vocab"]
    letters = byte_of_letter()
    merged = [bytes(letters[c] for c in token) for token in sorted(trained, key=trained.get) if len(token) > 1]
    tokens = [bytes([i]) for i in range(256)] + merged
    vocab = [{"rank": i, "token_bytes": base64.b64encode(t).decode(), "token_str": None} for i, t in enumerate(tokens)]
    config = {"pattern": TEKKEN, "num_vocab_tokens": len(vocab), "default_vocab_size": len(vocab) - 10 + 24,
              "default_num_special_tokens": 24, "version": "v3"}
    open("tekken_small.json", "w").write(dump({"config": config, "vocab": vocab}))
    tokenizer = Tekkenizer.from_file("tekken_small.json")
    with open("tekken_small.jsonl", "w") as out:
        for text in texts(22, 200):
            ids = tokenizer.encode(text, bos=True, eos=False)
            out.write(dump({"text": text, "ids": ids[1:], "with_special": ids}) + "\n")


def sentencepiece_cases(path):
    rules = "sp_rules.tsv"
    open(rules, "w").write("41 42\t61 62\nFB01\t66 69\n3000\t20\nAD\t\n65 301\tE9\n2026\t2E 2E 2E\n9\t20\nBD\t31 2F 32\n")
    kinds = {
        "sp_bpe": dict(model_type="bpe", normalization_rule_name="identity", byte_fallback=True, add_dummy_prefix=True,
                       remove_extra_whitespaces=False, user_defined_symbols=["<tool>", "▁▁"], vocab_size=600),
        "sp_unigram": dict(model_type="unigram", normalization_rule_tsv=rules, vocab_size=400, control_symbols=["<c>"],
                           user_defined_symbols=["KING", "ﬁx"]),
        "sp_suffix": dict(model_type="unigram", normalization_rule_name="identity", byte_fallback=True, vocab_size=600,
                          treat_whitespace_as_suffix=True),
        "sp_char": dict(model_type="char", normalization_rule_name="identity", vocab_size=70),
    }
    for name, options in kinds.items():
        sentencepiece.SentencePieceTrainer.train(input=path, model_prefix=name, minloglevel=2, **options)
        model = sentencepiece.SentencePieceProcessor(model_file=f"{name}.model")
        with open(f"{name}.jsonl", "w") as out:
            for text in [*texts(23, 150), "ABAB soft\u00adhyphen ﬁ ﬁx e\u0301 … ½\u3000\tKING's  end  "]:
                out.write(dump({"text": text, "ids": model.encode(text)}) + "\n")


def main():
    tiktoken_cases(sys.argv[2])
    tekken_small(sys.argv[1])
    sentencepiece_cases(sys.argv[1])


if __name__ == "__main__":
    main()
