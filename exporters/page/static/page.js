"use strict";
// Keeps a page live: takes changed parts from the observer's stream, counts ages on, and says when the observer is lost.
(() => {
  const body = document.body;
  const live = document.getElementById("live");
  let tag = body.dataset.tag;
  let skew = Date.now() / 1000 - Number(body.dataset.now);
  let heard = Date.now();
  let told = Number(body.dataset.now);
  let lost = false;
  let source = null;
  let later = 0;

  const now = () => Date.now() / 1000 - skew;

  function ago(span) {
    const whole = Math.max(0, span);
    if (whole < 100) return `${Math.round(whole)} s ago`;
    return whole < 6000 ? `${Math.round(whole / 60)} min ago` : `${Math.round(whole / 3600)} h ago`;
  }

  function age(root) {
    const at = now();
    for (const time of root.querySelectorAll("time[data-at]")) {
      const text = ago(at - Number(time.dataset.at));
      if (time.textContent !== text) time.textContent = text;
    }
    for (const time of root.querySelectorAll("time[data-due]")) {
      const left = Math.round(Number(time.dataset.due) - at);
      const text = left > 0 ? `in ${left} s` : "now";
      if (time.textContent !== text) time.textContent = text;
    }
  }

  function say(text) {
    if (live.textContent !== text) live.textContent = text;
  }

  // Changes an element into another one in place, so that focus, selection and what was opened stay.
  function morph(from, to) {
    if (from.nodeType !== to.nodeType || from.nodeName !== to.nodeName || (from.id || "") !== (to.id || "")) {
      from.replaceWith(to);
      return;
    }
    if (from.nodeType !== Node.ELEMENT_NODE) {
      if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
      return;
    }
    for (const { name } of [...from.attributes]) {
      if (!to.hasAttribute(name) && !(name === "open" && from.nodeName === "DETAILS")) from.removeAttribute(name);
    }
    for (const { name, value } of to.attributes) {
      if (from.getAttribute(name) !== value && !(name === "open" && from.nodeName === "DETAILS")) from.setAttribute(name, value);
    }
    if (["INPUT", "TEXTAREA", "SELECT"].includes(from.nodeName)) return;
    const mine = [...from.childNodes];
    const theirs = [...to.childNodes];
    theirs.forEach((node, place) => (place < mine.length ? morph(mine[place], node) : from.append(node)));
    mine.slice(theirs.length).forEach((node) => node.remove());
  }

  function element(html) {
    const made = document.createElement("template");
    made.innerHTML = html;
    return made.content.firstElementChild;
  }

  function change(groups) {
    for (const [name, { order, set }] of Object.entries(groups)) {
      const group = document.querySelector(`[data-group="${CSS.escape(name)}"]`);
      if (!group) continue;
      const known = new Map([...group.children].map((child) => [child.id, child]));
      for (const [id, html] of Object.entries(set)) {
        const fresh = element(html);
        if (!fresh) continue;
        age(fresh);
        if (known.has(id)) morph(known.get(id), fresh);
        else known.set(id, fresh);
        if (!order && !document.getElementById(id)) group.append(fresh);
      }
      if (order) arrange(group, order, known);
    }
  }

  function arrange(group, order, known) {
    const wanted = new Set(order);
    for (const child of [...group.children]) if (!wanted.has(child.id)) child.remove();
    order.forEach((id, place) => {
      const node = known.get(id);
      if (node && group.children[place] !== node) group.insertBefore(node, group.children[place] || null);
    });
  }

  // Loads the page again and changes this one into it: after a restart of the observer nothing else is known to hold.
  async function again() {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (!fresh.getElementById("main")) throw new Error("not a page");
    const charts = document.getElementById("charts");
    const place = fresh.getElementById("charts");
    if (charts && place) place.replaceWith(charts.cloneNode(false));
    for (const group of document.querySelectorAll("[data-group]")) {
      const newer = fresh.querySelector(`[data-group="${CSS.escape(group.dataset.group)}"]`);
      if (newer) {
        const known = new Map([...group.children].map((child) => [child.id, child]));
        const order = [...newer.children].map((child) => child.id);
        for (const child of [...newer.children]) {
          if (known.has(child.id)) morph(known.get(child.id), child);
          else known.set(child.id, child);
        }
        arrange(group, order, known);
      } else {
        document.getElementById("main").replaceWith(fresh.getElementById("main"));
        break;
      }
    }
    tag = fresh.body.dataset.tag;
    moment(Number(fresh.body.dataset.now));
  }

  function moment(wall) {
    told = wall;
    skew = Date.now() / 1000 - wall;
    heard = Date.now();
    if (lost) {
      lost = false;
      body.classList.remove("lost");
      say("the observer answers again");
    }
    age(document);
  }

  function retry(seconds) {
    if (source) source.close();
    source = null;
    clearTimeout(later);
    later = setTimeout(follow, seconds * 1000);
  }

  function follow() {
    if (!tag) return;
    source = new EventSource(`/events?tag=${encodeURIComponent(tag)}`);
    source.addEventListener("change", (event) => {
      const { now: wall, groups } = JSON.parse(event.data);
      tag = event.lastEventId || tag;
      change(groups);
      moment(wall);
    });
    source.addEventListener("again", () => {
      again().then(() => retry(0), () => retry(2));
    });
    source.onerror = () => retry(2);
  }

  function tick() {
    const quiet = (Date.now() - heard) / 1000;
    if (tag && quiet > 12 && !lost) {
      lost = true;
      body.classList.add("lost");
    }
    if (lost) say(`observer not reachable; values are ${Math.round(now() - told)} s old`);
    else if (tag) say(`live, ${source && source.readyState === 1 ? "connected" : "connecting"}`);
    if (!document.hidden) age(document);
  }

  age(document);
  follow();
  setInterval(tick, 1000);
  for (const field of document.querySelectorAll(".filters select, .filters input[type=checkbox]")) {
    field.addEventListener("change", () => field.form.requestSubmit());
  }
  for (const form of document.querySelectorAll(".filters")) {
    // Empty fields stay out of the URL, so that it says only what was chosen.
    form.addEventListener("formdata", (event) => {
      for (const [name, value] of [...event.formData]) if (value === "") event.formData.delete(name);
    });
  }
})();
