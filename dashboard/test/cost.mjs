// What watching costs the gateway: its processor time and memory with no page, with ten streams,
// and with ten real pages, at rest and under load. `cost.mjs [seconds]`

import { readFileSync } from 'node:fs';
import { launch, open } from './browser.mjs';
import { pause, request, startGateway, steadily } from './gateway.mjs';

const seconds = Number(process.argv[2] ?? 30);
const TICKS = 100; // of /proc/PID/stat in a second, on every Linux there is

const gateway = await startGateway({
  upstream: true,
  redis: true,
  extra: `
queue_capacity = 64
queue_timeout_ms = 1000
[egress]
listen = "127.0.0.1:0"
[upstream.models]
url = "{upstream}"
hedge = { after_ms = 250 }
[cache]
store = "{redis}"
[cache.resp]
listen = "127.0.0.1:0"
`,
});

function used() {
  const fields = readFileSync(`/proc/${gateway.pid}/stat`, 'utf8').split(') ')[1].split(' ');
  return (Number(fields[11]) + Number(fields[12])) / TICKS;
}
const memory = () => Number(readFileSync(`/proc/${gateway.pid}/status`, 'utf8').match(/VmRSS:\s+(\d+)/)[1]) / 1024;

async function measure(what) {
  await pause(2000);
  const before = used();
  await pause(seconds * 1000);
  console.log(`${what.padEnd(34)} ${(((used() - before) / seconds) * 100).toFixed(2)} % of a core, ${memory().toFixed(1)} MiB`);
}

async function watchers(n) {
  let bytes = 0;
  const ended = new AbortController();
  for (let i = 0; i < n; i++) {
    const answer = await fetch(`${gateway.admin}/admin/stream`, { signal: ended.signal });
    (async () => { for await (const piece of answer.body) bytes += piece.length; })().catch(() => {});
  }
  return { end: () => ended.abort(), rate: () => { const read = bytes; bytes = 0; return read; } };
}

await measure('at rest, no page');
const streams = await watchers(10);
await pause(1500);
streams.rate();
await measure('at rest, ten streams');
console.log(`  ${(streams.rate() / 10 / (seconds + 2) / 1024).toFixed(1)} KiB a second for each`);
const stop = steadily(100, (n) => request(n % 4 ? `${gateway.server}/hello` : `${gateway.egress}/models/answer?first=20`));
await pause(3000);
streams.rate();
await measure('100 requests a second, ten streams');
console.log(`  ${(streams.rate() / 10 / (seconds + 2) / 1024).toFixed(1)} KiB a second for each`);
streams.end();
await measure('100 requests a second, no page');
stop();
const browser = await launch();
const views = [];
for (let i = 0; i < 10; i++) views.push(await open(browser, gateway.admin));
for (const view of views) await view.page.waitForSelector('#main:not([hidden])');
await pause(3000);
const history = await fetch(`${gateway.admin}/admin/history`).then((answer) => answer.arrayBuffer());
const held = (await (await fetch(`${gateway.admin}/metrics`)).text()).match(/^hedgerow_dashboard_streams (\d+)/m)[1];
await measure(`at rest, ten pages (${held} streams)`);
console.log(`  /admin/history: ${(history.byteLength / 1024).toFixed(0)} KiB`);
await browser.close();
await gateway.stop();
process.exit(0);
