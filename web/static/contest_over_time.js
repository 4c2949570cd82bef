// Groups of flows over time: what each got beside the line that they share, its windows, and the queue that it saw.

import { titled } from './run_names.js';
import { mib, ms, throughput } from './units.js';

const TONES = ['out', 'in', 'violet', 'red', 'green'];
const MIB = 2 ** 20;

// A group's name; of several groups of one name, with its number.
function nameOf(groups, number) {
  const alike = groups.filter(({ group }) => group === groups[number].group);
  return alike.length > 1 ? `${groups[number].group} (${alike.indexOf(groups[number]) + 1})` : groups[number].group;
}

// What was measured of one group in one run: its name, and how it is drawn; the run that it is compared with is dashed.
export function contestCurves(answers) {
  const found = answers.filter(({ contest }) => contest);
  return found.flatMap((answer, nth) => answer.contest.groups.map((group, number, all) => ({
    answer, group, contest: answer.contest, several: true, tone: TONES[number % TONES.length], dash: nth ? [2, 3] : undefined,
    label: `${found.length > 1 ? `run ${titled(answer.run)}, ` : ''}${nameOf(all, number)}`,
  })));
}

const ends = ({ contest }, values, factor) => values.map((value, nth) => [(nth + 1) * contest.interval_s, value === null ? null : value * factor]);
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);

// The intervals of the steady part, of which the table's figures are.
function steady({ contest }, values) {
  const [from, until] = [contest.steady_from_s, contest.steady_until_s].map((time) => Math.round(time / contest.interval_s));
  return values.slice(from, until).filter((value) => value !== null);
}

function rates(curve) {
  const measured = ends(curve, curve.group.bytes_per_s, 1 / MIB);
  const { line_bytes_per_s: line } = curve.contest;
  const says = `${curve.label}: ${throughput(mean(steady(curve, curve.group.bytes_per_s)))} in the steady part, of a line of ${mib(line)} MiB/s.`;
  const first = curve.group === curve.contest.groups[0]; // the line is drawn once
  return { ...curve, measured: [[0, measured[0]?.[1] ?? 0], ...measured], theory: first ? measured.map(([time]) => [time, line / MIB]) : undefined, says };
}

function windows(curve) {
  const known = steady(curve, curve.group.cwnd_bytes);
  const says = known.length ? `${curve.label}: ${mib(mean(known))} MiB on average in the steady part.` : `${curve.label}: not known.`;
  return { ...curve, measured: ends(curve, curve.group.cwnd_bytes, 1 / MIB), says };
}

function queueing(curve) {
  const known = steady(curve, curve.group.queueing_ns);
  const says = known.length ? `${curve.label}: ${ms(mean(known), 2)} on average in the steady part.` : `${curve.label}: not known.`;
  return { ...curve, measured: ends(curve, curve.group.queueing_ns, 1e-6), says };
}

export function contestCharts(curves) {
  const charts = [{ title: 'Throughput of each group, MiB/s', curves: curves.map(rates), stepped: true, theory: 'the line' },
    { title: 'Congestion windows of each group, MiB', curves: curves.map(windows) }, { title: 'Queueing that each group sees, ms', curves: curves.map(queueing) }];
  return charts.map((chart) => ({ ...chart, said: chart.curves.map(({ says }) => says) }));
}
