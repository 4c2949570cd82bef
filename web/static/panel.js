// The panel of one lane: what is asked of it, to be changed, previewed and applied.

import { $, ask, can, el, mayWrite, onClick, sayFailure } from './api.js';
import { PLACES, rttMs } from './places.js';
import { Quantity } from './quantity.js';
import { ms, RATE, SHARE, SIZE, TIME } from './units.js';

const SIDES = ['outbound', 'inbound'];
const NAMED = { outbound: 'Outbound (hub to site)', inbound: 'Inbound (site to hub)' };
const SETTINGS = [
  { name: 'delay', label: 'Delay', units: TIME, high: 2e8 },
  { name: 'jitter', label: 'Jitter', units: TIME, high: 5e7 },
  { name: 'loss', label: 'Loss', units: SHARE, low: 1e-4, high: 100, log: true, none: 'none' },
  { name: 'rate', label: 'Rate', units: RATE, low: 1e6, high: 1e11, log: true, none: 'none' },
  { name: 'buffer', label: 'Buffer', units: SIZE, low: 2 ** 13, high: 2 ** 30, log: true, none: 'auto' },
];
const AT_REST = { delay: '0ms', jitter: '0ms' };

export class Panel {
  constructor(form, changed) {
    this.form = form;
    this.changed = changed;
    this.lane = null;
    this.form.addEventListener('submit', (event) => event.preventDefault());
    onClick('plan-close', () => $('plan').close());
    onClick('plan-apply', async () => {
      $('plan').close();
      await this.#apply();
    });
  }

  // Shows a lane; what is being edited stays unless the lane is another or has changed.
  show(status, lane) {
    const same = this.lane?.name === lane.name && JSON.stringify(this.lane.settings) === JSON.stringify(lane.settings);
    if (same && this.etag === status.etag) return;
    this.lane = lane;
    this.etag = status.etag;
    this.hub = status.hub;
    $('panel-title').textContent = `Lane ${lane.name}`;
    this.#build();
    this.#fill();
  }

  #build() {
    const disabled = !mayWrite;
    this.rtt = new Quantity({ name: 'rtt', label: 'RTT', units: TIME, high: 4e8, disabled });
    this.rtt.changed = () => this.#fromRtt();
    this.sides = Object.fromEntries(SIDES.map((side) => [side, SETTINGS.map((one) => {
      const made = new Quantity({ ...one, label: [NAMED[side], one.label], disabled });
      made.changed = () => this.#edited(side, made);
      return made;
    })]));
    this.even = el('input', { type: 'checkbox', disabled });
    this.alike = el('input', { type: 'checkbox', disabled });
    this.even.addEventListener('change', () => this.#fromRtt());
    this.alike.addEventListener('change', () => this.#shown());
    this.fields = Object.fromEntries(SIDES.map((side) => [side, el('fieldset', {}, el('legend', {}, NAMED[side]), ...this.sides[side].map((one) => one.row))]));
    this.wrong = el('p', { class: 'wrong', role: 'alert' });
    const parts = [
      el('fieldset', {}, el('legend', {}, 'Round trip'), this.rtt.row, this.#places(),
        el('label', { class: 'check' }, this.even, 'split evenly over both directions')),
      el('label', { class: 'check' }, this.alike, 'both directions alike'),
      this.fields.outbound, this.fields.inbound, this.wrong,
    ];
    if (mayWrite) parts.push(this.#buttons());
    this.form.replaceChildren(...parts);
  }

  // Presets: as far as some place is from the hub.
  #places() {
    const here = PLACES[this.hub];
    if (!here || !mayWrite) return '';
    const choices = Object.keys(PLACES).filter((name) => name !== this.hub)
      .map((name) => el('option', { value: String(rttMs(here, PLACES[name])) }, `${name}, ${rttMs(here, PLACES[name])} ms`));
    const select = el('select', {}, el('option', { value: '' }, 'as far as …'), ...choices);
    select.addEventListener('change', () => {
      if (!select.value) return;
      this.rtt.text = `${select.value}ms`;
      this.#fromRtt();
    });
    return el('label', { class: 'hint' }, 'Preset ', select);
  }

  #buttons() {
    const preview = el('button', { class: 'quiet', id: 'preview' }, 'Preview');
    const apply = el('button', { id: 'apply' }, 'Apply');
    preview.addEventListener('click', () => this.#preview().catch((problem) => this.#tell(problem)));
    apply.addEventListener('click', () => this.#apply());
    this.confirm = el('input', { type: 'checkbox' });
    const row = el('div', { class: 'row' }, preview, apply);
    if (can.has('confirm')) row.append(el('label', { class: 'check' }, this.confirm, 'take it back after 60 s unless confirmed'));
    if (can.has('undo')) {
      const undo = el('button', { class: 'quiet' }, 'Undo the last change');
      undo.addEventListener('click', async () => {
        try {
          await this.changed((await ask('POST', '/api/undo')).summary);
        } catch (problem) {
          sayFailure(problem);
        }
      });
      row.append(undo);
    }
    return row;
  }

  #fill() {
    const { settings, rtt_ns: rtt } = this.lane;
    this.rtt.text = `${rtt / 1e6}ms`;
    for (const side of SIDES) for (const one of this.sides[side]) one.text = settings[side]?.[one.name] ?? AT_REST[one.name] ?? null;
    const [out, back] = SIDES.map((side) => this.#delay(side));
    this.even.checked = Math.abs(out - back) <= 1;
    const rest = (side) => JSON.stringify({ ...settings[side], delay: 0 });
    this.alike.checked = rest('outbound') === rest('inbound');
    this.#shown();
  }

  #delay(side) {
    const one = this.sides[side][0];
    return one.text === null ? 0 : Number(one.number.value) * TIME[one.unit.value];
  }

  #shown() {
    if (this.alike.checked) {
      this.sides.inbound.slice(1).forEach((one, i) => { one.text = this.sides.outbound[i + 1].text; });
    }
    this.fields.inbound.hidden = this.alike.checked && this.even.checked;
    this.sides.inbound.slice(1).forEach((one) => { one.row.hidden = this.alike.checked; });
    for (const side of SIDES) this.sides[side][0].row.hidden = this.even.checked;
    const both = this.alike.checked && this.even.checked;
    this.fields.outbound.querySelector('legend').textContent = both ? 'Each direction' : this.alike.checked ? 'Outbound; both directions alike' : NAMED.outbound;
  }

  #fromRtt() {
    if (this.even.checked) for (const side of SIDES) this.sides[side][0].text = this.#half();
    else this.sides.inbound[0].text = this.#rest();
    this.#shown();
  }

  #half() {
    return `${Number(this.rtt.number.value) / 2}${this.rtt.unit.value}`;
  }

  #rest() {
    const whole = Number(this.rtt.number.value) * TIME[this.rtt.unit.value];
    return `${Math.max(0, whole - this.#delay('outbound')) / 1e6}ms`;
  }

  #edited(side, one) {
    if (one.name === 'delay') this.rtt.text = `${(this.#delay('outbound') + this.#delay('inbound')) / 1e6}ms`;
    else if (this.alike.checked && side === 'outbound') this.sides.inbound.find((other) => other.name === one.name).text = one.text;
  }

  // The partial lane: exactly what the form says, nulls for what is at rest.
  get #patch() {
    const patch = {};
    if (this.even.checked) patch.rtt = this.rtt.text ?? '0ms';
    for (const side of SIDES) {
      patch[side] = Object.fromEntries(this.sides[side].map((one) => [one.name, one.text]));
      if (this.even.checked) delete patch[side].delay;
      if (patch[side].rate === null) patch[side].buffer = null;
    }
    return patch;
  }

  #send(query) {
    this.#tell(null);
    const path = `/api/lanes/${encodeURIComponent(this.lane.name)}${query}`;
    return ask('PATCH', path, this.#patch, 'application/json', { 'If-Match': this.etag });
  }

  async #preview() {
    const plan = await this.#send('?dry_run=1');
    $('plan-steps').textContent = plan.steps.map((step) => `${step.command}\n    # ${step.why}`).join('\n') || 'Nothing to change.';
    $('plan-apply').hidden = !plan.changed;
    $('plan').showModal();
  }

  async #apply() {
    try {
      const done = await this.#send(this.confirm?.checked ? '?confirm=60s' : '');
      await this.changed(`${this.lane.name} is at ${this.rtt.text ?? ms(0)}. ${done.summary}`);
    } catch (problem) {
      this.#tell(problem);
    }
  }

  // What was wrong, each at its field.
  #tell(problem) {
    this.wrong.textContent = '';
    for (const one of [this.rtt, ...this.sides.outbound, ...this.sides.inbound]) one.tell('');
    if (!problem) return;
    const left = [];
    for (const mistake of problem.mistakes ?? []) {
      const [, , first, second] = mistake.path.split('.');
      const field = first === 'rtt' ? this.rtt : this.sides[first]?.find((one) => one.name === second);
      if (field && !field.row.hidden) field.tell(mistake.text);
      else left.push(mistake.text);
    }
    if (!problem.mistakes?.length) left.push(problem.message);
    this.wrong.textContent = left.join(' ');
  }
}
