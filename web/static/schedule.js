// The page of the schedule: what is up, drawn; edited as a draft, which the daemon checks; previewed and applied.

import { $, ask, can, el, listen, lock, mayWrite, onClick, say, sayDone, sayFailure, Problem } from './api.js';
import { SCHEDULE, dropDraft, keepDraft, readDraft } from './draft.js';
import { clear, show } from './mistakes.js';
import { showPlan } from './plan_dialog.js';
import { Player } from './schedule_player.js';
import { TimeRange } from './schedule_range.js';
import { askedNow, firstValue, settingsOf } from './schedule_settings.js';
import { TracePicker } from './schedule_traces.js';
import { cleaned, Tracks, WORDS } from './schedule_tracks.js';
import { clock, timeOf, timeText } from './schedule_values.js';
import { commandsOf } from './steps.js';

const form = $('editor');
const tracks = new Tracks($('tracks'), {
  label: (setting) => WORDS[setting] ?? keys.find((key) => key.name === setting)?.label ?? setting,
  lanes: () => state?.lanes ?? [],
  settings: (direction) => settingsOf(keys, direction),
  first: (track, setting) => firstValue(keys, status, track, setting),
  changed,
});
let state = null; // what is up
let base = ''; // its schedule as this page shows it, as text
let draft = empty();
let keys = [];
let status = null;
let etag = '';
let moved = ''; // who has changed the schedule since the draft was begun
let begun = false;
let kept = true;
let busy = false;
let changes = -1;
const player = new Player();
const range = new TimeRange(() => check().catch(sayFailure));

function empty() {
  return { start: 'now', loop: '', step: '1s', tracks: [] };
}

// A schedule as the page edits it: times in the units in which people think.
function edited(schedule) {
  if (!schedule) return empty();
  const pretty = (text) => (Number.isNaN(timeOf(text)) ? text : timeText(timeOf(text)));
  const track = ({ keys: said, ...rest }) => (said ? { ...rest, keys: said.map((key) => ({ ...key, at: pretty(key.at) })) } : rest);
  return { start: schedule.start ?? 'now', loop: pretty(schedule.loop ?? ''), step: pretty(schedule.step ?? '1s'), tracks: schedule.tracks.map(track) };
}

const text = () => JSON.stringify({ ...draft, tracks: cleaned(draft.tracks) });
const isEdited = () => state?.topology && text() !== base;

// What is sent: fields that are empty are left out, so that the daemon says what is missing.
function sent() {
  const said = Object.fromEntries(Object.entries({ start: draft.start, loop: draft.loop, step: draft.step }).filter(([, one]) => one));
  return { ...said, tracks: cleaned(draft.tracks) };
}

// Of two answers the one that was asked for later counts.
let loads = 0;
async function load(own = false) {
  const mine = (loads += 1);
  const response = await fetch('/api/schedule').catch(() => { throw new Problem({ status: 0, detail: 'The daemon does not answer.' }); });
  const answer = await response.json();
  if (!response.ok) throw new Problem(answer);
  const is = response.headers.get('ETag');
  if (mine !== loads || (is === etag && !own)) return; // a schedule changes the lanes all the time, and stays the same
  const now = answer.topology ? await ask('GET', '/api/status') : null;
  if (mine !== loads) return;
  const [was, before, sites] = [isEdited(), base, JSON.stringify(state?.lanes)];
  [state, status, etag] = [answer, now, is];
  const shown = edited(answer.schedule);
  base = JSON.stringify(shown);
  if (was && before !== base && !own) moved = await who();
  const follows = !was && text() !== base;
  if (follows) draft = shown;
  $('board').hidden = !answer.topology;
  $('empty').hidden = Boolean(answer.topology);
  if (!answer.topology) return;
  // Fields that somebody types in are made again only for another reason than a check.
  if (follows || sites !== JSON.stringify(answer.lanes)) {
    choices();
    fill();
  }
  told();
  await check();
}

// Who made the last change.
async function who() {
  const entries = can.has('history') ? (await ask('GET', '/api/history')).entries : [];
  return entries.length ? `${entries[0].author.user} (${entries[0].author.command})` : 'Somebody else';
}

// Shows the draft in all its fields.
function fill() {
  for (const name of ['start', 'loop', 'step']) $(`f-${name}`).value = draft[name];
  $('no-tracks').hidden = draft.tracks.length > 0;
  $('phase-label').hidden = !state.schedule || !draft.tracks.length;
  tracks.build(draft, !mayWrite);
  told();
  lock();
}

function choices() {
  const set = (id, options) => {
    const before = $(id).value;
    $(id).replaceChildren(...options.map(([value, label]) => el('option', { value }, label)));
    if (options.some(([value]) => value === before)) $(id).value = before;
  };
  set('new-lane', [...state.lanes.map((name) => [name, name]), ['all', 'all lanes']]);
  set('new-direction', [['both', 'both directions'], ['outbound', 'outbound (hub to site)'], ['inbound', 'inbound (site to hub)']]);
  set('new-setting', settingsOf(keys, $('new-direction').value).map((one) => [one, tracks.page.label(one)]));
}

// Something was edited. `built`: the tables are another; `byHand`: moved, not typed.
function changed(built, byHand = false) {
  if (built) fill();
  else told();
  wait(byHand ? 0 : 150);
}

// Says that a draft is not applied, and has the browser keep it.
function told() {
  if (isEdited()) kept = keepDraft(text(), SCHEDULE);
  else if (begun) dropDraft(SCHEDULE);
  begun = isEdited();
  if (!begun) moved = '';
  $('drafted').hidden = !begun;
  $('drafted-text').textContent = `This draft is not applied. ${kept ? 'Your browser keeps it until you apply or discard it.' : 'It is lost when you leave this page: your browser keeps nothing.'}`;
  $('others').textContent = moved ? `${moved} changed the schedule since you began: applying your draft replaces that change.` : '';
}

// Checks the draft and draws it: one question at a time, the newest draft last.
let waiting = 0;
let asking = false;
let again = false;
function wait(ms) {
  clearTimeout(waiting);
  busyBoard(true);
  waiting = setTimeout(() => {
    waiting = 0;
    check().catch(sayFailure);
  }, ms);
}

// Says whether the drawing is of an older draft.
function busyBoard(is) {
  $('board').setAttribute('aria-busy', is);
}

async function check() {
  if (asking) {
    again = true;
    return;
  }
  asking = true;
  try {
    do {
      again = false;
      await checked();
    } while (again);
  } finally {
    asking = false;
    busyBoard(waiting !== 0);
  }
}

async function checked() {
  const order = [...draft.tracks];
  if (!order.length) {
    mistakes(null);
    fit({ span_ns: 0, loop_ns: null, curves: [] });
    tracks.shown({ span_ns: 0, loop_ns: null, curves: [] }, order);
    return;
  }
  try {
    const drawing = mayWrite ? await ask('POST', '/api/schedule/drawing', sent()) : await ask('GET', '/api/schedule/drawing');
    mistakes(null);
    fit(drawing);
    tracks.shown(drawing, order);
  } catch (problem) {
    if (!problem.mistakes?.length) throw problem;
    mistakes(problem);
    tracks.shown(null, order);
  }
}

// Each mistake at its field; those of a whole key at its time, those of a whole track at its lanes.
function mistakes(problem) {
  clear(form);
  const placed = (problem?.mistakes ?? []).map(({ path, text: said }) => {
    const name = path.replace(/^schedule\.?/, '');
    const ends = /keys\.\d+$/.test(name) ? '.at' : /^tracks\.\d+$/.test(name) ? '.lanes' : '';
    return { path: name + ends, text: said };
  });
  const left = show(form, placed);
  $('mistakes').replaceChildren(...left.map((one) => el('li', {}, one.text)));
}

function fit(drawing) {
  tracks.view = range.fit(drawing);
  play();
}

function zoom(direction) {
  range.zoom(direction, player.now(state));
  check().catch(sayFailure);
}

function play() {
  const ns = player.now(state);
  tracks.play(ns !== null && ns >= 0 ? ns : null);
  $('playing').textContent = player.sentence(state);
  $('jump-form').hidden = !state?.schedule || !mayWrite;
}

// What is asked of the lanes now, beside each chart.
function now(look) {
  for (const { track, setting, now: place } of tracks.charts) {
    const lanes = track.lanes === 'all' ? state.lanes : [track.lanes].flat();
    const said = askedNow(keys, status, look, lanes, track.direction, setting);
    place.textContent = said && `asked now: ${said}`;
  }
}

async function change(query) {
  const headers = etag ? { 'If-Match': etag } : {};
  if (!draft.tracks.length) return ask('DELETE', `/api/schedule?${query}`, undefined, 'application/json', headers);
  const phase = state.schedule && $('phase').value ? `&at=${$('phase').value}` : '';
  return ask('PUT', `/api/schedule?${query}${phase}`, sent(), 'application/json', headers);
}

async function preview() {
  const before = text();
  const plan = await change('dry_run=1').catch(refused);
  if (!plan || before !== text()) return;
  const words = plan.differences.length ? plan.differences : ['Nothing is different.'];
  showPlan({ words, plan, more: [el('h3', {}, 'First changes of the schedule'), coming(plan)], act: apply });
}

// What the schedule will change first, with the commands of each.
function coming(plan) {
  const shown = plan.coming.map((one) => el('li', {}, el('strong', {}, `at ${clock(one.at_ns)}`), ...one.words.map((word) => el('p', {}, word)),
    el('details', {}, el('summary', {}, 'Commands'), el('pre', { tabindex: '0' }, commandsOf(one.steps)))));
  return el('ol', { id: 'plan-coming' }, ...(shown.length ? shown : [el('li', {}, 'The schedule changes nothing more.')]));
}

// Shows what was wrong at its place; a conflict beside the page, after reading what is up by now.
async function refused(problem) {
  if (problem.status === 412) {
    await load();
    say(moved ? `${moved} changed the schedule meanwhile. Your draft is kept: apply again to replace that change.` : 'Somebody changed the lanes meanwhile. Your draft is kept: apply it again.', true);
  } else if (problem.mistakes?.length) mistakes(problem);
  else throw problem;
  return null;
}

// What this page changes itself is nobody else's change.
async function changing(work) {
  busy = true;
  try {
    await work();
  } finally {
    busy = false;
  }
}

async function apply() {
  const applied = text();
  await changing(async () => {
    const done = await change(can.has('confirm') && $('confirm-in').checked ? 'confirm=60s' : 'dry_run=0').catch(refused);
    if (!done) return;
    if (text() === applied) draft = JSON.parse(base); // so that it follows what is up
    await load(true);
    sayDone(done);
  });
}

async function jump(query) {
  await changing(async () => {
    const done = await ask('POST', `/api/schedule/jump${query}`, undefined, 'application/json', etag ? { 'If-Match': etag } : {});
    await load(true);
    sayDone(done, 'The schedule has jumped.');
  });
}

// The tracks that another page asks for: both directions of a recording, as traces on a lane.
function added() {
  const wanted = new URLSearchParams(location.search);
  history.replaceState(null, '', location.pathname);
  if (!mayWrite || !state.lanes?.includes(wanted.get('lane'))) return;
  const directions = ['outbound', 'inbound'].filter((name) => wanted.get(name));
  draft.tracks.push(...directions.map((direction) => ({ lanes: [wanted.get('lane')], direction, trace: wanted.get(direction) })));
  if (directions.length) changed(true);
}

function offer() {
  const found = readDraft(SCHEDULE);
  if (!found || !state.topology || !mayWrite || found.text === base) return;
  let value;
  try {
    value = JSON.parse(found.text);
  } catch {
    return;
  }
  const done = () => { $('offered').hidden = true; };
  $('offered').hidden = false;
  $('offered-text').textContent = `You left a draft of the schedule that is not applied (${new Date(found.at).toLocaleString()}).`;
  $('offered-take').onclick = () => {
    done();
    draft = value;
    changed(true);
    $('editor-title').scrollIntoView();
    $('preview').focus();
  };
  $('offered-drop').onclick = () => {
    done();
    if (!isEdited()) dropDraft(SCHEDULE);
    $('preview').focus();
  };
}

for (const name of ['start', 'loop', 'step']) {
  $(`f-${name}`).disabled = !mayWrite;
  $(`f-${name}`).addEventListener('input', () => {
    draft[name] = $(`f-${name}`).value.trim();
    if (name === 'start') $('phase').value = '';
    changed(false);
  });
}
$('zoom-in').addEventListener('click', () => zoom(1));
$('zoom-out').addEventListener('click', () => zoom(-1));
$('new-direction').addEventListener('change', choices);
const newTrack = () => ({ lanes: $('new-lane').value === 'all' ? 'all' : [$('new-lane').value], direction: $('new-direction').value });
const picker = new TracePicker((name) => {
  draft.tracks.push({ ...newTrack(), trace: name });
  changed(true);
});
onClick('add-track', () => {
  const track = newTrack();
  track.keys = [{ at: '0s', [$('new-setting').value]: firstValue(keys, status, track, $('new-setting').value) }];
  draft.tracks.push(track);
  changed(true);
  tracks.pick(track.keys[0], true);
});
onClick('preview', preview);
form.addEventListener('submit', (event) => event.preventDefault());
onClick('apply', apply);
onClick('discard', async () => {
  draft = JSON.parse(base);
  fill();
  await check();
  $('preview').focus();
});
onClick('undo', () => changing(async () => {
  const done = await ask('POST', '/api/undo');
  await load(true);
  sayDone(done);
}));
onClick('jump', () => {
  const to = $('jump-to').value.trim();
  if (!to) throw new Problem({ detail: 'Say where to: a time of the schedule such as 90min.' });
  return jump(`?at=${encodeURIComponent(to)}`);
});
onClick('restart', () => jump(''));
$('confirm-label').hidden = !can.has('confirm') || !mayWrite;
$('undo').hidden = !can.has('undo') || !mayWrite;
for (const id of ['preview', 'apply', 'add-track']) $(id).hidden = !mayWrite;
document.querySelectorAll('.add-row').forEach((row) => { row.hidden = !mayWrite; });
addEventListener('beforeunload', (event) => isEdited() && !kept && event.preventDefault());

listen('look', (look) => {
  player.look(look);
  // A measurement's lanes are nobody's schedule: the page waits until it has ended.
  if (!busy && !look.leased && look.changes !== changes) {
    load().catch(sayFailure);
    changes = look.changes;
  }
  if (!state?.topology || !status) return;
  now(look);
  play();
});
setInterval(play, 250);
listen('back', () => load().catch(sayFailure));
ask('GET', '/api/keys').then((answer) => { keys = answer.keys; }).then(() => Promise.all([load(), picker.load()])).then(offer).then(added).catch(sayFailure);
