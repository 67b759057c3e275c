// Calls of tools in an answer: a card for each with what it was called with, and a box for what the tool says.
import { el, icon } from "./dom.js";

// Puts the deltas of a stream together: calls of functions have arguments, those of custom tools a text.
export function addCallDelta(calls, delta) {
  const call = (calls[delta.index ?? calls.length] ??= { id: "", type: "function", name: "", text: "" });
  if (delta.id) call.id = delta.id;
  if (delta.type) call.type = delta.type;
  const said = delta.custom ?? delta.function ?? {};
  if (said.name) call.name = said.name;
  call.text += said.input ?? said.arguments ?? "";
}

// A call as a request tells of it.
export function requestCall(call) {
  const said = call.type === "custom" ? { custom: { name: call.name, input: call.text } }
    : { function: { name: call.name, arguments: call.text } };
  return { id: call.id, type: call.type, ...said };
}

// The tools that a text describes: a list of OpenAI's tools, or of functions alone. Throws where it is none.
export function readTools(text) {
  const list = JSON.parse(text);
  if (!Array.isArray(list)) throw new Error("a list is expected");
  return list.map((tool) => (tool?.type ? tool : { type: "function", function: tool }));
}

function shownText(call) {
  if (call.type === "custom") return call.text;
  try {
    return JSON.stringify(JSON.parse(call.text), null, 2);
  } catch {
    return call.text;  // under way
  }
}

// Draws the cards into `root`. Where `answer` is given, each has a box, and answer(texts) is called when all are sent.
export function drawCalls(root, calls, answer) {
  root.hidden = calls.length === 0;
  if (root.childElementCount !== calls.length + (answer ? 1 : 0) || Boolean(root.querySelector("form")) !== Boolean(answer)) {
    root.replaceChildren(...calls.map((call) => el("div", { class: "call" },
      el("div", { class: "call-head" }, icon("tool"), el("strong", {}), el("span", { class: "call-kind" }, call.type === "custom" ? "custom tool" : "tool")),
      el("pre", { tabindex: "0", "aria-label": "Arguments" }, el("code", {})))));
    if (answer) root.append(answerForm(calls, answer));
  }
  calls.forEach((call, i) => {
    root.children[i].querySelector("strong").textContent = call.name;
    root.children[i].querySelector("code").textContent = shownText(call);
  });
}

function answerForm(calls, answer) {
  const boxes = calls.map((call) => el("textarea", { class: "call-answer", rows: "2", "aria-label": `What ${call.name} answers`, placeholder: `What ${call.name} answers` }));
  const form = el("form", { class: "call-answers" }, ...boxes, el("button", { type: "submit", class: "primary" }, "Send to the model"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    answer(boxes.map((box) => box.value));
  });
  return form;
}
