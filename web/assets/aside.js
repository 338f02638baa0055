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

function decide(row, commands, open) {
  return h('div.decide',
    h('p.verbatim', row.error_message || 'No reason is on record.'),
    commands.length > 0 && h('details', { open }, h('summary', 'What to do'), commands.map(command)));
}

function part(title, rows, more, problem, nothing, columns, commands) {
  const head = h('h2', title, rows?.length > 0 && h('span.quiet', ` ${more ? `≥ ${count(rows.length)}` : count(rows.length)}`));
  if (problem) return h('section', head, refused(problem));
  if (!rows?.length) return h('section', head, empty(h('p', nothing)));
  return h('section', head,
    more && h('p.quiet', `The ${count(rows.length)} that wait longest. There are more; the counts below are of these.`),
    groups(rows).map(([code, list]) => h('div.group',
      h('h3', code ? h('code', code) : 'without a code', h('span.quiet', ` ${plural(list.length, 'time')}`)),
      table(`${title}: ${code || 'without a code'}`, list, columns, (row) => decide(row, commands(row), rows.length <= 3)))));
}

function eventColumns(label, name) {
  return [
    ['Since', (e) => when(e.parked_at ?? e.first_failed_at)],
    ['State', (e) => state(e.state, e.skipped ? 'skipped' : e.claimed && 'being tried')],
    [label, (e) => e[name], 'clip'],
    ['Key', (e) => e.key ?? e.unit, 'clip'],
    ['Type', (e) => e.type, 'clip'],
    ['Attempts', (e) => count(e.attempts), 'number'],
    ['Waiting behind', (e) => (e.followers ? h('b', count(e.followers)) : '0'), 'number'],
    ['Next attempt', (e) => (e.gap_until ? ['gap until ', when(e.gap_until)] : when(e.next_attempt_at))],
    ['Event', (e) => idLink('messages', e.id), 'head'],
  ];
}

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
  if (none) return empty(h('p.figure', 'Nothing is set aside.'), h('p', 'No event and no task failed and waits for another attempt or for a person.'));
  return [
    part('By relays', data.relay, data.relay_more, data.relay_problem, 'Relays have set nothing aside.', eventColumns('Route', 'route'), relayCommands),
    part('By consumers', data.consumers, data.consumers_more, data.consumers_problem, 'Consumers have set nothing aside.', eventColumns('Consumer', 'consumer'), inboxCommands),
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
  const about = h('p.quiet', 'What failed and holds others up, longest waiting first. Events of other keys are not held up by it.');
  return pane.screen('Set aside', [about], (overview) => {
    latest = asideCount(overview);
    seen ??= latest;
    if (latest !== seen) pane.offer('Changed since, show');
  });
}
