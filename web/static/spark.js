// A small graph of the last minute: the measured RTT over a band where it is asked to be.

import { InSight } from './in_sight.js';
import { ms } from './units.js';

const NS = 'http://www.w3.org/2000/svg';
const KEPT = 60;
const [WIDTH, HEIGHT] = [110, 28];
const BAND = 0.02; // of the asked RTT, to each side
const LEAST_BAND = 1.5; // in pixels, to each side

function part(name, attributes) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

export class Spark {
  constructor() {
    this.points = []; // {asked, median} in ns, one a second; null where unknown
    this.root = part('svg', { class: 'spark', viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': 'not measured yet' });
    this.band = part('path', { class: 'asked' });
    this.line = part('path', { class: 'measured' });
    this.root.append(this.band, this.line);
    this.drawing = new InSight(this.root, () => this.#draw());
  }

  set past({ asked_ns: asked, median_ns: median }) {
    this.points = asked.map((one, i) => ({ asked: one, median: median[i] })).slice(-KEPT);
    this.#changed();
  }

  add(asked, median) {
    this.points.push({ asked, median });
    if (this.points.length > KEPT) this.points.shift();
    this.#changed();
  }

  get #medians() {
    return this.points.map((one) => one.median).filter((one) => one !== null);
  }

  #changed() {
    const medians = this.#medians;
    const text = medians.length ? `measured ${ms(Math.min(...medians))} to ${ms(Math.max(...medians))} in the last minute` : 'not measured';
    if (this.root.getAttribute('aria-label') !== text) this.root.setAttribute('aria-label', text);
    this.drawing.changed();
  }

  // Single slow echoes are cut off at three times of what is usual: they would press all else flat.
  #range(medians) {
    const asked = this.points.map((one) => one.asked).filter((one) => one !== null);
    const usual = [...medians].sort((a, b) => a - b)[Math.floor(medians.length / 2)] ?? 0;
    const high = Math.max(...asked, Math.min(Math.max(...medians, 0), 3 * Math.max(usual, ...asked)), 1e6);
    return [Math.min(...asked, ...medians, high) * 0.8, high * 1.15];
  }

  // Seconds in a row that ask for the same RTT are one part of the band: as a rule there is one.
  #runs() {
    const runs = [];
    this.points.forEach(({ asked }, i) => {
      const run = runs.at(-1);
      if (asked === null) return;
      if (run && run.asked === asked && run.last === i - 1) run.last = i;
      else runs.push({ asked, first: i, last: i });
    });
    return runs;
  }

  #draw() {
    const [low, high] = this.#range(this.#medians);
    const y = (ns) => Math.max(0, HEIGHT * (1 - (ns - low) / (high - low)));
    const x = (i) => WIDTH * (1 - (this.points.length - 1 - i) / (KEPT - 1));
    this.band.setAttribute('d', this.#runs().map(({ asked, first, last }) => {
      const [to, half] = [y(asked), Math.max(LEAST_BAND, y(asked * (1 - BAND)) - y(asked))];
      const [left, right] = [x(first) - 1, x(last) + 1];
      return `M${left.toFixed(1)} ${(to - half).toFixed(1)}h${(right - left).toFixed(1)}v${(2 * half).toFixed(1)}H${left.toFixed(1)}z`;
    }).join(''));
    this.line.setAttribute('d', this.points.map(({ median }, i) => {
      if (median === null) return '';
      const begins = i === 0 || this.points[i - 1].median === null;
      return `${begins ? 'M' : 'L'}${x(i).toFixed(1)} ${y(median).toFixed(1)}${begins ? 'h.1' : ''}`;
    }).join(''));
  }
}
