// How the store stands now, and how it came to that.
import { Chart, sparkline, timed } from './chart.js';
import { h, morph } from './dom.js';
import { count, counted, dash, duration, milliseconds, plural, rate } from './format.js';
import { live, p99, worst } from './live.js';
import { empty, refused, section, state, table } from './parts.js';
import { asideCount } from './shell.js';
import { when } from './time.js';

const sum = (list, value) => list.reduce((total, item) => total + (value(item) ?? 0), 0);

function card(title, value, note, spark) {
  return h('div.card', h('h2', title), h('p.figure', value), h('p.quiet', note), spark);
}

function cards(overview) {
  const { routes } = overview;
  const interval = overview.history.interval_seconds * 1000;
  const points = timed(overview.history.points);
  const oldest = worst(routes, (route) => route.oldest_pending_seconds);
  const exact = routes.every((route) => route.pending_exact);
  const known = routes.filter((route) => Number.isFinite(route.published_per_second));
  const slow = worst(routes, p99);
  const several = routes.length > 1 ? `, ${plural(routes.length, 'route')} together` : '';
  return h('div.cards',
    card('Oldest pending', oldest ? duration(oldest.oldest_pending_seconds) : 'none',
      oldest ? `since its commit, route ${oldest.route}` : 'everything is published or set aside', sparkline(points, ['oldest'], interval)),
    card('Pending', counted(sum(routes, (route) => route.pending), exact), `not yet published${several}`, sparkline(points, ['pending'], interval)),
    card('Appended and published', [rate(overview.appended_per_second), h('span.unit', '/s in '), known.length ? rate(sum(known, (route) => route.published_per_second)) : dash, h('span.unit', '/s out')],
      `events per second${several}`, sparkline(points, ['appended_per_second', 'published_per_second'], interval)),
    card('Commit to publish', slow ? [h('span.unit', 'p50 '), milliseconds(slow.latency_ms.p50), h('span.unit', ' p99 '), milliseconds(slow.latency_ms.p99)] : dash,
      slow ? `newest ${plural(slow.latency_ms.events, 'event')}, route ${slow.route}; p99 drawn` : 'nothing was published yet', sparkline(points, ['p99_ms'], interval)));
}

function asideSummary(overview) {
  const { routes } = overview;
  const consumers = overview.consumers ?? [];
  if (asideCount(overview) === 0 && !overview.consumers_problem) return section('Set aside', empty(h('p', 'Nothing is set aside.')));
  const rows = [
    ...routes.map((r) => ({ where: `route ${r.route}`, dead: r.dead, others: r.failed + r.waiting, exact: r.aside_exact })),
    ...consumers.map((c) => ({ where: `consumer ${c.consumer}`, dead: c.dead, others: c.parked - c.dead })),
    ...(overview.tasks ? [{ where: 'tasks', dead: overview.tasks.dead, others: overview.tasks.failed, exact: overview.tasks.exact }] : []),
  ].filter((row) => row.dead + row.others > 0);
  return section('Set aside', table('What is set aside, by place', rows, [
    ['Where', (row) => row.where, 'head wide'],
    ['Dead', (row) => (row.dead ? h('b', counted(row.dead, row.exact)) : counted(row.dead, row.exact)), 'number'],
    ['Trying again or waiting', (row) => counted(row.others, row.exact), 'number'],
  ]), h('p.after', h('a', { href: '/aside' }, 'What, why, and what to do about it')));
}

function routesTable(overview) {
  const { routes } = overview;
  if (routes.length === 0) return section('Routes', empty(h('p', 'The store has no routes.')));
  return section('Routes', table('Routes', routes, [
    ['Route', (r) => [r.route, r.paused && [' ', state('paused')]], 'head wide'],
    ['Pending', (r) => (r.pending ? h('a', { href: `/messages?status=PENDING&route=${encodeURIComponent(r.route)}` }, counted(r.pending, r.pending_exact)) : counted(r.pending, r.pending_exact)), 'number'],
    ['Oldest', (r) => duration(r.oldest_pending_seconds), 'number'],
    ['Published/s', (r) => rate(r.published_per_second), 'number'],
    ['p50', (r) => milliseconds(r.latency_ms?.p50), 'number'],
    ['p99', (r) => milliseconds(r.latency_ms?.p99), 'number'],
    ['Failed', (r) => counted(r.failed, r.aside_exact), 'number'],
    ['Dead', (r) => counted(r.dead, r.aside_exact), 'number'],
    ['Lanes leased', (r) => `${count(r.leased)} of ${count(r.lanes)}`, 'number'],
    ['Relays', (r) => (r.live_relays ? count(r.live_relays) : state('none')), 'number'],
  ]));
}

function relaysTable(overview) {
  const { relays } = overview;
  if (relays.length === 0) return section('Relays', empty(h('p', 'No relay has leased anything. Start one: ', h('code', 'sealane relay'))));
  return section('Relays', table('Relays', relays, [
    ['Relay', (r) => h('span.mono', r.owner), 'head wide'],
    ['Route', (r) => r.route],
    ['Lease', (r) => state(r.live ? 'live' : 'expired')],
    ['Lanes', (r) => count(r.lanes), 'number'],
    ['Started', (r) => when(r.started_at), 'number'],
    ['Expires', (r) => when(r.expires_at), 'number'],
  ]));
}

function consumersTable(overview) {
  if (overview.consumers_problem) return section('Consumers', refused(overview.consumers_problem));
  const consumers = overview.consumers ?? [];
  if (consumers.length === 0) return section('Consumers', empty(h('p', 'No consumer keeps an inbox in this store.')));
  return section('Consumers', consumersSummary(consumers));
}

export function consumersSummary(consumers, chosen) {
  const done = ['PROCESSED', 'IGNORED', 'SKIPPED'];
  return table('Consumers', consumers, [
    ['Consumer', (c) => h('a', { href: `/consumers?consumer=${encodeURIComponent(c.consumer)}`, 'aria-current': c.consumer === chosen && 'true' }, c.consumer), 'head wide'],
    ['Keeps', (c) => (c.mode === 'offsets' ? 'positions' : 'receipts')],
    ['Done', (c) => (c.mode === 'offsets' ? dash : counted(sum(done, (name) => c.receipts[name]), !c.more_receipts)), 'number'],
    ['Parked', (c) => count(c.parked), 'number'],
    ['Dead', (c) => (c.dead ? h('b', count(c.dead)) : '0'), 'number'],
    ['Gaps', (c) => count(c.gaps), 'number'],
    ['Longest parked', (c) => when(c.oldest_parked_at), 'number'],
    ['Partitions', (c) => count(c.partitions.length), 'number'],
    ['Stopped', (c) => (c.stopped ? h('b', count(c.stopped)) : '0'), 'number'],
  ]);
}

function tenantsTable(overview) {
  const { tenants } = overview;
  if (tenants.length === 0) return null;
  return section('Tenants with rules', table('Tenants with rules', tenants, [
    ['Tenant', (t) => h('a', { href: `/messages?tenant=${encodeURIComponent(t.tenant)}` }, t.tenant), 'head wide'],
    ['Route', (t) => t.route],
    ['Flow', (t) => (t.paused ? state('paused') : 'flowing')],
    ['At most', (t) => (t.rate_max ? `${count(t.rate_max)}/s` : 'no limit'), 'number'],
    ['Weight', (t) => count(t.weight), 'number'],
  ]));
}

function whole(part) {
  part.className = 'whole';
  return part;
}

export function open(place) {
  const chart = new Chart();
  const above = h('div', h('p.loading', 'Reading…'));
  const history = h('section', { hidden: true }, h('h2', 'History'), chart.root);
  const below = h('div.columns');
  const look = (overview) => {
    const fresh = !overview.as_of;
    morph(above, h('div', fresh ? empty(h('p', 'The store has not been seen yet.')) : cards(overview)));
    history.hidden = fresh;
    chart.update(overview.history);
    morph(below, h('div.columns', !fresh && [
      whole(routesTable(overview)), asideSummary(overview), relaysTable(overview), whole(consumersTable(overview)), tenantsTable(overview)]));
    place.settled();
  };
  return {
    nodes: [h('h1.unseen', 'Overview'), above, history, below],
    look,
    start: () => live.overview && look(live.overview),
  };
}
