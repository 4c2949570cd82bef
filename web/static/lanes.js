// The page of the lanes: map, table, and the panel and graphs of the chosen lane.

import { $, ask, el, listen, lock, mayWrite, say, sayFailure } from './api.js';
import { controls, Graphs } from './graphs.js';
import { loadKeys, Panel } from './panel.js';
import { loadPlaces } from './places.js';
import { draw, loadWorld, update } from './star.js';
import { drops, ms, rate } from './units.js';

let status = null;
let look = null;
let chosen = decodeURIComponent(location.hash.slice(1));
let changes = -1;
const graphs = new Graphs($('charts'));
const panel = new Panel($('lane'), changed);
controls(graphs);

async function refresh() {
  status = await ask('GET', '/api/status');
  const up = status.topology !== null;
  $('empty').hidden = up;
  $('board').hidden = !up;
  drift();
  if (!up) return;
  $('map-title').textContent = `${status.topology}: ${status.lanes.length} ${status.lanes.length === 1 ? 'lane' : 'lanes'}`;
  if (!status.lanes.some((lane) => lane.name === chosen)) chosen = status.lanes[0]?.name ?? '';
  table();
  if (look) fill(look);
  show();
  if (chosen) choose(chosen, false);
}

// What has drifted, why, and the steps that repair it.
function drift() {
  const blocked = Object.entries(status.blocked).map(([name, why]) => el('p', {}, `${name} cannot be repaired: ${why}.`));
  const { length } = status.drift;
  $('drift').hidden = !length && !blocked.length;
  $('drift').replaceChildren(...blocked);
  if (!length) return;
  const whys = [...new Set(status.drift.map((step) => step.why))].slice(0, 3).join('; ');
  const steps = el('details', {}, el('summary', {}, length === 1 ? '1 step repairs it' : `${length} steps repair it`),
    el('pre', { tabindex: '0' }, status.drift.map((step) => `${step.command}\n    # ${step.why}`).join('\n')));
  $('drift').append(el('p', {}, el('strong', {}, 'The lanes have drifted: '), whys), steps);
  if (mayWrite) $('drift').append(el('button', { type: 'button', 'data-changes': '', onclick: () => repair().catch(sayFailure) }, 'Repair'));
  lock();
}

async function repair() {
  const asked = await ask('GET', '/api/topology');
  await changed((await ask('PUT', '/api/topology', asked, 'application/yaml', { 'If-Match': status.etag })).summary);
}

function show() {
  draw(status, chosen, choose);
  update(status, look);
}

function table() {
  const rows = status.lanes.map((lane) => {
    const button = el('button', { type: 'button', onclick: () => choose(lane.name) }, lane.name);
    const row = el('tr', { 'data-lane': lane.name }, el('td', {}, button), el('td', {}, ms(lane.rtt_ns, 0)));
    for (const name of ['measured', 'out', 'in', 'drops']) row.append(el('td', { 'data-of': name }, '–'));
    return row;
  });
  $('table').tBodies[0].replaceChildren(...rows);
}

async function choose(name, byHand = true) {
  const other = chosen !== name || !byHand;
  chosen = name;
  if (byHand) history.replaceState(null, '', `#${encodeURIComponent(name)}`);
  for (const row of $('table').tBodies[0].rows) row.classList.toggle('chosen', row.dataset.lane === name);
  if (byHand) {
    show();
    $('star').querySelector(`[data-lane="${name}"]`)?.focus();
  }
  if (!other) return;
  panel.show(status, status.lanes.find((lane) => lane.name === name));
  $('graphs-title').textContent = `Live: ${name}`;
  try {
    await graphs.show(name);
  } catch (problem) {
    sayFailure(problem);
  }
}

async function changed(summary) {
  say(summary);
  await refresh();
}

function tick(seen) {
  look = seen;
  if (!status) return;
  const drifted = Boolean(seen.drift) !== Boolean(status.drift.length);
  if (seen.changes !== changes || drifted) refresh().catch(sayFailure);
  changes = seen.changes;
  if (!status.topology) return;
  update(status, seen);
  fill(seen);
  graphs.add(seen);
}

// The cells of the table that change every second.
function fill(seen) {
  for (const row of $('table').tBodies[0].rows) {
    const lane = seen.lanes[row.dataset.lane];
    if (!lane) continue;
    const set = (of, text) => { row.querySelector(`[data-of="${of}"]`).textContent = text; };
    set('measured', ms(lane.median_ns));
    set('out', rate(lane.outbound.rate_bps));
    set('in', rate(lane.inbound.rate_bps));
    set('drops', `${drops(lane)}/s`);
  }
  panel.look(seen.lanes[chosen]);
}

listen('look', tick);
listen('back', () => refresh().catch(sayFailure));
new ResizeObserver(() => status?.topology && show()).observe($('star'));
Promise.all([loadWorld(), loadPlaces(), loadKeys()]).then(refresh).catch(sayFailure);
