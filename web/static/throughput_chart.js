// Throughput against RTT on two log axes: the theory of each column before its first cell is measured, then the measured
// cells with their uncertainty; of a second run, which it is compared with, hollow points.

import { el } from './api.js';
import { titled } from './run_names.js';
import { mib, throughput } from './units.js';

const TONES = ['out', 'in', 'violet', 'green', 'red'];
const MIB = 2 ** 20;
const HEIGHT = 300;
const NEAR_PX = 30;
const DIGIT_PX = 7;
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// The labels of the RTTs; none where it would run into the one before it (128 and 130 ms).
function roomy(plot, splits, text) {
  let free = -Infinity;
  return splits.map((ms) => {
    const at = plot.valToPos(ms, 'x');
    const half = (text(ms).length * DIGIT_PX) / 2;
    if (at - half < free) return '';
    free = at + half + DIGIT_PX;
    return text(ms);
  });
}

export class ThroughputChart {
  // `pick` is called with the id of a cell that was clicked.
  constructor(root, pick) {
    this.root = root;
    this.pick = pick;
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.#draw());
    new ResizeObserver(() => {
      const width = root.querySelector('.plot')?.clientWidth;
      if (this.plot && width && width !== this.plot.width) this.plot.setSize({ width, height: HEIGHT });
    }).observe(root);
  }

  show(run, other) {
    this.run = run;
    this.other = other;
    this.#draw();
  }

  #draw() {
    this.plot?.destroy();
    this.plot = null;
    const streams = this.run && !this.run.workload && !this.run.request_columns.length;
    this.root.hidden = !streams || !this.run.cells.length;
    if (this.root.hidden) return;
    this.columns = [...new Set(this.run.cells.map((cell) => cell.column))];
    const old = (this.other?.cells ?? []).filter((cell) => this.columns.includes(cell.column));
    const rtts = [...new Set([...this.run.cells, ...old].map((cell) => cell.rtt_ns))].sort((one, other) => one - other);
    // A log axis has no 0: an RTT of 0 stands at half of the next one.
    const least = rtts.find((rtt) => rtt > 0) ?? 2e5;
    const at = (rtt) => (rtt || least / 2) / 1e6;
    const values = (cells, column, of) => rtts.map((rtt) => {
      const cell = cells.find((one) => one.column === column && one.rtt_ns === rtt);
      const bytes = cell ? of(cell) : null;
      return bytes ? bytes / MIB : null;
    });
    const data = this.columns.flatMap((column) => [values(this.run.cells, column, (cell) => cell.expected_bytes_per_s),
      values(this.run.cells, column, (cell) => cell.steady_bytes_per_s), values(old, column, (cell) => cell.steady_bytes_per_s)]);
    this.points = this.run.cells.map((cell) => ({ cell, x: at(cell.rtt_ns), tone: this.#tone(cell.column) }));
    this.#build([rtts.map(at), ...data], rtts, at, least);
  }

  #tone(column) {
    return TONES[this.columns.indexOf(column) % TONES.length];
  }

  #build(data, rtts, at, least) {
    const done = this.run.cells.filter((cell) => cell.steady_bytes_per_s !== null);
    const told = done.map((cell) => `${cell.column} at ${cell.rtt_ns / 1e6} ms: ${throughput(cell.steady_bytes_per_s)}`).join('; ');
    const place = el('div', { class: 'plot', role: 'img', 'aria-label': `Throughput against RTT, ${done.length} of ${this.run.cells.length} cells measured. ${told}` });
    const keys = this.columns.map((column) => el('span', { class: `key ${this.#tone(column)}` }, column));
    const caption = `Lines: what theory expects. Points: measured, with 99 % of uncertainty where there are repeats${this.other ? `; hollow: run ${titled(this.other.id)}` : ''}. Choose a point, or a cell of the table, to open it.`;
    this.root.replaceChildren(el('h3', {}, 'Throughput in MiB/s against RTT in ms', ...keys), place, el('figcaption', {}, caption));
    const axis = { stroke: color('soft'), grid: { stroke: color('line'), width: 1 }, ticks: { stroke: color('line'), width: 1 } };
    const series = this.columns.flatMap((column) => {
      const stroke = color(this.#tone(column));
      return [
        { label: `theory of ${column}`, stroke, width: 1.5, dash: [6, 4], spanGaps: true, points: { show: rtts.length === 1, size: 5 } },
        { label: column, stroke, paths: () => null, points: { show: true, size: 9, fill: stroke } },
        { label: `${column}, other run`, stroke, paths: () => null, points: { show: true, size: 9, width: 2, fill: color('card') } },
      ];
    });
    const all = data.slice(1).flat().filter((value) => value !== null);
    const xs = rtts.map(at);
    const options = {
      width: place.clientWidth || 400, height: HEIGHT, series: [{}, ...series], legend: { show: false }, cursor: { drag: { x: false, y: false }, points: { show: false } },
      axes: [{ ...axis, values: (plot, splits) => roomy(plot, splits, (ms) => (rtts[0] === 0 && ms === least / 2e6 ? '0' : String(ms))), splits: () => xs, filter: (_, splits) => splits },
        { ...axis, size: 64, values: (_, splits) => splits.map((value) => (value === null ? '' : mib(value * MIB))) }],
      scales: { x: { time: false, distr: 3, range: () => [Math.min(...xs) * 0.7, Math.max(...xs) * 1.4] }, y: { distr: 3, range: () => [Math.min(...all) * 0.6, Math.max(...all) * 1.6] } },
      hooks: { draw: [(plot) => this.#bars(plot)] },
    };
    this.plot = new uPlot(options, data, place);
    this.plot.over.addEventListener('click', () => this.#clicked());
  }

  // The uncertainty of each mean, as a bar.
  #bars(plot) {
    const { ctx } = plot;
    ctx.save();
    ctx.lineWidth = 2 * devicePixelRatio;
    for (const { cell, x, tone } of this.points) {
      const [mean, half] = [cell.steady_bytes_per_s, cell.half_width_bytes_per_s];
      if (!mean || !half) continue;
      const [left, low, high] = [plot.valToPos(x, 'x', true), plot.valToPos(Math.max(mean - half, mean / 100) / MIB, 'y', true), plot.valToPos((mean + half) / MIB, 'y', true)];
      const cap = 4 * devicePixelRatio;
      ctx.strokeStyle = color(tone);
      ctx.beginPath();
      for (const [fromX, fromY, toX, toY] of [[left, low, left, high], [left - cap, low, left + cap, low], [left - cap, high, left + cap, high]]) {
        ctx.moveTo(fromX, fromY);
        ctx.lineTo(toX, toY);
      }
      ctx.stroke();
    }
    ctx.restore();
  }

  #clicked() {
    const { left, top } = this.plot.cursor;
    const away = ({ cell, x }) => Math.hypot(this.plot.valToPos(x, 'x') - left, this.plot.valToPos((cell.steady_bytes_per_s ?? cell.expected_bytes_per_s) / MIB, 'y') - top);
    const nearest = this.points.map((point) => [away(point), point.cell.id]).sort(([one], [other]) => one - other)[0];
    if (nearest && nearest[0] <= NEAR_PX) this.pick(nearest[1]);
  }
}
