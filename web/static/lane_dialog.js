// The dialog that adds a lane to what is up: a known place fills in the name and the RTT, an access network its rates and
// jitter. What somebody has typed is never replaced.

import { $, ask, can, el, lock, onClick, sayFailure } from './api.js';
import { clear, show as showMistakes } from './mistakes.js';
import { plain } from './number_field.js';
import { confirmBox, PlannedChange } from './plan_dialog.js';
import { around } from './places.js';
import { link, speed } from './port_table.js';
import { exactly } from './units.js';

const asMs = (ns) => `${plain(ns / 1e6)}ms`;
// "New York" is the place new-york.
const placeName = (text) => text.trim().toLowerCase().replace(/\s+/g, '-');

export class LaneDialog {
  // `page` has the status, `refresh` and `changed` (answer, text, name of the lane to show).
  constructor(page) {
    Object.assign(this, { page, form: $('new-lane-form'), box: $('new-lane'), trips: new Map(), access: new Map(), nics: [], suggested: {} });
    const { form } = this;
    form.addEventListener('input', ({ target }) => this.#typed(target.name));
    form.addEventListener('submit', (event) => event.preventDefault());
    onClick('new-lane-preview', () => this.#begin((change) => change.preview()));
    onClick('new-lane-add', () => this.#begin((change) => change.apply()));
    onClick('new-lane-close', () => this.box.close());
  }

  async open() {
    clear(this.form);
    this.#wrong('');
    this.waits?.remove();
    this.waits = confirmBox();
    if (this.waits) $('new-lane-act').prepend(this.waits);
    lock();
    this.box.showModal();
    await this.#load();
    this.#typed('');
  }

  #field(name) {
    return this.form.elements[name];
  }

  #said(name) {
    return this.#field(name).value.trim();
  }

  // The places around the hub, the access networks, and the ports as they are now.
  async #load() {
    const { status } = this.page;
    const [places, { access }, { nics, pairs }] = await Promise.all([
      around(status.hub), ask('GET', '/api/access'), can.has('nics') ? ask('GET', '/api/nics') : { nics: [], pairs: [] },
    ]);
    this.trips = new Map(places.map((place) => [place.name, place]));
    $('new-lane-places').replaceChildren(...places.map((place) => el('option', { value: place.name }, exactly(place.rtt_ns))));
    $('new-lane-sites').replaceChildren(...places.map((place) => el('option', { value: place.name })));
    this.access = new Map(access.map((one) => [one.name, one]));
    options(this.#field('access'), [['', 'none'], ...access.map((one) => [one.name, one.label])]);
    this.nics = nics;
    this.#ports(pairs);
  }

  // On a box whose lanes have ports, the first free pair is chosen; a lane without ports is virtual.
  #ports(pairs) {
    const real = this.page.status.lanes.some((lane) => lane.settings.ports);
    const fresh = !this.#said('ports.hub') && !this.#said('ports.site');
    for (const [at, end] of ['hub', 'site'].entries()) {
      const field = this.#field(`ports.${end}`);
      options(field, [['', 'none: virtual'], ...this.nics.map((nic) => [nic.name, portText(nic), !nic.usable])]);
      if (real && fresh && pairs.length) field.value = pairs[0][at];
    }
    const free = this.nics.some((nic) => nic.usable);
    $('new-lane-ports').hidden = !free;
    $('new-lane-virtual').hidden = free || !this.nics.length;
  }

  // Something was typed into a field, or nothing yet: what follows from it is filled in.
  #typed(name) {
    if (name === 'name') this.#suggest('place', this.trips.has(placeName(this.#said('name'))) ? placeName(this.#said('name')) : '');
    if (name === 'place') this.#suggest('name', this.trips.has(placeName(this.#said('place'))) ? this.#unused(placeName(this.#said('place'))) : '');
    if (name !== 'rtt') this.#suggest('rtt', this.#rtt());
    this.#tell();
  }

  // A name that no lane has: london, then london-2.
  #unused(name) {
    const taken = new Set(this.page.status.lanes.map((lane) => lane.name));
    let count = 1;
    while (taken.has(count > 1 ? `${name}-${count}` : name)) count += 1;
    return count > 1 ? `${name}-${count}` : name;
  }

  // Fills a field that is empty, or has what was filled in before.
  #suggest(name, text) {
    if (!['', this.suggested[name] ?? ''].includes(this.#said(name))) return;
    this.#field(name).value = text;
    this.suggested[name] = text;
  }

  #trip() {
    return this.trips.get(placeName(this.#said('place')));
  }

  // The round trip to the place and through the access network; '' without both.
  #rtt() {
    const parts = [this.#trip(), this.access.get(this.#said('access'))].filter(Boolean);
    return parts.length ? asMs(parts.reduce((sum, one) => sum + one.rtt_ns, 0)) : '';
  }

  // What the fields rest on, below them.
  #tell() {
    const [trip, access] = [this.#trip(), this.access.get(this.#said('access'))];
    const { hub } = this.page.status;
    const parts = [trip && `${exactly(trip.rtt_ns)} to ${trip.name} (${trip.source})`, access && `${exactly(access.rtt_ns)} of ${access.label}`].filter(Boolean);
    const filled = parts.length && this.#said('rtt') === this.#rtt();
    const typed = access ? `As typed: the ${exactly(access.rtt_ns)} of ${access.label} are not added.` : 'There and back, with a unit, such as 80ms.';
    $('new-lane-rtt-hint').textContent = filled ? `${parts.join(' and ')}.` : typed;
    $('new-lane-place-hint').textContent = this.trips.size ? `Fills in the RTT from ${hub}.` : `${hub} is not a known place: type the RTT.`;
    $('new-lane-access-hint').textContent = access ? `${rates(access)}. Source: ${access.source}.` : 'Adds its RTT, rates and jitter.';
    const [nic] = this.#chosen();
    $('new-lane-over').hidden = !nic;
    this.#field('line_rate').placeholder = nic?.speed_mbps ? lineRate(nic) : '10Gbit';
    this.#field('mtu').placeholder = String(nic?.mtu ?? 1500);
  }

  // The chosen ports as the machine has them.
  #chosen() {
    return ['hub', 'site'].map((end) => this.nics.find((nic) => nic.name === this.#said(`ports.${end}`))).filter(Boolean);
  }

  // The lane as the API has it.
  get #lane() {
    const lane = { rtt: this.#said('rtt'), ...this.access.get(this.#said('access'))?.settings };
    const [nic] = this.#chosen();
    const rate = this.#said('line_rate') || (nic?.speed_mbps ? lineRate(nic) : '');
    if (rate) lane.line_rate = rate;
    const mtu = this.#said('mtu') || (nic ? String(nic.mtu) : '');
    if (mtu) lane.mtu = mtu;
    if (nic) {
      lane.ports = Object.fromEntries(['hub', 'site'].map((end) => [end, this.#port(end)]).filter(([, port]) => port));
      if (this.#said('host')) lane.host = this.#said('host');
    }
    return lane;
  }

  #port(end) {
    const nic = this.nics.find((one) => one.name === this.#said(`ports.${end}`));
    return nic && ({ mac: nic.permanent_mac || nic.mac, pci: nic.bus }[this.#said('by')] || nic.name);
  }

  // What the daemon cannot know: that a field is empty, or a place is none of the list.
  get #missing() {
    const found = [];
    if (!this.#said('name')) found.push({ path: 'name', text: 'is missing: name the site, such as tokyo' });
    if (this.#said('place') && !this.#trip()) found.push({ path: 'place', text: `'${this.#said('place')}' is not a known place: choose one of the list, or leave it empty and type the RTT` });
    if (!this.#said('rtt')) found.push({ path: 'rtt', text: 'is missing: type one such as 80ms, or choose a place' });
    return found;
  }

  // Previews or applies what the fields say, unless they say nothing that can be.
  async #begin(act) {
    clear(this.form);
    this.#wrong('');
    const wrong = this.#missing;
    if (wrong.length) {
      this.#told(wrong);
      return;
    }
    const name = this.#said('name');
    const lane = this.#lane;
    const words = this.#words(name, lane);
    await act(new PlannedChange({
      request: { method: 'POST', path: '/api/lanes', body: { lanes: { [name]: lane } } },
      shown: () => ({ title: `What adding ${name} does`, words, label: 'Add the lane' }),
      page: this.page, waits: this.waits,
      failed: (problem) => this.#failed(problem, name),
      done: async (done) => {
        this.box.close();
        this.form.reset();
        this.suggested = {};
        await this.page.changed(done, done.summary, name);
      },
    }));
  }

  // The plan in words.
  #words(name, lane) {
    const { hub, lanes } = this.page.status;
    const [one, other] = this.#chosen();
    const ends = one ? `${one.name} (${hub}) and ${other?.name ?? '?'} (${name}) are joined` : 'Two network namespaces of this machine are joined';
    const access = this.access.get(this.#said('access'));
    const found = [`${ends}, at ${lane.line_rate ?? '10Gbit'}: the lane ${name}.`, `A round trip between ${hub} and ${name} takes ${lane.rtt}.`];
    if (access) found.push(`${access.label}: ${rates(access)}.`);
    if (lanes.length) found.push(`${lanes.length === 1 ? 'The other lane goes on as it is' : `The other ${lanes.length} lanes go on as they are`}.`);
    return found;
  }

  #wrong(text) {
    $('new-lane-wrong').textContent = text;
  }

  // Puts what the daemon refuses at its field: mistakes of the request, and reasons against a port.
  #failed(problem, name) {
    if (!this.box.open) {
      sayFailure(problem);
      return;
    }
    const at = `lanes.${name}`;
    const ofLane = ({ path, text }) => ({ path: path === at && /\bname\b/.test(text) ? 'name' : path.startsWith(`${at}.`) ? path.slice(at.length + 1) : '', text });
    const refused = () => problem.message.split('\n').map((line) => ({ path: this.#portOf(line), text: line }));
    this.#told(problem.mistakes?.length ? problem.mistakes.map(ofLane) : refused());
  }

  #portOf(line) {
    const end = ['hub', 'site'].find((one) => this.#said(`ports.${one}`) && [this.#said(`ports.${one}`), this.#port(one)].some((port) => line.startsWith(`port ${port}: `)));
    return end ? `ports.${end}` : '';
  }

  #told(mistakes) {
    const left = showMistakes(this.form, mistakes.filter((one) => one.path)).concat(mistakes.filter((one) => !one.path));
    this.#wrong(left.map((one) => [one.path, one.text].filter(Boolean).join(': ')).join('\n'));
    this.form.querySelector('[aria-invalid=true]')?.focus();
  }
}

const lineRate = ({ speed_mbps: mbps }) => (mbps >= 1000 ? `${mbps / 1000}Gbit` : `${mbps}Mbit`);

const rates = ({ settings: { outbound, inbound } }) => `${outbound.rate} to the site, ${inbound.rate} from it, jitter ${outbound.jitter} in each direction`;

const portText = (nic) => (nic.usable ? [nic.name, speed(nic.speed_mbps), link(nic)].filter((text) => text !== '–').join(' · ') : `${nic.name}: ${nic.reasons.join('; ')}`);

// Gives a select these options ([value, text, disabled]); what was chosen stays if it is there.
function options(select, rows) {
  const { value } = select;
  select.replaceChildren(...rows.map(([own, text, disabled = false]) => el('option', { value: own, disabled }, text)));
  select.value = rows.some(([own, , disabled]) => own === value && !disabled) ? value : rows[0][0];
}

// Shows what goes with a lane, and removes it if somebody says so.
export async function removeLane(page, name) {
  const waits = confirmBox();
  const others = page.status.lanes.length - 1;
  const rest = others === 1 ? ['The other lane goes on as it is.'] : others ? [`The other ${others} lanes go on as they are.`] : ['No lane is left.'];
  await new PlannedChange({
    request: { method: 'DELETE', path: `/api/lanes/${encodeURIComponent(name)}` },
    shown: () => ({ title: `What removing ${name} does`, words: [`The lane ${name} is removed, with all its settings.`, ...rest, 'An undo brings it up again.'], label: `Remove ${name}`, danger: true, waits }),
    page, waits,
    failed: (problem) => {
      sayFailure(problem);
      page.refresh().catch(sayFailure); // somebody else may have removed it
    },
    done: (done) => page.changed(done, done.summary),
  }).preview();
}
