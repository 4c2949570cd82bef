// Drafts of a topology and of a schedule, which this browser keeps: leaving the page, or the daemon, loses none of them.

const KEY = 'longhaul topology draft';
export const SCHEDULE = 'longhaul schedule draft';

// {text, at} with the time in ms since 1970; null when there is none, or the browser lets us keep nothing.
export function readDraft(key = KEY) {
  try {
    return JSON.parse(localStorage.getItem(key));
  } catch {
    return null;
  }
}

// Whether the browser keeps it.
export function keepDraft(text, key = KEY) {
  try {
    localStorage.setItem(key, JSON.stringify({ text, at: Date.now() }));
    return true;
  } catch {
    return false;
  }
}

export function dropDraft(key = KEY) {
  try {
    localStorage.removeItem(key);
  } catch {
    // nothing was kept
  }
}

export const dropDrafts = () => [KEY, SCHEDULE].forEach((key) => dropDraft(key));
