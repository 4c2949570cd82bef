// The topology as text: checked while the user types, with each mistake at its line, and brought up on request.

import { $, Problem, ask, can, el, listen, mayWrite, onClick, say, sayDone, sayFailure } from './api.js';
import { dropDraft, keepDraft, readDraft } from './draft.js';

const YAML = 'application/yaml';
const EXAMPLE = `name: new-york
hub: new-york
defaults: {rate: 100Mbit}
lanes:
  california: {rtt: 32ms}
  london: {rtt: 80ms, loss: 0.01%}
  japan: {rtt: 346ms}
`;
const text = $('text');
let etag = '';
let base = null; // the text without edits: what is up, or was last; at first an example
let moved = false; // whether what is up has changed since the draft was begun
let begun = false; // whether this visit has a draft
let kept = true; // whether the browser keeps it
let busy = false;
let checks = 0;
let waiting = 0;
let changes = -1;

const edited = () => base !== null && text.value !== base;

// Reads what is up. A draft stays; without one the text follows. Of two answers the one that was asked for later counts:
// the other can be older, and arrive after it. With `own` the change since the last one was made here.
let loads = 0;
let loading = null;
function load(own = false) {
  loading = loaded((loads += 1), own);
  return loading;
}

async function loaded(mine, own) {
  const response = await fetch('/api/topology').catch(() => { throw new Problem({ status: 0, detail: 'The daemon does not answer.' }); });
  if (!response.ok && response.status !== 404) throw new Problem(await response.json());
  const is = response.ok ? response.headers.get('ETag') : '';
  const up = response.ok ? await response.text() : base ?? EXAMPLE;
  if (mine !== loads) {
    await loading;
    return;
  }
  const draft = edited() ? text.value : null;
  moved = draft !== null && !own && (moved || is !== etag);
  etag = is;
  base = up;
  text.value = draft ?? base;
  numbers([]);
  told();
}

// Says that a draft is not up, and has the browser keep it.
function told() {
  if (edited()) kept = keepDraft(text.value);
  else if (begun) dropDraft();
  begun = edited();
  moved &&= edited();
  $('drafted').hidden = !edited();
  $('drafted-text').textContent = `This draft is not up. ${kept ? 'Your browser keeps it until you bring it up or discard it.' : 'It is lost when you leave this page: your browser keeps nothing.'}${
    moved ? ' Somebody has changed the topology since you began: bringing the draft up replaces that change.' : ''}`;
}

function put(value) {
  text.value = value;
  numbers([]);
  told();
  if (mayWrite) check();
}

// A draft of the last visit is offered, never taken unasked: what is up may have changed long since.
function offer() {
  const offered = $('offered');
  const draft = readDraft();
  if (!draft || draft.text === base) return;
  offered.hidden = false;
  $('offered-text').textContent = `You left a draft that is not up (${new Date(draft.at).toLocaleString()}).`;
  $('offered-take').onclick = () => {
    offered.hidden = true;
    put(draft.text);
    text.focus();
  };
  $('offered-drop').onclick = () => {
    offered.hidden = true;
    if (!edited()) dropDraft();
    text.focus();
  };
}

function numbers(bad) {
  const lines = text.value.split('\n').length;
  $('numbers').replaceChildren(...Array.from({ length: lines }, (_, i) => el('li', { class: bad.includes(i + 1) ? 'bad' : '' }, String(i + 1))));
  $('numbers').scrollTop = text.scrollTop;
}

function mistakes(problem) {
  const found = problem?.mistakes ?? [];
  const lines = found.map((m) => Number(m.where.split(':')[1])).filter(Boolean);
  numbers(lines);
  text.setAttribute('aria-invalid', String(Boolean(problem)));
  const rows = found.map((m) => {
    const line = Number(m.where.split(':')[1]);
    const go = el('button', { type: 'button', onclick: () => toLine(line) }, line ? `line ${line}` : m.where);
    return el('li', {}, go, ` ${m.path ? `${m.path}: ` : ''}${m.text}`);
  });
  if (problem && !found.length) rows.push(el('li', {}, problem.message));
  $('mistakes').replaceChildren(...rows);
}

function toLine(line) {
  const lines = text.value.split('\n');
  const start = lines.slice(0, line - 1).join('\n').length + (line > 1 ? 1 : 0);
  text.focus();
  text.setSelectionRange(start, start + (lines[line - 1]?.length ?? 0));
}

async function check() {
  const mine = (checks += 1);
  const show = (steps, problem) => {
    if (mine !== checks) return;
    $('steps').textContent = steps;
    mistakes(problem);
  };
  try {
    const plan = await ask('PUT', '/api/topology?dry_run=1', text.value, YAML);
    const none = etag && !edited() ? 'Nothing to change: this topology is up.' : 'No step is needed in the kernel.';
    show(plan.steps.map((step) => `${step.command}  # ${step.why}`).join('\n') || none, null);
  } catch (problem) {
    show(problem.mistakes?.length ? 'The topology has mistakes.' : problem.message, problem);
  }
}

// What is up is another now: the text without edits and the steps from here are, too.
async function renew(own) {
  await load(own);
  if (mayWrite) await check();
}

// What we change ourselves is nobody else's change.
async function changing(work) {
  busy = true;
  try {
    await work();
  } finally {
    busy = false;
  }
}

text.addEventListener('input', () => {
  numbers([]);
  told();
  checks += 1; // an answer that is on its way is about another text
  clearTimeout(waiting);
  if (!mayWrite) return;
  $('steps').textContent = 'Not checked yet.';
  waiting = setTimeout(check, 500);
});
text.addEventListener('scroll', () => { $('numbers').scrollTop = text.scrollTop; });
onClick('check', check);
onClick('discard', () => put(base));
onClick('apply', () => changing(async () => {
  const sent = text.value;
  try {
    const query = $('confirm-in').checked ? '?confirm=60s' : '';
    const done = await ask('PUT', `/api/topology${query}`, sent, YAML, etag ? { 'If-Match': etag } : {});
    sayDone(done);
    base = sent; // what was typed since is a draft
  } catch (problem) {
    mistakes(problem);
    if (problem.status === 412) sayFailure(problem);
    return;
  }
  await renew(true);
}));
onClick('down', () => changing(async () => {
  if (!confirm('Take all lanes down and return their ports?')) return;
  sayDone(await ask('DELETE', '/api/topology'));
  await renew(true);
}));
$('confirm-label').hidden = !can.has('confirm');
$('check').disabled = !mayWrite;
addEventListener('beforeunload', (event) => edited() && !kept && event.preventDefault());
// A test run's lanes are nobody's topology: the text waits until it has ended. The first look counts, too: something may
// have changed since the text was read.
listen('look', (look) => {
  if (busy || look.leased || look.changes === changes) return;
  renew().catch(sayFailure);
  changes = look.changes;
});
listen('back', () => {
  say(edited() ? 'The daemon is back. Your text is still here.' : 'The daemon is back.');
  renew().catch(sayFailure);
});
load().finally(() => { text.readOnly = false; }).then(() => {
  offer();
  return mayWrite && check();
}).catch((problem) => {
  $('steps').textContent = problem.message;
  sayFailure(problem);
});
