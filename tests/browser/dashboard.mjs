// The dashboard as a person uses it, on the store of a demo: node dashboard.mjs SEALANE DIR CHROMIUM MODULES
import { mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { Browser } from './browser.mjs';
import { check, eventually, expect, same, verdict } from './checks.mjs';
import { Demo } from './demo.mjs';

const [sealane, folder, program, modules] = process.argv.slice(2);
const hostile = '<img src=x onerror=alert(1)>';

// Texts of a table's cells by the labels of its columns, for every row that is one.
const rows = (page, caption) => page.locator(`table:has(caption:text-is(${JSON.stringify(caption)})) tbody tr:not(.below)`).evaluateAll((list) =>
  list.map((row) => Object.fromEntries([...row.children].map((cell) => [cell.dataset.label, cell.innerText.trim()]))));
const card = (page, title) => page.locator('.card', { has: page.getByRole('heading', { name: title, exact: true }) }).locator('.figure').innerText();
const number = (text) => Number(text.replaceAll(',', ''));
const ready = (page) => page.waitForFunction(() => !document.querySelector('.loading, [aria-busy]') && document.querySelector('#store').textContent);
const visit = async (page, address) => {
  await page.goto(address);
  await ready(page);
};
const ids = (page) => page.locator('main tbody a[href^="/messages/"]').evaluateAll((links) => links.map((link) => link.title));
const title = (page) => page.locator('h1').innerText();

const waiting = async (demo) => (await demo.json('messages', 'list', '--status', 'PENDING', '--route', 'again', '--limit', '500')).messages;

async function prepare(demo) {
  // The relay hears of a pause a moment later: it has when an event stays behind on this route that the other has shipped.
  await demo.run('route', 'pause', 'again', '--reason', 'a test');
  await eventually('the route stands still', async () => {
    const id = (await demo.run('emit', '--topic', 'notes', '--key', 'n-probe', '--type', 'Noted', '--payload', '{}')).trim().split('\n')[0];
    await eventually('the other route ships', async () => (await demo.json('messages', 'list', '--status', 'PUBLISHED', '--route', 'main', '--key', 'n-probe')).messages.some((one) => one.id === id));
    await new Promise((resolve) => setTimeout(resolve, 1000));
    return (await waiting(demo)).some((one) => one.id === id);
  }, 60);
  const lines = Array.from({ length: 120 }, (_, i) => JSON.stringify({ topic: 'notes', key: `n-${i}`, type: 'Noted', payload: { i } }));
  const file = path.join(demo.home, 'notes.jsonl');
  await writeFile(file, `${lines.join('\n')}\n`);
  await demo.run('emit', '--jsonl', file);
  await demo.run('emit', '--topic', 'notes', '--key', hostile, '--type', 'Noted', '--payload', '{}', '--header', `from=${hostile}`);
  const { parked } = await demo.json('inbox', 'parked');
  const task = await demo.run('tasks', 'enqueue', '--target', 'billing', '--operation', '/charges', '--key', hostile, '--request', '{"cents":500}');
  return { poison: parked.find(({ error_code: code }) => code === 'negative_amount').id, task: task.trim().split('\n')[0] };
}

async function looks(browser, demo, { poison, task }) {
  const screens = { overview: '/', messages: '/messages', filtered: '/messages?key=o-poison&since=1h', message: `/messages/${poison}`, aside: '/aside', consumers: '/consumers', tasks: '/tasks', task: `/tasks/${task}`, audit: '/audit' };
  for (const [width, height] of [[1280, 800], [360, 740]]) {
    for (const scheme of ['light', 'dark']) {
      const page = await browser.open(demo.url, { width, height, scheme });
      for (const [name, address] of Object.entries(screens)) {
        const where = `${name}, ${width} wide, ${scheme}`;
        await check(`${where}: fits and can be read by everybody`, async () => {
          await visit(page, demo.url + address);
          await page.screenshot({ path: path.join(folder, `${name}-${width}-${scheme}.png`), fullPage: true });
          const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
          expect(wide <= 0, `it is ${wide} pixels too wide`);
          same(await browser.findings(page), [], 'findings of axe');
          const dark = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
          same(dark === 'rgb(15, 21, 27)', scheme === 'dark', 'dark ground');
        });
      }
      await page.context().close();
    }
  }
}

async function figures(browser, demo) {
  const page = await browser.open(demo.url);
  const pending = (await waiting(demo)).length;
  await check('the overview shows what the commands count', async () => {
    expect(pending > 120, `${pending} events wait for the paused route`);
    const { consumers } = await demo.json('inbox', 'status');
    await visit(page, demo.url);
    await eventually('pending is shown', async () => number(await card(page, 'Pending')) === pending);
    const routes = await rows(page, 'Routes');
    same(routes.map(({ Route, Pending }) => [Route.replace(/\s+/g, ' '), Pending]).sort(), [['again ‖ paused', String(pending)], ['main', '0']], 'routes');
    same((await rows(page, 'Consumers')).map(({ Consumer, Done, Parked, Dead }) => [Consumer, number(Done), number(Parked), number(Dead)]),
      consumers.map((one) => [one.consumer, one.receipts.PROCESSED, one.parked, one.dead]), 'consumers');
    expect((await page.locator('#health').innerText()).length > 10, 'there is a sentence about health');
    expect((await page.locator('#store').innerText()).endsWith('shop.db'), 'the store is named');
    same((await rows(page, 'Relays')).map(({ Lease }) => Lease.replace(/\s+/g, ' ')), ['✓ live', '✓ live'], 'leases');
  });
  await check('the overview follows, and leads to what it counts', async () => {
    await demo.run('emit', '--topic', 'notes', '--key', 'n-live', '--type', 'Noted', '--payload', '{}');
    await eventually('one more is pending', async () => number(await card(page, 'Pending')) === pending + 1);
    await page.getByRole('link', { name: String(pending + 1), exact: true }).click();
    await ready(page);
    same(await page.evaluate(() => location.pathname + location.search), '/messages?status=PENDING&route=again', 'address');
    same((await ids(page)).length, 50, 'rows');
  });
  await check('the chart can be read with the keyboard', async () => {
    await visit(page, demo.url);
    const slider = page.getByRole('slider');
    await slider.focus();
    await page.keyboard.press('Home');
    same(await slider.getAttribute('aria-valuenow'), '0', 'the first moment');
    const first = await slider.getAttribute('aria-valuetext');
    await page.keyboard.press('ArrowRight');
    expect((await slider.getAttribute('aria-valuetext')) !== first && /pending \d/.test(first), `another moment is read out: ${first}`);
    same(await page.locator('.plot circle.cursor').count() > 0, true, 'the moment is marked');
  });
  await page.context().close();
}

async function lists(browser, demo) {
  const page = await browser.open(demo.url);
  const { messages } = await demo.json('messages', 'list', '--topic', 'notes', '--limit', '500');
  const all = messages.map(({ id }) => id);
  await check('filters and pages are in the address and survive reload, back and forward', async () => {
    await visit(page, `${demo.url}/messages`);
    await page.getByLabel('Topic').fill('notes');
    await page.getByLabel('State').selectOption('PUBLISHED');
    await page.keyboard.press('Tab');
    await page.getByLabel('State').selectOption('');
    await page.getByRole('button', { name: 'Filter', exact: true }).click();
    await page.waitForURL(/\?topic=notes$/);
    await ready(page);
    same(await ids(page), all.slice(0, 50), 'the newest');
    await page.getByRole('link', { name: 'Older' }).click();
    await page.waitForURL(/before=\d+/);
    await ready(page);
    same(await ids(page), all.slice(50, 100), 'older ones');
    await page.reload();
    await ready(page);
    same(await ids(page), all.slice(50, 100), 'after a reload');
    same(await page.getByLabel('Topic').inputValue(), 'notes', 'the field after a reload');
    await page.goBack();
    await eventually('back', async () => (await ids(page))[0] === all[0]);
    await page.goForward();
    await eventually('forward', async () => (await ids(page))[0] === all[50]);
    await page.getByRole('link', { name: 'Older' }).click();
    await eventually('the last page', async () => (await ids(page))[0] === all[100]);
    same(await ids(page), all.slice(100), 'the oldest');
  });
  await check('every filter of the interface is offered, and one that matches nothing says so', async () => {
    await visit(page, `${demo.url}/messages?type=Nothing&tenant=t&route=main&aggregate_type=a&aggregate_id=1&correlation_id=c&since=15m&until=2099-01-01T00:00:00Z&limit=100&key=k&topic=o&status=DEAD`);
    same(await page.locator('.empty').innerText().then((text) => text.startsWith('No event matches.')), true, 'the empty state');
    same(await page.locator('form.filter').evaluate((form) => Object.fromEntries(new FormData(form)).limit), '100', 'a field of the folded part');
  });
  await check('a list does not move by itself, and offers what is new', async () => {
    await visit(page, `${demo.url}/messages?topic=notes`);
    const before = await ids(page);
    const id = (await demo.run('emit', '--topic', 'notes', '--key', 'n-new', '--type', 'Noted', '--payload', '{}')).trim().split('\n')[0];
    const offer = page.getByRole('button', { name: /new, show$/ });
    await offer.waitFor();
    same(await ids(page), before, 'rows');
    await offer.click();
    await eventually('the new one is shown', async () => (await ids(page))[0] === id);
  });
  await check('an empty log shows the statement that makes an event', async () => {
    await page.route('**/api/v1/messages', (route) => route.fulfill({ json: { apiVersion: 'sealane/v1', messages: [] } }));
    await visit(page, `${demo.url}/messages`);
    expect((await page.locator('.empty code').innerText()).startsWith('insert into sealane_emit (topic, key, type, payload)'), 'the statement for SQLite');
    await page.unroute('**/api/v1/messages');
  });
  await check('an answer that comes after its screen was left changes nothing', async () => {
    await page.route('**/api/v1/audit', async (route) => {
      await new Promise((resolve) => setTimeout(resolve, 700));
      await route.continue().catch(() => {});
    });
    await visit(page, `${demo.url}/tasks`);
    await page.getByRole('link', { name: 'Audit' }).click();
    await page.getByRole('link', { name: 'Tasks' }).click();
    await new Promise((resolve) => setTimeout(resolve, 1200));
    same(await title(page), 'Tasks', 'the screen');
    await page.unroute('**/api/v1/audit');
  });
  await check('consumers, receipts, tasks and audit agree with the commands', async () => {
    await visit(page, `${demo.url}/consumers?consumer=payments&state=DEAD`);
    same((await rows(page, 'Receipts, newest first')).map((row) => row.State.replace(/\s+/g, ' ')), ['✕ DEAD'], 'dead receipts');
    await visit(page, `${demo.url}/tasks`);
    same((await rows(page, 'Tasks, newest first')).map(({ Target, Key }) => [Target, Key]), [['billing', hostile]], 'tasks');
    await visit(page, `${demo.url}/audit`);
    same((await rows(page, 'Decisions, newest first'))[0].Why, 'a test', 'the newest decision');
  });
  await page.context().close();
}

async function single(browser, demo, poison) {
  const page = await browser.open(demo.url);
  const search = page.getByRole('searchbox');
  await check('an event is found by its id, and all there is to know about it is shown, but its payload', async () => {
    await visit(page, demo.url);
    await search.fill(` ${poison.toUpperCase()} `);
    await search.press('Enter');
    await page.waitForURL(`${demo.url}/messages/${poison}`);
    await ready(page);
    const text = await page.locator('main').innerText();
    const { message } = await demo.json('messages', 'get', poison).then((answer) => ({ message: answer.message ?? answer }));
    for (const part of [poison, message.payload_sha256, 'o-poison', 'negative_amount', 'an order cannot cost less than nothing', 'noted as published', 'Payloads are not shown here.', `sealane messages get ${poison} --config ${demo.config}`]) {
      expect(text.includes(part), `the page says ${part}`);
    }
    const { payload } = await demo.json('messages', 'get', poison).then((answer) => answer.message ?? answer);
    expect(payload && !text.includes(JSON.stringify(payload).slice(1, -1)), 'the payload is not on the page');
  });
  await check('events are found by their key', async () => {
    await search.fill('o-poison');
    await search.press('Enter');
    await page.waitForURL(/\/messages\?key=o-poison$/);
    await ready(page);
    const { messages } = await demo.json('messages', 'list', '--key', 'o-poison');
    same(await ids(page), messages.map(({ id }) => id), 'events of the key');
  });
  await check('what strangers wrote is shown as text', async () => {
    await search.fill(hostile);
    await search.press('Enter');
    await page.waitForURL(/key=%3Cimg/);
    await ready(page);
    same((await rows(page, 'Messages, newest first')).map(({ Key }) => Key), [hostile], 'the key');
    await page.locator('main tbody a').click();
    await ready(page);
    same((await rows(page, 'Headers')).map(({ Value }) => Value), [hostile], 'the header');
    same(await page.locator('main img').count(), 0, 'pictures');
    await visit(page, `${demo.url}/tasks?idempotency_key=${encodeURIComponent(hostile)}`);
    await page.locator('main tbody a').click();
    await ready(page);
    expect((await page.locator('main').innerText()).includes(hostile), 'the key of the task');
    same(await page.locator('main img').count(), 0, 'pictures');
  });
  await check('clocks that disagree are called that', async () => {
    await page.route('**/api/v1/messages/*', async (route) => {
      const response = await route.fetch();
      const answer = await response.json();
      answer.receipts[0].received_at = new Date(Date.parse(answer.message.appended_at) - 1500).toISOString();
      await route.fulfill({ response, json: answer });
    });
    await visit(page, `${demo.url}/messages/${poison}`);
    const life = await page.locator('.timeline').innerText();
    expect(life.includes('clock skew') && life.includes('1.5 s before appended') && !life.includes('−'), life);
    await page.unroute('**/api/v1/messages/*');
  });
  await page.context().close();
  const wrong = await browser.open(demo.url, { expected: /^console: Failed to load resource: the server responded with a status of 40[04]/ });
  await check('what the server refuses is shown in its words', async () => {
    await visit(wrong, `${demo.url}/messages/018f2f1e-7a5b-7c3d-9e1f-2a3b4c5d6e7f`);
    expect((await wrong.locator('.failure').innerText()).includes('not_found'), 'an unknown event');
    await visit(wrong, `${demo.url}/messages/nonsense`);
    expect((await wrong.locator('.failure').innerText()).includes('bad_event_id'), 'no event id');
    await visit(wrong, `${demo.url}/messages?since=yesterday`);
    expect((await wrong.locator('.failure').innerText()).includes('since'), 'no time');
  });
  await wrong.context().close();
}

async function keyboard(browser, demo) {
  const page = await browser.open(demo.url);
  await check('screens are reached with the keyboard', async () => {
    await visit(page, demo.url);
    for (const [key, address, heading] of [['m', '/messages', 'Messages'], ['a', '/aside', 'Set aside'], ['c', '/consumers', 'Consumers'], ['t', '/tasks', 'Tasks'], ['u', '/audit', 'Audit'], ['o', '/', 'Overview']]) {
      await page.keyboard.press('g');
      await page.keyboard.press(key);
      await page.waitForURL(demo.url + address);
      same(await page.locator('h1').textContent(), heading, 'heading');
      same(await page.locator('h1').evaluate((element) => document.activeElement === element), true, 'the heading has the focus');
      same(await page.locator('#nav a[aria-current]').getAttribute('href'), address, 'the marked screen');
    }
    await page.keyboard.press('/');
    same(await page.evaluate(() => document.activeElement.id), 'search-text', 'focus');
    await page.keyboard.type('g m');
    same(await page.getByRole('searchbox').inputValue(), 'g m', 'what was typed');
    await page.keyboard.press('Escape');
    same(await page.evaluate(() => document.activeElement.id), '', 'focus after Esc');
    await page.keyboard.press('?');
    await page.getByRole('dialog').waitFor();
    same(await browser.findings(page), [], 'findings of axe in the help');
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'hidden' });
  });
  await check('focus can be seen', async () => {
    await visit(page, demo.url);
    for (let i = 0; i < 12; i += 1) {
      await page.keyboard.press('Tab');
      const seen = await page.evaluate(() => {
        const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement);
        return outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2;
      });
      expect(seen, `stop ${i + 1} shows that it has the focus`);
    }
  });
  await check('theme and times are kept', async () => {
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    await visit(page, `${demo.url}/messages`);
    const light = await ground();
    await page.getByRole('button', { name: 'Dark' }).click();
    await page.getByRole('button', { name: 'Times' }).click();
    await page.reload();
    await ready(page);
    expect((await ground()) !== light, 'dark after a reload');
    expect(/^\d\d:\d\d:\d\d$/.test(await page.locator('main td time').first().innerText()), 'times of day after a reload');
    await page.getByRole('button', { name: 'Light' }).click();
    await page.getByRole('button', { name: 'Ages' }).click();
    same(await ground(), light, 'light again');
  });
  await check('nobody is asked while the page is paused or hidden', async () => {
    let asked = 0;
    await visit(page, demo.url);
    page.on('request', (request) => request.url().includes('/api/') && (asked += 1));
    await page.keyboard.press('p');
    await page.getByRole('button', { name: 'Paused' }).waitFor();
    await new Promise((resolve) => setTimeout(resolve, 300));
    asked = 0;
    await new Promise((resolve) => setTimeout(resolve, 4500));
    same(asked, 0, 'requests while paused');
    await page.keyboard.press('p');
    await eventually('it goes on', () => asked > 1);
    await page.evaluate(() => {
      Object.defineProperty(document, 'hidden', { value: true, configurable: true });
      document.dispatchEvent(new Event('visibilitychange'));
    });
    await new Promise((resolve) => setTimeout(resolve, 300));
    asked = 0;
    await new Promise((resolve) => setTimeout(resolve, 4500));
    same(asked, 0, 'requests while hidden');
  });
  await page.context().close();
}

async function decide(browser, demo, poison) {
  const page = await browser.open(demo.url);
  await check('the poison event is on the desk, and the command that is copied there works', async () => {
    await visit(page, `${demo.url}/aside`);
    const [row] = await rows(page, 'By consumers: negative_amount');
    same([row.State.replace(/\s+/g, ' '), row.Consumer, row['Waiting behind'], row.Event], ['✕ DEAD', 'payments', '2', `…${poison.slice(-12)}`], 'the row');
    expect((await page.locator('main').innerText()).includes('an order cannot cost less than nothing'), 'the reason is there, verbatim');
    await page.getByRole('button', { name: 'Copy the command to skip' }).click();
    await page.getByText('Copied', { exact: true }).waitFor();
    const line = await page.evaluate(() => navigator.clipboard.readText());
    same(line, `sealane inbox skip ${poison} --consumer payments --reason "..." --config ${demo.config}`, 'the command');
    await demo.shell(line);
    await eventually('those behind it have followed', async () => (await demo.json('inbox', 'status')).consumers.every(({ parked }) => parked === 0));
    await page.getByRole('button', { name: 'Changed since, show' }).click();
    await page.getByText('Nothing is set aside.').waitFor();
    await visit(page, `${demo.url}/audit`);
    expect((await rows(page, 'Decisions, newest first'))[0]['To what'].includes(poison), 'the decision is on record');
  });
  await check('where copying is forbidden the text is selected', async () => {
    await page.context().clearPermissions();
    await page.addInitScript(() => {
      navigator.clipboard.writeText = () => Promise.reject(new Error('forbidden'));
    });
    await visit(page, `${demo.url}/messages/${poison}`);
    await page.getByRole('button', { name: 'Copy Id' }).click();
    await eventually('the id is selected', async () => (await page.evaluate(() => String(getSelection()))) === poison);
  });
  await page.context().close();
}

async function unseen(browser, demo) {
  const page = await browser.open(demo.url);
  await check('a store that was never seen, and desks that this user may not look at, are told apart from empty ones', async () => {
    const problem = { code: 'rights_missing', message: 'permission denied for table inbox', hint: 'grant select' };
    let change = ({ apiVersion, now, version, store, command_flags }) => ({ apiVersion, now, version, store, command_flags, health: { level: 'unknown', sentence: 'Nobody knows.' }, problem, history: { interval_seconds: 2, points: [] } });
    await page.route('**/api/v1/overview', async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: change(await response.json()) });
    });
    await page.goto(demo.url);
    await page.getByText('The store has not been seen yet.').waitFor();
    await page.getByText('Nothing has been seen yet.').waitFor();
    await page.goto(`${demo.url}/consumers`);
    await page.getByText('Nobody knows.', { exact: true }).waitFor();
    same(await page.getByText('No consumer keeps an inbox').count(), 0, 'claims about consumers');
    change = ({ consumers, tasks, ...rest }) => ({ ...rest, consumers_problem: problem });
    await page.locator('main').getByText(problem.message).waitFor();
    await page.goto(demo.url);
    await page.locator('main').getByText(problem.message).waitFor();
    await page.unroute('**/api/v1/overview');
    await page.route('**/api/v1/aside?*', (route) => route.fulfill({ json: { apiVersion: 'sealane/v1', relay: [], relay_more: false, consumers_problem: problem, tasks: [], tasks_more: false } }));
    await visit(page, `${demo.url}/aside`);
    expect((await page.locator('main').innerText()).includes(problem.message), 'the desk that may not be looked at');
  });
  await page.context().close();
}

async function trouble(browser, demo) {
  const page = await browser.open(demo.url, { expected: /^console: Failed to load resource/ });
  await check('a store that cannot be seen is said to be so, and what was seen stays', async () => {
    await visit(page, demo.url);
    await page.route('**/api/v1/overview', async (route) => {
      const response = await route.fetch();
      const answer = await response.json();
      await route.fulfill({ response, json: { ...answer, as_of: new Date(Date.parse(answer.now) - 42000).toISOString(), problem: { code: 'store_unreachable', message: 'the store does not answer', hint: 'is it running?' } } });
    });
    const banner = page.locator('#banner');
    await banner.getByText('the store does not answer').waitFor();
    for (const level of ['good', 'notice', 'wrong', 'unknown']) {
      await page.evaluate((name) => (document.getElementById('health').className = `health ${name}`), level);
      same(await browser.findings(page), [], `findings of axe in what is old and ${level}`);
    }
    expect(/4\d s ago/.test(await banner.innerText()), `how old it is: ${await banner.innerText()}`);
    expect((await rows(page, 'Routes')).length === 2, 'the routes stay');
    await page.unroute('**/api/v1/overview');
    await banner.waitFor({ state: 'hidden' });
  });
  await check('when the server is gone a banner says so, what was shown stays, and nobody hammers at its door', async () => {
    await page.getByRole('link', { name: 'Messages' }).click();
    await ready(page);
    const before = await ids(page);
    await page.goBack();
    await eventually('the overview', async () => (await rows(page, 'Routes')).length === 2);
    const routes = await rows(page, 'Routes');
    await demo.stop();
    const banner = page.locator('#banner');
    await banner.getByText('The dashboard server cannot be reached.').waitFor();
    let asked = 0;
    page.on('request', () => (asked += 1));
    await new Promise((resolve) => setTimeout(resolve, 9000));
    expect(asked >= 1 && asked <= 3, `${asked} requests in 9 s`);
    expect(/What is shown is from \d\d:\d\d:\d\d, .*ago\./.test(await banner.innerText()), await banner.innerText());
    same((await rows(page, 'Routes')).map(({ Route }) => Route), routes.map(({ Route }) => Route), 'routes');
    await page.screenshot({ path: path.join(folder, 'unreachable.png'), fullPage: true });
    same(await browser.findings(page), [], 'findings of axe');
    await page.getByRole('link', { name: 'Messages' }).click();
    await page.getByText('This could not be read.').waitFor();
    expect(before.length > 0, 'there were messages');
  });
  await page.context().close();
}

await rm(folder, { recursive: true, force: true });
await mkdir(folder, { recursive: true });
let demo;
let browser;
// Whatever happens, what was started ends.
const cleanUp = async () => {
  await browser?.close().catch(() => {});
  await demo?.remove();
};
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => cleanUp().finally(() => process.exit(1)));
// For example of an answer that was to be changed on its way and never came.
process.once('uncaughtException', (error) => {
  console.error(error);
  cleanUp().finally(() => process.exit(1));
});
try {
  demo = await Demo.start(sealane);
  browser = await Browser.start(program, modules);
  const things = await prepare(demo);
  await figures(browser, demo);
  await lists(browser, demo);
  await single(browser, demo, things.poison);
  await keyboard(browser, demo);
  await looks(browser, demo, things);
  await decide(browser, demo, things.poison);
  await unseen(browser, demo);
  await trouble(browser, demo);
  await check('no page had an error, broke its policy or asked anybody else', async () => same(browser.troubles, [], 'troubles'));
} catch (error) {
  await check('the tests could be run', () => Promise.reject(error));
} finally {
  await cleanUp();
}
process.exitCode = verdict() ? 0 : 1;
