// Charts below each other over one time axis: measured lines, dashed theory, one cursor. A curve is
// { label, tone, dash, measured: [[s, value], ...], theory: the same, if there is one }; in a stepped chart a value holds
// until its time.

import { el } from './api.js';

const HEIGHT = 170;
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const THEORY = [7, 5];

// The values of points at the times `xs`: undefined where there is none, so that a line leads over it; of steps, the
// value that holds there.
function at(points, xs, stepped) {
  if (!stepped) {
    const known = new Map(points);
    return xs.map((x) => known.get(x));
  }
  let next = 0;
  return xs.map((x) => {
    while (next < points.length && points[next][0] < x) next += 1;
    return next < points.length ? points[next][1] : null;
  });
}

// The range of an axis: from 0, or around what there is (`close`, and on a logarithmic axis).
function range(values, log, close) {
  const known = values.filter((value) => value !== null && value !== undefined && (!log || value > 0));
  const [low, high] = [Math.min(...known), Math.max(...known)];
  if (!known.length) return log ? [0.1, 1] : [0, 1];
  if (log) return [low * 0.7, high * 1.4];
  const room = Math.max(high - low, high * 0.02) * 0.1;
  return close ? [Math.max(0, low - room), high + room] : [0, high * 1.1 || 1];
}

export class TimeCharts {
  // `heading` is the element of the charts' titles; `hovered` is called with the time at the pointer, or null.
  constructor(root, heading, hovered = () => {}) {
    Object.assign(this, { root, heading, hovered, charts: [], plots: [], log: false });
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.draw());
    new ResizeObserver(() => this.#resize()).observe(root);
  }

  // `charts`: { title, curves, close, stepped, theory, said }; `theory` is what the key calls it, `said` are the sentences below it, and its alternative. The time
  // axis ends at `until`, or with what was measured.
  show(charts, until = null) {
    Object.assign(this, { charts, wanted: until });
    this.draw();
  }

  draw() {
    this.plots.forEach((plot) => plot.destroy());
    this.figures = this.charts.map((chart) => {
      const keys = chart.curves.map(({ label, tone }) => el('span', { class: `key ${tone}` }, label));
      const place = el('div', { class: 'plot', role: 'img', 'aria-label': `${chart.title} over time. ${chart.said.join(' ')}` });
      if (chart.curves.some(({ theory }) => theory)) keys.push(el('span', { class: 'key theory' }, chart.theory ?? 'theory'));
      return el('figure', { class: 'chart over-time' }, el(this.heading, {}, chart.title, ...keys), place, el('figcaption', {}, ...chart.said.map((text) => el('p', {}, text))));
    });
    this.root.replaceChildren(...this.figures);
    this.until = this.wanted ?? Math.max(...this.charts.flatMap(({ curves }) => curves.flatMap(({ measured }) => measured.at(-1)?.[0] ?? 0)));
    this.plots = this.charts.map((chart, nth) => this.#plot(chart, this.figures[nth].querySelector('.plot')));
  }

  #plot(chart, place) {
    const lines = chart.curves.flatMap((curve) => [[curve, curve.measured, curve.dash], ...(curve.theory ? [[curve, curve.theory, THEORY, 1.5]] : [])]);
    const xs = [...new Set(lines.flatMap(([, points]) => points.map(([x]) => x)))].sort((one, other) => one - other);
    const positive = (value) => (this.log && !(value > 0) && value !== undefined ? null : value);
    const data = lines.map(([, points]) => at(points, xs, chart.stepped).map(positive));
    const axis = { stroke: color('soft'), grid: { stroke: color('line'), width: 1 }, ticks: { stroke: color('line'), width: 1 } };
    const paths = chart.stepped ? uPlot.paths.stepped({ align: -1 }) : undefined;
    const series = lines.map(([{ label, tone }, , dash, width = 2]) => ({ label, stroke: color(tone), width, dash, paths, points: { show: false } }));
    const shown = range(data.flat(), this.log, chart.close);
    const options = {
      width: place.clientWidth || 400, height: HEIGHT, series: [{}, ...series], legend: { show: false },
      axes: [{ ...axis, size: 30, values: (_, splits) => splits.map((s) => `${Number(s.toFixed(3))} s`) }, { ...axis, size: 64, space: 28 }],
      scales: { x: { time: false, range: () => [0, this.until] }, y: { distr: this.log ? 3 : 1, range: () => shown } },
      cursor: { sync: { key: 'cell' }, drag: { x: false, y: false } },
      hooks: { setCursor: [(plot) => this.hovered(plot.cursor.left >= 0 ? plot.posToVal(plot.cursor.left, 'x') : null)] },
    };
    return new uPlot(options, [xs, ...data], place);
  }

  #resize() {
    this.plots.forEach((plot, nth) => {
      const width = this.figures[nth].querySelector('.plot').clientWidth;
      if (width && width !== plot.width) plot.setSize({ width, height: HEIGHT });
    });
  }
}
