// Settings that are no single quantity: a word out of a few, and the patterns in which packets are lost. As a Quantity,
// each has a row, a text as a topology file would hold it (null at rest), a `draft` of what the row shows, right or wrong,
// the `problem` that keeps it from being sent, and a place to tell what is wrong.

import { el } from './api.js';
import { numberField, typed, typedWhole } from './number_field.js';
import { Quantity } from './quantity.js';

let count = 0;

// One of `choices` ({text: what people read}); the first is at rest. Other values that are there stay, unnamed.
export class Choice {
  constructor({ name, label, choices, disabled = false }) {
    this.name = name;
    this.changed = () => {};
    const id = `c${(count += 1)}`;
    const options = Object.entries(choices).map(([value, text]) => el('option', { value }, text));
    this.select = el('select', { id, 'aria-label': label.join(' '), disabled }, ...options);
    this.rest = this.select.options[0].value;
    this.other = null;
    this.wrong = el('span', { class: 'wrong', hidden: true });
    this.row = el('div', { class: 'quantity choice' }, el('label', { for: id }, label[1]), this.select, this.wrong);
    this.select.addEventListener('change', () => this.changed());
    this.fixed = disabled;
  }

  get text() {
    if (this.off || this.select.value === this.rest) return null;
    return this.select.value === 'other' ? this.other : this.select.value;
  }

  set text(text) {
    const value = typeof text === 'string' || text === null ? text ?? this.rest : 'other';
    this.select.querySelector('[value=other]')?.remove();
    if (value === 'other' || ![...this.select.options].some((one) => one.value === value)) {
      this.other = text;
      this.select.append(el('option', { value: 'other' }, 'a table of its own'));
      this.select.value = 'other';
    } else {
      this.select.value = value;
    }
  }

  get draft() {
    return this.select.value === 'other' ? this.other : this.select.value;
  }

  set draft(value) {
    this.text = value;
  }

  get problem() {
    return '';
  }

  // Without effect at present: then it is at rest, too.
  set asleep(off) {
    this.off = off;
    this.select.disabled = off || this.fixed;
  }

  tell(text) {
    this.wrong.textContent = text;
    this.wrong.hidden = !text;
  }

  focus() {
    this.select.focus();
  }
}

// A whole number, or nothing.
export class Whole {
  constructor({ name, label, hint, disabled = false }) {
    this.name = name;
    this.changed = () => {};
    const id = `w${(count += 1)}`;
    this.input = numberField({ id, placeholder: hint, 'aria-label': label.join(' '), disabled });
    this.wrong = el('span', { class: 'wrong', hidden: true });
    this.row = el('div', { class: 'quantity choice' }, el('label', { for: id }, label[1]), this.input, this.wrong);
    this.input.addEventListener('input', () => {
      this.tell('');
      this.changed();
    });
  }

  get text() {
    return this.input.value.trim() || null;
  }

  set text(text) {
    this.input.value = text ?? '';
  }

  get draft() {
    return this.input.value;
  }

  set draft(value) {
    this.input.value = value;
  }

  get problem() {
    return this.text === null ? '' : typedWhole(this.text).wrong ?? '';
  }

  focus() {
    this.input.focus();
  }

  tell(text) {
    this.wrong.textContent = text;
    this.wrong.hidden = !text;
  }
}

// By pattern: what it is called, the probabilities that it takes, and what they are at first, in %.
const MODELS = {
  gilbert: ['Gilbert-Elliott', ['p: into a bad spell', 'r: out of it', '1-h: lost when bad', '1-k: lost when good'], [1, 20, 100, 0]],
  '4-state': ['4-state Markov', ['p13: a burst begins', 'p31: it ends', 'p32: a gap within it', 'p23: back to loss', 'p14: lost alone'], [1, 20, 0, 0, 0]],
};

// Loss: by chance, in bursts of a mean length, or by a model with its probabilities.
export class Loss {
  constructor({ name, label, disabled = false, ...rest }) {
    this.name = name;
    this.changed = () => {};
    const patterns = { chance: 'by chance', burst: 'in bursts', ...Object.fromEntries(Object.entries(MODELS).map(([key, [text]]) => [key, text])) };
    const said = (text) => [label[0], text];
    this.share = new Quantity({ name, label, disabled, ...rest });
    this.pattern = new Choice({ name, label: said('Loss pattern'), choices: patterns, disabled });
    this.burst = this.#number(said('Loss, packets in a row'), disabled, '5');
    this.models = Object.fromEntries(Object.entries(MODELS).map(([key, [, names, first]]) =>
      [key, names.map((one, i) => this.#number(said(one), disabled, String(first[i])))]));
    const box = (key) => el('div', { class: 'model' }, ...this.models[key].map((one) => el('label', {}, el('span', {}, one.short), one, '%')));
    this.boxes = Object.fromEntries(Object.keys(MODELS).map((key) => [key, box(key)]));
    this.boxes.burst = el('div', { class: 'model' }, el('label', {}, el('span', {}, 'packets in a row, on average'), this.burst));
    this.row = el('div', { class: 'loss' }, this.share.row, this.pattern.row, ...Object.values(this.boxes));
    this.share.changed = () => this.#moved();
    this.pattern.changed = () => this.#moved();
    this.#show();
  }

  #number([side, text], disabled, value) {
    const made = numberField({ 'aria-label': `${side} ${text}`, value, disabled });
    made.short = text;
    made.addEventListener('input', () => this.#moved());
    return made;
  }

  // The numbers that the pattern takes.
  get #numbers() {
    const pattern = this.pattern.text ?? 'chance';
    return pattern === 'burst' ? [this.burst] : this.models[pattern] ?? [];
  }

  #moved() {
    this.tell('');
    this.#show();
    this.changed();
  }

  #show() {
    const pattern = this.pattern.text ?? 'chance';
    for (const [key, one] of Object.entries(this.boxes)) one.hidden = key !== pattern;
    this.share.row.hidden = pattern in MODELS;
    this.pattern.row.hidden = this.share.text === null && pattern === 'chance';
  }

  get text() {
    const pattern = this.pattern.text ?? 'chance';
    const numbers = this.#numbers.map((one) => typed(one.value).number ?? one.value);
    if (pattern in MODELS) return [pattern, ...numbers.map((one) => `${one}%`)].join(' ');
    if (this.share.text === null || pattern === 'chance') return this.share.text;
    return `${this.share.text} burst ${numbers[0]}`;
  }

  set text(text) {
    const [word, ...shares] = (text ?? '').split(' ');
    const model = word in MODELS;
    this.pattern.text = model ? word : shares[0] === 'burst' ? 'burst' : null;
    if (model) this.models[word].forEach((one, i) => { one.value = String(parseFloat(shares[i] ?? '0')); });
    else if (shares[0] === 'burst') [, this.burst.value] = shares;
    this.share.text = model || !word ? null : word;
    this.#show();
  }

  get draft() {
    const models = Object.values(this.models).map((numbers) => numbers.map((one) => one.value));
    return { share: this.share.draft, pattern: this.pattern.draft, burst: this.burst.value, models };
  }

  set draft({ share, pattern, burst, models }) {
    this.share.draft = share;
    this.pattern.draft = pattern;
    this.burst.value = burst;
    Object.values(this.models).forEach((numbers, i) => numbers.forEach((one, j) => { one.value = models[i][j]; }));
    this.#show();
  }

  get problem() {
    const pattern = this.pattern.text ?? 'chance';
    if (!(pattern in MODELS) && (this.share.problem || this.share.text === null)) return this.share.problem;
    const bad = this.#numbers.find((one) => typed(one.value).wrong);
    return bad ? `${bad.short}: ${typed(bad.value).wrong}` : '';
  }

  tell(text) {
    for (const one of [this.share, this.pattern]) one.tell('');
    (this.share.row.hidden ? this.pattern : this.share).tell(text);
  }

  focus() {
    (this.#numbers.find((one) => typed(one.value).wrong) ?? this.share).focus();
  }
}
