// Test runs: build a grid of streams or of a program, see what it will cost, start it, watch the table fill.

import { $, ask, el, listen, mayWrite, onClick, say, sayFailure } from './api.js';
import { LawChart } from './law_chart.js';
import { clear, show as showMistakes } from './mistakes.js';
import { OpenedCell } from './opened_cell.js';
import { buildPresets } from './presets.js';
import { buildProgram, kindOfRun, program } from './program.js';
import { showComparison } from './run_comparison.js';
import * as runNames from './run_names.js';
import { figures, fill } from './run_table.js';
import { ThroughputChart } from './throughput_chart.js';
import { ms, seconds, span, throughput } from './units.js';

const form = $('new');
const FIRST = ['rtt', 'lane', 'tcp_profile', 'streams', 'rate', 'duration'];
const START = { rtt: '0ms, 32ms, 80ms', tcp_profile: 'default, max', streams: '1', rate: '100Mbit' };
let axes = [];
let ofRequests = [];
let shown = '';
let current = null;
let beside = null;
const chart = new LawChart($('law-chart'));
const opened = new OpenedCell(() => {
  keepAddress();
  showCells();
});
const throughputs = new ThroughputChart($('throughput'), (id) => opened.open(id));
let wanted = '';
let wantedCell = '';

function asked() {
  const said = {};
  for (const { key } of axes) {
    if ($(`${key}-field`).hidden) continue;
    const input = form.elements[key];
    // The server splits lists: it asks where a comma can also be a decimal one.
    const values = key === 'lane' ? [...input.selectedOptions].map((option) => option.value) : input.value.trim().replace(/,$/, '');
    if (values.length) said[key] = values;
  }
  if ($('in_lab')?.checked) said.in_lab = true;
  if ($('run-name').value.trim()) said.name = $('run-name').value;
  if (kindOfRun() === 'program') said.workload = program();
  if (kindOfRun() === 'requests') said.workload = { requests: requests() };
  if (kindOfRun() === 'flows') said.workload = flows();
  return said;
}

// What the request says of its groups of flows: one contest a line, or pairs of congestion controls.
function flows() {
  const said = (name) => form.elements[`workload.${name}`].value.trim().replace(/,$/, '');
  const against = said('against').split('\n').map((line) => line.trim()).filter(Boolean);
  return { ...(against.length || !said('pairs') ? { against } : {}), ...(said('pairs') ? { pairs: said('pairs') } : {}) };
}

// What the request says of its requests; a field that is empty has the table's default.
function requests() {
  const given = ofRequests.map(({ key }) => [key, form.elements[`workload.requests.${key}`].value.trim().replace(/,$/, '')]);
  return Object.fromEntries(given.filter(([, text]) => text));
}

// The form, made of the tables of axes that the server tells: one field each, the most used ones first.
async function build() {
  ({ axes, requests: ofRequests } = await ask('GET', '/api/axes'));
  $('requests').replaceChildren(...ofRequests.map((axis) => field(axis, `workload.requests.${axis.key}`)));
  const byKey = new Map(axes.map((axis) => [axis.key, axis]));
  $('axes').replaceChildren(...FIRST.map((key) => field(byKey.get(key))));
  $('more-axes').replaceChildren(...axes.filter(({ key }) => !FIRST.includes(key)).map((axis) => field(axis)));
}

function field(axis, name = axis.key) {
  const hint = `${name}-hint`;
  const attributes = { id: name, name, 'aria-describedby': hint };
  const input = axis.key === 'lane' ? el('select', { ...attributes, multiple: true, size: 4 })
    : el('input', { ...attributes, value: START[axis.key] ?? '', placeholder: axis.default });
  const range = axis.least === null ? '' : ` ${axis.least} to ${axis.most}.`;
  const several = axis.single || axis.key === 'lane' ? '' : ` Such as ${axis.examples.join(', ')}.`;
  return el('div', { id: `${name}-field` }, el('label', { for: name }, axis.label), input,
    el('p', { id: hint, class: 'hint' }, `${axis.help}${several}${range} Empty: ${axis.default}.`));
}

let waiting = 0;
let asking = 0;
function predict() {
  if (!mayWrite) return;
  clearTimeout(waiting);
  waiting = setTimeout(async () => {
    const request = (asking += 1);
    let plan;
    let problem;
    try {
      plan = await ask('POST', '/api/runs?dry_run=1', asked());
    } catch (failure) {
      problem = failure;
    }
    // A later edit has asked again: only the answer to the last one is about what stands in the form.
    if (request !== asking) return;
    clear(form);
    $('predicted').textContent = problem ? told(problem) : prediction(plan);
    $('start').disabled = Boolean(problem) || !mayWrite;
  }, 250);
}

function prediction(plan) {
  const cells = `${plan.total} ${plan.total === 1 ? 'cell' : 'cells'}`;
  const ends = (values, text) => [...new Set([Math.min(...values), Math.max(...values)].map((value) => text(value)))].join(' to ');
  if (plan.request_columns.length) return `${cells}, about ${span(plan.left_s)}; at most ${ends(plan.cells.map((cell) => cell.ceiling_per_s), (value) => String(Number(value.toPrecision(4))))} requests a second.`;
  if (!plan.workload) return `${cells}, about ${span(plan.left_s)}; ${ends(plan.cells.map((cell) => cell.expected_bytes_per_s), throughput)} expected.`;
  const runs = `${cells}, ${plan.workload.repeat} ${plan.workload.repeat === 1 ? 'run' : 'runs'} each`;
  const ideal = plan.cells.map((cell) => cell.ideal_s);
  return ideal.includes(null) ? `${runs}.` : `${runs}; a run takes at least ${ends(ideal, seconds)} (one handshake, and the bytes at the line's rate).`;
}

// Each mistake stands at its field; those without a field, and how many there are, below the form.
function told(problem) {
  const others = problem.mistakes ? showMistakes(form, problem.mistakes) : [];
  const placed = (problem.mistakes?.length ?? 0) - others.length;
  const count = placed ? [`${placed} ${placed === 1 ? 'field needs' : 'fields need'} a change: see above.`] : [];
  return [...count, ...others.map((m) => [m.path, m.text].filter(Boolean).join(': '))].join(' ') || problem.message;
}

// An event that arrives before an answer can be newer than that: after one the answer is asked for again.
let events = 0;
async function newest(pathNow) {
  let before;
  let answer;
  do {
    before = events;
    answer = await ask('GET', pathNow());
  } while (before !== events);
  return answer;
}

let listed = false;
async function names(select = '') {
  const answer = await newest(() => '/api/runs');
  const { runs } = answer;
  listed = true;
  $('none').hidden = runs.length > 0;
  $('pick').hidden = !runs.length;
  $('shown').hidden = runs.length === 0;
  runNames.keep(answer, wanted);
  wanted = '';
  if (runs.length) await choose(runs.includes(select) ? select : runs.includes(shown) ? shown : runs[0]);
}

// The address names what is shown, so that it can be shared.
function keepAddress() {
  const asked = new URLSearchParams({ run: shown });
  if ($('other').value && $('other').value !== shown) asked.set('with', $('other').value);
  if (opened.id) asked.set('cell', opened.id);
  history.replaceState(null, '', `?${asked}`);
}

async function choose(name) {
  if (name !== shown) opened.id = wantedCell;
  wantedCell = '';
  shown = name;
  runNames.choose(name);
  const base = `/api/runs/${name}`;
  $('report').href = `${base}/report?format=html`;
  for (const kind of ['html', 'md', 'csv', 'json']) {
    $(kind).href = `${base}/report?format=${kind}`;
    $(kind).download = `${name}.${kind}`;
  }
  await refresh();
}

const refresh = async () => show(await newest(() => `/api/runs/${shown}`));

// The run that the shown one is compared with; null for none.
async function compared() {
  const name = $('other').value;
  return !name || name === shown ? null : ask('GET', `/api/runs/${name}`);
}

async function show(run) {
  if (run.id !== shown) return;
  current = run;
  const other = await compared();
  if (current !== run) return;
  showTitle(run);
  $('progress').max = run.total;
  $('progress').value = run.finished;
  const left = run.state === 'running' ? `, about ${span(run.left_s)} left` : '';
  const building = run.building && `, building the lab first: ${run.building}`;
  $('left').textContent = `${run.finished} of ${run.total} cells, ${run.state}${building || left}${run.trouble ? `: ${run.trouble}` : ''}`;
  $('cancel').hidden = run.state !== 'running';
  $('forget').hidden = run.state === 'running';
  const failed = run.cells.some((cell) => cell.state === 'failed');
  $('resume').hidden = run.state === 'running' || (run.state !== 'stopped' && !failed);
  $('resume').textContent = run.state === 'stopped' ? 'Resume' : 'Measure failed cells again';
  beside = other;
  showCells();
  keepAddress();
  throughputs.show(run, other);
  showComparison(run, other?.id).catch(sayFailure);
  showProgram(run);
  showCaptures(run);
}

// The name stands in its field, unless somebody is changing it there.
function showTitle(run) {
  const said = JSON.stringify([run.id, run.name]);
  if ($('title').dataset.of !== said) $('title').value = run.name;
  $('title').dataset.of = said;
}

// The table of cells, and the one that is opened.
function showCells() {
  fill($('cells'), current, beside ? figures(beside) : {}, opened);
  opened.show(current, beside);
}

// A link to each file of captured frames.
function showCaptures(run) {
  const files = run.cells.flatMap((cell) => cell.captures);
  $('captures').hidden = !files.length;
  $('capture-files').replaceChildren(...files.map(({ path, frames, dropped }) => el('li', {},
    el('a', { href: `/api/runs/${run.id}/${path.split('/').map(encodeURIComponent).join('/')}`, download: '' }, path.replace(/^pcap\//, '')), ` ${frames} frames${dropped ? `, ${dropped} lost` : ''}`)));
}

// The commands of a run's program above its table; the law, what would help most, and the chart below.
function showProgram(run) {
  const commands = run.workload ? [['server', run.workload.server], ['client', run.workload.client]].filter(([, text]) => text) : [];
  $('commands').hidden = !commands.length;
  $('commands').replaceChildren(...commands.flatMap(([name, text]) => [el('dt', {}, name), el('dd', {}, el('code', {}, text))]));
  $('laws').hidden = !run.laws.length;
  $('laws').replaceChildren(...run.laws.map((text) => el('li', {}, text)), ...run.savings.map((text) => el('li', {}, `largest saving: ${text}`)));
  $('legend').hidden = !run.legend;
  $('legend').textContent = run.legend;
  chart.show(run);
}

onClick('start', async () => {
  const run = await ask('POST', '/api/runs', asked());
  $('run-name').value = '';
  say(`Run ${runNames.titled(run.id, run.name)} has begun.`);
  await names(run.id);
  $('run-title').scrollIntoView(); // the form is longer than a screen, and the figure stands at the top of the run
});
onClick('cancel', async () => {
  const run = await ask('POST', `/api/runs/${shown}/cancel`);
  say(run.state === 'running' ? 'Cancelled: cells at work end first.' : `Run ${runNames.titled(run.id, run.name)} had ended before: its results stay.`);
  await refresh();
});
onClick('forget', async () => {
  const id = shown;
  if (!confirm(`Delete run ${runNames.titled(id)} and its results?`)) return;
  await ask('DELETE', `/api/runs/${id}`);
  await deleted(id);
});
onClick('resume', async () => {
  await ask('POST', `/api/runs/${shown}/resume`);
  await refresh();
});
onClick('rename-run', async () => {
  const run = await ask('PATCH', `/api/runs/${shown}`, { name: $('title').value });
  $('title').dataset.of = '';
  runNames.renamed(run.id, run.name);
  await show(run);
  say(run.name ? `Run ${run.id} is named ${run.name}.` : `Run ${run.id} has no name.`);
});
$('search').addEventListener('input', runNames.fill);
$('run').addEventListener('change', (event) => choose(event.target.value).catch(sayFailure));
$('other').addEventListener('change', () => runNames.beside($('other').value));
$('other').addEventListener('change', () => current && show(current).catch(sayFailure));
form.addEventListener('input', predict);

// Here or by another page; the event can arrive before the answer to this page's own request.
async function deleted(id) {
  if (!runNames.has(id)) return;
  say(`Run ${runNames.titled(id)} is deleted.`);
  runNames.remove(id);
  await names();
}

function progressed(run) {
  if (runNames.renamed(run.id, run.name) && run.id !== shown && current) show(current).catch(sayFailure);
  if (run.id === shown) show(run).catch(sayFailure);
}

// A run that the list lacks was started by another page.
listen('run', (run) => {
  events += 1;
  if (run.state === 'deleted') deleted(run.id).catch(sayFailure);
  else if (runNames.has(run.id)) progressed(run);
  else if (listed) names().catch(sayFailure);
});
listen('back', () => names().catch(sayFailure));

async function start() {
  for (const id of ['start', 'cancel', 'forget', 'resume', 'rename-run', 'title']) $(id).disabled = !mayWrite;
  await build();
  const programs = await ask('GET', '/api/programs');
  buildProgram(programs, predict);
  buildPresets(programs.presets, predict);
  const status = await ask('GET', '/api/status');
  $('lane').replaceChildren(...status.lanes.map((lane) => el('option', { value: lane.name }, `${lane.name}, ${ms(lane.rtt_ns, 0)}`)));
  $('lane-field').hidden = !status.lanes.length;
  predict();
  const asked = new URLSearchParams(location.search);
  wanted = asked.get('with') ?? '';
  wantedCell = asked.get('cell') ?? '';
  await names(asked.get('run') ?? '');
}
start().catch(sayFailure);
