// Certificates: asked and measured RTT of each pair.

import { $, ask, el, mayWrite, onClick, say, sayFailure } from './api.js';
import { ms } from './units.js';

function table(certificate) {
  const head = ['From', 'To', 'Asked', 'Minimum', 'Median', 'p99', 'Lost', ''];
  const rows = certificate.pairs.map((pair) => el('tr', {}, el('td', {}, pair.one), el('td', { class: 'text' }, pair.other),
    ...['asked_ns', 'min_ns', 'median_ns', 'p99_ns'].map((name) => el('td', {}, ms(pair[name], 3))), el('td', {}, String(pair.lost)),
    el('td', { class: pair.passed ? 'ok' : 'failed' }, pair.passed ? 'ok' : 'FAILED')));
  const header = el('thead', {}, el('tr', {}, ...head.map((name, i) => el('th', { scope: 'col', class: i === 1 ? 'text' : '' }, name || 'Verdict'))));
  return el('table', {}, header, el('tbody', {}, ...rows));
}

function shown(one, open) {
  const verdict = el('span', { class: one.passed ? 'ok' : 'failed' }, one.passed ? 'passed' : 'FAILED');
  const when = `${new Date(one.created).toLocaleString()}, ${one.pairs.length} pairs, ${one.count} echoes each, kernel ${one.kernel}, tolerance ${ms(one.tolerance_ns, 3)} `;
  const save = el('a', { href: `/api/certificates/${one.id}`, download: `certificate-${one.id}.json` }, 'JSON');
  return el('details', { open, class: 'endpoint' }, el('summary', {}, verdict, ' ', when), el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': `Certificate ${one.id}` }, table(one)), save);
}

async function refresh() {
  const { certificates } = await ask('GET', '/api/certificates');
  $('none').hidden = certificates.length > 0;
  $('all').replaceChildren(...certificates.map((one, i) => shown(one, i === 0)));
}
onClick('make', async () => {
  const made = await ask('POST', `/api/certificates?count=${encodeURIComponent($('count').value.trim())}`);
  say(made.passed ? 'Every measured RTT is as requested.' : 'A measured RTT differs from the requested one.', !made.passed);
  await refresh();
});
$('make').disabled = !mayWrite;
refresh().catch(sayFailure);
