#!/usr/bin/env python3
"""Writes the small tokenizers of this directory and what the `tokenizers` library makes of texts with them.

    make_fixtures.py TEXT     (TEXT: any text in the public domain, a megabyte or so)

NAME.json is a tokenizer.json, NAME.jsonl its cases: text, ids with special tokens read as such, `with_special` (some)
with BOS and EOS added, `plain` (where it differs) with special tokens read as text, `decoded` from the ids with special tokens shown.
tok512.bin is the vocabulary of stories260K (MIT); tok512.jsonl its cases, made by the same merges in the library.
"""

import json
import random
import struct
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
FRAGMENTS = [
    "'s", "'S", "'RE", "'ll", "'ſ", "'", " ", "  ", "   ", "\n", "\r\n", "\n\n\n", "\t", "\u00a0", "\u3000", "/", "1",
    "1234", "١٢", "½", "中文", "あ", "가", "é", "e\u0301", "\u0323\u0301", "AB", "Ab", "ǅ", "ʰ", "!", "...", "$", "😀",
    "👩\u200d👧", "\ufeff", "\ufffd", "▁", "▁▁", "the", " king", " of France", "\u1100\u1161\u11a8", "\u212b", "KING",
    "What say you?", " I know not; ", "<|im_end|>", "<|im_start|>", "<tool>", "<s>", "</s>", "word", "<0x0A>", "Ġ",
]  # fmt: skip


def texts(seed, n):
    rng = random.Random(seed)
    result = ["", "Hello, world!", "  The king's 1234 men don't KNOW it.\n\n\tÄpfel, 中文 and 😀.  "]
    while len(result) < n:
        result.append("".join(rng.choice(FRAGMENTS) * rng.choice([1, 1, 1, 3]) for _ in range(rng.choice([1, 2, 4, 9]))))
    return result


def added(*tokens):
    return [AddedToken(content, normalized=False, **flags) for content, flags in tokens]


def special(tokenizer, bos):
    tokenizer.add_special_tokens(added((bos, {}), ("<|im_start|>", {"rstrip": True}), ("<|im_end|>", {"lstrip": True})))
    tokenizer.add_tokens(added(("<tool>", {}), ("word", {"single_word": True}), ("\n\n\n", {})))
    tokenizer.add_tokens([AddedToken("of France", normalized=True)])
    bos_id = tokenizer.token_to_id(bos)
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{bos} $A", special_tokens=[(bos, bos_id)])


def byte_level(path, pattern, normalizer, bos):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train([path], trainers.BpeTrainer(vocab_size=900, initial_alphabet=alphabet, show_progress=False))
    special(tokenizer, bos)
    return tokenizer


def tok512(path):
    """The vocabulary of stories260K as pairs: every split of a token into two tokens, ranked by the token's score."""
    data = open(path, "rb").read()
    pos, pieces = 4, []
    while pos < len(data):
        score, length = struct.unpack_from("<fi", data, pos)
        pieces.append((score, data[pos + 8 : pos + 8 + length].decode().replace(" ", "▁")))
        pos += 8 + length
    pieces[:3] = [(0, "<unk>"), (0, "<s>"), (0, "</s>")]
    vocab = {text: i for i, (_, text) in enumerate(pieces)}
    merges = []
    for i, (score, text) in enumerate(pieces[259:], 259):
        for cut in range(1, len(text)):
            if vocab.get(text[:cut], 0) >= 259 and vocab.get(text[cut:], 0) >= 259:
                merges.append((-score, i, text[:cut], text[cut:]))
    merges = [(a, b) for _, _, a, b in sorted(merges)]
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return tokenizer


def write(name, tokenizer, seed, n=250, keep=True):
    if keep:
        text = json.loads(tokenizer.to_str())
        json.dump(text, open(f"{name}.json", "w"), ensure_ascii=False, separators=(",", ":"))
    with open(f"{name}.jsonl", "w") as out:
        for i, text in enumerate(texts(seed, n)):
            tokenizer.encode_special_tokens = False
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            case = {"text": text, "ids": ids}
            if i < 10:
                case["with_special"] = tokenizer.encode(text).ids
            tokenizer.encode_special_tokens = True
            plain = tokenizer.encode(text, add_special_tokens=False).ids
            if plain != ids:
                case["plain"] = plain
            case["decoded"] = tokenizer.decode(ids, skip_special_tokens=False)
            out.write(json.dumps(case, ensure_ascii=False, separators=(",", ":")) + "\n")


def main():
    path = sys.argv[1]
    write("llama3_like", byte_level(path, LLAMA3, None, "<s>"), 1)
    write("o200k_like", byte_level(path, O200K, normalizers.NFC(), "<s>"), 2)

    prefixed = tok512("tok512.bin")
    prefixed.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    prefixed.add_special_tokens(added(("<unk>", {}), ("<s>", {}), ("</s>", {})))
    prefixed.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    write("tok512", prefixed, 3, keep=False)
    special(prefixed, "<s>")
    write("llama2_like", prefixed, 4)

    metaspace = tok512("tok512.bin")
    metaspace.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    special(metaspace, "<s>")
    write("mistral_like", metaspace, 5)


main()
