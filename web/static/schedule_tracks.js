// The tracks of a schedule: of each its charts, and beside them the table of its keys, in which everything can be typed.

import { $, el } from './api.js';
import { StripChart } from './schedule_chart.js';
import { timeText, valueText } from './schedule_values.js';

export const WORDS = { rtt: 'RTT', down: 'Down' };
const DIRECTIONS = { both: 'both directions', outbound: 'outbound (hub to site)', inbound: 'inbound (site to hub)' };
const NO_TIME = new Set(['at', 'ramp']);
const lanesOf = (track) => (track.lanes === 'all' ? 'all lanes' : [track.lanes].flat().join(', '));

export const settingsOf = (track) => [...new Set((track.keys ?? []).flatMap((key) => Object.keys(key)))].filter((name) => !NO_TIME.has(name));
export const named = (track) => `${lanesOf(track)}${track.direction === 'both' ? '' : ` ${track.direction}`}`;

// The keys of a track that say something of a setting: the handles of its chart, in their order.
const keysOf = (track, setting) => track.keys.filter((key) => key[setting]);

// A draft as it is sent: a field that is empty says nothing.
export const cleaned = (tracks) => tracks.map((track) => (track.keys
  ? { ...track, keys: track.keys.map((key) => Object.fromEntries(Object.entries(key).filter(([, value]) => value))) } : track));

export class Tracks {
  // `page`: labels of settings, the lanes; changed(built), called after an edit; `built`: the tables must be made again.
  constructor(root, page) {
    Object.assign(this, { root, page, charts: [], picked: null, drawing: null, view: null, locked: false });
  }

  // Makes everything again. `traces`: by track, the settings of those that play a trace.
  build(draft, locked) {
    Object.assign(this, { draft, locked, charts: [] });
    this.root.replaceChildren(...draft.tracks.map((track, number) => this.#card(track, number)));
    this.draw();
  }

  // What the daemon drew; null while there are mistakes: then the last drawing stays, and is marked.
  shown(drawing, tracks) {
    if (drawing) Object.assign(this, { drawing, drawn: tracks });
    this.root.classList.toggle('stale', !drawing);
    const settings = this.charts.map(({ setting }) => setting).join();
    const needed = this.draft.tracks.flatMap((track, number) => this.#settings(track, number)).join();
    if (settings !== needed) this.build(this.draft, this.locked);
    else this.draw();
  }

  draw() {
    for (const { chart, track, setting } of this.charts) {
      const number = this.drawn?.indexOf(track) ?? -1;
      const curve = number < 0 ? null : this.drawing.curves.find((one) => one.track === number && one.key === setting) ?? null;
      const keys = track.keys ? keysOf(track, setting) : [];
      const editable = Boolean(curve) && !this.locked && track.keys && curve.handles.length === keys.length;
      chart.show(curve, this.view, keys.indexOf(this.picked), editable);
    }
  }

  play(ns) {
    this.charts.forEach(({ chart }) => chart.play(ns));
  }

  #settings(track, number) {
    if (track.keys) return settingsOf(track);
    const drawn = this.drawn?.indexOf(track) ?? -1;
    return drawn < 0 ? [] : this.drawing.curves.filter((one) => one.track === drawn).map((one) => one.key);
  }

  #card(track, number) {
    const settings = this.#settings(track, number);
    const strips = settings.map((setting) => this.#strip(track, setting));
    const name = `track-${number}`;
    const head = el('div', { class: 'row' }, el('h3', { id: name }, `${number + 1}. ${named(track)}`), this.#lanes(track, number), this.#direction(track, number),
      el('button', { type: 'button', class: 'quiet danger', disabled: this.locked, onclick: () => this.#removeTrack(track) }, 'Remove the track'));
    const beside = track.keys ? this.#table(track, number, settings) : this.#trace(track, number);
    return el('section', { class: 'track', 'aria-labelledby': name }, head,
      el('div', { class: 'track-body' }, el('div', { class: 'strips' }, ...strips), beside));
  }

  #strip(track, setting) {
    const label = `${named(track)} ${this.page.label(setting)}`;
    const chart = new StripChart(label, {
      add: (ns, value) => this.#add(track, setting, ns, this.#textOf(track, setting, value)),
      move: (i, ns, value) => this.#move(track, setting, i, ns, value),
      remove: (i) => this.#remove(track, keysOf(track, setting)[i], setting),
      pick: (i, enter) => this.pick(keysOf(track, setting)[i], enter),
    });
    const now = el('span', { class: 'now' });
    this.charts.push({ chart, track, setting, now });
    return el('figure', { class: 'strip-of' }, el('figcaption', {}, el('strong', {}, this.page.label(setting)), now), chart.root);
  }

  #textOf(track, setting, value) {
    const { curve } = this.charts.find((one) => one.track === track && one.setting === setting).chart;
    return valueText(curve.unit, value);
  }

  #lanes(track, number) {
    const chosen = track.lanes === 'all' ? [] : [track.lanes].flat();
    const options = [['all', 'all lanes'], ...this.page.lanes().map((name) => [name, name])];
    if (chosen.length > 1) options.push([chosen.join(), chosen.join(', ')]);
    const value = chosen.length ? chosen.join() : 'all';
    if (!options.some(([one]) => one === value)) options.push([value, value]);
    const select = choice(`tracks.${number}.lanes`, options, value, this.locked, () => {
      track.lanes = select.value === 'all' ? 'all' : select.value.split(',');
      this.page.changed(true);
    });
    return el('label', { class: 'small' }, 'Lanes', select);
  }

  #direction(track, number) {
    const select = choice(`tracks.${number}.direction`, Object.entries(DIRECTIONS), track.direction, this.locked, () => {
      track.direction = select.value;
      this.page.changed(true);
    });
    return el('label', { class: 'small' }, 'Direction', select);
  }

  #trace(track, number) {
    const drawn = this.drawn?.indexOf(track) ?? -1;
    const keys = this.drawing?.curves.find((one) => one.track === drawn)?.keys;
    const name = track.trace.startsWith('up:') ? 'a trace' : track.trace;
    return el('div', { class: 'keys' }, el('p', {}, 'Plays ', el('strong', {}, name), keys ? `: ${keys} keys.` : '.'),
      el('p', { class: 'hint' }, 'A trace is played as it is: its keys are not edited here.'),
      el('input', { type: 'hidden', id: `f-tracks.${number}.trace`, name: `tracks.${number}.trace`, value: track.trace }));
  }

  #table(track, number, settings) {
    const heads = ['Time', ...settings.map((one) => this.page.label(one)), 'Ramp', ''];
    const rows = track.keys.map((key, i) => this.#row(track, number, key, i, settings));
    const more = this.page.settings(track.direction).filter((one) => !settings.includes(one));
    const add = choice('', [['', 'another setting …'], ...more.map((one) => [one, this.page.label(one)])], '', this.locked, () => this.#setting(track, add.value));
    add.setAttribute('aria-label', `Add a setting to ${named(track)}`);
    return el('div', { class: 'keys' }, el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': `Keys of ${named(track)}` },
      el('table', {}, el('thead', {}, el('tr', {}, ...heads.map((text, i) => (text ? el('th', { scope: 'col', class: i === heads.length - 2 ? '' : 'text' }, text) : el('td', {}))))), el('tbody', {}, ...rows))),
    el('div', { class: 'row' }, el('button', { type: 'button', class: 'quiet', disabled: this.locked, onclick: () => this.#append(track, settings) }, 'Add a key'), add));
  }

  #row(track, number, key, i, settings) {
    const base = `tracks.${number}.keys.${i}`;
    const typed = (name, label) => {
      const input = el('input', { id: `f-${base}.${name}`, name: `${base}.${name}`, value: key[name] ?? '', autocomplete: 'off', disabled: this.locked, 'aria-label': `${label}, key ${i + 1} of ${named(track)}` });
      input.addEventListener('input', () => {
        key[name] = input.value.trim();
        this.page.changed(false);
      });
      input.addEventListener('focus', () => this.pick(key, false));
      return el('td', { class: 'text' }, input);
    };
    const down = () => {
      const select = choice(`${base}.down`, [['', '–'], ['yes', 'yes'], ['no', 'no']], key.down ?? '', this.locked, () => {
        key.down = select.value;
        this.page.changed(false);
      });
      select.setAttribute('aria-label', `Down, key ${i + 1} of ${named(track)}`);
      return el('td', { class: 'text' }, select);
    };
    const ramp = el('input', { type: 'checkbox', id: `f-${base}.ramp`, name: `${base}.ramp`, checked: key.ramp === 'yes', disabled: this.locked, 'aria-label': `Ramp to key ${i + 1} of ${named(track)}` });
    ramp.addEventListener('change', () => {
      if (ramp.checked) key.ramp = 'yes';
      else delete key.ramp;
      this.page.changed(false);
    });
    const remove = el('button', { type: 'button', class: 'quiet bare', disabled: this.locked, 'aria-label': `Remove key ${i + 1} of ${named(track)}`, onclick: () => this.#remove(track, key) }, '✕');
    const row = el('tr', {}, typed('at', 'Time'), ...settings.map((one) => (one === 'down' ? down() : typed(one, this.page.label(one)))), el('td', {}, ramp), el('td', {}, remove));
    row.dataset.key = `${number}.${i}`;
    return row;
  }

  // Marks a key in the charts and in the table; with `enter` its row has the focus.
  pick(key, enter) {
    this.picked = key;
    this.draft.tracks.forEach((track, number) => track.keys?.forEach((one, i) => {
      const row = this.root.querySelector(`tr[data-key="${number}.${i}"]`);
      row?.classList.toggle('picked', one === key);
      if (one === key && enter) row?.querySelector('input')?.focus();
    }));
    this.draw();
  }

  #add(track, setting, ns, text) {
    const at = this.#times(track);
    const there = at.indexOf(ns);
    const key = there >= 0 ? track.keys[there] : { at: timeText(ns) };
    key[setting] = text;
    if (there < 0) track.keys.splice(at.filter((one) => one < ns).length, 0, key);
    this.picked = key;
    this.page.changed(true);
  }

  // The times of the keys as the daemon read them.
  #times(track) {
    const number = this.drawn.indexOf(track);
    const found = new Map();
    for (const curve of this.drawing.curves.filter((one) => one.track === number)) {
      keysOf(track, curve.key).forEach((key, i) => found.set(key, curve.handles[i]?.at_ns));
    }
    return track.keys.map((key) => found.get(key));
  }

  // A key stays between its neighbours.
  #move(track, setting, i, ns, value) {
    const key = keysOf(track, setting)[i];
    const times = this.#times(track);
    const place = track.keys.indexOf(key);
    if (ns !== undefined) {
      const loop = this.drawing.loop_ns ?? Infinity;
      const [low, high] = [place ? times[place - 1] + 1e6 : 0, Math.min((times[place + 1] ?? Infinity), loop) - 1e6];
      key.at = timeText(Math.min(high, Math.max(low, ns)));
    }
    if (value !== undefined) key[setting] = this.#textOf(track, setting, value);
    this.#values(key);
    this.page.changed(false, true);
  }

  #values(key) {
    this.draft.tracks.forEach((track, number) => track.keys?.forEach((one, i) => {
      if (one !== key) return;
      for (const name of Object.keys(key)) {
        const field = $(`f-tracks.${number}.keys.${i}.${name}`);
        if (field && field.type !== 'checkbox') field.value = key[name];
      }
    }));
  }

  // Removes a key, or of a key with several settings one of them. The last key takes the track with it.
  #remove(track, key, setting) {
    const place = track.keys.indexOf(key);
    if (setting && Object.keys(key).filter((name) => !NO_TIME.has(name)).length > 1) delete key[setting];
    else track.keys = track.keys.filter((one) => one !== key);
    if (!track.keys.length) {
      this.#removeTrack(track);
      return;
    }
    this.picked = null;
    this.page.changed(true);
    this.pick(track.keys[Math.min(place, track.keys.length - 1)], true);
  }

  #removeTrack(track) {
    this.draft.tracks = this.draft.tracks.filter((one) => one !== track);
    this.page.changed(true);
    $('add-track').focus();
  }

  // A new key as the last, a round step later, with the values of the one before.
  #append(track, settings) {
    const last = track.keys.at(-1);
    const time = this.drawn?.includes(track) ? this.#times(track).at(-1) : undefined;
    const key = { ...last, at: time === undefined ? '' : timeText(time + (this.view.step ?? 1e10)) };
    delete key.ramp;
    if (!key.at) delete key.at;
    track.keys.push(key);
    this.picked = key;
    this.page.changed(true);
    this.pick(key, true);
  }

  #setting(track, setting) {
    if (!setting) return;
    track.keys[0][setting] = this.page.first(track, setting);
    this.page.changed(true);
  }
}

export function choice(name, options, value, disabled, changed) {
  const select = el('select', name ? { id: `f-${name}`, name } : {}, ...options.map(([one, text]) => el('option', { value: one }, text)));
  Object.assign(select, { value, disabled });
  select.addEventListener('change', changed);
  return select;
}
