#!/usr/bin/env python3
"""Writes tests/data/tokenizers/stages.jsonl: what the `tokenizers` library's normalizers and pre-tokenizers make of texts.

    pip install tokenizers==0.23.3 sentencepiece==0.2.1
    tools/make_stage_vectors.py [TEXTS [SEED]] > tests/data/tokenizers/stages.jsonl

A line is {"normalizer" or "pre_tokenizer": a stage as in a tokenizer.json, "cases": [[text, result], ...]}. TEXTS is the
number of cases of each stage; the file in the repository has 14. Larger ones are checked with
INGOT_STAGE_VECTORS=FILE text_tests --gtest_filter='Stages.*'
"""

import base64
import io
import json
import random
import re
import sys
import unicodedata
from pathlib import Path

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

N, P = normalizers, pre_tokenizers
ROOT = Path(__file__).resolve().parent.parent
FRAGMENTS = [
    "'s", "'S", "'RE", "'ll", "'ſ", "'", " ", "  ", "   ", "\n", "\r\n", "\n\n", "\t", "\u00a0", "\u3000", "\u0085", "/",
    "1", "12", "1234567", "١٢٣", "½", "²", "Ⅷ", "中文", "漢字かなカナー", "가나다", "é", "e\u0301", "\u0323\u0301", "AB", "Ab",
    "aB", "ǅ", "ʰ", "!", "...", "$", "+=", "😀", "👩\u200d👧", "🇫🇷🇩🇪🇫", "\u200d", "\u200c", "\ufeff", "\ufffd", "▁", "the",
    " king", "KING", "ﬁ", "ﷺ", "①", "Å", "\u212b", "İ", "ΑΣ", "ß", "ẞ", "क्षि", "\u0915\u094d\u0937", "ก็", "ျ",
    "\u1100\u1161\u11a8", "\uac00\u11a8", "\u0001", "\u007f", "\u00ad", "\u180e", "\u200b", "\u2028", "。", "、", "…", "؟",
    "<sentinel:12>", "IMGIMGABZ", "\U0001F1E6", "\U00011131\U00011127", "\U000116B6", "\U0001E08F", "\u1AC5", "\U00011DE1",
    "ᦀ", "𐐀", "Ა", "ꙮ", "ⲁ", "a1b2", "x_y", "ab cd ef", "〇", "々", "⺀", "ㄅ", "ㄱ", "！？", "—", "“”", "|", "(", ")", "`", "^", "\\",
]  # fmt: skip
RANGES = [(0, 0x2FF), (0x300, 0x36F), (0x900, 0xDFF), (0xE00, 0x11FF), (0x1AB0, 0x1FFF), (0x2000, 0x2BFF), (0x2E80, 0x33FF),
          (0xA000, 0xABFF), (0xF900, 0xFFFD), (0x10000, 0x11FFF), (0x1D100, 0x1D7FF), (0x1E000, 0x1FBFF), (0, 0x10FFFF)]  # fmt: skip


def text(rng):
    result = ""
    for _ in range(rng.choice([1, 2, 3, 5, 8, 12])):
        if rng.random() < 0.75:
            result += rng.choice(FRAGMENTS) * rng.choice([1, 1, 1, 1, 2, 4])
        else:
            first, last = rng.choice(RANGES)
            result += "".join(chr(rng.randint(first, last)) for _ in range(rng.choice([1, 1, 2, 4])))
    return "".join(c for c in result if not 0xD800 <= ord(c) < 0xE000)


def scanner_patterns():
    """The patterns of the table in src/text/split/scanner_patterns.cpp."""
    source = (ROOT / "src/text/split/scanner_patterns.cpp").read_text()
    table = source[source.index("kKnown[] = {") : source.index("for (const Known")]
    pattern = ""
    for raw, plain, scanner in re.findall(r'R"\((.*?)\)"|"((?:[^"\\]|\\.)*)"|(scan_\w+)', table):
        if scanner:
            yield pattern
            pattern = ""
        else:
            pattern += raw or json.loads(f'"{plain}"')


REGEXES = [
    r"\d{1,3}(?=(?:\d{3})*\b)", r"(?=(\d{3})+(?!\d))", r"\b", r"\w+|[^\w\s]", r"[^\s\p{L}]+", r"\h+", r"a|b|", r"(?i)king|\bthe\b",
    r"(?i:KING)", r"\p{N}{1,3}+", r"[a-z[0-9]]+", r"\s*$", r"^\s*", r"(?<=\p{L})\p{N}", r"\p{Lu}\p{Ll}*", r"(?>\s+)x?", r"[\s\S]",
    r"x{,2}", r"\p{Han}+", r"[\]\[a]", r"\p{L}{2}", r".",
]  # fmt: skip
BEHAVIORS = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]


def charsmap():
    import sentencepiece

    result = {}
    for rule in ("nmt_nfkc_cf",):
        model = io.BytesIO()
        words = iter(["ab cd ef gh ij kl mn op qr st uv wx yz " * 5] * 20)
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=words, model_writer=model, vocab_size=40, normalization_rule_name=rule, minloglevel=2
        )
        data = model.getvalue()
        # normalizer_spec is field 3 of the model, precompiled_charsmap field 2 of that: the only long field there.
        at = data.index(b"\x12", data.index(rule.encode()))
        size, shift, pos = 0, 0, at + 1
        while True:
            size |= (data[pos] & 0x7F) << shift
            shift += 7
            pos += 1
            if data[pos - 1] < 0x80:
                break
        result[rule] = data[pos : pos + size]
    return result


def stages():
    yield from (N.NFC(), N.NFD(), N.NFKC(), N.NFKD(), N.Lowercase(), N.StripAccents(), N.Nmt(), N.ByteLevel())
    yield from (N.Strip(), N.Strip(left=False), N.Strip(right=False), N.Prepend("▁"), N.Replace(" ", "▁"), N.Replace("'", ""))
    yield N.Sequence([N.NFD(), N.StripAccents(), N.Lowercase()])
    for pattern in (r" {2,}", r"\s+", r"[^\S\n]+", r"(?=\d)", r"\p{P}+"):
        yield N.Replace(Regex(pattern), "▁")
    yield N.BertNormalizer()
    for clean in (True, False):
        for strip in (None, True, False):
            yield N.BertNormalizer(clean_text=clean, handle_chinese_chars=not clean, strip_accents=strip, lowercase=False)
    yield from (P.Whitespace(), P.WhitespaceSplit(), P.BertPreTokenizer(), P.UnicodeScripts(), P.CharDelimiterSplit("a"))
    yield from (P.Digits(True), P.Digits(False), P.FixedLength(3), P.FixedLength(1))
    for prefix in (True, False):
        for regex in (True, False):
            yield P.ByteLevel(add_prefix_space=prefix, use_regex=regex)
    for scheme in ("always", "first", "never"):
        for split in (True, False):
            yield P.Metaspace(prepend_scheme=scheme, split=split)
    yield P.Sequence([P.WhitespaceSplit(), P.Metaspace(prepend_scheme="first")])
    yield P.Sequence([P.Punctuation("contiguous"), P.ByteLevel(False), P.Digits(False), P.Split(Regex("[0-9][0-9][0-9]"), "isolated")])
    yield P.Sequence([P.ByteLevel(False), P.ByteLevel(True)])
    yield P.Sequence([P.Split(Regex(r"\s+"), "removed"), P.UnicodeScripts(), P.ByteLevel(False, use_regex=False)])
    for behavior in BEHAVIORS:
        yield P.Punctuation(behavior)
        for invert in (False, True):
            yield P.Split(" ", behavior, invert=invert)
            yield P.Split(Regex(r"\p{N}{1,3}"), behavior, invert=invert)
            yield P.Split(Regex(r"(?=\d)|x|\b"), behavior, invert=invert)
    for pattern in [*scanner_patterns(), *REGEXES]:
        yield P.Split(Regex(pattern), "isolated")
    yield from charsmap_stages()


def charsmap_stages():
    for blob in charsmap().values():
        yield {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(blob).decode()}


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 14
    rng = random.Random(sys.argv[2] if len(sys.argv) > 2 else "stages")
    scanned = set(scanner_patterns())
    for stage in stages():
        tokenizer = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
        if isinstance(stage, dict):
            config = json.loads(tokenizer.to_str())
            config["normalizer"] = stage
            tokenizer = Tokenizer.from_str(json.dumps(config))
            stage = tokenizer.normalizer
        is_normalizer = isinstance(stage, N.Normalizer)
        if is_normalizer:
            tokenizer.normalizer = stage
        else:
            tokenizer.pre_tokenizer = stage
        key = "normalizer" if is_normalizer else "pre_tokenizer"
        config = json.loads(tokenizer.to_str())[key]
        if "precompiled_charsmap" in config and count <= 14:
            continue  # 300 KB
        regexes = re.findall(r'"Regex": "((?:[^"\\]|\\.)*)"', json.dumps(config))
        known = all(json.loads(f'"{regex}"') in scanned for regex in regexes)
        cases = []
        for _ in range(count):
            source = text(rng)
            if not known:  # goes through PCRE2, whose Unicode may be as old as 14.0, as Python 3.11 has it
                source = "".join(c for c in source if unicodedata.category(c) != "Cn")
            if is_normalizer:
                cases.append([source, stage.normalize_str(source)])
            else:
                cases.append([source, [piece for piece, _ in stage.pre_tokenize_str(source)]])
        print(json.dumps({key: config, "cases": cases}, ensure_ascii=False))


main()
