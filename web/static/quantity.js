// A quantity to set: a slider for the rough, a number and a unit for the exact, and a word for "nothing" where there is
// one. The unit can be chosen, or typed behind the number ("40ms"). Its value is the text that a topology file would hold,
// or null for nothing.

import { el } from './api.js';
import { describe } from './mistakes.js';
import { numberField, plain, typed } from './number_field.js';
import { best, spelled, split, usual } from './units.js';

const STEPS = 1000;
const WITH_UNIT = /^(.*[0-9.,])\s*([a-zµμ%]+(?:\/s)?)$/i;
let count = 0;

// The slider (0 to 1) is a value in the base unit: with `log` between `low` and `high`, else straight from 0. `extra` are
// units that cannot be converted: without a slider. `prefixed`: units that are written before the number.
export class Quantity {
  constructor({ name, label, units, low = 0, high, log = false, none = null, extra = [], prefixed = {}, disabled = false }) {
    Object.assign(this, { name, units, low, high, log, none, extra, prefixed, fixed: disabled });
    const id = `q${(count += 1)}`;
    const said = typeof label === 'string' ? label : label.join(' ');
    this.slider = el('input', { type: 'range', min: '0', max: String(STEPS), step: '1', 'aria-label': `${said}, slider`, disabled });
    this.number = numberField({ id, 'aria-label': said, disabled });
    const choices = [...Object.keys(units), ...extra, ...(none ? [none] : [])];
    this.unit = el('select', { 'aria-label': `${said}, unit`, disabled }, ...choices.map((u) => el('option', { value: u }, u)));
    this.wrong = el('span', { class: 'wrong', id: `${id}-wrong`, hidden: true });
    this.row = el('div', { class: 'quantity' }, el('label', { for: id }, Array.isArray(label) ? label[1] : label), this.slider, this.number, this.unit, this.wrong);
    this.slider.addEventListener('input', () => this.#fromSlider());
    this.number.addEventListener('input', () => this.#typed());
    this.number.addEventListener('change', () => this.#split());
    this.unit.addEventListener('change', () => this.#fromUnit());
    this.changed = () => {};
  }

  // Of a number that is none, the text is what was typed: `problem` then says what is wrong with it.
  get text() {
    const { number = this.number.value, unit = this.unit.value } = this.#read;
    if (this.off || unit === this.none) return null;
    const word = this.prefixed[unit];
    return word ? `${word} ${number}` : number + unit;
  }

  set text(text) {
    const parts = text ? this.#parts(text) : null;
    this.unit.value = parts?.unit ?? this.none ?? usual(this.units);
    this.number.value = parts?.number ?? (this.none ? '' : '0');
    this.#show();
  }

  // What the field shows, right or wrong.
  get draft() {
    return [this.number.value, this.unit.value];
  }

  set draft([number, unit]) {
    this.number.value = number;
    this.unit.value = unit;
    this.#show();
  }

  // Why it cannot be sent as it is; '' when nothing is wrong.
  get problem() {
    const { wrong = '' } = this.off ? {} : this.#read;
    return wrong && !this.number.value.trim() && this.none ? `${wrong}, or choose ${this.none}` : wrong;
  }

  // In the base unit; NaN for what is no number.
  get amount() {
    const { number = NaN, unit } = this.#read;
    return this.off || unit === this.none ? 0 : Number(number) * (this.units[unit] ?? 0);
  }

  // What the field says: `number` and `unit`, that which was typed or else that which is chosen; or what is `wrong`.
  get #read() {
    const said = this.number.value.trim();
    if (this.none && (this.unit.value === this.none || [this.none, 'none'].includes(said.toLowerCase()))) return { unit: this.none };
    for (const [unit, word] of Object.entries(this.prefixed)) {
      if (said.toLowerCase().startsWith(`${word} `)) return { ...typed(said.slice(word.length)), unit };
    }
    const [, digits, word] = WITH_UNIT.exec(said) ?? [];
    if (!word) return { ...typed(said), unit: this.unit.value };
    const [found, unit] = [typed(digits), spelled(word, this.units, this.extra)];
    if (found.wrong) return found;
    if (!unit) return { wrong: `'${word}' is no unit of this field: write ${[...Object.keys(this.units), ...this.extra].join(', ')}` };
    if (unit in this.units || this.extra.includes(unit)) return { number: found.number, unit };
    return split(plain(Number(found.number)) + unit, this.units, this.extra);
  }

  #parts(text) {
    for (const [unit, word] of Object.entries(this.prefixed)) {
      if (text.startsWith(`${word} `)) return { number: String(Number(text.slice(word.length))), unit };
    }
    return split(text, this.units, this.extra);
  }

  // Without effect at present: then it is at rest, too.
  set asleep(off) {
    this.off = off;
    this.unit.disabled = off || this.fixed;
    this.#show();
  }

  // Something to be told below it; "" for nothing.
  tell(text) {
    this.wrong.textContent = text;
    this.wrong.hidden = !text;
    this.number.setAttribute('aria-invalid', String(Boolean(text)));
    describe(this.number, this.wrong.id, Boolean(text));
  }

  focus() {
    this.number.focus();
  }

  #show() {
    this.before = this.unit.value;
    this.number.disabled = Boolean(this.off) || this.fixed;
    this.slider.disabled = Boolean(this.off) || this.fixed || this.extra.includes(this.#read.unit);
    const value = this.amount;
    let share = 0;
    if (value > 0) share = this.log ? Math.log(value / this.low) / Math.log(this.high / this.low) : value / this.high;
    this.slider.value = String(Math.round(Math.min(1, Math.max(0, share)) * STEPS));
    this.slider.setAttribute('aria-valuetext', this.text ?? this.none ?? '0');
  }

  // A number typed where there was nothing has the usual unit; without it, nothing is there again.
  #typed() {
    const empty = !this.number.value.trim();
    if (empty && this.woken) this.unit.value = this.none;
    this.woken = !empty && (this.woken || this.unit.value === this.none);
    if (!empty && this.unit.value === this.none) this.unit.value = usual(this.units);
    this.#told();
  }

  // The field is left: a unit behind the number moves to its place.
  #split() {
    const { number, unit, wrong } = this.#read;
    if (wrong || this.off) return;
    this.number.value = number ?? '';
    this.unit.value = unit;
    this.woken = false;
    this.#show();
  }

  #fromSlider() {
    const share = Number(this.slider.value) / STEPS;
    if (share === 0 && this.none) {
      this.unit.value = this.none;
      this.number.value = '';
    } else if (this.log) {
      const parts = best(Number((this.low * (this.high / this.low) ** share).toPrecision(2)), this.units);
      this.number.value = plain(Number(Number(parts.number).toPrecision(2)));
      this.unit.value = parts.unit;
    } else {
      // The unit stays: who reads "0 ms" and types 345 means milliseconds.
      this.number.value = plain(Number(((this.high * share) / this.units[this.unit.value]).toPrecision(4)));
    }
    this.#told();
  }

  // Another unit for the same value; a value that the unit cannot say (KiB as packets) must be typed.
  #fromUnit() {
    const [from, to] = [this.before, this.unit.value];
    const { number } = typed(this.number.value);
    this.woken = false;
    if (to === this.none) this.number.value = '';
    else if (from === this.none) this.number.value = '1';
    else if (!(from in this.units && to in this.units)) this.number.value = '';
    else if (number !== undefined) this.number.value = plain((Number(number) * this.units[from]) / this.units[to]);
    this.#told();
  }

  #told() {
    this.tell('');
    this.#show();
    this.changed();
  }
}
