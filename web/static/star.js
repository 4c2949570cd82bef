// The map: the hub, its sites, and as many names as fit; what is asked and measured stands at a few lanes, and at the
// chosen one. The table has all figures.

import { $, setText } from './api.js';
import { stateOf } from './lane_state.js';
import { placed } from './map_labels.js';
import { onMap, PLACES } from './places.js';
import { exactly, ms } from './units.js';

const NS = 'http://www.w3.org/2000/svg';
const FEW = 6; // lanes whose figures fit onto the map
const [FONT, LINE] = [14, 17]; // of labels, in pixels
const [SITE, HUB] = [6, 8]; // radii
const svg = $('star');
const pen = document.createElement('canvas').getContext('2d');
let land = null;

function part(name, attributes, text) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// Positions: on the world map where all places are known, else on an ellipse of the drawing's proportions.
function layout(hub, names, ratio) {
  if (![hub, ...names].every((name) => name in PLACES)) {
    const at = { [hub]: [0, 0] };
    const first = names.length > 2 ? -Math.PI / 2 : 0; // one or two sites lie beside the hub, where their labels fit
    names.forEach((name, i) => {
      const angle = (2 * Math.PI * i) / names.length + first;
      at[name] = [Math.cos(angle) * 100 * Math.min(ratio, 3), Math.sin(angle) * 100];
    });
    return { at, world: false };
  }
  return { at: Object.fromEntries([hub, ...names].map((name) => [name, onMap(PLACES[name])])), world: true };
}

// The part of the map that holds all places and their labels, in the proportions of the drawing.
function frame(points, ratio, world) {
  const xs = points.map((p) => p[0]);
  const ys = points.map((p) => p[1]);
  let width = Math.max(Math.max(...xs) - Math.min(...xs), 40) * (svg.clientWidth < 500 ? 1.6 : 1.3);
  let height = Math.max(Math.max(...ys) - Math.min(...ys), 20) * 1.4;
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

// Redraws everything, in CSS pixels. `chosen` is the lane in the panel; a click on another lane calls `choose`.
export function draw(status, chosen, choose) {
  const names = status.lanes.map((lane) => lane.name);
  const [width, height] = [Math.max(240, svg.clientWidth || 800), Math.max(120, svg.clientHeight || 260)];
  const { at, world } = layout(status.hub, names, width / height);
  const [x, y, wide] = frame(Object.values(at), width / height, world);
  const scale = width / wide;
  for (const name of Object.keys(at)) at[name] = [(at[name][0] - x) * scale, (at[name][1] - y) * scale];
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  svg.replaceChildren();
  for (const turn of world && land ? [-1000, 0, 1000] : []) {
    svg.append(part('path', { class: 'land', d: land, transform: `scale(${scale}) translate(${turn - x} ${-y})`, 'aria-hidden': 'true' }));
  }
  const hub = at[status.hub];
  for (const name of names) svg.append(wire(name, hub, at[name], name === chosen));
  const labels = labelled(status, at, chosen, { x: 2, y: 2, width: width - 4, height: height - 4 });
  for (const name of names) svg.append(site(name, at[name], labels[name], name === chosen, choose));
  svg.append(part('circle', { class: 'hub', cx: hub[0], cy: hub[1], r: HUB }));
  if (labels[status.hub]) svg.append(part('text', { ...middle(labels[status.hub], 0), class: 'asked' }, status.hub));
}

// The boxes of all labels that fit: the hub's, the chosen lane's, then the others' in order.
function labelled(status, at, chosen, inside) {
  const hub = at[status.hub];
  const few = status.lanes.length <= FEW;
  pen.font = `700 ${FONT}px ${getComputedStyle(svg).fontFamily}`;
  const names = [status.hub, ...status.lanes.map((lane) => lane.name).sort((a, b) => (b === chosen) - (a === chosen))];
  const size = (name) => {
    const lane = status.lanes.find((one) => one.name === name);
    const figures = lane && (few || name === chosen);
    const texts = figures ? [name, `${exactly(lane.rtt_ns)} → 0000.0 ms`] : [name];
    return { width: Math.max(...texts.map((text) => pen.measureText(text).width)) + 2, height: LINE * texts.length };
  };
  const labels = names.map((name) => {
    const [dx, dy] = [at[name][0] - hub[0], at[name][1] - hub[1]];
    const far = Math.hypot(dx, dy) || 1;
    return { name, at: at[name], radius: name === status.hub ? HUB : SITE, away: ([right, down]) => (right * dx + down * dy) / far / Math.hypot(right, down), ...size(name) };
  });
  const dots = names.map((name) => ({ x: at[name][0] - SITE, y: at[name][1] - SITE, width: 2 * SITE, height: 2 * SITE }));
  return placed(labels, dots, inside);
}

// Where the text of a line of the label stands.
const middle = (box, line) => ({ x: box.x + box.width / 2, y: box.y + LINE * (line + 0.78), 'font-size': FONT, 'text-anchor': 'middle' });

// The line to a site, drawn below everything that can be clicked.
function wire(name, hub, here, chosen) {
  const group = part('g', { class: chosen ? 'route chosen' : 'route', 'data-wire': name });
  const bend = [(hub[0] + here[0]) / 2, (hub[1] + here[1]) / 2 - Math.abs(here[0] - hub[0]) * 0.12];
  group.append(part('path', { class: 'wire', d: `M${hub} Q${bend} ${here}` }));
  return group;
}

function site(name, here, label, chosen, choose) {
  const group = part('g', { class: chosen ? 'site chosen' : 'site', tabindex: '0', role: 'button', 'data-lane': name });
  group.setAttribute('aria-pressed', String(chosen));
  group.append(part('circle', { class: 'hit', cx: here[0], cy: here[1], r: 16 }));
  if (label?.ring > 1) group.append(part('path', { class: 'leader', d: `M${here} L${label.x + label.width / 2} ${label.y + label.height / 2}` }));
  group.append(part('circle', { class: 'dot', cx: here[0], cy: here[1], r: SITE }));
  group.rtt = part('text', label?.height > LINE ? middle(label, 1) : { display: 'none' });
  group.append(part('text', label ? { ...middle(label, 0), class: 'asked' } : { display: 'none', class: 'asked' }, name), group.rtt);
  group.addEventListener('click', () => choose(name));
  group.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault();
      choose(name);
    }
  });
  return group;
}

// What changes every second: the figures, and the state of the lanes.
export function update(status, look) {
  for (const group of svg.querySelectorAll('.site')) {
    const lane = status.lanes.find((one) => one.name === group.dataset.lane);
    if (!lane) continue;
    const now = look?.lanes[lane.name];
    const [state] = stateOf(lane, status, look);
    const measured = now?.median_ns == null ? '' : ` → ${ms(now.median_ns)}`;
    const text = state === 'drifted' || state === 'blocked' ? state : `${lane.off ? 'off' : exactly(lane.asked_ns)}${measured}`;
    const wrong = ['drifted', 'blocked', 'down'].includes(state);
    for (const one of [group, svg.querySelector(`[data-wire="${lane.name}"]`)]) {
      one.classList.toggle('wrong', wrong);
      one.classList.toggle('off', lane.off);
    }
    if (group.rtt.textContent.trim() === text) continue;
    setText(group.rtt, ` ${text} `);
    group.setAttribute('aria-label', `${lane.name} ${text}`); // a name that does not fit is not drawn
  }
}
