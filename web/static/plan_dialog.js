// The dialog that shows what a change does, in words and as commands, before somebody applies it.

import { $, ask, can, el, lock, onClick } from './api.js';
import { commandsOf } from './steps.js';

const MOVED = 'The lanes have changed meanwhile: this is the plan from there.';
let apply = () => {};
onClick('plan-close', () => $('plan').close());
onClick('plan-apply', async () => {
  $('plan').close();
  await apply();
});

// Shows `plan`, an answer of the API, with the sentences of `words`; `more` are elements below its commands. Who presses
// the button runs `act`. `waits` is the checkbox that makes the change wait for confirmation, for callers that have none
// of their own.
export function showPlan({ title = 'What the change does', words, plan, label = 'Apply', danger = false, waits = null, note = '', more = [], act }) {
  apply = act;
  $('plan-title').textContent = title;
  $('plan-note').textContent = note;
  $('plan-words').replaceChildren(...words.map((text) => el('li', {}, text)));
  $('plan-steps').textContent = commandsOf(plan.steps) || (plan.changed ? 'No step is needed in the kernel now.' : 'Nothing to change.');
  $('plan-more').replaceChildren(...more);
  $('plan-warnings').textContent = plan.warnings.join('\n');
  $('plan-waits').replaceChildren(...(waits ? [waits] : []));
  $('plan-apply').textContent = label;
  $('plan-apply').className = danger ? 'quiet danger' : '';
  $('plan-apply').hidden = !plan.changed;
  lock();
  if (!$('plan').open) $('plan').showModal();
}

// The checkbox with which a change waits for confirmation, in its label; null where a change cannot wait.
export const confirmBox = () => (can.has('confirm') ? el('label', { class: 'check' }, el('input', { type: 'checkbox' }), 'revert after 60 s unless confirmed') : null);

const confirms = (label) => (label?.querySelector('input').checked ? { confirm: '60s' } : {});

// A change that is applied as its plan was shown. Where the lanes have changed since, the plan from there is shown.
export class PlannedChange {
  // `request` is {method, path, body, query}, or a function that makes it of what the fields say, null where they say nothing that
  // can be; `shown` makes of a plan the arguments of showPlan. `page` has the status and `refresh`;
  // `waits` is a confirmBox; `failed` is called with every problem, and `done` with the answer.
  constructor({ request, shown, page, waits, failed, done }) {
    Object.assign(this, { request, shown, page, waits, failed, done });
  }

  async preview(note = '') {
    const { etag } = this.page.status;
    try {
      const plan = await this.#ask({ dry_run: '1' }, etag);
      if (plan) showPlan({ ...this.shown(plan), plan, note, act: () => this.apply(etag) });
    } catch (problem) {
      if (problem.status !== 412 || note) this.failed(problem);
      else await this.#again();
    }
  }

  async apply(etag = this.page.status.etag) {
    let answer;
    try {
      answer = await this.#ask(confirms(this.waits), etag);
    } catch (problem) {
      if (problem.status !== 412) this.failed(problem);
      else await this.#again();
      return;
    }
    if (answer) await this.done(answer);
  }

  async #again() {
    await this.page.refresh();
    await this.preview(MOVED);
  }

  #ask(how, etag) {
    const request = typeof this.request === 'function' ? this.request() : this.request;
    if (!request) return null;
    const { method, path, body, query } = request;
    const said = new URLSearchParams({ ...query, ...how }).toString();
    return ask(method, said ? `${path}?${said}` : path, body, 'application/json', { 'If-Match': etag });
  }
}
