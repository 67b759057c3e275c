// The messages of the open conversation.
import { statsText } from "./answers.js";
import { drawCalls } from "./calls.js";
import { branches, path } from "./conversation.js";
import { toast } from "./dialogs.js";
import { byId, copyButton, el, icon, iconButton } from "./dom.js";
import { renderMarkdown } from "./markdown.js";

const kNearEnd = 60;  // pixels: closer than this to the end counts as at the end

const kSuggestions = [
  ["Explain", "how a key-value cache makes a language model faster"],
  ["Write", "a Python function that merges two sorted lists"],
  ["Compare", "TCP and UDP in a small table"],
  ["Tell me", "a short story about a goldsmith and her apprentice"],
];

export class Messages {
  // actions: send(text), edit(node, text), regenerate(node), switchBranch(node, step), answerCalls(node, texts),
  // isBusy(conversation's id)
  constructor(actions) {
    this.actions = actions;
    this.root = byId("messages");
    this.scroller = byId("scroll");
    this.toEnd = byId("to-end");
    this.shown = new Map();  // node's id → {article, body, …} of those on the page
    this.dirty = new Set();
    this.stick = true;
    this.lastTop = 0;
    this.scroller.addEventListener("scroll", () => this.onScroll(), { passive: true });
    this.toEnd.addEventListener("click", () => this.scrollToEnd(true));
    new ResizeObserver(() => this.follow()).observe(this.root);
  }

  onScroll() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    const atEnd = scrollHeight - scrollTop - clientHeight < kNearEnd;
    // Growing text moves the end away without the reader having scrolled: only a move upwards lets go.
    if (atEnd) this.stick = true;
    else if (scrollTop < this.lastTop) this.stick = false;
    this.lastTop = scrollTop;
    this.toEnd.hidden = atEnd || this.stick;
  }

  follow() {
    if (this.root.classList.contains("welcome")) return;
    if (this.stick) this.scroller.scrollTop = this.scroller.scrollHeight;
    else this.onScroll();
  }

  scrollToEnd(smooth = false) {
    this.stick = true;
    this.toEnd.hidden = true;
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.scroller.scrollTo({ top: this.scroller.scrollHeight, behavior: smooth && !calm ? "smooth" : "instant" });
  }

  // Draws the whole conversation.
  show(conversation, toEnd = true) {
    this.conversation = conversation;
    this.shown.clear();
    const nodes = path(conversation);
    this.root.classList.toggle("welcome", nodes.length === 0);
    if (nodes.length === 0) this.root.replaceChildren(this.welcome());
    else this.root.replaceChildren(...nodes.map((node) => this.article(node)));
    if (toEnd) this.scrollToEnd();
    if (nodes.length === 0) this.scroller.scrollTop = 0;
  }

  // A message has grown or changed: drawn at the next frame, so that many tokens cost one drawing.
  update(node) {
    if (!this.shown.has(node.id)) return;
    if (this.dirty.size === 0) requestAnimationFrame(() => this.flush());
    this.dirty.add(node);
  }

  flush() {
    const nodes = [...this.dirty];
    this.dirty.clear();
    for (const node of nodes) {
      if (this.shown.has(node.id)) this.fill(node);
    }
    this.follow();
  }

  welcome() {
    const cards = kSuggestions.map(([verb, rest]) => el("button", { type: "button", class: "suggestion", onclick: () => this.actions.send(`${verb} ${rest}`) },
      el("strong", {}, verb), el("span", {}, rest)));
    const logo = el("img", { class: "welcome-logo", alt: "", width: 56, height: 56 });
    logo.src = "icon.svg";
    return el("div", { class: "welcome-box" }, logo, el("h1", {}, "What can I help with?"), el("div", { class: "suggestions" }, ...cards));
  }

  article(node) {
    const user = node.role === "user";
    const body = el("div", { class: "bubble" });
    const actions = el("div", { class: "actions" });
    const names = { user: "You", assistant: "Assistant", tool: "Tool" };
    const article = el("article", { class: `message ${node.role}`, "aria-label": names[node.role], "data-id": node.id }, body, actions);
    this.shown.set(node.id, { article, body, actions });
    if (node.role === "tool") {
      body.append(el("div", { class: "call" }, el("div", { class: "call-head" }, icon("tool"), el("strong", {}, node.name ?? "Tool"),
        el("span", { class: "call-kind" }, "answers")), el("pre", { tabindex: "0" }, el("code", {}, node.content))));
      return article;
    }
    if (!user) {
      const parts = this.shown.get(node.id);
      parts.thinking = el("details", { class: "thinking", hidden: true }, el("summary", {}, icon("chevron"), el("span", {})), el("div", { class: "markdown" }));
      parts.text = el("div", { class: "markdown" });
      parts.wait = el("div", { class: "wait", role: "img", "aria-label": "Waiting for the first token" }, el("i"), el("i"), el("i"));
      parts.calls = el("div", { class: "calls", hidden: true });
      parts.failed = el("div", { class: "failed", role: "alert", hidden: true });
      body.append(parts.thinking, parts.wait, parts.text, parts.calls, parts.failed);
    }
    this.fill(node);
    return article;
  }

  fill(node) {
    const parts = this.shown.get(node.id);
    if (node.role === "tool") return;
    if (node.role === "user") {
      parts.body.textContent = node.content;
      this.fillActions(node, parts, false);
      return;
    }
    const live = node.state === "live" && this.actions.isBusy(this.conversation.id);
    parts.article.setAttribute("aria-busy", String(live));
    parts.article.classList.toggle("live", live);
    const calls = node.calls ?? [];
    parts.wait.hidden = !live || node.content !== "" || node.reasoning !== "" || calls.length > 0;
    this.fillThinking(node, parts, live);
    renderMarkdown(parts.text, node.content);
    const open = !live && node.state === "done" && node.children.length === 0;
    drawCalls(parts.calls, calls, open && calls.length ? (texts) => this.actions.answerCalls(node, texts) : null);
    parts.failed.hidden = node.state !== "failed";
    if (node.state === "failed") parts.failed.replaceChildren(icon("warning"), el("span", {}, node.error ?? "The answer failed."));
    if (live !== parts.wasLive) this.fillActions(node, parts, live);
    parts.wasLive = live;
  }

  fillThinking(node, parts, live) {
    if (!node.reasoning) return;
    const thinking = live && node.content === "" && !node.calls?.length;
    if (parts.thinking.hidden) parts.thinking.open = thinking;
    else if (!thinking && parts.wasThinking) parts.thinking.open = false;
    parts.thinking.hidden = false;
    parts.wasThinking = thinking;
    const seconds = Math.round((node.thought_ms ?? 0) / 1000);
    parts.thinking.querySelector("summary span").textContent = thinking ? "Thinking…" : seconds > 0 ? `Thought for ${seconds} s` : "Thought";
    renderMarkdown(parts.thinking.lastElementChild, node.reasoning);
  }

  fillActions(node, parts, live) {
    parts.actions.replaceChildren();
    if (live) return;
    const ids = branches(this.conversation, node);
    if (ids.length > 1) parts.actions.append(this.branchNav(node, ids));
    if (node.content) parts.actions.append(copyButton(() => node.content, "Copy message"));
    if (node.role === "user") {
      parts.actions.append(iconButton("edit", "Edit message", () => this.edit(node)));
      return;
    }
    parts.actions.append(iconButton("refresh", node.state === "failed" ? "Try again" : "Regenerate", () => this.actions.regenerate(node)));
    const note = this.note(node);
    if (note) parts.actions.append(el("span", { class: "stats", title: note }, note));
  }

  note(node) {
    const texts = [statsText(node.stats)];
    if (node.state === "stopped") texts.push("stopped");
    if (node.state === "live") texts.push("interrupted");
    if (node.finish === "length") texts.push("ended at the longest answer allowed");
    return texts.filter(Boolean).join(" · ");
  }

  branchNav(node, ids) {
    const at = ids.indexOf(node.id);
    const step = (name, label, by) => iconButton(name, label, () => this.actions.switchBranch(node, by), { disabled: !ids[at + by] });
    return el("span", { class: "branches" }, step("left", "Previous version", -1), el("span", {}, `${at + 1} / ${ids.length}`), step("right", "Next version", 1));
  }

  // Turns a message of the user's into a box; sending it makes a branch.
  edit(node) {
    const parts = this.shown.get(node.id);
    if (!parts || parts.article.classList.contains("editing")) return;
    if (this.actions.isBusy(this.conversation.id)) {
      toast("An answer is being written. Stop it first.");
      return;
    }
    const box = el("textarea", { class: "edit-box", "aria-label": "Edit message", rows: "1" });
    box.value = node.content;
    const fit = () => {
      box.style.height = "auto";
      box.style.height = `${box.scrollHeight}px`;
    };
    const cancel = () => {
      parts.article.classList.remove("editing");
      this.fill(node);
      byId("input").focus();
    };
    const send = () => box.value.trim() && this.actions.edit(node, box.value.trim());
    box.addEventListener("input", fit);
    box.addEventListener("keydown", (event) => {
      if (event.key === "Escape") cancel();
      else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) send();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    parts.article.classList.add("editing");
    parts.actions.replaceChildren();
    parts.body.replaceChildren(box, el("div", { class: "edit-row" },
      el("button", { type: "button", class: "plain", onclick: cancel }, "Cancel"),
      el("button", { type: "button", class: "primary", onclick: send }, "Send")));
    fit();
    box.focus();
    box.setSelectionRange(box.value.length, box.value.length);
  }

  editLast() {
    const last = path(this.conversation).findLast((node) => node.role === "user");
    if (last) this.edit(last);
  }
}
