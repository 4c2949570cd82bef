// The page of the lanes: map, table, and the panel and graphs of the chosen lane.

import { $, ask, can, el, listen, lock, mayWrite, onClick, sayDone, sayFailure } from './api.js';
import { FlowDialog, removeFlow } from './flow_dialog.js';
import { controls, Graphs } from './graphs.js';
import { loadKeys } from './impairment_keys.js';
import { LaneChanges } from './lane_changes.js';
import { LaneDialog, removeLane } from './lane_dialog.js';
import { LaneTable } from './lane_table.js';
import { Panel } from './panel.js';
import { loadPlaces } from './places.js';
import { draw, loadWorld, update } from './star.js';
import { statusLine } from './status_line.js';
import { commandsOf } from './steps.js';

let status = null;
let look = null;
let chosen = decodeURIComponent(location.hash.slice(1));
let changes = -1;
const laneChanges = new LaneChanges($('chart-changes'));
const graphs = new Graphs($('charts'), laneChanges);
const page = { get status() { return status; }, refresh, changed: shown };
const remove = (name) => removeLane(page, name).catch(sayFailure);
const flows = new FlowDialog(page);
const panel = new Panel($('lane'), {
  changed, refresh, remove, editFlow: (lane, name, added) => flows.open(lane, name, added), removeFlow: (lane, name) => removeFlow(page, lane, name).catch(sayFailure),
});
const table = new LaneTable($('table'), { pick, remove, turn: (names, off) => turn(names, off).catch(sayFailure) });
const newLane = new LaneDialog(page);
onClick('add-lane', () => newLane.open());
controls(graphs);

// Of two answers the one that was asked for later counts: the other can be older, and arrive after it.
let asking = 0;
let refreshing = null;
function refresh() {
  refreshing = refreshed((asking += 1));
  return refreshing;
}

async function refreshed(mine) {
  const before = look;
  const answer = await ask('GET', '/api/status');
  const own = (await ask('GET', '/api/changed')).lanes; // afterwards: it is never older
  if (mine !== asking) {
    await refreshing;
    return;
  }
  status = answer;
  // A lane's own settings, apart from what a schedule asks for, and who changed them last.
  for (const lane of status.lanes) Object.assign(lane, { requested: own[lane.name]?.settings ?? lane.settings, changed: own[lane.name]?.last ?? null });
  // While somebody changes the lanes, what they lack of the new state is no drift.
  if (status.changing) Object.assign(status, { drift: [], blocked: {} });
  const up = status.topology !== null;
  $('empty').hidden = up;
  $('board').hidden = !up;
  drift();
  if (!up) {
    await begin();
    return;
  }
  $('map-title').textContent = `${status.topology}: ${status.lanes.length} ${status.lanes.length === 1 ? 'lane' : 'lanes'}`;
  if (!status.lanes.some((lane) => lane.name === chosen)) chosen = status.lanes[0]?.name ?? '';
  const filled = table.show(status);
  if (look !== before) asked(look); // it came while the status was under way
  fill();
  show();
  lock();
  await Promise.all([filled, chosen ? choose(chosen) : nothing()]);
}

// Where nothing was ever up, the ports come first.
async function begin() {
  if (!mayWrite || status.leased || !can.has('nics') || !can.has('history')) return;
  const { entries } = await ask('GET', '/api/history');
  if (!entries.length) location.replace('/setup');
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
    el('pre', { tabindex: '0' }, commandsOf(status.drift)));
  $('drift').append(el('p', {}, el('strong', {}, 'The lanes have drifted: '), whys), steps);
  if (mayWrite) $('drift').append(el('button', { type: 'button', 'data-changes': '', onclick: () => repair().catch(sayFailure) }, 'Repair'));
  lock();
}

async function repair() {
  const asked = await ask('GET', '/api/topology');
  await changed(await ask('PUT', '/api/topology', asked, 'application/yaml', { 'If-Match': status.etag }));
}

function show() {
  draw(status, chosen, pick);
  update(status, look);
}

// Latency off or on, for one lane or for all in one change; all settings are kept.
// One turn follows another: each names the state that the one before has left. The second click of two says nothing new.
let turning = Promise.resolve();
function turn(names, off) {
  const mine = turning.then(() => turned(names, off));
  turning = mine.catch(() => {});
  return mine;
}

async function turned(names, off) {
  if (status.lanes.every((lane) => !names.includes(lane.name) || lane.off === off)) return;
  const lanes = Object.fromEntries(names.map((name) => [name, { disabled: off }]));
  const done = await ask('PATCH', '/api/lanes', { lanes }, 'application/json', { 'If-Match': status.etag });
  const whose = names.length === 1 ? names[0] : `all ${names.length} lanes`;
  await changed(done, `Latency of ${whose} is ${off ? 'off' : 'on'}. ${done.summary}`);
}

// Somebody has picked a lane on the map or in the table.
function pick(name) {
  const other = name !== chosen;
  chosen = name;
  history.replaceState(null, '', `#${encodeURIComponent(name)}`);
  show();
  $('star').querySelector(`[data-lane="${name}"]`)?.focus();
  if (other) choose(name).catch(sayFailure);
}

async function choose(name) {
  table.choose(name);
  panel.show(status, status.lanes.find((lane) => lane.name === name));
  $('graphs-title').textContent = `Live: ${name}`;
  await Promise.all([laneChanges.load(name).then(() => graphs.redraw()), graphs.lane === name ? null : graphs.show(name)]);
}

// No lane is left.
function nothing() {
  panel.clear();
  $('graphs-title').textContent = 'Live';
  graphs.lane = null;
}

// As `changed`, of lanes or flows that came or went: the lane called `name` is shown. What had the focus may be gone: then
// the button `focus` has it.
async function shown(done, text, name = chosen, focus = 'add-lane') {
  chosen = name;
  history.replaceState(null, '', `#${encodeURIComponent(name)}`);
  await changed(done, text);
  if (document.activeElement === document.body) $(focus).focus();
}

// Says what was done once the page shows it: the next change names the state that this one has left.
async function changed(done, text) {
  try {
    await refresh();
  } finally {
    sayDone(done, text);
  }
}

function tick(seen) {
  look = seen;
  if (!status) return;
  const drifted = !seen.changing && Boolean(seen.drift) !== Boolean(status.drift.length);
  if (seen.changes !== changes || drifted) refresh().catch(sayFailure);
  changes = seen.changes;
  if (!status.topology) return;
  asked(seen);
  table.tick(seen);
  update(status, seen);
  fill();
  graphs.add(seen);
}

// What is asked of the lanes now: a schedule changes it all the time.
function asked(seen) {
  for (const lane of status.lanes) {
    const scheduled = seen.scheduled[lane.name];
    lane.asked_ns = seen.lanes[lane.name]?.asked_ns ?? lane.asked_ns;
    if (!lane.off) lane.rtt_ns = lane.asked_ns;
    lane.settings = scheduled ?? lane.settings;
    panel.follow(lane, Boolean(scheduled));
  }
}

// What changes every second.
function fill() {
  table.fill(status, look);
  statusLine($('status-line'), status, look);
  panel.look(look?.lanes[chosen]);
}

listen('look', tick);
listen('back', () => {
  graphs.lane = null; // what was missed is loaded
  table.load().catch(sayFailure);
  refresh().catch(sayFailure);
});
new ResizeObserver(() => status?.topology && show()).observe($('star'));
Promise.all([loadWorld(), loadPlaces(), loadKeys()]).then(refresh).catch(sayFailure);
