"""The web page in a real browser, against the mock server: what a user does, and what goes over the wire."""
import unittest

from page_case import PageCase

CONTROL, SHIFT, ESCAPE, ENTER, UP = "\ue009", "\ue008", "\ue00c", "\ue007", "\ue013"


class Chat(PageCase):
    def test_an_answer_is_streamed_and_shown(self):
        mock = self.open_page()
        self.until_text("#model-name", "mock-135m-instruct")
        self.send("say: two and two is **four**", answers=1)
        self.assertEqual(self.text(".message.user .bubble"), ["say: two and two is **four**"])
        self.assertEqual(self.text(".message.assistant .markdown strong"), ["four"])
        self.assertEqual(self.text("#input"), [""])
        self.assertIn("tokens", self.text(".message.assistant .stats")[0])
        self.assertIn("of 8,192 tokens", self.text("#context")[0])
        request = mock.requests[0]
        self.assertEqual(request["messages"], [{"role": "user", "content": "say: two and two is **four**"}])
        self.assertTrue(request["stream"])
        self.assertEqual(request["stream_options"], {"include_usage": True})
        self.assertEqual(request["model"], "mock-135m-instruct")

    def test_shift_enter_begins_a_line_and_history_is_sent(self):
        mock = self.open_page()
        self.type("say: one")
        self.press(SHIFT, ENTER)
        self.type("two")
        self.assertEqual(mock.requests, [])
        self.press(ENTER)
        self.until_idle(1)
        self.send("say: three", answers=2)
        self.assertEqual(
            [(message["role"], message["content"]) for message in mock.requests[1]["messages"]],
            [("user", "say: one\ntwo"), ("assistant", "one\ntwo"), ("user", "say: three")],
        )
        self.assertEqual(self.text("#conversations .row-open"), ["say: one"])

    def test_escape_stops_an_answer_and_the_server_is_told(self):
        mock = self.open_page(pace=0.05)
        self.type("long\n")
        self.until_text(".message.assistant .markdown", "1 2 3")
        self.press(ESCAPE)
        self.until_idle(1)
        self.until_text(".stats", "stopped")
        self.until(mock.gone.is_set, "the server sees that the reader left")
        self.assertEqual(self.text(".failed:not([hidden])"), [])

    def test_the_button_stops_an_answer(self):
        self.open_page(pace=0.05)
        self.type("long\n")
        self.until_text(".message.assistant .markdown", "1 2 3")
        self.tap(self.named("Stop"))
        self.until_idle(1)
        self.until_text(".stats", "stopped")
        self.named("Send")

    def test_regenerating_keeps_both_answers(self):
        mock = self.open_page()
        self.send("say: again", answers=1)
        self.tap(self.named("Regenerate"))
        self.until(lambda: len(mock.requests) == 2, "asked twice")
        self.until_idle(1)
        self.assertEqual(mock.requests[0]["messages"], mock.requests[1]["messages"])
        self.until_text(".message.assistant .branches", "2 / 2")
        self.tap(self.named("Previous version"))
        self.until_text(".message.assistant .branches", "1 / 2")

    def test_editing_makes_a_branch(self):
        mock = self.open_page()
        self.send("say: first", answers=1)
        self.send("say: second", answers=2)
        self.press(UP)
        box = self.one(".edit-box")
        self.assertEqual(box.get_attribute("value"), "say: second")
        box.send_keys(CONTROL + "a")
        box.send_keys("say: other\n")
        self.until(lambda: len(mock.requests) == 3, "the edited message was sent")
        self.until_idle(2)
        contents = [message["content"] for message in mock.requests[2]["messages"]]
        self.assertEqual(contents, ["say: first", "first", "say: other"])
        self.assertEqual(self.text(".message.user .branches"), ["2 / 2"])
        self.tap(self.named("Previous version", ".message.user"))
        self.until_text(".message.user .bubble", "say: second")
        self.assertEqual(self.text(".bubble > .markdown"), ["first", "second"])

    def test_escape_leaves_an_edit(self):
        mock = self.open_page()
        self.send("say: first", answers=1)
        self.press(UP)
        self.one(".edit-box").send_keys("more")
        self.press(ESCAPE)
        self.until(lambda: not self.all(".edit-box"), "the box is gone")
        self.assertEqual(self.text(".message.user .bubble"), ["say: first"])
        self.assertEqual(len(mock.requests), 1)

    def test_reasoning_is_folded_away(self):
        self.open_page()
        self.send("think: settled", answers=1)
        self.assertEqual(self.text(".thinking summary span"), ["Thought"])
        self.assertFalse(self.js("return document.querySelector('.thinking').open"))
        self.assertIn("weigh it again", self.text(".thinking .markdown")[0])
        self.assertEqual(self.text(".bubble > .markdown"), ["settled"])

    def test_calls_of_tools_are_cards_with_a_box_for_the_answer(self):
        mock = self.open_page()
        self.press(CONTROL, ".")
        tools = '[{"name": "get_weather", "parameters": {"type": "object"}}]'
        self.one("#set-tools").send_keys(tools)
        self.until_text("#set-tools-hint", "1 tool")
        self.send("call: get_weather", answers=1)
        self.assertEqual([t["function"]["name"] for t in mock.requests[0]["tools"]], ["get_weather"])
        self.assertEqual(self.text(".call-head strong"), ["get_weather", "get_time"])
        self.assertEqual(self.text(".call code"), ['{\n  "city": "Oslo <b>"\n}', "{}"])
        boxes = self.all(".call-answer")
        self.assertEqual(len(boxes), 2)
        boxes[0].send_keys("18 degrees")
        boxes[1].send_keys("noon")
        self.click(".call-answers button")
        self.until_idle(2)
        self.until_text(".message.assistant .markdown", "The tools said 18 degrees, noon")
        sent = mock.requests[1]["messages"]
        self.assertEqual([m["role"] for m in sent], ["user", "assistant", "tool", "tool"])
        self.assertEqual([c["id"] for c in sent[1]["tool_calls"]], ["call_0", "call_1"])
        self.assertEqual(sent[1]["tool_calls"][0]["function"]["arguments"], '{"city": "Oslo <b>"}')
        self.assertEqual([(m["tool_call_id"], m["content"]) for m in sent[2:]], [("call_0", "18 degrees"), ("call_1", "noon")])
        self.assertEqual(self.all(".call-answer"), [])
        self.shot("calls")

    def test_the_end_by_length_is_said(self):
        self.open_page()
        self.press(CONTROL, ".")
        box = self.one("#set-max_tokens")
        box.send_keys(CONTROL + "a")
        box.send_keys("3\t")
        self.send("long", answers=1)
        self.until_text(".stats", "ended at the longest answer allowed")

    def test_code_and_message_are_copied_as_written(self):
        self.open_page()
        code = "```c\\nint main() { return 0; }\\n```"
        self.js("document.getElementById('input').value = 'say: ' + arguments[0]", code.replace("\\n", "\n"))
        self.type("\n")
        self.until_idle(1)
        copied = """const done = arguments[arguments.length - 1];
            window.copied = [];
            Object.defineProperty(navigator, 'clipboard', {value: {writeText: async t => { window.copied.push(t); }}});
            done(true);"""
        self.browser.execute_async_script(copied)
        self.tap(self.named("Copy code"))
        self.tap(self.named("Copy message", ".message.assistant"))
        self.until(lambda: self.js("return window.copied.length") == 2, "both were copied")
        self.assertEqual(self.js("return window.copied"), ["int main() { return 0; }", code.replace("\\n", "\n")])


class Conversations(PageCase):
    def test_conversations_are_kept(self):
        mock = self.open_page()
        self.send("say: apples", answers=1)
        self.press(CONTROL, "k")
        self.until_text("h1", "What can I help with?")
        self.send("say: pears", answers=1)
        self.assertEqual(self.text("#conversations .row-open"), ["say: pears", "say: apples"])
        self.browser.get("about:blank")
        self.visit(mock.url)
        self.until(lambda: len(self.text("#conversations .row-open")) == 2, "both are listed")
        self.click("#conversations .row:last-child .row-open")
        self.until_text(".message.assistant .markdown", "apples")
        self.visit(self.browser.current_url)
        self.until_text(".message.assistant .markdown", "apples")

    def test_search_finds_what_was_said(self):
        self.open_page()
        self.send("say: apples", answers=1)
        self.press(CONTROL, "k")
        self.send("say: pears", answers=1)
        self.one("#search").send_keys("APPLE")
        self.until(lambda: self.text("#conversations .row-open") == ["say: apples"], "one is found")
        self.one("#search").send_keys("zzz")
        self.until_text(".empty-list", "Nothing found")

    def test_rename_delete_and_undo(self):
        self.open_page()
        self.send("say: apples", answers=1)
        self.click(".row-more")
        self.menu_item("Rename")
        box = self.one("dialog input")
        box.send_keys(CONTROL + "a")
        box.send_keys("Fruit\n")
        self.until(lambda: self.text("#conversations .row-open") == ["Fruit"], "it has its new name")
        self.click(".row-more")
        self.menu_item("Delete")
        self.until(lambda: not self.text("#conversations .row-open"), "it is gone")
        self.until_text("h1", "What can I help with?")
        self.click(".toast button")
        self.until(lambda: self.text("#conversations .row-open") == ["Fruit"], "it is back")
        self.until_text(".message.assistant .markdown", "apples")

    def menu_item(self, label):
        items = self.until(lambda: self.all(".menu [role=menuitem]"), "the menu is open")
        self.tap(next(item for item in items if item.text == label))

    def test_an_answer_goes_on_while_another_conversation_is_open(self):
        mock = self.open_page(pace=0.01)
        self.type("long\n")
        self.until_text(".message.assistant .markdown", "1 2 3")
        self.press(CONTROL, "k")
        self.until_text("h1", "What can I help with?")
        self.assertFalse(self.is_busy())
        mock.pace = 0
        self.send("say: meanwhile", answers=1)
        self.until(lambda: not self.all(".row .spinner"), "the other answer is complete")
        self.click("#conversations .row:not(.current) .row-open")
        self.until_text(".message.assistant .markdown", "1800 1801")  # the default limit of tokens ends it soon after

    def test_a_conversation_deleted_while_it_is_answered_stays_deleted(self):
        mock = self.open_page(pace=0.01)
        self.type("long\n")
        self.until_text(".message.assistant .markdown", "1 2 3")
        self.click(".row-more")
        self.menu_item("Delete")
        self.until(mock.gone.is_set, "the answer was stopped")
        self.until_text("h1", "What can I help with?")
        self.browser.get("about:blank")
        self.visit(mock.url)
        self.assertEqual(self.text("#conversations .row-open"), [])

    def test_what_was_being_written_is_kept_for_each(self):
        self.open_page()
        self.send("say: apples", answers=1)
        self.type("half a thou")
        self.press(CONTROL, "k")
        self.until_text("h1", "What can I help with?")
        self.assertEqual(self.one("#input").get_attribute("value"), "")
        self.click(".row-open")
        self.until(lambda: self.one("#input").get_attribute("value") == "half a thou", "the draft is back")

    def test_a_damaged_store_does_not_stop_the_page(self):
        mock = self.open_page()
        self.send("say: apples", answers=1)
        self.browser.execute_async_script("""const done = arguments[0];
            const open = indexedDB.open('ingot', 1);
            open.onsuccess = () => {
              const store = open.result.transaction('conversations', 'readwrite').objectStore('conversations');
              store.put({id: 'broken'});
              store.put({id: 'loop', title: 'loop', system: '', updated: 1, nodes: {
                root: {id: 'root', children: ['a'], chosen: 'a'},
                a: {id: 'a', parent: 'root', role: 'user', content: 'round', children: ['a'], chosen: 'a'}}}).onsuccess = done;
            };""")
        self.browser.get("about:blank")
        self.visit(mock.url)
        self.until(lambda: len(self.text(".row-open")) == 2, "the whole ones are listed")
        self.click("#conversations .row:last-child .row-open")
        self.until_text(".message.user .bubble", "round")


class Parameters(PageCase):
    def test_parameters_and_system_prompt_are_sent(self):
        mock = self.open_page()
        self.click("#system-chip")
        self.one("#system").send_keys("Be brief.")
        for name, value in (("temperature", "0"), ("top_k", "7"), ("presence_penalty", "0.5")):
            box = self.one(f".field:has(#set-{name}) .value")
            box.send_keys(CONTROL + "a")
            box.send_keys(value + "\t")
        self.one("#set-seed").send_keys("42")
        self.one("#set-stop").send_keys("###, END")
        self.send("say: hello", answers=1)
        request = mock.requests[0]
        self.assertEqual(request["messages"][0], {"role": "system", "content": "Be brief."})
        self.assertEqual((request["temperature"], request["top_k"], request["presence_penalty"]), (0, 7, 0.5))
        self.assertEqual((request["seed"], request["stop"]), (42, ["###", "END"]))
        self.assertNotIn("frequency_penalty", request)
        self.assertEqual(self.text("#system-chip-text"), ["Be brief."])

    def test_json_mode_and_a_schema_are_sent(self):
        mock = self.open_page()
        self.click("#open-settings")
        self.click("#set-json")
        self.send("say: hello", answers=1)
        self.assertEqual(mock.requests[0]["response_format"], {"type": "json_object"})
        self.one("#set-schema").send_keys('{"type": ')
        self.until_text("#set-schema-hint", "Not JSON")
        self.one("#set-schema").send_keys('"object"}')
        self.until_text("#set-schema-hint", "Answers fit this schema")
        self.send("say: hello", answers=2)
        self.assertEqual(mock.requests[1]["guided_json"], '{"type": "object"}')
        self.assertNotIn("response_format", mock.requests[1])

    def test_parameters_are_kept_and_reset(self):
        mock = self.open_page()
        self.click("#open-settings")
        box = self.one(".field:has(#set-temperature) .value")
        box.send_keys(CONTROL + "a")
        box.send_keys("9\t")  # beyond the range
        self.assertEqual(self.one("#set-temperature").get_attribute("value"), "2")
        self.visit(mock.url)
        self.assertEqual(self.one("#set-temperature").get_attribute("value"), "2")
        self.click("#pane-settings > .plain")
        self.until(lambda: "auto" in self.one("#set-temperature").get_attribute("class"), "it is automatic again")
        self.send("say: hello", answers=1)
        self.assertNotIn("temperature", mock.requests[0])


class Failures(PageCase):
    expected_errors = ("Failed to load resource", "ERR_INCOMPLETE_CHUNKED_ENCODING")

    def test_errors_are_said_and_can_be_tried_again(self):
        mock = self.open_page()
        self.send("fail: 503", answers=1)
        self.until_text(".failed", "The server is busy: the mock was told to fail. Try again in 1 s.")
        self.send("fail: 400", answers=2)
        self.until_text(".failed", "the mock was told to fail")
        self.tap(self.named("Try again", ".message:last-child"))
        self.until(lambda: len(mock.requests) == 3, "asked again")
        self.until_idle(2)

    def test_a_connection_that_breaks_leaves_what_came(self):
        self.open_page()
        self.send("cut", answers=1)
        self.until_text(".failed", "before the answer was complete")
        self.assertIn("Here is a short tour", self.text(".bubble > .markdown")[0])

    def test_a_server_that_goes_away_is_noticed(self):
        mock = self.open_page()
        self.until_text("#model-name", "mock-135m-instruct")
        mock.stop()
        self.type("say: hello\n")
        self.until_text(".failed", "The server cannot be reached.")
        self.until(lambda: self.js("return document.getElementById('dot').dataset.state") == "down", "the dot is red")

    def test_a_key_is_asked_for_and_kept_for_the_tab_only(self):
        mock = self.open_page(key="secret-key")
        box = self.one("dialog input[type=password]")
        box.send_keys("wrong\n")
        self.until_text("dialog .note", "did not accept that key")
        self.one("dialog input[type=password]").send_keys("secret-key\n")
        self.until_text("#model-name", "mock-135m-instruct")
        self.until(lambda: not self.all("dialog"), "the dialog is closed")
        self.send("say: in", answers=1)
        self.assertEqual(len(mock.requests), 1)
        self.assertNotIn("secret-key", self.js("return JSON.stringify({...localStorage}) + document.cookie + location.href"))
        self.assertIn("secret-key", self.js("return JSON.stringify({...sessionStorage})"))
        self.visit(mock.url)
        self.until_text("#model-name", "mock-135m-instruct")
        self.assertEqual(self.all("dialog"), [])

    def test_without_a_key_the_page_says_so_and_asks_when_sending(self):
        self.open_page(key="secret-key")
        self.one("dialog input[type=password]")
        self.press(ESCAPE)
        self.until(lambda: self.one("#need-key").is_displayed(), "a key can be given later")
        self.type("say: let me in\n")
        self.one("dialog input[type=password]").send_keys("secret-key\n")
        self.until_idle(1)
        self.assertEqual(self.text(".bubble > .markdown"), ["let me in"])
        self.until(lambda: not self.one("#need-key").is_displayed(), "nothing is missing any more")


class Keyboard(PageCase):
    def test_shortcuts(self):
        self.open_page()
        self.assertEqual(self.js("return document.activeElement.id"), "input")
        self.press(CONTROL, "/")
        self.until_text("dialog h2", "Keyboard shortcuts")
        self.press(ESCAPE)
        self.until(lambda: not self.all("dialog"), "the dialog is closed")
        self.press(CONTROL, "e")
        self.until(lambda: self.one("#pane-engine").is_displayed(), "the engine is shown")
        self.press(CONTROL, ".")
        self.until(lambda: self.one("#pane-settings").is_displayed(), "parameters are shown")
        self.press(ESCAPE)
        self.until(lambda: not self.one("#panel").is_displayed(), "the panel is closed")
        self.press(CONTROL, "b")
        self.until(lambda: self.js("return document.getElementById('sidebar').inert"), "the list is hidden")
        self.press("/")
        self.assertEqual(self.js("return document.activeElement.id"), "input")
        self.assertEqual(self.one("#input").get_attribute("value"), "")

    def test_everything_can_be_reached_with_tab_and_has_a_name(self):
        self.open_page()
        self.send("say: [a link](https://example.com)", answers=1)
        seen = []
        for _ in range(60):
            self.press("\ue004")
            seen.append(self.js("const n = document.activeElement; return n.id || n.className || n.tagName"))
            if seen.count(seen[0]) > 1:
                break
        for wanted in ("new-chat", "search", "row-open", "side-close", "open-engine", "system-chip", "A"):
            self.assertIn(wanted, seen)
        nameless = self.js("""return [...document.querySelectorAll('button, input, textarea, a[href], canvas')].filter(n =>
            !(n.getAttribute('aria-label') || n.textContent.trim() || n.labels?.length)).map(n => n.outerHTML)""")
        self.assertEqual(nameless, [])


if __name__ == "__main__":
    unittest.main()
