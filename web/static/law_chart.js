// Completion time against RTT: the cells of a program as points, and the law of each column as a line through them.

import { el } from './api.js';
import { seconds } from './units.js';

const TONES = ['out', 'in', 'violet', 'green', 'red'];
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

export class LawChart {
  constructor(root) {
    this.root = root;
    this.run = null;
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.#draw());
    new ResizeObserver(() => {
      const width = root.querySelector('.plot')?.clientWidth;
      if (this.plot && width && width !== this.plot.width) this.plot.setSize({ width, height: 240 });
    }).observe(root);
  }

  show(run) {
    this.run = run;
    this.#draw();
  }

  #draw() {
    this.plot?.destroy();
    this.plot = null;
    const done = (this.run?.cells ?? []).filter((cell) => cell.completion_s !== null);
    this.root.hidden = !done.length;
    if (!done.length) return;
    const columns = [...new Set(done.map((cell) => cell.column))];
    const rtts = [...new Set(done.map((cell) => cell.rtt_ns))].sort((one, other) => one - other);
    const values = (column, of) => rtts.map((rtt) => {
      const cell = done.find((one) => one.column === column && one.rtt_ns === rtt);
      return cell ? of(cell) : null;
    });
    const tone = (nth) => TONES[nth % TONES.length];
    const place = el('div', { class: 'plot', role: 'img', 'aria-label': `Completion time against RTT: ${done.map((cell) => `${cell.column} at ${cell.rtt_ns / 1e6} ms: ${seconds(cell.completion_s)}`).join('; ')}` });
    const keys = columns.map((column, nth) => el('span', { class: `key ${tone(nth)}` }, column));
    this.root.replaceChildren(el('h3', {}, 'Completion time in s against RTT in ms', ...keys), place, el('figcaption', {}, 'Points: measured. Lines: the law.'));
    const axis = { stroke: color('soft'), grid: { stroke: color('line'), width: 1 }, ticks: { stroke: color('line'), width: 1 } };
    const series = columns.flatMap((column, nth) => [
      { label: column, stroke: color(tone(nth)), paths: () => null, points: { show: true, size: 9, fill: color(tone(nth)) } },
      { label: `law of ${column}`, stroke: color(tone(nth)), width: 2, points: { show: false }, spanGaps: true },
    ]);
    const most = Math.max(...done.map((cell) => cell.completion_s));
    const options = {
      width: place.clientWidth || 400, height: 240, series: [{}, ...series], axes: [{ ...axis }, { ...axis, size: 64 }], legend: { show: false },
      scales: { x: { time: false, range: () => [0, Math.max(1, rtts.at(-1) / 1e6) * 1.05] }, y: { range: () => [0, most * 1.1] } }, cursor: { show: false },
    };
    const data = columns.flatMap((column) => [values(column, (cell) => cell.completion_s), values(column, (cell) => cell.law_completion_s)]);
    this.plot = new uPlot(options, [rtts.map((rtt) => rtt / 1e6), ...data], place);
  }
}
