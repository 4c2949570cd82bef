// The daemon's tables, of which the forms are made: the impairments of a direction, and what tells the packets of a flow.

import { ask } from './api.js';

// `keys`: what is set every day comes first. `match`: the keys of a flow's match.
export const known = { keys: [], match: [] };

export async function loadKeys() {
  const { keys, match } = await ask('GET', '/api/keys');
  known.keys = [...keys.filter((key) => key.everyday), ...keys.filter((key) => !key.everyday)];
  known.match = match;
}
