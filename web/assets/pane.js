// A part of a screen that is read from the server: once when it is opened, then on demand only, so that rows do not move
// under somebody's cursor. What was shown stays while it is read again, and when that fails.
import { h } from './dom.js';
import { live } from './live.js';
import { failureBox } from './parts.js';
import { serverNow, when } from './time.js';

export class Pane {
  // fetch(signal) gets the data, draw(data) makes the nodes. Late answers of a screen that was left are dropped.
  constructor(place, fetch, draw) {
    this.place = place;
    this.fetch = fetch;
    this.draw = draw;
    this.failed = false;
    this.data = null;
    this.news = h('button', { class: 'news', hidden: true, click: () => this.read() });
    this.refresh = h('button', { click: () => this.read() }, 'Refresh');
    this.readAt = h('span.quiet');
    this.tools = h('div.tools', this.news, this.readAt, this.refresh);
    this.trouble = h('div');
    this.content = h('div.content', h('p.loading', 'Reading…'));
    this.root = h('div.pane', this.trouble, this.content);
  }

  async read() {
    this.root.setAttribute('aria-busy', 'true');
    try {
      const data = await this.fetch(this.place.signal);
      if (this.place.signal.aborted) return;
      this.failed = false;
      this.news.hidden = true;
      this.readAt.replaceChildren('read ', when(serverNow().toISOString()));
      this.trouble.replaceChildren();
      this.data = data;
      this.show();
      this.place.settled();
    } catch (failure) {
      if (this.place.signal.aborted) return;
      this.failed = true;
      this.content.querySelector('.loading')?.remove();
      this.trouble.replaceChildren(failureBox(failure, 'This could not be read.', () => this.read()));
    } finally {
      this.root.removeAttribute('aria-busy');
    }
  }

  show() {
    this.flags = live.overview?.command_flags;
    this.content.replaceChildren(...[this.draw(this.data)].flat().filter(Boolean));
  }

  // The first look may come after the content was drawn, and the commands in it need the store's flags.
  look(overview) {
    if (this.data && this.flags !== overview.command_flags) this.show();
  }

  // A screen that is a heading, this part and perhaps something between.
  screen(title, between = [], look = () => {}) {
    return {
      nodes: [h('div.head', h('h1', title), this.tools), ...between, this.root],
      look: (overview) => {
        look(overview);
        this.look(overview);
      },
      refresh: () => this.read(),
      recovered: () => this.recovered(),
      start: () => this.read(),
    };
  }

  // Offers to read again; nothing moves until the reader says so.
  offer(text) {
    this.news.textContent = text;
    this.news.hidden = false;
  }

  recovered() {
    if (this.failed) this.read();
  }
}
