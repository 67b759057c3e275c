// The page: wires the parts together. State is one map of conversations and the one that is open.
import { setApiKey } from "./api.js";
import { Answers } from "./answers.js";
import { Composer } from "./composer.js";
import { addMessage, createConversation, lastId, path, switchBranch } from "./conversation.js";
import { announce, askKey, dialogIsOpen, kModifier, showKeys, toast } from "./dialogs.js";
import { byId } from "./dom.js";
import { EngineFeed, EnginePanel } from "./engine.js";
import { Messages } from "./messages.js";
import { Panel } from "./panel.js";
import { Settings } from "./settings.js";
import { fillIcons, narrow, Sidebar } from "./sidebar.js";
import { ConversationStore, loadSettings } from "./store.js";

const kSaveEvery = 1500;  // ms, while an answer grows

class App {
  constructor() {
    fillIcons();
    this.conversations = new Map();
    this.store = new ConversationStore();
    this.lastSave = 0;
    this.facts = null;
    this.settings = new Settings(loadSettings(), (text) => this.setSystem(text));
    this.answers = new Answers({
      grown: (conversation, node) => this.grown(conversation, node),
      ended: (conversation, node) => this.ended(conversation, node),
      needKey: (wasWrong) => this.needKey(wasWrong),
    });
    this.messages = new Messages({
      send: (text) => this.send(text),
      edit: (node, text) => this.edit(node, text),
      regenerate: (node) => this.answer(node.parent),
      switchBranch: (node, step) => this.switchBranch(node, step),
      answerCalls: (node, texts) => this.answerCalls(node, texts),
      isBusy: (id) => this.answers.isBusy(id),
    });
    this.composer = new Composer({
      send: (text) => this.send(text),
      stop: () => this.answers.stop(this.current.id),
      editLast: () => this.messages.editLast(),
    });
    this.sidebar = new Sidebar({
      open: (id) => this.open(id),
      remove: (id) => this.remove(id),
      rename: (id, title) => this.rename(id, title),
      isBusy: (id) => this.answers.isBusy(id),
    });
    this.feed = new EngineFeed({ facts: (facts) => this.showStatus(facts), needKey: (wasWrong) => this.needKey(wasWrong) });
    this.panel = new Panel(new EnginePanel(this.feed));
  }

  async start() {
    this.show(createConversation(this.settings.values.system));
    this.bindKeys();
    this.feed.again(0);
    try {
      await this.store.open((id) => this.changedElsewhere(id));
      for (const conversation of await this.store.all()) this.conversations.set(conversation.id, conversation);
    } catch {
      toast("This browser does not let the page keep conversations; they last until it is closed.");
    }
    const wanted = this.conversations.get(location.hash.slice(1));
    if (wanted) this.show(wanted);
    else this.drawList();
    addEventListener("hashchange", () => this.followHash());
    if (!narrow.matches && !dialogIsOpen()) this.composer.focus();
    void document.body.offsetWidth; // what is open at the start is laid out before anything may slide
    document.documentElement.dataset.ready = "true";
  }

  followHash() {
    const id = location.hash.slice(1);
    if (id === this.current.id || (!id && !path(this.current).length)) return;
    if (this.conversations.has(id)) this.show(this.conversations.get(id));
    else this.newChat();
  }

  bindKeys() {
    byId("new-chat").addEventListener("click", () => this.newChat());
    byId("new-chat").querySelector("kbd").textContent = `${kModifier} K`;
    byId("show-keys").addEventListener("click", () => showKeys());
    byId("need-key").addEventListener("click", () => this.needKey(false));
    byId("system-chip").addEventListener("click", () => {
      this.panel.show("settings");
      this.settings.system.focus();
    });
    const shortcuts = {
      k: () => this.newChat(),
      b: () => this.sidebar.toggle(),
      e: () => this.panel.toggle("engine"),
      ".": () => this.panel.toggle("settings"),
      "/": () => showKeys(),
    };
    document.addEventListener("keydown", (event) => {
      const key = event.key.toLowerCase();
      if (dialogIsOpen()) return;
      if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && Object.hasOwn(shortcuts, key)) {
        event.preventDefault();
        shortcuts[key]();
      } else if (event.key === "Escape") {
        this.escape();
      } else if (event.key === "/" && !/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) {
        event.preventDefault();
        this.composer.focus();
      }
    });
  }

  escape() {
    if (this.answers.isBusy(this.current.id)) this.answers.stop(this.current.id);
    else if (narrow.matches && this.sidebar.isOpen) this.sidebar.toggle(false);
    else if (this.panel.isOpen) this.panel.close();
  }

  show(conversation) {
    if (this.current !== conversation) this.composer.swap(this.current?.id, conversation.id);
    this.current = conversation;
    this.messages.show(conversation);
    this.settings.showSystem(conversation.system);
    this.showChip();
    this.refresh();
    const hash = this.conversations.has(conversation.id) ? `#${conversation.id}` : "";
    if (location.hash !== hash) history.pushState(null, "", hash || location.pathname + location.search);
    document.title = conversation.title ? `${conversation.title} · Ingot` : "Ingot";
  }

  refresh() {
    this.composer.setBusy(this.answers.isBusy(this.current.id));
    this.showContext();
    this.drawList();
  }

  drawList() {
    this.sidebar.draw([...this.conversations.values()], this.current.id);
  }

  open(id) {
    this.show(this.conversations.get(id));
    if (!narrow.matches) this.composer.focus();
  }

  newChat() {
    if (path(this.current).length || this.conversations.has(this.current.id)) {
      this.show(createConversation(this.settings.values.system));
    }
    if (narrow.matches) this.sidebar.show(false);
    this.composer.focus();
  }

  send(text) {
    if (this.answers.isBusy(this.current.id)) return;
    const isNew = !this.conversations.has(this.current.id);
    const node = addMessage(this.current, lastId(this.current), "user", text);
    this.conversations.set(this.current.id, this.current);
    if (isNew) history.pushState(null, "", `#${this.current.id}`);
    this.answer(node.id);
  }

  // What the tools that an answer has called say, each a message of its own.
  answerCalls(node, texts) {
    if (this.answers.isBusy(this.current.id)) return;
    let last = node;
    node.calls.forEach((call, i) => {
      last = Object.assign(addMessage(this.current, last.id, "tool", texts[i]), { call: call.id, name: call.name });
    });
    this.answer(last.id);
  }

  edit(node, text) {
    if (!this.answers.isBusy(this.current.id)) this.answer(addMessage(this.current, node.parent, "user", text).id);
  }

  answer(parent) {
    const conversation = this.current;
    if (this.answers.isBusy(conversation.id)) {
      toast("An answer is being written. Stop it first.");
      return;
    }
    document.title = `${conversation.title || "New chat"} · Ingot`;
    const fields = { ...this.settings.requestFields(), ...(this.facts?.model ? { model: this.facts.model } : {}) };
    this.fresh = true;
    this.answers.begin(conversation, parent, fields);
  }

  // Called with the empty answer first, then with each part of it.
  grown(conversation, node) {
    const begins = !node.stats;
    if (conversation === this.current) {
      if (begins && this.fresh) {
        this.fresh = false;
        this.messages.show(conversation);
        this.refresh();
        announce("Answering");
      } else {
        this.messages.update(node);
      }
    }
    const kept = this.conversations.has(conversation.id);  // it may have been deleted meanwhile
    if (kept && (begins || performance.now() - this.lastSave > kSaveEvery)) this.save(conversation);
  }

  ended(conversation, node) {
    if (conversation === this.current) {
      this.messages.update(node);
      announce(node.state === "failed" ? `Failed: ${node.error}` : node.content.length < 600 ? node.content : "The answer is complete");
    } else if (this.conversations.has(conversation.id)) {
      toast(`“${conversation.title}” has its answer`, "Show", () => this.open(conversation.id));
    }
    if (this.conversations.has(conversation.id)) this.save(conversation);
    this.refresh();
  }

  async save(conversation) {
    this.lastSave = performance.now();
    try {
      await this.store.put(conversation);
    } catch {
      if (!this.saidFull) toast("The browser's store is full: this conversation is not kept.");
      this.saidFull = true;
    }
  }

  switchBranch(node, step) {
    if (this.answers.isBusy(this.current.id)) return;
    switchBranch(this.current, node, step);
    this.messages.show(this.current, false);
    this.save(this.current);
  }

  rename(id, title) {
    const conversation = this.conversations.get(id);
    Object.assign(conversation, { title, named: true });
    this.save(conversation);
    this.drawList();
  }

  remove(id) {
    const conversation = this.conversations.get(id);
    this.conversations.delete(id);
    this.answers.stop(id);
    this.store.remove(id).catch(() => {});
    if (this.current.id === id) this.show(createConversation(this.settings.values.system));
    else this.drawList();
    toast("Conversation deleted", "Undo", () => {
      this.conversations.set(id, conversation);
      this.save(conversation);
      this.show(conversation);
    });
  }

  async changedElsewhere(id) {
    if (this.answers.isBusy(id)) return;
    const stored = await this.store.get(id);
    if (stored) this.conversations.set(id, stored);
    else this.conversations.delete(id);
    if (this.current.id === id && stored) this.show(stored);
    else this.drawList();
  }

  setSystem(text) {
    this.current.system = text;
    this.showChip();
    if (this.conversations.has(this.current.id)) this.save(this.current);
  }

  showChip() {
    const system = this.current.system.trim();
    byId("system-chip-text").textContent = system || "System prompt";
    byId("system-chip").classList.toggle("set", system !== "");
  }

  showContext() {
    const stats = path(this.current).findLast((node) => node.stats?.prompt)?.stats;
    const node = byId("context");
    node.hidden = !stats || !this.facts?.context;
    if (node.hidden) return;
    const used = stats.prompt + stats.tokens;
    node.textContent = `${used.toLocaleString("en")} of ${this.facts.context.toLocaleString("en")} tokens`;
    node.title = "How much of the model's context this conversation fills";
    node.style.setProperty("--share", `${Math.min(100, (100 * used) / this.facts.context)}%`);
  }

  showStatus(facts) {
    const known = this.facts !== null;
    if (facts) this.facts = facts;
    byId("dot").dataset.state = facts ? "up" : "down";
    byId("dot").title = facts ? "The server answers" : "The server does not answer";
    byId("need-key").hidden = facts !== null || !this.feed.refused;
    byId("model-name").textContent = this.facts?.model ?? (facts ? "Model" : "Not connected");
    if (!facts) return;
    this.panel.engine.showFacts(facts);
    if (!known) this.showContext();
  }

  async needKey(wasWrong) {
    const key = await askKey(wasWrong);
    if (key) {
      setApiKey(key);
      this.feed.refused = false;
      this.feed.again(0);
      byId("need-key").hidden = true;
    }
    return key !== null;
  }
}

const app = new App();
app.start();
