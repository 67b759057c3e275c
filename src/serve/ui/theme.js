// Light, dark or the system's choice. A classic script in the head, so that the first paint has the right colours.
"use strict";
(() => {
  const kKey = "ingot.theme";
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let chosenNow = null;  // where storage is forbidden the choice holds for this page

  function choice() {
    try {
      return localStorage.getItem(kKey) || chosenNow || "system";
    } catch {
      return chosenNow || "system";
    }
  }

  function apply() {
    const chosen = choice();
    root.dataset.theme = chosen === "system" ? (dark.matches ? "dark" : "light") : chosen;
    root.dataset.themeChoice = chosen;
    dispatchEvent(new Event("ingot-theme"));
  }

  window.ingotTheme = {
    choice,
    set(chosen) {
      chosenNow = chosen;
      try {
        localStorage.setItem(kKey, chosen);
      } catch {
        // Not kept then.
      }
      apply();
    },
  };
  dark.addEventListener("change", apply);
  apply();
})();
