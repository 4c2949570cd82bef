// The machine's interfaces: which can be a port, and why the others cannot.

import { $, ask, el, sayFailure } from './api.js';

const speed = (mbps) => (mbps ? (mbps >= 1000 ? `${mbps / 1000} Gbit/s` : `${mbps} Mbit/s`) : '–');

function row(nic) {
  const names = [nic.bus, ...nic.altnames].filter(Boolean).join(', ');
  const use = nic.usable ? el('span', { class: 'ok' }, 'free') : el('span', {}, nic.reasons.join('; '));
  return el('tr', {},
    el('th', { scope: 'row' }, nic.name), el('td', { class: 'wrap' }, use), el('td', {}, speed(nic.speed_mbps)),
    el('td', { class: 'text' }, nic.carrier ? 'link' : el('span', { class: 'soft' }, 'no link')), el('td', {}, String(nic.mtu)),
    el('td', {}, `${nic.rx_queues}/${nic.tx_queues}`), el('td', {}, nic.numa_node < 0 ? '–' : String(nic.numa_node)),
    el('td', { class: 'text' }, nic.offloads.join(', ').toUpperCase() || '–'), el('td', { class: 'text' }, nic.driver || '–'),
    el('td', { class: 'text' }, names || '–'), el('td', { class: 'text' }, nic.mac || '–'), el('td', { class: 'text' }, nic.owner || '–'));
}

const COLUMNS = [['Port'], ['Use', 'text'], ['Speed'], ['Link', 'text'], ['MTU'], ['RX/TX queues'], ['NUMA'], ['Merging', 'text'],
  ['Driver', 'text'], ['Other names', 'text'], ['MAC', 'text'], ['Owner', 'text']];

async function refresh() {
  const { nics } = await ask('GET', '/api/nics');
  $('none').hidden = nics.length > 0;
  $('nics').hidden = !nics.length;
  $('nics').tHead.replaceChildren(el('tr', {}, ...COLUMNS.map(([name, kind = '']) => el('th', { scope: 'col', class: kind }, name))));
  $('nics').tBodies[0].replaceChildren(...nics.map(row));
}
refresh().catch(sayFailure);
