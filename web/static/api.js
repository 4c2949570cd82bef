// Talks to the daemon: requests with the session's CSRF token, problems as errors, the event stream, and the banners
// that every page has (daemon not reachable, change not yet confirmed, lanes leased by a test run).

import { dropDrafts } from './draft.js';

const csrf = document.querySelector('meta[name="csrf"]').content;
export const can = new Set(document.body.dataset.can.split(' ').filter(Boolean));
export const mayWrite = document.body.dataset.role !== 'read';
export const $ = (id) => document.getElementById(id);

export class Problem extends Error {
  constructor(value) {
    super(value.detail);
    this.status = value.status;
    this.mistakes = value.mistakes ?? [];
  }
}

// The session is over: whoever logs in comes back to what this page shows.
const logIn = () => location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search + location.hash)}`);

export async function ask(method, path, body, kind = 'application/json', headers = {}) {
  const options = { method, headers: { 'X-CSRF-Token': csrf, ...headers } };
  if (body !== undefined) {
    options.headers['Content-Type'] = kind;
    options.body = kind === 'application/json' ? JSON.stringify(body) : body;
  }
  let response;
  let text;
  try {
    response = await fetch(path, options);
    text = await response.text();
  } catch {
    throw new Problem({ status: 0, detail: 'The daemon does not answer.' });
  }
  if (response.status === 401) logIn();
  const type = response.headers.get('Content-Type') ?? '';
  const value = type.includes('json') && text ? JSON.parse(text) : text;
  if (!response.ok) throw new Problem(typeof value === 'object' ? value : { status: response.status, detail: text });
  return value;
}

// Shows a text. One that is shown already costs nothing; another one keeps the node, so that its style is not found anew.
export function setText(element, text) {
  if (element.textContent === text) return;
  if (element.childNodes.length === 1 && element.firstChild.nodeType === Node.TEXT_NODE) element.firstChild.data = text;
  else element.textContent = text;
}

// An element: attributes, then children (texts or elements). `on...` are listeners.
export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) made.addEventListener(key.slice(2), value);
    else if (key in made && typeof value !== 'string') made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

export function say(text, failed = false) {
  const note = el('div', { class: failed ? 'note failed' : 'note' }, text);
  $('notes').append(note);
  setTimeout(() => note.remove(), failed ? 12000 : 5000);
}

// Says what was done, in `text` if the answer's own summary is not enough, and what the daemon warns of.
export function sayDone(done, text = done.summary) {
  say(text);
  done.warnings.forEach((warning) => say(warning, true));
}

export const sayFailure = (problem) =>
  say(problem.mistakes?.length ? problem.mistakes.map((m) => `${m.path ? `${m.path}: ` : ''}${m.text}`).join('\n') : problem.message, true);

let leased = false;

// Controls that change the lanes (data-changes) are disabled for read-only users and while a test run leases the lanes;
// then the page shows the reason (data-leased).
export function lock() {
  for (const one of document.querySelectorAll('[data-changes]')) one.disabled = !mayWrite || leased;
  for (const one of document.querySelectorAll('[data-leased]')) one.hidden = !leased;
}

// Runs a button's work once at a time and reports its failure.
export function onClick(id, work) {
  const button = $(id);
  button?.addEventListener('click', async (event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      await work(event);
    } catch (problem) {
      sayFailure(problem);
    } finally {
      button.disabled = false;
      lock();
    }
  });
}

const listeners = { look: [], run: [], verification: [], recording: [], watchdog: [], trouble: [], back: [] };
export const listen = (kind, work) => listeners[kind].push(work);
const tell = (kind, value) => listeners[kind].forEach((work) => work(value));

let heard = 0;
let wasGone = false;
function connect() {
  const events = new EventSource('/api/events');
  events.addEventListener('open', () => {
    heard = Date.now();
    shown('live');
    if (wasGone) tell('back');
    wasGone = false;
  });
  for (const kind of ['look', 'run', 'verification', 'recording', 'watchdog', 'trouble']) {
    events.addEventListener(kind, (event) => {
      heard = Date.now();
      shown('live');
      tell(kind, JSON.parse(event.data));
    });
  }
  events.addEventListener('error', () => {
    wasGone = true;
    shown('gone');
    events.close();
    setTimeout(again, 1000);
  });
}

// The browser does not say why a stream ended: the daemon may be gone, or the session over.
async function again() {
  try {
    const response = await fetch('/api/runs', { method: 'GET' });
    if (response.status === 401) logIn();
  } catch {
    // the daemon is still gone: connect again below
  }
  connect();
}

function shown(state) {
  const link = $('link');
  if (link.dataset.state === state) return;
  link.dataset.state = state;
  link.className = `link ${state}`;
  link.textContent = state === 'live' ? 'live' : 'no answer';
  $('gone').hidden = state === 'live';
}
setInterval(() => heard && Date.now() - heard > 5000 && shown('gone'), 1000);
connect();

lock();
listen('look', (look) => {
  leased = look.leased;
  $('leased-back').textContent = look.back_to === null ? 'no topology is up, as before.' : `${look.back_to} returns.`;
  lock();
  const waits = look.seconds_left !== null && look.seconds_left !== undefined && mayWrite;
  $('pending').hidden = !waits;
  if (waits) $('pending-left').textContent = Math.max(0, Math.round(look.seconds_left));
});

// Sentences for what the watchdog does in the background; its start and its end need none.
const WATCHDOG = {
  repaired: (said) => `The watchdog repaired a lane: ${said.why}.`,
  reverted: () => 'Nobody confirmed the change in time: Longhaul reverted it.',
  drift: (said) => `The lanes have drifted: ${said.why}.`,
  blocked: (said) => `${said.lane} cannot be repaired: ${said.reason}`,
  failed: (said) => `The watchdog could not repair a lane: ${said.reason}`,
  'as-asked': () => 'All lanes match the topology again.',
};
listen('watchdog', (said) => WATCHDOG[said.event] && say(WATCHDOG[said.event](said), ['blocked', 'failed', 'drift'].includes(said.event)));

listen('trouble', (said) => {
  $('trouble').hidden = false;
  $('trouble').textContent = `The daemon cannot read the state of the lanes: ${said.text}`;
});
listen('look', () => { $('trouble').hidden = true; });

// Who logs out leaves nothing behind for the next person at this browser.
document.querySelector('form[action="/logout"]')?.addEventListener('submit', dropDrafts);

onClick('confirm', async () => {
  await ask('POST', '/api/confirm');
  $('pending').hidden = true;
  say('The change stays.');
});
onClick('revert', async () => {
  await ask('POST', '/api/revert');
  $('pending').hidden = true;
  say('The change was reverted.');
});
