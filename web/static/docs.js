// The API page, built from the OpenAPI document.

import { $, ask, el, sayFailure } from './api.js';

function details(operation) {
  const parts = [];
  for (const one of operation.parameters ?? []) parts.push(el('li', {}, el('code', {}, one.name), ` (${one.in}) ${one.description ?? ''}`));
  if (operation.requestBody) parts.push(el('li', {}, `body: ${Object.keys(operation.requestBody.content).join(' or ')}`));
  const answers = Object.entries(operation.responses).map(([status, answer]) => {
    const schema = Object.values(answer.content ?? {})[0]?.schema?.$ref?.split('/').pop();
    return `${status}${schema && schema !== 'ProblemAnswer' ? ` ${schema}` : ''}`;
  });
  parts.push(el('li', {}, `answers: ${answers.join(', ')}`));
  return el('ul', {}, ...parts);
}

async function show() {
  const document_ = await ask('GET', '/api/openapi.json');
  const rows = Object.entries(document_.paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, operation]) =>
    el('details', { class: 'endpoint' }, el('summary', {}, el('span', { class: `method ${method}` }, method.toUpperCase()), el('code', {}, path), el('span', { class: 'soft' }, operation.summary.replaceAll('`', ''))), details(operation))));
  const models = Object.entries(document_.components.schemas).map(([name, schema]) =>
    el('details', { class: 'endpoint' }, el('summary', {}, name), el('pre', { tabindex: '0' }, JSON.stringify(schema, null, 1))));
  $('endpoints').replaceChildren(el('h2', {}, 'Endpoints'), ...rows, el('h2', {}, 'Shapes'), ...models);
}
show().catch(sayFailure);
