// How nodes are made. Text becomes a text node and nothing else; there is no way from a string to markup here.
import { kIcons } from "./icons.js";

const kForbidden = new Set(["style", "srcdoc", "src", "href", "innerhtml", "outerhtml"]);

// el("button", {class: "x", onclick: f, disabled: true}, "text", node, …). A property that is null or false is left out,
// one that begins with "on" is a listener. Addresses go through link().
export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) {
      node.addEventListener(name.slice(2), value);
    } else if (kForbidden.has(name.toLowerCase())) {
      throw new Error(`el() does not set ${name}`);
    } else {
      node.setAttribute(name, value === true ? "" : String(value));
    }
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

// A link out of the page, or null where the address is not one that a click may safely follow.
export function link(address, ...children) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return null;
  }
  if (!["http:", "https:", "mailto:"].includes(url.protocol)) return null;
  const node = el("a", { target: "_blank", rel: "noopener noreferrer nofollow", title: url.href }, ...children);
  node.href = url.href;
  return node;
}

export function icon(name) {
  const kSvg = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(kSvg, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  for (const d of kIcons[name]) {
    const path = document.createElementNS(kSvg, "path");
    path.setAttribute("d", d);
    svg.append(path);
  }
  return svg;
}

export function iconButton(name, label, onclick, extra = {}) {
  return el("button", { type: "button", class: "icon-button", "aria-label": label, title: label, onclick, ...extra }, icon(name));
}

export const byId = (id) => document.getElementById(id);

// Copies text; also where the clipboard API is missing (plain http on another machine).
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = el("textarea", { class: "hidden", readonly: true });
    area.value = text;
    document.body.append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    return copied;
  }
}

// A button that copies what text() gives and shows for a moment that it did.
export function copyButton(text, label = "Copy") {
  const button = iconButton("copy", label, async () => {
    const copied = await copyText(text());
    button.replaceChildren(icon(copied ? "check" : "x"));
    button.classList.toggle("done", copied);
    setTimeout(() => {
      button.replaceChildren(icon("copy"));
      button.classList.remove("done");
    }, 1500);
  });
  button.classList.add("copy");
  return button;
}

// Saves text as a file of the user's.
export function download(name, text, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const anchor = el("a", { download: name });
  anchor.href = address;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}
