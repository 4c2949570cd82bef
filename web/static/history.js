// The history of changes: what, when, by whom; and undo.

import { $, ask, el, listen, onClick, sayDone, sayFailure } from './api.js';

let changes = -1;
const TONE = { '+': 'added', '-': 'removed' };
const lineOf = (line) => el('span', { class: TONE[line[0]] ?? '' }, `${line}\n`);

// Of two answers the one that was asked for later counts: the other can be older, and arrive after it.
let asking = 0;
async function refresh() {
  const mine = (asking += 1);
  const { entries } = await ask('GET', '/api/history');
  if (mine !== asking) return;
  $('none').hidden = entries.length > 0;
  const rows = entries.map((entry) => el('li', {},
    el('time', { datetime: entry.when }, new Date(entry.when).toLocaleString()), ` ${entry.author.user} (${entry.author.command})${entry.times > 1 ? `, ${entry.times} times` : ''}: `, el('strong', {}, entry.summary),
    entry.diff ? el('pre', { tabindex: '0', class: 'diff' }, ...entry.diff.trimEnd().split('\n').filter((line) => !/^(---|\+\+\+|@@)/.test(line)).map(lineOf)) : ''));
  $('entries').replaceChildren(...rows);
}

onClick('undo', async () => {
  sayDone(await ask('POST', '/api/undo'));
  await refresh();
});
// The first look, too: something may have changed since the history was read.
listen('look', (look) => {
  if (look.changes !== changes) refresh().catch(sayFailure);
  changes = look.changes;
});
listen('back', () => refresh().catch(sayFailure));
refresh().catch(sayFailure);
