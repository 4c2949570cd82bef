// The gallery of presets: shipped topologies that fill the form of a new run.

import { $, el } from './api.js';
import { fillProgram, showKind } from './program.js';

const KINDS = { streams: 'Streams of TCP', program: 'Programs', requests: 'Requests and answers', flows: 'Groups of flows' };
const list = (value, between) => (Array.isArray(value) ? value.join(between) : value ?? '');

function fill({ kind, axes, workload }) {
  document.querySelector(`input[name=kind][value=${kind}]`).checked = true;
  showKind();
  if (kind === 'program') fillProgram(workload);
  $('workload.against').value = list(workload.against, '\n');
  $('workload.pairs').value = list(workload.pairs, ', ');
  for (const one of document.querySelectorAll('#requests input')) one.value = list(workload.requests?.[one.name.replace('workload.requests.', '')], ', ');
  // What a preset does not name keeps its usual value, not that of another run.
  for (const one of document.querySelectorAll('#axes input, #more-axes input')) one.value = axes[one.name] ?? '';
}

// Builds the choice; `changed` is called when a preset has filled the form.
export function buildPresets(presets, changed) {
  const groups = Object.entries(KINDS).map(([kind, label]) => [label, presets.filter((one) => one.kind === kind)]).filter(([, found]) => found.length);
  $('preset').replaceChildren(el('option', { value: '' }, 'none: type the settings'),
    ...groups.map(([label, found]) => el('optgroup', { label }, ...found.map(({ name }) => el('option', { value: name }, name)))));
  $('preset-field').hidden = !presets.length;
  $('preset').addEventListener('change', (event) => {
    const chosen = presets.find(({ name }) => name === event.target.value);
    if (!chosen) return;
    fill(chosen);
    changed();
  });
}
