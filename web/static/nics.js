// The machine's interfaces, as the daemon tells them.

import { $, ask, el, sayFailure } from './api.js';

const shown = (value) => (value === null || value === undefined ? '–' : typeof value === 'object' ? JSON.stringify(value) : String(value));

async function refresh() {
  const { nics } = await ask('GET', '/api/nics');
  $('none').hidden = nics.length > 0;
  const columns = [...new Set(nics.flatMap((nic) => Object.keys(nic)))];
  $('nics').tHead.replaceChildren(el('tr', {}, ...columns.map((name) => el('th', { scope: 'col' }, name.replaceAll('_', ' ')))));
  $('nics').tBodies[0].replaceChildren(...nics.map((nic) => el('tr', {}, ...columns.map((name) => el('td', { class: 'text' }, shown(nic[name]))))));
}
refresh().catch(sayFailure);
