// The draft of a topology, which this browser keeps: leaving the page, or the daemon, loses none of it.

const KEY = 'longhaul topology draft';

// {text, at} with the time in ms since 1970; null when there is none, or the browser lets us keep nothing.
export function readDraft() {
  try {
    return JSON.parse(localStorage.getItem(KEY));
  } catch {
    return null;
  }
}

// Whether the browser keeps it.
export function keepDraft(text) {
  try {
    localStorage.setItem(KEY, JSON.stringify({ text, at: Date.now() }));
    return true;
  } catch {
    return false;
  }
}

export function dropDraft() {
  try {
    localStorage.removeItem(KEY);
  } catch {
    // nothing was kept
  }
}
