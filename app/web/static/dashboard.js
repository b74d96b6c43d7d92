// Live updates: a stream says what changed, and the changing part of the page is fetched anew. All else works without.
"use strict";

const region = document.querySelector("[data-live]");
const pulse = document.getElementById("pulse");
const GATHER_MS = 150;
const AGAIN_MS = 1500;
let stream = null;
let timer = null;
let fetching = false;
let stale = false;

function concerns(changed) {
  const run = region.dataset.run;
  return !run || !changed.runs || changed.runs.includes(run);
}

function say(text) {
  if (pulse.textContent !== text) pulse.textContent = text;
}

function openDetails() {
  return new Map([...region.querySelectorAll("details[id]")].map((one) => [one.id, one.open]));
}

function typedWords() {
  return new Map([...region.querySelectorAll("input[id]")].map((one) => [one.id, one.value]));
}

function keyOf(element) {
  if (!element || !region.contains(element)) return null;
  if (element.id) return { selector: "#" + CSS.escape(element.id), place: 0 };
  const owner = element.closest("[id]");
  const like = owner.querySelectorAll(element.tagName);
  return { selector: "#" + CSS.escape(owner.id) + " " + element.tagName, place: [...like].indexOf(element) };
}

function replace(html) {
  const states = openDetails();
  const typed = typedWords();
  const focused = keyOf(document.activeElement);
  const fresh = document.createElement("template");
  fresh.innerHTML = html;
  for (const one of fresh.content.querySelectorAll("details[id]")) {
    if (states.has(one.id)) one.open = states.get(one.id);
  }
  for (const one of fresh.content.querySelectorAll("input[id]")) {
    if (typed.has(one.id)) one.value = typed.get(one.id);
  }
  region.replaceChildren(fresh.content);
  if (focused) {
    const found = document.querySelectorAll(focused.selector)[focused.place];
    if (found) found.focus({ preventScroll: true });
  }
}

function selecting() {
  const selection = document.getSelection();
  return selection && !selection.isCollapsed && region.contains(selection.anchorNode);
}

async function refresh() {
  timer = null;
  if (fetching || selecting()) {
    stale = true;
    if (!fetching) soon(AGAIN_MS);
    return;
  }
  fetching = true;
  stale = false;
  try {
    const answer = await fetch(location.href, { headers: { "X-Fragment": "1" }, cache: "no-store" });
    if (answer.ok) replace(await answer.text());
    else if (answer.status === 401) location.reload();
  } catch {
    stale = true;
  } finally {
    fetching = false;
    if (stale) soon(AGAIN_MS);
  }
}

function soon(wait) {
  if (timer === null) timer = setTimeout(refresh, wait);
}

function listen() {
  if (stream || document.hidden) return;
  const session = region.dataset.session;
  stream = new EventSource("/live" + (session ? "?session=" + encodeURIComponent(session) : ""));
  stream.onopen = () => { say("live"); soon(GATHER_MS); };
  stream.onerror = () => say(stream && stream.readyState === EventSource.CLOSED ? "not live" : "reconnecting");
  stream.addEventListener("changed", (message) => {
    if (concerns(JSON.parse(message.data))) soon(GATHER_MS);
  });
}

function rest() {
  if (stream) stream.close();
  stream = null;
}

if (region) {
  // A hidden page holds no stream: browsers allow only six connections to one service.
  document.addEventListener("visibilitychange", () => (document.hidden ? rest() : listen()));
  window.addEventListener("pagehide", rest);
  window.addEventListener("pageshow", listen);
  listen();
}
