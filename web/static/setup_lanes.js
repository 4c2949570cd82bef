// The lanes of a new appliance as fields: their pairs of ports, then their places, round-trip times and rates.

import { $, ask, el } from './api.js';
import { link, speed } from './port_table.js';
import { exactly, ms } from './units.js';

const FIELDS = ['site', 'rtt', 'rate', 'hub_port', 'site_port', 'host'];
const lane = (ports) => ({ site: '', rtt: '', rate: '', hub_port: '', site_port: '', host: '', ...ports });
const isVirtual = (one) => one.virtual === true;

// A lane for each pair of ports.
export const suggest = (pairs) => pairs.map(([hub_port, site_port]) => lane({ hub_port, site_port }));

export const addVirtual = (entered) => entered.lanes.push(lane({ virtual: true }));

// What the daemon is asked.
export const asked = (entered) => ({ ...entered, lanes: (entered.lanes ?? []).map((one) => Object.fromEntries(FIELDS.map((key) => [key, one[key]]))) });

// Puts what the fields that are shown say into `entered`.
export function gather(form, entered) {
  for (const key of ['hub', 'name', 'hub_host', 'by']) entered[key] = form.elements[key].value.trim();
  (entered.lanes ?? []).forEach((one, number) => FIELDS.forEach((key) => {
    const field = form.elements[`lanes.${number}.${key}`];
    if (field) one[key] = field.value.trim();
  }));
}

const field = (number, key, label, input, hint = '') => {
  const name = `lanes.${number}.${key}`;
  const made = input({ id: name, name });
  const told = hint ? el('p', { id: `${name}-hint`, class: 'hint' }, hint) : '';
  if (hint) made.setAttribute('aria-describedby', `${name}-hint`);
  return el('div', {}, el('label', { for: name }, label), made, told);
};

function option(nic) {
  const said = [nic.name, speed(nic.speed_mbps), link(nic)].filter((text) => text !== '–').join(' · ');
  const usable = nic.usable || nic.owner === 'longhaul';
  return el('option', { value: nic.name, disabled: !usable }, usable ? said : `${nic.name}: ${nic.reasons.join('; ')}`);
}

const ports = (nics, chosen) => (attributes) => {
  const select = el('select', attributes, el('option', { value: '' }, 'choose a port'), ...nics.map(option));
  select.value = chosen;
  return select;
};

// Draws the pairs; `focus` is the number of the lane that has it.
export function drawPairs(entered, nics, pairs, keep, focus = null) {
  $('by').value = entered.by;
  $('pairs').replaceChildren(...entered.lanes.map((one, number) => {
    const remove = el('button', { type: 'button', class: 'quiet danger', 'aria-label': `Remove lane ${number + 1}`, onclick: () => {
      entered.lanes.splice(number, 1);
      drawPairs(entered, nics, pairs, keep, Math.min(number, entered.lanes.length - 1));
      keep();
    } }, 'Remove');
    const ends = isVirtual(one) ? [el('p', { class: 'hint' }, 'virtual, without ports')]
      : [field(number, 'hub_port', 'Hub port', ports(nics, one.hub_port)), field(number, 'site_port', 'Site port', ports(nics, one.site_port))];
    return el('fieldset', {}, el('legend', {}, `Lane ${number + 1}`), el('div', { class: 'fields' }, ...ends, el('div', { class: 'end' }, remove)));
  }));
  if (!entered.lanes.length) $('pairs').append(el('p', { class: 'nothing' }, 'No lane yet: add a pair of ports, or a virtual lane.'));
  // A mistake about all lanes stands at the button that adds one.
  $('add-pair').name = 'lanes';
  if (focus !== null) ($('pairs').children[focus]?.querySelector('select, button') ?? $('add-pair')).focus();
}

let trips = new Map(); // by place its round trip from the hub
let tripsOf = null;

async function learn(hub) {
  if (tripsOf === hub) return;
  tripsOf = hub;
  const known = (await ask('GET', '/api/places')).places.map((place) => place.name);
  const { places } = known.includes(hub) ? await ask('GET', `/api/places?hub=${encodeURIComponent(hub)}`) : { places: known.map((name) => ({ name, rtt_ns: null })) };
  if (tripsOf !== hub) return;
  trips = new Map(places.filter((place) => place.name !== hub).map((place) => [place.name, place]));
  const said = (place) => (place.rtt_ns === null ? place.country ?? '' : ms(place.rtt_ns));
  $('places').replaceChildren(...places.map((place) => el('option', { value: place.name }, said(place))));
}

// The round trip that is taken where none is typed, and what it rests on.
function tell(number) {
  const place = trips.get($(`lanes.${number}.site`).value.trim());
  const trip = place?.rtt_ns ? place : null;
  $(`lanes.${number}.rtt`).placeholder = trip ? ms(trip.rtt_ns) : '80ms';
  $(`lanes.${number}.rtt-hint`).textContent = trip ? `Empty: ${ms(trip.rtt_ns)}, ${trip.source}.` : 'Such as 80ms; between two known places it may stay empty.';
}

export async function drawPlaces(entered, nics, keep) {
  for (const key of ['hub', 'name', 'hub_host']) $(key).value = entered[key];
  $('name').placeholder = entered.hub || 'as the hub';
  $('hub_host-field').hidden = entered.lanes.every(isVirtual);
  $('ssh-hint').hidden = $('hub_host-field').hidden;
  const text = (key, value, attributes = {}) => (own) => el('input', { ...own, value, autocomplete: 'off', ...attributes });
  $('lanes').replaceChildren(...entered.lanes.map((one, number) => {
    const mbps = nics.find((nic) => nic.name === one.hub_port)?.speed_mbps;
    const free = isVirtual(one) || !mbps ? 'no bottleneck' : `the ports' ${speed(mbps)}`;
    const fields = [
      field(number, 'site', 'Place of the site', text('site', one.site, { list: 'places', placeholder: 'london' })),
      field(number, 'rtt', 'RTT', text('rtt', one.rtt), ' '),
      field(number, 'rate', 'Rate of each direction', text('rate', one.rate, { placeholder: free }), `Such as 1Gbit. Empty: ${free}.`),
    ];
    if (!isVirtual(one)) fields.push(field(number, 'host', 'Machine at the site, by SSH', text('host', one.host, { placeholder: 'root@london.lab' })));
    const legend = isVirtual(one) ? `Lane ${number + 1}: virtual` : `Lane ${number + 1}: ${one.hub_port || '?'} – ${one.site_port || '?'}`;
    return el('fieldset', {}, el('legend', {}, legend), el('div', { class: 'fields' }, ...fields));
  }));
  const all = () => entered.lanes.forEach((_, number) => $(`lanes.${number}.site`) && tell(number));
  entered.lanes.forEach((_, number) => $(`lanes.${number}.site`).addEventListener('input', () => tell(number)));
  $('hub').oninput = async () => {
    $('name').placeholder = $('hub').value.trim() || 'as the hub';
    await learn($('hub').value.trim());
    all();
  };
  all();
  await learn(entered.hub);
  all();
}

// The plan in words: what each lane becomes.
export function words(entered, proposal) {
  if (!proposal) return [];
  return entered.lanes.map((one, number) => {
    const { rtt_ns, source } = proposal.rtts[number];
    const rtt = exactly(rtt_ns);
    const why = source ? `, ${source}` : '';
    const rate = one.rate ? `, at most ${one.rate} in each direction` : '';
    const ends = isVirtual(one) ? 'Two network namespaces are joined' : `${one.hub_port} (${entered.hub}) and ${one.site_port} (${one.site}) are joined`;
    return `${one.site}: ${ends}${rate}; a round trip takes ${rtt}${why}.`;
  });
}
