// Shows each mistake of a form at its field, and returns those that have none.

import { el } from './api.js';

export function clear(form) {
  form.querySelectorAll('p.wrong').forEach((text) => text.remove());
  for (const one of form.elements) {
    one.removeAttribute('aria-invalid');
    one.removeAttribute('aria-errormessage');
    describe(one, `${one.id}-wrong`, false);
  }
}

// Few screen readers read aria-errormessage: the mistake is a description of its field, too, beside others that it has.
export function describe(field, id, wrong) {
  const others = (field.getAttribute('aria-describedby') || '').split(' ').filter((one) => one && one !== id);
  const all = wrong ? [...others, id] : others;
  if (all.length) field.setAttribute('aria-describedby', all.join(' '));
  else field.removeAttribute('aria-describedby');
}

// The field of a path, or of what it is part of: `workload.files.a.conf`, `workload.files`, `workload`.
function fieldOf(form, path) {
  const parts = path.split('.');
  for (let length = parts.length; length; length -= 1) {
    const found = form.elements[parts.slice(0, length).join('.')];
    if (found instanceof HTMLElement && !found.closest('[hidden]')) return found;
  }
  return null;
}

export function show(form, mistakes) {
  return mistakes.filter(({ path, text }) => {
    const field = fieldOf(form, path);
    if (!field) return true;
    const id = `${field.id}-wrong`;
    const shown = document.getElementById(id);
    if (shown) shown.append(` ${text}`);
    else field.after(el('p', { id, class: 'wrong', 'aria-live': 'polite' }, text));
    field.setAttribute('aria-invalid', 'true');
    field.setAttribute('aria-errormessage', id);
    describe(field, id, true);
    const closed = field.closest('details:not([open])');
    if (closed) closed.open = true;
    return false;
  });
}
