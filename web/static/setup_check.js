// The last step of a new appliance: what was brought up is kept or reverted, verified, and certified.

import { $, ask, el, mayWrite, onClick, sayFailure } from './api.js';
import { ms } from './units.js';

export class Checking {
  constructor(hub) {
    this.hub = hub;
    this.pending = false; // whether the change waits for confirmation
    this.name = null;
    this.version = 0;
    onClick('keep', async () => {
      await ask('POST', '/api/confirm');
      this.#kept();
      $('verify').focus();
    });
    onClick('take-back', async () => {
      await ask('POST', '/api/revert');
      this.#waits(null);
    });
    onClick('verify', () => this.#verify());
  }

  // `name` is what was brought up.
  async show(name) {
    if (name !== this.name) {
      this.name = name;
      for (const id of ['certificate', 'progress', 'pairs-verified']) $(id).hidden = true;
      $('verify-said').textContent = '';
    }
    const status = await ask('GET', '/api/status');
    this.#waits(status.pending?.seconds_left ?? null);
    await this.#measurable();
  }

  // What was brought up is not up any more.
  leave() {
    this.name = null;
    this.#waits(null);
  }

  look(seen) {
    if (this.name !== null && !seen.leased) this.#waits(seen.seconds_left ?? null);
  }

  #waits(seconds) {
    this.pending = seconds !== null;
    $('keeping').hidden = !this.pending || !mayWrite;
    $('verify').hidden = this.pending || this.blind === true;
    const said = this.pending ? `${this.name} is up. Longhaul reverts it in ${Math.max(0, Math.round(seconds))} s unless you keep it.` : `${this.name} is up and stays.`;
    if (this.name !== null && $('up-said').textContent !== said) $('up-said').textContent = said;
  }

  #kept() {
    this.#waits(null);
  }

  // Without hosts behind the ports nothing here can send an echo.
  async #measurable() {
    const { pairs } = await ask('GET', '/api/matrix');
    const why = pairs.find((pair) => pair.unmeasurable)?.unmeasurable ?? '';
    this.blind = pairs.every((pair) => pair.unmeasurable);
    $('blind').replaceChildren();
    if (this.blind) {
      const back = el('a', { href: '#places' }, 'name the machines behind the ports');
      $('blind').replaceChildren('Longhaul knows no machine behind the ports that could send an echo, so it cannot verify the lanes itself. Ping through the lane from a machine of yours, or ', back, ' and bring it up again.');
    } else if (why) {
      $('blind').textContent = `Not all pairs can be verified: ${why}.`;
    }
    $('verify').hidden = this.pending || this.blind;
  }

  async #verify() {
    $('certificate').hidden = true;
    this.follow(await ask('POST', '/api/verification'));
  }

  // A verification as it goes on; an event has only the pairs that are new.
  follow(verification) {
    if ($('step-check').hidden || verification.version <= this.version) return;
    this.version = verification.version;
    const { state, finished, total } = verification;
    if (state === 'running' && !finished) $('verified').tBodies[0].replaceChildren();
    for (const pair of verification.pairs) this.#row(pair, pair.passed, ms(pair.median_ns, 3), `± ${ms(pair.allowed_ns, 3)}`, pair.passed ? 'as asked' : 'not as asked');
    for (const pair of verification.unanswered) this.#row(pair, false, '–', '–', pair.why);
    $('progress').hidden = state !== 'running';
    $('progress').max = total;
    $('progress').value = finished;
    if (state === 'running') $('verify-said').textContent = `${finished} of ${total} pairs are measured.`;
    else this.#ended(verification).catch(sayFailure);
  }

  #row(pair, passed, median, allowed, verdict) {
    $('pairs-verified').hidden = false;
    $('verified').tBodies[0].append(el('tr', {}, el('th', { scope: 'row' }, `${pair.one} – ${pair.other}`), el('td', {}, ms(pair.asked_ns, 3)), el('td', {}, median),
      el('td', {}, allowed), el('td', { class: `text ${passed ? 'ok' : 'failed'}` }, verdict)));
  }

  async #ended({ state, trouble, certificate }) {
    if (state !== 'done') {
      $('verify-said').textContent = state === 'failed' ? `The verification failed: ${trouble}` : 'The verification was cancelled: no certificate is filed.';
      return;
    }
    const { passed } = await ask('GET', `/api/certificates/${certificate}`);
    $('verify-said').textContent = passed ? 'All pairs are as asked. The certificate is filed.' : 'A pair is not as asked: the matrix says why. The certificate is filed.';
    $('certificate').href = `/certificates#${certificate}`;
    $('certificate').hidden = false;
  }
}
