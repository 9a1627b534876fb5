// The page of `hanok top --web`. What a board says is put into the page as text, never as markup.

import { Timeline, colourOf, markOf, timeText } from "/timeline.js";
import { openChange } from "/change.js";

const $ = (id) => document.getElementById(id);
const LINES = 1000;

const percent = (share) => (share * 100).toFixed(1);
function number(value) {
  if (value < .05) return "0";
  if (value < 10) return value.toFixed(1);
  if (value < 1e4) return value.toFixed(0);
  return value < 1e7 ? `${(value / 1e3).toFixed(0)}k` : value < 1e10 ? `${(value / 1e6).toFixed(0)}M` : value.toExponential(0);
}

export function make(name, content, ...classes) {
  const element = document.createElement(name);
  if (content !== undefined && content !== null) element.textContent = content;
  classes.filter(Boolean).forEach((one) => element.classList.add(one));
  return element;
}

export function promise(vcpu) {
  if (vcpu.kind === "turn") return "-";
  if (vcpu.kind === "credit") return `weight ${vcpu.weight}${vcpu.cap ? `, cap ${vcpu.cap} %` : ""}`;
  const within = vcpu.deadline === vcpu.period ? "" : ` within ${timeText(vcpu.deadline)}`;
  return `${timeText(vcpu.budget)}${within} in ${timeText(vcpu.period)}`;
}

// The columns: title, content, what it is sorted by, whether it is text.
const columns = [
  ["vCPU", (v) => v.name, (v) => v.id.vm * 4096 + v.id.vcpu, true],
  ["core", (v) => v.cpu, (v) => v.cpu],
  ["state", (v) => v.doing, (v) => v.doing, true],
  ["kind", (v) => v.kind, (v) => v.kind, true],
  ["promised", promise, (v) => v.period, true],
  ["prom. %", (v) => v.promised === null ? "-" : percent(v.promised), (v) => v.promised ?? -1],
  ["used %", (v) => percent(v.used), (v) => v.used],
  ["beyond %", (v) => percent(v.extra), (v) => v.extra],
  ["left", (v) => v.period ? timeText(v.left) : "-", (v) => v.left],
  ["late", (v) => v.late_now ? `${v.late} (+${v.late_now})` : v.late, (v) => v.late_now * 1e6 + v.late],
  ["throt./s", (v) => number(v.throttled_rate), (v) => v.throttled_rate],
  ["switch/s", (v) => number(v.switches), (v) => v.switches],
  ["exits/s", (v) => number(v.exit_rate), (v) => v.exit_rate],
  ["stolen %", (v) => percent(v.stolen), (v) => v.stolen],
];

const state = { update: null, shown: null, held: false, sort: 0, falling: false, chosen: null };
const timeline = new Timeline($("timeline"), (words) => {
  $("under").textContent = words ?? "Hatched: nobody ran. Empty: the board did not tell.";
});

const key = (vcpu) => `${vcpu.id.vm}.${vcpu.id.vcpu}`;

function header(update) {
  const { view, status } = update;
  const badge = $("status");
  const words = { waiting: "waiting", live: state.held ? "held" : "live", silent: "no answer", gone: "gone" };
  badge.textContent = words[status.is];
  badge.className = `badge ${status.is === "live" && !state.held ? "live" : status.is === "live" ? "warning" : "alarm"}`;
  $("title").textContent = update.title;
  const late = view.vcpus.reduce((sum, vcpu) => sum + vcpu.late_now, 0);
  document.title = `${late ? `${late} late - ` : ""}${update.title} - hanok top`;
  const mean = (of) => percent(view.cores.reduce((sum, core) => sum + of(core), 0) / Math.max(view.cores.length, 1));
  const sum = (list, of) => number(list.reduce((sum, one) => sum + of(one), 0));
  const facts = [
    ["up", `${Math.floor(view.now / 1e9)}s`],
    ["used", `${mean((core) => core.used)} %`],
    ["promised", `${mean((core) => core.promised)} %`],
    ["switches/s", sum(view.cores, (core) => core.switches)],
    ["exits/s", sum(view.vcpus, (vcpu) => vcpu.exit_rate)],
  ];
  if (late) facts.unshift(["late", late, "alarm"]);
  if (view.missing) facts.unshift(["vCPUs not heard of", view.missing, "warning"]);
  if (update.garbled) facts.push(["lines not understood", update.garbled, "warning"]);
  if (status.why) facts.unshift(["", status.why, "alarm"]);
  $("facts").replaceChildren(...facts.map(([name, value, style]) => {
    const pair = make("div", null, style);
    pair.append(make("dt", name), make("dd", value));
    return pair;
  }));
}

function bar(core) {
  const bar = make("span", null, "bar");
  bar.setAttribute("role", "img");
  bar.setAttribute("aria-label", `used ${percent(core.used)} %, of it beyond budgets ${percent(core.extra)} %, promised ${percent(core.promised)} %`);
  const part = (style, from, to) => {
    const part = make("i", null, style);
    part.style.left = `${Math.min(from, 1) * 100}%`;
    if (to !== undefined) part.style.width = `${Math.max(0, Math.min(to, 1) - from) * 100}%`;
    bar.append(part);
  };
  const own = Math.max(0, core.used - core.extra);
  part("used", 0, own);
  part("extra", own, core.used);
  if (core.promised > 0) part("mark", Math.min(core.promised, .995));
  return bar;
}

function cores(view) {
  $("cores").replaceChildren(...view.cores.map((core) => {
    const row = make("li");
    row.append(make("span", `core ${core.cpu}`));
    if (!core.answered) {
      row.append(make("span", "does not answer", "alarm"));
      return row;
    }
    const slack = core.slack === "none" ? "" : `, slack ${core.slack}`;
    const facts = `${percent(core.used)} %, promised ${percent(core.promised)} % - ${number(core.switches)} switches/s, ` +
      `${timeText(core.switch_cost)} each - ${core.policy}${slack}`;
    row.append(bar(core), make("span", facts, "facts"));
    return row;
  }));
}

function heads() {
  const row = $("vcpus").tHead.rows[0];
  columns.forEach(([title, , , text], place) => {
    const head = make("th", null, text ? "" : "number");
    head.scope = "col";
    const button = make("button", title);
    button.type = "button";
    button.addEventListener("click", () => {
      state.falling = state.sort === place ? !state.falling : !text;
      state.sort = place;
      show();
    });
    head.append(button);
    row.append(head);
  });
  row.append(make("th", null));
}

function table(view) {
  const heads = $("vcpus").tHead.rows[0].cells;
  columns.forEach((_, place) => {
    if (place === state.sort) heads[place].setAttribute("aria-sort", state.falling ? "descending" : "ascending");
    else heads[place].removeAttribute("aria-sort");
  });
  const by = columns[state.sort][2];
  const order = view.vcpus.map((vcpu, place) => [vcpu, place]);
  order.sort(([a], [b]) => {
    const [x, y] = [by(a), by(b)];
    const up = typeof x === "string" ? x.localeCompare(y) : x - y;
    return state.falling ? -up : up;
  });
  if (!view.vcpus.some((vcpu) => key(vcpu) === state.chosen)) state.chosen = order.length ? key(order[0][0]) : null;
  const body = $("vcpus").tBodies[0];
  // Rows stay, so that focus does.
  while (body.rows.length > order.length) body.deleteRow(-1);
  while (body.rows.length < order.length) body.append(emptyRow());
  order.forEach(([vcpu, place], at) => fill(body.rows[at], vcpu, place));
}

function emptyRow() {
  const row = make("tr");
  columns.forEach(([, , , text], place) => {
    const cell = make(place ? "td" : "th", null, text ? "" : "number");
    if (!place) cell.scope = "row";
    row.append(cell);
  });
  const cell = make("td");
  const button = make("button", "Change");
  button.type = "button";
  button.addEventListener("click", () => {
    const vcpu = state.update.view.vcpus.find((vcpu) => key(vcpu) === row.dataset.key);
    if (vcpu) openChange(vcpu, outcome);
  });
  cell.append(button);
  row.append(cell);
  row.addEventListener("click", () => { state.chosen = row.dataset.key; show(); });
  return row;
}

function fill(row, vcpu, place) {
  row.dataset.key = key(vcpu);
  row.classList.toggle("chosen", state.chosen === key(vcpu));
  columns.forEach(([title, content], at) => {
    const cell = row.cells[at];
    const text = String(content(vcpu));
    if (at === 0) {
      const mark = make("span", markOf(place), "key");
      mark.style.background = colourOf(place);
      cell.replaceChildren(mark, text);
      cell.title = text;
    } else if (cell.textContent !== text) cell.textContent = text;
    if (title === "late") {
      cell.classList.toggle("alarm", vcpu.late_now > 0);
      cell.classList.toggle("warning", vcpu.late > 0 && vcpu.late_now === 0);
    }
  });
  const button = row.cells[columns.length].firstChild;
  button.disabled = vcpu.kind === "turn";
  button.setAttribute("aria-label", `Change what ${vcpu.name} is promised`);
}

function exits(view) {
  const vcpu = view.vcpus.find((vcpu) => key(vcpu) === state.chosen);
  $("exits-title").textContent = vcpu ? `Exits of ${vcpu.name}: ${vcpu.throttled} throttles, ${vcpu.late} promises not kept` : "Exits";
  $("exits").tBodies[0].replaceChildren(...(vcpu?.exits ?? []).map((exit) => {
    const row = make("tr");
    row.append(make("td", exit.cause), make("td", number(exit.rate), "number"),
      make("td", exit.count, "number"), make("td", exit.each ?? "-", "number"));
    return row;
  }));
}

function log(update) {
  const box = $("log");
  const names = new Map(update.view.vcpus.map((vcpu) => [vcpu.id.vm, vcpu.vm_name]));
  const speakers = $("speaker");
  for (const [vm, name] of [["hypervisor", "hanok"], ...names]) {
    if (![...speakers.options].some((option) => option.value === String(vm))) {
      const option = make("option", name);
      option.value = vm;
      speakers.append(option);
    }
  }
  const atEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 4;
  for (const said of update.log) {
    const vm = said.who.vm;
    const line = make("div");
    line.dataset.of = vm === undefined ? "hypervisor" : vm;
    line.append(make("b", `[${vm === undefined ? "hanok" : names.get(vm) ?? `VM ${vm}`}] `), said.text);
    line.hidden = speakers.value !== "" && speakers.value !== line.dataset.of;
    box.append(line);
  }
  while (box.childElementCount > LINES) box.firstChild.remove();
  if (update.log.length && atEnd) box.scrollTop = box.scrollHeight;
}

function outcome(words, good) {
  $("outcome").textContent = words;
  $("outcome").className = good ? "live" : "alarm";
}

function show() {
  const update = state.held ? state.shown : state.update;
  if (!update) return;
  state.shown = update;
  header({ ...update, status: state.update.status });
  cores(update.view);
  table(update.view);
  exits(update.view);
  if (!state.held) timeline.draw();
}

function came(update) {
  state.update = update;
  log(update);
  if (!state.held) timeline.add(update.view, update.turns);
  show();
}

$("window").addEventListener("change", (event) => {
  timeline.seconds = Number(event.target.value);
  timeline.draw();
});
$("hold").addEventListener("click", (event) => {
  state.held = !state.held;
  event.target.setAttribute("aria-pressed", state.held);
  show();
});
$("speaker").addEventListener("change", (event) => {
  for (const line of $("log").children) {
    line.hidden = event.target.value !== "" && event.target.value !== line.dataset.of;
  }
});

heads();
const events = new EventSource("/events");
events.addEventListener("message", (event) => came(JSON.parse(event.data)));
events.addEventListener("error", () => {
  $("status").textContent = "hanok top has ended, or cannot be reached";
  $("status").className = "badge alarm";
});
