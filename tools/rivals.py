#!/usr/bin/env python3
"""Other libraries' versions of the operators that `ingot bench ladder` measures, beside ours in the same run.

Reads a line of JSON from stdin and answers with one on stdout (src/ladder/rivals.h):
  {"op": "softmax", "size": [16384, 16384], "dtype": "f32", "variant": "", "device": "cuda", "threads": 2}
      -> {"rivals": [{"name": "torch 2.9"}, {"name": "torch compiled", "absent": "why"}]}
  {"run": "torch 2.9"} -> {"seconds": 0.00066}

Imports what is there; what is not is named with the reason. A new rival is a function in OPERATORS, which gives a
callable that runs the operator once on operands of its own. On a GPU, besides torch: its cuDNN for attention, and CUB in
a library that is built on request (-DINGOT_CUB=ON, target ingot_cub_rivals) and found in build/*/ or by
INGOT_CUB_RIVALS=FILE.
"""
import contextlib
import ctypes
import functools
import json
import os
import pathlib
import sys
import time

ROTATION = 200 << 20  # bytes of operands to pass through between two uses of one
LONG = 400e-6  # seconds of a recorded graph below which it has its runs several times: a launch costs 5 us
CUB_OPERATORS = {"reduce", "scan", "sort", "route", "histogram"}
CUDNN_OPERATORS = {"prompt_attention", "decode_attention"}


def import_torch():
    try:
        import torch
        return torch, None
    except Exception as error:  # whatever a broken installation throws is a reason in words
        return None, error


def generator(torch, case):
    # One of its own: a recording that fails leaves torch's default one unusable.
    return torch.Generator(device=case["device"]).manual_seed(1)


def tensor(torch, case, shape, dtype=None):
    kinds = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16,
             "fp8": getattr(torch, "float8_e4m3fn", None)}
    return (torch.rand(shape, device=case["device"], generator=generator(torch, case)) * 2 - 1).to(kinds[dtype or case["dtype"]])


def integers(torch, case, n, below=1 << 31, dtype=None):
    return torch.randint(0, below, (n,), device=case["device"], dtype=dtype or torch.int32,
                         generator=generator(torch, case))


def softmax(torch, case):
    x = tensor(torch, case, case["size"])
    return lambda: torch.softmax(x, -1), 2 * x.nbytes


def transpose(torch, case):
    x = tensor(torch, case, case["size"])
    return lambda: x.t().contiguous(), 2 * x.nbytes


def layer_norm(torch, case):
    x = tensor(torch, case, case["size"])
    weight, bias = (tensor(torch, case, case["size"][-1:]) for _ in range(2))
    return lambda: torch.nn.functional.layer_norm(x, weight.shape, weight, bias, 1e-5), 2 * x.nbytes


def add_rms_norm(torch, case):
    a, b = (tensor(torch, case, case["size"]) for _ in range(2))
    weight = tensor(torch, case, case["size"][-1:])

    def run():
        total = a + b
        return total, torch.nn.functional.rms_norm(total, weight.shape, weight, 1e-5)
    return run, 4 * a.nbytes


def reduce(torch, case):
    x = tensor(torch, case, case["size"])
    return lambda: x.sum(), x.nbytes


def scan(torch, case):
    x = tensor(torch, case, case["size"])
    return lambda: torch.cumsum(x, 0), 2 * x.nbytes


def histogram(torch, case):
    n = case["size"][0]
    if case["dtype"] == "u8":
        x = integers(torch, case, n, 256, torch.uint8)
        return lambda: torch.bincount(x, minlength=256), x.nbytes
    x = tensor(torch, case, [n], "f32")
    if case["variant"] == "one bin":
        x.zero_()
    return lambda: torch.histc(x, 256, -1, 1), x.nbytes


def sort(torch, case):
    x = integers(torch, case, case["size"][0])
    return lambda: torch.sort(x), 4 * x.nbytes


def route(torch, case):
    x = integers(torch, case, case["size"][0], case["size"][-1])
    return lambda: torch.sort(x, stable=True), 4 * x.nbytes


def sgemm(torch, case):
    m, n, k = case["size"]
    a, b = tensor(torch, case, [m, k]), tensor(torch, case, [n, k])
    return lambda: a @ b.t(), a.nbytes + b.nbytes


def bf16_gemm(torch, case):
    return sgemm(torch, case)


def fp8_gemm(torch, case, blocks=False, fast=False):
    """With one scale for a matrix; or, as ours, one for 128 columns of a row of a and for a block of 128 x 128 of b."""
    m, n, k = case["size"]
    a, b = tensor(torch, case, [m, k]), tensor(torch, case, [n, k])
    if blocks:
        of_a, of_b = tensor(torch, case, [k // 128, m], "f32").t(), tensor(torch, case, [n // 128, k // 128], "f32").t()
    else:
        of_a = of_b = tensor(torch, case, [], "f32")
    return lambda: torch._scaled_mm(a, b.t(), scale_a=of_a, scale_b=of_b, out_dtype=torch.bfloat16,
                                    use_fast_accum=fast), a.nbytes + b.nbytes


def gemv(torch, case):
    weight, x = tensor(torch, case, case["size"]), tensor(torch, case, case["size"][-1:])
    return lambda: weight @ x, weight.nbytes


def heads(torch, case, seqs, rows, n):
    return tensor(torch, case, [seqs, n, rows, 128])


def prompt_attention(torch, case):
    rows, n, shared = case["size"]
    q, k, v = heads(torch, case, 1, rows, n), heads(torch, case, 1, rows, shared), heads(torch, case, 1, rows, shared)
    attend = torch.nn.functional.scaled_dot_product_attention
    return lambda: attend(q, k, v, is_causal=True, enable_gqa=True), 2 * (q.nbytes + k.nbytes)


def decode_attention(torch, case):
    seqs, rows, n, shared = case["size"]
    q = heads(torch, case, seqs, 1, n)
    k, v = heads(torch, case, seqs, rows, shared), heads(torch, case, seqs, rows, shared)
    attend = torch.nn.functional.scaled_dot_product_attention
    return lambda: attend(q, k, v, enable_gqa=True), k.nbytes + v.nbytes


OPERATORS = {f.__name__: f for f in (
    softmax, transpose, layer_norm, add_rms_norm, reduce, scan, histogram, sort, route, sgemm, bf16_gemm, fp8_gemm,
    gemv, prompt_attention, decode_attention)}


def one_line(error):
    return f"{type(error).__name__}: {error}".splitlines()[0]


class Cub:
    """An operator of CUB, from the library of tools/cub_rivals.cu."""
    library = None

    @classmethod
    def load(cls):
        if cls.library is None:
            built = sorted(pathlib.Path(__file__).resolve().parent.parent.glob("build/*/libingot_cub_rivals.so"),
                           key=lambda path: path.stat().st_mtime)
            file = os.environ.get("INGOT_CUB_RIVALS") or (str(built[-1]) if built else None)
            if file is None:
                raise RuntimeError("not built: cmake -DINGOT_CUB=ON, target ingot_cub_rivals")
            library = ctypes.CDLL(file)
            library.cub_rival_version.restype = ctypes.c_char_p
            library.cub_rival_open.restype = ctypes.c_void_p
            library.cub_rival_open.argtypes = [ctypes.c_char_p] * 3 + [
                ctypes.POINTER(ctypes.c_int64), ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_int]
            library.cub_rival_seconds.restype = ctypes.c_double
            library.cub_rival_seconds.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]
            library.cub_rival_close.restype = None
            library.cub_rival_close.argtypes = [ctypes.c_void_p]
            cls.library = library
        return cls.library

    def __init__(self, case):
        self.handle, self.error = None, ctypes.create_string_buffer(256)
        library, size = self.load(), case["size"]
        _, _, device = case["device"].partition(":")
        self.handle = library.cub_rival_open(
            case["op"].encode(), case["dtype"].encode(), case["variant"].encode(), (ctypes.c_int64 * len(size))(*size),
            len(size), int(device or 0), self.error, len(self.error))
        if not self.handle:
            raise RuntimeError(self.error.value.decode())

    def __del__(self):
        if self.handle:
            self.library.cub_rival_close(self.handle)

    def seconds(self):
        seconds = self.library.cub_rival_seconds(self.handle, self.error, len(self.error))
        if seconds < 0:
            raise RuntimeError(self.error.value.decode())
        return seconds


def by_cudnn(torch, run):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def by_it():
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return run()
    return by_it


class Rival:
    """An operator of torch on as many operands as pass through the caches, recorded where the device allows it."""

    def __init__(self, torch, case, change=lambda run: run, make=None):
        self.torch, self.cuda = torch, case["device"].startswith("cuda")
        make = make or OPERATORS[case["op"]]
        first, size = make(torch, case)
        runs = [first] + [make(torch, case)[0] for _ in range(min(16, ROTATION // max(size, 1)))]
        self.runs = [change(run) for run in runs]
        self.graph = None
        for run in self.runs:
            run()
        if self.cuda:
            torch.cuda.synchronize()
            if not (case["op"] == "histogram" and case["dtype"] == "u8"):  # bincount asks the device for a size
                self.record()
                self.repeat()

    def repeat(self):
        """Records short runs several times."""
        if self.graph is None:
            return
        self.seconds()
        turns = int(LONG / max(self.seconds() * len(self.runs), 1e-6))
        if turns > 1:
            self.runs, self.graph = self.runs * min(turns, 16), None
            self.record()

    def record(self):
        graph = self.torch.cuda.CUDAGraph()
        try:
            with self.torch.cuda.graph(graph):
                self.kept = [run() for run in self.runs]
            self.graph = graph
        except RuntimeError:  # what asks the device for a size cannot be recorded
            self.torch.cuda.synchronize()

    def all(self):
        if self.graph is not None:
            self.graph.replay()
        else:
            for run in self.runs:
                run()

    def seconds(self):
        if not self.cuda:
            begin = time.perf_counter()
            self.all()
            return (time.perf_counter() - begin) / len(self.runs)
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        self.all()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3 / len(self.runs)


class Rivals:
    def __init__(self):
        self.torch, self.absent = import_torch()
        self.rivals = {}

    def begin(self, case):
        self.rivals = {}
        if case["op"] not in OPERATORS:
            return []
        found = []
        for title, make in self.candidates(case):
            try:
                self.rivals[title] = make()
                found.append({"name": title})
            except Exception as error:
                found.append({"name": title, "absent": one_line(error)})
        return found

    def candidates(self, case):
        """Names, and what makes a rival of the case or throws why there is none."""
        on_gpu = case["device"].startswith("cuda")
        yield from self.of_torch(case, on_gpu)
        if on_gpu and case["op"] in CUB_OPERATORS:
            name = "CUB"
            with contextlib.suppress(Exception):  # told by what makes it
                name += " " + Cub.load().cub_rival_version().decode()
            yield name, lambda: Cub(case)

    def of_torch(self, case, on_gpu):
        torch = self.torch
        if torch is None:
            yield "torch", self.tell_absent
            return
        name = f"torch {torch.__version__}"
        yield name, lambda: self.first_of_torch(case, on_gpu)
        if not on_gpu:
            return
        if case["op"] == "fp8_gemm":  # one call of cuBLASLt: nothing to compile
            yield f"{name}, fast sums", lambda: Rival(torch, case, make=functools.partial(fp8_gemm, fast=True))
            yield f"{name}, 128-blocks", lambda: Rival(torch, case, make=functools.partial(fp8_gemm, blocks=True))
            return
        yield f"{name} compiled", lambda: Rival(torch, case, torch.compile)
        if case["op"] in CUDNN_OPERATORS:
            yield f"cuDNN {torch.backends.cudnn.version()}", lambda: Rival(torch, case, lambda run: by_cudnn(torch, run))

    def first_of_torch(self, case, on_gpu):
        torch = self.torch
        if case.get("threads"):
            torch.set_num_threads(case["threads"])
        if on_gpu:
            torch.cuda.set_device(case["device"])
            torch.cuda.empty_cache()
            torch.backends.cuda.matmul.allow_tf32 = False
        return Rival(torch, case)

    def tell_absent(self):
        raise self.absent

    def answer(self, line):
        if "op" in line:
            return {"rivals": self.begin(line)}
        try:
            return {"seconds": self.rivals[line["run"]].seconds()}
        except Exception as error:
            return {"absent": one_line(error)}


def main():
    rivals = Rivals()
    for line in sys.stdin:
        print(json.dumps(rivals.answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
