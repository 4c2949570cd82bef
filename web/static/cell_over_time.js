// A cell over the time of its measurement, of the run that is shown and of the one it is compared with: charts with
// theory, what the pointer is at, and the same as a table.

import { $, ask, el, sayFailure } from './api.js';
import { contestCharts, contestCurves } from './contest_over_time.js';
import { titled } from './run_names.js';
import { TimeCharts } from './time_charts.js';
import { ms, size, throughput } from './units.js';

const TONES = ['out', 'violet', 'in', 'red'];
const MIB = 2 ** 20;
const places = (value, digits = 3) => (value === undefined || value === null ? '–' : String(Number(value.toPrecision(digits))));
const pairs = (times, values, factor = 1) => times.map((time, nth) => [time, values[nth] === null ? null : values[nth] * factor]);
// Steps begin where the first one does.
const steps = ({ start_s: starts, end_s: ends }, values) => [[starts[0], values[0] / MIB], ...pairs(ends, values, 1 / MIB)];

// What was measured of one direction of one run: its name, if there are several, and how it is drawn.
function curvesOf(answers) {
  const all = answers.flatMap((answer, nth) => answer.directions.map((way) => ({ answer, way, dash: nth ? [2, 3] : undefined })));
  const named = ({ answer, way }) => [answers.length > 1 ? `run ${titled(answer.run)}` : '', answer.directions.length > 1 ? way.direction : ''].filter(Boolean).join(', ') || 'measured';
  return all.map((one, nth) => ({ ...one, label: named(one), tone: TONES[nth % TONES.length], several: all.length > 1 }));
}

const of = (curve, text) => (curve.several ? `${curve.label}: ${text}` : text[0].toUpperCase() + text.slice(1));

function rates(curve) {
  const { intervals, ceiling, slow_start_s: slow, steady_bytes_per_s: steady, steady_from_s: from } = curve.way;
  const says = of(curve, `steady ${throughput(steady)} from ${places(from)} s on. Theory: ${slow > 0.0005 ? `slow start of ${places(slow)} s, then ` : ''}${ceiling.law}, ${throughput(ceiling.bytes_per_s)}, ${ceiling.named ? 'the ceiling that the verdict names' : 'which theory expected to limit it'}.`);
  return { ...curve, measured: steps(intervals, intervals.bytes_per_s), theory: steps(intervals, intervals.expected_bytes_per_s), says };
}

function windows(curve) {
  const { ramp } = curve.way;
  const carries = ramp.expected_bytes.at(-1);
  const says = of(curve, `at most ${size(Math.max(...ramp.cwnd_bytes))}. ${carries ? `Theory: ${size(carries)} in flight carry the ceiling.` : 'At RTT 0 any window carries the ceiling.'}`);
  return { ...curve, measured: pairs(ramp.end_s, ramp.cwnd_bytes, 1 / MIB), theory: carries ? pairs(ramp.end_s, ramp.expected_bytes, 1 / MIB) : [], says };
}

function trips(curve) {
  const { ramp, full_queue_rtt_ns: full } = curve.way;
  const asked = curve.answer.rtt_ns;
  const says = of(curve, `${ms(Math.min(...ramp.rtt_ns), 2)} to ${ms(Math.max(...ramp.rtt_ns), 2)}. Theory: ${ms(asked, 2)} asked${full ? `, ${ms(full, 2)} with a full queue` : ''}.`);
  return { ...curve, measured: pairs(ramp.end_s, ramp.rtt_ns, 1e-6), theory: ramp.end_s.map((time) => [time, asked / 1e6]), says };
}

function chartsOf(curves) {
  const ramped = curves.filter(({ way }) => way.ramp.end_s.length);
  const charts = [{ title: 'Throughput at the receiver, MiB/s', curves: curves.map(rates), stepped: true }];
  if (ramped.length) charts.push({ title: 'Congestion window of all streams, MiB', curves: ramped.map(windows) }, { title: 'RTT under load, ms', curves: ramped.map(trips), close: true });
  return charts.map((chart) => ({ ...chart, said: chart.curves.map(({ says }) => says) }));
}

// The value of the last time that is not after `time`, or of the interval that holds it.
function valueAt(points, time, stepped) {
  const found = stepped ? points.find(([end]) => end >= time) : points.findLast(([end]) => end <= time + 1e-6);
  return found?.[1];
}

export class CellOverTime {
  constructor() {
    this.asked = '';
    this.charts = new TimeCharts($('cell-charts'), 'h4', (time) => this.#hover(time));
    $('cell-log').addEventListener('change', (event) => {
      this.charts.log = event.target.checked;
      this.charts.draw();
    });
    $('cell-rows').addEventListener('toggle', () => this.#table());
  }

  // Shows a cell of a run, and of the other one if it is measured there; it asks again when either is measured anew.
  async show(run, cell, other) {
    const beside = other?.cells.find(({ id }) => id === cell.id);
    const wanted = JSON.stringify([titled(run.id), cell.id, cell.state, cell.steady_bytes_per_s, other && titled(other.id), beside?.state]);
    if (wanted === this.asked) return;
    this.asked = wanted;
    const ofRun = (id) => ask('GET', `/api/runs/${id}/cells/${encodeURIComponent(cell.id)}`);
    try {
      const answers = await Promise.all([ofRun(run.id), ...(beside ? [ofRun(other.id)] : [])]);
      if (this.asked === wanted) this.#fill(answers, other && !beside ? [`Run ${titled(other.id)} has no such cell.`] : []);
    } catch (problem) {
      this.asked = '';
      sayFailure(problem);
    }
  }

  #fill(answers, notes) {
    const [ways, groups] = [curvesOf(answers), contestCurves(answers)];
    this.curves = groups.length ? groups : ways;
    this.shown = groups.length ? contestCharts(groups) : ways.length ? chartsOf(ways) : [];
    this.units = groups.length ? ['MiB/s', 'MiB window', 'ms queueing'] : ['MiB/s', 'MiB window', 'ms RTT'];
    const untold = [...answers.map(({ run, untold: text }) => [run, text]), ...ways.map(({ answer, way }) => [answer.run, way.untold])].filter(([, text]) => text);
    const told = untold.map(([run, text]) => (answers.length > 1 ? `Run ${titled(run)}: ${text}` : text));
    const repeats = answers[0].repeats > 1 && this.curves.length ? [`The median one of ${answers[0].repeats} measurements is drawn.`] : [];
    $('cell-untold').replaceChildren(...[...new Set([...repeats, ...told, ...notes])].map((text) => el('p', {}, text)));
    $('cell-times').hidden = !this.curves.length;
    this.charts.show(this.shown);
    this.#table();
    this.#hover(null);
  }

  #hover(time) {
    if (time === null || !this.shown?.length) {
      $('cell-at').textContent = '';
      return;
    }
    const told = this.curves.map((curve) => {
      const values = this.shown.map(({ curves, stepped }, nth) => [curves.find(({ label }) => label === curve.label), stepped, this.units[nth]]);
      const texts = values.filter(([found]) => found).map(([found, stepped, unit]) => `${places(valueAt(found.measured, time, stepped), 4)} ${unit}`);
      return curve.several ? `${curve.label}: ${texts.join(', ')}` : texts.join(', ');
    });
    $('cell-at').textContent = `At ${time.toFixed(2)} s: ${told.join('; ')}`;
  }

  // One row for each time at which something was measured; it is filled when it is opened.
  #table() {
    if (!$('cell-rows').open || !this.shown?.length) return;
    const key = (time) => time.toFixed(2);
    const columns = this.shown.flatMap(({ title, curves }) => curves.flatMap(({ label, several, measured, theory }) => {
      const head = several ? `${title}, ${label}` : title;
      return [[head, measured], ...(theory?.length ? [['Theory of it', theory]] : [])];
    })).map(([head, points]) => [head, new Map(points.map(([time, value]) => [key(time), value]))]);
    const times = [...new Set(columns.flatMap(([, values]) => [...values.keys()]))].map(Number).filter((time) => time > 0).sort((one, other) => one - other);
    const table = $('cell-rows').querySelector('table');
    table.tHead.rows[0].replaceChildren(...['Time, s', ...columns.map(([head]) => head)].map((text) => el('th', { scope: 'col' }, text)));
    table.tBodies[0].replaceChildren(...times.map((time) => el('tr', {}, el('th', { scope: 'row' }, key(time)), ...columns.map(([, values]) => el('td', {}, places(values.get(key(time)), 4))))));
  }
}
