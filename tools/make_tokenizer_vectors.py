#!/usr/bin/env python3
"""Writes small tokenizers and what the `tokenizers` library makes of texts with them.

    make_tokenizer_vectors.py TEXT OUT [--scale N] [--seed N] [--only NAME] [--published FILE...]

TEXT is any text in the public domain, a megabyte or so; its first part trains the models. OUT gets one line for each
tokenizer: its name, its tokenizer.json, `encode` with [text, ids, ids with special tokens added, ids with special
tokens read as text] (0 where equal to ids, null where it is not to be compared) and `decode` with [ids, text, text without special tokens] (0 where equal, null where it is not to be compared).
An OUT that ends with .xz is packed. The committed file is tests/data/tokenizers/stages.jsonl.xz, made with --scale 1;
a larger scale makes more tokenizers, decoders and texts of the same kinds. With --published the tokenizers are the given
tokenizer.json files instead, each with 5,000 texts.
"""

import argparse
import json
import lzma
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

FRAGMENTS = [
    "'s", "'S", "'ll", "'", " ", "  ", "   ", "\n", "\r\n", "\n\n\n", "\t", "\u00a0", "\u3000", "/", "1", "1234", "½",
    "中文", "あ", "가", "é", "e\u0301", "AB", "ǅ", "!", "...", "$", "😀", "👩\u200d👧", "\ufeff", "\ufffd", "▁", "▁▁", "the",
    " king", " of France", "\u1100\u1161\u11a8", "KING", "What say you?", " I know not; ", "<|im_end|>", "<tool>", "<s>",
    "</s>", "word", "<0x0A>", "Ġ", "##ing", "king</w>", "</w>", "<unk>", "[UNK]", "[CLS]", "kings and queens",
    "incomprehensibilities", "zzzzzzzzzzzz", " a", "a", "b", ".", ",", "-", "|",
]  # fmt: skip


def sample(rng):
    return "".join(rng.choice(FRAGMENTS) * rng.choice([1, 1, 1, 3]) for _ in range(rng.choice([0, 1, 2, 4, 9])))


def sentence(rng, lines):
    return rng.choice(lines)[: rng.choice([10, 40, 100])] + sample(rng)


def tokens_of(model, kind, rng):
    """Adds tokens with random flags, some of them the model's own."""
    names = ["<s>", "</s>", "<tool>", "<|im_end|>", "word", "of France", "king", "\n\n", "KING", "é", "[CLS]", "zz"]
    flags = ["single_word", "lstrip", "rstrip", "normalized"]
    for name in rng.sample(names, rng.randrange(3, 8)):
        token = AddedToken(name, special=rng.random() < 0.5, **{flag: rng.random() < 0.3 for flag in flags})
        model.add_tokens([token])
    return kind


def framing(tokenizer, rng):
    """A post-processor over tokens that there are."""
    vocab = tokenizer.get_vocab(with_added_tokens=True)
    names = sorted(vocab, key=vocab.get)
    one, two = (rng.choice(names[:20] + names[-20:]) for _ in range(2))
    pair = lambda name: (name, vocab[name])
    kinds = [
        None,
        processors.BertProcessing(pair(one), pair(two)),
        processors.RobertaProcessing(pair(one), pair(two)),
        processors.ByteLevel(trim_offsets=False),
        template([("a", vocab[one])], "a $A", "a $A $B:1"),
        template([("a", vocab[one]), ("b", vocab[two])], "a b $A:0 b", "a $A b $B b"),
        template([("b", vocab[two])], "$0 b b:1", "$A b $B b"),
        template([], "$A", "$A $B"),
    ]
    kinds.append(processors.Sequence([rng.choice(kinds[1:]), rng.choice(kinds[1:])]))
    return rng.choice(kinds)


def template(tokens, single, pair):
    return processors.TemplateProcessing(single=single, pair=pair, special_tokens=tokens)


def random_decoder(rng, depth=0):
    if depth < 2 and rng.random() < (0.8 if depth == 0 else 0.1):
        return decoders.Sequence([random_decoder(rng, depth + 1) for _ in range(rng.randrange(1, 5))])
    return rng.choice(
        [
            decoders.ByteLevel(),
            decoders.Metaspace(prepend_scheme=rng.choice(["always", "never", "first"])),
            decoders.ByteFallback(),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(rng.choice([" ", "a", "é", "中"]), rng.randrange(3), rng.randrange(3)),
            decoders.Replace(rng.choice(["▁", "a", "aa", "ing", "<0x", "Ġ", "aab", "\ufffd"]), rng.choice(["", " ", "a", "▁é"])),
            decoders.Replace(Regex(rng.choice(["a+", "[a-i]*", r"\s|▁", r"\b", "(?i)THE|é"])), rng.choice(["", " ", "-a"])),
            decoders.WordPiece(rng.choice(["##", "▁", "a"]), rng.random() < 0.5),
            decoders.BPEDecoder(rng.choice(["</w>", "a", "ing"])),
            decoders.CTC(rng.choice(["<pad>", "a"]), rng.choice(["|", " ", "the"]), rng.random() < 0.7),
        ]
    )


DECODED = [
    "a", "aa", "aab", "b", "▁the", "▁", "▁▁", "##ing", "ing", "king</w>", "</w>", "</w>a</w>", "|", "<pad>", "Ġof", "Ċ",
    "ä¸Ń", "ä", "Ń", "中", "é", " ", "  ", ".", " .", " do not", " n't", "n't", "'", " ' ", "' ", "'s", " 's", "?", "the",
    "\ufffd", "😀", "\n", "<0x", ">", "<0xZZ>", "<0xe4>", "<s>", "word",
] + [f"<0x{byte:02X}>" for byte in [0x0A, 0x20, 0x61, 0xE4, 0xB8, 0xAD, 0xF0, 0x9F, 0x98, 0x80, 0xFF, 0xC3, 0xA9, 0xED, 0xA0]]  # fmt: skip


def decoding(rng, cases):
    """One list of tokens, whatever decoder: no text is encoded."""
    tokenizer = Tokenizer(models.WordLevel({name: i for i, name in enumerate(DECODED)}, unk_token="a"))
    if rng.random() < 0.95:
        tokenizer.decoder = random_decoder(rng)
    tokenizer.add_special_tokens(["<s>"])
    tokenizer.add_tokens(["<pad>", AddedToken("<tool>", normalized=rng.random() < 0.5)])
    size = tokenizer.get_vocab_size()
    bytes_from = DECODED.index("<0x0A>")
    lists = []
    for _ in range(cases):
        choose = lambda: rng.randrange(bytes_from if rng.random() < 0.3 else 0, size)
        lists.append([choose() for _ in range(rng.choice([0, 1, 2, 3, 6, 12]))])
    return tokenizer, [], lists


def train(tokenizer, lines, kind, **options):
    trainer = {
        "BPE": trainers.BpeTrainer,
        "Unigram": trainers.UnigramTrainer,
        "WordPiece": trainers.WordPieceTrainer,
        "WordLevel": trainers.WordLevelTrainer,
    }[kind]
    tokenizer.train_from_iterator(lines[:400], trainer(show_progress=False, **options))


def unigram(rng, lines):
    tokenizer = Tokenizer(models.Unigram())
    split = rng.random() < 0.5
    scheme = rng.choice(["always", "first", "never"])
    if rng.random() < 0.3:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split)
        tokenizer.decoder = decoders.Metaspace(prepend_scheme=scheme, split=split)
    train(tokenizer, lines, "Unigram", vocab_size=300, unk_token="<unk>", special_tokens=["<unk>", "<s>"])
    if rng.random() < 0.5:  # all bytes, so that characters fall back to them
        state = json.loads(tokenizer.to_str())
        state["model"]["byte_fallback"] = True
        count = rng.choice([256, 256, 200])
        state["model"]["vocab"] += [[f"<0x{byte:02X}>", -20.0 - byte / 7] for byte in range(count)]
        if rng.random() < 0.2:
            state["added_tokens"] = []
        tokenizer = Tokenizer.from_str(json.dumps(state))
    return tokenizer


def word_piece(rng, lines):
    prefix = rng.choice(["##", "##", "@", ""])
    size = rng.choice([100, 100, 5])
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", continuing_subword_prefix=prefix, max_input_chars_per_word=size))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", rng.choice(["removed", "isolated", "merged_with_next"]))
    tokenizer.decoder = decoders.WordPiece(prefix or "##", rng.random() < 0.5)
    train(tokenizer, lines, "WordPiece", vocab_size=400, special_tokens=["[UNK]", "[CLS]"], continuing_subword_prefix=prefix)
    state = json.loads(tokenizer.to_str())
    state["model"].update(max_input_chars_per_word=size, continuing_subword_prefix=prefix)
    return Tokenizer.from_str(json.dumps(state))


def word_level(rng, lines):
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", rng.choice(["removed", "isolated", "merged_with_previous"]))
    if rng.random() < 0.5:
        tokenizer.decoder = decoders.Fuse()
    train(tokenizer, lines, "WordLevel", vocab_size=200, special_tokens=["<unk>"])
    return tokenizer


def bpe(rng, lines):
    prefix, suffix = rng.choice([(None, "</w>"), ("##", None), ("##", "</w>"), ("", ""), (None, None)])
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=rng.random() < 0.5))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", rng.choice(["removed", "isolated"]))
    options = {key: value for key, value in [("continuing_subword_prefix", prefix), ("end_of_word_suffix", suffix)] if value}
    train(tokenizer, lines, "BPE", vocab_size=400, special_tokens=["<unk>"], **options)
    if prefix:
        tokenizer.decoder = decoders.WordPiece(prefix)
    elif suffix:
        tokenizer.decoder = decoders.BPEDecoder(suffix)
    state = json.loads(tokenizer.to_str())
    model = state["model"]
    model.update(ignore_merges=rng.random() < 0.3, fuse_unk=rng.random() < 0.5, continuing_subword_prefix=prefix, end_of_word_suffix=suffix)
    if rng.random() < 0.5:
        model["byte_fallback"] = True
        for byte in range(rng.choice([256, 200])):
            model["vocab"].setdefault(f"<0x{byte:02X}>", len(model["vocab"]))
    if rng.random() < 0.2:
        model["unk_token"] = None
    return Tokenizer.from_str(json.dumps(state))


CLIP = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"


def byte_level(rng, lines):
    suffix = rng.choice([None, "</w>"])
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=rng.random() < 0.5)
    tokenizer.decoder = rng.choice([decoders.ByteLevel(), decoders.ByteLevel(), decoders.Fuse()])
    options = {"end_of_word_suffix": suffix} if suffix else {}
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    train(tokenizer, lines, "BPE", vocab_size=400, initial_alphabet=alphabet, **options)
    state = json.loads(tokenizer.to_str())
    state["model"].update(end_of_word_suffix=suffix, unk_token="!" if suffix else None)
    return Tokenizer.from_str(json.dumps(state))


def byte_alphabet(rng, lines):
    """ByteLevel before a model that is no BPE."""
    kind = rng.choice(["Unigram", "WordPiece", "WordLevel"])
    model = {"Unigram": models.Unigram, "WordPiece": models.WordPiece, "WordLevel": models.WordLevel}[kind]
    tokenizer = Tokenizer(model())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    unknown = {"unk_token": "[UNK]"} if kind == "Unigram" else {}
    train(tokenizer, lines, kind, vocab_size=300, special_tokens=["[UNK]"], **unknown)
    if kind != "Unigram":
        state = json.loads(tokenizer.to_str())
        state["model"]["unk_token"] = "[UNK]"
        tokenizer = Tokenizer.from_str(json.dumps(state))
    return tokenizer


def overlapping(rng, cases):
    """Added tokens that overlap, touch and contain each other, with every flag, over a text of few letters."""
    letters = ["a", "b", " ", "é", "e\u0301", "_", "1", ".", "\n", "\u3000", "<", ">", "A", "Å", "\u212b"]
    names = sorted({"".join(rng.choice(letters) for _ in range(rng.choice([1, 2, 2, 3]))) for _ in range(6)})
    vocab = {name: i for i, name in enumerate(["<unk>"] + letters[:4] + ["ab", "aé"])}
    tokenizer = Tokenizer(models.BPE(vocab, [("a", "b"), ("a", "é")], unk_token="<unk>"))
    tokenizer.normalizer = rng.choice(
        [None, normalizers.NFC(), normalizers.NFD(), normalizers.Replace("a", "b"), normalizers.Prepend("a"), normalizers.Strip()]
    ) or tokenizer.normalizer
    for name in names:
        flags = {flag: rng.random() < 0.4 for flag in ["single_word", "lstrip", "rstrip", "normalized"]}
        tokenizer.add_tokens([AddedToken(name, special=rng.random() < 0.4, **flags)])
    tokenizer.decoder = decoders.Fuse()
    texts = ["".join(rng.choice(letters + names) for _ in range(rng.choice([1, 3, 6, 12]))) for _ in range(cases)]
    return tokenizer, texts, []


def random_ids(tokenizer, rng, cases):
    size = tokenizer.get_vocab_size()
    return [[rng.randrange(size) for _ in range(rng.choice([1, 3, 8]))] for _ in range(cases)]


def line(name, tokenizer, texts, lists):
    tokenizer = Tokenizer.from_str(tokenizer.to_str())
    plain = Tokenizer.from_str(tokenizer.to_str())
    plain.encode_special_tokens = True
    vocab = set(tokenizer.get_vocab(with_added_tokens=True).values())
    # The library shows a special token all the same where its normalized form is not its name.
    normal = tokenizer.normalizer
    odd = {i for i, token in tokenizer.get_added_tokens_decoder().items()
            if token.special and token.normalized and normal and normal.normalize_str(token.content) != token.content}  # fmt: skip
    # Nothing that text becomes passes through a special token here; in the library a merge may.
    state = json.loads(tokenizer.to_str())
    special = {token["content"] for token in state["added_tokens"] if token["special"]}
    through = any(not special.isdisjoint(pair) for pair in state["model"].get("merges", []))
    encode = []
    for text in texts:
        try:
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            framed, as_text = tokenizer.encode(text).ids, plain.encode(text, add_special_tokens=False).ids
        except BaseException as error:  # the library panics on some texts, and on frames of more than two parts
            if isinstance(error, KeyboardInterrupt):
                raise
            continue
        same = None if through else as_text if as_text != ids else 0
        encode.append([text, ids, framed if framed != ids else 0, same])
        if len(lists) < 2 * len(texts) and tokenizer.decoder is not None:
            lists.append(framed)
    decode = []
    for ids in lists:
        if not all(i in vocab for i in ids):
            continue
        try:
            text, hidden = (tokenizer.decode(ids, skip_special_tokens=skip) for skip in [False, True])
        except BaseException as error:  # the library panics on some lists
            if isinstance(error, KeyboardInterrupt):
                raise
            continue
        decode.append([ids, text, None if odd.intersection(ids) else hidden if hidden != text else 0])
    if texts and not encode:
        return None
    source = json.dumps(state, ensure_ascii=False, separators=(",", ":"))
    return {"name": name, "json": source, "encode": encode, "decode": decode}


def published(args, lines):
    for path in args.published:
        rng = random.Random(f"{args.seed} {path}")
        tokenizer = Tokenizer.from_file(path)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        texts = [sentence(rng, lines) if i % 2 else sample(rng) for i in range(5000)]
        yield path, tokenizer, texts, random_ids(tokenizer, rng, 1000)


def make(args, lines):
    if args.published:
        yield from published(args, lines)
        return
    makers = {"unigram": unigram, "wordpiece": word_piece, "wordlevel": word_level, "bpe": bpe, "byte_level": byte_level,
              "byte_alphabet": byte_alphabet}  # fmt: skip
    for kind, maker in makers.items():
        for i in range(4 * args.scale):
            rng = random.Random(f"{args.seed} {kind} {i}")
            tokenizer = maker(rng, lines)
            tokens_of(tokenizer, kind, rng)
            processor = framing(tokenizer, rng)
            if processor is not None:
                tokenizer.post_processor = processor
            texts = [sentence(rng, lines) if rng.random() < 0.3 else sample(rng) for _ in range(24 * min(args.scale, 8))]
            yield f"{kind}-{i}", tokenizer, texts, random_ids(tokenizer, rng, 4)
    for i in range(24 * args.scale):
        yield f"overlapping-{i}", *overlapping(random.Random(f"{args.seed} overlapping {i}"), 24)
    for i in range(60 * args.scale):
        yield f"decoding-{i}", *decoding(random.Random(f"{args.seed} decoding {i}"), 16)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("text")
    parser.add_argument("out")
    parser.add_argument("--scale", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--published", nargs="*", default=[])
    args = parser.parse_args()
    lines = [text.rstrip("\n") for text in open(args.text, encoding="utf-8") if len(text) > 20][:2000]
    with (lzma.open if args.out.endswith(".xz") else open)(args.out, "wt", encoding="utf-8") as out:
        for name, tokenizer, texts, lists in make(args, lines):
            if args.only not in name:
                continue
            case = line(name, tokenizer, texts, lists)
            if case is not None:
                out.write(json.dumps(case, ensure_ascii=False, separators=(",", ":")) + "\n")


main()
