// Who ran on which core when, drawn on a canvas. Turns come with each event and are kept for a while.

const KEPT = 20000;
const ROW = 26;
const LEFT = 56;
const COLOURS = ["#7cb5ec", "#90d67f", "#e7a6e0", "#f2c14e", "#5fd0c5", "#ff9e80", "#b9b4f0", "#d4c08a"];
const MARKS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

export const colourOf = (place) => COLOURS[place % COLOURS.length];
export const markOf = (place) => MARKS[place] ?? "*";

export function timeText(nanos) {
  for (const [size, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "us"]]) {
    if (nanos >= size) return `${+(nanos / size).toFixed(3)}${unit}`;
  }
  return `${Math.round(nanos)}ns`;
}

export class Timeline {
  constructor(canvas, told) {
    this.canvas = canvas;
    this.told = told;
    this.cores = new Map();
    this.view = null;
    this.seconds = 0.05;
    canvas.addEventListener("mousemove", (event) => this.point(event));
    canvas.addEventListener("mouseleave", () => told(null));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  add(view, turns) {
    this.view = view;
    for (const [cpu, rows] of Object.entries(turns)) {
      const kept = this.cores.get(Number(cpu)) ?? [];
      // A board that began anew has a smaller counter.
      if (kept.length && rows[0][2] < kept[kept.length - 1][2]) kept.length = 0;
      kept.push(...rows);
      if (kept.length > KEPT) kept.splice(0, kept.length - KEPT);
      this.cores.set(Number(cpu), kept);
    }
  }

  // The tick up to which all cores are known, and how many ticks are shown.
  span() {
    const ends = [];
    for (const core of this.view.cores) {
      const turns = this.cores.get(core.cpu);
      if (core.answered && turns?.length) ends.push(turns[turns.length - 1][3]);
    }
    return [ends.length ? Math.min(...ends) : 0, this.seconds * this.view.frequency];
  }

  draw() {
    if (!this.view) return;
    const cores = this.view.cores;
    const width = this.canvas.clientWidth;
    const height = cores.length * ROW + 22;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.style.height = `${height}px`;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const style = getComputedStyle(this.canvas);
    const [text, line] = [style.color, style.getPropertyValue("--line")];
    const [end, ticks] = this.span();
    const room = width - LEFT;
    const x = (tick) => LEFT + (1 - (end - tick) / ticks) * room;
    const places = new Map(this.view.vcpus.map((vcpu, place) => [`${vcpu.id.vm}.${vcpu.id.vcpu}`, place]));
    pen.font = "12px system-ui, 'DejaVu Sans', sans-serif";
    pen.textBaseline = "middle";
    cores.forEach((core, row) => {
      const top = row * ROW + 3;
      pen.fillStyle = text;
      pen.textAlign = "left";
      pen.fillText(`core ${core.cpu}`, 0, top + 10);
      pen.strokeStyle = line;
      pen.strokeRect(LEFT + .5, top + .5, room - 1, 20);
      for (const turn of this.cores.get(core.cpu) ?? []) {
        if (turn[3] <= end - ticks || turn[2] >= end) continue;
        const [from, to] = [Math.max(x(turn[2]), LEFT), Math.min(x(turn[3]), width)];
        this.turn(pen, turn, from, to, top, places, line);
      }
    });
    pen.fillStyle = text;
    const below = cores.length * ROW + 12;
    for (const part of [0, .5, 1]) {
      pen.textAlign = part === 0 ? "left" : part === 1 ? "right" : "center";
      const label = part === 1 ? "now" : `-${timeText((1 - part) * this.seconds * 1e9)}`;
      pen.fillText(label, LEFT + part * room, below);
    }
  }

  turn(pen, turn, from, to, top, places, line) {
    const wide = Math.max(to - from, .6);
    if (turn[0] < 0) {
      pen.strokeStyle = line;
      pen.beginPath();
      for (let at = Math.ceil(from / 6) * 6; at < to; at += 6) {
        pen.moveTo(at, top + 17);
        pen.lineTo(Math.min(at + 5, to), top + 12);
      }
      pen.stroke();
      return;
    }
    const place = places.get(`${turn[0]}.${turn[1]}`) ?? 0;
    pen.fillStyle = colourOf(place);
    pen.fillRect(from, top + 1, wide, 19);
    if (wide > 11) {
      pen.fillStyle = "#10151a";
      pen.textAlign = "center";
      pen.fillText(markOf(place), from + wide / 2, top + 11);
    }
  }

  point(event) {
    if (!this.view) return;
    const core = this.view.cores[Math.floor((event.offsetY - 3) / ROW)];
    const [end, ticks] = this.span();
    const room = this.canvas.clientWidth - LEFT;
    const tick = end - (1 - (event.offsetX - LEFT) / room) * ticks;
    const turn = core && (this.cores.get(core.cpu) ?? []).find((turn) => turn[2] <= tick && tick < turn[3]);
    if (!turn) return this.told(null);
    const who = this.view.vcpus.find((vcpu) => vcpu.id.vm === turn[0] && vcpu.id.vcpu === turn[1]);
    const nanos = (turn[3] - turn[2]) / this.view.frequency * 1e9;
    this.told(`core ${core.cpu}: ${turn[0] < 0 ? "nobody" : who?.name ?? "?"} for ${timeText(nanos)}`);
  }
}
