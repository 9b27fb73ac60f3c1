// Keeps the page up to date. The server renders it; this fetches it again and changes what differs.
// XMLHttpRequest returns a parsed document in which no script runs. So no text becomes markup here,
// and the page's policy can forbid that altogether (trusted-types 'none').

const POLL_MS = 2000;
const TIMEOUT_MS = 15000;
const TYPING_MS = 150;
const LOST_AFTER_S = 10;
const HELD = ":is(.entries, .cards, .who tbody):is(:hover, :focus-within)";

const main = document.getElementById("main");
const form = document.getElementById("choice");
const ageLine = document.getElementById("age");
const lost = document.getElementById("lost");
const shown = { query: null, tag: null };
let measuredAt = performance.now() - 1000 * ageLine.dataset.age;
let heardAt = performance.now();
let request = null;
let timer = 0;

// Changes a node into the wanted one, as little as possible: what is open stays open, and what has
// the focus keeps it. Elements with the same data-k are the same.
function patch(node, wanted) {
  if (node.isEqualNode(wanted)) return;
  if (node.nodeType === Node.TEXT_NODE) {
    node.data = wanted.data;
    return;
  }
  for (const { name, value } of wanted.attributes) {
    if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  }
  for (const { name } of [...node.attributes]) {
    if (!wanted.hasAttribute(name) && name !== "open") node.removeAttribute(name);
  }
  const keyed = new Map([...node.children].map((child) => [child.dataset.k, child]));
  // What is not wanted any more goes first: to move what follows it would take the focus from it.
  const wantedKeys = new Set([...wanted.children].map((child) => child.dataset.k));
  for (const [key, child] of keyed) {
    if (key !== undefined && !wantedKeys.has(key)) child.remove();
  }
  let next = node.firstChild;
  for (const child of inOrder(node, [...wanted.childNodes])) {
    const key = child.dataset?.k;
    const candidate = key === undefined ? next : keyed.get(key);
    if (candidate?.nodeName === child.nodeName && candidate.dataset?.k === key) {
      if (candidate === next) next = next.nextSibling;
      else node.insertBefore(candidate, next);
      patch(candidate, child);
    } else {
      node.insertBefore(child, next);
    }
  }
  while (next) {
    const after = next.nextSibling;
    next.remove();
    next = after;
  }
}

// While the pointer or the focus is in a list, its rows keep their places and new ones come last.
function inOrder(node, children) {
  if (!node.matches(HELD)) return children;
  const places = new Map([...node.children].map((child, place) => [child.dataset.k, place]));
  const place = (child) => places.get(child.dataset?.k) ?? places.size;
  return children.sort((left, right) => place(left) - place(right));
}

function show(page) {
  const focused = document.activeElement;
  document.title = page.title;
  patch(ageLine, page.getElementById("age"));
  patch(main, page.getElementById("main"));
  if (focused !== document.activeElement && focused?.isConnected) {
    focused.focus({ preventScroll: true });
  }
}

// What the script itself shows: the age between two answers, and that answers are missing.
function tick() {
  if (document.hidden) return;
  const silence = (performance.now() - heardAt) / 1000;
  const isLost = silence > LOST_AFTER_S;
  const since = ageLine.querySelector(".since");
  if (isLost) {
    shown.tag = null; // so that the next answer is a whole page
    ageLine.className = "quiet lost";
    ageLine.textContent = `No answer for ${duration(silence)}`;
  } else if (since) {
    since.textContent = duration((performance.now() - measuredAt) / 1000);
  }
  main.classList.toggle("lost", isLost);
  lost.hidden = !isLost;
}

function duration(seconds) {
  const minutes = Math.trunc(seconds / 60);
  if (seconds < 10) return `${seconds.toFixed(1)}\u00a0s`;
  if (seconds < 60) return `${Math.trunc(seconds)}\u00a0s`;
  if (minutes < 60) return `${minutes}\u00a0min`;
  return `${Math.trunc(minutes / 60)}\u00a0h ${minutes % 60}\u00a0min`;
}

function take(answer, query) {
  const page = answer.status === 200 ? answer.response : null;
  if (answer.status !== 304 && !page?.getElementById("main")) return;
  heardAt = performance.now();
  if (page) {
    const { version } = document.documentElement.dataset;
    if (page.documentElement.dataset.version !== version) location.reload(); // it was upgraded
    const age = Number(page.getElementById("age").dataset.age);
    measuredAt = heardAt - 1000 * (age + Number(answer.getResponseHeader("Age")));
    Object.assign(shown, { query, tag: answer.getResponseHeader("ETag") });
    show(page);
  }
  document.documentElement.classList.add("live");
}

function refresh() {
  stop();
  if (document.hidden) return;
  const [mine, query, began] = [new XMLHttpRequest(), location.search, performance.now()];
  request = mine;
  mine.open("GET", location.pathname + query);
  mine.responseType = "document";
  mine.timeout = TIMEOUT_MS;
  if (shown.tag && shown.query === query) mine.setRequestHeader("If-None-Match", shown.tag);
  mine.onloadend = () => {
    if (mine !== request) return;
    take(mine, query);
    tick();
    timer = setTimeout(refresh, Math.max(POLL_MS, 8 * (performance.now() - began)));
  };
  mine.send();
}

function stop() {
  const old = request;
  request = null;
  old?.abort();
  clearTimeout(timer);
}

// Shows another choice and puts it into the address, so that it can be shared.
function choose(query) {
  history.replaceState(null, "", `${location.pathname}${query.size ? `?${query}` : ""}`);
  stop();
  timer = setTimeout(refresh, TYPING_MS);
}

// The choice in the form, with what the address holds besides.
function chosen(hour) {
  const query = new URLSearchParams(new FormData(form));
  if (!query.get("q").trim()) query.delete("q");
  if (!query.get("sort")) query.delete("sort");
  if (new URLSearchParams(location.search).get("all") === "1") query.set("all", "1");
  query.delete("hour");
  if (hour) query.set("hour", hour);
  return query;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (event.submitter?.name === "hour") choose(chosen(event.submitter.value));
});
form.addEventListener("input", () => {
  choose(chosen(new URLSearchParams(location.search).get("hour")));
});
// In a chart, the arrow keys go from minute to minute.
main.addEventListener("keydown", (event) => {
  const step = { ArrowLeft: -1, ArrowRight: 1, Home: -60, End: 60 }[event.key];
  if (!step || !event.target.matches(".at")) return;
  event.preventDefault();
  const minutes = [...event.target.parentElement.children];
  const place = minutes.indexOf(event.target) + step;
  minutes[Math.min(Math.max(place, 0), minutes.length - 1)].focus();
});
main.addEventListener("click", (event) => {
  const link = event.target.closest("a.all");
  if (!link) return;
  event.preventDefault();
  choose(new URL(link.href).searchParams);
});
document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  heardAt = performance.now(); // nothing was requested while it was hidden
  refresh();
});
setInterval(tick, 500);
refresh();
