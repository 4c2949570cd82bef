// The table of the machine's interfaces: which can be a port, and why the others cannot.

import { el } from './api.js';

export const speed = (mbps) => (mbps ? (mbps >= 1000 ? `${mbps / 1000} Gbit/s` : `${mbps} Mbit/s`) : '–');

// A port that is down tells nothing of its cable: Longhaul brings it up with its lane.
export const link = (nic) => (nic.up ? (nic.carrier ? 'link' : 'no link') : 'down');

const names = (nic) => [nic.bus, ...nic.altnames].filter(Boolean).join(', ') || '–';
const use = (nic) => (nic.usable ? el('span', { class: 'ok' }, 'free') : nic.reasons.join('; '));

// The head and the cell of each column, and the cell's class; the first ones are enough to choose a port.
const COLUMNS = [
  ['Use', use, 'wrap'], ['Speed', (nic) => speed(nic.speed_mbps)], ['Link', link, 'text'], ['MTU', (nic) => String(nic.mtu)],
  ['Driver', (nic) => nic.driver || '–', 'text'], ['MAC', (nic) => nic.mac || '–', 'text'], ['Other names', names, 'text'],
  ['RX/TX queues', (nic) => `${nic.rx_queues}/${nic.tx_queues}`], ['NUMA', (nic) => (nic.numa_node < 0 ? '–' : String(nic.numa_node))],
  ['Merging', (nic) => nic.offloads.join(', ').toUpperCase() || '–', 'text'], ['Owner', (nic) => nic.owner || '–', 'text'],
];

// Fills the table; `count` of the columns are shown, all unless said. `marked` are ports whose link has just changed.
export function fillPorts(table, nics, count = COLUMNS.length, marked = new Set()) {
  const columns = COLUMNS.slice(0, count);
  const heads = columns.map(([name, , kind = '']) => el('th', { scope: 'col', class: kind && 'text' }, name));
  table.tHead.replaceChildren(el('tr', {}, el('th', { scope: 'col' }, 'Port'), ...heads));
  table.tBodies[0].replaceChildren(...nics.map((nic) => el('tr', { class: marked.has(nic.name) ? 'just' : '' }, el('th', { scope: 'row' }, nic.name),
    ...columns.map(([, text, kind = '']) => el('td', { class: kind }, text(nic))))));
}
