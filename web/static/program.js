// The program of a new run: its settings as fields, made of the table that the server tells.

import { $, el } from './api.js';

const FIRST = ['server', 'ready', 'client', 'packages', 'bytes', 'repeat'];
const LISTS = ['keep', 'packages'];
const COMMANDS = ['client', 'server', 'prepare', 'prepare_client'];
const LABELS = {
  server: 'Server command', ready: 'Server is ready', client: 'Client command', packages: 'Debian packages', bytes: 'Bytes to carry', repeat: 'Runs of the client',
  prepare: 'Before, at the server', prepare_client: 'Before, at the client', environment: 'Variables', user: 'User', timeout: 'Time limit', name: 'Name', keep: 'Files to keep',
};
let keys = [];

const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}.`;
const input = (key) => $(`workload.${key}`);
const files = () => [...$('program-files').querySelectorAll('.file')];

function field({ key, help, example }) {
  const id = `workload.${key}`;
  const attributes = { id, name: id, 'aria-describedby': `${id}-hint`, autocomplete: 'off', spellcheck: false };
  const made = COMMANDS.includes(key) || key === 'environment' ? el('textarea', { ...attributes, rows: '2' }) : el('input', attributes);
  const such = key === 'environment' ? 'One NAME=VALUE a line, such as PGUSER=postgres' : `Such as ${Array.isArray(example) ? example.join(', ') : example}`;
  return el('div', {}, el('label', { for: id }, LABELS[key] ?? key), made, el('p', { id: `${id}-hint`, class: 'hint' }, sentence(help), ' ', el('span', { class: 'such' }, such)));
}

function addFile(name = '', text = '') {
  const nth = files().length + 1;
  const called = el('input', { 'aria-label': `Name of file ${nth}`, value: name, placeholder: 'server.conf' });
  const content = el('textarea', { 'aria-label': `Text of file ${nth}`, rows: '4', spellcheck: false });
  content.value = text;
  const box = el('div', { class: 'file' }, el('div', { class: 'row' }, called,
    el('button', { type: 'button', class: 'quiet', onclick: () => { box.remove(); $('new').dispatchEvent(new Event('input')); } }, 'Remove')), content);
  content.id = `file-${nth}-${Date.now()}`;
  called.addEventListener('input', () => { content.name = `workload.files.${called.value}`; });
  content.name = `workload.files.${name}`;
  $('program-files').append(box);
}

// Puts a program into the fields.
export function fillProgram(workload) {
  for (const key of keys) {
    const value = workload[key] ?? '';
    if (key === 'environment') input(key).value = Object.entries(value).map(([name, text]) => `${name}=${text}`).join('\n');
    else input(key).value = Array.isArray(value) ? value.join(', ') : value;
  }
  $('program-files').replaceChildren();
  Object.entries(workload.files ?? {}).forEach(([name, text]) => addFile(name, text));
}

// What the request says of the program.
export function program() {
  const said = {};
  for (const key of keys) {
    const text = input(key).value.trim();
    if (!text) continue;
    if (key === 'environment') said[key] = Object.fromEntries(text.split('\n').filter(Boolean).map((line) => line.split(/=(.*)/s).slice(0, 2).map((part) => part ?? '')));
    else said[key] = LISTS.includes(key) ? text.split(',').map((one) => one.trim()).filter(Boolean) : text;
  }
  const texts = files().map((box) => [box.querySelector('input').value.trim(), box.querySelector('textarea').value]).filter(([name]) => name);
  if (texts.length) said.files = Object.fromEntries(texts);
  return said;
}

// What a cell runs: streams, program, requests or flows.
export const kindOfRun = () => document.querySelector('input[name=kind]:checked')?.value;

// Builds the fields from what the server says about programs; `changed` is called when the kind of the run is another.
export function buildProgram(told, changed) {
  const byKey = new Map(told.settings.map((setting) => [setting.key, setting]));
  keys = told.settings.map(({ key }) => key).filter((key) => key !== 'files');
  $('program-fields').replaceChildren(...FIRST.map((key) => field(byKey.get(key))));
  $('more-program').replaceChildren(...keys.filter((key) => !FIRST.includes(key)).map((key) => field(byKey.get(key))));
  $('program-where').textContent = told.refused || (told.outside_lab ? '' : 'Programs run in the lab. Elsewhere they need the operator\'s token.');
  $('workload.packages-hint').after(el('p', { id: 'packages-where', class: 'hint' }, told.packages_refused && sentence(told.packages_refused)));
  $('add-file').addEventListener('click', () => addFile());
  for (const one of document.querySelectorAll('input[name=kind]')) one.addEventListener('change', () => { showKind(); changed(); });
  showKind();
}

// Programs, requests and groups of flows have connections of their own, not streams. A program ends by itself: it has no duration.
export function showKind() {
  for (const one of ['program', 'requests', 'flows']) $(one).hidden = kindOfRun() !== one;
  $('streams-field').hidden = kindOfRun() !== 'streams';
  $('duration-field').hidden = kindOfRun() === 'program';
}
