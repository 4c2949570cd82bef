// Test runs: build a grid, see what it will cost, start it, watch the table fill.

import { $, ask, el, listen, mayWrite, onClick, say, sayFailure } from './api.js';
import { ms, span, throughput } from './units.js';

const form = $('new');
const FIRST = ['rtt', 'lane', 'tcp_profile', 'streams', 'rate', 'duration'];
const START = { rtt: '0ms, 32ms, 80ms', tcp_profile: 'default, max', streams: '1', rate: '100Mbit' };
let axes = [];
let shown = '';
let current = null;

function asked() {
  const said = {};
  for (const { key } of axes) {
    const input = form.elements[key];
    // The server splits lists: it asks where a comma can also be a decimal one.
    const values = key === 'lane' ? [...input.selectedOptions].map((option) => option.value) : input.value.trim().replace(/,$/, '');
    if (values.length) said[key] = values;
  }
  if ($('in_lab')?.checked) said.in_lab = true;
  return said;
}

// The form, made of the table of axes that the server tells: one field each, the most used ones first.
async function build() {
  ({ axes } = await ask('GET', '/api/axes'));
  const byKey = new Map(axes.map((axis) => [axis.key, axis]));
  $('axes').replaceChildren(...FIRST.map((key) => field(byKey.get(key))));
  $('more-axes').replaceChildren(...axes.filter(({ key }) => !FIRST.includes(key)).map(field));
}

function field(axis) {
  const hint = `${axis.key}-hint`;
  const attributes = { id: axis.key, name: axis.key, 'aria-describedby': hint };
  const input = axis.key === 'lane' ? el('select', { ...attributes, multiple: true, size: 4 })
    : el('input', { ...attributes, value: START[axis.key] ?? '', placeholder: axis.default });
  const range = axis.least === null ? '' : ` ${axis.least} to ${axis.most}.`;
  const several = axis.single || axis.key === 'lane' ? '' : ` Such as ${axis.examples.join(', ')}.`;
  return el('div', { id: `${axis.key}-field` }, el('label', { for: axis.key }, axis.label), input,
    el('p', { id: hint, class: 'hint' }, `${axis.help}${several}${range} Empty: ${axis.default}.`));
}

let waiting = 0;
function predict() {
  if (!mayWrite) return;
  clearTimeout(waiting);
  waiting = setTimeout(async () => {
    for (const one of form.elements) one.removeAttribute('aria-invalid');
    try {
      const plan = await ask('POST', '/api/runs?dry_run=1', asked());
      const rates = plan.cells.map((cell) => cell.expected_bytes_per_s);
      const range = `${[...new Set([Math.min(...rates), Math.max(...rates)].map(throughput))].join(' to ')} expected`;
      $('predicted').textContent = `${plan.total} ${plan.total === 1 ? 'cell' : 'cells'}, about ${span(plan.left_s)}; ${range}.`;
      $('start').disabled = !mayWrite;
    } catch (problem) {
      $('predicted').textContent = problem.mistakes?.map((m) => `${m.path}: ${m.text}`).join(' ') || problem.message;
      for (const m of problem.mistakes ?? []) form.elements[m.path.split('.')[0]]?.setAttribute('aria-invalid', 'true');
      $('start').disabled = true;
    }
  }, 250);
}

async function names(select = '') {
  const { runs } = await ask('GET', '/api/runs');
  $('none').hidden = runs.length > 0;
  $('pick').hidden = !runs.length;
  $('shown').hidden = runs.length === 0;
  const options = () => runs.map((name) => el('option', { value: name }, name));
  $('run').replaceChildren(...options());
  const other = $('other').value;
  $('other').replaceChildren(el('option', { value: '' }, '–'), ...options());
  $('other').value = runs.includes(other) ? other : '';
  if (runs.length) await choose(runs.includes(select) ? select : runs.includes(shown) ? shown : runs[0]);
}

async function choose(name) {
  shown = name;
  $('run').value = name;
  const base = `/api/runs/${name}`;
  $('report').href = `${base}/report?format=html`;
  for (const kind of ['html', 'md', 'csv', 'json']) {
    $(kind).href = `${base}/report?format=${kind}`;
    $(kind).download = `${name}.${kind}`;
  }
  show(await ask('GET', base));
}

async function compared() {
  const name = $('other').value;
  if (!name || name === shown) return {};
  const other = await ask('GET', `/api/runs/${name}`);
  return Object.fromEntries(other.cells.map((cell) => [cell.id, cell.steady_bytes_per_s]));
}

async function show(run) {
  if (run.id !== shown) return;
  current = run;
  const before = await compared();
  $('progress').max = run.total;
  $('progress').value = run.finished;
  const left = run.state === 'running' ? `, about ${span(run.left_s)} left` : '';
  $('left').textContent = `${run.finished} of ${run.total} cells, ${run.state}${left}${run.trouble ? `: ${run.trouble}` : ''}`;
  $('cancel').hidden = run.state !== 'running';
  $('forget').hidden = run.state === 'running';
  const failed = run.cells.some((cell) => cell.state === 'failed');
  $('resume').hidden = run.state === 'running' || (run.state !== 'stopped' && !failed);
  $('resume').textContent = run.state === 'stopped' ? 'Resume' : 'Measure failed cells again';
  const rows = run.cells.map((cell) => {
    const steady = throughput(cell.steady_bytes_per_s);
    const change = before[cell.id] && cell.steady_bytes_per_s ? ` (${((cell.steady_bytes_per_s / before[cell.id] - 1) * 100).toFixed(1)} %)` : '';
    const mark = cell.invalid.length ? '✗ ' : cell.settled === false ? '~ ' : '';
    const why = cell.failure ?? [cell.limiter, ...cell.invalid, ...cell.notes].filter(Boolean).join('; ');
    return el('tr', { class: cell.state }, el('td', {}, `${cell.lane}, ${cell.column}`), el('td', {}, ms(cell.rtt_ns, 0)), el('td', {}, ms(cell.rtt_measured_ns, 3)),
      el('td', {}, throughput(cell.expected_bytes_per_s)), el('td', { class: cell.invalid.length || cell.failure ? 'failed' : '' }, mark + steady + change), el('td', { class: 'wrap' }, why || (cell.state === 'waiting' ? '…' : '')));
  });
  $('cells').tBodies[0].replaceChildren(...rows);
}

onClick('start', async () => {
  const run = await ask('POST', '/api/runs', asked());
  say(`Run ${run.id} has begun.`);
  await names(run.id);
});
onClick('cancel', async () => {
  const run = await ask('POST', `/api/runs/${shown}/cancel`);
  say(run.state === 'running' ? 'Cancelled: cells at work end first.' : `Run ${run.id} had ended before: its results stay.`);
  await show(run);
});
onClick('forget', async () => {
  if (!confirm(`Delete run ${shown} and its results?`)) return;
  await ask('DELETE', `/api/runs/${shown}`);
  shown = '';
  await names();
});
onClick('resume', async () => show(await ask('POST', `/api/runs/${shown}/resume`)));
$('run').addEventListener('change', (event) => choose(event.target.value).catch(sayFailure));
$('other').addEventListener('change', () => current && show(current).catch(sayFailure));
form.addEventListener('input', predict);
listen('run', (run) => (run.id === shown ? show(run).catch(sayFailure) : null));
listen('back', () => names().catch(sayFailure));

async function start() {
  for (const id of ['start', 'cancel', 'forget', 'resume']) $(id).disabled = !mayWrite;
  await build();
  const status = await ask('GET', '/api/status');
  $('lane').replaceChildren(...status.lanes.map((lane) => el('option', { value: lane.name }, `${lane.name}, ${ms(lane.rtt_ns, 0)}`)));
  $('lane-field').hidden = !status.lanes.length;
  predict();
  await names();
}
start().catch(sayFailure);
