// Pieces that several screens are made of.
import { address } from './api.js';
import { h } from './dom.js';
import { dash } from './format.js';
import { goWith } from './router.js';

// Every state has a mark of its own shape, so that colour is never the only sign.
const marks = {
  PUBLISHED: ['✓', 'good'], PROCESSED: ['✓', 'good'], SUCCEEDED: ['✓', 'good'],
  PENDING: ['○', 'calm'], PUBLISHING: ['◐', 'calm'], SENDING: ['◐', 'calm'],
  RECEIVED: ['◔', 'notice'], WAITING: ['◔', 'notice'], GAP: ['⋯', 'notice'], FAILED: ['▲', 'notice'],
  DEAD: ['✕', 'wrong'],
  live: ['✓', 'good'], paused: ['‖', 'notice'], expired: ['✕', 'wrong'], none: ['✕', 'wrong'],
  DISCARDED: ['⊘', 'quiet'], SKIPPED: ['⊘', 'quiet'], IGNORED: ['–', 'quiet'],
};

export function state(name, note) {
  const [mark, level] = marks[name] ?? ['?', 'quiet'];
  return h('span', { class: `state ${level}` }, h('span.mark', { 'aria-hidden': 'true' }, mark), ' ', name ?? dash,
    note && h('span.quiet', ` (${note})`));
}

// table(caption, rows, columns, more): a column is [label, cell(row), kind], kind one of number, wide, clip and head, or
// several. On a narrow screen the rows become cards, which takes the table's semantics away in some browsers; the roles give
// them back. `more(row)` adds a row of full width below.
export function table(caption, rows, columns, more) {
  const cell = (row, [label, content, kind = '']) => {
    let value = content(row);
    if (value === undefined || value === null || value === '') value = dash;
    const head = kind.includes('head');
    const name = kind.replace('head', '').trim();
    return h(head ? 'th' : 'td', {
      class: value === dash ? `${name} none` : name || null, 'data-label': label, scope: head && 'row', role: head ? 'rowheader' : 'cell',
      title: kind.includes('clip') && typeof value === 'string' && value.length > 16 && value,
    }, h('span', value));
  };
  const lines = rows.map((row) => {
    const below = more?.(row);
    return [
      h('tr', { role: 'row', class: below && 'joined' }, columns.map((column) => cell(row, column))),
      below && h('tr', { role: 'row', class: 'below' }, h('td', { colspan: columns.length, role: 'cell' }, below)),
    ];
  });
  return h('table', { role: 'table' },
    h('caption.unseen', caption),
    h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, columns.map(([label, , kind]) =>
      h('th', { scope: 'col', role: 'columnheader', class: kind?.includes('number') && 'number' }, label)))),
    h('tbody', { role: 'rowgroup' }, lines));
}

export function section(title, ...content) {
  return h('section', h('h2', title), content);
}

export function empty(...content) {
  return h('div.empty', content);
}

// A failure of the server, verbatim, with its hint.
export function failureBox(failure, title, again) {
  return h('div.failure', { role: 'alert' },
    h('p', h('strong', title), ' ', h('code', failure.code)),
    h('p.verbatim', failure.message),
    failure.hint && h('p.hint', failure.hint),
    again && h('p', h('button', { click: again }, 'Try again')));
}

// What this user may not look at is said in its place.
export function refused(problem) {
  return empty(h('p', error(problem.code, problem.message)), problem.hint && h('p.hint', problem.hint));
}

// The document copies data-copy; see copy.js.
export function copyButton(text, what) {
  return h('button', { class: 'copy', 'data-copy': text, 'aria-label': `Copy ${what}` }, 'Copy');
}

export function command({ text, label, note }) {
  return h('div.command',
    label && h('p', h('strong', label), note && ` ${note}`),
    h('div.line', h('code', { tabindex: '0' }, text), copyButton(text, `the command ${label ? `to ${label.toLowerCase()}` : ''}`.trim())));
}

// facts([[name, value, text to copy], ...]); what has no value is left out.
export function facts(list) {
  return h('dl.facts', list.filter(([, value]) => value !== undefined && value !== null && value !== '').map(([name, value, text]) =>
    h('div', h('dt', name), h('dd', h('span', { class: text ? 'verbatim mono' : 'verbatim' }, value), text && copyButton(String(text), name)))));
}

// The random end of an id tells neighbours apart, its beginning is the time.
export function idLink(screen, id) {
  return h('a', { href: `/${screen}/${encodeURIComponent(id)}`, class: 'mono', title: id }, `…${id.slice(-12)}`);
}

function field(query, [name, label, options]) {
  const chosen = query.get(name) ?? '';
  if (!Array.isArray(options)) {
    return h('label.field', h('span', label), h('input', { name, value: chosen, autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false', placeholder: options }));
  }
  // A value of the URL that is not offered is shown nevertheless, because it is what was asked for.
  const list = options.includes(chosen) || !chosen ? options : [...options, chosen];
  return h('label.field', h('span', label), h('select', { name },
    h('option', { value: '' }, name === 'limit' ? '50' : 'any'), list.map((value) => h('option', { value, selected: value === chosen }, value))));
}

// A filter whose fields are parameters of the URL: [name, label, choices or an example]. `rare` ones are folded away unless
// they are used; `fixed` ones stay as they are.
export function filter(path, query, fields, rare = [], fixed = {}) {
  const draw = (list) => h('div.fields', list.map((one) => field(query, one)));
  const used = (list) => list.some(([name]) => query.get(name));
  return h('form.filter', {
    'aria-label': 'Filter',
    submit: (event) => {
      event.preventDefault();
      const values = [...new FormData(event.target)].map(([name, value]) => [name, value.trim()]);
      goWith(path, { ...fixed, ...Object.fromEntries(values) });
    },
  }, draw(fields), rare.length > 0 && h('details', { open: used(rare) }, h('summary', 'More filters'), draw(rare)),
    h('div.buttons', h('button.primary', 'Filter'), used([...fields, ...rare]) && h('a', { href: address(path, fixed) }, 'Clear')));
}

export const rowsField = ['limit', 'Rows', ['100', '200']];

export function asked(query, ...lists) {
  return Object.fromEntries(lists.flat().map(([name]) => [name, query.get(name)]));
}

// A code and what was said with it, verbatim.
export function error(code, message) {
  if (!code && !message) return dash;
  return [code && h('code', code), code && ' ', message && h('span.verbatim', message)];
}
