// What was set aside and holds something up, by error, with what to do about it.
import { get } from './api.js';
import { inboxCommands, relayCommands, taskCommands } from './commands.js';
import { h } from './dom.js';
import { count, dash, plural } from './format.js';
import { Pane } from './pane.js';
import { command, empty, idLink, refused, state, table } from './parts.js';
import { asideCount } from './shell.js';
import { when } from './time.js';

const limit = 200;

// Those with the same code have, most likely, the same remedy.
function groups(rows) {
  const byCode = new Map();
  for (const row of rows) {
    const code = row.error_code || '';
    if (!byCode.has(code)) byCode.set(code, []);
    byCode.get(code).push(row);
  }
  return [...byCode].sort(([, a], [, b]) => b.length - a.length);
}

function decide(row, commands) {
  return h('div', { class: 'decide' },
    h('p', { class: 'verbatim' }, row.error_message || 'No reason is on record.'),
    commands.length > 0 && h('details', null, h('summary', null, 'What to do'), commands.map(command)));
}

function part(title, rows, more, problem, nothing, columns, commands) {
  const head = h('h2', null, title, rows?.length > 0 && h('span', { class: 'quiet' }, ` ${more ? `≥ ${count(rows.length)}` : count(rows.length)}`));
  if (problem) return h('section', null, head, refused(problem));
  if (!rows?.length) return h('section', null, head, empty(h('p', null, nothing)));
  return h('section', null, head,
    more && h('p', { class: 'quiet' }, `The ${count(rows.length)} that wait longest. There are more; the counts below are of these.`),
    groups(rows).map(([code, list]) => h('div', { class: 'group' },
      h('h3', null, code ? h('code', null, code) : 'without a code', h('span', { class: 'quiet' }, ` ${plural(list.length, 'time')}`)),
      table(`${title}: ${code || 'without a code'}`, list, columns, (row) => decide(row, commands(row))))));
}

const waiting = (row) => (row.followers ? h('b', null, count(row.followers)) : '0');

const relayColumns = [
  ['Since', (d) => when(d.first_failed_at)],
  ['State', (d) => state(d.state, d.skipped && 'skipped')],
  ['Route', (d) => d.route, 'clip'],
  ['Key', (d) => d.key, 'clip'],
  ['Type', (d) => d.type, 'clip'],
  ['Attempts', (d) => count(d.attempts), 'number'],
  ['Waiting behind', waiting, 'number'],
  ['Next attempt', (d) => when(d.next_attempt_at)],
  ['Event', (d) => idLink('messages', d.id), 'head'],
];

const consumerColumns = [
  ['Since', (p) => when(p.parked_at)],
  ['State', (p) => state(p.state, p.claimed && 'being tried')],
  ['Consumer', (p) => p.consumer, 'clip'],
  ['Key', (p) => p.unit, 'clip'],
  ['Type', (p) => p.type, 'clip'],
  ['Attempts', (p) => count(p.attempts), 'number'],
  ['Waiting behind', waiting, 'number'],
  ['Next attempt', (p) => (p.gap_until ? ['gap until ', when(p.gap_until)] : when(p.next_attempt_at))],
  ['Event', (p) => idLink('messages', p.id), 'head'],
];

const taskColumns = [
  ['Since', (t) => when(t.created_at)],
  ['State', (t) => state(t.state)],
  ['Target', (t) => t.target, 'clip'],
  ['Operation', (t) => t.operation, 'clip'],
  ['Key', (t) => t.idempotency_key, 'clip'],
  ['Attempts', (t) => count(t.attempts), 'number'],
  ['Answer', (t) => t.status ?? dash],
  ['Next attempt', (t) => when(t.next_attempt_at)],
  ['Task', (t) => idLink('tasks', t.id), 'head'],
];

function draw(data) {
  const none = !['relay', 'consumers', 'tasks'].some((name) => data[name]?.length || data[`${name}_problem`]);
  if (none) return empty(h('p', { class: 'figure' }, 'Nothing is set aside.'), h('p', null, 'No event and no task failed and waits for another attempt or for a person.'));
  return [
    part('By relays', data.relay, data.relay_more, data.relay_problem, 'Relays have set nothing aside.', relayColumns, relayCommands),
    part('By consumers', data.consumers, data.consumers_more, data.consumers_problem, 'Consumers have set nothing aside.', consumerColumns, inboxCommands),
    part('Tasks', data.tasks, data.tasks_more, data.tasks_problem, 'No task failed.', taskColumns, taskCommands),
  ];
}

export function open(place) {
  let seen = null;
  let latest = null;
  const pane = new Pane(place, async (signal) => {
    const data = await get('/aside', { limit }, signal);
    seen = latest;
    return data;
  }, draw);
  const about = h('p', { class: 'quiet' }, 'What failed and holds others up, longest waiting first. Events of other keys are not held up by it.');
  return pane.screen('Set aside', [about], (overview) => {
    latest = asideCount(overview);
    seen ??= latest;
    if (latest !== seen) pane.offer('Changed since, show');
  });
}
