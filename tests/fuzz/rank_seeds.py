"""Messages between ranks, in their fixed layouts: steps (engine/model/step_message.h), and what ranks tell each other before
the first (app/rank_facts.h, comm/rank_card.h, comm/read_numbers.h)."""
import struct

STEP, HEAD = 0x70657473, 0x64616568
PAGE_ROWS = 4
# As step_message_fuzz.cpp has them: the windows of each shape's groups, 0 where there is none.
SHAPES = ((0,), (0, 6), (1, 0, 0))


def words(*values):
    return struct.pack(f"<{len(values)}i", *values)


def step(windows, seqs, copies=(), logits=(), number=1, report=0, change=None):
    """seqs: (kv_len, rows, the pages of each group). change: what becomes of the words, by their names."""
    rows = [(s, kv_len - n + i) for s, (kv_len, n, _) in enumerate(seqs) for i in range(n)]
    first = [0]
    for _, n, _ in seqs:
        first.append(first[-1] + n)
    parts = {"kind": [STEP], "number": [number & 0x7fffffff, number >> 31], "report": [report], "rows": [len(rows)],
             "seqs": [len(seqs)], "copies": [len(copies)], "tokens": [3 * i for i in range(len(rows))],
             "positions": [p for _, p in rows], "of": [s for s, _ in rows], "first": first,
             "lengths": [kv_len for kv_len, _, _ in seqs]}
    for g in range(len(windows)):
        parts[f"slots{g}"] = [seqs[s][2][g][p // PAGE_ROWS] * PAGE_ROWS + p % PAGE_ROWS for s, p in rows]
        parts[f"pages{g}"] = [page for _, _, pages in seqs for page in pages[g]]
    parts["copy"] = [word for copy in copies for word in copy]
    parts["logits"] = [len(logits), *logits]
    parts.update(change or {})
    return words(*(word for part in parts.values() for word in part))


def head(*rows, number=1):
    return words(HEAD, number, 0, len(rows), *rows)


def messages(shape, *all_of_them):
    return bytes([shape]) + b"".join(struct.pack("<H", len(message)) + message for message in all_of_them)


def step_message_seeds():
    one = [(6, 6, ((0, 1),))]
    two = [(13, 3, ((5, 4, 3, 2), (-1, 2, 1, 8))), (2, 2, ((7,), (0,)))]
    yield "prompt", messages(0, step(SHAPES[0], one, logits=(5,)))
    yield "further_head", messages(0, step(SHAPES[0], one, logits=(0, 1, 2, 3)), head(4, 5), head(0, number=2))
    yield "two_seqs", messages(1, step(SHAPES[1], two, logits=(2, 4), report=1))
    yield "copies", messages(1, step(SHAPES[1], two, copies=((0, 11, 3), (1, 0, 8)), number=(5 << 31) + 77))
    yield "next_step", messages(1, step(SHAPES[1], two), step(SHAPES[1], [(14, 1, ((5, 4, 3, 2), (-1, 2, 1, 8)))], logits=(0,)))
    yield "window_of_one", messages(2, step(SHAPES[2], [(9, 1, ((-1, -1, 4), (6, 5, 0), (0, 1, 2)))], logits=(0,)))
    yield "full", messages(0, step(SHAPES[0], [(40, 8, (tuple(range(10)),))], logits=(7, 6, 5, 4)))
    changed = {"of_another": {"of": [0, 0, 1, 1, 1]}, "position": {"positions": [10, 10, 12, 0, 1], "slots0": [14, 14, 8, 28, 29],
               "slots1": [6, 6, 32, 0, 1]},
               "length": {"lengths": [13, 3]}, "no_rows": {"first": [0, 5, 5], "of": [0] * 5, "positions": [8, 9, 10, 11, 12], "slots0": [12, 13, 14, 15, 8],
               "slots1": [4, 5, 6, 7, 32], "pages1": [3, 2, 1, 8, 0]}, "order": {"first": [0, 6, 5]},
               "begin": {"first": [1, 3, 5]}, "no_page": {"pages0": [5, -1, 3, 2, 7]}, "seen_page": {"pages1": [-1, -1, 1, 8, 0]},
               "slot": {"slots0": [18, 15, 8, 28, 29]}, "far_slot": {"slots1": [6, 7, 32, 0, 1 << 30]},
               "far_page": {"pages0": [12, 4, 3, 2, 7]}, "token": {"tokens": [0, -1, 6, 9, 12]},
               "rows": {"rows": [9]}, "many_seqs": {"seqs": [4]}, "many_copies": {"copies": [17]},
               "itself": {"copies": [1], "copy": [0, 3, 3]}, "far_copy": {"copies": [1], "copy": [1, 0, 9]},
               "group": {"copies": [1], "copy": [2, 0, 1]}, "logits": {"logits": [1, 5]}, "many_logits": {"logits": [5]},
               "kind": {"kind": [STEP - 1]}, "number": {"number": [-1, 0]}, "report": {"report": [2]},
               "goes_on": {"logits": [0, 0]}}
    for name, change in changed.items():
        yield name, messages(1, step(SHAPES[1], two, change=change))
    yield "head_alone", messages(0, head(0))
    yield "short", messages(0, step(SHAPES[0], one)[:-4], step(SHAPES[0], one)[:30], b"")


def card(host=b"node-1", place=b"0af3 pid:[4026531836]", pid=77):
    return b"\1" + host.ljust(64, b"\0") + place.ljust(128, b"\0") + struct.pack("<17q", *([3] * 16), pid)


def handshake_seeds():
    own = b"the program: 0a1b\nthe model: llama, 7 bytes\n--ctx: 4096\n--no-fuse:\n"
    facts = {"same": own, "ctx": own.replace(b"4096", b"2048"), "another_fact": own.replace(b"--ctx", b"--kv"),
             "fewer": own[:18], "more": own + b"--new: 1\n", "cut": own[:-1], "none": b"", "lines": own + b"\n\n",
             "no_text": own.replace(b"0a1b", b"\x1b[2J\0\xff")}
    for name, text in facts.items():
        yield "facts_" + name, b"\0" + text
    yield "card", card()
    yield "card_short", card()[:-1]
    yield "card_host", card(host=b"a\nb")
    yield "card_endless", card(host=b"h" * 64)
    yield "card_behind", card(host=b"a\0b")
    yield "card_place", card(place=b"\xc3\xa4")
    yield "card_pid", card(pid=-1)
    for name, value in {"bytes": 1 << 30, "bytes_free": (1 << 63) - 1, "bytes_far": (1 << 50) + 1, "bytes_below": -1}.items():
        yield name, b"\2" + struct.pack("<q", value)
    yield "bytes_short", b"\2abc"
    yield "counts", b"\3" + struct.pack("<11q", *range(11))
    yield "counts_below", b"\3" + struct.pack("<11q", *range(10), -1)
    yield "counts_short", b"\3" + struct.pack("<10q", *range(10))
