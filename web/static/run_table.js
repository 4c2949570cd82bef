// The table of a run's cells: throughput of streams, completion times of a program, answers to requests, or shares of flows.

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
// The columns and texts are the command line's: the first is how many were answered a second.
const requests = (columns) => ({
  heads: columns,
  figure: (cell) => cell.requests_per_s,
  texts: (cell, change) => columns.map((_, nth) => (cell.request_texts[nth] ?? '–') + (nth ? '' : change)),
  judged: 0,
  marked: true,
});

const FLOWS = {
  heads: ['Shares of the throughput'],
  figure: () => null,
  texts: (cell) => [cell.shares || '–'],
  judged: 0,
  marked: true,
};

function kindOf(run) {
  if (run.workload) return PROGRAM;
  if (run.request_columns.length) return requests(run.request_columns);
  return run.group_columns.length ? FLOWS : STREAMS;
}

// The figures by which two runs are compared, by cell.
export const figures = (run) => Object.fromEntries(run.cells.map((cell) => [cell.id, kindOf(run).figure(cell)]));

// Fills the table; `before` has the figures of the run that this one is compared with. `opened` is the opened cell, which
// the buttons open; the one that has the focus keeps it.
export function fill(table, run, before, opened) {
  const kind = kindOf(run);
  const heads = ['Cell', 'RTT asked', 'Measured', ...kind.heads].map((text) => el('th', { scope: 'col' }, text));
  table.tHead.rows[0].replaceChildren(...heads, el('th', { scope: 'col', class: 'text' }, 'Limited by'));
  const focused = table.contains(document.activeElement) ? document.activeElement.dataset.cell : undefined;
  table.tBodies[0].replaceChildren(...run.cells.map((cell) => row(cell, kind, before, opened)));
  if (focused) [...table.querySelectorAll('[data-cell]')].find(({ dataset }) => dataset.cell === focused)?.focus({ preventScroll: true });
}

function row(cell, kind, before, opened) {
  const button = el('button', { type: 'button', 'data-cell': cell.id, 'aria-expanded': String(cell.id === opened.id), 'aria-controls': 'cell', onclick: () => opened.open(cell.id) }, `${cell.lane}, ${cell.column}`);
  const figure = kind.figure(cell);
  const change = before[cell.id] && figure ? ` (${((figure / before[cell.id] - 1) * 100).toFixed(1)} %)` : '';
  const mark = kind.marked ? '' : cell.invalid.length ? '✗ ' : cell.settled === false ? '~ ' : '';
  const why = cell.failure ?? [cell.limiter, ...cell.invalid, ...cell.notes].filter(Boolean).join('; ');
  const texts = kind.texts(cell, change).map((text, nth) => (nth === kind.judged
    ? el('td', { class: cell.invalid.length || cell.failure ? 'failed' : '' }, mark + text) : el('td', {}, text)));
  return el('tr', { class: cell.state }, el('td', {}, button), el('td', {}, ms(cell.rtt_ns, 0)),
    el('td', {}, ms(cell.rtt_measured_ns, 3)), ...texts, el('td', { class: 'wrap' }, why || (cell.state === 'waiting' ? '…' : '')));
}
