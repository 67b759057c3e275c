#!/usr/bin/env python3
"""Speed of `ingot tokenize` beside the Python package `tokenizers`, one thread each, the same texts in the same run.

    python3 tools/bench_tokenizer.py --ingot build/release/ingot \\
        --tokenizer llama-3.2=DIR --tokenizer qwen3=DIR --text wiki=wiki.test.raw --text code=code.txt

A DIR holds a tokenizer.json. Every text goes through both programs line by line in one batch, and as one document;
repetitions take turns, and the table has the medians. Times are of the processor, so that other programs on the machine
count little. The package's side is the faster one of encode_batch and encode_batch_fast. Both sides have seen the text
once before, and the ids are compared.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"


class Ingot:
    """A running `ingot tokenize --time`."""

    def __init__(self, program, directory):
        command = [program, "tokenize", directory, "--parse-special", "--time"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def encode(self, batch):
        """The ids of each text, and the seconds that making them took."""
        data = b"".join(json.dumps({"text": text}, ensure_ascii=False).encode() + b"\n" for text in batch)

        def feed():
            self.process.stdin.write(data)
            self.process.stdin.flush()

        feeder = threading.Thread(target=feed)
        feeder.start()
        answers = [json.loads(self.process.stdout.readline()) for _ in batch]
        feeder.join()
        return [answer["ids"] for answer in answers], sum(answer["seconds"] for answer in answers)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def timed(function, batch):
    start = time.thread_time()
    encodings = function(batch, add_special_tokens=False)
    return encodings, time.thread_time() - start


def measure(ingot, package, batch, repeat):
    """Seconds: ours, theirs, both medians. Exits where the ids differ."""
    functions = [package.encode_batch]
    if hasattr(package, "encode_batch_fast"):
        functions.append(package.encode_batch_fast)
    ids, _ = ingot.encode(batch)
    for function in functions:
        encodings, _ = timed(function, batch)
        if [encoding.ids for encoding in encodings] != ids:
            sys.exit("the ids differ")
    del ids, encodings
    ours, theirs = [], [[] for _ in functions]
    for _ in range(repeat):
        ours.append(ingot.encode(batch)[1])
        for function, times in zip(functions, theirs):
            times.append(timed(function, batch)[1])
    return statistics.median(ours), min(statistics.median(times) for times in theirs)


def pairs(arguments):
    return [argument.split("=", 1) for argument in arguments]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ingot", default="build/release/ingot")
    parser.add_argument("--tokenizer", action="append", required=True, metavar="NAME=DIR")
    parser.add_argument("--text", action="append", required=True, metavar="NAME=FILE")
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()

    import tokenizers

    print(f"| tokenizer | text | as | ingot MB/s | tokenizers {tokenizers.__version__} MB/s | ratio |")
    print("|---|---|---|---|---|---|")
    for name, directory in pairs(options.tokenizer):
        package = tokenizers.Tokenizer.from_file(os.path.join(directory, "tokenizer.json"))
        ingot = Ingot(options.ingot, directory)
        for text_name, file in pairs(options.text):
            with open(file, encoding="utf-8", newline="") as stream:
                text = stream.read()
            megabytes = len(text.encode()) / 1e6
            for shape, batch in (("lines", text.splitlines(keepends=True)), ("document", [text])):
                ours, theirs = measure(ingot, package, batch, options.repeat)
                print(f"| {name} | {text_name} | {shape} | {megabytes / ours:.1f} | {megabytes / theirs:.2f} "
                      f"| {theirs / ours:.1f} |", flush=True)
        ingot.close()


if __name__ == "__main__":
    main()
