// The list of conversations: by day, searched, renamed, exported, deleted.
import { asMarkdown } from "./conversation.js";
import { byId, download, el, icon, iconButton } from "./dom.js";
import { askText, openMenu } from "./dialogs.js";
import { recall, remember } from "./store.js";

const kDay = 24 * 3600 * 1000;
const kOpen = "ingot.sidebar";
export const narrow = matchMedia("(max-width: 860px)");

function groupOf(time) {
  const midnight = new Date().setHours(0, 0, 0, 0);
  if (time >= midnight) return "Today";
  if (time >= midnight - kDay) return "Yesterday";
  if (time >= midnight - 7 * kDay) return "Last 7 days";
  if (time >= midnight - 30 * kDay) return "Last 30 days";
  return "Older";
}

function matches(conversation, words) {
  if (!words) return true;
  if (conversation.title.toLowerCase().includes(words)) return true;
  return Object.values(conversation.nodes).some((node) => node.content?.toLowerCase().includes(words));
}

export class Sidebar {
  // actions: open(id), remove(id), rename(id, title); isBusy(id) says whether an answer is being written there.
  constructor(actions) {
    this.actions = actions;
    this.list = byId("conversations");
    this.search = byId("search");
    this.search.addEventListener("input", () => this.draw());
    byId("side-close").addEventListener("click", () => this.toggle(false));
    byId("side-open").addEventListener("click", () => this.toggle(true));
    byId("shade").addEventListener("click", () => this.toggle(false));
    narrow.addEventListener("change", () => this.show(!narrow.matches && recall(kOpen) !== "closed"));
    this.show(!narrow.matches && recall(kOpen) !== "closed");
  }

  get isOpen() {
    return !byId("sidebar").inert;
  }

  show(open) {
    byId("app").classList.toggle("side-shown", open);
    byId("sidebar").inert = !open;
    byId("side-open").hidden = open && !narrow.matches;
  }

  toggle(open = !this.isOpen) {
    this.show(open);
    if (!narrow.matches) remember(kOpen, open ? "open" : "closed");
    byId(open ? "side-close" : "side-open").focus();
  }

  draw(conversations = this.conversations, current = this.current) {
    this.conversations = conversations;
    this.current = current;
    const words = this.search.value.trim().toLowerCase();
    const shown = conversations.filter((one) => matches(one, words)).sort((a, b) => b.updated - a.updated);
    const nodes = [];
    let group = null;
    for (const conversation of shown) {
      const name = groupOf(conversation.updated);
      if (name !== group) nodes.push(el("h2", { class: "group" }, name));
      group = name;
      nodes.push(this.row(conversation));
    }
    if (!shown.length) nodes.push(el("p", { class: "empty-list" }, words ? "Nothing found" : "Conversations will be listed here"));
    this.list.replaceChildren(...nodes);
  }

  row(conversation) {
    const title = conversation.title || "New chat";
    const isCurrent = conversation.id === this.current;
    const open = el("button", { type: "button", class: "row-open", "aria-current": isCurrent ? "page" : null, title, onclick: () => {
      this.actions.open(conversation.id);
      if (narrow.matches) this.show(false);
    } }, el("span", {}, title));
    if (this.actions.isBusy(conversation.id)) open.append(el("span", { class: "spinner", "aria-label": "answering" }));
    const more = iconButton("dots", `Actions for ${title}`, () => this.menu(more, conversation), { "aria-haspopup": "menu", "aria-expanded": "false" });
    more.classList.add("row-more");
    return el("div", { class: isCurrent ? "row current" : "row" }, open, more);
  }

  menu(anchor, conversation) {
    const name = (conversation.title || "conversation").replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 40);
    openMenu(anchor, [
      ["edit", "Rename", async () => {
        const title = await askText("Rename this conversation", { label: "Name", value: conversation.title });
        if (title) this.actions.rename(conversation.id, title);
      }],
      ["download", "Save as Markdown", () => download(`${name}.md`, asMarkdown(conversation), "text/markdown")],
      ["copy", "Save as JSON", () => download(`${name}.json`, JSON.stringify(conversation, null, 2), "application/json")],
      ["trash", "Delete", () => this.actions.remove(conversation.id), true],
    ]);
  }
}

// Puts the icons into the buttons of the page's own HTML.
export function fillIcons() {
  for (const node of document.querySelectorAll("[data-icon]")) node.append(icon(node.dataset.icon));
}
