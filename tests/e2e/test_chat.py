"""`ingot chat`: piped, and at a terminal."""
import json
import os
import pty
import re
import select
import signal
import subprocess
import termios
import time

import models
import support

ALONE = "waits for moments of a conversation"  # not beside other modules: tools/run_tests.py


class PipedChatTest(support.TestCase):
    def setUp(self):
        super().setUp()
        self.dir = self.temp_dir()
        self.model = models.make_tiny(self.dir / "tiny")

    def chat(self, text, *args):
        return support.run(
            "chat", self.model, "--temp", "0", "-n", "8", *models.ENDLESS, *args, stdin=text,
            env={"INGOT_HOME": str(self.dir / "cache")},
        )

    def saved(self, text, *args):
        """The messages after these lines, and the finished program."""
        path = self.dir / "saved.json"
        result = self.chat(f"{text}/save {path}\n", *args)
        self.assertTrue(path.exists(), result.stderr)
        return json.loads(path.read_text())["messages"], result

    def test_answers_only_on_stdout(self):
        messages, result = self.saved("Hello\n\nAgain\n")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([m["role"] for m in messages], ["user", "assistant"] * 2)
        self.assertEqual([m["content"] for m in messages[::2]], ["Hello", "Again"])
        answers = [m["content"] for m in messages[1::2]]
        self.assertEqual(result.stdout, "".join(a if a.endswith("\n") else a + "\n" for a in answers))

    def test_several_lines(self):
        messages, _ = self.saved('one\\\ntwo\n"""three\n/four\n"""\n"""five"""\n')
        self.assertEqual([m["content"] for m in messages[::2]], ["one\ntwo", "three\n/four", "five"])

    def test_message_that_begins_with_a_slash(self):
        messages, _ = self.saved("//etc is a directory\n")
        self.assertEqual(messages[0]["content"], "/etc is a directory")

    def test_system(self):
        messages, result = self.saved("/system Be brief\n/system\nHello\n")
        self.assertEqual(messages[0], {"role": "system", "content": "Be brief"})
        self.assertIn("system: Be brief", result.stderr)
        messages, _ = self.saved("/system -\nHello\n", "--system", "Be brief")
        self.assertEqual(messages[0]["role"], "user")

    def test_reset(self):
        messages, _ = self.saved("Hello\n/reset\nAgain\n")
        self.assertEqual([m["content"] for m in messages[::2]], ["Again"])

    def test_load_goes_on(self):
        messages, first = self.saved("Hello\nAgain\n")
        path = self.dir / "half.json"
        path.write_text(json.dumps({"messages": messages[:2]}))
        result = self.chat(f"/load {path}\nAgain\n")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(first.stdout.endswith(result.stdout))
        path.write_text(json.dumps(messages[:2]))
        self.assertEqual(self.chat(f"/load {path}\nAgain\n").stdout, result.stdout)

    def test_bad_files_change_nothing(self):
        path = self.dir / "bad.json"
        for text in ("{", "[1]", '{"messages": [{"role": "robot", "content": "x"}]}', '[{"role": "user"}]', "{}"):
            path.write_text(text)
            messages, result = self.saved(f"Hello\n/load {path}\n")
            self.assertEqual(len(messages), 2, text)
            self.assertIn("ingot: ", result.stderr)
            self.assertEqual(result.returncode, 1)

    def test_commands(self):
        result = self.chat("/help\n/stats\nHello\n/stats\n/exit\nnever said\n")
        self.assertEqual(result.returncode, 0, result.stderr)
        for word in ("/system", "/reset", "/save", "/load", "/stats", "/exit", "no answer yet", "tok/s", "context:"):
            self.assertIn(word, result.stderr)
        self.assertLessEqual(len(result.stdout), 8 * 3 + 1)

    def test_unknown_command_is_explained(self):
        result = self.chat("/dance\nHello\n")
        self.assertIn("/dance", result.stderr)
        self.assertIn("/help", result.stderr)
        self.assertNotEqual(result.stdout, "")
        self.assertEqual(result.returncode, 1)

    def test_long_conversation_forgets_the_oldest(self):
        lines = "".join(f"message number {i}\n" for i in range(30))
        messages, result = self.saved(lines)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(messages), 60)
        self.assertIn("the oldest", result.stderr)

    def test_message_longer_than_the_context(self):
        messages, result = self.saved("x" * 600 + "\nHello\n")
        self.assertEqual(result.returncode, 1)
        self.assertIn("the context is 512", result.stderr)
        self.assertEqual([m["content"] for m in messages[::2]], ["Hello"])

    def test_interrupt_ends_a_piped_chat(self):
        model = models.make_tiny(self.dir / "long", max_position_embeddings=1 << 20)
        process = subprocess.Popen(
            [support.BINARY, "chat", model, "--temp", "0", *models.ENDLESS],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        self.addCleanup(process.kill)
        process.stdin.write(b"Hello\n")
        process.stdin.flush()
        self.assertTrue(select.select([process.stdout], [], [], 30)[0])
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130, err)


class Terminal:
    """`ingot chat` at a pseudo-terminal."""

    def __init__(self, test, model, home, *args):
        pid, self.fd = pty.fork()
        if pid == 0:
            variables = {**os.environ, "INGOT_HOME": str(home), "TERM": "xterm", "LC_ALL": "C.UTF-8"}
            os.execve(support.BINARY, ["ingot", "chat", str(model), "--temp", "0", *models.ENDLESS, *args], variables)
        self.pid, self.test, self.seen, self.status = pid, test, "", None
        test.addCleanup(self.close)

    def close(self):
        os.close(self.fd)
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def type(self, text):
        time.sleep(0.1)  # the prompt is shown a moment before the terminal is set up to read keys
        os.write(self.fd, text.encode())

    def read(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)

    def expect(self, pattern, seconds=30):
        """Waits until `pattern` is shown behind what was expected before; returns all up to its end."""
        end = time.monotonic() + seconds
        while not (match := re.search(pattern, self.seen)):
            left = end - time.monotonic()
            if left <= 0 or not self.read(left):
                self.test.fail(f"{pattern!r} is not shown; instead: {self.seen[-2000:]!r}")
        before, self.seen = self.seen[: match.end()], self.seen[match.end() :]
        return before

    def wait(self, seconds=30):
        """The exit status."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
                return self.status
        self.test.fail("the program did not end")


class TerminalChatTest(support.TestCase):
    PROMPT = r"> "

    def setUp(self):
        super().setUp()
        self.dir = self.temp_dir()
        self.model = models.make_tiny(self.dir / "tiny")

    def open(self, *args, model=None):
        terminal = Terminal(self, model or self.model, self.dir / "cache", *args)
        terminal.expect("/help for commands")
        terminal.expect(self.PROMPT)
        return terminal

    def saved(self, terminal):
        path = self.dir / "saved.json"
        terminal.type(f"/save {path}\n")
        terminal.expect("saved ")
        return json.loads(path.read_text())["messages"]

    def test_help_and_exit(self):
        terminal = self.open()
        terminal.type("/help\n")
        terminal.expect("/reset")
        terminal.expect(self.PROMPT)
        terminal.type("/nonsense\n")
        terminal.expect("no command /nonsense")
        terminal.type("/exit\n")
        self.assertEqual(terminal.wait(), 0)

    def test_end_of_input_leaves(self):
        terminal = self.open()
        terminal.type("\x04")
        self.assertEqual(terminal.wait(), 0)

    def test_several_lines_and_utf8(self):
        terminal = self.open("-n", "4")
        terminal.type("one \\\n")
        terminal.expect("… ")
        terminal.type("two é漢\n")
        terminal.expect(self.PROMPT)
        terminal.type('"""\nx\n')
        terminal.expect("… ")
        terminal.type('"""\n')
        terminal.expect(self.PROMPT)
        messages = self.saved(terminal)
        self.assertEqual([m["content"] for m in messages[::2]], ["one \ntwo é漢", "x"])

    def test_editing_and_history(self):
        terminal = self.open("-n", "2")
        terminal.type("helo\x02l\n")  # Ctrl-B steps back over the o
        terminal.expect(self.PROMPT)
        terminal.type("\x1b[A!\n")  # up: the line before
        terminal.expect(self.PROMPT)
        messages = self.saved(terminal)
        self.assertEqual([m["content"] for m in messages[::2]], ["hello", "hello!"])
        terminal.type("/exit\n")
        self.assertEqual(terminal.wait(), 0)
        again = self.open("-n", "2")
        again.type("\x10\x10\x10?\n")  # Ctrl-P three times: over /exit and /save
        again.expect(self.PROMPT)
        self.assertEqual(self.saved(again)[0]["content"], "hello!?")

    def test_interrupt_stops_the_answer_only(self):
        model = models.make_tiny(self.dir / "long", max_position_embeddings=1 << 20)
        terminal = self.open(model=model)
        terminal.type("Hello\n")
        terminal.expect("Hello\r\n")
        terminal.expect(r"[^\r\n]")
        time.sleep(0.3)
        os.write(terminal.fd, b"\x03\x03\x03")
        terminal.expect(r"\(stopped\)")
        terminal.expect(self.PROMPT)
        messages = self.saved(terminal)
        self.assertEqual([m["role"] for m in messages], ["user", "assistant"])
        self.assertNotEqual(messages[1]["content"], "")
        terminal.type("/exit\n")
        self.assertEqual(terminal.wait(), 0)

    def test_interrupt_at_the_prompt(self):
        terminal = self.open("-n", "2")
        terminal.type("never sent\x03")
        terminal.expect(r"\^C")
        terminal.expect(self.PROMPT)
        self.assertEqual(self.saved(terminal), [])
        terminal.expect(self.PROMPT)
        terminal.type("\x03")
        terminal.expect("Ctrl-C again")
        terminal.expect(self.PROMPT)
        terminal.type("\x03")
        self.assertEqual(terminal.wait(), 0)

    def test_terminal_is_left_as_it_was(self):
        terminal = self.open()
        terminal.type("/exit\n")
        terminal.read(0.5)
        self.assertTrue(termios.tcgetattr(terminal.fd)[3] & termios.ICANON)
        self.assertEqual(terminal.wait(), 0)

    def test_control_characters_are_not_obeyed(self):
        terminal = self.open("-n", "2", "--logit-bias", "30:inf")  # byte 27: escape
        terminal.type("Hello\n")
        shown = terminal.expect("\ufffd\ufffd")
        self.assertNotIn("\x1b\x1b", shown)
