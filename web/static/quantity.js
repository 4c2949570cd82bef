// A quantity to set: a slider for the rough, a number and a unit for the exact, and a word for "nothing" where there is
// one. Its value is the text that a topology file would hold, or null for nothing.

import { el } from './api.js';
import { best, split } from './units.js';

const STEPS = 1000;
let count = 0;

// The slider (0 to 1) is a value in the base unit: with `log` between `low` and `high`, else straight from 0. `extra` are
// units that cannot be converted: without a slider. `prefixed`: units that are written before the number.
export class Quantity {
  constructor({ name, label, units, low = 0, high, log = false, none = null, extra = [], prefixed = {}, disabled = false }) {
    Object.assign(this, { name, units, low, high, log, none, extra, prefixed, fixed: disabled });
    const id = `q${(count += 1)}`;
    const said = typeof label === 'string' ? label : label.join(' ');
    this.slider = el('input', { type: 'range', min: '0', max: String(STEPS), step: '1', 'aria-label': `${said}, slider`, disabled });
    this.number = el('input', { type: 'number', id, min: '0', step: 'any', 'aria-label': said, disabled });
    const choices = [...Object.keys(units), ...extra, ...(none ? [none] : [])];
    this.unit = el('select', { 'aria-label': `${said}, unit`, disabled }, ...choices.map((u) => el('option', { value: u }, u)));
    this.wrong = el('span', { class: 'wrong', id: `${id}-wrong`, hidden: true });
    this.row = el('div', { class: 'quantity' }, el('label', { for: id }, Array.isArray(label) ? label[1] : label), this.slider, this.number, this.unit, this.wrong);
    this.slider.addEventListener('input', () => this.#fromSlider());
    this.number.addEventListener('input', () => this.#fromNumber());
    this.unit.addEventListener('change', () => this.#fromNumber());
    this.changed = () => {};
  }

  get text() {
    if (this.off || this.unit.value === this.none || this.number.value === '') return null;
    const word = this.prefixed[this.unit.value];
    return word ? `${word} ${this.number.value}` : this.number.value + this.unit.value;
  }

  set text(text) {
    const parts = text ? this.#parts(text) : null;
    this.unit.value = parts?.unit ?? this.none ?? Object.keys(this.units)[0];
    this.number.value = parts?.number ?? (this.none ? '' : '0');
    this.#show();
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
    if (text) this.number.setAttribute('aria-describedby', this.wrong.id);
    else this.number.removeAttribute('aria-describedby');
  }

  get #value() {
    return Number(this.number.value) * (this.units[this.unit.value] ?? 0);
  }

  #show() {
    const off = this.off || this.unit.value === this.none;
    this.number.disabled = off || this.fixed;
    this.slider.disabled = Boolean(this.off) || this.fixed || this.extra.includes(this.unit.value);
    const value = this.#value;
    let share = 0;
    if (!off && value > 0) share = this.log ? Math.log(value / this.low) / Math.log(this.high / this.low) : value / this.high;
    this.slider.value = String(Math.round(Math.min(1, Math.max(0, share)) * STEPS));
    this.slider.setAttribute('aria-valuetext', this.text ?? this.none ?? '0');
  }

  #fromSlider() {
    const share = Number(this.slider.value) / STEPS;
    let value = this.log ? this.low * (this.high / this.low) ** share : this.high * share;
    if (share === 0 && (this.none || !this.log)) value = 0;
    if (value === 0 && this.none) {
      this.unit.value = this.none;
      this.number.value = '';
    } else {
      const parts = best(this.log ? Number(value.toPrecision(2)) : value, this.units);
      this.number.value = String(Number(Number(parts.number).toPrecision(this.log ? 2 : 4)));
      this.unit.value = parts.unit;
    }
    this.#show();
    this.changed();
  }

  #fromNumber() {
    if (this.unit.value === this.none) this.number.value = '';
    else if (this.number.value === '' && document.activeElement === this.unit) this.number.value = '1';
    this.#show();
    this.changed();
  }
}
