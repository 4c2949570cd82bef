// Traces: files that the daemon checks and keeps, and that a track plays.

import { $, ask, el, onClick, say } from './api.js';
import { clock } from './schedule_values.js';

const PART = 128 * 1024;

export class TracePicker {
  // `add`: called with the name of a trace that is to be played.
  constructor(add) {
    this.add = add;
    $('trace-file').addEventListener('change', () => this.#import().catch((problem) => this.#wrong(problem)));
    onClick('add-trace', () => this.add($('trace').value));
    onClick('drop-trace', async () => {
      await ask('DELETE', `/api/traces/${encodeURIComponent($('trace').value)}`);
      await this.load();
    });
  }

  async load(chosen = $('trace').value) {
    const { traces } = await ask('GET', '/api/traces');
    const what = (one) => (one.trouble ? 'cannot be played' : `${one.settings.join(', ')} for ${clock(one.loop_ns ?? one.last_ns)}`);
    $('trace').replaceChildren(...traces.map((one) => el('option', { value: one.name }, `${one.name}: ${what(one)}`)));
    if (traces.some((one) => one.name === chosen)) $('trace').value = chosen;
    $('traces').hidden = !traces.length;
  }

  #wrong(problem) {
    $('trace-wrong').textContent = (problem.mistakes ?? []).map((one) => one.text).join(' ') || problem.message;
    $('trace-file').setAttribute('aria-invalid', 'true');
  }

  // The file goes in parts, as large as the daemon takes; it is checked when the last one has come.
  async #import() {
    const [file] = $('trace-file').files;
    if (!file) return;
    $('trace-wrong').textContent = '';
    $('trace-file').removeAttribute('aria-invalid');
    const name = file.name.replace(/[^A-Za-z0-9._-]+/g, '-').replace(/^[^A-Za-z0-9]+/, '').slice(-64);
    let offset = 0;
    let found = null;
    try {
      do {
        const path = `/api/traces?name=${encodeURIComponent(name)}&offset=${offset}&total=${file.size}`;
        const answer = await ask('POST', path, file.slice(offset, offset + PART), 'application/octet-stream');
        [offset, found] = [answer.received, answer.trace];
      } while (offset < file.size);
    } finally {
      $('trace-file').value = '';
    }
    await this.load(name);
    say(`${found.name}: ${found.keys} keys. It is in the schedule's draft: preview or apply it.`);
    this.add(name);
  }
}
