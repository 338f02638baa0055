// Small and large charts of the history, drawn as SVG. A look that failed leaves a hole in time, and a hole is shown as
// one: no line crosses it.
import { h, setText, svg } from './dom.js';
import { count, duration, rate, timeOfDay } from './format.js';

// A pause longer than this many intervals is a hole.
const holeAfter = 2.5;

// Runs of neighbouring points that have a value.
function runs(points, value, interval) {
  const list = [];
  let run = null;
  let last = -Infinity;
  for (const point of points) {
    const y = value(point);
    if (!Number.isFinite(y)) {
      run = null;
      continue;
    }
    if (!run || point.t - last > interval * holeAfter) list.push(run = []);
    run.push([point.t, y]);
    last = point.t;
  }
  return list;
}

function line(run, x, y) {
  // A point without neighbours is a dot; with round ends a line of no length is one.
  const path = run.map(([t, v], i) => `${i ? 'L' : 'M'}${x(t).toFixed(1)} ${y(v).toFixed(1)}`).join('');
  return run.length > 1 ? path : `${path}h.01`;
}

export function timed(points) {
  return points.map((point) => ({ ...point, t: Date.parse(point.at) })).filter((point) => Number.isFinite(point.t));
}

// A line without axes; its card says the number. Several values share one scale.
export function sparkline(points, values, interval) {
  const first = points[0]?.t ?? 0;
  const span = Math.max((points.at(-1)?.t ?? 0) - first, 30 * interval);
  const start = (points.at(-1)?.t ?? 0) - span;
  const top = Math.max(1e-9, ...points.flatMap((point) => values.map((value) => value(point) || 0)));
  const x = (t) => ((t - start) / span) * 120;
  const y = (v) => 30 - (v / top) * 28;
  return svg('svg', { class: 'spark', viewBox: '0 0 120 32', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
    values.map((value, i) => svg('path', { class: `series-${i + 1}`, d: runs(points, value, interval).map((run) => line(run, x, y)).join('') })));
}

// The next of 1, 2, 5, 10, ... that is large enough.
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value) ?? value;
}

const steps = [10, 30, 60, 120, 300, 600].map((seconds) => seconds * 1000);

const gutter = 52;
const right = 8;
const panelHeight = 108;
const panelGap = 34;
const axis = 22;

// The history in two panels, rates above and backlog below, with one cursor through both.
export class Chart {
  constructor() {
    this.points = [];
    this.chosen = null; // the time of the point under the cursor
    this.width = 0;
    this.plot = svg('svg', { class: 'plot', 'aria-hidden': 'true' });
    this.stage = h('div', {
      class: 'stage', tabindex: '0', role: 'slider', 'aria-label': 'Moment in the history', 'aria-orientation': 'horizontal',
      pointermove: (event) => this.pointed(event), pointerdown: (event) => this.pointed(event), pointerleave: () => this.choose(null),
      keydown: (event) => this.pressed(event), blur: () => this.choose(null),
    }, this.plot);
    this.readout = h('p', { class: 'readout' });
    this.summary = h('p', { class: 'quiet' });
    this.root = h('div', { class: 'chart', 'data-keep': '' },
      h('div', { class: 'legend' },
        key('series-1', 'appended/s'), key('series-2', 'published/s, all routes'), key('series-3', 'pending, all routes'), key('hole', 'not seen')),
      this.readout, this.stage, this.summary);
    new ResizeObserver(() => {
      const width = Math.floor(this.stage.clientWidth);
      if (width !== this.width) {
        this.width = width;
        this.draw();
      }
    }).observe(this.stage);
  }

  update(history) {
    this.interval = (history?.interval_seconds ?? 2) * 1000;
    this.points = timed(history?.points ?? []);
    this.draw();
    this.describe();
  }

  draw() {
    const { points, width } = this;
    if (width < 100) return;
    const height = 2 * panelHeight + panelGap + axis + 8;
    const last = points.at(-1)?.t ?? Date.now();
    // A young history does not fill the chart with two points.
    const first = Math.min(points[0]?.t ?? last, last - 120000);
    const x = (t) => gutter + ((t - first) / (last - first)) * (width - gutter - right);
    this.x = x;
    const rates = this.panel(8, points, [(p) => p.appended_per_second, (p) => p.published_per_second], ['series-1', 'series-2'], rate);
    const backlog = this.panel(8 + panelHeight + panelGap, points, [(p) => p.pending], ['series-3'], count, true);
    const bottom = 8 + 2 * panelHeight + panelGap;
    const step = steps.find((size) => (last - first) / size <= Math.max(2, width / 90)) ?? steps.at(-1);
    const ticks = [];
    for (let t = Math.ceil(first / step) * step; t <= last; t += step) ticks.push(t);
    const holes = points.flatMap((point, i) => (i && point.t - points[i - 1].t > this.interval * holeAfter ? [[points[i - 1].t, point.t]] : []));
    this.plot.setAttribute('viewBox', `0 0 ${width} ${height}`);
    this.plot.setAttribute('width', width);
    this.plot.setAttribute('height', height);
    this.cursor = svg('g');
    this.plot.replaceChildren(...[
      svg('defs', null, svg('pattern', { id: 'hatch', width: 6, height: 6, patternUnits: 'userSpaceOnUse' }, svg('path', { d: 'M0 6L6 0', class: 'hatch' }))),
      holes.map(([from, to]) => [8, 8 + panelHeight + panelGap].map((y) =>
        svg('rect', { x: x(from), y, width: x(to) - x(from), height: panelHeight, fill: 'url(#hatch)' }))),
      ticks.map((t) => [
        svg('path', { class: 'grid', d: `M${x(t)} 8V${8 + panelHeight}M${x(t)} ${bottom - panelHeight}V${bottom}` }),
        x(t) < width - 18 && svg('text', { class: 'tick', x: x(t), y: bottom + 16, 'text-anchor': 'middle' }, timeOfDay(new Date(t)).slice(0, step < 60000 ? 8 : 5)),
      ]),
      rates, backlog,
      svg('text', { class: 'panel', x: gutter, y: 8 + panelHeight + panelGap - 10 }, 'pending'),
      this.cursor,
    ].flat(3).filter(Boolean));
    this.mark();
  }

  // One panel: axis with three labels, and a line, or an area, for each value.
  panel(top, points, values, names, format, area = false) {
    const high = roundUp(Math.max(1, ...points.flatMap((point) => values.map((value) => value(point) || 0))));
    const floor = top + panelHeight;
    const y = (v) => floor - (v / high) * panelHeight;
    if (names[0] === 'series-1') this.rateY = y;
    else this.pendingY = y;
    return [
      [0, high / 2, high].map((v) => [
        svg('path', { class: v ? 'grid' : 'axis', d: `M${gutter} ${y(v)}H${this.width - right}` }),
        (v === 0 || v === high || high > 1) && svg('text', { class: 'tick', x: gutter - 8, y: y(v) + 4, 'text-anchor': 'end' }, format(v)),
      ]),
      values.map((value, i) => {
        const list = runs(points, value, this.interval);
        return [
          area && svg('path', { class: 'area', d: list.map((run) => `${line(run, this.x, y)}L${this.x(run.at(-1)[0]).toFixed(1)} ${floor}L${this.x(run[0][0]).toFixed(1)} ${floor}Z`).join('') }),
          svg('path', { class: names[i], d: list.map((run) => line(run, this.x, y)).join('') }),
        ];
      }),
    ].flat(3);
  }

  chosenIndex() {
    if (this.chosen === null) return -1;
    let best = -1;
    this.points.forEach((point, i) => {
      if (best < 0 || Math.abs(point.t - this.chosen) < Math.abs(this.points[best].t - this.chosen)) best = i;
    });
    return best;
  }

  choose(t) {
    this.chosen = t;
    this.mark();
  }

  pointed(event) {
    if (this.points.length === 0 || !this.x) return;
    const at = event.clientX - this.stage.getBoundingClientRect().left;
    let best = this.points[0];
    for (const point of this.points) if (Math.abs(this.x(point.t) - at) < Math.abs(this.x(best.t) - at)) best = point;
    this.choose(best.t);
  }

  pressed(event) {
    const end = this.points.length - 1;
    const now = this.chosen === null ? end : this.chosenIndex();
    const next = { ArrowLeft: now - 1, ArrowDown: now - 1, ArrowRight: now + 1, ArrowUp: now + 1, PageDown: now - 15, PageUp: now + 15, Home: 0, End: end }[event.key];
    if (next === undefined || end < 0) return;
    event.preventDefault();
    this.choose(this.points[Math.min(end, Math.max(0, next))].t);
  }

  // The cursor, and the numbers of its moment: of the newest one when nobody points at another.
  mark() {
    const i = this.chosenIndex();
    const point = this.points[i < 0 ? this.points.length - 1 : i];
    const parts = point ? [
      ['', timeOfDay(new Date(point.t))], ['appended', `${rate(point.appended_per_second)}/s`], ['published', `${rate(point.published_per_second)}/s`],
      ['pending', count(point.pending)], ['oldest', duration(point.oldest_pending_seconds)], ['set aside', count(point.aside)],
    ] : [['', 'No history yet.']];
    this.readout.replaceChildren(...parts.map(([name, value]) => h('span', null, name && `${name} `, h('b', null, value))));
    this.stage.setAttribute('aria-valuemin', 0);
    this.stage.setAttribute('aria-valuemax', Math.max(0, this.points.length - 1));
    this.stage.setAttribute('aria-valuenow', i < 0 ? Math.max(0, this.points.length - 1) : i);
    this.stage.setAttribute('aria-valuetext', parts.map(([name, value]) => `${name} ${value}`.trim()).join(', '));
    if (!this.cursor) return;
    const dot = (value, y) => Number.isFinite(value) && svg('circle', { class: 'cursor', cx: this.x(point.t), cy: y(value), r: 3 });
    this.cursor.replaceChildren(...(i < 0 ? [] : [
      svg('path', { class: 'cursor', d: `M${this.x(point.t)} 8v${2 * panelHeight + panelGap}` }),
      dot(point.appended_per_second, this.rateY), dot(point.published_per_second, this.rateY), dot(point.pending, this.pendingY),
    ].filter(Boolean)));
  }

  // The chart in words, for those who do not see it and those who read faster than they look.
  describe() {
    const { points } = this;
    if (points.length < 2) {
      setText(this.summary, 'The history begins when the dashboard is started.');
      return;
    }
    const mean = (value) => {
      const list = points.map(value).filter(Number.isFinite);
      return list.length ? list.reduce((sum, v) => sum + v, 0) / list.length : NaN;
    };
    const peak = points.reduce((best, point) => (point.pending > best.pending ? point : best));
    const holes = points.filter((point, i) => i && point.t - points[i - 1].t > this.interval * holeAfter).length;
    setText(this.summary, `The last ${duration((points.at(-1).t - points[0].t) / 1000)}: on average ${rate(mean((p) => p.appended_per_second))} appended and ${
      rate(mean((p) => p.published_per_second))} published per second; at most ${count(peak.pending)} pending, at ${timeOfDay(new Date(peak.t))}${
      holes ? `; the store was out of sight ${holes === 1 ? 'once' : `${count(holes)} times`}` : ''}.`);
  }
}

function key(name, text) {
  return h('span', null, svg('svg', { width: 26, height: 10, 'aria-hidden': 'true' },
    name === 'hole' ? svg('rect', { width: 26, height: 10, fill: 'url(#hatch)', class: 'swatch' }) : svg('path', { class: name, d: 'M1 5H25' })), text);
}
