// What is kept in the browser: conversations in IndexedDB, settings in localStorage. Where a browser forbids these the
// page works all the same and forgets at the end.
import { isConversation } from "./conversation.js";

const kSettings = "ingot.settings";

// Null: not sent, so that the model's own setting or the server's holds.
export const kDefaults = {
  system: "",
  temperature: null,
  top_p: null,
  top_k: null,
  min_p: null,
  max_tokens: 2048,
  frequency_penalty: 0,
  presence_penalty: 0,
  seed: "",
  stop: "",
  json: false,  // answers are JSON, of the schema where there is one
  schema: "",
  tools: "",  // a list of tools that the model may call, as JSON
};

export function loadSettings() {
  let kept = {};
  try {
    kept = JSON.parse(localStorage.getItem(kSettings)) ?? {};
  } catch {
    // Unreadable or forbidden: defaults.
  }
  const settings = { ...kDefaults };
  for (const name of Object.keys(kDefaults)) {
    const usual = kDefaults[name] === null ? "number" : typeof kDefaults[name];
    if (typeof kept[name] === usual) settings[name] = kept[name];
  }
  return settings;
}

export function saveSettings(settings) {
  return remember(kSettings, JSON.stringify(settings));
}

// Small facts about the page itself, such as whether the list is open.
export function remember(name, value) {
  try {
    localStorage.setItem(name, value);
    return true;
  } catch {
    return false;
  }
}

export function recall(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

function promised(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

export class ConversationStore {
  #db = null;
  #channel = null;

  // Calls onChange(id) when another tab has written or removed a conversation.
  async open(onChange) {
    const request = indexedDB.open("ingot", 1);
    request.onupgradeneeded = () => request.result.createObjectStore("conversations", { keyPath: "id" });
    this.#db = await promised(request);
    this.#db.onversionchange = () => this.#db.close();
    this.#channel = new BroadcastChannel("ingot");
    this.#channel.onmessage = (event) => onChange(event.data);
  }

  #objects(mode) {
    return this.#db.transaction("conversations", mode).objectStore("conversations");
  }

  async all() {
    if (!this.#db) return [];
    return (await promised(this.#objects("readonly").getAll())).filter(isConversation);
  }

  async get(id) {
    const found = this.#db && (await promised(this.#objects("readonly").get(id)));
    return isConversation(found) ? found : null;
  }

  async put(conversation) {
    if (!this.#db) return;
    await promised(this.#objects("readwrite").put(conversation));
    this.#channel.postMessage(conversation.id);
  }

  async remove(id) {
    if (!this.#db) return;
    await promised(this.#objects("readwrite").delete(id));
    this.#channel.postMessage(id);
  }
}
