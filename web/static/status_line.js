// One line above the lanes: is anything wrong, what is off, what waits, who has the lanes, how late the emulator is.

import { el, setText } from './api.js';

const many = (count, word) => `${count} ${word}${count === 1 ? '' : 's'}`;
const late = (ns) => (ns >= 1e6 ? `${(ns / 1e6).toFixed(1)} ms` : `${(ns / 1e3).toFixed(0)} µs`);

// [kind, text] of each part; the kinds are good, warn, bad and soft.
function parts(status, look) {
  const blocked = Object.keys(status.blocked).length;
  const off = status.lanes.filter((lane) => lane.off).length;
  const left = look?.seconds_left ?? null;
  const state = status.changing ? ['soft', 'the lanes are being changed'] : blocked ? ['bad', `${many(blocked, 'lane')} blocked`]
    : status.drift.length ? ['bad', `drifted: ${many(status.drift.length, 'step')} repair it`] : ['good', 'all lanes as asked'];
  const found = [state];
  if (off) found.push(['warn', off === status.lanes.length ? 'latency is off' : `latency is off on ${off} of ${many(status.lanes.length, 'lane')}`]);
  found.push(left === null ? ['soft', 'no change waits'] : ['warn', `a change waits: reverted in ${Math.max(0, Math.round(left))} s`]);
  if (look?.leased) found.push(['warn', `a measurement has the lanes; ${look.back_to ?? 'nothing'} returns`]);
  if (status.schedule) found.push(['soft', `schedule at most ${late(status.schedule.max_ns)} late`]);
  found.push(['soft', emulator(status, look)]);
  return found;
}

function emulator(status, look) {
  if (status.datapath !== 'wire') return 'through the kernel’s netem';
  return look?.late_ns == null ? 'through the wire engine' : `wire engine ${late(look.late_ns)} late (p99)`;
}

export function statusLine(root, status, look) {
  const said = parts(status, look);
  while (root.children.length > said.length) root.lastChild.remove();
  said.forEach(([kind, text], i) => {
    const item = root.children[i] ?? root.appendChild(el('li'));
    if (item.className !== kind) item.className = kind;
    setText(item, text);
  });
}
