// Keeps the page up to date from the JSON documents. It makes the same elements as the Python in
// exporter/web/page/, function by function; tests hold the two together. Text becomes an element's
// text or attribute and nothing else: there is no innerHTML here, and the page's policy forbids it.

const NBSP = "\u00a0";
const POLL_MS = 2000;
const HISTORY_MS = 15000;
const PATIENCE_S = 10;

// html.py

const SVG = new Set(["svg", "rect", "path", "title"]);

const UNSEEN =
  /[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\p{Surrogate}]/gu;
const seen = (text) => (typeof text === "string" ? text.replace(UNSEEN, "\ufffd") : text);

function h(name, attributes, ...children) {
  const made = SVG.has(name)
    ? document.createElementNS("http://www.w3.org/2000/svg", name)
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value !== null && value !== undefined && value !== false) {
      made.setAttribute(key, value === true ? "" : seen(value));
    }
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined) made.append(seen(child));
  }
  made.normalize();
  return made;
}

// words.py

const fixed = (number, digits) => number.toFixed(digits);

function percent(ratio) {
  if (ratio === undefined) return "?";
  const value = ratio * 100;
  if (value > 0 && value < 0.05) return `<0.1${NBSP}%`;
  return `${fixed(value, value >= 9.95 || value === 0 ? 0 : 1)}${NBSP}%`;
}

function gibibytes(count) {
  if (count === undefined) return "?";
  if (Math.abs(count) >= 2 ** 30) return `${fixed(count / 2 ** 30, 1)}${NBSP}GiB`;
  return count ? `${fixed(count / 2 ** 20, 0)}${NBSP}MiB` : "0";
}

function heldOf(used, limit) {
  if (limit === undefined || used === undefined) return gibibytes(used);
  let figure = gibibytes(used);
  const of = gibibytes(limit);
  if (figure.endsWith("GiB") && of.endsWith("GiB")) figure = figure.slice(0, -4);
  return `${figure} of${NBSP}${of}`;
}

function seconds(count) {
  const whole = Math.trunc(count);
  for (const [unit, size, below, smaller] of [["d", 86400, "h", 3600], ["h", 3600, "min", 60]]) {
    if (whole >= size) {
      const rest = Math.trunc((whole % size) / smaller);
      return `${Math.trunc(whole / size)}${NBSP}${unit}` + (rest ? ` ${rest}${NBSP}${below}` : "");
    }
  }
  return whole >= 60 ? `${Math.trunc(whole / 60)}${NBSP}min` : `${whole}${NBSP}s`;
}

const age = (count) => (count < 10 ? `${fixed(count, 1)}${NBSP}s` : seconds(count));
const many = (count, one, more) => `${count}${NBSP}${count === 1 ? one : more ?? `${one}s`}`;

// entries.py

const COLOURS = 8;
const LONG_ID = /[0-9a-f]{64}/g;
const RANKS = { pod: 0, group: 1, nobody: 2 };
const SORTED_BY = {
  core: "core_usage_gpus",
  memory: "memory_used_bytes",
  limit: "core_limit_utilization_ratio",
};

const keyOf = (...names) =>
  names.map((name) => name.replaceAll("~", "~0").replaceAll("/", "~1")).join("/");
const shortened = (name) => name.replace(LONG_ID, (id) => id.slice(0, 12));
const processesOf = (part) => part.figures.process_list ?? [];
const labelsOf = (name, device) =>
  JSON.stringify([...name, String(device.index ?? ""), device.uuid ?? ""]);

function entriesOf(doc) {
  return [
    ...doc.pods.filter((pod) => !pod.ended).map(podEntry),
    ...doc.groups.filter((group) => !group.devices.every((d) => d.ended)).map(groupEntry),
    ...nobodyEntries(doc),
  ];
}

function podEntry(pod) {
  const { namespace: space, pod: name, info = {} } = pod;
  const parts = pod.containers.flatMap((container) =>
    container.devices
      .filter((device) => !device.ended)
      .map((device) => ({
        name: container.container,
        device: device.index,
        uuid: device.uuid ?? "",
        figures: device,
        labels: labelsOf([space, name, container.container], device),
      })),
  );
  const note = [info.owner_kind, info.owner_name].filter(Boolean).join("/");
  return { key: keyOf("pod", space, name), kind: "pod", space, name, note, figures: pod, parts };
}

function groupEntry({ kind, group: name, info = {}, devices }) {
  const here = devices.filter((device) => !device.ended);
  const parts = here.map((device) => ({
    name: kind,
    device: device.index,
    uuid: device.uuid,
    figures: device,
    labels: labelsOf([kind, name], device),
  }));
  const called = !info.name || info.name === shortened(name) ? name : info.name;
  const told = [...new Set([name, info.user, info.account])];
  const outside =
    told.filter((text) => text && text !== called).join(", ") || "outside Kubernetes";
  const note = kind === "pod" ? "pod whose name is not known" : outside;
  const key = keyOf("group", kind, name);
  return { key, kind: "group", space: kind, name: called, note, figures: summed(here), parts };
}

function nobodyEntries(doc) {
  const parts = new Map();
  for (const device of doc.devices) {
    for (const own of device.unattributed) {
      if (!parts.has(own.reason)) parts.set(own.reason, []);
      parts.get(own.reason).push({
        name: own.reason, device: device.index, uuid: device.uuid, figures: own, labels: "",
      });
    }
  }
  return [...parts].map(([reason, listed]) => ({
    key: keyOf("nobody", reason),
    kind: "nobody",
    space: "",
    name: reason,
    note: doc.words.unattributed[reason] ?? "",
    figures: summed(listed.map((part) => part.figures)),
    parts: listed,
  }));
}

function summed(parts) {
  const made = {};
  for (const [name, of] of [
    ["core_usage_gpus", "core_utilization_ratio"],
    ["memory_used_bytes", "memory_used_bytes"],
  ]) {
    if (parts.length && parts.every((part) => of in part)) {
      made[name] = parts.reduce((sum, part) => sum + part[of], 0);
    }
  }
  return made;
}

function unmeasured(entry, quantity) {
  return [...new Set(entry.parts.flatMap((part) => why(part.figures, quantity)))];
}

function found(entry, words) {
  if (!words.length) return true;
  const texts = [entry.space, entry.name, entry.note];
  for (const part of entry.parts) {
    texts.push(part.name, part.uuid, part.device === undefined ? "" : `gpu${part.device}`);
    for (const process of processesOf(part)) texts.push(process.name ?? "", String(process.pid));
  }
  const text = texts.join("\n").toLowerCase();
  return words.every((word) => text.includes(word));
}

function compare(left, right) {
  for (let at = 0; at < left.length; at += 1) {
    if (left[at] < right[at]) return -1;
    if (left[at] > right[at]) return 1;
  }
  return 0;
}

function sortedBy(list, place) {
  return list
    .map((each) => [place(each), each])
    .sort(([left], [right]) => compare(left, right))
    .map(([, each]) => each);
}

function inOrder(listed, choice) {
  const name = SORTED_BY[choice.sort];
  const number = (entry) => (name === undefined ? -1 : entry.figures[name] ?? -1);
  return sortedBy(
    listed.filter((entry) => found(entry, choice.words)),
    (entry) => [-number(entry), RANKS[entry.kind], entry.space, entry.name],
  );
}

const lookKey = (key, name, uuid) => JSON.stringify([key, name, uuid]);

function coloursOf(listed) {
  const on = new Map();
  for (const entry of listed) {
    for (const part of entry.parts) {
      if (entry.kind !== "nobody" && part.uuid) {
        if (!on.has(part.uuid)) on.set(part.uuid, []);
        on.get(part.uuid).push([entry.key, part.name]);
      }
    }
  }
  const made = new Map();
  for (const [uuid, owners] of on) {
    const taken = new Set();
    for (const [key, name] of sortedBy(owners, (owner) => [keyOf(...owner)])) {
      let colour = hashed(keyOf(key, name)) % COLOURS;
      while (taken.has(colour) && taken.size < COLOURS) colour = (colour + 1) % COLOURS;
      taken.add(colour);
      made.set(lookKey(key, name, uuid), colour);
    }
  }
  return made;
}

function hashed(text) {
  let number = 2166136261;
  for (let at = 0; at < text.length; at += 1) {
    number = Math.imul(number ^ text.charCodeAt(at), 16777619) >>> 0;
  }
  return number;
}

// figures.py

const POINTS = 120;
const HEIGHT = 24;
const HATCH = "url(#hatch)";
const share = (part) => `${fixed(part * 100, 2)}%`;

function bar(about, segments, allotted) {
  return h(
    "svg",
    { class: "bar", role: "img", "aria-label": about, width: "100%", height: "22" },
    h("rect", { class: "track", width: "100%", height: "15", rx: "3" }),
    laid(segments, "0", "15"),
    laid(allotted, "18", "4"),
  );
}

function laid(segments, y, height) {
  const made = [];
  let at = 0;
  for (const { size, look, words } of segments) {
    const shown = Math.min(size, 1 - at);
    if (shown > 0.0005) {
      const fill = look === "nobody" ? HATCH : null;
      const place = { x: share(at), y, width: share(shown), height };
      made.push(h("rect", { class: look, ...place, fill }, h("title", null, words)));
      at += shown;
    }
  }
  return made;
}

function meter(about, filled, limited) {
  if (filled === undefined) return null;
  const look = !limited ? "free" : filled > 1.005 ? "over" : "fill";
  const size = { height: "6", rx: "2" };
  return h(
    "svg",
    { class: "meter", role: "img", "aria-label": about, width: "100%", height: "6" },
    h("rect", { class: "track", width: "100%", ...size }),
    filled ? h("rect", { class: look, width: share(Math.min(filled, 1)), ...size }) : null,
  );
}

function spark(about, values, top) {
  const [line, area] = paths(values, top || 1);
  return h(
    "svg",
    {
      class: "spark",
      role: "img",
      "aria-label": about,
      viewBox: `0 0 ${POINTS} ${HEIGHT}`,
      preserveAspectRatio: "none",
    },
    area ? h("path", { class: "area", d: area }) : null,
    line ? h("path", { class: "line", d: line }) : null,
  );
}

function paths(values, top) {
  let [line, area, run] = ["", "", []];
  const start = POINTS - values.length;
  [...values, null].forEach((value, number) => {
    if (value !== null) {
      const height = HEIGHT - 1 - Math.min(Math.max(value / top, 0), 1) * (HEIGHT - 2);
      run.push(`${start + number} ${fixed(height, 1)}`);
    } else if (run.length) {
      const [first, last] = [run[0].split(" ")[0], run.at(-1).split(" ")[0]];
      line += `M${run.join("L")}${run.length === 1 ? "h.5" : ""}`;
      area += `M${first} ${HEIGHT}L${run.join("L")}L${last} ${HEIGHT}Z`;
      run = [];
    }
  });
  return [line, area];
}

function added(series) {
  const made = [];
  for (let back = Math.max(0, ...series.map((one) => one.length)); back > 0; back -= 1) {
    const here = series.filter((one) => one.length >= back).map((one) => one.at(-back));
    made.push(here.includes(null) ? null : here.reduce((sum, value) => sum + value, 0));
  }
  return made;
}

// cells.py

const OVER = 1.005;

function unknown(reasons, words) {
  const told = reasons.map((reason) => words.unmeasured[reason] ?? reason).join(" ");
  const text = reasons.length ? `unknown: ${reasons.join(", ")}` : "unknown";
  return h("span", { class: "unknown", title: told || null }, text);
}

function why(figures, quantity) {
  return (figures.unmeasured ?? [])
    .filter((each) => each.quantity === quantity || each.quantity === "device")
    .map((each) => each.reason);
}

function swatch(colour) {
  const look = colour === null ? { fill: HATCH } : { class: `c${colour}` };
  return h(
    "svg",
    { class: "swatch", width: "10", height: "10", "aria-hidden": "true" },
    h("rect", { ...look, width: "10", height: "10", rx: "2" }),
  );
}

function mismatch(figures) {
  if (!figures.placement_mismatch) return null;
  const told = "It runs on a device that its allotment does not name.";
  return h("span", { class: "mark", title: told }, "not allotted here");
}

function coreOf(figures, words) {
  const { core_utilization_ratio: used, core_limit_ratio: limit } = figures;
  return against(
    used === undefined ? unknown(why(figures, "core"), words) : percent(used),
    limit === undefined ? null : percent(limit),
    (figures.core_limit_utilization_ratio ?? 0) > OVER,
  );
}

function memoryOf(figures, words) {
  const { memory_used_bytes: used, memory_limit_bytes: limit } = figures;
  const over = (figures.memory_limit_utilization_ratio ?? 0) > OVER;
  return heldAgainst(used, limit, unknown(why(figures, "memory"), words), over);
}

function heldAgainst(used, limit, otherwise, over) {
  if (used === undefined) {
    return against(otherwise, limit === undefined ? null : gibibytes(limit), over);
  }
  const [figure, of] = heldOf(used, limit).split(" ");
  return h("span", { class: over ? "over" : null }, figure, quietly(of));
}

function against(figure, limit, over) {
  return h("span", { class: over ? "over" : null }, figure, quietly(limit && `of${NBSP}${limit}`));
}

const quietly = (of) => (of ? h("span", { class: "of" }, ` ${of}`) : null);

// tenants.py, gauges.py, gpus.py

const WHO_SHOWN = 5;

function tenantsOf(device, listed, looks) {
  const here = listed.flatMap((entry) =>
    entry.parts
      .filter((part) => part.uuid === device.uuid && entry.kind !== "nobody")
      .map((part) => ({
        entry,
        part,
        colour: looks.get(lookKey(entry.key, part.name, part.uuid)),
        name: `${entry.space}/${entry.name}`,
      })),
  );
  return sortedBy(here, ({ entry, part }) => [
    -(part.figures.core_utilization_ratio ?? 0),
    -(part.figures.memory_used_bytes ?? 0),
    entry.key,
  ]);
}

function segmentsOf(tenants, figure, whole, told, lead = "") {
  return tenants
    .filter(({ part }) => part.figures[figure] !== undefined)
    .map(({ part, name, colour }) => {
      const value = part.figures[figure];
      const words = `${name} ${part.name}: ${lead} ${told(value)}`.replaceAll("  ", " ");
      return { size: value / whole, look: `c${colour}`, words };
    });
}

function listing(segments) {
  const told = segments.filter((segment) => segment.size > 0).slice(0, WHO_SHOWN);
  return told.map((segment) => `; ${segment.words}`).join("");
}

const pastOf = (device, series, name) =>
  series.get(JSON.stringify([String(device.index), device.uuid]))?.[name] ?? [];

function coreGauge(device, tenants, series, words) {
  const { utilization_ratio: used, allocated_core_ratio: allotted } = device;
  const segments = segmentsOf(tenants, "core_utilization_ratio", 1, percent);
  for (const { reason, core_utilization_ratio: core = 0 } of device.unattributed) {
    const told = `unattributed, ${reason}: ${percent(core)}`;
    segments.push({ size: core, look: "nobody", words: told });
  }
  const scale = Math.max(allotted ?? 0, 1);
  return gauge(
    "Core",
    bar(
      `Core in use ${percent(used)}${listing(segments)}`,
      segments,
      segmentsOf(tenants, "core_limit_ratio", scale, percent, "allotted"),
    ),
    used === undefined ? unknown(why(device, "core"), words) : percent(used),
    allottedNote(allotted === undefined ? null : percent(allotted), (allotted ?? 0) > OVER),
    spark("Core, the last ten minutes", pastOf(device, series, "core_utilization_ratio"), 1),
  );
}

function memoryGauge(device, tenants, series, words) {
  const { memory_used_bytes: used, memory_total_bytes: total } = device;
  const allotted = device.allocated_memory_bytes;
  const whole = total || 1;
  const segments = segmentsOf(tenants, "memory_used_bytes", whole, gibibytes);
  for (const { reason, memory_used_bytes: held = 0 } of device.unattributed) {
    const told = `unattributed, ${reason}: ${gibibytes(held)}`;
    segments.push({ size: Math.max(held, 0) / whole, look: "nobody", words: told });
  }
  const reserved = device.memory_reserved_bytes;
  if (reserved) {
    const told = `reserved by the driver: ${gibibytes(reserved)}`;
    segments.push({ size: reserved / whole, look: "reserved", words: told });
  }
  const scale = Math.max(allotted ?? 0, whole);
  return gauge(
    "Memory",
    bar(
      `Memory in use ${gibibytes(used)} of ${gibibytes(total)}${listing(segments)}`,
      segments,
      segmentsOf(tenants, "memory_limit_bytes", scale, gibibytes, "allotted"),
    ),
    used === undefined ? unknown(why(device, "memory"), words) : heldOf(used, total),
    allottedNote(allotted === undefined ? null : gibibytes(allotted), (allotted ?? 0) > whole),
    spark("Memory, the last ten minutes", pastOf(device, series, "memory_used_bytes"), whole),
  );
}

function gauge(name, drawn, figure, allotted, past) {
  return h(
    "div",
    { class: "gauge" },
    h("span", { class: "label" }, name),
    h("span", { class: "figure" }, figure),
    drawn,
    past,
    allotted,
  );
}

function allottedNote(figure, over) {
  const text = figure === null ? "nothing known to be allotted" : `allotted ${figure}`;
  return h("span", { class: over ? "allotted over" : "allotted" }, text);
}

function card(device, tenants, series, words) {
  const { up = false, uuid, info = {} } = device;
  const name = `gpu-${uuid}`;
  const model = [info.model, info.profile].filter(Boolean).join(" ");
  return h(
    "article",
    { class: up ? "gpu" : "gpu down", "data-k": name, "aria-labelledby": name },
    h(
      "header",
      null,
      h("h3", { id: name }, `GPU${NBSP}${numberOf(device)}`),
      h("span", { class: "model" }, h("bdi", null, model)),
      h("ul", { class: "facts" }, facts(device).map((fact) => h("li", null, fact))),
    ),
    up ? null : problem(device, words),
    up ? coreGauge(device, tenants, series, words) : null,
    up ? memoryGauge(device, tenants, series, words) : null,
    who(device, tenants, words),
    more(device),
  );
}

function numberOf({ index, uuid, info }) {
  const parent = info?.parent_uuid;
  return parent && uuid.startsWith(parent) ? `${index}${uuid.slice(parent.length)}` : `${index}`;
}

function facts(device) {
  const made = [];
  const sensor = (name) => device.temperature_celsius?.find((each) => each.sensor === name);
  const heat = sensor("gpu") ?? sensor("hotspot");
  if (heat) made.push(`${fixed(heat.value, 0)}${NBSP}°C`);
  if (device.power_watts !== undefined) {
    const limit = device.power_limit_watts;
    const of = limit ? `${NBSP}/${NBSP}${fixed(limit, 0)}` : "";
    made.push(`${fixed(device.power_watts, 0)}${of}${NBSP}W`);
  }
  const clocked = (name) => device.clock_hertz?.find((each) => each.clock === name);
  const clock = clocked("sm") ?? clocked("graphics");
  if (clock) made.push(`${fixed(clock.value / 1e9, 2)}${NBSP}GHz`);
  const sharing = device.info?.sharing;
  return sharing ? [...made, sharing.toUpperCase()] : made;
}

function problem(device, words) {
  const reasons = (device.unmeasured ?? []).map((each) => each.reason);
  return h(
    "p",
    { class: "problem" },
    h("strong", null, `It cannot be read: ${reasons.join(", ") || "no answer"}. `),
    reasons.map((reason) => words.unmeasured[reason] ?? "").join(" "),
  );
}

function who(device, tenants, words) {
  const nobody = device.unattributed.map(nobodyRow);
  const rows = tenants.map((tenant) => tenantRow(tenant, words));
  if (!rows.length && !nobody.length) {
    const parted = PARTED.includes(device.info?.sharing);
    const text = parted ? "Its parts have cards of their own." : "Nobody is on it.";
    return h("p", { class: "quiet" }, text);
  }
  const [first, others] = [rows.slice(0, WHO_SHOWN), rows.slice(WHO_SHOWN)];
  const rest = others.length
    ? h(
        "details",
        { class: "rest", "data-k": "rest" },
        h("summary", null, `${others.length} more`),
        whoTable(others),
      )
    : null;
  return h("div", { class: "who" }, whoTable([...first, ...nobody]), rest);
}

function whoTable(rows) {
  const head = h(
    "tr",
    null,
    h("th", { scope: "col" }, "Container"),
    h("th", { scope: "col", class: "n" }, "Core"),
    h("th", { scope: "col", class: "n" }, "Memory"),
  );
  const caption = h("caption", { class: "sr" }, "Containers on this GPU");
  return h("table", null, caption, h("thead", null, head), h("tbody", null, rows));
}

function tenantRow({ entry, part, colour, name }, words) {
  const within = [...new Set([part.name, entry.space])].filter(Boolean).join(" · ");
  return h(
    "tr",
    { "data-k": keyOf(entry.key, part.name) },
    h(
      "th",
      { scope: "row", title: `${name} ${part.name}` },
      swatch(colour),
      h("bdi", { class: "name" }, shortened(entry.name)),
      mismatch(part.figures),
      h("bdi", { class: "within" }, within),
    ),
    h("td", { class: "n" }, coreOf(part.figures, words)),
    h("td", { class: "n" }, memoryOf(part.figures, words)),
  );
}

function nobodyRow(part) {
  return h(
    "tr",
    { "data-k": keyOf("nobody", part.reason) },
    h(
      "th",
      { scope: "row" },
      swatch(null),
      "unattributed",
      h("span", { class: "within" }, part.reason),
    ),
    h("td", { class: "n" }, percent(part.core_utilization_ratio)),
    h("td", { class: "n" }, gibibytes(part.memory_used_bytes)),
  );
}

function more(device) {
  const { info = {}, method_info: method = {} } = device;
  const ratio = (name) => (name in device ? percent(device[name]) : null);
  const pairs = [
    ["UUID", device.uuid],
    ["PCI bus", info.pci_bus_id],
    ["Part of", info.parent_uuid],
    ["Driver", info.driver_version],
    ["Memory traffic", ratio("memory_active_ratio")],
    ["Encoder", ratio("encoder_utilization_ratio")],
    ["Decoder", ratio("decoder_utilization_ratio")],
    ["SMs active", ratio("sm_active_ratio")],
    ["Tensor cores", ratio("tensor_active_ratio")],
    ["Measured by", Object.entries(method).map(([what, how]) => `${what} by ${how}`).join(", ")],
    [
      "Not measured",
      (device.unmeasured ?? []).map((each) => `${each.quantity} (${each.reason})`).join(", "),
    ],
  ];
  return h(
    "details",
    { class: "more", "data-k": "more" },
    h("summary", null, "Details"),
    h(
      "dl",
      null,
      pairs
        .filter(([, value]) => value)
        .map(([name, value]) => [h("dt", null, name), h("dd", null, h("bdi", null, value))]),
    ),
  );
}

// tree.py

const COLUMNS = [
  "Container, process", "GPU", "Type", "Core", "Memory", "Traffic", "Encoder", "Decoder", "Since",
];
const ENGINES = [
  ["memory_active", "memory_active_ratio"],
  ["encoder", "encoder_utilization_ratio"],
  ["decoder", "decoder_utilization_ratio"],
];
const MOST_SWATCHES = 4;

function line(entry, looks, series, doc) {
  return h(
    "li",
    { "data-k": entry.key },
    h(
      "details",
      { class: "entry", "data-k": entry.key },
      h(
        "summary",
        null,
        entryName(entry, looks),
        places(entry),
        entryCore(entry, doc.words),
        entryMemory(entry, doc.words),
        past(entry, series),
      ),
      opened.has(seen(entry.key)) ? partsTable(entry, looks, doc) : null,
    ),
  );
}

function entryName(entry, looks) {
  return h(
    "span",
    { class: "who-name" },
    coloursOfEntry(entry, looks).map(swatch),
    entry.space ? h("bdi", { class: "space" }, entry.space) : null,
    h("bdi", { class: "name" }, shortened(entry.name)),
    entry.note ? h("bdi", { class: "note" }, shortened(entry.note)) : null,
  );
}

function coloursOfEntry(entry, looks) {
  if (entry.kind === "nobody") return [null];
  const found = entry.parts.map((part) => looks.get(lookKey(entry.key, part.name, part.uuid)));
  return [...new Set(found.filter((colour) => colour !== undefined))].slice(0, MOST_SWATCHES);
}

function places(entry) {
  const devices = new Set(entry.parts.map((part) => part.device));
  devices.delete(undefined);
  const text = [...devices].sort((left, right) => left - right).join(", ") || "not known";
  return h("span", { class: "gpus" }, h("span", { class: "lead" }, "GPU "), text);
}

function entryCore(entry, words) {
  const { core_usage_gpus: used, core_limit_gpus: limit } = entry.figures;
  const filled = limit ? entry.figures.core_limit_utilization_ratio : used;
  const over = Boolean(limit) && (filled ?? 0) > OVER;
  const figure = used === undefined ? unknown(unmeasured(entry, "core"), words) : percent(used);
  const about = `Core in use ${percent(used)}${limit ? ` of ${percent(limit)}` : ""}`;
  return h(
    "span",
    { class: "measured core" },
    against(figure, limit ? percent(limit) : null, over),
    meter(about, filled, Boolean(limit)),
  );
}

function entryMemory(entry, words) {
  const { memory_used_bytes: used, memory_limit_bytes: limit } = entry.figures;
  const filled = limit ? entry.figures.memory_limit_utilization_ratio : undefined;
  const otherwise = unknown(unmeasured(entry, "memory"), words);
  return h(
    "span",
    { class: "measured memory" },
    heldAgainst(used, limit, otherwise, (filled ?? 0) > OVER),
    meter(`Memory held ${heldOf(used, limit)}`, filled, Boolean(limit)),
  );
}

function past(entry, series) {
  const listed = entry.parts
    .filter((part) => series.has(part.labels))
    .map((part) => series.get(part.labels).core_utilization_ratio);
  const values = added(listed);
  const top = Math.max(listed.length > 1 ? 1 : 0.05, ...values.map((value) => value ?? 0));
  return spark(`Core of ${entry.name}, the last ten minutes`, values, top);
}

function partsTable(entry, looks, doc) {
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": entry.name },
    h(
      "table",
      { class: "parts" },
      h("caption", { class: "sr" }, `Containers and processes of ${entry.name}`),
      h("thead", null, h("tr", null, COLUMNS.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", null, entry.parts.map((part) => partRows(entry, part, looks, doc))),
    ),
  );
}

function partRows(entry, part, looks, doc) {
  const { figures } = part;
  const colour = looks.get(lookKey(entry.key, part.name, part.uuid));
  const schemes = (figures.allocation_info ?? []).map((each) => each.scheme);
  const own = h(
    "tr",
    { class: "part", "data-k": keyOf(part.name, part.uuid) },
    h(
      "th",
      { scope: "row" },
      colour === undefined ? null : swatch(colour),
      h("bdi", null, part.name || "(all containers)"),
      schemes.map((scheme) => h("span", { class: "tag" }, scheme)),
      mismatch(figures),
    ),
    h(
      "td",
      null,
      part.device === undefined ? h("span", { class: "unknown" }, "not known") : `${part.device}`,
    ),
    h("td", null),
    h("td", { class: "n" }, coreOf(figures, doc.words)),
    h("td", { class: "n" }, memoryOf(figures, doc.words)),
    ENGINES.map(([quantity, name]) => h("td", { class: "n" }, ratioOf(figures, quantity, name))),
    h("td", { class: "n" }, since(figures.observed_since_timestamp_seconds, doc)),
  );
  return [own, ...processesOf(part).map((process) => processRow(process, part, doc))];
}

function processRow(process, part, doc) {
  const told = (name, write) => h("td", { class: "n" }, name in process ? write(process[name]) : dash());
  return h(
    "tr",
    { class: "process", "data-k": keyOf(part.name, part.uuid, String(process.pid)) },
    h(
      "th",
      { scope: "row" },
      h("bdi", null, process.name ?? "(name not known)"),
      h("span", { class: "pid" }, `pid ${process.pid}`),
    ),
    h("td", null),
    h("td", null, process.type ?? ""),
    told("core_utilization_ratio", percent),
    told("memory_used_bytes", gibibytes),
    ENGINES.map(([, name]) => told(name, percent)),
    h("td", { class: "n" }, since(process.start_timestamp_seconds, doc)),
  );
}

function ratioOf(figures, quantity, name) {
  if (name in figures) return percent(figures[name]);
  const reasons = why(figures, quantity);
  return reasons.length ? h("span", { class: "unknown" }, reasons.join(", ")) : dash();
}

const dash = () => h("span", { class: "unknown", title: "not known" }, "?");

function since(start, doc) {
  if (start === undefined) return "";
  return seconds(Math.max(doc.snapshot.timestamp_seconds - start, 0));
}

// whole.py

const GPUS_SHOWN = 24;
const PARTED = ["mig", "partitioned"];
const ENTRIES_SHOWN = 60;

function mainOf(doc, series, choice, lostFor) {
  const listed = entriesOf(doc);
  const looks = coloursOf(listed);
  return [
    banners(doc, lostFor),
    summary(doc, listed),
    sources(doc),
    gpuSection(doc, listed, looks, series, choice),
    treeSection(doc, inOrder(listed, choice), looks, series, choice),
  ];
}

function freshness({ snapshot, exporter }, old) {
  if (!snapshot.number) return "The first collection cycle is not done yet.";
  if (snapshot.stale) return `Nothing was measured for ${age(old)}.`;
  if (exporter.cpu_budget_ratio === undefined) return `Measured ${age(old)} ago`;
  const every = fixed(exporter.collection_interval_seconds, 1);
  return `Measured ${age(old)} ago, every ${every}${NBSP}s`;
}

function banners(doc, lostFor) {
  const made = [];
  if (doc.simulated) {
    const text = "Simulated node: nothing here is measured.";
    made.push(h("p", { class: "banner", "data-k": "simulated" }, text));
  }
  if (doc.snapshot.stale) {
    const text =
      "No collection cycle has ended for too long, so no figures are shown. A call " +
      "hangs; the exporter's log and the kernel's log say more.";
    made.push(h("p", { class: "banner bad", role: "alert", "data-k": "stale" }, text));
  }
  if (lostFor > PATIENCE_S) {
    const text = "The exporter does not answer. What is below is old.";
    made.push(h("p", { class: "banner bad", role: "alert", "data-k": "lost" }, text));
  }
  return made;
}

function summary(doc, listed) {
  const total = (list, figure) => list.reduce((sum, each) => sum + figure(each), 0);
  const up = doc.devices.filter((device) => device.up);
  const boards = up.filter((device) => "utilization_ratio" in device);
  const gpus = new Set(boards.map((each) => each.info?.parent_uuid || each.uuid));
  const powered = up.filter((device) => "power_watts" in device);
  const nobody = boards.flatMap((device) => device.unattributed);
  const pods = listed.filter((entry) => entry.kind === "pod").length;
  const processes = total(
    listed.flatMap((entry) => entry.parts),
    (part) => processesOf(part).length,
  );
  const core = total(boards, (device) => device.utilization_ratio);
  const idle = total(nobody, (part) => part.core_utilization_ratio ?? 0);
  const held = total(boards, (device) => device.memory_used_bytes ?? 0);
  const whole = total(boards, (device) => device.memory_total_bytes ?? 0);
  const watts = total(powered, (device) => device.power_watts);
  const known = boards.length > 0;
  const pairs = [
    ["Core in use", known ? fixed(core, 2) : "?", `of ${many(gpus.size, "GPU")}`],
    ["Unattributed", known ? fixed(idle, 2) : "?", "GPUs"],
    ["Memory in use", known ? gibibytes(held) : "?", `of ${gibibytes(whole)}`],
    ["Power", powered.length ? `${fixed(watts, 0)}${NBSP}W` : "?", ""],
    ["Pods", String(pods), many(processes, "process", "processes")],
  ];
  return h(
    "dl",
    { class: "sums", "data-k": "sums" },
    pairs.map(([name, figure, of]) =>
      h(
        "div",
        { "data-k": name },
        h("dt", null, name),
        h("dd", null, h("b", null, figure), ` ${of}`),
      ),
    ),
  );
}

function sources(doc) {
  const down = doc.sources.filter((source) => !source.up).length;
  const well = doc.sources.length ? "all sources answer" : "none yet";
  const state = down ? `${many(down, "source")} down` : well;
  return h(
    "section",
    { class: "sources", "aria-labelledby": "sources", "data-k": "sources" },
    h("h2", { id: "sources" }, "Sources", h("span", { class: "count" }, state)),
    h("ul", null, doc.sources.map(sourceItem)),
  );
}

function sourceItem(source) {
  const took = `${fixed(source.duration_seconds * 1000, 1)}${NBSP}ms`;
  return h(
    "li",
    { class: source.up ? "up" : "down", "data-k": source.name },
    h("span", { class: "state" }, source.up ? "up" : "down"),
    h("bdi", { class: "name" }, source.name),
    source.up ? h("span", { class: "took" }, took) : null,
    source.detail ? h("p", { class: "detail" }, h("bdi", null, source.detail)) : null,
    "what_to_do" in source ? h("p", { class: "todo" }, source.what_to_do) : null,
  );
}

function gpuSection(doc, listed, looks, series, choice) {
  const kept = listed.filter((entry) => found(entry, choice.words));
  const hosts = new Set(kept.flatMap((entry) => entry.parts.map((part) => part.uuid)));
  const devices = doc.devices.filter((d) => !choice.words.length || hosts.has(d.uuid));
  const shown = choice.all ? devices : devices.slice(0, GPUS_SHOWN);
  const cards = shown.map((d) => card(d, tenantsOf(d, listed, looks), series, doc.words));
  return h(
    "section",
    { class: "gpus-section", "aria-labelledby": "gpus", "data-k": "gpus" },
    h("h2", { id: "gpus" }, "GPUs", count(devices.length, doc.devices.length)),
    cards.length ? h("div", { class: "cards" }, cards) : h("p", { class: "quiet" }, "None."),
    showAll(devices.length - shown.length, "GPU", "GPUs", choice),
  );
}

function treeSection(doc, listed, looks, series, choice) {
  const shown = choice.all ? listed : listed.slice(0, ENTRIES_SHOWN);
  const heads = ["Pod", "GPU", "Core", "Memory", "Last ten minutes"];
  const lines = shown.map((entry) => line(entry, looks, series, doc));
  const nothing = choice.words.length ? "Nothing holds all of these words." : "Nobody uses a GPU.";
  return h(
    "section",
    { class: "tree", "aria-labelledby": "tree", "data-k": "tree" },
    h("h2", { id: "tree" }, "Pods and processes", count(listed.length, listed.length)),
    lines.length
      ? h("div", { class: "heads", "aria-hidden": "true" }, heads.map((name) => h("span", null, name)))
      : null,
    lines.length ? h("ul", { class: "entries" }, lines) : h("p", { class: "quiet" }, nothing),
    showAll(listed.length - shown.length, "line", "lines", choice),
  );
}

const count = (shown, total) =>
  h("span", { class: "count" }, shown === total ? `${total}` : `${shown} of ${total}`);

function showAll(hidden, one, more, choice) {
  if (hidden <= 0) return null;
  const query = new URLSearchParams({ q: choice.text, sort: choice.sort, all: "1" });
  const link = { class: "all", href: `?${query}` };
  return h("p", { class: "more-below" }, h("a", link, `Show ${many(hidden, one, more)} more`));
}

// From here on there is no counterpart in Python: what makes the page live.

const opened = new Set();
const main = document.getElementById("main");
const form = document.getElementById("choice");
const ageLine = document.getElementById("age");
const tags = new Map();
const state = { doc: null, series: new Map(), atMs: 0, age: 0, all: false };
const alike = (left, right) =>
  left.nodeName === right.nodeName && left.dataset?.k === right.dataset?.k;

// Makes a node like another one, with as little change as is needed: what is open stays open,
// what has the focus keeps it, and a reader's place in the page is not lost.
function patch(node, wanted) {
  if (node.nodeType === Node.TEXT_NODE) {
    if (node.data !== wanted.data) node.data = wanted.data;
    return;
  }
  for (const { name, value } of wanted.attributes) {
    if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  }
  for (const { name } of [...node.attributes]) {
    if (!wanted.hasAttribute(name) && name !== "open") node.removeAttribute(name);
  }
  const keyed = new Map([...node.children].map((child) => [child.dataset.k, child]));
  let next = node.firstChild;
  for (const child of [...wanted.childNodes]) {
    const key = child.dataset?.k;
    const candidate = key === undefined ? next : keyed.get(key);
    if (candidate && alike(candidate, child)) {
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

function chosen() {
  const data = new FormData(form);
  const text = (data.get("q") ?? "").trim();
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return { text, words, sort: data.get("sort") ?? "core", all: state.all };
}

const ageNow = () => state.age + (performance.now() - state.atMs) / 1000;
const lostFor = () => (performance.now() - state.atMs) / 1000;

function render() {
  if (state.doc === null) return;
  const wanted = h("main", { id: "main", tabindex: "-1" });
  wanted.append(...mainOf(state.doc, state.series, chosen(), lostFor()).flat());
  if (lostFor() > PATIENCE_S) wanted.setAttribute("class", "lost");
  const focused = document.activeElement;
  patch(main, wanted);
  if (focused !== document.activeElement && focused?.isConnected) {
    focused.focus({ preventScroll: true });
  }
}

function tick() {
  if (state.doc === null) return;
  const lost = lostFor() > PATIENCE_S;
  const silence = `No answer for ${age(lostFor())}`;
  const text = lost ? silence : freshness(state.doc, ageNow());
  if (ageLine.textContent !== text) ageLine.textContent = text;
  ageLine.classList.toggle("lost", lost || state.doc.snapshot.stale);
  if (lost && !main.classList.contains("lost")) render();
}

// An answer, with its age; the document is null if it is the one that is here already.
async function ask(path) {
  const headers = tags.has(path) ? { "If-None-Match": tags.get(path) } : {};
  const answer = await fetch(path, { headers, signal: AbortSignal.timeout(15000) });
  const old = Number(answer.headers.get("Age") ?? 0);
  if (answer.status === 304) return { document: null, old };
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  const document = await answer.json();
  tags.set(path, answer.headers.get("ETag"));
  return { document, old };
}

async function pollSnapshot() {
  const began = performance.now();
  try {
    const { document: doc, old } = await ask("api/v1/snapshot");
    const changed = doc !== null;
    if (changed) state.doc = doc;
    state.atMs = performance.now();
    state.age = state.doc.snapshot.age_seconds + old;
    if (changed || main.classList.contains("lost")) render();
  } catch {
    // it is asked again; after a while the page says that nothing answers
  }
  tick();
  return Math.max(POLL_MS, 8 * (performance.now() - began));
}

async function pollHistory() {
  try {
    const { document: doc } = await ask("api/v1/history");
    if (doc !== null) {
      state.series = new Map(doc.series.map((one) => [JSON.stringify(one.labels), one]));
      render();
    }
  } catch {
    // as above
  }
  return HISTORY_MS;
}

// Does a task again and again while somebody looks.
async function repeat(task) {
  for (;;) {
    if (document.hidden) {
      await new Promise((seen) => {
        document.addEventListener("visibilitychange", seen, { once: true });
      });
      continue;
    }
    const pause = await task();
    await new Promise((over) => setTimeout(over, pause));
  }
}

function choose() {
  const { text, sort, all } = chosen();
  const query = new URLSearchParams();
  if (text) query.set("q", text);
  if (sort !== "core") query.set("sort", sort);
  if (all) query.set("all", "1");
  history.replaceState(null, "", query.size ? `?${query}` : location.pathname);
  render();
}

document.documentElement.classList.add("live");
state.all = new URLSearchParams(location.search).get("all") === "1";
for (const each of main.querySelectorAll("details.entry[open]")) opened.add(each.dataset.k);
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("input", choose);
main.addEventListener("click", (event) => {
  if (event.target.closest?.("a.all")) {
    event.preventDefault();
    state.all = true;
    choose();
  }
});
main.addEventListener(
  "toggle",
  ({ target }) => {
    if (!target.matches("details.entry")) return;
    if (target.open) opened.add(target.dataset.k);
    else opened.delete(target.dataset.k);
    if (target.open) render();
  },
  true,
);
setInterval(tick, 500);
pollHistory().then(() => {
  repeat(pollSnapshot);
  setTimeout(() => repeat(pollHistory), HISTORY_MS);
});
