// Recordings of real paths: made, watched and kept here, and replayed on a lane, at once or over time.

import { $, ask, el, listen, lock, mayWrite, onClick, say, sayDone, sayFailure } from './api.js';
import { clear, show } from './mistakes.js';
import { confirmBox, PlannedChange } from './plan_dialog.js';
import { RecordingCurve } from './recording_curve.js';
import { ms, rate, span } from './units.js';

const form = $('new-recording');
const STEPS = { begins: 'reaches the other end', probes: 'probes', rates: 'measures the rate', ends: 'ends', profile: 'computes the profile' };
const WAYS = {
  measured: 'Each direction was measured by one clock.',
  variation: 'Each direction was measured, and their least delays are assumed to be equal.',
  assumed: 'Only round trips are known: all variation and every loss is that of the outbound direction.',
};
const pathOf = (name) => `/api/recordings/${encodeURIComponent(name)}`;
let status = null;
let active = null;
let now = 0; // the daemon's clock in ms, of the last look
const growing = new RecordingCurve();
$('active-curve').append(growing.root);
const curves = new Map(); // by the name of a recording that was opened

const share = (value) => `${Number((value * 100).toPrecision(3))}%`;
const page = { get status() { return status; }, refresh: lanes };

async function lanes() {
  status = await ask('GET', '/api/status');
  const names = status.lanes.map((lane) => lane.name);
  const before = $('lane').value;
  $('lane').replaceChildren(...names.map((name) => el('option', { value: name }, name)));
  if (names.includes(before)) $('lane').value = before;
  $('kind-lane').hidden = !names.length;
  if (!names.length) form.elements.kind.value = 'host';
  kind();
}

function kind() {
  const lane = form.elements.kind.value === 'lane';
  $('lane-field').hidden = !lane;
  $('host-field').hidden = lane;
}

// Of two answers the one that was asked for later counts.
let asking = 0;
async function load() {
  const mine = (asking += 1);
  const { recordings } = await ask('GET', '/api/recordings');
  if (mine !== asking) return;
  watch(recordings.find((one) => one.state === 'recording') ?? null);
  const kept = recordings.filter((one) => one.state !== 'recording');
  const open = new Set([...document.querySelectorAll('.recording[open]')].map((one) => one.id));
  $('none').hidden = kept.length > 0;
  $('kept').replaceChildren(...kept.map((one) => shown(one, open.has(`recording-${one.name}`))));
  lock();
}

// Shows the active recording; null when there is none.
function watch(recording) {
  active = recording;
  $('active').hidden = !active;
  $('record').hidden = Boolean(active);
  $('one-at-a-time').hidden = !active;
  if (!active) return;
  $('active-title').textContent = `Recording ${active.name}`;
  $('stop').hidden = !mayWrite || active.step === 'ends';
  const lost = active.probes - active.answered;
  const counted = active.probes ? `: ${active.answered} answers, ${lost} lost, the last RTT ${ms(active.last_ns, 3)}` : '';
  $('now').textContent = `It ${STEPS[active.step] ?? active.step}${counted}.`;
  progress();
  growing.load(pathOf(active.name), active.for_ns).catch(sayFailure);
}

function progress() {
  if (!active) return;
  const passed = Math.max(0, now - active.began_ms) / 1e3;
  const whole = active.for_ns / 1e9;
  $('progress').value = Math.min(1, passed / whole);
  $('left').textContent = passed < whole ? `${span(whole - passed)} left` : 'ends';
}

const VERDICT = { done: 'ok', interrupted: 'failed', failed: 'failed' };

function shown(one, open) {
  const { profile } = one;
  const what = profile
    ? `RTT ${ms(profile.least_ns, 3)} at least, median ${ms(profile.median_ns.value, 3)}, ${ms(profile.p99_ns.value, 3)} in 99 %`
    : one.state === 'interrupted' ? 'was interrupted: its profile can be computed' : one.trouble;
  const told = profile && one.trouble ? [el('p', { class: 'told' }, one.trouble)] : [];
  const body = profile ? [directions(one), curveOf(one.name), ...replays(one)] : [];
  const summary = el('summary', {}, el('strong', {}, one.name), ' ', el('span', { class: VERDICT[one.state] }, one.state), el('span', { class: 'what' }, what));
  const shows = (event) => event.target.open && profile && opened(one.name).catch(sayFailure);
  return el('details', { class: 'recording', id: `recording-${one.name}`, open, ontoggle: shows }, summary, ...told, ...body, acts(one));
}

// Where the curve of a kept recording stands: the same element in each new list.
function curveOf(name) {
  if (!curves.has(name)) curves.set(name, new RecordingCurve());
  return curves.get(name).root;
}

const opened = (name) => curves.get(name).load(pathOf(name));

// A probability alone is no model: the table has the share of lost packets already.
const lossOf = ({ lost, loss }) => (lost.value === 0 ? '–' : /^\S+%$/.test(loss) ? 'by chance' : loss);

function directions(one) {
  const head = ['Direction', 'Delay', 'Jitter', 'Lost', 'Loss model', 'Rate'];
  const rows = ['outbound', 'inbound'].map((name) => {
    const way = one.profile[name];
    return el('tr', {}, el('th', { scope: 'row' }, name), ...[ms(way.delay_ns, 3), way.jitter_ns ? ms(way.jitter_ns, 3) : '–',
      `${share(way.lost.value)} of ${way.packets}`, lossOf(way), way.rate_bps ? rate(way.rate_bps) : '–'].map((text) => el('td', {}, text)));
  });
  const table = el('table', {}, el('thead', {}, el('tr', {}, ...head.map((text) => el('th', { scope: 'col' }, text)))), el('tbody', {}, ...rows));
  const said = `${one.label}, ${new Date(one.at).toLocaleString()}, by ${one.tool}, a probe every ${ms(one.every_ns, 0)}. ${WAYS[one.ways]}`;
  return el('div', {}, el('p', { class: 'hint' }, said), el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': `Directions of ${one.name}` }, table));
}

// What replays a recording: a lane, from now on, or the schedule, in the recording's order in time.
function replays(one) {
  if (!mayWrite || !status?.lanes.length) return [];
  const lane = el('select', { 'aria-label': `Lane that replays ${one.name}` }, ...status.lanes.map((known) => el('option', {}, known.name)));
  const waits = confirmBox();
  const button = (text, act, changes = true) => el('button', { type: 'button', class: 'quiet', ...(changes ? { 'data-changes': '' } : {}), onclick: () => act().catch(sayFailure) }, text);
  return [el('div', { class: 'row' }, el('label', {}, 'Replay it on ', lane), button('Preview', () => replay(one, lane.value, waits)),
    button('Play it over time', () => overTime(one, lane.value), false), ...(waits ? [waits] : []))];
}

async function replay(one, lane, waits) {
  await new PlannedChange({
    request: { method: 'POST', path: `${pathOf(one.name)}/replay`, query: { lane } },
    shown: () => ({ title: `What replaying ${one.name} on ${lane} does`, words: [`${lane} gets the delays, jitter and losses of ${one.label}${one.profile.outbound.rate_bps ? ', and its rates' : ''}.`, 'All else of the lane stays.'], label: `Replay on ${lane}` }),
    page, waits, failed: sayFailure,
    done: async (done) => {
      sayDone(done, `${lane} behaves as ${one.label} did. ${done.summary}`);
      await lanes();
    },
  }).preview();
}

// Both directions go to the schedule's draft, as traces: nothing is applied here.
async function overTime(one, lane) {
  const { traces } = await ask('POST', `${pathOf(one.name)}/traces`);
  const [outbound, inbound] = traces.map((trace) => trace.name);
  location.assign(`/schedule?${new URLSearchParams({ lane, outbound, inbound })}`);
}

function acts(one) {
  if (!mayWrite) return '';
  const button = (text, label, kinds, act) => el('button', { type: 'button', class: `quiet ${kinds}`, 'aria-label': label, onclick: () => act().catch(sayFailure) }, text);
  const compute = async () => {
    await ask('POST', `${pathOf(one.name)}/profile`);
    await load();
  };
  const drop = async () => {
    await ask('DELETE', pathOf(one.name));
    curves.delete(one.name);
    say(`The recording ${one.name} is deleted.`);
    await load();
    $('kept-title').focus();
  };
  return el('div', { class: 'row' }, ...(one.state === 'interrupted' ? [button('Compute the profile', `Compute the profile of ${one.name}`, '', compute)] : []),
    button('Delete', `Delete the recording ${one.name}`, 'danger', drop));
}

form.addEventListener('submit', (event) => event.preventDefault());
form.addEventListener('change', kind);
onClick('record', async () => {
  clear(form);
  $('new-wrong').textContent = '';
  const said = Object.fromEntries([form.elements.kind.value, 'for', 'every', 'by', 'step', 'name'].map((name) => [name, form.elements[name].value.trim()]).filter(([, text]) => text));
  try {
    await ask('POST', '/api/recordings', { ...said, rate: form.elements.rate.checked });
  } catch (problem) {
    const left = show(form, problem.mistakes ?? []);
    $('new-wrong').textContent = problem.mistakes?.length ? left.map((one) => one.text).join('\n') : problem.message;
    form.querySelector('[aria-invalid=true]')?.focus();
    return;
  }
  form.elements.name.value = '';
  await load();
  if (active) $('stop').focus();
});
onClick('stop', () => ask('POST', `${pathOf(active.name)}/stop`));

listen('recording', (recording) => {
  if (recording.state === 'recording') {
    watch(recording);
  } else {
    const what = recording.state === 'done' ? `The recording ${recording.name} is kept.` : `${recording.name} was not recorded: ${recording.trouble}`;
    say(what, recording.state !== 'done');
    load().catch(sayFailure);
  }
});
let changes = -1;
listen('look', (look) => {
  now = look.at_ms;
  progress();
  if (look.changes !== changes && changes !== -1) lanes().catch(sayFailure);
  changes = look.changes;
});
listen('back', () => load().catch(sayFailure));
for (const one of form.elements) one.disabled = !mayWrite;
lanes().then(load).catch(sayFailure);
