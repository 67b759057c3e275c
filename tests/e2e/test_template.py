"""`ingot template`: messages to the text of a prompt."""
import json

import models
import support

MESSAGES = [{"role": "user", "content": "Hi"}]


class TemplateTest(support.TestCase):
    def setUp(self):
        super().setUp()
        self.dir = self.temp_dir()

    def file(self, text, name="chat.jinja"):
        path = self.dir / name
        path.write_text(text)
        return path

    def render(self, model, variables, *args, env=None):
        result = support.run("template", model, *args, stdin=json.dumps(variables), env=env)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_model_directory(self):
        model = models.make_tiny(self.dir / "tiny")
        self.assertEqual(self.render(model, {"messages": MESSAGES}), "<s>user\nHi</s>")
        text = self.render(model, {"messages": MESSAGES, "add_generation_prompt": True})
        self.assertEqual(text, "<s>user\nHi</s><s>assistant\n")

    def test_jinja_file_and_variables(self):
        path = self.file("{{ bos_token }}{{ greeting }}|{{ messages[0].content }}")
        self.assertEqual(self.render(path, {"messages": MESSAGES, "greeting": "hé"}), "hé|Hi")
        self.assertEqual(self.render(path, {"messages": MESSAGES, "bos_token": "<b>"}), "<b>|Hi")

    def test_jinja_file_beats_tokenizer_config(self):
        model = models.make_tiny(self.dir / "tiny")
        (model / "chat_template.jinja").write_text("{{ bos_token }}{{ eos_token }}")
        self.assertEqual(self.render(model, {"messages": MESSAGES}), "<s></s>")

    def test_named_templates(self):
        named = [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"}]
        self.file(json.dumps({"chat_template": named}), "tokenizer_config.json")
        self.assertEqual(self.render(self.dir, {"messages": MESSAGES}), "plain")
        self.assertEqual(self.render(self.dir, {"messages": MESSAGES, "tools": [{"name": "f"}]}), "tools")

    def test_json(self):
        text = self.render(self.file("a\nb"), {"messages": []}, "--json")
        self.assertEqual(json.loads(text), {"text": "a\nb"})

    def test_date(self):
        path = self.file("{{ strftime_now('%Y-%m-%d') }}")
        env = {"SOURCE_DATE_EPOCH": "86400", "TZ": "UTC"}
        self.assertEqual(self.render(path, {}, env=env), "1970-01-02")
        self.assertGreater(self.render(path, {}, env={"SOURCE_DATE_EPOCH": None}), "2024")
        result = support.run("template", path, stdin="{}", env={"SOURCE_DATE_EPOCH": "yesterday"})
        self.assert_fails(result, 1, "SOURCE_DATE_EPOCH")

    def test_lines(self):
        path = self.file("{% if fail %}{{ raise_exception('no ' + fail) }}{% endif %}{{ messages[0].content }}")
        lines = [json.dumps({"messages": MESSAGES}), "nonsense", json.dumps({"fail": "way"}), "[]",
                 json.dumps({"messages": [{"content": "ü"}]})]
        result = support.run("template", path, "--lines", stdin="\n".join(lines))
        self.assertEqual(result.returncode, 0, result.stderr)
        answers = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual(len(answers), 5)
        self.assertEqual(answers[0], {"text": "Hi"})
        self.assertIn("no way", answers[2]["error"])
        self.assertEqual([list(answer) for answer in answers[1:4]], [["error"]] * 3)
        self.assertEqual(answers[4], {"text": "ü"})

    def test_tools_documents_and_switches(self):
        path = self.file("{% for t in tools or [] %}[{{ t.function.name }}]{% endfor %}"
                         "{% for d in documents or [] %}({{ d.title }}: {{ d.text }}){% endfor %}"
                         "{{ messages[0].content }}{% if add_generation_prompt %}>{% endif %}"
                         "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}")
        tools = [{"type": "function", "function": {"name": name}} for name in ("f", "g")]
        documents = [{"title": "T", "text": "x"}]
        self.assertEqual(self.render(path, {"messages": MESSAGES}), "Hi")
        self.assertEqual(self.render(path, {"messages": MESSAGES, "tools": tools, "add_generation_prompt": True}), "[f][g]Hi>")
        self.assertEqual(self.render(path, {"messages": MESSAGES, "documents": documents}), "(T: x)Hi")
        self.assertEqual(self.render(path, {"messages": MESSAGES, "enable_thinking": False}), "Hi<think></think>")
        self.assertEqual(self.render(path, {"messages": MESSAGES, "enable_thinking": True}), "Hi")

    def test_continues_the_final_message(self):
        path = self.file("{% for m in messages %}<|{{ m.role }}|>{{ m.content|trim }}<|end|>{% endfor %}"
                         "{% if add_generation_prompt %}<|assistant|>{% endif %}")
        messages = MESSAGES + [{"role": "assistant", "content": "Well, it "}]
        chat = {"messages": messages, "continue_final_message": True}
        self.assertEqual(self.render(path, chat), "<|user|>Hi<|end|><|assistant|>Well, it")
        self.assertEqual(self.render(path, {**chat, "continue_final_message": False}),
                         "<|user|>Hi<|end|><|assistant|>Well, it<|end|>")
        both = support.run("template", path, stdin=json.dumps({**chat, "add_generation_prompt": True}))
        self.assert_fails(both, 1, "add_generation_prompt")
        empty = support.run("template", path, stdin=json.dumps({"messages": [], "continue_final_message": True}))
        self.assert_fails(empty, 1, "continue_final_message")

    def test_unknown_filter_is_refused_at_load(self):
        path = self.file("line one\n{% for m in messages %}{{ m.content | nofilter }}{% endfor %}")
        result = support.run("template", path, "--lines", stdin='{"messages": []}\n')
        self.assert_fails(result, 1, "line 2, column 39: No filter named 'nofilter'")

    def test_bad_input(self):
        path = self.file("{{ messages }}")
        self.assert_fails(support.run("template", path, stdin="{"), 1, "JSON")
        self.assert_fails(support.run("template", path, stdin="[]"), 1, "standard input")
        self.assert_fails(support.run("template", self.dir / "none.jinja", stdin="{}"), 1, "none.jinja")
        self.assert_fails(support.run("template", self.file("{{ a | nofilter }}"), stdin="{}"), 1, "nofilter")
        self.assert_fails(support.run("template", self.file("{% if %}"), stdin="{}"), 1, "line 1")
        model = models.make_tiny(self.dir / "tiny", template=None)
        self.assert_fails(support.run("template", model, stdin="{}"), 1, "no chat template")

    def test_published_expectations(self):
        cases = json.loads(support.test_data("chat-templates", "hf_jinja_e2e.json").read_text())
        found = [case for group in cases.values() for case in group.values() if "target" in case]
        self.assertGreater(len(found), 20)
        for case in found:
            with self.subTest(case["chat_template"][:60]):
                # One of them prints the day on which its text was made.
                day = {"SOURCE_DATE_EPOCH": "1752148800", "TZ": "UTC"}
                text = self.render(self.file(case["chat_template"]), case["data"], env=day)
                self.assertEqual(text, case["target"])
