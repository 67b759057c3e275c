"""What the tests of `ingot pull` and of the cache share: a small repository, a hub that serves it, an empty cache."""
import json
import pathlib
import random
import struct

import hub
import support

NAME = "org/tiny"


def safetensors(size, seed=1):
    """A file of about `size` bytes with one tensor of random bytes."""
    data = random.Random(seed).randbytes(size)
    header = json.dumps({"x": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return struct.pack("<Q", len(header)) + header + data


def repository(size=300_000):
    return {
        "config.json": b'{"model_type": "llama"}',
        "tokenizer.json": b"{}",
        "model.safetensors": safetensors(size),
        "README.md": b"not needed",
        "pytorch_model.bin": b"x" * 5000,
        "original/model.safetensors": b"y" * 5000,
    }


WANTED = {"config.json", "tokenizer.json", "model.safetensors", "ingot.source", "ingot.manifest"}


class PullCase(support.TestCase):
    def setUp(self):
        super().setUp()
        self.home = self.temp_dir()

    def serve(self, repos=None, **options):
        server = hub.Hub(repos or {NAME: repository()}, **options)
        self.addCleanup(server.__exit__, None, None, None)
        return server.__enter__()

    def env(self, server=None, **more):
        endpoint = server.endpoint if server else "http://127.0.0.1:9"
        clean = dict.fromkeys(("HF_TOKEN", "http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY"))
        return {**clean, "INGOT_HOME": str(self.home), "HF_ENDPOINT": endpoint, **more}

    def pull(self, server, *args, name=NAME, **more):
        return support.run("pull", name, *args, env=self.env(server, **more))

    def files(self, name=NAME):
        directory = self.home / "models" / name
        return {path.name for path in directory.iterdir()} if directory.exists() else set()

    def leftovers(self):
        partial = self.home / "partial"
        return [path for path in partial.rglob("*") if path.is_file() and path.suffix != ".lock"]

    def assert_pulled(self, result, server, name=NAME):
        self.assertEqual(result.returncode, 0, result.stderr)
        stored = pathlib.Path(result.stdout.strip())
        self.assertTrue(stored.exists())
        directory = self.home / "models" / name
        for file in self.files(name) - {"ingot.source", "ingot.manifest"}:
            self.assertEqual((directory / file).read_bytes(), server.repos[name][file], file)
        self.assertEqual(self.leftovers(), [])
