// One setting of one track over time, as a drawing: the curve as the daemon computed it, its keys as handles that are
// dragged, and the play head. A click where nothing is adds a key. The table beside it does all of this by keyboard.

import { clock, nice, range, roundStep, shownValue } from './schedule_values.js';

const NS = 'http://www.w3.org/2000/svg';
const [LEFT, RIGHT, TOP, BOTTOM] = [70, 30, 8, 18];
export const HEIGHT = 116;
const DEAD_PX = 4; // a drag that is all but level keeps the value, one that is all but upright the time

export function part(name, attributes = {}, text = undefined) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

export class StripChart {
  // `act`: add(at, value), move(number, at, value), remove(number), pick(number); `number` is that of a handle.
  constructor(label, act) {
    Object.assign(this, { label, act, curve: null, view: null, picked: -1, fixed: null, width: 0, now: null });
    this.root = part('svg', { class: 'strip', role: 'group', 'aria-label': label, height: HEIGHT });
    [this.back, this.line, this.dots, this.head] = ['g', 'g', 'g', 'line'].map((name) => this.root.appendChild(part(name)));
    this.head.setAttribute('class', 'head');
    this.root.addEventListener('pointerdown', (event) => this.#press(event));
    new ResizeObserver(() => this.draw()).observe(this.root);
  }

  show(curve, view, picked, editable) {
    Object.assign(this, { curve, view, picked, editable });
    this.draw();
  }

  x(ns) {
    return LEFT + ((ns - this.view.from) / (this.view.to - this.view.from)) * (this.width - LEFT - RIGHT);
  }

  y(value) {
    const [low, high] = this.scale;
    return HEIGHT - BOTTOM - ((Math.min(high, Math.max(low, value ?? high)) - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  }

  // Where on the axes a point of the screen is, on whole steps that can be seen.
  at(event) {
    const box = this.root.getBoundingClientRect();
    const [low, high] = this.scale;
    const [wide, tall] = [this.width - LEFT - RIGHT, HEIGHT - TOP - BOTTOM];
    const span = this.view.to - this.view.from;
    const ns = this.view.from + (Math.min(wide, Math.max(0, event.clientX - box.left - LEFT)) / wide) * span;
    const value = low + (Math.min(1, Math.max(0, (box.top + HEIGHT - BOTTOM - event.clientY) / tall)) * (high - low));
    const [every, by] = [roundStep((span / wide) * 2), nice((high - low) / tall)];
    const stepped = this.curve.unit === 'switch' ? Number(value > 0.5) : Number((Math.round(value / by) * by).toPrecision(9));
    return { ns: Math.round(Math.round(ns / every) * every), value: stepped };
  }

  draw() {
    this.width = this.root.clientWidth;
    if (!this.width || !this.view) return;
    if (!this.curve) {
      [this.back, this.line, this.dots].forEach((group) => group.replaceChildren());
      return;
    }
    this.scale = this.fixed ?? range(this.curve);
    this.#axes();
    this.#curve();
    this.#handles();
    this.play(this.now);
  }

  #axes() {
    const [low, high] = this.scale;
    const end = this.width - RIGHT;
    const rows = this.curve.unit === 'switch' ? [0, 1] : [low, (low + high) / 2, high].map((value) => Number(value.toPrecision(3)));
    const lines = rows.flatMap((value) => [
      part('line', { x1: LEFT, x2: end, y1: this.y(value), y2: this.y(value), class: 'grid' }),
      part('text', { x: LEFT - 6, y: this.y(value) + 4, class: 'tick end' }, shownValue(this.curve.unit, value)),
    ]);
    for (const ns of ticks(this.view, (this.width - LEFT - RIGHT) / 84)) {
      lines.push(part('line', { x1: this.x(ns), x2: this.x(ns), y1: TOP, y2: HEIGHT - BOTTOM, class: 'grid' }),
        part('text', { x: this.x(ns), y: HEIGHT - 4, class: 'tick' }, clock(ns)));
    }
    this.back.replaceChildren(...lines);
  }

  // Each value holds until the next; before the first one the lanes' own holds.
  #curve() {
    const { points, before } = this.curve;
    const end = this.view.to;
    const parts = [];
    if (points.length && points[0][0] > this.view.from && before !== null) {
      parts.push(part('line', { x1: LEFT, x2: this.x(Math.min(end, points[0][0])), y1: this.y(before), y2: this.y(before), class: 'own' }));
    }
    let path = '';
    points.forEach(([ns, value], i) => {
      const until = Math.min(points[i + 1]?.[0] ?? Infinity, end);
      if (until < this.view.from || ns > end) return;
      const y = this.y(value).toFixed(1);
      path += `${path ? 'L' : 'M'}${this.x(Math.max(ns, this.view.from)).toFixed(1)} ${y}H${this.x(until).toFixed(1)}`;
    });
    if (path) parts.push(part('path', { d: path, class: 'curve' }));
    this.line.replaceChildren(...parts);
  }

  // The same circles as before, moved: the focus, and a hand on one of them, stay.
  #handles() {
    const { handles } = this.curve;
    while (this.dots.children.length > handles.length) this.dots.lastChild.remove();
    while (this.dots.children.length < handles.length) this.dots.append(this.#dot(this.dots.children.length));
    handles.forEach(({ at_ns: ns, value, ramp }, i) => {
      const said = `${shownValue(this.curve.unit, value)} at ${clock(ns)}${ramp ? ', by a ramp' : ''}`;
      const seen = ns >= this.view.from && ns <= this.view.to;
      const dot = this.dots.children[i];
      for (const [name, text] of Object.entries({
        cx: this.x(ns), cy: this.y(value), class: i === this.picked ? 'handle picked' : 'handle', display: seen ? 'inline' : 'none',
        tabindex: this.editable ? 0 : -1, role: this.editable ? 'button' : 'img', 'aria-label': `${this.label}: ${said}`,
      })) if (dot.getAttribute(name) !== String(text)) dot.setAttribute(name, text);
      dot.firstChild.textContent = said;
    });
  }

  #dot(i) {
    const dot = part('circle', { r: 6, 'data-number': i });
    dot.append(part('title'));
    dot.addEventListener('keydown', (event) => this.#key(event, i));
    return dot;
  }

  #key(event, i) {
    if (!this.editable) return;
    const { at_ns: ns, value } = this.curve.handles[i];
    const every = roundStep((this.view.to - this.view.from) / 100);
    const by = nice((this.scale[1] - this.scale[0]) / 50);
    const level = this.curve.unit === 'switch' ? 1 : by;
    const steps = { ArrowLeft: [-every, 0], ArrowRight: [every, 0], ArrowUp: [0, level], ArrowDown: [0, -level] }[event.key];
    if (steps) {
      const raised = this.curve.unit === 'switch' ? Number(steps[1] > 0) : Math.max(0, (value ?? 0) + steps[1]);
      this.act.move(i, Math.max(0, ns + steps[0]), steps[1] ? raised : undefined);
    } else if (event.key === 'Delete' || event.key === 'Backspace') this.act.remove(i);
    else if (event.key === 'Enter' || event.key === ' ') this.act.pick(i, true);
    else return;
    event.preventDefault();
  }

  #press(event) {
    if (!this.editable || !this.curve || event.button !== 0) return;
    const number = Number(event.target.dataset?.number ?? -1);
    if (number < 0) {
      const box = this.root.getBoundingClientRect();
      if (event.clientX - box.left < LEFT) return;
      const { ns, value } = this.at(event);
      this.act.add(ns, value);
      event.preventDefault();
      return;
    }
    event.preventDefault();
    this.act.pick(number, false);
    this.#drag(event, number);
  }

  #drag(start, number) {
    this.root.setPointerCapture(start.pointerId);
    this.fixed = this.scale; // the axes stand still under the hand
    let [along, up] = [false, false];
    let last = null;
    const move = (event) => {
      along ||= Math.abs(event.clientX - start.clientX) > DEAD_PX;
      up ||= Math.abs(event.clientY - start.clientY) > DEAD_PX;
      if (!along && !up) return;
      const { ns, value } = this.at(event);
      last = [along ? ns : undefined, up ? value : undefined];
      this.act.move(number, ...last);
    };
    const end = () => {
      this.root.removeEventListener('pointermove', move);
      ['pointerup', 'pointercancel'].forEach((kind) => this.root.removeEventListener(kind, end));
      this.fixed = null;
      if (last) this.act.move(number, ...last);
      this.dots.children[number]?.focus();
    };
    this.root.addEventListener('pointermove', move);
    ['pointerup', 'pointercancel'].forEach((kind) => this.root.addEventListener(kind, end));
  }

  // Shows where the schedule is; null for nowhere.
  play(ns) {
    this.now = ns;
    const seen = ns !== null && this.view && ns >= this.view.from && ns <= this.view.to && this.width;
    this.head.setAttribute('display', seen ? 'inline' : 'none');
    if (!seen) return;
    for (const [key, value] of Object.entries({ x1: this.x(ns), x2: this.x(ns), y1: TOP - 4, y2: HEIGHT - BOTTOM })) this.head.setAttribute(key, value);
  }
}

// Round times within a view, about so many.
export function ticks(view, count) {
  const every = roundStep((view.to - view.from) / Math.max(1, count));
  const found = [];
  for (let ns = Math.ceil(view.from / every) * every; ns <= view.to; ns += every) found.push(ns);
  return found;
}
