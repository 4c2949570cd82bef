// The machine's interfaces: which can be a port, and why the others cannot.

import { $, ask, sayFailure } from './api.js';
import { fillPorts } from './port_table.js';

async function refresh() {
  const { nics } = await ask('GET', '/api/nics');
  $('none').hidden = nics.length > 0;
  $('nics').hidden = !nics.length;
  fillPorts($('nics'), nics);
}
refresh().catch(sayFailure);
