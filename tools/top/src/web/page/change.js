// The dialog in which a person types another promise, sees what would follow, and applies it.

import { timeText } from "/timeline.js";
import { make, promise } from "/top.js";

const $ = (id) => document.getElementById(id);
const SIZES = { s: 1e9, ms: 1e6, us: 1e3, "µs": 1e3, ns: 1 };

// A typed time in whole nanoseconds, or null.
export function readTime(text) {
  const found = /^\s*(\d+(?:\.\d+)?|\.\d+)\s*(s|ms|us|µs|ns)?\s*$/.exec(text);
  if (!found) return null;
  const nanos = Number(found[1]) * SIZES[found[2] ?? "ms"];
  const whole = Math.round(nanos);
  return Math.abs(nanos - whole) < 1e-6 && Number.isSafeInteger(whole) ? whole : null;
}

let current = null;

function field(name, value, hint) {
  const label = make("label");
  const input = make("input");
  input.id = `field-${name}`;
  input.value = value;
  input.autocomplete = "off";
  input.addEventListener("input", () => {
    $("preview").hidden = true;
    if (name === "period" && current.follows) $("field-deadline").value = input.value;
    if (name === "deadline") current.follows = false;
  });
  label.append(make("span", name), input, make("small", hint));
  return label;
}

export function openChange(vcpu, outcome) {
  current = { vcpu, outcome, ticket: null, follows: vcpu.deadline === vcpu.period };
  $("change-title").textContent = `Change ${vcpu.name}: ${promise(vcpu)}`;
  const time = "a number and ns, us, ms or s";
  const fields = vcpu.kind === "credit"
    ? [field("weight", vcpu.weight, "1 to 65535"), field("cap", vcpu.cap, "percent of a CPU; 0: none")]
    : [field("period", timeText(vcpu.period), time), field("budget", timeText(vcpu.budget), time),
      field("deadline", timeText(vcpu.deadline), "at most the period")];
  $("inputs").replaceChildren(...fields);
  $("wrong").textContent = "";
  $("preview").hidden = true;
  $("change").showModal();
  $("inputs").querySelector("input").select();
}

// What is typed, as the server wants it; a text says what is wrong.
function typed() {
  const { vcpu } = current;
  if (vcpu.kind === "credit") {
    const [weight, cap] = ["weight", "cap"].map((name) => Number($(`field-${name}`).value));
    if (!Number.isSafeInteger(weight) || !Number.isSafeInteger(cap) || weight < 0 || cap < 0) return "Weight and cap are whole numbers.";
    return { share: { weight, cap } };
  }
  const times = {};
  for (const name of ["period", "budget", "deadline"]) {
    const text = $(`field-${name}`).value;
    // What was not touched is what the board has, to the tick.
    times[name] = text === timeText(vcpu[name]) ? vcpu[name] : readTime(text);
    if (times[name] === null) return `The ${name} must be a number and ns, us, ms or s.`;
  }
  if (current.follows) times.deadline = times.period;
  return { interface: times };
}

async function post(path, body) {
  const answer = await fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const text = await answer.text();
  let read;
  try { read = JSON.parse(text); } catch { read = { why: text }; }
  if (!answer.ok) throw new Error(read.why ?? text);
  return read;
}

async function look(event) {
  event.preventDefault();
  $("wrong").textContent = "";
  const to = typed();
  if (typeof to === "string") { $("wrong").textContent = to; return; }
  const { vm, vcpu } = current.vcpu.id;
  $("look").disabled = true;
  try {
    const { ticket, preview } = await post("/preview", { vm, vcpu, to });
    current.ticket = ticket;
    showPreview(preview);
  } catch (error) {
    $("wrong").textContent = error.message;
    $("preview").hidden = true;
  } finally {
    $("look").disabled = false;
  }
}

const percent = (share) => `${(share * 100).toFixed(1)} %`;

function rows(table, list, cells) {
  table.hidden = list.length === 0;
  table.tBodies[0].replaceChildren(...list.map((one) => {
    const row = make("tr");
    cells(one).forEach(([text, style], place) => row.append(make(place ? "td" : "th", text, style)));
    return row;
  }));
}

function showPreview(preview) {
  const no = preview.answer === "not-shown";
  const words = { kept: "All deadlines are kept; the certificate was checked.", "not-shown": "No: not every deadline is shown to be kept.",
    "not-analysed": "Nothing here is analysed." };
  $("answer").textContent = words[preview.answer];
  $("answer").className = no ? "alarm" : preview.answer === "kept" ? "live" : "warning";
  $("from-to").textContent = `${preview.from}  →  ${preview.to}`;
  const help = preview.help.length ? [`Would help: ${preview.help.join("; ")}`] : [];
  $("reasons").replaceChildren(...[...preview.reasons, ...help, ...preview.notes].map((text) => make("li", text)));
  rows($("shares"), preview.shares, (row) => [[row.name], [percent(row.before), "number"], [percent(row.after), "number"]]);
  const time = (side, of) => side ? timeText(side[of]) : "not shown";
  rows($("tasks"), preview.tasks, (row) => [[row.name], [row.of], [timeText(row.deadline), "number"],
    ...["response", "slack"].flatMap((of) => [[time(row.before, of), "number"],
      [time(row.after, of), row.after ? "number" : "alarm"]])]);
  $("anyway-line").hidden = !no;
  $("anyway").checked = false;
  $("apply").disabled = no;
  $("preview").hidden = false;
  $(no ? "anyway" : "apply").focus();
}

async function apply() {
  $("apply").disabled = true;
  const { vcpu, outcome, ticket } = current;
  try {
    const answer = await post("/apply", { ticket, anyway: $("anyway").checked });
    $("change").close();
    outcome(`${vcpu.name}: ${answer.words}`, answer.changed);
  } catch (error) {
    $("wrong").textContent = error.message;
    $("preview").hidden = true;
  }
}

$("fields").addEventListener("submit", look);
$("cancel").addEventListener("click", () => $("change").close());
$("anyway").addEventListener("change", (event) => { $("apply").disabled = !event.target.checked; });
$("apply").addEventListener("click", apply);
