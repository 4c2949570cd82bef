// The cell of a run that somebody has opened: its verdict, evidence and advice, and its figures over time.

import { $, el, say } from './api.js';
import { CellOverTime } from './cell_over_time.js';
import { titled } from './run_names.js';
import { ms, seconds, throughput } from './units.js';

const half = (cell) => (cell.half_width_bytes_per_s ? ` ± ${throughput(cell.half_width_bytes_per_s)}` : '');

function rowsOf(cell) {
  const rows = [['RTT', `${ms(cell.rtt_ns, 3)} asked, ${ms(cell.rtt_measured_ns, 3)} measured`]];
  if (cell.steady_bytes_per_s !== null) rows.push(['Steady', throughput(cell.steady_bytes_per_s) + half(cell)]);
  if (cell.completion_s !== null) rows.push(['Time', seconds(cell.completion_s, cell.completion_half_width_s)]);
  if (cell.requests_per_s !== null) rows.push(['Requests', `${Number(cell.requests_per_s.toPrecision(4))} a second`]);
  if (cell.expected_bytes_per_s) rows.push(['Expected', throughput(cell.expected_bytes_per_s)]);
  if (cell.state === 'done') {
    rows.push(['Limited by', cell.limiter], ['Evidence', cell.evidence || '–'], ['What would lift it', cell.advice || 'No single setting is known.']);
  }
  if (cell.invalid.length) rows.push(['Not valid', cell.invalid.join('; ')]);
  if (cell.notes.length) rows.push(['Notes', cell.notes.join('; ')]);
  if (cell.failure) rows.push(['Failed', cell.failure]);
  if (cell.state === 'waiting') rows.push(['State', 'not measured yet']);
  return rows;
}

// What each group of flows got, with the columns and texts of the command line.
function groups(columns, texts) {
  const box = $('cell-groups');
  box.hidden = !texts.length;
  box.querySelector('thead tr').replaceChildren(...columns.map((text) => el('th', { scope: 'col' }, text)));
  box.querySelector('tbody').replaceChildren(...texts.map(([name, ...rest]) => el('tr', {}, el('th', { scope: 'row' }, name), ...rest.map((text) => el('td', {}, text)))));
}

export class OpenedCell {
  // `changed` is called when somebody opens or closes a cell.
  constructor(changed) {
    this.id = '';
    this.changed = changed;
    this.overTime = new CellOverTime();
    $('cell-close').addEventListener('click', () => this.close());
    $('cell').addEventListener('keydown', (event) => event.key === 'Escape' && this.close());
  }

  open(id) {
    this.id = id;
    this.changed();
    $('cell-title').focus({ preventScroll: true });
    $('cell').scrollIntoView({ block: 'start' });
  }

  close() {
    const id = this.id;
    this.id = '';
    this.changed();
    document.querySelector(`#cells button[data-cell="${CSS.escape(id)}"]`)?.focus();
  }

  // Shows the cell in its run as that is now, beside the run that it is compared with; what is as before stays as it is.
  show(run, other) {
    const cell = run.cells.find(({ id }) => id === this.id);
    $('cell').hidden = !cell;
    if (!cell) {
      if (this.id) say(`Run ${titled(run.id)} has no cell ${this.id}.`, true);
      this.id = '';
      return;
    }
    $('cell-title').textContent = `${cell.lane}, ${cell.column}, ${ms(cell.rtt_ns, 0)}`;
    groups(run.group_columns, cell.group_texts);
    const rows = rowsOf(cell);
    const said = JSON.stringify(rows);
    if ($('cell-body').dataset.of !== said) $('cell-body').replaceChildren(...rows.flatMap(([name, text]) => [el('dt', {}, name), el('dd', {}, text)]));
    $('cell-body').dataset.of = said;
    this.overTime.show(run, cell, other);
  }
}
