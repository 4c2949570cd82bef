// The dialog of a flow: which packets of a lane belong to it, and their impairments. It adds a flow or changes one.

import { $, el, lock, onClick, sayFailure } from './api.js';
import { known } from './impairment_keys.js';
import { LaneForm } from './lane_form.js';
import { clear, show as showMistakes } from './mistakes.js';
import { confirmBox, PlannedChange } from './plan_dialog.js';

const LABELS = { dscp: 'DSCP', vlan: 'VLAN' };
const label = (name) => LABELS[name] ?? name[0].toUpperCase() + name.slice(1).replace('_', ' ');
const pathOf = (lane) => `/api/lanes/${encodeURIComponent(lane)}`;

// The keys of a match in words: "dscp ef, hub port 443".
export const matchWords = (match) => Object.entries(match).map(([key, value]) => `${key.replace('_', ' ')} ${value}`).join(', ');

export class FlowDialog {
  // `page` has the status, `refresh` and `changed` (answer, text, lane, id of what has the focus then).
  constructor(page) {
    Object.assign(this, { page, box: $('flow-dialog'), form: $('flow-form') });
    this.form.addEventListener('submit', (event) => event.preventDefault());
    this.box.addEventListener('close', () => $('flow-settings').replaceChildren());
    onClick('flow-preview', () => this.#begin((change) => change.preview()));
    onClick('flow-apply', () => this.#begin((change) => change.apply()));
    onClick('flow-close', () => this.box.close());
  }

  // Opens for the flow called `name` of the lane, or for a new one; `added` is called with a new one's name before it is shown.
  open(lane, name = '', added = () => {}) {
    Object.assign(this, { lane: lane.name, name, added });
    const flow = lane.requested.flows?.[name];
    this.match = flow?.match ?? {};
    $('flow-title').textContent = flow ? `Flow ${name} of ${lane.name}` : `Add a flow to ${lane.name}`;
    $('flow-apply').textContent = flow ? 'Change the flow' : 'Add the flow';
    $('flow-match').replaceChildren(...known.match.map((key) => this.#matchField(key)));
    clear(this.form);
    this.#field('name').value = name;
    this.#field('name').readOnly = Boolean(flow);
    $('flow-name-hint').textContent = flow ? 'A flow keeps its name.' : 'Such as voice.';
    $('flow-wrong').textContent = '';
    this.#settings(lane.requested, flow);
    this.waits?.remove();
    this.waits = confirmBox();
    if (this.waits) $('flow-act').prepend(this.waits);
    lock();
    this.box.showModal();
    this.#field(flow ? `match.${Object.keys(this.match)[0]}` : 'name').focus();
  }

  #field(name) {
    return this.form.elements[name];
  }

  #matchField({ name, help, examples }) {
    const id = `flow-match-${name}`;
    const value = this.match[name] === undefined ? '' : String(this.match[name]);
    return el('div', {}, el('label', { for: id }, label(name)),
      el('input', { id, name: `match.${name}`, value, placeholder: examples[0], autocomplete: 'off', 'aria-describedby': `${id}-hint` }),
      el('p', { id: `${id}-hint`, class: 'hint' }, help));
  }

  // The impairments: those of the flow, or the lane's delays and nothing else.
  #settings(settings, flow) {
    const delays = Object.fromEntries(['outbound', 'inbound'].map((side) => [side, { delay: settings[side]?.delay }]));
    this.settings = new LaneForm(known.keys, () => this.settings.mark());
    this.settings.fill(flow ?? delays, null);
    $('flow-settings').replaceChildren(
      el('fieldset', {}, el('legend', {}, 'Round trip'), this.settings.rtt.row, el('label', { class: 'check' }, this.settings.even, 'split evenly over both directions')),
      ...this.settings.rows,
    );
  }

  // The keys of the match that are otherwise than before: their texts, null for a key that is removed.
  get #matchPatch() {
    const said = known.match.map(({ name }) => [name, this.#field(`match.${name}`).value.trim() || null]);
    return Object.fromEntries(said.filter(([name, text]) => text !== (this.match[name] === undefined ? null : String(this.match[name]))));
  }

  // What the daemon would not refuse, although nobody means it.
  get #missing() {
    const name = this.#field('name').value.trim();
    const found = [];
    if (!name) found.push({ path: 'name', text: 'is missing: name the flow, such as voice' });
    const lane = this.page.status.lanes.find((one) => one.name === this.lane);
    if (!this.name && lane?.requested.flows?.[name]) found.push({ path: 'name', text: `there is a flow ${name} already: use another name, or edit that flow` });
    if (known.match.every((key) => !this.#field(`match.${key.name}`).value.trim())) found.push({ path: 'match.dscp', text: 'fill in at least one of these keys: a flow without a match would have every packet' });
    return found;
  }

  // The request; null after mistakes were told.
  #request() {
    clear(this.form);
    $('flow-wrong').textContent = '';
    const wrong = this.#missing;
    const bad = this.settings.refuse();
    if (wrong.length) this.#told(wrong);
    if (wrong.length || bad) return null;
    const name = this.#field('name').value.trim();
    const { patch } = this.settings;
    const match = this.#matchPatch;
    if (Object.keys(match).length) patch.match = match;
    return { method: 'PATCH', path: pathOf(this.lane), body: { flows: { [name]: patch } } };
  }

  async #begin(act) {
    await act(new PlannedChange({
      request: () => this.#request(),
      shown: () => ({ title: this.name ? `What changing flow ${this.name} does` : 'What the new flow does', words: this.#words(), label: this.name ? 'Change the flow' : 'Add the flow' }),
      page: this.page, waits: this.waits,
      failed: (problem) => this.#failed(problem),
      done: async (done) => {
        this.box.close();
        if (!this.name) this.added(this.#field('name').value.trim());
        await this.page.changed(done, done.summary, this.lane, 'add-flow');
      },
    }));
  }

  #words() {
    const name = this.#field('name').value.trim();
    const { settings } = this;
    const match = this.#matchPatch;
    const edits = settings.sentences(settings.edits, settings.first, settings.said);
    if (this.name) return [...Object.entries(match).map(([key, text]) => `${label(key)} ${this.match[key] ?? 'any'} → ${text ?? 'any'}`), ...edits];
    const own = edits.length ? edits : [`It has the delays of ${this.lane}, and no other impairment.`];
    return [`Packets of ${this.lane} with ${matchWords(match)} belong to the flow ${name}, unless they belong to one before it.`, ...own];
  }

  #failed(problem) {
    if (!this.box.open) {
      sayFailure(problem);
      return;
    }
    const at = `lanes.${this.lane}.flows.${this.#field('name').value.trim()}`;
    const mistakes = (problem.mistakes?.length ? problem.mistakes : [{ path: '', text: problem.message }])
      .map(({ path, text }) => ({ path: path.startsWith(`${at}.`) ? path.slice(at.length + 1) : /\bname\b/.test(text) ? 'name' : '', text }));
    const ofMatch = mistakes.filter(({ path }) => path === 'name' || path.startsWith('match.'));
    const left = this.settings.tell(mistakes.filter((one) => !ofMatch.includes(one)).map(({ path, text }) => ({ path: path.split('.'), text })));
    this.#told(ofMatch, left);
  }

  #told(mistakes, left = []) {
    const strange = showMistakes(this.form, mistakes);
    $('flow-wrong').textContent = [...left, ...strange.map((one) => one.text)].join('\n');
    this.form.querySelector('[aria-invalid=true]')?.focus();
  }
}

// Shows what removing a flow does, and removes it if somebody says so.
export async function removeFlow(page, lane, name) {
  const waits = confirmBox();
  await new PlannedChange({
    request: { method: 'PATCH', path: pathOf(lane), body: { flows: { [name]: null } } },
    shown: () => ({ title: `What removing flow ${name} does`, words: [`The flow ${name} of ${lane} is removed, with its settings.`, 'Its packets belong to the next flow that they match, or to the rest of the lane.'], label: `Remove flow ${name}`, danger: true, waits }),
    page, waits,
    failed: (problem) => {
      sayFailure(problem);
      page.refresh().catch(sayFailure); // somebody else may have removed it
    },
    done: (done) => page.changed(done, done.summary, lane, 'add-flow'),
  }).preview();
}
