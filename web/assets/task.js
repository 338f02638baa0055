// One task and its attempts. What was sent and answered is not shown here.
import { get } from './api.js';
import { taskCommands, taskShowCommand } from './commands.js';
import { h } from './dom.js';
import { bytes, count, dash, duration } from './format.js';
import { Pane } from './pane.js';
import { command, empty, error, facts, section, state, table } from './parts.js';
import { when } from './time.js';

function attempts(list) {
  if (list.length === 0) return section('Attempts', empty(h('p', 'None yet.')));
  return section('Attempts', table('Attempts', list, [
    ['Number', (a) => count(a.number), 'number head'],
    ['Started', (a) => when(a.started_at)],
    ['Took', (a) => duration(a.took_us / 1e6), 'number'],
    ['Verdict', (a) => a.verdict ?? (a.ended_at ? dash : 'no end on record')],
    ['Answer', (a) => a.status, 'number'],
    ['Error', (a) => error(a.code, a.message), 'wide'],
    ['By', (a) => h('span.mono', a.owner), 'wide'],
  ]));
}

function draw({ task: t }) {
  const commands = taskCommands(t);
  return [
    facts([
      ['State', state(t.state)],
      ['Id', t.id, t.id],
      ['Target', t.target, t.target],
      ['Operation', t.operation, t.operation],
      ['Key', t.idempotency_key, t.idempotency_key],
      ['Tenant', t.tenant],
      ['Order', t.order_key],
      ['Attempts', count(t.attempts)],
      ['Created', when(t.created_at)],
      ['Next attempt', t.next_attempt_at && when(t.next_attempt_at)],
      ['Ended', t.ended_at && when(t.ended_at)],
      ['Answer', t.status],
      ['Correlation', t.correlation_id && h('a', { href: `/messages?correlation_id=${encodeURIComponent(t.correlation_id)}` }, t.correlation_id), t.correlation_id],
      ['Causation', t.causation_id, t.causation_id],
    ]),
    (t.error_code || t.error_message) && section('Last error', h('p', error(t.error_code, t.error_message))),
    commands.length > 0 && section('What to do', commands.map(command)),
    attempts(t.history ?? []),
    section('Request', h('p', `${bytes(t.request_size)}. Requests and answers are not shown here. This command shows them to those who may read the store:`), command(taskShowCommand(t.id))),
  ];
}

export function open(place) {
  const pane = new Pane(place, (signal) => get(`/tasks/${place.id}`, null, signal), draw);
  return pane.screen(['Task ', h('span.mono', place.id)]);
}
