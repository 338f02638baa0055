// The browser, watched: whatever goes wrong in a page that no check looks at is collected.
import { createRequire } from 'node:module';
import { readFile } from 'node:fs/promises';
import path from 'node:path';

export class Browser {
  static async start(program, modules) {
    const require = createRequire(path.join(modules, 'package.json'));
    const browser = new Browser();
    const { chromium } = require('playwright-core');
    browser.axe = await readFile(require.resolve('axe-core/axe.min.js'), 'utf8');
    // chromium's own sandbox does not work for root.
    browser.chromium = await chromium.launch({ executablePath: program, args: process.getuid() === 0 ? ['--no-sandbox'] : [] });
    browser.troubles = [];
    return browser;
  }

  // A new window at `url`. Troubles it may have on purpose are those that `expected` matches.
  async open(url, { width = 1280, height = 800, scheme = 'light', expected = /^$/ } = {}) {
    const context = await this.chromium.newContext({ viewport: { width, height }, colorScheme: scheme });
    await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: url });
    context.setDefaultTimeout(15000);
    const page = await context.newPage();
    const note = (text) => {
      if (!expected.test(text)) this.troubles.push(text);
    };
    page.on('console', (message) => ['error', 'warning'].includes(message.type()) && note(`console: ${message.text()} (${page.url()})`));
    page.on('pageerror', (error) => note(`error: ${error.message} (${page.url()})`));
    page.on('dialog', (dialog) => {
      note(`dialog: ${dialog.message()}`);
      dialog.dismiss();
    });
    page.on('request', (request) => new URL(request.url()).origin !== url && note(`request to elsewhere: ${request.url()}`));
    await page.exposeFunction('noteViolation', note);
    await page.addInitScript(() => document.addEventListener('securitypolicyviolation', (event) =>
      window.noteViolation(`policy: ${event.violatedDirective} ${event.blockedURI} (${location.pathname})`)));
    return page;
  }

  // Serious and critical findings of axe on what the page shows now.
  async findings(page) {
    await page.evaluate(this.axe);
    const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'], selectors: false }));
    return violations.filter(({ impact }) => impact === 'serious' || impact === 'critical').map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(' | ')}`);
  }

  async close() {
    await this.chromium.close();
  }
}
