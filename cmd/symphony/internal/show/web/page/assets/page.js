// A page changes while it is open: the server sends what is in the element main, and idiomorph applies what differs. A form is
// left alone while a reader uses it, and details stay open.
"use strict";
let draw; // applies a page; act.js uses it, too
{
  const [lost, main, live, alarm, notify] = ["lost", "main", "live", "alarm", "notify"].map((id) => document.getElementById(id));
  let stream, timer;
  let delay = 1000;
  const later = (then, ms) => {
    clearTimeout(timer);
    timer = setTimeout(then, ms);
  };
  const connect = () => {
    stream?.close();
    if (!live.checked) return clearTimeout(timer);
    stream = new EventSource(location.pathname + location.search);
    stream.onerror = fail;
    stream.addEventListener("beat", heard);
    stream.addEventListener("page", (e) => apply(JSON.parse(e.data)));
    later(fail, 25_000); // the server sends something every ten seconds
  };
  const fail = () => {
    stream.close();
    lost.hidden = false;
    later(connect, delay * (0.5 + Math.random()));
    delay = Math.min(delay * 2, 30_000);
  };
  const heard = () => {
    lost.hidden = true;
    delay = 1000;
    if (!document.hidden) return later(fail, 25_000);
    stream.close(); // a browser has few connections: a hidden page asks now and then
    later(connect, 10_000);
  };

  const typed = (field) => (field.options ? ![...field.options].find((o, _, all) => o.defaultSelected || all.every((e) => !e.defaultSelected)).selected
    : field.value !== field.defaultValue || field.checked !== field.defaultChecked);
  const used = (form) => form.contains(document.activeElement) || [...form.querySelectorAll("input, select, textarea")].some(typed);
  const kept = (old, now) => (old.nodeName === "TIME" && old.dateTime === now.dateTime) || (old.nodeName === "FORM" && old.getAttribute("action") === now.getAttribute("action") && used(old));
  const apply = (page) => {
    const known = page.version === document.documentElement.dataset.version;
    const busy = [...document.forms].some(used) || document.querySelector(".pick:checked, dialog[open]");
    if (!known) return busy ? fail() : location.reload(); // what a reader types stays until it is sent
    heard();
    draw(page);
    announce(page.news);
  };
  draw = (page) => {
    document.title = page.title;
    document.querySelector("link[rel=icon]").href = page.icon;
    const callbacks = {
      beforeNodeMorphed: (old, now) => !kept(old, now),
      beforeAttributeUpdated: (name, e) => (name !== "open" || e.nodeName !== "DETAILS") && (name !== "checked" || !e.classList.contains("pick")),
    };
    Idiomorph.morph(main, page.main, { morphStyle: "innerHTML", callbacks });
    Idiomorph.morph(alarm, page.alarm, { morphStyle: "innerHTML", callbacks });
    tell();
    document.dispatchEvent(new Event("change")); // marks may have gone
  };

  // Notifications need the reader's click, here and in the browser. What was there when the page was opened is not announced.
  let announced;
  const announce = (news) => {
    for (const { id, text } of announced && notify.checked ? news.filter((n) => !announced.has(n.id)) : []) {
      const shown = new Notification("symphony", { body: text, tag: id }); // several tabs: one notification
      shown.onclick = () => window.focus();
    }
    announced = new Set(news.map((n) => n.id));
  };
  if ("Notification" in window && window.isSecureContext) {
    document.getElementById("notify-choice").hidden = false;
    notify.checked = Notification.permission === "granted" && localStorage.getItem("notify") === "on";
    notify.onchange = async () => {
      if (notify.checked && (await Notification.requestPermission()) !== "granted") notify.checked = false;
      localStorage.setItem("notify", notify.checked ? "on" : "off");
    };
  }

  const ahead = Date.parse(document.documentElement.dataset.now) - Date.now(); // the clock of the server, not that of the reader
  const tell = () => {
    for (const e of document.querySelectorAll("time[data-relative]")) {
      const seconds = (Date.now() + ahead - new Date(e.dateTime)) / 1000;
      const [unit, size] = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]].find(([, n]) => Math.abs(seconds) >= n) ?? ["s", 1];
      const span = Math.floor(Math.abs(seconds) / size) + " " + unit;
      const text = e.dataset.relative === "for" ? span : seconds < 0 ? "in " + span : span + " ago";
      if (e.textContent !== text) e.textContent = text;
      e.title ||= new Date(e.dateTime).toLocaleString();
    }
  };
  tell();
  setInterval(tell, 1000);
  live.onchange = connect;
  connect();
  document.addEventListener("visibilitychange", () => (document.hidden ? heard() : connect()));
}
