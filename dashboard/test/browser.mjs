// A real Chromium, headless, that may speak to this machine alone.

import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';

const folder = process.env.HEDGEROW_NODE ?? new URL('../../target/dashboard-test/', import.meta.url).pathname;
const { chromium } = createRequire(`${folder}/`)('playwright-core');

const PATHS = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

export function launch() {
  const executablePath = PATHS.find((path) => path && existsSync(path));
  if (!executablePath) throw new Error('there is no Chromium here: scripts/tools installs it');
  // The sandbox does not work for root; the page is our own.
  const args = process.getuid() === 0 ? ['--no-sandbox'] : [];
  return chromium.launch({ executablePath, args: [...args, '--disable-dev-shm-usage'] });
}

/** A page that notes what no page of ours may do: errors, and requests that go elsewhere. */
export async function open(browser, address, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  const wrong = [];
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) wrong.push(`console: ${message.text()}`);
  });
  page.on('pageerror', (error) => wrong.push(`error: ${error.message}`));
  page.on('request', (request) => {
    if (!request.url().startsWith(address)) wrong.push(`request: ${request.url()}`);
  });
  await page.goto(address);
  return { page, wrong, close: () => context.close() };
}
