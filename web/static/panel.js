// The panel of one lane, or of one flow in it: what is asked of it, to be changed, previewed and applied.

import { $, ask, can, el, lock, mayWrite, onClick, sayFailure } from './api.js';
import { Choice, Loss, Whole } from './choices.js';
import { around, PLACES } from './places.js';
import { Quantity } from './quantity.js';
import { drops, ms, OCTETS, rate, RATE, SHARE, SIZE, TIME } from './units.js';

const SIDES = ['outbound', 'inbound'];
const NAMED = { outbound: 'Outbound (hub to site)', inbound: 'Inbound (site to hub)' };
const UNITS = { time: TIME, rate: RATE, size: SIZE, octets: OCTETS, share: SHARE, loss: SHARE };

// The controls of a direction: what is set every day first, then the rest. They are made of the daemon's table.
let keys = [];
export async function loadKeys() {
  const answer = await ask('GET', '/api/keys');
  keys = [...answer.keys.filter((key) => key.everyday), ...answer.keys.filter((key) => !key.everyday)];
}
const more = () => keys.filter((key) => !key.everyday);
const isDelay = (one) => one.name === 'delay';

// A quantity that starts from zero says it as a number ("0ms"); of any other, a word stands for nothing.
const startsAtZero = (key) => key.range !== null && !key.range.log;
const nothing = (key) => (/[0-9]/.test(key.at_rest) ? 'none' : key.at_rest);

function control(key, side, disabled) {
  const common = { name: key.name, label: [NAMED[side], key.label], disabled };
  if (key.kind === 'choice') return new Choice({ ...common, choices: Object.fromEntries(key.choices.map((one) => [one.word, one.label])) });
  if (key.kind === 'count') return new Whole({ ...common, hint: 'from the topology' });
  const extra = Object.keys(key.extra_units);
  const prefixed = Object.fromEntries(Object.entries(key.extra_units).filter(([, word]) => word));
  const kind = key.kind === 'loss' ? Loss : Quantity;
  return new kind({ ...common, ...key.range, units: UNITS[key.kind], none: startsAtZero(key) ? null : nothing(key), extra, prefixed });
}

export class Panel {
  constructor(form, changed) {
    this.form = form;
    this.changed = changed;
    this.lane = null;
    this.flow = '';
    this.live = {};
    this.form.addEventListener('submit', (event) => event.preventDefault());
    onClick('plan-close', () => $('plan').close());
    onClick('plan-apply', async () => {
      $('plan').close();
      await this.#apply();
    });
  }

  // Shows a lane; what is being edited stays unless the lane is another or has changed.
  show(status, lane) {
    const same = this.lane?.name === lane.name && JSON.stringify(this.lane.settings) === JSON.stringify(lane.settings) && this.hub === status.hub;
    this.etag = status.etag;
    if (same) return;
    if (this.lane?.name !== lane.name || !lane.settings.flows?.[this.flow]) this.flow = '';
    this.lane = lane;
    this.hub = status.hub;
    $('panel-title').textContent = `Lane ${lane.name}`;
    this.#build();
    this.#fill();
  }

  // What the flows carried in the last second.
  look(now) {
    for (const [name, row] of Object.entries(this.live)) {
      const flow = now?.flows[name];
      row.textContent = flow ? `↑ ${rate(flow.outbound.rate_bps)}  ↓ ${rate(flow.inbound.rate_bps)}  ${drops(flow)}/s dropped` : '–';
    }
  }

  // Of a lane with flows: which packets are meant, and what each flow carries.
  #flows() {
    this.live = {};
    const flows = Object.entries(this.lane.settings.flows ?? {});
    if (!flows.length) return '';
    const select = el('select', { id: 'flow' }, ...[['', 'all that belong to no flow'], ...flows.map(([name]) => [name, `flow ${name}`])].map(([value, text]) => el('option', { value }, text)));
    select.value = this.flow;
    select.addEventListener('change', () => {
      this.flow = select.value;
      this.#build();
      this.#fill();
      $('flow').focus();
    });
    const rows = [...flows, ['', { match: {} }]].map(([name, flow]) => {
      this.live[name] = el('td', {}, '–');
      const match = Object.entries(flow.match).map(([key, value]) => `${key.replace('_', ' ')} ${value}`).join(', ');
      return el('tr', {}, el('th', { scope: 'row' }, name || 'the rest'), el('td', { class: 'text' }, match), this.live[name]);
    });
    return el('fieldset', {}, el('legend', {}, 'Packets'), el('label', { class: 'row' }, 'Shown below', select),
      el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Flows of the lane' }, el('table', { class: 'flows' }, el('tbody', {}, ...rows))));
  }

  // What is asked of the packets that are shown.
  get #settings() {
    return this.flow ? this.lane.settings.flows[this.flow] : this.lane.settings;
  }

  #build() {
    const disabled = !mayWrite;
    this.rtt = new Quantity({ name: 'rtt', label: 'RTT', units: TIME, high: 4e8, disabled });
    this.rtt.changed = () => this.#fromRtt();
    this.sides = Object.fromEntries(SIDES.map((side) => [side, keys.map((key) => {
      const made = control(key, side, disabled);
      made.changed = () => this.#edited(side, made);
      return made;
    })]));
    this.even = el('input', { type: 'checkbox', disabled });
    this.alike = el('input', { type: 'checkbox', disabled });
    this.even.addEventListener('change', () => this.#fromRtt());
    this.alike.addEventListener('change', () => this.#shown());
    this.fields = Object.fromEntries(SIDES.map((side) => [side, this.#fieldset(side)]));
    this.wrong = el('p', { class: 'wrong', role: 'alert' });
    const parts = [
      this.#flows(),
      el('fieldset', {}, el('legend', {}, 'Round trip'), this.rtt.row, this.#places(),
        el('label', { class: 'check' }, this.even, 'split evenly over both directions')),
      el('label', { class: 'check' }, this.alike, 'both directions alike'),
      this.fields.outbound, this.fields.inbound,
      el('p', { class: 'hint', 'data-leased': '', hidden: true }, 'A test run has the lanes: nothing can be set until it has ended.'), this.wrong,
    ];
    if (mayWrite) parts.push(this.#buttons());
    this.form.replaceChildren(el('fieldset', { class: 'all', 'data-changes': '' }, ...parts));
    lock();
  }

  #fieldset(side) {
    const rows = this.sides[side].map((one) => one.row);
    const everyday = keys.length - more().length;
    const rest = el('details', { class: 'more' }, el('summary', {}, 'More'), ...rows.slice(everyday));
    return el('fieldset', {}, el('legend', {}, NAMED[side]), ...rows.slice(0, everyday), rest);
  }

  // Presets: as far as some place is from the hub.
  #places() {
    if (!(this.hub in PLACES) || !mayWrite) return '';
    const select = el('select', {}, el('option', { value: '' }, 'as far as …'));
    around(this.hub)
      .then((places) => select.append(...places.map((one) => el('option', { value: `${one.rtt_ns / 1e6}ms`, title: one.source }, `${one.name}, ${ms(one.rtt_ns)}`))))
      .catch(sayFailure);
    select.addEventListener('change', () => {
      if (!select.value) return;
      this.rtt.text = select.value;
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
    if (can.has('confirm')) row.append(el('label', { class: 'check' }, this.confirm, 'revert after 60 s unless confirmed'));
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
    const settings = this.#settings;
    for (const side of SIDES) {
      this.sides[side].forEach((one, i) => { one.text = settings[side]?.[one.name] ?? (startsAtZero(keys[i]) ? keys[i].at_rest : null); });
    }
    const [out, back] = SIDES.map((side) => this.#delay(side));
    this.rtt.text = `${(this.flow ? Math.round(out + back) : this.lane.rtt_ns) / 1e6}ms`;
    this.even.checked = Math.abs(out - back) <= 1;
    const rest = (side) => JSON.stringify({ ...settings[side], delay: 0, seed: 0 });
    this.alike.checked = rest('outbound') === rest('inbound');
    this.#shown();
    this.first = this.#said;
    this.first.even = this.even.checked;
    for (const field of Object.values(this.fields)) field.querySelector('.more').open = field.querySelector('.more').dataset.set !== '0';
  }

  // All that the form says, as texts.
  get #said() {
    const sides = SIDES.map((side) => [side, Object.fromEntries(this.sides[side].map((one) => [one.name, one.text]))]);
    return { rtt: this.rtt.text, ...Object.fromEntries(sides) };
  }

  #delay(side) {
    const one = this.sides[side].find(isDelay);
    return one.text === null ? 0 : Number(one.number.value) * TIME[one.unit.value];
  }

  #shown() {
    const alike = this.alike.checked;
    this.sides.inbound.forEach((one, i) => {
      if (isDelay(one)) return;
      if (alike && !keys[i].one_way) one.text = this.sides.outbound[i].text;
      one.row.hidden = alike;
    });
    this.sides.outbound.forEach((one, i) => { if (keys[i].one_way && !isDelay(one)) one.row.hidden = alike; });
    this.fields.inbound.hidden = alike && this.even.checked;
    this.fields.inbound.querySelector('.more').hidden = alike;
    for (const side of SIDES) this.#inSide(side);
    const both = this.alike.checked && this.even.checked;
    this.fields.outbound.querySelector('legend').textContent = both ? 'Each direction' : this.alike.checked ? 'Outbound; both directions alike' : NAMED.outbound;
  }

  #inSide(side) {
    this.#control(side, 'delay').row.hidden = this.even.checked;
    const unlimited = this.#control(side, 'rate').text === null;
    this.sides[side].forEach((one, i) => { if (keys[i].needs_rate) one.asleep = unlimited; });
    const rest = this.fields[side].querySelector('.more');
    rest.dataset.set = String(more().filter(({ name }) => this.#control(side, name).text !== null).length);
    rest.querySelector('summary').textContent = rest.dataset.set === '0' ? 'More impairments' : `More impairments, ${rest.dataset.set} set`;
  }

  #control(side, name) {
    return this.sides[side].find((one) => one.name === name);
  }

  #fromRtt() {
    if (this.even.checked) for (const side of SIDES) this.#control(side, 'delay').text = this.#half();
    else this.#control('inbound', 'delay').text = this.#rest();
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
    if (isDelay(one)) this.rtt.text = `${(this.#delay('outbound') + this.#delay('inbound')) / 1e6}ms`;
    this.#shown();
  }

  // The partial lane: what the form says otherwise than the lane is, nulls for what is at rest.
  get #patch() {
    const { first } = this;
    const said = this.#said;
    const patch = {};
    for (const side of SIDES) {
      patch[side] = Object.fromEntries(Object.entries(said[side]).filter(([name, text]) => text !== first[side][name]));
      delete patch[side].delay;
    }
    if (this.even.checked) {
      if (said.rtt !== first.rtt || !first.even) patch.rtt = said.rtt ?? '0ms';
    } else if (SIDES.some((side) => said[side].delay !== first[side].delay)) {
      for (const side of SIDES) patch[side].delay = said[side].delay ?? '0ms';
    }
    return patch;
  }

  #send(query) {
    this.#tell(null);
    const path = `/api/lanes/${encodeURIComponent(this.lane.name)}${query}`;
    const patch = this.flow ? { flows: { [this.flow]: this.#patch } } : this.#patch;
    return ask('PATCH', path, patch, 'application/json', { 'If-Match': this.etag });
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
      await this.changed(`${this.flow ? `Flow ${this.flow} of ` : ''}${this.lane.name} is at ${this.rtt.text ?? ms(0)}. ${done.summary}`);
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
      const [first, second] = mistake.path.split('.').slice(this.flow ? 4 : 2);
      const field = first === 'rtt' ? this.rtt : this.sides[first]?.find((one) => one.name === second);
      if (field && !field.row.hidden) {
        field.tell(mistake.text);
        field.row.closest('details')?.setAttribute('open', '');
      } else left.push(mistake.text);
    }
    if (!problem.mistakes?.length) left.push(problem.message);
    this.wrong.textContent = left.join(' ');
  }
}
