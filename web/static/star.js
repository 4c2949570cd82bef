// The map: the hub in the middle, and each lane with its asked and its measured RTT.

import { $ } from './api.js';
import { onMap, PLACES } from './places.js';
import { ms, rate } from './units.js';

const NS = 'http://www.w3.org/2000/svg';
const svg = $('star');
let land = null;

function part(name, attributes, text) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// Positions: on the world map where all places are known, else on a circle.
function layout(hub, names) {
  const known = [hub, ...names].every((name) => name in PLACES);
  const at = {};
  if (!known) {
    at[hub] = [0, 0];
    const first = names.length > 2 ? -Math.PI / 2 : 0; // one or two sites lie beside the hub, where their labels fit
    names.forEach((name, i) => {
      const angle = (2 * Math.PI * i) / names.length + first;
      at[name] = [Math.cos(angle) * 190, Math.sin(angle) * 95];
    });
    return { at, world: false };
  }
  for (const name of [hub, ...names]) at[name] = onMap(PLACES[name]);
  return { at, world: true };
}

// The part of the map that holds all places and their labels, in the proportions of the drawing.
function frame(points, ratio, world) {
  const xs = points.map((p) => p[0]);
  const ys = points.map((p) => p[1]);
  const room = svg.clientWidth < 500 ? 1.75 : 1.45;
  let width = Math.max(Math.max(...xs) - Math.min(...xs), 40) * room;
  let height = Math.max(Math.max(...ys) - Math.min(...ys), 20) * 1.7;
  if (width / height < ratio) width = height * ratio;
  else height = width / ratio;
  const x = (Math.max(...xs) + Math.min(...xs)) / 2 - width / 2;
  let y = (Math.max(...ys) + Math.min(...ys)) / 2 - height / 2;
  if (world) y = height < 470 ? Math.min(Math.max(y, 0), 470 - height) : Math.max(y, 470 - height);
  return [x, y, width, height];
}

export async function loadWorld() {
  try {
    const text = await (await fetch('/static/world.svg')).text();
    land = new DOMParser().parseFromString(text, 'image/svg+xml').getElementById('land')?.getAttribute('d') ?? null;
  } catch {
    land = null; // draw the star without the continents
  }
}

// Redraws everything. `chosen` is the lane in the panel; a click on another lane calls `choose`.
export function draw(status, chosen, choose) {
  const names = status.lanes.map((lane) => lane.name);
  const { at, world } = layout(status.hub, names);
  const ratio = svg.clientWidth / Math.max(1, svg.clientHeight) || 2;
  const [x, y, width, height] = frame(Object.values(at), ratio, world);
  svg.setAttribute('viewBox', [x, y, width, height].join(' '));
  const unit = width / Math.max(320, svg.clientWidth || 800); // one CSS pixel
  const small = (svg.clientWidth || 800) < 500;
  svg.replaceChildren();
  for (const turn of world && land ? [-1000, 0, 1000] : []) {
    svg.append(part('path', { class: 'land', d: land, transform: `translate(${turn})`, 'aria-hidden': 'true' }));
  }
  const hub = at[status.hub];
  for (const name of names) svg.append(wire(name, hub, at[name], name === chosen));
  for (const name of names) svg.append(site(name, hub, at[name], unit, small, name === chosen, choose));
  svg.append(part('circle', { class: 'hub', cx: hub[0], cy: hub[1], r: 9 * unit }));
  const label = { x: hub[0], y: hub[1] - 16 * unit, 'font-size': 15 * unit, 'text-anchor': 'middle', class: 'asked' };
  svg.append(part('text', label, status.hub));
}

// The line to a site, drawn below everything that can be clicked.
function wire(name, hub, here, chosen) {
  const group = part('g', { class: chosen ? 'route chosen' : 'route', 'data-wire': name });
  const bend = [(hub[0] + here[0]) / 2, (hub[1] + here[1]) / 2 - Math.abs(here[0] - hub[0]) * 0.15];
  group.append(part('path', { class: 'wire', d: `M${hub} Q${bend} ${here}` }));
  return group;
}

function site(name, hub, here, unit, small, chosen, choose) {
  const group = part('g', { class: chosen ? 'site chosen' : 'site', tabindex: '0', role: 'button', 'data-lane': name });
  group.setAttribute('aria-pressed', String(chosen));
  group.append(part('circle', { class: 'hit', cx: here[0], cy: here[1], r: 22 * unit }));
  group.append(part('circle', { class: 'dot', cx: here[0], cy: here[1], r: 7 * unit }));
  const below = here[1] >= hub[1] ? 1 : -1;
  const size = (small ? 13 : 15) * unit;
  const line = (row, kind, text) => {
    const down = below > 0 ? (20 + row * 17) * unit : (-12 - (2 - row) * 17) * unit;
    const made = part('text', { x: here[0], y: here[1] + down, 'font-size': size, 'text-anchor': 'middle', class: kind }, text);
    group.append(made);
    return made;
  };
  line(0, 'asked', name);
  group.rtt = line(1, '', '');
  group.flow = line(2, 'soft', '');
  if (small) group.flow.setAttribute('display', 'none');
  group.addEventListener('click', () => choose(name));
  group.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault();
      choose(name);
    }
  });
  return group;
}

// Whether a command is about an interface: lhs-a is not lhs-ab.
const isIn = (name, command) => new RegExp(`(?<![\\w-])${name.replaceAll('.', '\\.')}(?![\\w-])`).test(command);

// The labels that change every second: measured RTT, rates, and drift.
export function update(status, look) {
  for (const group of svg.querySelectorAll('.site')) {
    const name = group.dataset.lane;
    const now = look?.lanes[name];
    const lane = status.lanes.find((one) => one.name === name);
    const asked = ms(lane.rtt_ns, 0);
    const parts = [lane.outbound.port, lane.inbound.port, lane.outbound.port.replace(/^lhs-/, 'lh-')];
    const measured = now?.median_ns == null ? '' : ` → ${ms(now.median_ns)}`;
    const drifted = status.drift.some((step) => parts.some((part) => isIn(part, step.command)));
    group.classList.toggle('wrong', drifted);
    svg.querySelector(`[data-wire="${name}"]`).classList.toggle('wrong', drifted);
    group.rtt.textContent = drifted ? ' drifted ' : ` ${asked}${measured} `;
    group.flow.textContent = now ? `↑ ${rate(now.outbound.rate_bps)}  ↓ ${rate(now.inbound.rate_bps)}` : '';
  }
}
