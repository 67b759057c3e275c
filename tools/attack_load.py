"""What a server for many tenants keeps for an honest one while others attack it, with the default model on two cores.

    python3 tools/attack_load.py [--minutes 10] [--json FILE]      every attack at once
    python3 tools/attack_load.py --fairness                        three tenants of weights 1, 2 and 4 with endless work

Under attack there are three parties, the attacking ones at the lowest priority of the CPU: an honest tenant with four
users who wait for their answers (`ingot bench serve`); a second tenant with 500 requests at priority 100; and clients with
and without its key that hold back bytes, sit on connections, do not read, and send what is dear to work on, grammars
among it. The same is
run before, for a quarter of the time, with the second tenant at priority 0 and all other attackers aimed at a listener
that takes everything: what the honest tenant gets there is what it is held to. Prints one table; exits with 1 where a mark
is missed.
"""
import argparse
import asyncio
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/e2e"))

import attack_clients  # noqa: E402
import attacks  # noqa: E402
import models  # noqa: E402
import serving  # noqa: E402
import support  # noqa: E402

MIB = attacks.MIB
HONEST, SECOND = "key-of-honest-0001", "key-of-second-0001"
FLOOD = 500  # requests of the second tenant
# Name, how many clients, whether with the second tenant's key, fields.
ATTACKS = (
    ("missing-byte", 40, False, {}),
    ("missing-byte", 16, True, {"method": "POST", "path": "/v1/completions"}),
    ("chunked-byte", 16, True, {}),
    ("idle", 1200, False, {}),
    ("slow-head", 64, False, {}),
    ("slow-body", 64, True, {}),
    ("detokenize-reader", 40, True, {}),
    ("echo-reader", 16, True, {"n": 8, "length": 256}),
    ("stream-reader", 16, True, {"n": 1}),
    ("choices", 1, True, {"prompts": 8, "n": 16, "length": 128}),
    ("hash", 2, True, {}),
    ("salted-hash", 2, True, {}),
    ("tokenize", 8, True, {}),
    ("large-schemas", 4, True, {}),
    ("dear-schemas", 4, True, {}),
    ("regex-states", 2, True, {}),
    ("dear-masks", 2, True, {}),
    ("schema-choices", 1, True, {}),
    ("endless-calls", 2, True, {}),
)
# MiB that clients can make a server hold with its default limits, beside the KV cache: docs/serving.md, "Memory". Of
# answers that are being made no attack here asks for more than 2 MiB.
BUDGET = {
    "bodies that are being read": 128,
    "bodies that wait for a worker": 128,
    "answers that wait for their readers": 64,
    "connections, 1,152 of 32 KiB": 36,
    "the largest body at work, 15 times": 60,
    "answers that are being made, 16 of 2 MiB": 32,
    "grammars": 128,
    "answers that wait for the usage log": 32,
}
WARM_UP = 3  # seconds before anything is counted
REQUEST_SECONDS = 60  # an honest request that takes longer is lost


def metrics(server, key=HONEST):
    """{series: value} of /metrics; asked again where the server has no place for who asks, then empty."""
    for _ in range(20):
        with contextlib.suppress(OSError):
            answer = server.get("/metrics", headers={"authorization": f"Bearer {key}"}, timeout=20)
            if answer.status == 200:
                lines = [line.rpartition(" ") for line in answer.body.decode().splitlines() if not line.startswith("#")]
                return {name: float(value) for name, _, value in lines}
        time.sleep(0.5)
    return {}


class Listener:
    """Takes every connection and all that is sent, and answers whole requests with nothing: what attackers are aimed at
    while the server is measured without them."""

    def __init__(self):
        attack_clients.raise_file_limit()
        self.loop, started = asyncio.new_event_loop(), threading.Event()

        async def serve():
            server = await asyncio.start_server(self.take, "127.0.0.1", 0, backlog=4096)
            self.host, self.port = server.sockets[0].getsockname()[:2]
            started.set()

        def run():
            os.nice(19)  # of this thread alone
            self.loop.run_until_complete(serve())
            self.loop.run_forever()

        threading.Thread(target=run, daemon=True).start()
        started.wait()

    async def take(self, reader, writer):
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = [int(line.split(b":")[1]) for line in head.lower().split(b"\r\n")
                          if line.startswith(b"content-length:")]
                left = length[0] if length else 0 if b"chunked" not in head else 1 << 60
                while left:
                    data = await reader.read(min(left, 65536))
                    if not data:
                        return
                    left -= len(data)
                body = b'{"tokens":[5],"count":1,"max_model_len":512}'
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                await writer.drain()
        writer.close()

    def close(self):
        self.loop.call_soon_threadsafe(self.loop.stop)


def start_server(options, folder, keys):
    path = pathlib.Path(folder) / "keys"
    path.write_text(keys)
    return serving.Server(options.model, "--api-key-file", path, "--threads", options.cores, "--log", "off",
                          *options.serve)


def start_honest(server, options, seconds):
    command = [str(support.BINARY), "bench", "serve", server.url, "--json", "--concurrency", str(options.users),
               "--duration", str(seconds), "--prompt-tokens", "60", "--gen-tokens", "64", "--ignore-eos", "--warm-up", "0",
               "--timeout", str(REQUEST_SECONDS)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, "INGOT_API_KEY": HONEST})


def honest_report(process):
    out, err = process.communicate()
    if process.returncode not in (0, 1) or not out:
        raise SystemExit(f"attack_load: the honest users could not run: {err.strip()}")
    return json.loads(out)


def say(text):
    print(f"attack_load: {text}", file=sys.stderr, flush=True)


def run_phase(options, seconds, attacked):
    """The honest tenant beside the second one, and the others at the server (or at the listener); what came of it."""
    chosen = [a for a in ATTACKS if not options.only or a[0] in options.only]
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ingot-attack-"))
        server = stack.enter_context(start_server(options, folder, f"honest {HONEST}\nsecond {SECOND}\n"))
        idle = server.memory()
        listener = Listener()
        stack.callback(listener.close)
        # The flood comes first: its requests fill what there is of the queue.
        flood = stack.enter_context(attacks.Attackers("flood", server.host, server.port, count=FLOOD, key=SECOND,
                                                      priority=100 if attacked else 0, tokens=400, length=32))
        aim = server if attacked else listener
        parties = [stack.enter_context(attacks.Attackers(name, aim.host, aim.port, count=count, wait=False,
                                                         key=SECOND if keyed else "", **fields))
                   for name, count, keyed, fields in chosen]
        for party in parties:
            party.wait()
        say(f"{'under attack' if attacked else 'calm'}: all in place, {seconds:.0f} s begin")
        time.sleep(WARM_UP)
        watch = stack.enter_context(attacks.Watch(server))
        before, begun = metrics(server), time.monotonic()
        kv = before.get("ingot_kv_bytes", 0)
        report = honest_report(start_honest(server, options, seconds))
        spent, after = time.monotonic() - begun, metrics(server)
        rows = after.get("ingot_rows_total", 0) - before.get("ingot_rows_total", 0)
        answers = {f"{party.name}{' (key)' if keyed else ''}": party.stop()
                   for party, (_, _, keyed, _) in zip(parties, chosen)}
        answers["flood"] = flood.stop()
        alive = server.alive()
    own = report["prompt_tokens"] + report["output_tokens"]
    return {"seconds": spent, "report": report, "rows": rows, "honest_tokens": own, "share": own / max(rows, 1),
            "tokens_per_second": own / spent, "health": {str(k): v for k, v in watch.statuses.items()},
            "longest_health": watch.longest, "idle_memory": idle, "kv_memory": kv, "peak_memory": watch.peak,
            "alive": alive,
            "answers": answers}


def judge_attack(options, calm, attacked):
    """[(what, value, mark, whether it holds)…]; times and shares within the tolerance."""
    slack = options.tolerance
    fair = min(0.5, calm["share"])
    least = 0.8 * fair / slack
    gap, calm_gap = attacked["report"]["gap_ms"]["p99"], calm["report"]["gap_ms"]["p99"]
    requests = attacked["report"]["requests"]
    lost = requests["lost"] + requests["failed"]
    budget = attacked["idle_memory"] + attacked["kv_memory"] + options.budget * MIB
    return [
        ("honest tenant's part of all rows", f"{100 * attacked['share']:.1f} %",
         f"≥ {100 * least:.1f} % (fair: {100 * fair:.1f})", attacked["share"] >= least),
        ("its p99 gap", f"{gap:.0f} ms", f"≤ {2 * slack * calm_gap:.0f} ms (calm: {calm_gap:.0f})",
         0 < gap <= 2 * slack * calm_gap),
        ("slowest /health", f"{1e3 * attacked['longest_health']:.0f} ms, {attacked['health']}",
         f"≤ {1e3 * slack:.0f} ms, all 200",
         attacked["longest_health"] <= slack and set(attacked["health"]) == {"200"}),
        ("peak of resident memory", f"{attacked['peak_memory'] / MIB:.0f} MiB",
         f"≤ {budget / MIB:.0f} MiB ({attacked['idle_memory'] / MIB:.0f} at first, {attacked['kv_memory'] / MIB:.0f} KV cache, "
         f"{options.budget})",
         attacked["peak_memory"] <= budget),
        ("honest answers lost or failed", str(lost), "0", lost == 0),
        ("honest requests turned away", f"{requests['rejected']} of {requests['sent']}", "0", requests["rejected"] == 0),
        ("the same process", str(attacked["alive"]), "True", attacked["alive"]),
    ]


def measure_attack(options):
    seconds = 60 * options.minutes
    calm = run_phase(options, options.calm or max(15, seconds / 4), attacked=False)
    attacked = run_phase(options, seconds, attacked=True)
    return {"calm": calm, "attacked": attacked}, judge_attack(options, calm, attacked)


# ---- Fairness ----

class Tenant:
    """Endless work: so many streams that are asked anew when they end. Counts the tokens of prompts and answers."""

    def __init__(self, server, key, streams=16, prompt=24, answer=120):
        self.server, self.key, self.prompt, self.answer = server, key, prompt, answer
        self.tokens, self.refused, self.ended = 0, 0, threading.Event()
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.run, args=(i,), daemon=True) for i in range(streams)]
        for thread in self.threads:
            thread.start()

    def add(self, tokens):
        with self.lock:
            self.tokens += tokens

    def run(self, index):
        turn = 0
        while not self.ended.is_set():
            turn += 1
            prompt = [5 + (index * 7919 + turn * 104729 + i * 31) % 200 for i in range(self.prompt)]
            try:
                self.stream(prompt)
            except OSError:
                self.ended.wait(0.2)

    def stream(self, prompt):
        body = {"prompt": prompt, "stream": True, "max_tokens": self.answer, "ignore_eos": True, "cache_prompt": False}
        connection = self.server.connect()
        try:
            connection.request("POST", "/v1/completions", json.dumps(body),
                               {"content-type": "application/json", "authorization": f"Bearer {self.key}"})
            response = connection.getresponse()
            if response.status != 200:
                self.refused += 1
                self.ended.wait(0.2)
                return
            first = True
            for line in response:
                if self.ended.is_set():
                    return
                if line.startswith(b"data: {"):
                    self.add(1 + (len(prompt) if first else 0))
                    first = False
        finally:
            connection.close()

    def stop(self):
        self.ended.set()


def first_token(server, key, prompt):
    """Seconds until the first token of a prompt."""
    stream = attacks.Streamed(server, key, prompt=prompt, max_tokens=2, cache_prompt=False)
    if stream.status != 200 or not stream.times:
        raise SystemExit(f"attack_load: a newcomer was answered with {stream.status}")
    return stream.first()


def measure_fairness(options):
    weights = (1, 2, 4)
    keys = [f"key-of-tenant-{w:04}" for w in weights]
    newcomer = "key-of-newcomer-01"
    lines = [f"tenant{w} {key} weight={w}" for w, key in zip(weights, keys)] + [f"newcomer {newcomer} weight=1"]
    with tempfile.TemporaryDirectory(prefix="ingot-fair-") as folder, start_server(options, folder, "\n".join(lines)) as server:
        prompts = [[7 + (n * 101 + i * 13) % 200 for i in range(options.prompt)] for n in range(11)]
        first_token(server, newcomer, prompts[0])
        alone = statistics.median(first_token(server, newcomer, p) for p in prompts[1:6])
        tenants = [Tenant(server, key) for key in keys]
        time.sleep(WARM_UP)
        before, stats, begun = [t.tokens for t in tenants], metrics(server, keys[0]), time.monotonic()
        time.sleep(60 * options.minutes)
        tokens, spent = [t.tokens - b for t, b in zip(tenants, before)], time.monotonic() - begun
        now = metrics(server, keys[0])
        step = (now["ingot_step_seconds_sum"] - stats["ingot_step_seconds_sum"]) / max(1, now["ingot_steps_total"] - stats["ingot_steps_total"])
        late = [first_token(server, newcomer, p) for p in prompts[6:]]
        for tenant in tenants:
            tenant.stop()
        refused = sum(t.refused for t in tenants)
    total, weight = sum(tokens), sum(weights)
    mark = 1.2 * alone * (weight + 1) + step
    rows = []
    for w, n in zip(weights, tokens):
        part = n / max(total, 1) * weight / w
        rows.append((f"tokens of the tenant of weight {w}", f"{n} ({n / spent:.1f}/s)", f"{total * w / weight:.0f} ± 5 %",
                     abs(part - 1) <= 0.05))
    rows.append(("a newcomer's first token, median of five", f"{1e3 * statistics.median(late):.0f} ms",
                 f"≤ {1e3 * mark:.0f} ms (1.2 × {1e3 * alone:.0f} × {weight + 1} + {1e3 * step:.0f})",
                 statistics.median(late) <= mark))
    rows.append(("requests turned away", str(refused), "0", refused == 0))
    return {"weights": weights, "tokens": tokens, "seconds": spent, "alone": alone, "newcomer": late, "step": step}, rows


def parse_arguments():
    parser = argparse.ArgumentParser(description="What an honest tenant keeps while others attack the server.")
    parser.add_argument("--minutes", type=float, help="of the measurement (10; with --fairness 1)")
    parser.add_argument("--model", help="a model (default: the default one)")
    parser.add_argument("--users", type=int, default=4, help="of the honest tenant (4)")
    parser.add_argument("--cores", type=int, default=2, help="that everything runs on (2)")
    parser.add_argument("--calm", type=float, help="seconds of the run without attacks (a quarter, at least 15)")
    parser.add_argument("--budget", type=int, default=sum(BUDGET.values()),
                        help=f"MiB that clients can make the server hold ({sum(BUDGET.values())})")
    parser.add_argument("--tolerance", type=float, default=1,
                        help="times and shares may miss their mark by this factor (1): for machines with other work")
    parser.add_argument("--only", action="append", help="an attack's name, again for more (default: all)")
    parser.add_argument("--serve", action="append", default=[], help="a further word for `ingot serve`")
    parser.add_argument("--fairness", action="store_true", help="shares by weight instead")
    parser.add_argument("--prompt", type=int, default=256, help="tokens of a newcomer's prompt (256)")
    parser.add_argument("--json", type=pathlib.Path, help="writes everything that was measured")
    options = parser.parse_args()
    options.minutes = options.minutes or (1 if options.fairness else 10)
    options.model = options.model or models.default_model()
    return options


def main():
    options = parse_arguments()
    cores = sorted(os.sched_getaffinity(0))[:options.cores]
    os.sched_setaffinity(0, cores)
    measured, rows = (measure_fairness if options.fairness else measure_attack)(options)
    width = max(len(row[0]) for row in rows)
    for what, value, mark, holds in rows:
        print(f"{what:{width}}  {value:>24}  {mark:40}  {'holds' if holds else 'MISSED'}")
    if options.json:
        marks = [{"what": what, "value": value, "mark": mark, "holds": holds} for what, value, mark, holds in rows]
        options.json.write_text(json.dumps({"minutes": options.minutes, "marks": marks, **measured}, indent=1) + "\n")
    return 0 if all(row[3] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
