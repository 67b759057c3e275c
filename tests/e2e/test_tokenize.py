"""`ingot tokenize` and `detokenize`: JSON lines in, JSON lines out."""
import json
import select
import subprocess

import models
import support


class TokenizeTest(support.TestCase):
    def setUp(self):
        super().setUp()
        self.dir = models.make_tiny(self.temp_dir() / "tiny")

    def lines(self, command, *lines, args=(), model=None):
        text = "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
        result = support.run(command, model or self.dir, *args, stdin=text)
        self.assertEqual(result.returncode, 0, result.stderr)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def test_bytes_and_back(self):
        text = "Aé 漢字\n"
        (answer,) = self.lines("tokenize", {"text": text})
        self.assertEqual(answer, {"ids": [3 + byte for byte in text.encode()]})
        self.assertEqual(self.lines("detokenize", answer), [{"text": text}])

    def test_special_tokens_are_text_unless_asked_for(self):
        (plain,) = self.lines("tokenize", {"text": "</s>"})
        self.assertEqual(plain["ids"], [3 + byte for byte in b"</s>"])
        (parsed,) = self.lines("tokenize", {"text": "a</s>"}, args=["--parse-special"])
        self.assertEqual(parsed["ids"], [3 + ord("a"), 2])
        self.assertEqual(self.lines("detokenize", parsed), [{"text": "a</s>"}])
        self.assertEqual(self.lines("detokenize", parsed, args=["--skip-special"]), [{"text": "a"}])

    def test_one_answer_for_each_line(self):
        answers = self.lines(
            "tokenize", {"text": "a"}, "not json\n", "\n", "[1]\n", {"texts": "a"}, {"text": 5}, '{"text": "b"}'
        )
        self.assertEqual(len(answers), 7)
        self.assertEqual(answers[0], {"ids": [100]})
        self.assertEqual(answers[6], {"ids": [101]})
        for answer in answers[1:6]:
            self.assertEqual(list(answer), ["error"])

    def test_lines_and_time(self):
        empty, one = self.lines("tokenize", {"text": ""}, {"text": "a"}, args=["--lines", "--time"])
        self.assertEqual((empty["ids"], one["ids"]), ([], [100]))
        self.assertGreaterEqual(one["seconds"], 0)
        self.assertEqual(self.lines("detokenize", {"ids": [100]}, args=["--lines"]), [{"text": "a"}])

    def test_wrong_ids(self):
        answers = self.lines(
            "detokenize", {"ids": [256]}, {"ids": [-1]}, {"ids": ["a"]}, {"ids": [2**40]}, {"ids": 5}, {"ids": []}
        )
        for answer in answers[:5]:
            self.assertEqual(list(answer), ["error"])
        self.assertIn("256", answers[0]["error"])
        self.assertEqual(answers[5], {"text": ""})

    def test_invalid_utf8_is_one_error(self):
        process = subprocess.run(
            [support.BINARY, "tokenize", self.dir],
            input=b'{"text": "\xff"}\n{"text": "a"}\n',
            capture_output=True,
            timeout=60,
        )
        self.assertEqual(process.returncode, 0)
        first, second = map(json.loads, process.stdout.splitlines())
        self.assertEqual(list(first), ["error"])
        self.assertEqual(second, {"ids": [100]})

    def test_ids_that_are_no_whole_character(self):
        (answer,) = self.lines("detokenize", {"ids": [3 + 0xE6, 3 + 0xBC, 3 + 0x41]})
        self.assertEqual(answer, {"text": "\ufffdA"})

    def test_file_alone_is_enough(self):
        self.assertEqual(self.lines("tokenize", {"text": "a"}, model=self.dir / "tokenizer.json"), [{"ids": [100]}])

    def test_answers_come_before_the_input_ends(self):
        process = subprocess.Popen(
            [support.BINARY, "tokenize", self.dir], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        for _ in range(3):
            process.stdin.write(b'{"text": "a"}\n')
            self.assertTrue(select.select([process.stdout], [], [], 30)[0], "no answer while the input is open")
            self.assertEqual(json.loads(process.stdout.readline()), {"ids": [100]})

    def test_no_tokenizer(self):
        (self.dir / "tokenizer.json").unlink()
        result = support.run("tokenize", self.dir, stdin="")
        self.assert_fails(result, 1, "tokenizer")
