// The matrix of all pairs of sites: asked above the diagonal, measured below; a pair, or all, can be verified.

import { $, ask, el, listen, lock, mayWrite, onClick, say, sayFailure } from './api.js';
import { ms } from './units.js';

const HOTTEST = 45;
const MANY = 9;
const MOST = 16;
const key = (one, other) => [one, other].sort().join(' ');
let matrix = null;
let pairs = new Map();
let proofs = new Map();
let chosen = '';
let place = [0, 1];

// A time in ms with as many digits as fit a cell.
const short = (ns) => String(Number((ns / 1e6).toPrecision(names().length > MOST ? 3 : 4)));

// Events that come while an answer is on its way are kept, for they may be newer. Of two answers the one that was asked
// for later counts.
let missed = null;
let version = 0;
async function load() {
  const own = [];
  missed = own;
  try {
    const answer = await ask('GET', '/api/matrix');
    if (missed !== own) return;
    take(answer);
  } finally {
    if (missed === own) missed = null;
  }
  own.forEach(follow);
}

function take(answer) {
  matrix = answer;
  version = answer.verification?.version ?? 0;
  pairs = new Map(matrix.pairs.map((pair) => [key(pair.one, pair.other), pair]));
  proofs = new Map();
  if (matrix.verification) merge(matrix.verification);
  $('none').hidden = matrix.topology !== null;
  $('board').hidden = matrix.topology === null;
  if (matrix.topology === null) return;
  draw();
  progress(matrix.verification);
}

// What a verification has found: of one that was cancelled no certificate tells, and of an active one not yet.
function merge(verification) {
  for (const row of verification.impairments) proofs.set([row.lane, row.flow, row.direction, row.what].join(' '), row);
  if (verification.certificate) return;
  const why = new Map(verification.reasons.map((one) => [key(one.one, one.other), one.why]));
  for (const [name, found] of [['measured', verification.pairs], ['unanswered', verification.unanswered]]) {
    for (const one of found) {
      const pair = pairs.get(key(one.one, one.other));
      if (!pair || pair.asked_ns !== one.asked_ns) continue;
      const said = { measured: null, unanswered: null, why: why.get(key(one.one, one.other)) ?? [], certificate: null, created: null };
      Object.assign(pair, said, { [name]: one });
    }
  }
}

const names = () => [matrix.hub, ...matrix.sites];
const failed = (pair) => Boolean(pair.unanswered) || (pair.measured !== null && !pair.measured.passed);
const verdict = (pair) => (pair.unmeasurable ? 'cannot be measured from here' : pair.unanswered ? 'no answer'
  : !pair.measured ? 'not verified' : pair.measured.passed ? 'as asked' : 'not as asked');

function told(pair) {
  const measured = pair.measured ? `, measured ${ms(pair.measured.median_ns, 3)}` : '';
  return `${pair.one} to ${pair.other}: asked ${ms(pair.asked_ns, 3)}${measured}, ${verdict(pair)}`;
}

function draw() {
  const all = names();
  const asked = matrix.pairs.map((pair) => pair.asked_ns);
  const [least, most] = [Math.min(...asked), Math.max(...asked)];
  $('least').textContent = ms(least, 0);
  $('most').textContent = ms(most, 0);
  const share = (ns) => Math.sqrt(Math.min(1, Math.max(0, (ns - least) / (most - least))));
  const heat = (ns) => (most > least ? Math.round(4 + (HOTTEST - 4) * share(ns)) : HOTTEST / 2);
  const held = document.activeElement?.closest?.('#grid') !== null && document.activeElement !== document.body;
  const table = $('grid');
  table.className = all.length > MOST ? 'most' : all.length > MANY ? 'many' : '';
  table.tHead.replaceChildren(el('tr', {}, el('td', { class: 'self' }), ...all.map((name) => el('th', { scope: 'col', title: name }, name))));
  table.tBodies[0].replaceChildren(...all.map((row, i) => el('tr', {}, el('th', { scope: 'row', title: row }, row),
    ...all.map((column, j) => (i === j ? el('td', { class: 'self' }, el('span', { 'aria-hidden': 'true' }, '–')) : cell(pairs.get(key(row, column)), i, j, heat))))));
  place = place.map((at) => Math.min(at, all.length - 1));
  if (place[0] === place[1]) place = [0, 1];
  focusable(held);
  summarize();
  if (chosen) show(chosen);
}

function cell(pair, i, j, heat) {
  const below = i > j;
  const ns = below ? pair.measured?.median_ns ?? null : pair.asked_ns;
  const bad = below && failed(pair);
  const text = ns === null ? (pair.unanswered ? '✗' : '·') : bad && names().length > MOST ? `✗${Math.round(ns / 1e6)}` : `${bad ? '✗' : ''}${short(ns)}`;
  const kind = bad ? 'wrong' : ns === null ? 'unknown' : below ? 'found' : 'asked';
  const id = key(pair.one, pair.other);
  const made = el('td', {
    class: `${kind}${id === chosen ? ' chosen' : ''}`, tabindex: '-1', 'aria-label': told(pair), title: told(pair), 'aria-selected': String(id === chosen), 'data-pair': id,
    onclick: () => { place = [i, j]; focusable(true); choose(id); },
  }, text);
  if (ns !== null) made.style.setProperty('--heat', heat(ns));
  return made;
}

const at = ([i, j]) => $('grid').tBodies[0].rows[i]?.cells[j + 1];

// One cell at a time can be reached with Tab; the arrow keys move on from it.
function focusable(focus) {
  $('grid').querySelector('td[tabindex="0"]')?.setAttribute('tabindex', '-1');
  const goal = at(place);
  if (!goal) return;
  goal.setAttribute('tabindex', '0');
  if (focus) goal.focus({ preventScroll: false });
}

const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
$('grid').addEventListener('keydown', (event) => {
  const last = names().length - 1;
  const [i, j] = place;
  let goal = null;
  if (event.key in MOVES) {
    const [down, right] = MOVES[event.key];
    goal = [i + down, j + right];
    if (goal[0] === goal[1]) goal = [goal[0] + down, goal[1] + right];
  } else if (event.key === 'Home') goal = [i, i === 0 ? 1 : 0];
  else if (event.key === 'End') goal = [i, i === last ? last - 1 : last];
  else if (event.key === 'Enter' || event.key === ' ') choose(at(place).dataset.pair);
  else return;
  event.preventDefault();
  if (goal && goal.every((one) => one >= 0 && one <= last)) {
    place = goal;
    focusable(true);
  }
});

function choose(id) {
  chosen = id;
  for (const one of $('grid').querySelectorAll('td[data-pair]')) {
    one.classList.toggle('chosen', one.dataset.pair === id);
    one.setAttribute('aria-selected', String(one.dataset.pair === id));
  }
  show(id);
  at(place).scrollIntoView({ block: 'nearest', inline: 'nearest' });
}

function show(id) {
  const pair = pairs.get(id);
  $('one').hidden = !pair || Boolean(pair.unmeasurable);
  if (!pair) {
    chosen = '';
    $('pair-title').textContent = 'A pair';
    $('pair-body').replaceChildren(el('p', { class: 'nothing' }, 'Choose a cell of the matrix.'));
    return;
  }
  $('pair-title').textContent = `${pair.one} – ${pair.other}`;
  const rows = [['Asked', `${ms(pair.asked_ns, 3)}${parts(pair)}`]];
  const found = pair.measured;
  if (found) {
    rows.push(['Median', ms(found.median_ns, 3)], ['Minimum', ms(found.min_ns, 3)], ['99th percentile', ms(found.p99_ns, 3)],
      ['Allowed', `± ${ms(found.allowed_ns, 3)}`], ['Echoes lost', String(found.lost)]);
  }
  if (pair.created) rows.push(['Verified', new Date(pair.created).toLocaleString()]);
  const list = el('dl', {}, ...rows.flatMap(([name, text]) => [el('dt', {}, name), el('dd', {}, text)]));
  const said = el('p', { class: failed(pair) ? 'failed' : found ? 'ok' : 'soft' }, `${verdict(pair).replace(/^./, (first) => first.toUpperCase())}.`);
  $('pair-body').replaceChildren(said, list, ...why(pair), ...impairments(pair), ...link(pair));
  lock();
}

// The lanes that the path between two sites leads over, each with its part of the RTT.
function parts(pair) {
  if (pair.one === matrix.hub) return '';
  const part = (site) => ms(pairs.get(key(matrix.hub, site)).asked_ns, 3);
  return ` = ${part(pair.one)} + ${part(pair.other)}, by way of ${matrix.hub}`;
}

function why(pair) {
  const said = pair.unmeasurable ? [pair.unmeasurable] : failed(pair) ? pair.why : [];
  return said.length ? [el('h3', {}, 'Why'), el('ul', {}, ...said.map((text) => el('li', {}, text)))] : [];
}

function impairments(pair) {
  const rows = [...proofs.values()].filter((one) => one.lane === pair.one || one.lane === pair.other);
  if (!rows.length) return [];
  const figure = (row, value) => `${Number(value.toPrecision(5))}${row.unit ? ` ${row.unit}` : ''}`;
  const head = el('thead', {}, el('tr', {}, ...['Lane', 'Impairment', 'Asked', 'Measured', 'Verdict'].map((name, i) => el('th', { scope: 'col', class: i === 1 ? 'text' : '' }, name))));
  const body = el('tbody', {}, ...rows.map((row) => el('tr', {}, el('td', {}, `${row.lane} ${row.direction}${row.flow ? `, ${row.flow}` : ''}`), el('td', { class: 'text' }, row.what),
    el('td', {}, figure(row, row.asked)), el('td', {}, figure(row, row.measured)), el('td', { class: row.passed ? 'ok' : 'failed' }, row.passed ? 'ok' : 'FAILED'))));
  return [el('h3', {}, 'Impairments, measured by the last verification'), el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Impairments' }, el('table', {}, head, body))];
}

const link = (pair) => (pair.certificate ? [el('p', {}, el('a', { href: `/certificates#${pair.certificate}` }, 'Its certificate'))] : []);

function summarize() {
  const bad = matrix.pairs.filter(failed);
  const unknown = matrix.pairs.filter((pair) => !pair.measured && !pair.unanswered && !pair.unmeasurable);
  const blind = matrix.pairs.filter((pair) => pair.unmeasurable);
  const said = [];
  if (bad.length) said.push(`${bad.length} of ${matrix.pairs.length} pairs ${bad.length === 1 ? 'is' : 'are'} not as asked: ${bad.slice(0, 3).map((pair) => `${pair.one} – ${pair.other}`).join(', ')}${bad.length > 3 ? ' and more' : ''}.`);
  if (unknown.length) said.push(`${unknown.length} of ${matrix.pairs.length} pairs ${unknown.length === 1 ? 'is' : 'are'} not verified as set now.`);
  if (blind.length) said.push(`${blind.length} cannot be measured from here.`);
  const text = said.join(' ') || `All ${matrix.pairs.length} pairs are as asked.`;
  if ($('summary').textContent !== text) $('summary').textContent = text;
  $('all').hidden = blind.length === matrix.pairs.length;
}

function progress(verification) {
  const runs = verification?.state === 'running';
  $('running').hidden = !runs;
  if (!runs) return;
  $('progress').max = verification.total;
  $('progress').value = verification.finished;
  $('step').textContent = `${verification.finished} of ${verification.total}: ${verification.step}`;
}

async function verify(pair) {
  const asked = new URLSearchParams({ count: $('count').value.trim(), impairments: $('impairments').checked ? '1' : '0' });
  if (pair) asked.set('pair', `${pair.one},${pair.other}`);
  await ask('POST', `/api/verification?${asked}`);
}
onClick('all', () => verify(null));
onClick('one', () => verify(pairs.get(chosen)));
onClick('cancel', async () => {
  await ask('POST', '/api/verification/cancel');
});
$('cancel').disabled = !mayWrite;

const ENDS = {
  done: () => (matrix.pairs.some(failed) ? ['A pair is not as asked: see why in its cell. The certificate is filed.', true] : ['The certificate is filed.', false]),
  cancelled: () => ['Cancelled: no certificate is filed; the pairs measured so far are shown.', false],
  failed: (verification) => [`The verification failed: ${verification.trouble}`, true],
};
function follow(verification) {
  if (!matrix?.topology || verification.version <= version) return;
  version = verification.version;
  if (!verification.finished) proofs.clear();
  merge(verification);
  draw();
  progress(verification);
}
listen('verification', (verification) => {
  if (verification.state !== 'running') load().then(() => say(...ENDS[verification.state](verification))).catch(sayFailure);
  else if (missed) missed.push(verification);
  else follow(verification);
});
listen('back', () => load().catch(sayFailure));

// A change by others, or by a schedule, asks for other RTTs.
// The first look counts, too: something may have changed since the matrix was read.
let changes = null;
listen('look', (look) => {
  if (look.changes !== changes) load().catch(sayFailure);
  changes = look.changes;
});
load().catch(sayFailure);
