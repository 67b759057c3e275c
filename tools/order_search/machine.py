"""Runs orders on this core: assembles a tile's loop, builds order_search/harness.cpp and calls it."""
import pathlib
import platform
import re
import shutil
import subprocess
import tempfile

from order_search import instructions

FLAGS = ["-march=armv8.2-a+dotprod+i8mm+bf16"]
HARNESS = pathlib.Path(__file__).resolve().parent / "harness.cpp"
BLOCKS = 32  # of K at once: as many as the kernels keep in the first-level cache
_SOLO_OPERANDS = {f"{name}{i}": 8 + 4 * which + i for which, name in enumerate("da") for i in range(4)}


def missing():
    """Why orders cannot run here, or None."""
    if platform.machine() not in ("aarch64", "arm64"):
        return "the machine is no AArch64"
    features = re.search(r"^Features\s*:(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    if features is None or "i8mm" not in features[1].split():
        return "the CPU has no i8mm"
    for program in ("g++", "objcopy", "nm"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    return None


def _number(register):
    return _SOLO_OPERANDS[register] if isinstance(register, str) else register


def _bits(registers):
    return sum(1 << number for number in {_number(register) for register in registers})


def _assembly(tile, places):
    """The whole loop, with the plain order between `body` and what goes on to the next block."""

    def operand(match):
        name = match[1]
        return f"v{_SOLO_OPERANDS[name]}" if name in _SOLO_OPERANDS else f"x{places[name]}"

    lines = [".text", ".global tile", "tile:", "stp d8, d9, [sp, #-64]!"]
    lines += [f"stp d{8 + 2 * i}, d{9 + 2 * i}, [sp, #{16 * i}]" for i in range(1, 4)]
    lines += [f"ldp q{2 * i}, q{2 * i + 1}, [x0, #{32 * i}]" for i in range(16)]
    lines += [f"ldr x{place}, [x0, #{1024 + 8 * place}]" for place in places.values()] + ["ldr x17, [x0, #1024]"]
    lines += [".p2align 6", ".global body", "body:", "1:"]
    lines += [re.sub(r"%\[(\w+)\]", operand, instruction.text) for instruction in tile.plain]
    lines += [f"add x{places[name]}, x{places[name]}, #{step}" for name, (_, step) in tile.memory.items() if step]
    lines += ["subs x17, x17, #1", "b.ne 1b"]
    lines += ["add x0, x0, #512"] + [f"stp q{2 * i}, q{2 * i + 1}, [x0, #{32 * i}]" for i in range(16)]
    lines += [f"ldp d{8 + 2 * i}, d{9 + 2 * i}, [sp, #{16 * i}]" for i in range(1, 4)] + ["ldp d8, d9, [sp], #64", "ret"]
    return "\n".join(lines) + "\n"


class Machine:
    """A folder with the harness; close() or `with` removes it."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self._folder.name)
        subprocess.run(["g++", "-std=c++20", "-O2", "-o", self.path / "harness", HARNESS], check=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._folder.cleanup()

    def _input(self, tile, orders):
        """Writes what the harness reads: the words of the loop, what each instruction reads and writes, and the orders."""
        places = {name: 1 + i for i, name in enumerate(tile.memory)}
        source, object_file, binary = (self.path / f"tile.{suffix}" for suffix in ("s", "o", "bin"))
        source.write_text(_assembly(tile, places))
        subprocess.run(["g++", *FLAGS, "-c", source, "-o", object_file], check=True)
        subprocess.run(["objcopy", "-O", "binary", "-j", ".text", object_file, binary], check=True)
        listing = subprocess.run(["nm", object_file], check=True, capture_output=True, text=True).stdout
        body = int(re.search(r"^([0-9a-f]+) T body$", listing, re.MULTILINE)[1], 16) // 4
        data = binary.read_bytes()
        words = [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)]
        lines = [str(len(words)), *map(str, words), f"{body} {len(tile.plain)} {_bits(tile.outputs)} {BLOCKS}"]
        lines += [f"{_bits(i.reads)} {_bits(i.to)} {int(i.adds)}" for i in tile.plain]
        lines.append(str(len(places)))
        lines += [f"{places[name]} {kind} {max(step * BLOCKS, 512)}" for name, (kind, step) in tile.memory.items()]
        lines.append(str(1 + len(orders)))
        lines += [" ".join(map(str, order)) for order in [range(len(tile.plain)), *orders]]
        path = self.path / "input"
        path.write_text("\n".join(lines) + "\n")
        return path

    def _run(self, mode, tile, orders, *more, silent=False):
        command = [self.path / "harness", mode, self._input(tile, orders), *map(str, more)]
        progress = subprocess.DEVNULL if silent else None
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=progress, text=True, check=mode != "check").stdout

    def check(self, tile, order):
        """Raises OrderError unless the order leaves the same bits as the plain one, with random memory."""
        if self._run("check", tile, [order]).strip() != "equal":
            raise instructions.OrderError("its results differ from those of the plain order")

    def time(self, tile, *orders):
        """Cycles of a block: of the plain order, then of each of these."""
        return [float(cycles) for cycles in re.findall(r"cycles (\S+)", self._run("time", tile, orders))]

    def search(self, tile, order, seconds, seed, silent=False):
        """(how many were tried, cycles, order) of the best order found from this one; says on stderr how it goes."""
        found = self._run("search", tile, [order], seconds, seed, silent=silent)
        tried, cycles = re.search(r"tried (\d+)\ncycles (\S+)\n", found).groups()
        return int(tried), float(cycles), [int(place) for place in re.search(r"order (.*)", found)[1].split()]
