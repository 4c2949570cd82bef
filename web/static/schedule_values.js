// Times and values of a schedule as people write them, and as places on a chart. What a schedule means is computed by
// the daemon alone: nothing here says what a lane gets.

import { RATE, best } from './units.js';
import { plain } from './number_field.js';

const TIMES = [['h', 3.6e12], ['min', 6e10], ['s', 1e9], ['ms', 1e6], ['us', 1e3], ['ns', 1]];
const TIME = /^([0-9]+(?:\.[0-9]+)?)\s*(h|min|s|ms|us|ns)$/;

// "90min" in ns; NaN for what is no time.
export function timeOf(text) {
  const [, number, unit] = TIME.exec((text ?? '').trim()) ?? [];
  return unit ? Math.round(Number(number) * TIMES.find(([name]) => name === unit)[1]) : NaN;
}

// ns as a topology file has it, in the largest unit in which it is short: "90min", "20.5h".
export function timeText(ns) {
  if (!ns) return '0s';
  if (ns >= 7.2e12 && Number.isInteger(ns / 9e11)) return `${ns / 3.6e12}h`;
  if (ns >= 1e9 && !Number.isInteger(ns / 1e9) && Number.isInteger(ns / 1e6)) return `${plain(ns / 1e9)}s`;
  const [unit, size] = TIMES.find(([, one]) => Number.isInteger(ns / one)) ?? ['ns', 1];
  return `${plain(ns / size)}${unit}`;
}

const two = (number) => String(number).padStart(2, '0');

// ns for reading: "1:02:03" from an hour on, else "2 min 3 s", "3.5 s".
export function clock(ns) {
  if (ns < 0) return `-${clock(-ns)}`;
  const s = Math.floor(ns / 1e9);
  if (s >= 3600) return `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
  if (s >= 60) return `${Math.floor(s / 60)} min ${s % 60} s`;
  return `${plain(Math.floor(ns / 1e8) / 10)} s`;
}

// A step in which people count that is at least as long: 1, 2 or 5 of a unit; of hours and minutes what divides them.
export function roundStep(ns) {
  const long = [6e10, 3e11, 6e11, 9e11, 1.8e12, 3.6e12, 1.08e13, 2.16e13, 4.32e13, 8.64e13];
  if (ns > 3e10) return long.find((one) => one >= ns) ?? Math.ceil(ns / 8.64e13) * 8.64e13;
  if (ns > 1e10) return ns > 2e10 ? 3e10 : 2e10;
  return nice(Math.max(ns, 1e6));
}

// 1, 2 or 5 times a power of ten, not below the value.
export function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((one) => one * power).find((one) => one >= value * 0.999999);
}

// A number of a curve as text: as a topology file has it.
export function valueText(unit, value) {
  if (unit === 'switch') return value ? 'yes' : 'no';
  if (unit === 'share') return `${plain(Number((value * 100).toPrecision(6)))}%`;
  if (unit === 'bit/s') {
    if (value === null) return 'none';
    const { number, unit: name } = best(Math.max(1e3, value), RATE);
    return `${number}${name}`;
  }
  return `${plain(Number((value / 1e6).toPrecision(9)))}ms`;
}

// The same for reading.
export function shownValue(unit, value) {
  if (unit === 'switch') return value ? 'down' : 'up';
  if (unit === 'bit/s' && !value) return value === null ? 'no limit' : '0';
  return valueText(unit, value).replace(/([0-9])([a-zA-Z])/, '$1 $2') + (unit === 'bit/s' ? '/s' : '');
}

// The values that a chart of a curve shows: from and to.
export function range(curve) {
  if (curve.unit === 'switch') return [0, 1];
  const values = [curve.before, ...curve.points.map(([, value]) => value), ...curve.handles.map(({ value }) => value)].filter((value) => value !== null);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  if (!values.length || most === 0) return [0, { ns: 1e8, share: 0.02, 'bit/s': 1e9 }[curve.unit]];
  if (most === least) return [0, most * 2];
  if (most - least > 0.3 * most) return [0, most * 1.3];
  return [Math.max(0, least - (most - least)), most + (most - least)];
}
