// Small and large charts of the history, drawn as SVG. A look that failed leaves a hole in time, and a hole is shown as
// one: no line crosses it.
import { h, setText, svg } from './dom.js';
import { count, duration, rate, timeOfDay } from './format.js';

// A pause longer than this many intervals is a hole.
const holeAfter = 2.5;

export function timed(points) {
  return (points ?? []).map((point) => ({ ...point, t: Date.parse(point.at), oldest: point.oldest_pending_seconds ?? 0 }));
}

function highest(points, names) {
  return Math.max(...points.flatMap((point) => names.map((name) => point[name] || 0)), 0);
}

// Runs of neighbouring points that have a value.
function runs(points, name, interval) {
  const list = [];
  let last = null;
  for (const point of points) {
    if (!Number.isFinite(point[name])) continue;
    if (!last || point.t - last.t > interval * holeAfter) list.push([]);
    list.at(-1).push(point);
    last = point;
  }
  return list;
}

// A point without neighbours is a dot; with round ends a line of no length is one.
function line(run, name, x, y) {
  const path = run.map((point) => `${x(point.t).toFixed(1)} ${y(point[name]).toFixed(1)}`).join('L');
  return `M${path}${run.length > 1 ? '' : 'h.01'}`;
}

// A line without axes; its card says the number. Several values share one scale.
export function sparkline(points, names, interval) {
  const end = points.at(-1)?.t ?? 0;
  const span = Math.max(end - (points[0]?.t ?? 0), 30 * interval);
  const top = highest(points, names) || 1;
  const x = (t) => 120 - ((end - t) / span) * 120;
  const y = (v) => 30 - (v / top) * 28;
  return svg('svg', { class: 'spark', viewBox: '0 0 120 32', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
    names.map((name, i) => svg('path', { class: `series-${i + 1}`, d: runs(points, name, interval).map((run) => line(run, name, x, y)).join('') })));
}

// The next of 1, 2, 5, 10, ... that is large enough.
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value);
}

const left = 52;
const right = 8;
const tall = 108;
const panels = [
  { top: 8, names: ['appended_per_second', 'published_per_second'], first: 1 },
  { top: 150, names: ['pending'], first: 3, area: true },
];
const bottom = panels[1].top + tall;
const height = bottom + 22;
const steps = [10, 30, 60, 120, 300, 600].map((seconds) => seconds * 1000);

function key(name, text) {
  return h('span', svg('svg', { width: 26, height: 10, 'aria-hidden': 'true' },
    name ? svg('path', { class: name, d: 'M1 5H25' }) : svg('rect', { width: 26, height: 10, fill: 'url(#hatch)' })), text);
}

// The history in two panels, rates above and backlog below, with one cursor through both.
export class Chart {
  constructor() {
    this.points = [];
    this.chosen = null; // the time of the point under the cursor
    this.plot = svg('svg', { class: 'plot', height, 'aria-hidden': 'true' });
    this.stage = h('div.stage', {
      tabindex: 0, role: 'slider', 'aria-label': 'Moment in the history', 'aria-valuemin': 0,
      pointermove: (event) => this.pointed(event), pointerdown: (event) => this.pointed(event), pointerleave: () => this.choose(null),
      keydown: (event) => this.pressed(event), blur: () => this.choose(null),
    }, this.plot);
    this.readout = h('p.readout');
    this.summary = h('p.quiet');
    this.root = h('div.chart', { 'data-keep': '' },
      h('div.legend', key('series-1', 'appended/s'), key('series-2', 'published/s, all routes'), key('series-3', 'pending, all routes'), key('', 'not seen')),
      this.readout, this.stage, this.summary);
    new ResizeObserver(() => this.draw()).observe(this.stage);
  }

  update(history) {
    this.interval = history.interval_seconds * 1000;
    this.points = timed(history.points);
    this.holes = this.points.flatMap(({ t }, i) => (i && t - this.points[i - 1].t > this.interval * holeAfter ? [[this.points[i - 1].t, t]] : []));
    this.draw();
    this.describe();
  }

  draw() {
    const { points } = this;
    const width = this.stage.clientWidth;
    if (width < 100 || !this.interval) return;
    const end = points.at(-1)?.t ?? Date.now();
    // A young history does not fill the chart with two points.
    const start = Math.min(points[0]?.t ?? end, end - 120000);
    const x = (t) => left + ((t - start) / (end - start)) * (width - left - right);
    this.x = x;
    const step = steps.find((size) => (end - start) / size <= Math.max(2, width / 90)) ?? steps.at(-1);
    const ticks = [];
    for (let t = Math.ceil(start / step) * step; t <= end; t += step) ticks.push(t);
    this.cursor = svg('g');
    this.plot.setAttribute('width', width);
    this.plot.replaceChildren(
      svg('defs', svg('pattern', { id: 'hatch', width: 6, height: 6, patternUnits: 'userSpaceOnUse' }, svg('path', { d: 'M0 6L6 0', class: 'axis' }))),
      svg('g', panels.map((panel) => this.panel(panel, width, ticks))),
      svg('g', ticks.filter((t) => x(t) < width - 30).map((t) =>
        svg('text', { x: x(t), y: bottom + 16, 'text-anchor': 'middle' }, timeOfDay(new Date(t)).slice(0, step < 60000 ? 8 : 5)))),
      svg('text', { x: left, y: panels[1].top - 10 }, 'pending'), this.cursor);
    this.mark();
  }

  panel(panel, width, ticks) {
    const { points, x } = this;
    const { top, names, first, area } = panel;
    const floor = top + tall;
    const high = roundUp(Math.max(1, highest(points, names)));
    const y = (v) => floor - (v / high) * tall;
    panel.y = y;
    return [
      this.holes.map(([from, to]) => svg('rect', { x: x(from), y: top, width: x(to) - x(from), height: tall, fill: 'url(#hatch)' })),
      svg('path', { class: 'grid', d: ticks.map((t) => `M${x(t)} ${top}v${tall}`).join('') }),
      [0, high / 2, high].map((v) => [
        svg('path', { class: v ? 'grid' : 'axis', d: `M${left} ${y(v)}H${width - right}` }),
        svg('text', { x: left - 8, y: y(v) + 4, 'text-anchor': 'end' }, Number.isInteger(v) && count(v)),
      ]),
      names.map((name, i) => {
        const list = runs(points, name, this.interval);
        return [
          area && svg('path', { class: 'area', d: list.map((run) => `${line(run, name, x, y)}V${floor}H${x(run[0].t)}Z`).join('') }),
          svg('path', { class: `series-${first + i}`, d: list.map((run) => line(run, name, x, y)).join('') }),
        ];
      }),
    ];
  }

  // The place in the history that is nearest to a time; the last one when there is none.
  nearest(t) {
    if (t === null) return this.points.length - 1;
    return this.points.reduce((best, point, i) => (Math.abs(point.t - t) < Math.abs(this.points[best].t - t) ? i : best), 0);
  }

  choose(t) {
    this.chosen = t;
    this.mark();
  }

  pointed(event) {
    if (!this.x) return;
    const [from, to] = [this.x(0), this.x(1)];
    this.choose((event.clientX - this.stage.getBoundingClientRect().left - from) / (to - from));
  }

  pressed(event) {
    const end = this.points.length - 1;
    const now = this.nearest(this.chosen);
    const next = { ArrowLeft: now - 1, ArrowRight: now + 1, PageDown: now - 15, PageUp: now + 15, Home: 0, End: end }[event.key];
    if (next === undefined || end < 0) return;
    event.preventDefault();
    this.choose(this.points[Math.min(end, Math.max(0, next))].t);
  }

  // The cursor, and the numbers of its moment: of the newest one when nobody points at another.
  mark() {
    const i = this.nearest(this.chosen);
    const point = this.points[i];
    const parts = point ? [
      ['', timeOfDay(new Date(point.t))], ['appended', `${rate(point.appended_per_second)}/s`], ['published', `${rate(point.published_per_second)}/s`],
      ['pending', count(point.pending)], ['oldest', duration(point.oldest_pending_seconds)], ['set aside', count(point.aside)],
    ] : [['', 'No history yet.']];
    this.readout.replaceChildren(...parts.map(([name, value]) => h('span', name, ' ', h('b', value))));
    this.stage.setAttribute('aria-valuemax', Math.max(0, this.points.length - 1));
    this.stage.setAttribute('aria-valuenow', Math.max(0, i));
    this.stage.setAttribute('aria-valuetext', parts.map((part) => part.join(' ').trim()).join(', '));
    if (!this.cursor || !point) return;
    const x = this.x(point.t);
    this.cursor.replaceChildren(...(this.chosen === null ? [] : [
      svg('path', { class: 'cursor', d: `M${x} 8V${bottom}` }),
      ...panels.flatMap(({ names, y }) => names.filter((name) => Number.isFinite(point[name])).map((name) => svg('circle', { class: 'cursor', cx: x, cy: y(point[name]), r: 3 }))),
    ]));
  }

  // The chart in words, for those who do not see it and those who read faster than they look.
  describe() {
    const { points, holes } = this;
    if (points.length < 2) {
      setText(this.summary, 'The history begins when the dashboard is started.');
      return;
    }
    const mean = (name) => {
      const list = points.map((point) => point[name]).filter(Number.isFinite);
      return rate(list.reduce((sum, v) => sum + v, 0) / list.length);
    };
    const peak = points.reduce((best, point) => (point.pending > best.pending ? point : best));
    setText(this.summary, `The last ${duration((points.at(-1).t - points[0].t) / 1000)}: on average ${mean('appended_per_second')} appended and ${
      mean('published_per_second')} published per second; at most ${count(peak.pending)} pending, at ${timeOfDay(new Date(peak.t))}.${
      holes.length ? ` The store was out of sight ${holes.length === 1 ? 'once' : `${count(holes.length)} times`}.` : ''}`);
  }
}
