// The round trips of a recording over time: their extremes in each step, and below them what was lost.

import { ask, el } from './api.js';
import { TimeCharts } from './time_charts.js';
import { ms } from './units.js';

const sum = (counts) => counts.reduce((all, count) => all + count, 0);

function chartsOf({ step_ns: step, least_ns: least, most_ns: most, lost }) {
  const points = (values) => values.map((ns, nth) => [(nth + 0.5) * (step / 1e9), ns === null ? null : ns / 1e6]);
  const known = (values) => values.filter((ns) => ns !== null);
  const gone = sum(lost);
  if (!known(least).length && !gone) return [];
  const said = known(least).length ? `${ms(Math.min(...known(least)), 3)} to ${ms(Math.max(...known(most)), 3)}, in steps of ${step / 1e9} s.` : 'No answer.';
  const curves = [{ label: 'least', tone: 'out', measured: points(least) }, { label: 'most', tone: 'in', measured: points(most) }];
  const losses = { title: 'Lost probes', curves: [{ label: 'in each step', tone: 'red', measured: lost.map((count, nth) => [(nth + 1) * (step / 1e9), count]) }], stepped: true, said: [`${gone} in all.`] };
  return [{ title: 'RTT, ms', curves, close: true, said: [said] }, ...(gone ? [losses] : [])];
}

export class RecordingCurve {
  constructor() {
    this.root = el('div', { class: 'curve' });
    this.charts = new TimeCharts(this.root, 'h3');
    this.asking = 0;
  }

  // Shows a recording; the time axis of an active one ends when it will (`forNs`). Of two answers the one that was asked for later counts.
  async load(path, forNs = null) {
    const mine = (this.asking += 1);
    const curve = await ask('GET', `${path}/curve`);
    if (mine === this.asking) this.charts.show(chartsOf(curve), (forNs ?? curve.step_ns * curve.lost.length) / 1e9);
  }
}
