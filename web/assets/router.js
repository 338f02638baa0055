// Every view is a URL. Links of this page are followed without loading it anew.

import { address } from './api.js';

const main = document.getElementById('main');

let screens = [];
let current = null;
let leave = null;
let saving = 0;

// One visit of a screen: `signal` is aborted when it is left.
class Place {
  constructor(url, id, y) {
    this.query = url.searchParams;
    this.id = id; // still encoded, as it stands in the URL
    this.y = y;
    this.left = new AbortController();
    this.signal = this.left.signal;
  }

  // The content is there: where the reader was on this page before, he is again.
  settled() {
    if (this.y) window.scrollTo(0, this.y);
    this.y = 0;
  }
}

function show(moved) {
  const url = new URL(location.href);
  leave?.abort();
  clearTimeout(saving);
  const [path, module] = screens.find(([pattern]) => pattern.test(url.pathname));
  const place = new Place(url, path.exec(url.pathname)[1], history.state?.y ?? 0);
  leave = place.left;
  current = module.open(place);
  main.replaceChildren(...current.nodes);
  // Whoever listens instead of looking hears where he is; at the first view the browser tells.
  const heading = main.querySelector('h1');
  heading.tabIndex = -1;
  if (moved) {
    heading.focus({ preventScroll: true });
    if (!place.y) window.scrollTo(0, 0);
  }
  for (const link of document.querySelectorAll('#nav a')) {
    if (link.getAttribute('href') === `/${url.pathname.split('/')[1]}`) {
      link.setAttribute('aria-current', 'page');
      link.parentElement.scrollLeft = link.offsetLeft + link.offsetWidth / 2 - link.parentElement.clientWidth / 2;
    } else link.removeAttribute('aria-current');
  }
  current.start();
  document.dispatchEvent(new Event('sealane:moved'));
}

export function screen() {
  return current;
}

export function go(address) {
  clearTimeout(saving);
  history.replaceState({ y: window.scrollY }, '');
  if (address !== location.pathname + location.search) history.pushState(null, '', address);
  show(true);
}

export function goWith(path, parameters) {
  go(address(path, parameters));
}

export function startRouting(list) {
  screens = list;
  history.scrollRestoration = 'manual';
  document.addEventListener('click', (event) => {
    const link = event.target.closest?.('a[href^="/"]');
    if (!link || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(link.getAttribute('href'));
  });
  window.addEventListener('popstate', () => show(true));
  window.addEventListener('scroll', () => {
    clearTimeout(saving);
    saving = setTimeout(() => history.replaceState({ y: window.scrollY }, ''), 200);
  }, { passive: true });
  show(false);
}
