// Acting from a page: what is marked, the question before a command, commands that leave the reader where he was, and the list of
// Ctrl-K. Without this script the forms work as forms.
"use strict";
{
  const byID = (id) => document.getElementById(id);
  const [said, bar, count, ask, find, findText, findList] = ["said", "marked", "marked-count", "ask", "find", "find-text", "find-list"].map(byID);
  const make = (name, members, ...children) => {
    const e = Object.assign(document.createElement(name), members);
    e.append(...children);
    return e;
  };
  const tell = (text) => said.replaceChildren(make("p", { className: "notice bad", id: "notice", textContent: text }));

  // A command is sent beside the page. Its answer is the page after it, and what had the focus keeps it, or the next item gets it.
  let busy = false;
  const send = async (action, data, done, button) => {
    if (busy) return;
    data.set("back", location.pathname + location.search);
    if (typeof draw === "undefined") { // a page that does not change
      const form = make("form", { method: "post", action, hidden: true }, ...[...data].map(([name, value]) => make("input", { name, value })));
      document.body.append(form);
      return form.submit();
    }
    busy = true;
    for (const e of [document.documentElement, button]) e?.setAttribute("aria-busy", "true");
    const at = Math.max(atItem(), 0);
    const before = items(); // those from the present one on, then those above it
    try {
      const answer = await fetch(action, { method: "POST", body: data, headers: { Accept: "text/html" } });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const [now, news] = ["main", "said"].map((id) => page.getElementById(id));
      if (!answer.redirected) return tell(now.textContent.replace(/\s+/g, " ").trim());
      if (page.documentElement.dataset.version !== document.documentElement.dataset.version) return location.reload();
      said.replaceChildren(...news.childNodes);
      if (!said.querySelector(".bad")) done?.();
      draw({ title: page.title, icon: page.querySelector("link[rel=icon]").href, main: now.innerHTML, alarm: page.getElementById("alarm").innerHTML });
      if (document.activeElement !== document.body) return;
      const next = [...before.slice(at), ...before.slice(0, at).reverse()].find((e) => e.isConnected && e.checkVisibility());
      (next ?? byID("main")).focus({ preventScroll: !next });
    } catch {
      tell("symphony does not answer. Whether the command was carried out is not known.");
    } finally {
      busy = false;
      for (const e of [document.documentElement, button]) e?.removeAttribute("aria-busy");
    }
  };
  const dataOf = (form, button) => new URLSearchParams(new FormData(form, button));
  document.addEventListener("submit", (e) => {
    const action = e.target.getAttribute("action") ?? "";
    if (!action.startsWith("/api/v1/")) return;
    e.preventDefault();
    e.target === bar ? act(e.submitter.value, e.submitter) : send(action, dataOf(e.target, e.submitter), () => e.target.reset(), e.submitter);
  });
  // A text that the server would refuse is not sent, and stays as it is.
  document.addEventListener("input", ({ target }) => {
    if (!target.dataset.most) return;
    const bytes = new TextEncoder().encode(target.value).length;
    target.setCustomValidity(bytes > target.dataset.most ? `This text has ${bytes} bytes, and may have ${target.dataset.most}.` : "");
  });

  // The question before a command: about which issues it is, and requests in full. It resolves to the reason, or to null.
  const question = (title, entries, takesReason) =>
    new Promise((resolve) => {
      const reason = ask.querySelector("[name=reason]");
      byID("ask-title").textContent = byID("ask-yes").textContent = title;
      byID("ask-list").replaceChildren(...entries);
      byID("ask-reason").hidden = !takesReason;
      reason.value = ask.returnValue = "";
      ask.onclose = () => resolve(ask.returnValue ? reason.value : null);
      ask.showModal();
      (takesReason ? reason : byID("ask-yes")).focus();
    });
  const entry = (mark) => {
    const request = mark.closest("article");
    if (request) return make("li", { className: "stack tight" }, ...[...request.querySelectorAll(":scope > .head > :is(h3, .bad), :scope > .body")].map((part) => part.cloneNode(true)));
    const title = placeOf(mark).querySelector("[data-item] + *") ?? document.querySelector("h1 .title");
    return make("li", {}, make("strong", { textContent: mark.ariaLabel.replace("Mark ", "") }), " " + (title?.textContent ?? ""));
  };

  // Marks
  const marks = () => [...document.querySelectorAll(".pick")];
  const current = () => (atItem() < 0 ? null : placeOf(items()[atItem()]));
  const counted = () => bar && (count.textContent = document.querySelectorAll(".pick:checked").length + " marked");
  document.addEventListener("change", counted);
  bar?.addEventListener("reset", () => setTimeout(counted));
  const mark = (list, on) => (list.forEach((m) => (m.checked = on)), counted());
  const act = async (verb, button) => {
    const able = marks().filter((m) => m.dataset.can.split(" ").includes(verb));
    let chosen = able.filter((m) => m.checked);
    if (!document.querySelector(".pick:checked")) chosen = able.filter((m) => current()?.contains(m));
    if (!chosen.length && !document.querySelector(".pick:checked") && able.length === 1) chosen = able;
    if (!chosen.length) return tell(`There is nothing to ${verb}: go to an issue or a request with j and k, or mark some with x.`);
    const name = verb[0].toUpperCase() + verb.slice(1) + " " + (chosen.length === 1 ? chosen[0].ariaLabel.replace("Mark ", "") : "these " + chosen.length);
    const reason = await question(name, chosen.map(entry), verb === "deny");
    if (reason === null) return;
    send("/api/v1/several", new URLSearchParams([["verb", verb], ["reason", reason], ...chosen.map((m) => [m.name, m.value])]), () => mark(chosen, false), button);
  };
  if (bar) {
    const toggle = (list) => mark(list, !list.every((m) => m.checked));
    Object.assign(keys, {
      x: () => toggle([...(current()?.querySelectorAll(".pick") ?? [])]),
      X: () => toggle([...(current()?.closest("ul, tbody, section")?.querySelectorAll(".pick") ?? [])]),
      ...Object.fromEntries(Object.entries({ a: "approve", d: "deny", r: "retry", h: "hold", s: "stop", c: "done" }).map(([key, verb]) => [key, () => act(verb)])),
    });
  }
  keys.Escape = () => (mark(marks(), false), said.replaceChildren());
  said.addEventListener("click", (e) => e.target.closest(".dismiss") && said.replaceChildren());

  // Ctrl-K finds issues, projects and commands: those of the overview, and those of this page.
  let known = [];
  let found = [];
  let chosen = 0;
  let latest = 0;
  const load = async (address) => new DOMParser().parseFromString(await (await fetch(address, { headers: { Accept: "text/html" } })).text(), "text/html");
  const text = (e) => e.textContent.replace(/\s+/g, " ").trim();
  const go = (href) => () => location.assign(href);
  const issuesOf = (page) =>
    [...page.querySelectorAll("#main a[data-item]")].map((a) => {
      const title = a.nextElementSibling ?? a.nextSibling;
      return { kind: "issue", label: text(a) + " " + (title ? text(title) : ""), key: a.getAttribute("href"), run: go(a.getAttribute("href")) };
    });
  const commandsOf = (page) =>
    [...page.querySelectorAll("#main form[action^='/api/v1/'] button[aria-label]")].filter((b) => !b.form.action.includes("/answer")).map((b) => ({
      kind: "command", label: b.ariaLabel, key: b.ariaLabel, run: async () => {
        const data = dataOf(b.form, b);
        const request = b.closest("article");
        const asks = request ? [entry(request.querySelector(".pick"))] : b.closest(".confirm") ? [make("li", { textContent: text(b.form.querySelector("span")) })] : null;
        const reason = asks ? await question(b.ariaLabel, asks, data.has("reason")) : "";
        if (data.has("reason")) data.set("reason", reason ?? "");
        if (reason !== null) send(b.form.getAttribute("action"), data);
      },
    }));
  const copiesOf = (page) =>
    [...page.querySelectorAll("#main .copy")].map((b) => ({
      kind: "copy", label: text(b.previousElementSibling), key: text(b.previousElementSibling), run: () => navigator.clipboard?.writeText(text(b.previousElementSibling)),
    }));
  const projectsOf = (page) => [...page.querySelectorAll("#projects a")].map((a) => ({ kind: "project", label: text(a), key: a.getAttribute("href"), run: go(a.getAttribute("href")) }));
  const here = () => [
    { kind: "page", label: "Overview", key: "/", run: go("/") },
    { kind: "page", label: "Results", key: "/results", run: go("/results") },
    ...[...document.querySelectorAll(".bar button")].filter((b) => b.checkVisibility()).map((b) => ({ kind: "page", label: text(b).replace("? ", ""), key: text(b), run: () => b.click() })),
  ];
  const show = () => {
    const words = findText.value.toLowerCase().split(" ").filter(Boolean);
    const seen = new Set();
    found = known.filter((k) => k.found || words.every((w) => (k.kind + " " + k.label).toLowerCase().includes(w)));
    found = found.filter((k) => !seen.has(k.key) && seen.add(k.key)).slice(0, 50);
    chosen = Math.min(chosen, Math.max(found.length - 1, 0));
    findList.replaceChildren(...(found.length ? found : [{ kind: "", label: "Nothing found" }]).map((k, n) =>
      make("li", { id: "find-" + n, role: "option", ariaSelected: String(n === chosen), onclick: () => pick(n) }, make("span", { className: "cut", textContent: k.label }), make("span", { className: "soft small", textContent: k.kind }))));
    findText.setAttribute("aria-activedescendant", "find-" + chosen);
    byID("find-" + chosen)?.scrollIntoView({ block: "nearest" });
  };
  const pick = (n) => {
    const taken = found[n];
    latest++; // a search that has not begun would take the notice of the command
    if (taken) find.close(), taken.run();
  };
  const look = async () => {
    const query = findText.value.trim();
    const mine = ++latest;
    chosen = 0;
    known = known.filter((k) => !k.found);
    show();
    if (!query) return;
    await new Promise((then) => setTimeout(then, 150));
    if (mine !== latest) return;
    const page = await load("/?q=" + encodeURIComponent(query));
    if (mine === latest) known = [...known, ...issuesOf(page).map((k) => ({ ...k, found: true }))];
    if (mine === latest) show();
  };
  findText.oninput = look;
  findText.onkeydown = (e) => {
    if (e.isComposing || e.keyCode === 229) return; // Enter ends a word of an input method, and opens nothing
    const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (e.key === "Enter") pick(chosen);
    if (!step && e.key !== "Enter") return;
    e.preventDefault();
    chosen = Math.min(Math.max(chosen + (step ?? 0), 0), found.length - 1);
    show();
  };
  document.addEventListener("keydown", async (e) => {
    if (!(e.ctrlKey || e.metaKey) || e.altKey || e.shiftKey || latin(e).toLowerCase() !== "k" || document.querySelector("dialog[open]")) return;
    e.preventDefault();
    findText.value = "";
    const of = (page) => [...issuesOf(page), ...projectsOf(page), ...commandsOf(page)];
    known = [...of(document), ...here(), ...copiesOf(document)];
    find.showModal();
    look();
    const page = location.pathname === "/" && !location.search ? null : await load("/");
    if (page) known = [...of(document), ...of(page), ...here(), ...copiesOf(document), ...copiesOf(page), ...known.filter((k) => k.found)];
    show();
  });
}
