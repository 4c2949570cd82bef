// A field for a number as people type it. It is a text field: one of type "number" drops what it does not understand
// without a word, so that "3,5" becomes 35.

import { el } from './api.js';

const NUMBER = /^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?$/i;
const COMMA = /^[+-]?[0-9]+,[0-9]+$/;
const GROUPED = /^[+-]?[1-9][0-9]{0,2},[0-9]{3}$/;

// What was typed: `number` with a decimal point, or `wrong`, which says why it is none.
export function typed(text) {
  const word = text.trim();
  if (NUMBER.test(word)) return { number: word };
  if (GROUPED.test(word)) return { wrong: `'${word}' can be ${word.replace(',', '')} or ${word.replace(',', '.')}: write one of these` };
  if (COMMA.test(word)) return { number: word.replace(',', '.') };
  return { wrong: word ? `'${word}' is not a number: write one such as 3.5` : 'a number is missing: write one' };
}

export function typedWhole(text) {
  const found = typed(text);
  if (!found.wrong && !/^[0-9]+$/.test(found.number)) return { wrong: `'${text.trim()}' is not a whole number: write one such as 7` };
  return found;
}

// A number without an exponent, for reading: 0.0000001, not 1e-7.
export const plain = (value) => value.toLocaleString('en-US', { useGrouping: false, maximumSignificantDigits: 12 });

// The arrow keys count up and down; leaving the field shows a decimal comma as the point that it is read as.
export function numberField(attributes) {
  const input = el('input', { inputmode: 'decimal', autocomplete: 'off', ...attributes });
  input.addEventListener('keydown', (event) => {
    const step = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (!step || input.readOnly) return;
    event.preventDefault();
    input.dispatchEvent(new Event('change')); // a unit behind the number moves to its place
    const { number, wrong } = typed(input.value || '0');
    if (wrong) return;
    input.value = plain(Math.max(0, Number(number) + step));
    input.dispatchEvent(new Event('input'));
  });
  input.addEventListener('change', () => { input.value = typed(input.value).number ?? input.value; });
  return input;
}
