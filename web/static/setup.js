// A new appliance, step by step: ports, pairs, places, the plan, and what was brought up, kept and verified. The address
// names the step, so that the browser's Back goes a step back; the browser keeps what was chosen until this tab is closed.

import { $, ask, can, el, listen, mayWrite, onClick, sayDone, sayFailure } from './api.js';
import { clear, show as showMistakes } from './mistakes.js';
import { fillPorts } from './port_table.js';
import { Checking } from './setup_check.js';
import { addVirtual, asked, drawPairs, drawPlaces, gather, suggest, words } from './setup_lanes.js';
import { commandsOf } from './steps.js';

const KEY = 'longhaul setup';
const STEPS = { ports: 'Ports', pairs: 'Pairs', places: 'Places', plan: 'Plan', check: 'Keep and verify' };
const NAMES = Object.keys(STEPS);
const LOOK_MS = 2000;
const form = $('setup');
const entered = { hub: '', name: '', hub_host: '', by: 'name', lanes: null };
let nics = [];
let pairs = [];
let step = '';
let proposal = null;
let up = null; // the name of what was brought up here; null before
let present = null; // the name of what is up
let changes = null;
let busy = false; // whether we bring something up: what changes then is our own change
const checking = new Checking(() => entered.hub);

const keep = () => {
  try {
    sessionStorage.setItem(KEY, JSON.stringify({ ...entered, up }));
  } catch {
    // then a reload begins anew
  }
};

function remembered() {
  try {
    const { up: name = null, ...kept } = JSON.parse(sessionStorage.getItem(KEY)) ?? {};
    Object.assign(entered, kept);
    up = name;
  } catch {
    // nothing was kept
  }
}

// Whether a step can be gone to from here: forward only by `next`, and nowhere from what has to be kept or reverted.
const reached = (name) => NAMES.indexOf(name) <= NAMES.indexOf(step) && !checking.pending;

function drawSteps() {
  $('steps').replaceChildren(...NAMES.map((name) => el('li', {}, el('button', {
    type: 'button', disabled: !reached(name), onclick: () => go(name), ...(name === step ? { 'aria-current': 'step' } : {}),
  }, STEPS[name]))));
}

function go(name) {
  if (location.hash !== `#${name}`) history.pushState(null, '', `#${name}`);
  show(name);
}

// Shows a step; a heading has the focus, so that a screen reader reads on from there.
function show(name, focus = true) {
  step = name;
  document.body.dataset.step = name;
  for (const one of NAMES) $(`step-${one}`).hidden = one !== name;
  $('wrong').textContent = '';
  clear(form);
  $('back').hidden = name === 'ports';
  $('next').hidden = name === 'plan' || name === 'check';
  $('next').textContent = `Next: ${STEPS[NAMES[NAMES.indexOf(name) + 1]]?.toLowerCase()}`;
  $('next').disabled = !mayWrite;
  $('up').hidden = name !== 'plan';
  if (name === 'pairs') drawPairs(entered, nics, pairs, keep);
  if (name === 'places') drawPlaces(entered, nics, keep).catch(sayFailure);
  if (name === 'plan') drawPlan();
  if (name === 'check') checking.show(up).catch(sayFailure);
  drawSteps();
  other();
  if (focus) $(`${name}-title`).focus();
}

// The ports, as the cables are now. Rows whose link has just changed are marked.
const links = new Map();
async function look() {
  ({ nics, pairs } = await ask('GET', '/api/nics'));
  const state = (nic) => `${nic.up} ${nic.carrier}`;
  const moved = new Set(nics.filter((nic) => links.has(nic.name) && links.get(nic.name) !== state(nic)).map((nic) => nic.name));
  nics.forEach((nic) => links.set(nic.name, state(nic)));
  if (drawn === JSON.stringify(nics) && !marked) return;
  drawn = JSON.stringify(nics);
  marked = moved.size > 0;
  fillPorts($('ports'), nics, 6, moved);
  $('ports').hidden = !nics.length;
  const free = nics.filter((nic) => nic.usable).length;
  const many = `${pairs.length} ${pairs.length === 1 ? 'pair' : 'pairs'} of one speed and MTU`;
  const none = nics.length ? 'No two free ports have one speed and MTU' : 'This machine has no interface that can be a port';
  $('ports-said').textContent = pairs.length ? `${free} ports are free: ${many}.` : `${none}. Virtual lanes need none.`;
}
let drawn = '';
let marked = false;

// What the fields say, to the daemon: its mistakes stand at their fields. Returns whether this step and those before it
// have none; the plan is kept for the next steps.
async function proposed() {
  gather(form, entered);
  keep();
  clear(form);
  $('wrong').textContent = '';
  proposal = null;
  try {
    proposal = await ask('POST', '/api/topology/proposal', asked(entered));
    return true;
  } catch (problem) {
    if (!problem.mistakes?.length) throw problem;
    return told(problem.mistakes);
  }
}

const PAIRS = /^(by|lanes|lanes\.\d+\.(hub|site)_port)$/;
const stepOf = ({ path }) => (PAIRS.test(path) ? 'pairs' : 'places');

function told(mistakes) {
  const at = (one) => NAMES.indexOf(stepOf(one));
  const due = mistakes.filter((one) => at(one) <= NAMES.indexOf(step));
  if (!due.length) return true;
  const first = NAMES[Math.min(...due.map(at))];
  if (first !== step) go(first); // somebody else has taken a port meanwhile, say
  const left = showMistakes(form, due);
  $('wrong').textContent = left.map((one) => [one.path, one.text].filter(Boolean).join(': ')).join('\n');
  form.querySelector('[aria-invalid=true]')?.focus();
  return false;
}

async function next() {
  if (step === 'ports') {
    entered.lanes ??= suggest(pairs);
    keep();
    go('pairs');
  } else if (await proposed()) {
    go(NAMES[NAMES.indexOf(step) + 1]);
  }
}

function drawPlan() {
  $('words').replaceChildren(...words(entered, proposal).map((text) => el('li', {}, text)));
  $('warnings').textContent = proposal?.warnings.join('\n') ?? '';
  $('file').textContent = proposal?.topology ?? '';
  $('commands').textContent = commandsOf(proposal?.steps ?? []) || 'Nothing to change: this is up.';
  $('confirm-label').hidden = !can.has('confirm');
}

// Says what somebody else has brought up: the plan then replaces it.
function other() {
  const strange = present !== null && present !== up && step !== 'check';
  $('other').hidden = !strange;
  if (strange) $('other').replaceChildren(el('span', {}, `${present} is up on this machine. The plan at the end replaces it. `), el('a', { href: '/' }, 'See its lanes'));
}

async function renew() {
  if (busy) return;
  const status = await ask('GET', '/api/status');
  if (busy || status.leased) return;
  present = status.topology;
  if (step === 'check' && present !== up) {
    up = null;
    checking.leave();
    if (await proposed()) go('plan');
    $('wrong').textContent = present === null ? 'It was reverted: nothing is up. What you chose is still here.' : `Somebody else has brought ${present} up.`;
  } else if (step === 'plan' && proposal && proposal.etag !== status.etag) {
    if (await proposed()) show('plan', false);
    if (!$('wrong').textContent) $('wrong').textContent = 'What is up has changed meanwhile: this is the plan from there.';
  }
  other();
}

onClick('back', () => go(NAMES[NAMES.indexOf(step) - 1]));
onClick('up', async () => {
  const query = can.has('confirm') && $('confirm-in').checked ? '?confirm=60s' : '';
  $('wrong').textContent = '';
  busy = true;
  try {
    const done = await ask('PUT', `/api/topology${query}`, proposal.topology, 'application/yaml', { 'If-Match': proposal.etag });
    up = present = done.summary.split(' is up')[0];
    checking.pending = query !== ''; // at once: the browser's Back must not leave what waits
    keep();
    sayDone(done);
    go('check');
  } catch (problem) {
    $('wrong').textContent = problem.message;
    if (problem.status === 412) changes = null; // the next look asks for what is up now
  } finally {
    busy = false;
  }
});
form.addEventListener('submit', (event) => {
  event.preventDefault();
  if (!$('next').hidden && !$('next').disabled) $('next').click();
});
onClick('next', next);
onClick('add-pair', () => {
  gather(form, entered);
  const taken = new Set(entered.lanes.flatMap((lane) => [lane.hub_port, lane.site_port]));
  const pair = pairs.find((names) => !names.some((name) => taken.has(name))) ?? nics.filter((nic) => nic.usable && !taken.has(nic.name)).slice(0, 2).map((nic) => nic.name);
  entered.lanes.push(...suggest([[pair[0] ?? '', pair[1] ?? '']]));
  drawPairs(entered, nics, pairs, keep, entered.lanes.length - 1);
  keep();
});
onClick('add-virtual', () => {
  gather(form, entered);
  addVirtual(entered);
  drawPairs(entered, nics, pairs, keep, entered.lanes.length - 1);
  keep();
});
form.addEventListener('input', () => {
  gather(form, entered);
  keep();
});
addEventListener('hashchange', () => {
  const name = location.hash.slice(1);
  if (!NAMES.includes(name) || name === step) return;
  // Forward by the browser's own button: only to what the fields lead to.
  if (checking.pending) history.replaceState(null, '', '#check');
  else if (name === 'plan' && !proposal) proposed().then((fine) => fine && show('plan')).catch(sayFailure);
  else show(name);
});
listen('look', (seen) => {
  checking.look(seen);
  drawStepsOnce();
  if (changes !== seen.changes) renew().catch(sayFailure);
  changes = seen.changes;
});
listen('verification', (verification) => checking.follow(verification));
listen('back', () => renew().catch(sayFailure));

let wasPending = null;
function drawStepsOnce() {
  if (wasPending === checking.pending) return;
  wasPending = checking.pending;
  $('back').disabled = checking.pending;
  drawSteps();
}

async function start() {
  remembered();
  for (const key of ['hub', 'name', 'hub_host', 'by']) form.elements[key].value = entered[key];
  const status = await ask('GET', '/api/status');
  present = status.leased ? null : status.topology;
  await look();
  const name = location.hash.slice(1);
  const begun = entered.lanes !== null && NAMES.includes(name);
  if (begun && name === 'check' && up !== null && up === present) show('check', false);
  else if (begun && name === 'plan' && (show('places', false), await proposed())) show('plan', false);
  else if (begun && (name === 'pairs' || name === 'places')) show(name, false);
  else if (!step) show('ports', false);
  if (!mayWrite) $('wrong').textContent = 'Your token may only read: it cannot set lanes up.';
  setInterval(() => step === 'ports' && !document.hidden && look().catch(() => {}), LOOK_MS);
}
start().catch(sayFailure);
