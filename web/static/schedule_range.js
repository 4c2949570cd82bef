// The part of the schedule's time that the charts show: its fields, and zooming. Times are ns.

import { $, el } from './api.js';
import { clock, roundStep } from './schedule_values.js';

const SPANS = [['', 'all of it'], ['1e10', '10 s'], ['6e10', '1 min'], ['6e11', '10 min'], ['3.6e12', '1 h'], ['2.16e13', '6 h'], ['8.64e13', '24 h']];
const NEW_SPAN = 6e10; // without a loop a minute is shown at least: there is room for more keys

export class TimeRange {
  view = null; // from, to, whole, step, and whether the whole is a loop
  #from = 0;

  constructor(changed) {
    $('shown').replaceChildren(...SPANS.map(([value, label]) => el('option', { value }, label)));
    $('shown').addEventListener('change', changed);
    $('from').addEventListener('input', () => {
      this.#from = Number($('from').value);
      changed();
    });
  }

  // Fits a drawing. Without a loop it does not shrink, nor move, while keys are added.
  fit(drawing) {
    const whole = drawing.loop_ns ? drawing.span_ns : Math.max(drawing.span_ns, NEW_SPAN, this.view && !this.view.loop ? this.view.whole : 0);
    const span = Number($('shown').value) || whole;
    const most = Math.max(0, whole - span);
    const from = Math.min(this.#from, most);
    this.#from = from;
    $('from').hidden = most === 0;
    $('from').max = String(most);
    $('from').step = String(roundStep(span / 20));
    $('from').value = String(from);
    $('from').setAttribute('aria-valuetext', clock(from));
    this.view = { from, to: from + span, whole, step: roundStep(span / 6), loop: Boolean(drawing.loop_ns) };
    return this.view;
  }

  // Takes the next shorter (direction 1) or longer (-1) span around `middle`; null is the middle of what is shown.
  zoom(direction, middle) {
    const spans = SPANS.slice(1).map(([value]) => Number(value));
    const { from, to, whole, loop } = this.view;
    const next = direction > 0 ? spans.findLast((one) => one < to - from) ?? spans[0] : spans.find((one) => one > to - from);
    $('shown').value = next === undefined || (loop && next >= whole) ? '' : String(SPANS.find(([value]) => Number(value) === next)[0]);
    this.#from = Math.max(0, (middle ?? (from + to) / 2) - (Number($('shown').value) || whole) / 2);
  }
}
