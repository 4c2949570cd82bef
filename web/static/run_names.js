// The names of runs: how a run is called, which runs a search finds, and the fields in which a run is chosen.

import { $, el } from './api.js';

let all = { runs: [], names: {} };

// The name with the id beside it; only the id where a run has no name.
export const titled = (id, name = all.names[id]) => (name ? `${name} (${id})` : id);
const nameOf = (id) => all.names[id] ?? '';

// Every word is in the name or in the id, in any case.
const found = (id) => $('search').value.toLowerCase().split(/\s+/).every((word) => `${all.names[id] ?? ''} ${id}`.toLowerCase().includes(word));

let [run, other] = ['', ''];

// Takes the daemon's answer about all runs; `wanted` is the run to compare with, or what is chosen stays.
export function keep(answer, wanted) {
  all = answer;
  other = wanted || other;
  fill();
}

export function beside(id) {
  other = id;
}

export function choose(id) {
  run = id;
  fill();
}

export const has = (id) => all.runs.includes(id);

export function remove(id) {
  all.runs = all.runs.filter((one) => one !== id);
  fill();
}

// A run has this name now; tells whether that is new.
export function renamed(id, name) {
  if (!has(id) || nameOf(id) === name) return false;
  if (name) all.names[id] = name;
  else delete all.names[id];
  fill();
  return true;
}

// Fills both fields with the runs that the search finds; what is chosen stays, whatever the search says.
export function fill() {
  const options = (chosen) => all.runs.filter((id) => found(id) || id === chosen).map((id) => el('option', { value: id }, titled(id)));
  other = all.runs.includes(other) ? other : '';
  $('run').replaceChildren(...options(run));
  $('other').replaceChildren(el('option', { value: '' }, '–'), ...options(other));
  $('run').value = run;
  $('other').value = other;
  $('matches').textContent = $('search').value.trim() ? `${all.runs.filter(found).length} of ${all.runs.length} runs found.` : '';
}
