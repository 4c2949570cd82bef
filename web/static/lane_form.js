// The form of one lane, or of one flow in it: its controls, what somebody has edited in them, and the patch that says it.
// What is asked of the lane may change meanwhile: the form follows in every field that nobody has edited.

import { el, mayWrite } from './api.js';
import { Choice, Loss, Whole } from './choices.js';
import { describe } from './mistakes.js';
import { plain } from './number_field.js';
import { Quantity } from './quantity.js';
import { OCTETS, RATE, SHARE, SIZE, TIME } from './units.js';

export const SIDES = ['outbound', 'inbound'];
const NAMED = { outbound: 'Outbound (hub to site)', inbound: 'Inbound (site to hub)' };
const UNITS = { time: TIME, rate: RATE, size: SIZE, octets: OCTETS, share: SHARE, loss: SHARE };

// A quantity that starts from zero says it as a number ("0ms"); of any other, a word stands for nothing.
const startsAtZero = (key) => key.range !== null && !key.range.log;
const nothing = (key) => (/[0-9]/.test(key.at_rest) ? 'none' : key.at_rest);
const asMs = (ns) => `${plain(ns / 1e6)}ms`;

function control(key, side, disabled) {
  const common = { name: key.name, label: [NAMED[side], key.label], disabled };
  if (key.kind === 'choice') return new Choice({ ...common, choices: Object.fromEntries(key.choices.map((one) => [one.word, one.label])) });
  if (key.kind === 'count') return new Whole({ ...common, hint: 'from the topology' });
  const extra = Object.keys(key.extra_units);
  const prefixed = Object.fromEntries(Object.entries(key.extra_units).filter(([, word]) => word));
  const kind = key.kind === 'loss' ? Loss : Quantity;
  return new kind({ ...common, ...key.range, units: UNITS[key.kind], none: startsAtZero(key) ? null : nothing(key), extra, prefixed });
}

export class LaneForm {
  // `keys` is the daemon's table, what is set every day first; `edit` is called after every edit.
  constructor(keys, edit) {
    // `both`: by name the fields that somebody else has changed, too, since they were edited ({was, theirs}); `other` names whom.
    Object.assign(this, { keys, edit, first: null, asked: null, both: new Map(), other: 'somebody else' });
    const disabled = !mayWrite;
    this.rtt = new Quantity({ name: 'rtt', label: 'RTT', units: TIME, high: 4e8, disabled });
    this.rtt.changed = () => this.spread();
    this.fields = new Map([['rtt', this.rtt]]);
    for (const side of SIDES) {
      for (const key of keys) {
        const made = control(key, side, disabled);
        made.changed = () => this.#edited(key.name);
        this.fields.set(`${side}.${key.name}`, made);
      }
    }
    this.even = el('input', { type: 'checkbox', disabled });
    this.alike = el('input', { type: 'checkbox', disabled });
    this.even.addEventListener('change', () => this.spread());
    this.alike.addEventListener('change', () => this.#told());
    this.boxes = Object.fromEntries(SIDES.map((side) => [side, this.#fieldset(side)]));
    this.rows = [
      el('label', { class: 'check' }, this.alike, 'both directions alike'), this.boxes.outbound, this.boxes.inbound,
    ];
  }

  #fieldset(side) {
    const rows = this.keys.map((key) => this.#one(side, key.name).row);
    const everyday = this.keys.filter((key) => key.everyday).length;
    const rest = el('details', { class: 'more' }, el('summary', {}, 'More'), ...rows.slice(everyday));
    return el('fieldset', {}, el('legend', {}, NAMED[side]), ...rows.slice(0, everyday), rest);
  }

  #one(side, name) {
    return this.fields.get(`${side}.${name}`);
  }

  // Shows what is asked: of everything at first, then of all that nobody has edited or is about to.
  fill(settings, rttNs) {
    const before = this.first;
    const held = before ? this.#held : [];
    const drafts = before ? new Map([...this.#drafted, ...held].map((name) => [name, this.fields.get(name).draft])) : new Map();
    const [even, alike] = before ? [this.even.checked, this.alike.checked] : [null, null];
    const here = document.activeElement;
    const marked = [here?.selectionStart ?? null, here?.selectionEnd];
    this.#set(settings, rttNs);
    this.first = this.said;
    if (before && even !== before.even) this.even.checked = even;
    if (before && alike !== before.alike) this.alike.checked = alike;
    for (const [name, draft] of drafts) this.fields.get(name).draft = draft;
    if (drafts.size) this.#derive();
    this.#show();
    for (const name of held) this.first[name] = this.fields.get(name).text;
    if (marked[0] !== null) here.setSelectionRange(...marked); // setting a value, and setting it back, moves the caret
    if (!before) for (const box of Object.values(this.boxes)) box.querySelector('.more').open = box.querySelector('.more').dataset.set !== '0';
  }

  // What the fields would say of these settings; they show what they showed.
  #texts(settings) {
    const drafts = new Map([...this.fields].map(([name, one]) => [name, one.draft]));
    const [even, alike] = [this.even.checked, this.alike.checked];
    const here = document.activeElement;
    const marked = [here?.selectionStart ?? null, here?.selectionEnd];
    this.#set(settings, null);
    const { said } = this;
    this.even.checked = even;
    this.alike.checked = alike;
    for (const [name, draft] of drafts) this.fields.get(name).draft = draft;
    this.#show();
    if (marked[0] !== null) here.setSelectionRange(...marked);
    return said;
  }

  // These settings are asked for now, whatever a schedule shows meanwhile. Notes the fields that somebody else has changed
  // as well as we; returns what is different, in words.
  meet(settings) {
    const before = this.asked;
    this.asked = this.#texts(settings);
    if (!before) return [];
    const { edits } = this;
    const held = this.#held;
    const others = this.#names.filter((name) => !held.includes(name) && before[name] !== this.asked[name]);
    for (const name of others) if (edits.includes(name)) this.both.set(name, { was: this.both.get(name)?.was ?? before[name], theirs: this.asked[name] });
    this.#sift();
    return this.sentences(others, before, this.asked);
  }

  // Both have changed a field only while we say something else than they, and they something else than was there.
  #sift() {
    const { edits } = this;
    for (const [name, { was, theirs }] of this.both) if (was === theirs || !edits.includes(name)) this.both.delete(name);
  }

  #set(settings, rttNs) {
    for (const side of SIDES) {
      for (const key of this.keys) this.#one(side, key.name).text = settings[side]?.[key.name] ?? (startsAtZero(key) ? key.at_rest : null);
    }
    const [out, back] = SIDES.map((side) => this.#one(side, 'delay').amount);
    this.rtt.text = asMs(rttNs ?? Math.round(out + back));
    this.even.checked = Math.abs(out - back) <= 1;
    const rest = (side) => JSON.stringify({ ...settings[side], delay: 0, seed: 0 });
    this.alike.checked = rest('outbound') === rest('inbound');
    this.#show();
  }

  // All that the form says: its fields as texts, and its two checkboxes.
  get said() {
    const texts = Object.fromEntries([...this.fields].map(([name, one]) => [name, one.text]));
    return { ...texts, even: this.even.checked, alike: this.alike.checked };
  }

  // The names of all fields but those that follow from others: the delays from an evenly split RTT, or the RTT from them.
  get #names() {
    const derived = this.even.checked ? SIDES.map((side) => `${side}.delay`) : ['rtt'];
    return [...this.fields.keys()].filter((name) => !derived.includes(name));
  }

  // The names of the fields that say something else than what is asked.
  get edits() {
    const { said } = this;
    const found = this.#names.filter((name) => said[name] !== this.first[name]);
    return this.even.checked && !this.first.even && !found.includes('rtt') ? ['rtt', ...found] : found;
  }

  // The fields that keep what they show: an edit of one delay is one of how both share the RTT.
  get #drafted() {
    const { edits } = this;
    return edits.some((name) => name.endsWith('.delay')) ? [...new Set([...edits, ...SIDES.map((side) => `${side}.delay`)])] : edits;
  }

  // The field in which somebody stands, but has changed nothing yet: it is left alone without counting as an edit.
  get #held() {
    const here = [...this.fields].filter(([, one]) => one.row.contains(document.activeElement)).map(([name]) => name);
    const both = this.alike.checked ? here.flatMap((name) => (name === 'rtt' ? [name] : SIDES.map((side) => `${side}.${name.split('.')[1]}`))) : here;
    const { edits } = this;
    return both.filter((name) => !edits.includes(name));
  }

  // What follows from the fields that somebody edits: the delays from the RTT, or the RTT from the delays.
  #derive() {
    if (this.even.checked) this.#halve();
    else this.rtt.text = asMs(SIDES.reduce((sum, side) => sum + this.#one(side, 'delay').amount, 0));
  }

  #halve() {
    if (Number.isNaN(this.rtt.amount)) return;
    for (const side of SIDES) this.#one(side, 'delay').text = asMs(this.rtt.amount / 2);
  }

  // The RTT was edited: the delays follow.
  spread() {
    if (this.even.checked) this.#halve();
    else if (!Number.isNaN(this.rtt.amount)) {
      this.#one('inbound', 'delay').text = asMs(Math.max(0, this.rtt.amount - this.#one('outbound', 'delay').amount));
    }
    this.#told();
  }

  #edited(name) {
    if (name === 'delay' && SIDES.every((side) => !this.#one(side, name).problem)) this.#derive();
    this.#told();
  }

  #told() {
    this.#show();
    this.edit();
  }

  #show() {
    const alike = this.alike.checked;
    for (const key of this.keys) {
      if (key.name === 'delay') continue;
      const [out, back] = SIDES.map((side) => this.#one(side, key.name));
      if (alike && !key.one_way) back.draft = out.draft;
      back.row.hidden = alike;
      if (key.one_way) out.row.hidden = alike;
    }
    for (const side of SIDES) this.#inSide(side);
    const both = alike && this.even.checked;
    this.boxes.inbound.hidden = both;
    this.boxes.inbound.querySelector('.more').hidden = alike;
    this.boxes.outbound.querySelector('legend').textContent = both ? 'Each direction' : alike ? 'Outbound; both directions alike' : NAMED.outbound;
  }

  #inSide(side) {
    this.#one(side, 'delay').row.hidden = this.even.checked;
    const unlimited = this.#one(side, 'rate').text === null;
    for (const key of this.keys) if (key.needs_rate) this.#one(side, key.name).asleep = unlimited;
    const rest = this.boxes[side].querySelector('.more');
    rest.dataset.set = String(this.keys.filter((key) => !key.everyday && this.#one(side, key.name).text !== null).length);
    rest.querySelector('summary').textContent = rest.dataset.set === '0' ? 'More impairments' : `More impairments, ${rest.dataset.set} set`;
  }

  // The partial lane: what the form says otherwise than the lane is, nulls for what is at rest.
  get patch() {
    const patch = { outbound: {}, inbound: {} };
    const { edits } = this;
    if (edits.includes('rtt')) patch.rtt = this.rtt.text;
    for (const name of edits.filter((one) => one !== 'rtt')) {
      const [side, key] = name.split('.');
      patch[side][key] = this.fields.get(name).text;
    }
    if (edits.some((name) => name.endsWith('.delay'))) for (const side of SIDES) patch[side].delay = this.#one(side, 'delay').text;
    return patch;
  }

  // What the form said when it was sent is asked for now; what was edited since is an edit still.
  settle(said) {
    this.first = said;
    this.asked = null;
    this.both.clear();
  }

  // Tells what is wrong in every field that somebody can see; whether there is anything.
  refuse() {
    this.tell([]);
    const wrong = [...this.fields.values()].filter((one) => !one.row.hidden && one.problem);
    for (const one of wrong) this.#point(one, one.problem);
    wrong[0]?.focus();
    return wrong.length > 0;
  }

  // Puts each mistake ({path: names below the lane, text}) at its field; returns the texts of those without one.
  tell(mistakes) {
    for (const one of this.fields.values()) one.tell('');
    const left = [];
    for (const { path, text } of mistakes) {
      const field = this.fields.get(path[0] === 'rtt' ? 'rtt' : path.slice(0, 2).join('.'));
      if (field && !field.row.hidden) this.#point(field, text);
      else left.push(text);
    }
    return left;
  }

  #point(field, text) {
    field.tell(text);
    field.row.closest('details')?.setAttribute('open', '');
  }

  // Marks the rows of what has been edited, but not applied.
  mark() {
    const { edits } = this;
    this.#sift();
    for (const [name, one] of this.fields) {
      one.row.classList.toggle('changed', edits.includes(name));
      this.#markBoth(name, one);
    }
  }

  // Puts both values at a field that somebody else has changed, too: a screen reader reads them with it.
  #markBoth(name, field) {
    const found = this.both.get(name) ?? (this.alike.checked ? this.both.get(name.replace('outbound', 'inbound')) : undefined);
    if (!found && !field.twice) return;
    const input = field.row.querySelector('input:not([type=range]), select');
    field.twice ??= field.row.appendChild(el('span', { class: 'twice', id: `${input.id}-twice` }));
    const word = (value) => (typeof value === 'object' && value ? 'a table of its own' : value ?? 'none');
    field.twice.textContent = found ? `You: ${word(field.text)}. ${this.other}: ${word(found.theirs)}. Before: ${word(found.was)}.` : '';
    field.twice.hidden = !found;
    field.row.classList.toggle('clash', Boolean(found));
    describe(input, field.twice.id, Boolean(found));
  }

  // A field's value before and after, for each of these fields, as people read it: "Outbound Rate none → 1Gbit".
  sentences(names, before, after) {
    const word = (value) => (typeof value === 'object' && value ? 'a table of its own' : value ?? 'none');
    return [...new Set(names.map((name) => `${this.words(name)} ${word(before[name])} → ${word(after[name])}`))];
  }

  // A field's name, as people read it: "Outbound Rate".
  words(name) {
    const [side, key] = name.split('.');
    const label = this.keys.find((one) => one.name === key)?.label ?? 'RTT';
    return key ? `${this.alike.checked ? '' : `${NAMED[side].split(' ')[0]} `}${label}` : label;
  }
}
