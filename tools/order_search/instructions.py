"""The instructions that the tiles are made of: their text, what they read and write, and what they compute.

A register is a number, of v0 to v31, or the name of an operand of the asm statement ("d0": %[d0]). Memory is only read,
so an order is right if every register holds what it should when it is read: values() computes that by symbols.
"""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Instruction:
    text: str  # of the assembler, with %[name] for operands
    to: tuple = ()  # registers that it writes
    reads: tuple = ()  # registers that it reads, that of a sum it adds to first
    adds: bool = False  # adds integers to `to`, whose order does not matter


def _v(register):
    return f"%[{register}]" if isinstance(register, str) else f"v{register}"


def zero(to):
    return Instruction(f"movi {_v(to)}.4s, #0", (to,))


def smmla(to, w, x):
    return Instruction(f"smmla {_v(to)}.4s, {_v(w)}.16b, {_v(x)}.16b", (to,), (to, w, x), adds=True)


def sdot(to, w, x):
    return Instruction(f"sdot {_v(to)}.4s, {_v(w)}.16b, {_v(x)}.16b", (to,), (to, w, x), adds=True)


def to_float(to, of_16th=False):
    """Integers as floats, in place; of 1/16 of them."""
    return Instruction(f"scvtf {_v(to)}.4s, {_v(to)}.4s" + (", #4" if of_16th else ""), (to,), (to,))


def multiply(to, a, b):
    return Instruction(f"fmul {_v(to)}.4s, {_v(a)}.4s, {_v(b)}.4s", (to,), (a, b))


def multiply_lane(to, a, b, lane):
    return Instruction(f"fmul {_v(to)}.4s, {_v(a)}.4s, {_v(b)}.s[{lane}]", (to,), (a, b))


def multiply_add(to, a, b):
    return Instruction(f"fmla {_v(to)}.4s, {_v(a)}.4s, {_v(b)}.4s", (to,), (to, a, b))


def multiply_add_lane(to, a, b, lane):
    return Instruction(f"fmla {_v(to)}.4s, {_v(a)}.4s, {_v(b)}.s[{lane}]", (to,), (to, a, b))


def join_pairs(to, a, b):
    return Instruction(f"addp {_v(to)}.4s, {_v(a)}.4s, {_v(b)}.4s", (to,), (a, b))


def mask(to, a, b):
    return Instruction(f"and {_v(to)}.16b, {_v(a)}.16b, {_v(b)}.16b", (to,), (a, b))


def high_nibble(to, a):
    return Instruction(f"ushr {_v(to)}.16b, {_v(a)}.16b, #4", (to,), (a,))


def low_nibble_times_16(to, a):
    return Instruction(f"shl {_v(to)}.16b, {_v(a)}.16b, #4", (to,), (a,))


def halves_to_floats(to, a, upper=False):
    """Four f16 as floats, the lower or the upper ones."""
    return Instruction(f"fcvtl{'2' if upper else ''} {_v(to)}.4s, {_v(a)}.{'8' if upper else '4'}h", (to,), (a,))


def twice(to, a, upper=False):
    """The lower or upper two of four floats, each twice."""
    return Instruction(f"zip{2 if upper else 1} {_v(to)}.4s, {_v(a)}.4s, {_v(a)}.4s", (to,), (a, a))


def zip_bytes(to, a, b, upper=False):
    return Instruction(f"zip{2 if upper else 1} {_v(to)}.16b, {_v(a)}.16b, {_v(b)}.16b", (to,), (a, b))


def up_15_bits(to, a, upper=False):
    """Four words of 16 bits, the lower or the upper ones, as 32 bits, moved up by 15."""
    return Instruction(f"ushll{'2' if upper else ''} {_v(to)}.4s, {_v(a)}.{'8' if upper else '4'}h, #15", (to,), (a,))


def up_16_bits(to, a, upper=False):
    """Four bf16 as floats, the lower or the upper ones."""
    return Instruction(f"shll{'2' if upper else ''} {_v(to)}.4s, {_v(a)}.{'8' if upper else '4'}h, #16", (to,), (a,))


def twice_halves(to, a, upper=False):
    """The lower or upper four of eight words of 16 bits, each twice."""
    return Instruction(f"zip{2 if upper else 1} {_v(to)}.8h, {_v(a)}.8h, {_v(a)}.8h", (to,), (a, a))


def look_up(to, table, a):
    """Of each byte the byte of the table at its place."""
    return Instruction(f"tbl {_v(to)}.16b, {{{_v(table)}.16b}}, {_v(a)}.16b", (to,), (table, a))


def load(to, base, at):
    return Instruction(f"ldr q{to}, [%[{base}], #{at}]", (to,))


def load_8_bytes(to, base, at):
    return Instruction(f"ldr d{to}, [%[{base}], #{at}]", (to,))


def load_two(a, b, base, at):
    return Instruction(f"ldp q{a}, q{b}, [%[{base}], #{at}]", (a, b))


def prefetch(base, at, into="pldl3keep"):
    """`at`: bytes, or the name of an operand."""
    if at == 0:
        return Instruction(f"prfm {into}, [%[{base}]]")
    return Instruction(f"prfm {into}, [%[{base}], " + (f"%[{at}]]" if isinstance(at, str) else f"#{at}]"))


class OrderError(Exception):
    """What is wrong with an order."""


def values(order, inputs):
    """What each register holds behind the instructions, as expressions of what `inputs` held and of memory.

    Raises OrderError where a register is read that nothing was written to.
    """
    held = {register: ("input", register) for register in inputs}
    for place, instruction in enumerate(order):
        for register in instruction.reads:
            if register not in held:
                raise OrderError(f"instruction {place}, '{instruction.text}', reads {_v(register)}, which holds nothing yet")
        if instruction.adds:
            before = held[instruction.to[0]]
            products = before[2] if before[0] == "sum" else ()
            first = before[1] if before[0] == "sum" else before
            product = (instruction.text.split()[0],) + tuple(held[register] for register in instruction.reads[1:])
            held[instruction.to[0]] = ("sum", first, tuple(sorted(products + (product,), key=hash)))
            continue
        # Registers are no part of what is computed: the text without them, and what they hold.
        what = _without_registers(instruction)
        sources = tuple(held[register] for register in instruction.reads)
        for which, register in enumerate(instruction.to):
            held[register] = (what, which) + sources
    return held


def _without_registers(instruction):
    mnemonic, _, operands = instruction.text.partition(" ")
    if "[%[" in operands:  # a load: its address says what it is
        return f"{mnemonic} {operands[operands.index('[%['):]}"
    kept = [part.split(".", 1)[1] if "." in part else part for part in operands.split(", ")]
    return f"{mnemonic} {' '.join(kept)}"


def check(order, plain, inputs, outputs):
    """Raises OrderError unless `order` has the instructions of `plain` and leaves the same in `outputs`."""
    if sorted(i.text for i in order) != sorted(i.text for i in plain):
        raise OrderError("it does not have each instruction of the tile once")
    found, wanted = values(order, inputs), values(plain, inputs)
    for register in outputs:
        if found[register] != wanted[register]:
            raise OrderError(f"{_v(register)} is not what the plain order computes: a value was overwritten while it was "
                             "still to be read, or read before it was there")
