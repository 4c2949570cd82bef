// The lanes as a table: a switch, the state, what is asked and measured, the last minute. Above it, one switch for all.

import { $, ask, el, setText } from './api.js';
import { changedBy, stateOf } from './lane_state.js';
import { Spark } from './spark.js';
import { drops, exactly, mbit, ms } from './units.js';

const COLUMNS = {
  state: 'State', asked: 'RTT asked', measured: 'measured', minute: 'last minute', loss: 'Loss', jitter: 'Jitter', rate: 'Rate',
  traffic: 'Mbit/s', drops: 'Drops',
};

// What is asked of both directions: one text, or "outbound / inbound" where they differ.
function both(lane, key) {
  const [out, back] = ['outbound', 'inbound'].map((side) => {
    const text = lane.settings[side]?.[key];
    return text === undefined || /^0[a-z%]*$/.test(text) ? '–' : String(text);
  });
  return out === back ? out : `${out} / ${back}`;
}

// A button that is on or off; what it does belongs to whoever asked for it.
export function switchButton(attributes) {
  return el('button', { type: 'button', role: 'switch', class: 'switch', 'aria-checked': 'true', 'data-changes': '', ...attributes });
}

export class LaneTable {
  // `pick` is called with the name of a lane that somebody chooses, `remove` with that of one that is to go, `turn` with
  // names and whether they go off.
  constructor(table, { pick, remove, turn }) {
    Object.assign(this, { table, pick, remove, turn, rows: new Map() });
    const heads = Object.entries(COLUMNS).map(([of, text]) => el('th', { scope: 'col', 'data-of': of }, text));
    table.tHead.replaceChildren(el('tr', {}, el('th', { scope: 'col', 'data-of': 'switch' }, 'Latency'), el('th', { scope: 'col', class: 'text' }, 'Lane'), ...heads,
      el('td', { 'data-of': 'remove' })));
    this.all = switchButton({ id: 'all-switch', 'aria-label': 'Latency of all lanes', onclick: () => this.turn([...this.rows.keys()], this.all.ariaChecked === 'true') });
    this.said = el('span', { id: 'all-said' }, '');
    $('all').replaceChildren(el('span', { 'aria-hidden': 'true' }, 'Latency'), this.all, this.said);
  }

  // The rows of these lanes; what the last minute was is kept, and loaded for new ones.
  async show(status) {
    const names = status.lanes.map((lane) => lane.name);
    if (JSON.stringify(names) === JSON.stringify([...this.rows.keys()])) return;
    this.rows = new Map(names.map((name) => [name, this.rows.get(name) ?? this.#row(name)]));
    this.table.tBodies[0].replaceChildren(...[...this.rows.values()].map((row) => row.root));
    await this.load();
  }

  // Loads what has been measured in the last minute; looks that come meanwhile follow it.
  async load() {
    const missed = [];
    this.missed = missed;
    let past;
    try {
      past = await ask('GET', '/api/past?seconds=60');
    } finally {
      if (this.missed === missed) this.missed = null;
      else past = null; // it was asked for again since
    }
    if (!past) return;
    for (const [name, row] of this.rows) if (past.lanes[name]) row.spark.past = past.lanes[name];
    missed.filter((look) => !(look.at_ms <= past.at_ms.at(-1))).forEach((look) => this.tick(look));
  }

  #row(name) {
    const row = { spark: new Spark(), cells: {} };
    row.turn = switchButton({ 'aria-label': `Latency of ${name}`, onclick: () => this.turn([name], row.turn.ariaChecked === 'true') });
    row.root = el('tr', { 'data-lane': name }, el('td', { 'data-of': 'switch' }, row.turn),
      el('th', { scope: 'row' }, el('button', { type: 'button', class: 'name', onclick: () => this.pick(name) }, name), row.changed = el('span', { class: 'changed-by' })));
    for (const [of, label] of Object.entries(COLUMNS)) {
      row.cells[of] = el('td', { 'data-of': of, 'data-label': label }, of === 'minute' ? row.spark.root : '–');
      row.root.append(row.cells[of]);
    }
    const remove = el('button', { type: 'button', class: 'quiet danger', 'data-changes': '', title: `Remove ${name}`, 'aria-label': `Remove ${name}`, onclick: () => this.remove(name) }, '×');
    row.root.append(el('td', { 'data-of': 'remove' }, remove));
    row.pill = el('span', { class: 'pill' });
    row.cells.state.replaceChildren(row.pill);
    return row;
  }

  choose(name) {
    for (const [of, row] of this.rows) row.root.classList.toggle('chosen', of === name);
  }

  // What is asked now, and in which state the lanes are; `look` is the daemon's last one.
  fill(status, look) {
    for (const lane of status.lanes) {
      const row = this.rows.get(lane.name);
      const change = lane.changed;
      if (row) by(row.changed, change);
      if (row) this.#fill(row, lane, stateOf(lane, status, look), look?.lanes[lane.name]);
    }
    const off = status.lanes.filter((lane) => lane.off).length;
    const count = status.lanes.length;
    this.all.ariaChecked = String(off < count);
    setText(this.said, off === 0 ? 'on' : off === count ? 'off' : `on for ${count - off} of ${count} lanes`);
  }

  #fill(row, lane, [word, why], now) {
    row.turn.ariaChecked = String(!lane.off);
    if (row.pill.textContent !== word) row.pill.className = `pill ${word}`;
    setText(row.pill, word);
    if (row.pill.title !== why) row.pill.title = why;
    const { cells } = row;
    setText(cells.asked, lane.off ? `off\n${exactly(lane.rtt_ns)} kept` : exactly(lane.asked_ns));
    for (const key of ['loss', 'jitter', 'rate']) {
      setText(cells[key], both(lane, key));
      cells[key].classList.toggle('none', cells[key].textContent === '–');
      if (cells[key].title !== cells[key].textContent) cells[key].title = cells[key].textContent;
    }
    for (const key of ['loss', 'jitter']) cells[key].classList.toggle('idle', lane.off && cells[key].textContent !== '–');
    if (!now) return;
    setText(cells.measured, ms(now.median_ns));
    setText(cells.traffic, `↑ ${mbit(now.outbound.rate_bps)}\n↓ ${mbit(now.inbound.rate_bps)}`);
    setText(cells.drops, drops(now));
  }

  // A second has gone by.
  tick(look) {
    this.missed?.push(look);
    for (const [name, row] of this.rows) row.spark.add(look.lanes[name]?.asked_ns ?? null, look.lanes[name]?.median_ns ?? null);
  }
}

// Who changed a lane last. Where the table is narrow, the first word is for screen readers only.
function by(cell, change) {
  const text = changedBy(change);
  if (cell.textContent === text) return;
  cell.replaceChildren(...(text ? [el('span', { class: 'word' }, 'changed '), text.replace('changed ', '')] : []));
  if (change) cell.title = `${change.summary}, by ${change.author.user} (${change.author.command})`;
}
