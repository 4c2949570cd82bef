// The panel of one lane, or of one flow in it: what is asked of it, to be changed, previewed and applied. Edits stay
// until they are applied or discarded, whatever else is looked at meanwhile and whoever else changes the lane.

import { $, ask, can, el, lock, mayWrite, sayFailure } from './api.js';
import { matchWords } from './flow_dialog.js';
import { known } from './impairment_keys.js';
import { LaneForm } from './lane_form.js';
import { changedBy } from './lane_state.js';
import { around, PLACES } from './places.js';
import { showPlan } from './plan_dialog.js';
import { drops, ms, rate } from './units.js';

export class Panel {
  // `changed` is called with the answer to a change, and `refresh` asks for what is up. Of the lane in the panel somebody
  // wants to remove it (`remove`), to add a flow or edit one (`editFlow`, with the lane and the flow's name), or to remove
  // a flow (`removeFlow`).
  constructor(root, { changed, refresh, remove, editFlow, removeFlow }) {
    Object.assign(this, { root, changed, refresh, remove, editFlow, removeFlow, lane: null, flow: '', live: {}, forms: new Map(), saying: 0, applying: false });
    root.addEventListener('submit', (event) => event.preventDefault());
    addEventListener('beforeunload', (event) => [...this.forms.values()].some((form) => form.edits.length) && event.preventDefault());
  }

  // Shows a lane as it is asked for now. What a test run asks of it meanwhile is nothing that edits are about.
  show(status, lane) {
    const frame = JSON.stringify([status.hub, lane.name, this.#matches(lane)]);
    if (!lane.settings.flows?.[this.flow] || this.lane?.name !== lane.name) this.flow = '';
    Object.assign(this, { etag: status.etag, hub: status.hub, leased: status.leased, lane: structuredClone(lane) });
    this.forms.forEach((_, key) => status.lanes.some((one) => key.startsWith(`${one.name}/`)) || this.forms.delete(key));
    $('panel-title').textContent = `Lane ${lane.name}`;
    $('panel-changed').textContent = changedBy(lane.changed);
    if (frame !== this.frame) this.#build();
    this.frame = frame;
    this.#fill();
  }

  // No lane is left to be shown.
  clear() {
    Object.assign(this, { lane: null, flow: '', live: {}, frame: '' });
    this.forms.clear();
    $('panel-title').textContent = 'Lane';
    $('panel-changed').textContent = '';
    this.root.replaceChildren(el('p', { class: 'nothing' }, 'No lane is up. Add one, or undo the last change.'), mayWrite ? this.#undo() : '');
  }

  // Shows what the schedule asks of the lane now, if one changes it.
  follow(lane, scheduled) {
    if (lane.name !== this.lane?.name) return;
    this.scheduled.hidden = !scheduled;
    if (!scheduled || JSON.stringify(lane.settings) === JSON.stringify(this.lane.settings)) return;
    this.lane = structuredClone(lane);
    this.#fill();
  }

  // What the flows carried in the last second.
  look(now) {
    for (const [name, row] of Object.entries(this.live)) {
      const flow = now?.flows[name];
      row.textContent = flow ? `↑ ${rate(flow.outbound.rate_bps)}  ↓ ${rate(flow.inbound.rate_bps)}  drops ${drops(flow)}` : '–';
    }
  }

  #matches(lane) {
    return Object.entries(lane.settings.flows ?? {}).map(([name, flow]) => [name, flow.match]);
  }

  // Of a lane with flows: which packets are meant, and what each flow carries.
  #flows() {
    this.live = {};
    const flows = this.#matches(this.lane);
    if (!flows.length) return '';
    const select = el('select', { id: 'flow' }, ...[['', 'all that belong to no flow'], ...flows.map(([name]) => [name, `flow ${name}`])].map(([value, text]) => el('option', { value }, text)));
    select.value = this.flow;
    select.addEventListener('change', () => {
      this.flow = select.value;
      this.#build();
      this.#fill();
      $('flow').focus();
    });
    const rows = [...flows, ['', {}]].map(([name, matched]) => {
      this.live[name] = el('td', {}, '–');
      return el('tr', {}, el('th', { scope: 'row' }, name || 'the rest'), el('td', { class: 'text' }, matchWords(matched)), this.live[name], this.#flowButtons(name));
    });
    return el('fieldset', {}, el('legend', {}, 'Packets'), el('label', { class: 'row' }, 'Shown below', select),
      el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Flows of the lane' }, el('table', { class: 'flows' }, el('tbody', {}, ...rows))));
  }

  #flowButtons(name) {
    if (!name || !mayWrite) return el('td');
    const button = (text, words, kind, onclick) => el('button', { type: 'button', class: `quiet small ${kind}`, title: words, 'aria-label': words, onclick }, text);
    return el('td', {}, button('Edit', `Edit flow ${name}`, '', () => this.editFlow(this.lane, name)), button('×', `Remove flow ${name}`, 'danger', () => this.removeFlow(this.lane.name, name)));
  }

  // The frame around the form of what is shown; a form with edits is the one that was left.
  #build() {
    const key = `${this.lane.name}/${this.flow}`;
    this.forms.forEach((form, other) => form.edits.length || this.forms.delete(other));
    if (!this.forms.has(key)) this.forms.set(key, new LaneForm(known.keys, () => this.#edits()));
    this.form = this.forms.get(key);
    this.wrong = el('p', { class: 'wrong', role: 'alert' });
    this.others = el('p', { class: 'told', role: 'status' });
    this.rebase = el('div', { class: 'row', hidden: true }, el('button', { type: 'button', class: 'quiet', onclick: () => this.#rebase() }, 'Reload and keep my edits'));
    this.edited = el('div', { class: 'row edited unseen' });
    this.scheduled = el('p', { class: 'hint', hidden: true }, 'A schedule changes this lane: what it sets follows here, and replaces what you set.');
    this.off = el('p', { class: 'told', role: 'status', hidden: true }, 'Latency of this lane is off: these settings are kept and act when it is on again. A new delay switches it on.');
    const parts = [
      this.off, this.#flows(),
      el('fieldset', {}, el('legend', {}, 'Round trip'), this.form.rtt.row, this.#places(),
        el('label', { class: 'check' }, this.form.even, 'split evenly over both directions')),
      ...this.form.rows, this.scheduled,
      el('p', { class: 'hint', 'data-leased': '', hidden: true }, 'A measurement has the lanes: nothing can be set until it has ended.'), this.others, this.rebase, this.wrong,
    ];
    if (mayWrite) parts.push(el('div', { class: 'act' }, this.edited, this.#buttons()), this.#undo());
    this.root.replaceChildren(el('fieldset', { class: 'all', 'data-changes': '' }, ...parts));
    lock();
  }

  // Shows what is asked of the packets that are meant.
  #fill() {
    const { form } = this;
    if (this.leased && form.first && form.edits.length) return;
    const settings = this.flow ? this.lane.settings.flows[this.flow] : this.lane.settings;
    const since = form.etag;
    form.fill(settings, this.flow || this.lane.off ? null : this.lane.rtt_ns);
    this.off.hidden = !this.lane.off;
    form.etag = this.leased ? '' : this.etag;
    if (since && since === form.etag && form.asked) {
      this.#edits();
      return;
    }
    const { requested } = this.lane;
    const own = this.flow ? requested.flows?.[this.flow] : requested;
    const texts = own ? form.meet(own) : [];
    this.#edits();
    if (since && form.edits.length && texts.length) this.#say(texts, since).catch(sayFailure);
  }

  // Names and marks what has been edited, but not applied.
  #edits() {
    const { edits } = this.form;
    this.form.mark();
    this.rebase.hidden = !this.form.both.size;
    this.edited.classList.toggle('unseen', !edits.length); // it keeps its room: a shift would end the drag of a slider
    if (!edits.length) {
      this.others.textContent = '';
      return;
    }
    const names = [...new Set(edits.map((name) => this.form.words(name)))];
    const said = `${names.length} ${names.length === 1 ? 'change' : 'changes'} not applied yet: ${names.join(', ')}.`;
    if (this.edited.dataset.said === said) return;
    this.edited.dataset.said = said;
    this.edited.replaceChildren(el('span', { class: 'hint', title: said }, said),
      el('button', { type: 'button', class: 'quiet', onclick: () => this.#discard() }, 'Discard'));
  }

  #discard() {
    this.forms.delete(`${this.lane.name}/${this.flow}`);
    this.#build();
    this.#fill();
    $('preview').focus(); // a field would be left alone while somebody stands in it
  }

  // Names who changed the lane under somebody's edits, and what. `since` is the entity tag of what the edits are about.
  async #say(others, since) {
    const { form, lane } = this;
    const mine = (this.saying += 1);
    const entries = can.has('history') ? (await ask('GET', '/api/history')).entries : [];
    const known = entries.findIndex((entry) => entry.etag === since);
    const newer = (known < 0 ? entries : entries.slice(0, known)).filter((entry) => entry.lanes.includes(lane.name));
    newer.reverse();
    const who = [...new Set(newer.map(({ author }) => `${author.user} (${author.command})`))].join(' and ') || 'Somebody else';
    if (form !== this.form || mine !== this.saying || !form.edits.length) return;
    form.other = [...new Set(newer.map(({ author }) => author.user))].join(' and ') || 'somebody else';
    form.mark();
    this.others.textContent = `${who} changed this lane meanwhile: ${others.join(', ')}. Your edits are kept.`;
  }

  // What somebody else asked for is what our edits are about from now on.
  async #rebase() {
    this.form.both.clear();
    this.others.textContent = '';
    this.wrong.textContent = '';
    this.#edits();
    $('preview').focus();
    await this.refresh().catch(sayFailure);
  }

  // Whether somebody else has changed what we have edited, and nobody has said yet what holds.
  #clash() {
    const { both, other } = this.form;
    if (!both.size) return false;
    this.wrong.textContent = `${other} has changed ${[...both.keys()].map((name) => this.form.words(name)).join(', ')}, too: reload and keep your edits, or discard them.`;
    this.rebase.firstChild.focus();
    return true;
  }

  // Presets: as far as some place is from the hub.
  #places() {
    if (!(this.hub in PLACES) || !mayWrite) return '';
    const { form } = this;
    const select = el('select', {}, el('option', { value: '' }, 'as far as …'));
    around(this.hub)
      .then((places) => select.append(...places.map((one) => el('option', { value: `${one.rtt_ns / 1e6}ms`, title: one.source }, `${one.name}, ${ms(one.rtt_ns)}`))))
      .catch(sayFailure);
    select.addEventListener('change', () => {
      if (!select.value) return;
      form.rtt.text = select.value;
      form.spread();
    });
    return el('label', { class: 'hint' }, 'Preset ', select);
  }

  #buttons() {
    const preview = el('button', { class: 'quiet', id: 'preview' }, 'Preview');
    const apply = el('button', { id: 'apply' }, 'Apply');
    preview.addEventListener('click', () => this.#preview());
    apply.addEventListener('click', () => this.#apply());
    this.confirm = el('input', { type: 'checkbox' });
    const row = el('div', { class: 'row' }, preview, apply);
    if (can.has('confirm')) row.append(el('label', { class: 'check' }, this.confirm, 'revert after 60 s unless confirmed'));
    return row;
  }

  #undo() {
    const row = el('div', { class: 'row' });
    if (can.has('undo')) row.append(this.#undoButton());
    if (this.lane) row.append(el('button', { type: 'button', class: 'quiet', id: 'add-flow', onclick: () => this.editFlow(this.lane, '', (name) => { this.flow = name; }) }, 'Add a flow'));
    if (this.lane) row.append(el('button', { type: 'button', class: 'quiet danger', onclick: () => this.remove(this.lane.name) }, 'Remove this lane'));
    return row;
  }

  #undoButton() {
    const undo = el('button', { class: 'quiet' }, 'Undo the last change');
    undo.addEventListener('click', async () => {
      try {
        await this.changed(await ask('POST', '/api/undo'));
      } catch (problem) {
        sayFailure(problem);
      }
    });
    return undo;
  }

  // Sends the edits, unless a field says why it cannot be; then returns nothing.
  async #send(query) {
    this.wrong.textContent = '';
    if (this.form.refuse() || this.#clash()) return null;
    const path = `/api/lanes/${encodeURIComponent(this.lane.name)}${query}`;
    const patch = this.flow ? { flows: { [this.flow]: this.form.patch } } : this.form.patch;
    return ask('PATCH', path, patch, 'application/json', { 'If-Match': this.etag });
  }

  // A plan that is about something else than the panel shows by now would mislead: it is not shown.
  async #preview() {
    const { form } = this;
    const patch = JSON.stringify(form.patch);
    let plan;
    try {
      plan = await this.#send('?dry_run=1');
    } catch (problem) {
      this.#tell(form, problem);
    }
    if (!plan || form !== this.form || patch !== JSON.stringify(form.patch)) return;
    const words = plan.changed ? form.sentences(form.edits, form.first, form.said) : [];
    showPlan({ words, plan, act: () => this.#apply() });
  }

  // Meanwhile somebody may type on or choose another lane: what is said and settled is what was sent. Pressed again
  // meanwhile, nothing is sent: what was typed since is named as not applied yet.
  async #apply() {
    if (this.applying) return;
    const { form } = this;
    const sent = form.said;
    const whose = `${this.flow ? `Flow ${this.flow} of ` : ''}${this.lane.name}`;
    this.applying = true;
    try {
      const done = await this.#send(this.confirm?.checked ? '?confirm=60s' : '');
      if (!done) return;
      form.settle(sent);
      await this.changed(done, `${whose} is at ${sent.rtt ?? ms(0)}. ${done.summary}`);
    } catch (problem) {
      this.#tell(form, problem);
    } finally {
      this.applying = false;
    }
  }

  // What was wrong, each at its field; of a form that was left, beside the page.
  #tell(form, problem) {
    if (form !== this.form) {
      sayFailure(problem);
      return;
    }
    const mistakes = (problem.mistakes ?? []).map(({ path, text }) => ({ path: path.split('.').slice(this.flow ? 4 : 2), text }));
    const left = this.form.tell(mistakes);
    if (!mistakes.length) left.push(problem.message);
    this.wrong.textContent = left.join(' ');
    if (problem.status === 412) this.refresh().catch(sayFailure); // who it was, and what, is told then
  }
}
