// The review of a diff. A file that was viewed is folded, and stays so until it changes. A click on the number of a line begins a
// comment on it, and all comments are one message to the agent.
"use strict";
{
  const place = "viewed " + location.pathname + location.search;
  const files = () => [...document.querySelectorAll(".file")];
  const boxOf = (file) => file.querySelector("[name=viewed]");
  const seen = () => JSON.parse(localStorage.getItem(place) ?? "{}");
  const show = () => {
    const known = seen();
    for (const file of files()) {
      const is = known[file.id] === file.dataset.hash;
      boxOf(file).checked = is;
      file.querySelector(".viewed").hidden = !is;
    }
    const count = document.getElementById("viewed-count");
    if (count) count.textContent = files().filter((f) => boxOf(f).checked).length + " of " + files().length + " viewed";
  };
  const view = (file, is) => {
    const all = files();
    const known = all.filter((f) => (f === file ? is : boxOf(f).checked)).map((f) => [f.id, f.dataset.hash]);
    localStorage.setItem(place, JSON.stringify(Object.fromEntries(known)));
    file.open = !is;
    show();
    const next = is ? all.slice(all.indexOf(file) + 1).find((f) => !boxOf(f).checked) : file;
    (next ?? file).querySelector("summary").focus();
  };
  document.addEventListener("change", ({ target }) => (target.name === "viewed" ? view(target.closest(".file"), target.checked) : show()));
  keys.v = () => {
    const file = document.activeElement.closest(".file");
    if (file) view(file, !boxOf(file).checked);
  };
  show();
  for (const file of files()) if (boxOf(file).checked) file.open = false;

  document.addEventListener("click", ({ target }) => {
    const comments = document.getElementById("comments");
    if (!comments || !target.matches(".file .lines > div > div:is([data-n], [data-o])")) return;
    const { n, o } = target.dataset;
    const code = target.querySelector("code").textContent.trim().slice(0, 80);
    const line = target.closest(".file").dataset.path + ":" + (n ?? o + " (removed)") + (code ? " `" + code + "`" : "");
    comments.value = [comments.value.trimEnd(), line + ": "].filter(Boolean).join("\n");
    comments.dispatchEvent(new Event("input", { bubbles: true }));
    comments.focus();
    comments.setSelectionRange(comments.value.length, comments.value.length);
  });
}
