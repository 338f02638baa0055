// Calls to the outside world, newest first, by filter.
import { get } from './api.js';
import { h } from './dom.js';
import { count } from './format.js';
import { Pane } from './pane.js';
import { asked, empty, filter, idLink, rowsField, state, table } from './parts.js';
import { when } from './time.js';

const fields = [['state', 'State', ['PENDING', 'SENDING', 'SUCCEEDED', 'FAILED', 'DEAD', 'DISCARDED']], ['target', 'Target'], ['operation', 'Operation'], ['tenant', 'Tenant'],
  ['idempotency_key', 'Key'], ['error_code', 'Error code'], rowsField];

function draw({ tasks, more }, filtered) {
  if (tasks.length === 0) {
    return empty(h('p', filtered ? 'No task matches. Every field is compared exactly.' : 'No task was ever enqueued here, or all are done and forgotten.'),
      !filtered && h('p', 'A task is a call to the outside world that a transaction decides: ', h('code', 'sealane tasks enqueue')));
  }
  return [
    table('Tasks, newest first', tasks, [
      ['State', (t) => state(t.state)],
      ['Created', (t) => when(t.created_at)],
      ['Target', (t) => t.target, 'clip'],
      ['Operation', (t) => t.operation, 'clip'],
      ['Key', (t) => t.idempotency_key, 'clip'],
      ['Tenant', (t) => t.tenant, 'clip'],
      ['Attempts', (t) => count(t.attempts), 'number'],
      ['Answer', (t) => t.status, 'number'],
      ['Next attempt', (t) => when(t.next_attempt_at)],
      ['Error', (t) => t.error_code && h('code', { title: t.error_message }, t.error_code), 'clip'],
      ['Task', (t) => idLink('tasks', t.id), 'head'],
    ]),
    more && h('p.quiet.after', `The newest ${count(tasks.length)}. There are more; a filter finds them.`),
  ];
}

export function open(place) {
  const wanted = asked(place.query, fields);
  const filtered = Object.entries(wanted).some(([name, value]) => value && name !== 'limit');
  let seen = null;
  const pane = new Pane(place, (signal) => {
    seen = null;
    return get('/tasks', wanted, signal);
  }, (data) => draw(data, filtered));
  return pane.screen('Tasks', [filter('/tasks', place.query, fields)], ({ tasks }) => {
    const now = tasks && `${tasks.pending} ${tasks.failed} ${tasks.dead}`;
    seen ??= now;
    if (now !== seen) pane.offer('Changed since, show');
  });
}
