// The settings that a track may have, and what of them is asked of a lane. `keys` are those of /api/keys, `status` is
// /api/status, a look is one event of /api/events.

import { valueText } from './schedule_values.js';

const way = (direction) => (direction === 'inbound' ? 'inbound' : 'outbound');

export function settingsOf(keys, direction) {
  const every = keys.filter((key) => key.schedulable).map((key) => key.name);
  return direction === 'both' ? ['rtt', ...every, 'down'] : [...every, 'down'];
}

// What a lane of a new track has now, in one direction.
export function firstValue(keys, status, track, setting) {
  const lane = status.lanes.find((one) => one.name === [track.lanes].flat()[0]) ?? status.lanes[0];
  if (setting === 'down') return 'no';
  if (setting === 'rtt') return valueText('ns', lane.rtt_ns);
  return String(lane.settings[way(track.direction)]?.[setting] ?? keys.find((key) => key.name === setting).at_rest);
}

// What is asked of all these lanes now, as text; empty when it differs between them, or is not known.
export function askedNow(keys, status, look, lanes, direction, setting) {
  const texts = new Set(lanes.map((name) => askedOf(keys, status, look, name, direction, setting)));
  return texts.size === 1 ? [...texts][0] : '';
}

function askedOf(keys, status, look, name, direction, setting) {
  if (setting === 'rtt') return look.lanes[name] ? `${Number((look.lanes[name].asked_ns / 1e6).toFixed(3))} ms` : '';
  const own = look.scheduled[name] ?? status.lanes.find((lane) => lane.name === name)?.settings;
  const values = own?.[way(direction)] ?? {};
  if (setting === 'down') return values.loss === '100%' ? 'down' : 'up';
  return String(values[setting] ?? keys.find((key) => key.name === setting)?.at_rest ?? '');
}
