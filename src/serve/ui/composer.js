// The box in which a message is written.
import { byId, icon } from "./dom.js";

export class Composer {
  // actions: send(text), stop(), editLast()
  constructor(actions) {
    this.actions = actions;
    this.input = byId("input");
    this.button = byId("send");
    this.busy = false;
    this.drafts = new Map();  // of conversations that were left while writing
    this.input.addEventListener("input", () => this.fit());
    this.input.addEventListener("keydown", (event) => this.key(event));
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    byId("composer").addEventListener("click", (event) => {
      if (event.target.id === "composer" || event.target.className === "composer-row") this.focus();
    });
    this.fit();
  }

  focus() {
    this.input.focus();
  }

  get text() {
    return this.input.value;
  }

  set text(text) {
    this.input.value = text;
    this.fit();
  }

  // Keeps what is written for `from` and shows what was written for `to`.
  swap(from, to) {
    if (from) this.drafts.set(from, this.text);
    this.text = this.drafts.get(to) ?? "";
  }

  fit() {
    this.input.style.height = "auto";
    this.input.style.height = `${Math.min(this.input.scrollHeight, Math.max(120, innerHeight * 0.4))}px`;
    this.button.disabled = !this.busy && !this.text.trim();
  }

  setBusy(busy) {
    if (busy === this.busy) return;
    this.busy = busy;
    const label = busy ? "Stop" : "Send";
    this.button.replaceChildren(icon(busy ? "stop" : "up"));
    this.button.setAttribute("aria-label", label);
    this.button.title = busy ? "Stop (Esc)" : "Send (Enter)";
    this.button.classList.toggle("stops", busy);
    this.fit();
  }

  key(event) {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== 229) {
      event.preventDefault();
      if (!this.busy) this.submit();
    } else if (event.key === "ArrowUp" && this.text === "" && !this.busy) {
      event.preventDefault();
      this.actions.editLast();
    }
  }

  submit() {
    if (this.busy) {
      this.actions.stop();
      return;
    }
    const text = this.text.trim();
    if (!text) return;
    this.text = "";
    this.actions.send(text);
  }
}
