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
  return el('details', { id: one.id, open, class: 'endpoint' }, el('summary', {}, verdict, ' ', when), el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': `Certificate ${one.id}` }, table(one)), ...also(one), save);
}

// What a certificate says beside its round trips: pairs without an answer, reasons, impairments that are not as asked.
function also(one) {
  const silent = one.unanswered.map((pair) => `${pair.one} – ${pair.other}: ${pair.why}`);
  const reasons = one.reasons.map((pair) => `${pair.one} – ${pair.other}: ${pair.why.join(' ')}`);
  const wrong = one.impairments.filter((row) => !row.passed).map((row) => `${row.lane} ${row.direction}: ${row.what} is ${Number(row.measured.toPrecision(5))} ${row.unit}, asked ${Number(row.asked.toPrecision(5))} ${row.unit}`);
  const rows = [...(reasons.length ? reasons : silent), ...wrong];
  const count = one.impairments.length ? [el('p', { class: 'hint' }, `${one.impairments.length} figures of impairments were measured, ${wrong.length} of them not as asked.`)] : [];
  return [...count, ...(rows.length ? [el('ul', {}, ...rows.map((text) => el('li', {}, text)))] : [])];
}

// The one that the address names is open, else the newest.
async function refresh() {
  const { certificates } = await ask('GET', '/api/certificates');
  const named = certificates.some((one) => `#${one.id}` === location.hash);
  $('none').hidden = certificates.length > 0;
  $('all').replaceChildren(...certificates.map((one, i) => shown(one, named ? `#${one.id}` === location.hash : i === 0)));
  if (named) document.getElementById(location.hash.slice(1)).scrollIntoView();
}
onClick('make', async () => {
  const made = await ask('POST', `/api/certificates?count=${encodeURIComponent($('count').value.trim())}`);
  say(made.passed ? 'Every measured RTT is as requested.' : 'A measured RTT differs from the requested one.', !made.passed);
  await refresh();
});
$('make').disabled = !mayWrite;
refresh().catch(sayFailure);
