// Live graphs of one lane: round-trip time, throughput, queue against limit, drops by cause. One hour is kept.

import { $, ask, el, setText } from './api.js';
import { InSight } from './in_sight.js';
import { ms, perSecond, rate, size } from './units.js';

const KEPT = 3600;
const GAP_MS = 5000;
const COLUMNS = [
  'at_ms', 'asked_ns', 'min_ns', 'median_ns', 'p99_ns', 'lost',
  ...['outbound', 'inbound'].flatMap((side) =>
    ['rate_bps', 'queued_packets', 'limit_packets', 'queued_bytes', 'buffer_bytes', 'drops_limit_per_s', 'drops_buffer_per_s', 'drops_loss_per_s'].map((n) => `${side}_${n}`)),
];
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const CLOCK = new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium' });
const clock = (s) => CLOCK.format(new Date(s * 1000));
const times = (factor) => (values) => values.map((v) => (v === null ? null : v * factor));

// Two looks further apart than GAP_MS have a row of nulls between them, so that no line leads across what nobody saw.
function withGaps(columns) {
  const at = columns.at_ms;
  const rows = at.flatMap((time, i) => (i && time - at[i - 1] > GAP_MS ? [null, i] : [i]));
  return Object.fromEntries(Object.entries(columns).map(([name, values]) =>
    [name, rows.map((row, i) => (row === null ? (name === 'at_ms' ? at[rows[i - 1]] + 1 : null) : values[row]))]));
}

const known = (values) => values.filter((value) => value !== null);
const most = (values) => values.reduce((one, other) => Math.max(one, other), 0);
const least = (values) => values.reduce((one, other) => Math.min(one, other), Infinity);

// The range of the RTT's axis in ns. It shows all that is asked and usual: a few single echoes that took much longer (of
// p99 the slowest 2 %, of medians what is five times above that) would press all else flat.
function rttRange(cut) {
  const [asked, minima, medians, p99s] = ['asked_ns', 'min_ns', 'median_ns', 'p99_ns'].map((name) => known(cut[name]));
  const slow = p99s.sort((one, other) => one - other)[Math.ceil(p99s.length * 0.98) - 1] ?? 0;
  const usual = Math.max(most(asked), slow);
  const high = Math.max(usual, Math.min(most(medians), 5 * usual));
  return [Math.min(least(asked), least(minima), high) * 0.9, high * 1.1 + 1e4];
}

const CHARTS = [
  {
    title: 'Round-trip time, ms', unit: ms, range: rttRange,
    series: [['min_ns', 'minimum', 'violet', 1e-6], ['p99_ns', 'p99', 'in', 1e-6], ['median_ns', 'median', 'blue', 1e-6], ['asked_ns', 'asked', 'green', 1e-6, [6, 4]]],
    band: [2, 1],
    says: (now) => (now.median_ns === null ? 'Not measured: this lane has no hosts of ours, none answered, or a measurement has it.'
      : `median ${ms(now.median_ns, 2)}, minimum ${ms(now.min_ns, 2)}, p99 ${ms(now.p99_ns, 2)}, asked ${ms(now.asked_ns, 2)}; ${now.lost} echoes lost`),
    beyond: (cut, high) => (most(known(cut.p99_ns)) > high ? `. The slowest took ${ms(most(known(cut.p99_ns)), 0)}, beyond this scale` : ''),
  },
  {
    title: 'Throughput, Mbit/s', floor: true,
    series: [['outbound_rate_bps', 'out', 'out', 1e-6], ['inbound_rate_bps', 'in', 'in', 1e-6]],
    says: (now) => `out ${rate(now.outbound_rate_bps)}, in ${rate(now.inbound_rate_bps)}`,
  },
  {
    title: 'Queue, packets on the way and waiting', floor: true,
    series: [['outbound_queued_packets', 'out', 'out', 1], ['inbound_queued_packets', 'in', 'in', 1]],
    says: (now) => `out ${now.outbound_queued_packets} of at most ${now.outbound_limit_packets} packets, ${size(now.outbound_queued_bytes)}; in ${now.inbound_queued_packets} of at most ${now.inbound_limit_packets}, ${size(now.inbound_queued_bytes)}`,
  },
  {
    title: 'Drops per second', floor: true,
    series: [['drops_limit_per_s', 'by the limit', 'red', 1], ['drops_buffer_per_s', 'by the buffer', 'violet', 1], ['drops_loss_per_s', 'by asked loss', 'out', 1]],
    says: (now) => `by the emulator's limit ${perSecond(now.drops_limit_per_s)}, by the bottleneck's buffer ${perSecond(now.drops_buffer_per_s)}, by the configured loss ${perSecond(now.drops_loss_per_s)}`,
  },
];

export class Graphs {
  // `changes` are the lane's, which the charts show (LaneChanges).
  constructor(root, changes) {
    Object.assign(this, { root, changes });
    this.lane = null;
    this.data = {};
    this.paused = false;
    this.seconds = 300;
    this.#build();
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.#build());
    new ResizeObserver(() => this.#resize()).observe(root);
  }

  // Shows another lane and loads its past from the daemon; looks that come meanwhile follow it.
  async show(lane) {
    this.lane = lane;
    const missed = [];
    this.missed = missed;
    try {
      const past = await ask('GET', `/api/lanes/${encodeURIComponent(lane)}/past?seconds=${KEPT}`);
      if (this.lane !== lane) return;
      this.data = past.columns;
    } finally {
      if (this.missed === missed) this.missed = null;
    }
    missed.forEach((look) => this.add(look));
    this.#fill();
  }

  add(look) {
    this.missed?.push(look);
    if (this.missed) return;
    const lane = look.lanes[this.lane];
    if (!lane || !this.data.at_ms || this.data.at_ms.at(-1) >= look.at_ms) return;
    const row = { at_ms: look.at_ms, ...lane };
    for (const side of ['outbound', 'inbound']) {
      for (const [name, value] of Object.entries(lane[side])) row[`${side}_${name}`] = value;
    }
    for (const name of COLUMNS) {
      this.data[name].push(row[name] ?? null);
      if (this.data[name].length > KEPT) this.data[name].shift();
    }
    this.redraw();
  }

  // What is shown beside the looks has changed.
  redraw() {
    if (!this.paused) this.#fill();
  }

  set span(seconds) {
    this.seconds = seconds;
    this.#fill();
  }

  #columns() {
    const from = this.data.at_ms.at(-1) - this.seconds * 1000;
    const start = this.data.at_ms.findIndex((time) => time >= from);
    const cut = withGaps(Object.fromEntries(Object.entries(this.data).map(([name, values]) => [name, values.slice(start)])));
    for (const drops of ['drops_limit_per_s', 'drops_buffer_per_s', 'drops_loss_per_s']) {
      const inbound = cut[`inbound_${drops}`];
      cut[drops] = cut[`outbound_${drops}`].map((v, i) => (v === null || inbound[i] === null ? null : v + inbound[i]));
    }
    return cut;
  }

  #fill() {
    if (!this.data.at_ms?.length) return;
    const cut = this.#columns();
    this.cut = cut;
    const last = cut.at_ms.at(-1) / 1000;
    this.changes.between(last - this.seconds, last + 1); // the last second goes on
    const now = Object.fromEntries(Object.entries(cut).map(([name, values]) => [name, values.at(-1)]));
    CHARTS.forEach((chart, i) => {
      const range = chart.range?.(cut);
      const text = chart.says(now) + (range && !this.plots[i].zoomed ? chart.beyond(cut, range[1]) : '');
      setText(this.captions[i], text);
      this.figures[i].querySelector('.plot').setAttribute('aria-label', `${chart.title} of ${this.lane}: ${text}`);
      this.drawings[i].changed();
    });
  }

  #draw(chart, plot) {
    const { cut } = this;
    const x = cut.at_ms.map((t) => t / 1000);
    plot.shownRange = chart.range?.(cut).map((ns) => ns * 1e-6);
    plot.setData([x, ...chart.series.map(([name, , , factor]) => times(factor)(cut[name]))], !plot.zoomed);
    if (!plot.zoomed) plot.setScale('x', { min: x.at(-1) - this.seconds, max: x.at(-1) });
    else plot.redraw();
  }

  #build() {
    this.plots?.forEach((plot) => plot.destroy());
    this.root.replaceChildren();
    this.captions = [];
    this.figures = CHARTS.map((chart) => {
      const caption = el('figcaption', {}, '');
      this.captions.push(caption);
      const keys = chart.series.map(([, label, tone]) => el('span', { class: `key ${tone}` }, label));
      const figure = el('figure', { class: 'chart' }, el('h3', {}, chart.title, ...keys), el('div', { class: 'plot', role: 'img', 'aria-label': chart.title }), caption);
      this.root.append(figure);
      return figure;
    });
    this.plots = CHARTS.map((chart, i) => this.#plot(chart, this.figures[i].querySelector('.plot')));
    this.drawings = CHARTS.map((chart, i) => new InSight(this.figures[i], () => this.#draw(chart, this.plots[i])));
    this.#fill();
  }

  #plot(chart, place) {
    const axis = { stroke: color('soft'), grid: { stroke: color('line'), width: 1 }, ticks: { stroke: color('line'), width: 1 } };
    const series = chart.series.map(([, label, tone, , dash]) => ({ label, stroke: color(tone), width: 2, dash, points: { show: false }, spanGaps: false }));
    const bands = chart.band ? [{ series: chart.band, fill: color('band') }] : [];
    const options = {
      width: place.clientWidth || 400, height: 184, series: [{}, ...series], bands,
      axes: [{ ...axis, space: 90, values: (_, splits) => splits.map(clock) }, { ...axis, size: 64 }], legend: { show: false },
      scales: { y: { range: (self, low, high) => (chart.floor ? [0, Math.max(high ?? 1, 1) * 1.1]
        : self.shownRange && !self.zoomed ? self.shownRange : [(low ?? 0) * 0.9, (high ?? 1) * 1.1 + 0.01]) } },
      cursor: { sync: { key: 'lane' } },
      hooks: { draw: [(plot) => this.changes.draw(plot)], setSelect: [(plot) => { plot.zoomed = plot.select.width > 0; }] },
    };
    const plot = new uPlot(options, [[], ...series.map(() => [])], place);
    plot.over.addEventListener('dblclick', () => {
      plot.zoomed = false;
      this.#fill();
    });
    return plot;
  }

  #resize() {
    this.plots.forEach((plot, i) => {
      const width = this.figures[i].querySelector('.plot').clientWidth;
      if (width && width !== plot.width) plot.setSize({ width, height: 184 });
    });
  }
}

export function controls(graphs) {
  $('span').addEventListener('change', (event) => { graphs.span = Number(event.target.value); });
  $('pause').addEventListener('click', (event) => {
    graphs.paused = !graphs.paused;
    event.target.setAttribute('aria-pressed', String(graphs.paused));
    event.target.textContent = graphs.paused ? 'Go on' : 'Pause';
  });
}
