// The dashboard in a real browser, before the real binary: each panel shows what an incident did.
//
// Nothing here sleeps for a fixed time: each step waits for what it is about to look at.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { launch, open } from './browser.mjs';
import { freePort, request, startGateway, until } from './gateway.mjs';
import { brownOut, hungPool, stalledCache } from './incidents.mjs';

/** Ten times the second and a half in which an event is to be seen. */
const SEEN = 15_000;

/** Left out of the short form, which `make check` runs. */
const long = process.env.DASHBOARD_TEST === 'short' ? describe.skip : describe;

let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

const text = (page, selector) => page.textContent(selector);
const shown = (page) => page.waitForSelector('#main:not([hidden])');
/** Waits until the text of an element matches. */
const reads = (page, selector, pattern, timeout = SEEN) =>
  page.waitForFunction(([selector, source]) => new RegExp(source).test(document.querySelector(selector)?.textContent ?? ''), [selector, pattern.source], { timeout });
/** The number behind a name in a legend. */
const legend = (page, chart, label) =>
  page.$$eval(`[data-chart="${chart}"] .legend li`, (items, label) => {
    const item = items.find((item) => item.children[1].textContent === label);
    return item ? Number(item.querySelector('b').textContent.replaceAll(',', '')) : 0;
  }, label);
const sum = (history, column) => (history.columns[column] ?? []).reduce((a, b) => a + b, 0);

/** Asserts that the page and the admin listener come to say the same. */
async function agree(what, ofPage, ofGateway) {
  let seen = [];
  await until(what, async () => {
    seen = [await ofPage(), await ofGateway()];
    return seen[0] === seen[1];
  }).catch((error) => { throw new Error(`${error.message}: the page says ${seen[0]}, the gateway ${seen[1]}`); });
}

describe('a hung worker pool', () => {
  let incident, view;
  before(async () => {
    incident = await hungPool();
    view = await open(browser, incident.gateway.admin);
    await shown(view.page);
    incident.begin();
    await reads(view.page, '#verdict', /^All is well: .*of 4 workers idle/);
    incident.strike();
  });
  after(async () => {
    await view.close();
    await incident.end();
  });

  test('the headline names the workers, for how long, and the path', async () => {
    await reads(view.page, '#verdict', /of 4 workers hang on \/hang: no answer for up to \d/);
    await reads(view.page, '#more', /No worker has been idle for .* wait/);
    assert.match(await view.page.title(), /4 workers hang on \/hang/);
    assert.match(await text(view.page, '#spoken'), /\/hang/);
  });

  test('the strip shows which worker is busy, since when, on what', async () => {
    await reads(view.page, '#worker-strip [data-long="true"]', /busy for \d.*GET \/hang/);
    assert.equal(await view.page.locator('#worker-strip li').count(), 4);
  });

  test('the queue and the failures are those of the gateway', async () => {
    await reads(view.page, '#findings', /queue for workers overflows/);
    await reads(view.page, '#failures-facts', /worker_queue_timeout/);
    await reads(view.page, '#event-table', /killed/);
    incident.calm();
    await agree('timeouts of the queue', () => legend(view.page, 'failures', 'worker_queue_timeout'), async () => sum(await incident.gateway.ask('/admin/history'), 'failed.worker_queue_timeout'));
    await agree('replaced workers', () => legend(view.page, 'restarts', 'timeout'), async () => sum(await incident.gateway.ask('/admin/history'), 'restarts.timeout'));
    await agree('requests', async () => Number((await text(view.page, '#requests-facts')).match(/start: ([\d,]+) request/)[1].replaceAll(',', '')), async () => (await incident.gateway.ask('/admin/stats')).http_requests_total);
  });

  test('nothing went wrong on the page', () => assert.deepEqual(view.wrong, []));
});

long('a stalled cache', () => {
  let incident, view;
  before(async () => {
    incident = await stalledCache();
    incident.begin();
    view = await open(browser, incident.gateway.admin);
    await shown(view.page);
    await reads(view.page, '[data-chart="reads"] .legend', /hit/);
    incident.strike();
  });
  after(async () => {
    await view.close();
    await incident.end();
  });

  test('the headline names the store, and the circuit its episode', async () => {
    await reads(view.page, '#verdict', /cache store redis:.* does not answer: its circuit has been open/);
    await reads(view.page, '#breaker-lines .badge', /open for/);
    await reads(view.page, '#episodes', /cache open: no answer at all|cache open: too many failures/);
    assert.ok((await view.page.locator('.lane i[data-state="open"]').count()) >= 1);
  });

  test('sheds are counted as the gateway counts them, and the store comes back', async () => {
    await until('reads are shed', () => legend(view.page, 'reads', 'shed'));
    incident.heal();
    await reads(view.page, '#breaker-lines .badge', /^closed/, 30_000);
    await reads(view.page, '#verdict', /The cache answers again/);
    incident.calm();
    await agree('sheds', () => legend(view.page, 'reads', 'shed'), async () => (await incident.gateway.ask('/admin/cache')).reads.shed);
    await reads(view.page, '[data-chart="repairs"] .legend', /canaries good/);
  });

  test('nothing went wrong on the page', () => assert.deepEqual(view.wrong, []));
});

long('an upstream that browns out', () => {
  let incident, view;
  before(async () => {
    incident = await brownOut();
    incident.begin();
    view = await open(browser, incident.gateway.admin);
    await shown(view.page);
    await until('some seconds as usual', async () => sum(await incident.gateway.ask('/admin/history'), 'http.requests') > 150);
    incident.strike();
  });
  after(async () => {
    await view.close();
    await incident.end();
  });

  test('the headline names the upstream and what became of its twins', async () => {
    await reads(view.page, '#verdict', /The upstream models (has become slow|fails|goes quiet)/, 45_000);
    await reads(view.page, '#more', /got a twin.*refused, mostly for want of budget/, 30_000);
  });

  test('the ledger flags hedged calls, and the numbers are those of the gateway', async () => {
    await reads(view.page, '#usage-table', /retry/, 45_000);
    const flagged = view.page.locator('#usage-table tr[data-retry="true"]').first();
    assert.match(await flagged.textContent(), /hedge (won|lost|failed)/);
    incident.calm();
    await agree('twins', async () => Number((await text(view.page, '#upstream-table tbody td:nth-child(6)')).split(' ')[0]), async () => (await incident.gateway.ask('/admin/usage')).upstreams.models.hedges_fired);
    assert.ok((await legend(view.page, 'hedges', 'twins refused')) > 0);
  });

  test('nothing went wrong on the page', () => assert.deepEqual(view.wrong, []));
});

describe('a page at work', () => {
  let gateway, view;
  before(async () => {
    gateway = await startGateway({ workers: 2, extra: 'read_timeout_ms = 60000\n' });
    view = await open(browser, gateway.admin);
    await shown(view.page);
  });
  after(async () => {
    await view.close();
    await gateway.stop();
  });

  test('what a stranger sends is shown as text', async () => {
    // HTTP lets no "<" into a target, so the worst there could be is put into what the page is told.
    const hostile = '/<img src=x onerror=document.title=1>';
    await view.page.route('**/admin/history*', async (route) => {
      const answer = await route.fetch();
      const told = await answer.json();
      const one = { trace_id: hostile, request_id: hostile, method: '<b>GET</b>', path: hostile, phase: '<i>x', age_ms: 1, phase_ms: 1, worker_id: 0, deadline_ms: null };
      told.now.requests = { total: 1, requests: [one] };
      Object.assign(told.now.workers[0], { on: one, state: 'busy' });
      told.now.breakers.breakers = [{ name: hostile, state: 'open', since_ms: 1, calls: 1, failures: 1, failure_ratio: 1, episode: 1, probes_in_flight: 0 }];
      told.events.push({ n: 1e9, at: told.now.at, kind: hostile, detail: hostile, worker: 0 });
      await route.fulfill({ response: answer, json: told });
    });
    await view.page.route('**/admin/stream', (route) => route.fulfill({ status: 503, body: '{}' }));
    await view.page.reload();
    for (const place of ['#live-table', '#worker-strip', '#event-table', '#breaker-lines', '#verdict']) {
      await reads(view.page, place, /<img src=x onerror=/);
    }
    assert.equal(await view.page.locator('main img, main b b, main i i').count(), 0);
    assert.notEqual(await view.page.title(), '1');
    await view.page.unrouteAll({ behavior: 'wait' });
    await view.page.reload();
    await shown(view.page);
    const begun = view.wrong.splice(0).filter((line) => !line.includes('503'));
    assert.deepEqual(begun, []);
  });

  test('an event is seen soon, and a request can be cancelled with the keyboard', async () => {
    const begun = Date.now();
    const ended = request(`${gateway.server}/hang`, { headers: { 'x-trace-id': 'slow-one' } });
    await reads(view.page, '#live-table', /slow-one/, SEEN);
    console.log(`  a request was on the page ${Date.now() - begun} ms after it was sent`);
    const button = view.page.getByRole('button', { name: 'Cancel GET /hang, trace slow-one' });
    for (let tabs = 0; tabs < 40 && !(await button.evaluate((element) => element === document.activeElement)); tabs++) {
      await view.page.keyboard.press('Tab');
    }
    await view.page.keyboard.press('Enter');
    assert.equal(await ended, 0, 'the client was let go');
    await reads(view.page, '#done', /Cancelled: 1 request of trace slow-one/);
    await view.page.waitForFunction(() => !document.querySelector('#live-table').textContent.includes('slow-one'));
    await reads(view.page, '#event-table', /Somebody did.*requests\.cancel slow-one/);
    assert.equal((await gateway.ask('/admin/stats')).admin_actions_total, 1);
  });

  test('everything has a name and a place in the structure', async () => {
    const faults = await view.page.evaluate(() => {
      const found = [];
      const named = (element) => element.getAttribute('aria-label') || element.textContent.trim() || element.labels?.length || document.getElementById(element.getAttribute('aria-labelledby') ?? '')?.textContent;
      for (const element of document.querySelectorAll('button, a, input, [role], section, fieldset, [tabindex]:not([tabindex="-1"])')) {
        if (!element.closest('[hidden]') && !named(element) && !element.getAttribute('role')?.match(/status|alert/)) found.push(element.outerHTML.slice(0, 80));
      }
      for (const table of document.querySelectorAll('table')) {
        if (!table.closest('[hidden]') && !table.hidden && (!table.caption || !table.querySelector('th[scope=col]'))) found.push(`table ${table.id}`);
      }
      for (const one of ['header', 'main', 'footer', 'h1']) if (document.querySelectorAll(one).length !== 1) found.push(one);
      const ids = [...document.querySelectorAll('[id]')].map((element) => element.id);
      if (new Set(ids).size !== ids.length) found.push('an id twice');
      if (!document.querySelector('[aria-live=polite]')) found.push('no live region');
      for (const plot of document.querySelectorAll('.plot')) if (!plot.closest('[hidden]') && !plot.getAttribute('aria-label')) found.push('a chart without words');
      return found;
    });
    assert.deepEqual(faults, []);
  });

  test('a phone and the dark', async () => {
    const phone = await open(browser, gateway.admin, { viewport: { width: 360, height: 740 }, colorScheme: 'dark', isMobile: true, hasTouch: true, reducedMotion: 'reduce' });
    await shown(phone.page);
    await phone.page.waitForSelector('.plot canvas');
    const [wide, inner, ink, back] = await phone.page.evaluate(() => {
      const style = getComputedStyle(document.body);
      return [document.documentElement.scrollWidth, innerWidth, style.color, style.backgroundColor];
    });
    assert.ok(wide <= inner, `${wide} px wide in ${inner}`);
    const light = (colour) => colour.match(/\d+/g).slice(0, 3).reduce((a, b) => a + Number(b), 0) / 3;
    assert.ok(light(ink) > 180 && light(back) < 60, `${ink} on ${back}`);
    assert.deepEqual(phone.wrong, []);
    await phone.close();
  });

  test('a gateway that goes is said to be gone, and one that comes back is followed', async () => {
    process.kill(gateway.pid, 'SIGSTOP');
    await reads(view.page, '#link-text', /no news for/, 30_000);
    process.kill(gateway.pid, 'SIGCONT');
    await reads(view.page, '#link-text', /^live/, 30_000);
    assert.deepEqual(view.wrong, []);
  });
});

describe('a gateway with a token', () => {
  let gateway;
  before(async () => { gateway = await startGateway({ workers: 1, extra: '[admin]\nlisten = "127.0.0.1:0"\ntoken = "s3cret"\n' }); });
  after(() => gateway.stop());

  test('the page asks for it, once', async () => {
    const view = await open(browser, gateway.admin);
    await view.page.waitForSelector('#login:not([hidden])');
    assert.ok(await view.page.locator('#main').isHidden());
    await view.page.getByLabel('Token').fill('wrong');
    await view.page.keyboard.press('Enter');
    await reads(view.page, '#login-error', /That is not the token/);
    await view.page.getByLabel('Token').fill('s3cret');
    await view.page.getByRole('button', { name: 'Open' }).click();
    await shown(view.page);
    await reads(view.page, '#link-text', /^live/);
    await view.page.reload();
    await shown(view.page);
    assert.equal((await view.page.context().cookies()).length, 0, 'a cookie would go to every port of the host');
    // The two answers of 403 are the browser's own lines in the console.
    assert.deepEqual(view.wrong.filter((line) => !line.includes('403')), []);
    await view.close();
  });
});

test('a gateway that was started anew is followed from its start', async () => {
  const extra = `[admin]\nlisten = "127.0.0.1:${await freePort()}"\n`;
  let gateway = await startGateway({ workers: 1, extra });
  const view = await open(browser, gateway.admin);
  await shown(view.page);
  for (let n = 0; n < 5; n++) await request(`${gateway.server}/hello`);
  await reads(view.page, '#requests-facts', /start: 5 requests/);
  await gateway.stop();
  await reads(view.page, '#link-text', /no news for/, 30_000);
  gateway = await startGateway({ workers: 1, extra });
  await request(`${gateway.server}/hello`);
  await reads(view.page, '#requests-facts', /start: 1 request,/, 30_000);
  await agree('requests of the new one', () => legend(view.page, 'requests', 'answered'), async () => sum(await gateway.ask('/admin/history'), 'http.requests'));
  // That the connection was refused meanwhile is the browser's own line in the console.
  assert.deepEqual(view.wrong.filter((line) => !line.includes('net::ERR')), []);
  await view.close();
  await gateway.stop();
});
