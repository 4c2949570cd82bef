// The table of a run's cells: throughput of streams, completion times of a program, or answers to requests.

import { el } from './api.js';
import { ms, seconds, throughput } from './units.js';

const share = (value) => (value === null ? '–' : `${(value * 100).toFixed(1)} %`);

const STREAMS = {
  heads: ['Expected', 'Steady'],
  figure: (cell) => cell.steady_bytes_per_s,
  texts: (cell, change) => [throughput(cell.expected_bytes_per_s), throughput(cell.steady_bytes_per_s) + change],
  judged: 1,
};
const PROGRAM = {
  heads: ['Time', 'Round trips', 'Efficiency', 'Connections'],
  figure: (cell) => cell.completion_s,
  texts: (cell, change) => [seconds(cell.completion_s, cell.completion_half_width_s) + change, cell.round_trips?.toFixed(1) ?? '–', share(cell.efficiency), String(cell.connections ?? '–')],
  judged: 0,
};
const REQUESTS = {
  heads: ['Requests/s', 'Median', 'p99.9'],
  figure: (cell) => cell.requests_per_s,
  texts: (cell, change) => [(cell.requests_per_s?.toPrecision(4) ?? '–') + change, ms(cell.request_p50_ns, 2), ms(cell.request_p99_9_ns, 2)],
  judged: 0,
};

const kindOf = (run) => (run.workload ? PROGRAM : run.cells.some((cell) => cell.requests_per_s !== null) ? REQUESTS : STREAMS);

// The figures by which two runs are compared, by cell.
export const figures = (run) => Object.fromEntries(run.cells.map((cell) => [cell.id, kindOf(run).figure(cell)]));

// Fills the table; `before` has the figures of the run that this one is compared with.
export function fill(table, run, before) {
  const kind = kindOf(run);
  const heads = ['Cell', 'RTT asked', 'Measured', ...kind.heads].map((text) => el('th', { scope: 'col' }, text));
  table.tHead.rows[0].replaceChildren(...heads, el('th', { scope: 'col', class: 'text' }, 'Limited by'));
  table.tBodies[0].replaceChildren(...run.cells.map((cell) => row(cell, kind, before)));
}

function row(cell, kind, before) {
  const figure = kind.figure(cell);
  const change = before[cell.id] && figure ? ` (${((figure / before[cell.id] - 1) * 100).toFixed(1)} %)` : '';
  const mark = cell.invalid.length ? '✗ ' : cell.settled === false ? '~ ' : '';
  const why = cell.failure ?? [cell.limiter, ...cell.invalid, ...cell.notes].filter(Boolean).join('; ');
  const texts = kind.texts(cell, change).map((text, nth) => (nth === kind.judged
    ? el('td', { class: cell.invalid.length || cell.failure ? 'failed' : '' }, mark + text) : el('td', {}, text)));
  return el('tr', { class: cell.state }, el('td', {}, `${cell.lane}, ${cell.column}`), el('td', {}, ms(cell.rtt_ns, 0)),
    el('td', {}, ms(cell.rtt_measured_ns, 3)), ...texts, el('td', { class: 'wrap' }, why || (cell.state === 'waiting' ? '…' : '')));
}
