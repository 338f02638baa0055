// Building and changing the page. Text becomes text nodes and nothing else: event keys and error messages are written by
// strangers, so there is no way here to turn a string into markup.

const SVG = 'http://www.w3.org/2000/svg';

function fill(element, content) {
  const attributes = content[0]?.constructor === Object ? content.shift() : {};
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  add(element, content);
  return element;
}

// Characters that are not seen, or that turn the text around them, are shown by their number: a key must not look like
// another one. Line ends and tabs stay.
const unseen = /[\0-\b\v-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

function visible(text) {
  return String(text).replace(unseen, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

function add(element, child) {
  if (Array.isArray(child)) child.forEach((one) => add(element, one));
  else if (child instanceof Node) element.append(child);
  else if (child !== null && child !== undefined && child !== false) element.append(document.createTextNode(visible(child)));
}

// h('a.quiet', {href: '/', click: handler}, 'text', node, [more]): the tag with its classes, attributes if there are any,
// content. Functions become listeners, missing values are left out.
export function h(name, ...content) {
  const [tag, ...classes] = name.split('.');
  const element = document.createElement(tag);
  if (classes.length) element.className = classes.join(' ');
  return fill(element, content);
}

export function svg(tag, ...content) {
  return fill(document.createElementNS(SVG, tag), content);
}

export function byId(id) {
  return document.getElementById(id);
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Makes `old` look like `fresh` and keeps every element that can stay, so that focus, selection and scroll positions
// survive the next look. Listeners of `fresh` are not carried over: what is updated this way contains links and
// data-copy buttons, which the document handles. An element with data-keep looks after its own content.
export function morph(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) {
    old.replaceWith(fresh);
    return;
  }
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  if (old.dataset.keep !== undefined) return;
  for (const { name } of [...old.attributes]) {
    // Whether a <details> is open is the reader's decision.
    if (!fresh.hasAttribute(name) && name !== 'open') old.removeAttribute(name);
  }
  for (const { name, value } of [...fresh.attributes]) {
    if (old.getAttribute(name) !== value && name !== 'open') old.setAttribute(name, value);
  }
  const before = [...old.childNodes];
  const after = [...fresh.childNodes];
  after.forEach((child, i) => (i < before.length ? morph(before[i], child) : old.append(child)));
  before.slice(after.length).forEach((child) => child.remove());
}
