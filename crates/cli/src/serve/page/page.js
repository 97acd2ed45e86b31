// The page: shows each picture that the server sends, and breaks a lock when told to. All text from the
// store is set as text and never as markup. The token stays in this page's memory, and goes with it.
"use strict";

const $ = (id) => document.getElementById(id);
const TIMELINE_MS = 5 * 60 * 1000;
const LANES_MAX = 14;
const TRACKS_MAX = 4;
const ENDING_MS = 1000;

const page = {
  token: "",
  picture: null,
  seenAt: 0, // by our own clock
  turns: new Map(),
  rows: new Map(),
  open: null,
  holders: [], // of the open lock, as shown
  stream: null,
};

// ---- what people read ----

const pad = (number) => String(number).padStart(2, "0");

// As the program has it: 0.3s, 12s, 3m04s, 2h05m, 1d03h.
function span(ms) {
  ms = Math.max(0, ms);
  const s = Math.floor(ms / 1000);
  if (s < 1) return `0.${Math.floor(ms / 100)}s`;
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m${pad(s % 60)}s`;
  if (s < 86400) return `${Math.floor(s / 3600)}h${pad(Math.floor((s % 3600) / 60))}m`;
  return `${Math.floor(s / 86400)}d${pad(Math.floor((s % 86400) / 3600))}h`;
}

// Characters that end a line, reverse text or can't be seen, as escapes: a name with one is not to look like another.
const HIDDEN = /[\p{Cc}\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff]/gu;
const escaped = (text) => String(text).replace(HIDDEN, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);

function element(name, text, kind) {
  const made = document.createElement(name);
  if (text !== undefined && text !== null) made.textContent = escaped(text);
  if (kind) made.className = kind;
  return made;
}

function set(node, text) {
  text = escaped(text);
  if (node.textContent !== text) node.textContent = text;
}

function label(who, why) {
  const made = element("span", who || "nobody knows");
  if (why) made.append(" ", element("span", `(${why})`, "why"));
  return made;
}

// ---- asking ----

function headers(more) {
  return page.token ? { Authorization: `Bearer ${page.token}`, ...more } : { ...more };
}

async function ask(path, options = {}) {
  const answer = await fetch(path, { ...options, headers: headers(options.headers), cache: "no-store" });
  const body = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(body.error), { status: answer.status });
  return body;
}

// Reads server-sent events by fetch, which can send the token along; EventSource can't.
async function listen() {
  page.stream?.abort();
  const stream = (page.stream = new AbortController());
  const query = new URLSearchParams({ filter: $("filter").value, sort: $("sort").value });
  page.turns.clear();
  try {
    const answer = await fetch(`/api/events?${query}`, { headers: headers(), signal: stream.signal, cache: "no-store" });
    if (answer.status === 401) return enter((await answer.json()).error);
    if (!answer.ok) throw new Error((await answer.json()).error);
    $("enter").hidden = true;
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      text += value;
      const events = text.split("\n\n");
      text = events.pop();
      for (const event of events) {
        const data = event.split("\n").filter((line) => line.startsWith("data:"));
        if (data.length) show(JSON.parse(data.map((line) => line.slice(5)).join("\n")));
      }
    }
    throw new Error("the server has ended");
  } catch (error) {
    if (stream.signal.aborted) return;
    live(`no connection: ${error.message}`, true);
    setTimeout(() => page.stream === stream && listen(), 1000);
  }
}

function enter(why) {
  $("enter").hidden = false;
  set($("enter-trouble"), page.token ? why : "");
  live("token needed", true);
  $("enter-token").focus();
}

function live(text, down) {
  set($("live"), text);
  $("live").classList.toggle("down", down);
}

// ---- the picture ----

function show(picture) {
  page.picture = picture;
  page.seenAt = performance.now();
  set($("store"), picture.store);
  document.title = `${picture.totals.waiting ? `(${picture.totals.waiting}) ` : ""}taketurns`;
  if (picture.up) live("live", false);
  else live(picture.error ? `store: ${picture.error}` : "connecting…", true);
  for (const node of document.querySelectorAll("[data-total]")) {
    const value = picture.totals[node.dataset.total];
    set(node, node.dataset.total.endsWith("_ms") ? span(value) : String(value));
  }
  $("quarantined").hidden = !picture.totals.quarantined;
  set($("pace"), `looks every ${picture.every_ms / 1000} s, ${picture.took_ms} ms each · taketurns ${picture.version}`);
  for (const turn of picture.turns) page.turns.set(turn.id, turn);
  for (const [id, turn] of page.turns) {
    if (turn.to_ms !== null && turn.to_ms < picture.now_ms - TIMELINE_MS) page.turns.delete(id);
  }
  table(picture);
  waits(picture.waits);
  draw();
  if (page.open) look();
}

function table(picture) {
  const wanted = new Set();
  let before = null;
  for (const lock of picture.locks) {
    wanted.add(lock.name);
    let row = page.rows.get(lock.name);
    if (!row) {
      row = newRow(lock.name);
      page.rows.set(lock.name, row);
    }
    fill(row, lock);
    const place = before ? before.nextSibling : $("locks").firstChild;
    if (place !== row) $("locks").insertBefore(row, place);
    before = row;
  }
  for (const [name, row] of page.rows) {
    if (!wanted.has(name)) {
      row.remove();
      page.rows.delete(name);
    }
  }
  const { matching } = picture;
  const some = picture.locks.length < matching ? `${picture.locks.length} of ${matching}` : `${matching}`;
  set($("shown"), `${some} shown`);
  $("empty").hidden = matching > 0;
  set($("empty"), $("filter").value ? "No lock matches." : "No lock was used in the last hour.");
}

function newRow(name) {
  const row = element("tr");
  row.dataset.lock = name;
  row.tabIndex = 0;
  for (const kind of ["", "kind", "", "num", "num", "num token", "num"]) row.append(element("td", "", kind));
  row.addEventListener("click", () => openLock(name));
  row.addEventListener("keydown", (event) => event.key === "Enter" && openLock(name));
  return row;
}

function fill(row, lock) {
  const [name, kind, holder, held, left, token, waiting] = row.children;
  const first = lock.holders[0];
  set(name, lock.name);
  set(kind, lock.kind === "semaphore" ? `semaphore of ${lock.permits}` : lock.kind || "");
  const broken = lock.holders.some((one) => one.broken);
  const done = first ? null : lock.work?.done;
  const failed = lock.work && !lock.work.done ? lock.work.failed : 0;
  const who = JSON.stringify([first?.who, first?.why, first?.token, first?.resting, lock.holders.length, broken, lock.quarantine_ms !== null, done?.token, failed]);
  if (row.dataset.who !== who) {
    // It stands out for a moment, but not when the page has just begun.
    if (row.dataset.who) flash(row);
    row.dataset.who = who;
    holder.replaceChildren(first ? label(first.who, first.why) : element("span", done ? "done by " : "nobody", "nobody"));
    if (done) holder.append(label(done.who, done.why));
    if (lock.holders.length > 1) holder.append(` and ${lock.holders.length - 1} more`);
    if (broken) holder.append(element("span", "broken", "tag bad"));
    if (first?.resting) holder.append(element("span", "ended", "tag"));
    if (failed) holder.append(element("span", `${failed} failed`, "tag warn"));
    if (lock.quarantine_ms !== null) holder.append(element("span", "quarantine", "tag warn"));
  }
  const least = Math.min(...lock.holders.map((one) => one.left_ms));
  set(held, first ? span(Math.max(...lock.holders.map((one) => one.held_ms))) : "");
  set(left, first ? span(least) : "");
  left.classList.toggle("soon", least < ENDING_MS);
  set(token, first?.token ? String(first.token) : "");
  set(waiting, String(lock.waiting));
  waiting.classList.toggle("many", lock.waiting > 0);
}

function flash(row) {
  row.classList.add("fresh");
  setTimeout(() => row.classList.remove("fresh"), 50);
}

function waits({ bounds_ms, counts }) {
  const total = counts.reduce((sum, count) => sum + count, 0);
  const most = Math.max(1, ...counts);
  set($("waits-total"), total === 1 ? "1 grant" : `${total} grants`);
  const box = $("waits");
  counts.forEach((count, place) => {
    const row = box.children[place] || box.appendChild(newWait(bounds_ms, place));
    row.children[1].max = most;
    row.children[1].value = count;
    set(row.children[2], String(count));
  });
}

function newWait(bounds_ms, place) {
  const row = element("div", "", "wait");
  const last = place === bounds_ms.length;
  const bound = bounds_ms[last ? place - 1 : place];
  const text = bound < 60000 ? `${bound / 1000} s` : `${bound / 60000} min`;
  row.append(element("span", `${last ? "longer" : `up to ${text}`}`), element("progress"), element("span"));
  return row;
}

// ---- who held what ----

const lanes = { bars: [] };
const HINT = "Point at a bar to see whose turn it was.";

function hue(text) {
  let sum = 0;
  for (const c of text) sum = (sum * 31 + c.codePointAt(0)) >>> 0;
  return (sum * 137) % 360;
}

function draw() {
  const canvas = $("timeline");
  const { picture } = page;
  if (!picture) return;
  const style = getComputedStyle(document.documentElement);
  const probe = getComputedStyle($("turn"));
  const text = getComputedStyle(document.body).color;
  const dim = probe.color;
  const line = getComputedStyle($("timeline").closest(".card")).borderTopColor;
  const bad = getComputedStyle($("break")).color;
  const dark = getComputedStyle(document.body).backgroundColor.match(/\d+/g).slice(0, 3).every((part) => part < 90);
  const names = picture.locks.slice(0, LANES_MAX).map((lock) => lock.name);
  const height = 22;
  const width = canvas.clientWidth;
  const ratio = window.devicePixelRatio || 1;
  const tall = Math.max(1, names.length) * height + 22;
  canvas.width = width * ratio;
  canvas.height = tall * ratio;
  canvas.style.height = `${tall}px`;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.font = `12px ${style.fontFamily}`;
  const names_wide = Math.min(170, width / 3);
  const now = picture.now_ms + (performance.now() - page.seenAt);
  const x = (ms) => names_wide + (width - names_wide) * Math.max(0, Math.min(1, 1 - (now - ms) / TIMELINE_MS));
  lanes.bars = [];
  pen.textBaseline = "middle";
  pen.fillStyle = dim;
  for (let minute = 0; minute <= 5; minute++) {
    const at = x(now - minute * 60000);
    pen.fillStyle = line;
    pen.fillRect(Math.min(at, width - 1), 0, 1, tall - 20);
    pen.fillStyle = dim;
    pen.textAlign = minute === 0 ? "right" : minute === 5 ? "left" : "center";
    pen.fillText(minute === 0 ? "now" : `${minute} min`, at, tall - 9);
  }
  pen.textAlign = "left";
  names.forEach((name, lane) => {
    pen.fillStyle = text;
    pen.fillText(cut(pen, escaped(name), names_wide - 12), 0, lane * height + height / 2);
  });
  names.forEach((name, lane) => {
    const { turns, rows } = tracks(name, now);
    const tall = (height - 6) / rows;
    for (const { turn, row } of turns) {
      const from = x(turn.from_ms);
      const to = Math.max(from + 2, x(turn.to_ms ?? now));
      const bar = { turn, from, to, y: lane * height + 3 + row * tall, height: tall - (rows > 1 ? 0.7 : 0) };
      pen.fillStyle = `hsl(${hue(turn.who + turn.why)} 45% ${dark ? 55 : 48}%)`;
      pen.globalAlpha = turn.to_ms === null ? 1 : 0.7;
      pen.fillRect(from, bar.y, to - from - 0.5, bar.height);
      pen.globalAlpha = 1;
      if (turn.broken) {
        pen.strokeStyle = bad;
        pen.lineWidth = 2;
        pen.strokeRect(from, bar.y, to - from - 0.5, bar.height);
      }
      lanes.bars.push(bar);
    }
  });
}

// The turns of a lock, those that overlap one above the other.
function tracks(name, now) {
  const turns = [...page.turns.values()].filter((turn) => turn.lock === name).sort((a, b) => a.from_ms - b.from_ms);
  const ends = [];
  const placed = turns.map((turn) => {
    const free = ends.findIndex((end) => end <= turn.from_ms);
    const row = free >= 0 ? free : ends.length < TRACKS_MAX ? ends.length : TRACKS_MAX - 1;
    ends[row] = turn.to_ms ?? now;
    return { turn, row };
  });
  return { turns: placed, rows: Math.max(1, ends.length) };
}

function cut(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let short = text;
  while (short && pen.measureText(`${short}…`).width > width) short = short.slice(0, -1);
  return `${short}…`;
}

$("timeline").addEventListener("mousemove", (event) => {
  const { offsetX: x, offsetY: y } = event;
  const found = lanes.bars.find((bar) => x >= bar.from && x <= bar.to && y >= bar.y && y <= bar.y + bar.height);
  if (!found) return set($("turn"), HINT);
  const { lock, who, why, token, from_ms, to_ms, broken } = found.turn;
  const since = new Date(from_ms).toLocaleTimeString();
  const lasted = span((to_ms ?? page.picture.now_ms) - from_ms);
  const end = to_ms === null ? `for ${lasted} so far` : `for ${lasted}`;
  set($("turn"), `${lock}: ${who}${why ? ` (${why})` : ""}, since ${since}, ${end}${token ? `, token ${token}` : ""}${broken ? ", broken" : ""}`);
});

// ---- one lock ----

function openLock(name) {
  page.open = name;
  set($("lock-name"), name);
  for (const id of ["holders", "queue"]) $(id).replaceChildren();
  for (const id of ["lock-state", "members", "outcome", "queue-title"]) set($(id), "");
  $("lock-quarantine").hidden = $("lock-work").hidden = true;
  leave();
  // Until it is known who would lose it.
  page.holders = [];
  $("break").hidden = true;
  $("lock").showModal();
  look();
}

async function look() {
  const name = page.open;
  let lock;
  try {
    lock = await ask(`/api/lock?${new URLSearchParams({ name })}`);
  } catch (error) {
    page.failed = true;
    return outcome(error.message, "bad");
  }
  if (page.open !== name) return;
  if (page.failed) outcome("", "");
  page.failed = false;
  set($("lock-state"), lock.kind ? `${lock.kind}, ${lock.state}` : lock.state);
  $("lock-quarantine").hidden = lock.quarantine_ms === null;
  if (lock.quarantine_ms !== null) {
    set($("lock-quarantine"), `In quarantine for ${span(lock.quarantine_ms)}: its store was restarted or failed over, and nothing is granted until then.`);
  }
  $("lock-work").hidden = !lock.work;
  if (lock.work) set($("lock-work"), workText(lock.work));
  $("holders").replaceChildren(...(lock.holders.length ? lock.holders.map(holderRow) : [one("nobody")]));
  set($("queue-title"), lock.waiting ? `Queue: ${lock.waiting}` : "Queue: nobody waits");
  const more = lock.waiting - lock.waiters.length;
  $("queue").replaceChildren(...lock.waiters.map(waiterRow), ...(more > 0 ? [one(`and ${more} more`)] : []));
  const free = lock.members.filter((member) => !member.held).map((member) => member.name);
  set($("members"), lock.kind === "pool" ? `free: ${free.join(", ") || "none"}` : "");
  $("break").hidden = lock.holders.length === 0 || !$("breaking").hidden;
  // Who stands there is who it is taken from, also if another has it by then.
  if ($("breaking").hidden) page.holders = lock.holders;
  set($("break-who"), `${page.holders.map((holder) => holder.who + (holder.why ? ` (${holder.why})` : "")).join(", ") || "Nobody"} will be told that the lock is lost.`);
}

function one(text) {
  const row = element("tr");
  row.append(element("td", text, "nobody"));
  return row;
}

function holderRow(holder) {
  const row = element("tr");
  const who = element("td");
  who.append(label(holder.who, holder.why));
  if (holder.broken) who.append(element("span", "broken", "tag bad"));
  if (holder.resting) who.append(element("span", `ended, not free for ${span(holder.at_least_ms)}`, "tag"));
  const has = holder.member || (holder.permits ? `${holder.permits} permits` : holder.mode);
  row.append(who, element("td", has, "kind"), element("td", holder.token ? `token ${holder.token}` : "no token", "num token"),
    element("td", `held ${span(holder.held_ms)}`, "num"), element("td", `${span(holder.left_ms)} left`, "num"));
  return row;
}

function waiterRow(waiter) {
  const row = element("tr");
  const who = element("td");
  who.append(label(waiter.who, waiter.why));
  const wants = waiter.member || (waiter.permits ? `${waiter.permits} permits` : waiter.mode);
  row.append(element("td", String(waiter.place), "kind"), who, element("td", wants, "kind"), element("td", `waits ${span(waiter.waited_ms)}`, "num"));
  return row;
}

// As the program has it. The store's clock says how long ago: until it forgets, less what is left of that.
function workText({ failed, retry_ms, forgotten_ms, done }) {
  const attempts = `${failed} ${failed === 1 ? "attempt" : "attempts"}`;
  const next = retry_ms === null ? `forgotten in ${span(forgotten_ms)}` : `the next one can begin in ${span(retry_ms)}`;
  if (!done) return `${attempts} failed; ${next}`;
  const by = done.who + (done.why ? ` (${done.why})` : "");
  const ago = span(done.until_ms - done.at_ms - forgotten_ms);
  const result = done.result ? `, with the result “${done.result}”` : "";
  return `Done by ${by}, ${ago} ago${result}${failed ? `, after ${attempts} that failed` : ""}; ${next}`;
}

function outcome(text, kind) {
  set($("outcome"), text);
  $("outcome").className = kind;
}

function leave() {
  $("breaking").hidden = true;
  $("break").hidden = false;
}

$("break").addEventListener("click", () => {
  outcome("", "");
  if (!page.picture?.can_break) {
    return outcome("This server was started without a token, so it can't break locks. Start it with --token-file, or use `taketurns break`.", "bad");
  }
  $("breaking").hidden = false;
  $("break").hidden = true;
  $("token").value = page.token;
  $("why").focus();
});
$("cancel").addEventListener("click", leave);
$("breaking").addEventListener("submit", async (event) => {
  event.preventDefault();
  const name = page.open;
  const at_once = $("at-once").checked;
  page.token = $("token").value;
  try {
    // Each holder by its token, so that no later holder loses the lock. A foreign protocol without tokens names none.
    const tokens = page.holders.every((holder) => holder.token) ? page.holders.map((holder) => holder.token) : [null];
    let broken = 0;
    for (const token of tokens) {
      const body = JSON.stringify({ name, why: $("why").value, at_once, token });
      broken += (await ask("/api/break", { method: "POST", body, headers: { "Content-Type": "application/json" } })).broken;
    }
    leave();
    if (!broken) outcome("Nothing to break: the holder has released the lock.", "good");
    else if (at_once) outcome("Broken. The next waiter has the lock.", "good");
    else outcome("Broken. The lock passes on when the holder stops, at the latest when its lease ends.", "good");
    look();
  } catch (error) {
    if (error.status === 401) page.token = "";
    outcome(`Not broken: ${error.message}`, "bad");
  }
});
$("close").addEventListener("click", () => $("lock").close());
$("lock").addEventListener("close", () => (page.open = null));

// ---- the rest ----

$("enter").addEventListener("submit", (event) => {
  event.preventDefault();
  page.token = $("enter-token").value;
  listen();
});

let typing;
$("filter").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(listen, 200);
});
$("sort").addEventListener("change", listen);

const THEMES = ["auto", "light", "dark"];
function theme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  set($("theme"), `theme: ${name}`);
  localStorage.setItem("theme", name);
  draw();
}
$("theme").addEventListener("click", () => {
  const now = document.documentElement.dataset.theme || "auto";
  theme(THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]);
});

theme(THEMES.includes(localStorage.getItem("theme")) ? localStorage.getItem("theme") : "auto");
addEventListener("resize", draw);
// A browser has few connections for one server: a page that nobody sees needs none.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) page.stream?.abort();
  else listen();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
listen();
