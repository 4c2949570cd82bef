// The topology as text: checked while the user types, with each mistake at its line, and brought up on request.

import { $, Problem, ask, can, el, listen, mayWrite, onClick, say, sayFailure } from './api.js';

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
let waiting = 0;

async function load() {
  const response = await fetch('/api/topology').catch(() => { throw new Problem({ status: 0, detail: 'The daemon does not answer.' }); });
  if (response.ok) {
    text.value = await response.text();
    etag = response.headers.get('ETag');
  } else if (response.status === 404) {
    text.value = EXAMPLE;
    etag = '';
  }
  numbers([]);
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
  try {
    const plan = await ask('PUT', '/api/topology?dry_run=1', text.value, YAML);
    $('steps').textContent = plan.steps.map((step) => `${step.command}  # ${step.why}`).join('\n') || 'Nothing to change: this topology is up.';
    mistakes(null);
  } catch (problem) {
    $('steps').textContent = 'The topology has mistakes.';
    mistakes(problem);
  }
}

text.addEventListener('input', () => {
  numbers([]);
  clearTimeout(waiting);
  if (mayWrite) waiting = setTimeout(check, 500);
});
text.addEventListener('scroll', () => { $('numbers').scrollTop = text.scrollTop; });
onClick('check', check);
onClick('apply', async () => {
  try {
    const query = $('confirm-in').checked ? '?confirm=60s' : '';
    const done = await ask('PUT', `/api/topology${query}`, text.value, YAML, etag ? { 'If-Match': etag } : {});
    say(done.summary);
    mistakes(null);
    await load();
  } catch (problem) {
    mistakes(problem);
    if (problem.status === 412) sayFailure(problem);
  }
});
onClick('down', async () => {
  if (!confirm('Take all lanes down and return their ports?')) return;
  say((await ask('DELETE', '/api/topology')).summary);
  await load();
});
$('confirm-label').hidden = !can.has('confirm');
$('check').disabled = !mayWrite;
listen('back', () => sayFailure({ message: 'The daemon is back. Your text is still here.' }));
load().then(() => mayWrite && check()).catch(sayFailure);
