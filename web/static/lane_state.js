// What a lane is in: one word with its reason, for the table and the map.

// Whether a command is about an interface: lhs-a is not lhs-ab.
const isIn = (name, command) => new RegExp(`(?<![\\w-])${name.replaceAll('.', '\\.')}(?![\\w-])`).test(command);

// Why the lane is not as it is asked to be; '' when it is.
export function driftOf(lane, status) {
  const parts = [lane.outbound.port, lane.inbound.port, lane.outbound.port.replace(/^lhs-/, 'lh-')];
  return status.drift.find((step) => parts.some((part) => isIn(part, step.command)))?.why ?? '';
}

const lost = (lane) => ['outbound', 'inbound'].filter((side) => lane.settings[side]?.loss === '100%');

// The first of these that holds: [word, reason].
export function stateOf(lane, status, look) {
  const drift = driftOf(lane, status);
  const down = lost(lane);
  if (lane.name in status.blocked) return ['blocked', `cannot be repaired: ${status.blocked[lane.name]}`];
  if (drift) return ['drifted', drift];
  if (look?.leased ?? status.leased) return ['leased', 'a measurement has leased this lane'];
  if (lane.off) return ['off', 'its settings are kept; only the bottleneck acts'];
  if (down.length) return ['down', `every packet is lost ${down.length === 2 ? 'in both directions' : down[0]}`];
  if (look?.scheduled[lane.name]) return ['schedule', 'a schedule changes this lane'];
  return ['on', 'as asked'];
}

// Made once: a formatter takes longer than everything else that a lane costs in a second.
const [MINUTE, DAY] = [{ hour: '2-digit', minute: '2-digit' }, { day: 'numeric', month: 'short' }].map((fields) => new Intl.DateTimeFormat('en-GB', fields));

// The minute of a change, and the day if it is not today.
function clockOf(when) {
  const [at, today] = [new Date(when), new Date()];
  return at.toDateString() === today.toDateString() ? `at ${MINUTE.format(at)}` : `on ${DAY.format(at)} at ${MINUTE.format(at)}`;
}

// Who changed a lane last, and when; '' where no change is known.
export const changedBy = (change) => (change ? `changed by ${change.author.user} ${clockOf(change.when)}` : '');
