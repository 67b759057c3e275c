// The parameters of an answer and the system prompt. A parameter that was not touched is the model's own: "auto".
import { readTools } from "./calls.js";
import { byId, el } from "./dom.js";
import { kDefaults, saveSettings } from "./store.js";

// Name, label, range, step, what it does, and where the thumb rests while it is automatic.
const kSliders = [
  ["temperature", "Temperature", 0, 2, 0.05, "0 always takes the likeliest token; higher is more varied", 0.7],
  ["top_p", "Top p", 0.05, 1, 0.01, "Only the likeliest tokens that together reach this share", 1],
  ["top_k", "Top k", 0, 200, 1, "Only this many of the likeliest tokens; 0 is all", 0],
  ["min_p", "Min p", 0, 0.5, 0.01, "No token less likely than this share of the likeliest", 0],
  ["frequency_penalty", "Frequency penalty", -2, 2, 0.1, "Against tokens that were said often", 0],
  ["presence_penalty", "Presence penalty", -2, 2, 0.1, "Against tokens that were said at all", 0],
];

export class Settings {
  // onSystem(text) is called when the system prompt of the open conversation is changed.
  constructor(settings, onSystem) {
    this.values = settings;
    this.onSystem = onSystem;
    this.pane = byId("pane-settings");
    this.system = el("textarea", { id: "system", rows: "4", placeholder: "You are a helpful assistant." });
    this.system.addEventListener("input", () => onSystem(this.system.value));
    this.draw();
  }

  showSystem(text) {
    this.system.value = text;
  }

  save() {
    saveSettings(this.values);
  }

  draw() {
    const keep = el("button", { type: "button", class: "link-button", onclick: () => {
      this.values.system = this.system.value;
      this.save();
      keep.textContent = "Used for new chats";
      setTimeout(() => { keep.textContent = "Use for new chats"; }, 1500);
    } }, "Use for new chats");
    const reset = el("button", { type: "button", class: "plain wide", onclick: () => this.reset() }, "Reset parameters");
    this.pane.replaceChildren(
      el("div", { class: "field" }, el("label", { for: "system" }, "System prompt"), this.system,
        el("p", { class: "note" }, "For this conversation. ", keep)),
      ...kSliders.map((slider) => this.slider(...slider)),
      this.number("max_tokens", "Longest answer", "tokens", 1, 1000000),
      this.text("seed", "Seed", "random", "The same seed and parameters give the same answer", "numeric"),
      this.text("stop", "Stop at", "none", "Texts that end the answer, separated by commas", "text"),
      this.schema(),
      this.tools(),
      reset);
  }

  // JSON mode, and the schema that answers are held to.
  schema() {
    const json = el("input", { type: "checkbox", id: "set-json" });
    const box = el("textarea", { id: "set-schema", rows: "4", spellcheck: "false", placeholder: '{"type": "object", …}', "aria-label": "JSON schema", "aria-describedby": "set-schema-hint" });
    const note = el("p", { class: "note", id: "set-schema-hint" });
    const show = () => {
      box.hidden = !this.values.json;
      let wrong = "";
      try {
        if (this.values.schema.trim()) JSON.parse(this.values.schema);
      } catch (error) {
        wrong = `Not JSON: ${error.message}`;
      }
      note.textContent = !this.values.json ? "Answers are text" : wrong || "Answers fit this schema; empty: any JSON object";
    };
    json.checked = this.values.json;
    box.value = this.values.schema;
    json.addEventListener("change", () => { this.values.json = json.checked; this.save(); show(); });
    box.addEventListener("input", () => { this.values.schema = box.value; this.save(); show(); });
    show();
    return el("div", { class: "field" }, el("div", { class: "field-head" }, el("label", { for: "set-json" }, "JSON answers"), json), box, note);
  }

  // What the model may call. Its calls are shown in the conversation, with a box for what the tool says.
  tools() {
    const box = el("textarea", { id: "set-tools", rows: "4", spellcheck: "false", placeholder: '[{"name": "get_weather", "parameters": {…}}]', "aria-describedby": "set-tools-hint" });
    const note = el("p", { class: "note", id: "set-tools-hint" });
    const show = () => {
      let text = "Functions that the model may call, a list in JSON";
      try {
        const n = this.values.tools.trim() ? readTools(this.values.tools).length : 0;
        if (n) text = `${n} tool${n === 1 ? "" : "s"}; you write what they answer`;
      } catch (error) {
        text = `No list of tools: ${error.message}`;
      }
      note.textContent = text;
    };
    box.value = this.values.tools;
    box.addEventListener("input", () => { this.values.tools = box.value; this.save(); show(); });
    show();
    return el("div", { class: "field" }, el("label", { for: "set-tools" }, "Tools"), box, note);
  }

  reset() {
    Object.assign(this.values, { ...kDefaults, system: this.values.system });
    this.save();
    const system = this.system.value;
    this.draw();
    this.system.value = system;
  }

  slider(name, label, min, max, step, hint, rest) {
    const id = `set-${name}`;
    const digits = step < 0.1 ? 2 : step < 1 ? 1 : 0;
    const range = el("input", { type: "range", id, min, max, step, "aria-describedby": `${id}-hint` });
    const box = el("input", { type: "number", class: "value", min, max, step, placeholder: "auto", "aria-label": `${label}, number` });
    const show = () => {
      const value = this.values[name];
      range.value = value ?? rest;
      range.classList.toggle("auto", value === null);
      range.setAttribute("aria-valuetext", value === null ? "automatic" : value.toFixed(digits));
      box.value = value === null ? "" : value.toFixed(digits);
      range.style.setProperty("--share", `${(100 * ((value ?? rest) - min)) / (max - min)}%`);
    };
    const change = (text) => {
      const value = Number(text);
      if (text === "") this.values[name] = kDefaults[name];
      else if (Number.isFinite(value)) this.values[name] = Math.min(max, Math.max(min, value));
      this.save();
      show();
    };
    range.addEventListener("input", () => change(range.value));
    box.addEventListener("change", () => change(box.value));
    show();
    return el("div", { class: "field" }, el("div", { class: "field-head" }, el("label", { for: id }, label), box), range,
      el("p", { class: "note", id: `${id}-hint` }, hint));
  }

  number(name, label, unit, min, max) {
    const id = `set-${name}`;
    const box = el("input", { type: "number", id, class: "value", min, max, step: 1 });
    box.value = this.values[name];
    box.addEventListener("change", () => {
      const value = Math.round(Number(box.value));
      if (box.value !== "" && Number.isFinite(value)) this.values[name] = Math.min(max, Math.max(min, value));
      box.value = this.values[name];
      this.save();
    });
    return el("div", { class: "field" }, el("div", { class: "field-head" }, el("label", { for: id }, label),
      el("span", { class: "with-unit" }, box, el("span", {}, unit))));
  }

  text(name, label, placeholder, hint, inputmode) {
    const id = `set-${name}`;
    const box = el("input", { type: "text", id, inputmode, placeholder, autocomplete: "off", spellcheck: "false", "aria-describedby": `${id}-hint` });
    box.value = this.values[name];
    box.addEventListener("input", () => {
      this.values[name] = box.value;
      this.save();
    });
    return el("div", { class: "field" }, el("label", { for: id }, label), box, el("p", { class: "note", id: `${id}-hint` }, hint));
  }

  // The fields of a request. What is automatic, penalties of 0 and an empty seed are left out.
  requestFields() {
    const { temperature, top_p, top_k, min_p, max_tokens, frequency_penalty, presence_penalty, seed, stop } = this.values;
    const fields = { max_completion_tokens: max_tokens };
    for (const [name, value] of Object.entries({ temperature, top_p, top_k, min_p })) {
      if (value !== null) fields[name] = value;
    }
    if (frequency_penalty) fields.frequency_penalty = frequency_penalty;
    if (presence_penalty) fields.presence_penalty = presence_penalty;
    if (/^\d{1,15}$/.test(seed.trim())) fields.seed = Number(seed);
    const stops = stop.split(",").map((text) => text.trim()).filter(Boolean);
    if (stops.length) fields.stop = stops;
    return { ...fields, ...this.formatFields(), ...this.toolFields() };
  }

  toolFields() {
    try {
      const tools = this.values.tools.trim() ? readTools(this.values.tools) : [];
      return tools.length ? { tools } : {};
    } catch {
      return {};  // the note below the box says why
    }
  }

  // The server refuses a schema that is wrong, and says where.
  formatFields() {
    const schema = this.values.schema.trim();
    if (!this.values.json) return {};
    return schema ? { guided_json: schema } : { response_format: { type: "json_object" } };
  }
}
