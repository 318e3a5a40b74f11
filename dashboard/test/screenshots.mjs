// The pictures of the documentation: the three incidents, played anew, each as it looks to whoever
// opens the page then. `screenshots.mjs FOLDER [name …]`

import { mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { launch, open } from './browser.mjs';
import { pause } from './gateway.mjs';
import * as incidents from './incidents.mjs';

/** Seconds of ordinary traffic, and of the incident; the panels in the picture. */
const PICTURES = {
  'hung-workers': { play: incidents.hungPool, before: 34, during: 14.4, panels: ['requests', 'workers', 'queue'] },
  'stalled-cache': { play: incidents.stalledCache, before: 40, during: 12, panels: ['requests', 'breakers', 'cache'] },
  'brown-out': { play: incidents.brownOut, before: 36, during: 15, panels: ['requests', 'upstreams', 'usage'], colorScheme: 'dark' },
};

const [folder, ...wanted] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const browser = await launch();
for (const [name, { play, before, during, panels, colorScheme = 'light' }] of Object.entries(PICTURES)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  const incident = await play();
  incident.begin();
  await pause(before * 1000);
  incident.strike();
  await pause(during * 1000);
  const view = await open(browser, incident.gateway.admin, { colorScheme, viewport: { width: 1200, height: 500 } });
  await view.page.waitForSelector('#main:not([hidden])');
  await view.page.getByLabel('1 min', { exact: true }).check();
  await pause(1500);
  // Only what the text speaks of, so that it can be read at the width of a page.
  await view.page.evaluate((panels) => {
    for (const panel of document.querySelectorAll('.panel')) if (!panels.includes(panel.id)) panel.style.display = 'none';
    document.querySelector('footer').style.display = 'none';
    document.querySelector('#usage .scroll')?.style.setProperty('max-height', '13rem');
  }, panels);
  await pause(100);
  const path = join(folder, `${name}.png`);
  await view.page.screenshot({ path, fullPage: true });
  console.log(`${path}: ${Math.round(statSync(path).size / 1024)} KiB. ${await view.page.textContent('#verdict')}`);
  await view.close();
  await incident.end();
}
await browser.close();
process.exit(0);
