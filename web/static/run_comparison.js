// The comparison of a run with another one, below its table.

import { $, ask, el } from './api.js';
import { titled } from './run_names.js';

const WORDS = { same: 'within the noise', faster: 'faster', slower: 'slower', REGRESSION: 'REGRESSION' };

// The two runs side by side: what changed beyond the noise stands first.
export async function showComparison(run, other) {
  const asked = other ? `${titled(run.id)} ${titled(other)} ${run.finished}` : '';
  if ($('comparison').dataset.of === asked) return;
  $('comparison').dataset.of = asked;
  if (!other) {
    $('comparison').hidden = true;
    return;
  }
  const found = await ask('GET', `/api/runs/${run.id}/comparison?other=${encodeURIComponent(other)}`);
  if ($('comparison').dataset.of !== asked) return;
  const changed = found.changes.filter((one) => one.differs || one.word === 'REGRESSION');
  const alone = found.only_before.length + found.only_after.length;
  const parts = [found.changes.length ? `${changed.length} of ${found.changes.length} cells changed beyond the noise.` : 'The two runs have no cell in common.'];
  if (alone) parts.push(`${found.only_before.length} cells only in ${titled(other)}, ${found.only_after.length} only in ${titled(run.id)}.`);
  $('comparison-said').textContent = parts.join(' ');
  $('comparison-table').tHead.rows[0].replaceChildren(...['Cell', titled(other), titled(run.id), 'Change', 'Beyond the noise', 'Limited by'].map((text, i) => el('th', { scope: 'col', class: i > 3 ? 'text' : '' }, text)));
  $('comparison-title').textContent = found.changes[0]?.unit === 'bytes_per_s' ? 'Compared, in MiB/s (Gbit/s)' : 'Compared';
  const others = found.changes.filter((one) => !changed.includes(one));
  $('comparison-table').tBodies[0].replaceChildren(...[...changed, ...others].map(changeRow));
  $('comparison').hidden = false;
}

function changeRow(one) {
  const share = one.share === null ? '–' : `${one.share > 0 ? '+' : ''}${(one.share * 100).toFixed(1)} %`;
  const limiter = one.before_limiter === one.after_limiter ? one.after_limiter : `${one.before_limiter} → ${one.after_limiter}`;
  const tone = one.word === 'REGRESSION' || one.word === 'slower' ? 'failed' : one.word === 'faster' ? 'ok' : 'soft';
  return el('tr', { class: one.differs ? 'changed' : '' }, el('td', {}, one.id), el('td', {}, one.before), el('td', {}, one.after), el('td', {}, share),
    el('td', { class: `text ${tone}` }, WORDS[one.word]), el('td', { class: 'wrap' }, limiter));
}
