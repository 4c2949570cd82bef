// Quantities in the daemon's form ("32ms", "10Gbit", "0.01%", "8MiB") and in the form for people.

const AMOUNT = /^\s*([0-9.]+)\s*([a-zA-Zµ%]*)(?:\/s)?\s*$/;
export const TIME = { us: 1e3, ms: 1e6, s: 1e9 };
export const RATE = { kbit: 1e3, Mbit: 1e6, Gbit: 1e9 };
export const SHARE = { '%': 1 };
export const OCTETS = { B: 1 };
export const SIZE = { KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 };
// Units that are understood, but not offered.
const MORE = new Map([[TIME, { ns: 1, min: 6e10, h: 3.6e12 }], [RATE, { bit: 1, Tbit: 1e12 }], [SIZE, { B: 1, kB: 1e3, MB: 1e6, GB: 1e9 }]]);

// The unit that somebody means by a word, in any case and with "/s"; undefined for a word that is no unit of this quantity.
export function spelled(word, units, extra = []) {
  const times = extra.includes('ms') ? [...Object.keys(TIME), ...Object.keys(MORE.get(TIME))] : [];
  const names = [...Object.keys(units), ...extra, ...Object.keys(MORE.get(units) ?? {}), ...times];
  const meant = word.replace(/\/s$/i, '').replace(/^[µμ]s$/i, 'us');
  return names.find((name) => name === meant) ?? names.find((name) => name.toLowerCase() === meant.toLowerCase());
}

// "1.5ms" as {number: "1.5", unit: "ms"}; in a unit of `units` or `extra`, whatever unit the text had.
export function split(text, units, extra = []) {
  const match = AMOUNT.exec(text ?? '');
  if (!match) return null;
  if (match[2] in units || extra.includes(match[2])) return { number: match[1], unit: match[2] };
  const [times, more] = [{ ...TIME, ...MORE.get(TIME) }, MORE.get(units) ?? {}];
  if (extra.includes('ms') && match[2] in times) return { number: short((Number(match[1]) * times[match[2]]) / TIME.ms), unit: 'ms' };
  if (!(match[2] in more)) return null;
  return best(Number(match[1]) * more[match[2]], units);
}

// Twelve digits: what binary fractions add behind them is left out.
const short = (value) => String(Number(value.toPrecision(12)));

// The unit in which nothing is said: people think in these, and go on typing in the unit that they see.
export const usual = (units) => ['ms', 'Mbit', 'MiB'].find((name) => name in units) ?? Object.keys(units)[0];

// A value of the base unit, in the largest unit in which it is at least 1.
export function best(value, units) {
  if (value === 0) return { number: '0', unit: usual(units) };
  const names = Object.keys(units);
  const unit = names.filter((name) => units[name] <= value).pop() ?? names[0];
  return { number: short(value / units[unit]), unit };
}

const digits = (value) => (value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2));
export const ms = (ns, places = 1) => (ns === null || ns === undefined ? '–' : `${(ns / 1e6).toFixed(places)} ms`);

// Without the zeros at the end: what somebody asked for.
export const exactly = (ns) => `${Number((ns / 1e6).toFixed(6))} ms`;

export function rate(bps) {
  if (bps === null || bps === undefined) return '–';
  const unit = [[1e9, 'Gbit/s'], [1e6, 'Mbit/s'], [1e3, 'kbit/s']].find(([size]) => bps >= size) ?? [1, 'bit/s'];
  return unit[0] === 1 ? `${bps} bit/s` : `${digits(bps / unit[0])} ${unit[1]}`;
}

// A rate in Mbit/s, for a column that says so; "–" where nothing passed.
export const mbit = (bps) => (bps ? String(Number((bps / 1e6).toPrecision(bps >= 1e8 ? 4 : 3))) : '–');

export function size(bytes) {
  if (bytes === null || bytes === undefined) return '–';
  const unit = [[2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB']].find(([one]) => bytes >= one) ?? [1, 'B'];
  return unit[0] === 1 ? `${bytes} B` : `${digits(bytes / unit[0])} ${unit[1]}`;
}

export const mib = (bytesPerS) => (bytesPerS === null ? '–' : digits(bytesPerS / 2 ** 20));
export const throughput = (bytesPerS) => (bytesPerS === null ? '–' : `${mib(bytesPerS)} MiB/s (${((bytesPerS * 8) / 1e9).toPrecision(3)} Gbit/s)`);
// A time in s for people, with its half-width where it has one that can be seen.
export function seconds(value, half = null) {
  if (value === null || value === undefined) return '–';
  const [factor, unit] = value < 1 ? [1e3, 'ms'] : [1, 's'];
  const shown = half !== null && half >= value * 5e-4 ? ` ± ${(half * factor).toPrecision(2)}` : '';
  return `${(value * factor).toPrecision(4)}${shown} ${unit}`;
}
export const span = (s) => (s >= 90 ? `${Math.round(s / 60)} min` : `${Math.round(s)} s`);

// A number of events per second; a busy daemon looks at the lanes less often than once a second.
export const perSecond = (value) => (value === null || value === undefined ? 'unknown' : `${Number(value.toPrecision(3))}/s`);

// All drops of a lane or a flow, as a rate since the look before. Netem has one counter for its limit and its loss: on a lane with loss
// only the buffer's drops are known.
export function drops(now) {
  const causes = ['outbound', 'inbound'].flatMap((side) => [now[side].drops_limit_per_s, now[side].drops_buffer_per_s, now[side].drops_loss_per_s]);
  const known = causes.reduce((sum, count) => sum + (count ?? 0), 0);
  if (!causes.includes(null)) return perSecond(known);
  return known ? `${perSecond(known)}, others unknown` : 'unknown';
}
