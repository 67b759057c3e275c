// Short messages, questions, and the dialogs for the key and the shortcuts. The native dialog element keeps the focus.
import { byId, el, icon } from "./dom.js";

// A message at the lower edge for a few seconds, with an action such as "Undo".
export function toast(text, action = null, onAction = null) {
  const node = el("div", { class: "toast" }, el("span", {}, text));
  const close = () => node.remove();
  if (action) {
    node.append(el("button", { type: "button", onclick: () => { close(); onAction(); } }, action));
  }
  byId("toasts").append(node);
  setTimeout(close, action ? 8000 : 4000);
}

// Said to screen readers, not shown.
export function announce(text) {
  byId("announce").textContent = text;
}

// Opens a dialog that removes itself. `done(value)` is called once with what close(value) was given, or null.
function openDialog(title, content, done) {
  const heading = el("h2", { id: "dialog-title" }, title);
  const dialog = el("dialog", { class: "dialog", "aria-labelledby": "dialog-title" }, heading, ...content);
  let value = null;
  dialog.closeWith = (chosen) => {
    value = chosen;
    dialog.close();
  };
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  dialog.addEventListener("close", () => {
    dialog.remove();
    done(value);
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

export const dialogIsOpen = () => document.querySelector("dialog[open]") !== null;

function buttons(cancel, accept) {
  return el("div", { class: "dialog-row" }, cancel, accept);
}

// Asks for a line of text: a promise of it, or of null.
export function askText(title, { label, value = "", type = "text", hint = "", accept = "Save" }) {
  return new Promise((resolve) => {
    const input = el("input", { type, id: "dialog-input", autocomplete: "off", spellcheck: "false" });
    input.value = value;
    const submit = (event) => {
      event.preventDefault();
      if (input.value.trim()) dialog.closeWith(input.value.trim());
    };
    const form = el("form", { onsubmit: submit }, el("label", { for: "dialog-input" }, label), input,
      hint ? el("p", { class: "note" }, hint) : null,
      buttons(el("button", { type: "button", class: "plain", onclick: () => dialog.closeWith(null) }, "Cancel"),
        el("button", { type: "submit", class: "primary" }, accept)));
    const dialog = openDialog(title, [form], resolve);
    input.select();
  });
}

export function askYes(title, text, accept) {
  return new Promise((resolve) => {
    const dialog = openDialog(title, [el("p", {}, text),
      buttons(el("button", { type: "button", class: "plain", onclick: () => dialog.closeWith(false) }, "Cancel"),
        el("button", { type: "button", class: "danger", onclick: () => dialog.closeWith(true) }, accept))],
    (value) => resolve(value === true));
  });
}

let keyAsked = null;

// Asks for the API key; a second call while the dialog is open waits for the same answer.
export function askKey(wasWrong) {
  keyAsked ??= askText("This server needs an API key", {
    label: "API key",
    type: "password",
    hint: (wasWrong ? "The server did not accept that key. " : "") + "It is kept for this tab only and sent to this server only.",
    accept: "Continue",
  }).finally(() => { keyAsked = null; });
  return keyAsked;
}

// On a Mac the command key does what Ctrl does elsewhere; the page listens to both.
export const kModifier = /Mac|iPhone|iPad/.test(navigator.platform) ? "⌘" : "Ctrl";

const kKeys = [
  ["Send the message", ["Enter"]],
  ["New line", ["Shift", "Enter"]],
  ["Stop the answer", ["Esc"]],
  ["Edit the last message (in an empty box)", ["↑"]],
  ["New chat", [kModifier, "K"]],
  ["Conversations", [kModifier, "B"]],
  ["Parameters", [kModifier, "."]],
  ["Engine", [kModifier, "E"]],
  ["Go to the message box", ["/"]],
  ["This list", [kModifier, "/"]],
];

export function showKeys() {
  if (dialogIsOpen()) return;
  const rows = kKeys.map(([what, keys]) => el("div", { class: "key-row" }, el("dt", {}, what),
    el("dd", {}, ...keys.map((key) => el("kbd", {}, key)))));
  const close = el("button", { type: "button", class: "icon-button dialog-close", "aria-label": "Close", onclick: () => dialog.closeWith(null) }, icon("x"));
  const dialog = openDialog("Keyboard shortcuts", [close, el("dl", { class: "keys" }, ...rows)], () => {});
}

// A small menu below a button: items are [icon, label, action, danger].
export function openMenu(anchor, items) {
  const menu = el("div", { class: "menu", role: "menu" });
  const close = (focus) => {
    menu.remove();
    document.removeEventListener("pointerdown", outside, true);
    anchor.setAttribute("aria-expanded", "false");
    if (focus) anchor.focus();
  };
  const outside = (event) => {
    if (!menu.contains(event.target)) close(false);
  };
  for (const [name, label, action, danger] of items) {
    menu.append(el("button", { type: "button", role: "menuitem", class: danger ? "danger-item" : null, onclick: () => { close(true); action(); } }, icon(name), label));
  }
  menu.addEventListener("keydown", (event) => {
    const all = [...menu.children];
    const at = all.indexOf(document.activeElement);
    if (event.key === "Escape") close(true);
    else if (event.key === "ArrowDown") all[(at + 1) % all.length].focus();
    else if (event.key === "ArrowUp") all[(at + all.length - 1) % all.length].focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  document.body.append(menu);
  const box = anchor.getBoundingClientRect();
  menu.style.left = `${Math.max(8, Math.min(box.left, innerWidth - menu.offsetWidth - 8))}px`;
  menu.style.top = `${Math.min(box.bottom + 4, innerHeight - menu.offsetHeight - 8)}px`;
  anchor.setAttribute("aria-expanded", "true");
  menu.firstElementChild.focus();
  setTimeout(() => document.addEventListener("pointerdown", outside, true));
}
