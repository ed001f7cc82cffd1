// Keyboard shortcuts of the pages. The list behind "?" is in layout.html; act.js has those that act.
"use strict";
const keys = {};
// The key as it is named here. A keyboard with other letters, such as Cyrillic, has them at the same places.
const latin = (e) => {
  const [, letter] = /^Key([A-Z])$/.exec(e.code) ?? [];
  if (!letter || e.key <= "~") return e.key;
  return e.shiftKey ? letter : letter.toLowerCase();
};
const items = () => [...document.querySelectorAll("main [data-item]")].filter((e) => e.checkVisibility());
const placeOf = (item) => item.closest("li, tr, article, details") ?? item; // what belongs to an item: its buttons, its mark
const atItem = () => items().findIndex((e) => placeOf(e).contains(document.activeElement));
{
  const [search, off] = ["search", "keys-off"].map((id) => document.getElementById(id));
  off.checked = localStorage.getItem("keys") === "off"; // people who speak to their computer press keys by accident
  off.onchange = () => localStorage.setItem("keys", off.checked ? "off" : "on");
  let before = ""; // the first key of two
  const step = (by) => items()[Math.min(Math.max(atItem() + by, 0), items().length - 1)]?.focus();
  Object.assign(keys, {
    j: () => step(1),
    k: () => step(-1),
    "/": () => (search.focus(), search.select()),
    "?": () => document.getElementById("keys").togglePopover(),
    "g o": () => location.assign("/"),
  });
  document.addEventListener("keydown", (e) => {
    if (e.isComposing || e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]")) return;
    if (e.target.closest("input:not(.pick), textarea, select")) {
      if (e.key === "Escape") e.target.blur();
      return;
    }
    const pressed = latin(e);
    const key = before === "g" ? "g " + pressed : pressed;
    before = pressed;
    if (off.checked || !Object.hasOwn(keys, key)) return;
    if (key !== "Escape") e.preventDefault();
    keys[key]();
  });

  document.addEventListener("click", (e) => {
    const button = e.target.closest("button.copy");
    if (!button) return;
    const code = button.previousElementSibling;
    const done = () => (button.classList.add("done"), setTimeout(() => button.classList.remove("done"), 2000));
    const select = () => getSelection().selectAllChildren(code); // over plain HTTP a page cannot write to the clipboard
    navigator.clipboard ? navigator.clipboard.writeText(code.textContent).then(done, select) : select();
  });
}
