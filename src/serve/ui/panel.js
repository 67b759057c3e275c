// The panel at the right: parameters or the engine. And the theme's three buttons.
import { byId } from "./dom.js";
import { recall, remember } from "./store.js";

const kTabs = ["settings", "engine"];
const kOpen = "ingot.panel";
const wide = matchMedia("(min-width: 1181px)");

export class Panel {
  constructor(engine) {
    this.engine = engine;
    this.tab = null;
    for (const tab of kTabs) {
      byId(`open-${tab}`).addEventListener("click", () => this.toggle(tab));
      byId(`tab-${tab}`).addEventListener("click", () => this.show(tab));
      byId(`tab-${tab}`).addEventListener("keydown", (event) => this.arrows(event, tab));
    }
    byId("panel-close").addEventListener("click", () => this.close());
    const kept = recall(kOpen);
    if (wide.matches && kTabs.includes(kept)) this.show(kept);
    bindTheme();
  }

  get isOpen() {
    return this.tab !== null;
  }

  arrows(event, tab) {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    const other = kTabs[1 - kTabs.indexOf(tab)];
    this.show(other);
    byId(`tab-${other}`).focus();
  }

  show(tab) {
    this.tab = tab;
    byId("panel").hidden = tab === null;
    byId("app").classList.toggle("panel-shown", tab !== null);
    for (const name of kTabs) {
      byId(`pane-${name}`).hidden = name !== tab;
      byId(`tab-${name}`).setAttribute("aria-selected", String(name === tab));
      byId(`tab-${name}`).tabIndex = name === tab ? 0 : -1;
      byId(`open-${name}`).setAttribute("aria-expanded", String(name === tab));
    }
    remember(kOpen, tab ?? "");
    this.engine.open(tab === "engine");
  }

  toggle(tab) {
    if (this.tab === tab) this.close();
    else this.show(tab);
  }

  close() {
    const tab = this.tab;
    this.show(null);
    if (tab && byId("panel").contains(document.activeElement)) byId(`open-${tab}`).focus();
  }
}

function bindTheme() {
  const buttons = [...document.querySelectorAll("[data-theme-choice]")].filter((node) => node.tagName === "BUTTON");
  const show = () => {
    for (const button of buttons) {
      const chosen = button.dataset.themeChoice === window.ingotTheme.choice();
      button.setAttribute("aria-checked", String(chosen));
      button.tabIndex = chosen ? 0 : -1;
    }
  };
  buttons.forEach((button, i) => {
    button.addEventListener("click", () => window.ingotTheme.set(button.dataset.themeChoice));
    button.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const next = buttons[(i + step + buttons.length) % buttons.length];
      next.click();
      next.focus();
    });
  });
  addEventListener("ingot-theme", show);
  show();
}
