// Charts: what the page adds to uPlot. Each has a legend with numbers and a sentence that says the
// same for those who do not see it. Under the pointer all charts show the same second.

import { at, el, keep, mark, say } from './dom.js';
import { count, duration, time } from './format.js';

const HEIGHT = 132;
const colours = {};
const charts = [];
const dark = matchMedia('(prefers-color-scheme: dark)');

dark.addEventListener('change', () => {
  readColours();
  for (const chart of charts) chart.rebuild();
});

function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ['ink', 'quiet', 'line', 'blue', 'sky', 'green', 'orange', 'yellow', 'red', 'purple', 'grey', 'brown']) {
    colours[name] = style.getPropertyValue(`--${name}`).trim();
  }
}

const UNITS = {
  count: { show: count, axis: (n) => count(n) },
  ms: { show: duration, axis: (n) => duration(n).replace(' ', '\u202f') },
};

/**
 * A chart in the element marked `data-chart=name`. `series(model)` gives its series: { key, label, colour,
 * cells, gauge (a level, not a count), area (filled), always (shown though
 * zero) }. Stacked series are drawn one on top of the other, the first lowest.
 */
export class Chart {
  constructor(name, { title, series, stacked = false, unit = 'count', empty }) {
    if (!colours.ink) readColours();
    Object.assign(this, { title, series, stacked, unit: UNITS[unit], empty, plot: null, keys: '' });
    this.place = document.querySelector(`[data-chart="${name}"]`);
    this.box = el('div', { class: 'plot', role: 'img' });
    this.legend = el('ul', { class: 'legend' });
    this.place.append(el('figure', {}, el('figcaption', {}, title), this.box, this.legend));
    this.at = null;
    charts.push(this);
    new ResizeObserver(() => this.plot?.setSize({ width: this.box.clientWidth, height: HEIGHT })).observe(this.box);
  }

  /** Draws the last `seconds`. */
  draw(model, seconds) {
    const from = model.from(seconds);
    const all = this.series(model).map((series) => ({ ...series, cells: series.cells.slice(from) }));
    this.shown = all.filter((series) => series.always || series.cells.some((cell) => cell > 0));
    this.t = model.t.slice(from);
    this.range = [(model.t.at(-1) ?? 0) - seconds, model.t.at(-1) ?? 0];
    const keys = this.shown.map((series) => series.key).join();
    if (keys !== this.keys || !this.plot) {
      this.keys = keys;
      this.rebuild();
    } else {
      this.plot.setData(this.data());
    }
    this.tell();
  }

  data() {
    let below = new Array(this.t.length).fill(0);
    const lines = this.shown.map(({ cells }) => {
      if (!this.stacked) return cells;
      below = below.map((sum, i) => sum + cells[i]);
      return below;
    });
    // uPlot paints in this order, and the highest stack goes to the back.
    return [this.t, ...(this.stacked ? lines.reverse() : lines)];
  }

  rebuild() {
    if (!this.shown) return;
    this.plot?.destroy();
    const steps = uPlot.paths.stepped({ align: -1 });
    const order = this.stacked ? [...this.shown].reverse() : this.shown;
    const series = order.map(({ label, colour, area }) => ({
      label,
      stroke: colours[colour],
      fill: this.stacked ? colours[colour] : area ? `${colours[colour]}38` : undefined,
      width: this.stacked ? 0 : area ? 1 : 1.75,
      paths: steps,
      points: { show: false },
    }));
    const axis = { stroke: colours.quiet, grid: { stroke: colours.line, width: 1 }, ticks: { show: false }, font: '11px system-ui, sans-serif' };
    this.plot = new uPlot(
      {
        width: Math.max(200, this.box.clientWidth),
        height: HEIGHT,
        legend: { show: false },
        padding: [8, 22, 0, 0],
        scales: { x: { time: true, range: () => this.range }, y: { range: (_, __, max) => [0, Math.max(max * 1.08, this.unit === UNITS.ms ? 10 : 4)] } },
        axes: [
          { ...axis, size: 22, space: 80, values: (_, ticks) => ticks.map((s) => time(s * 1000).slice(0, ticks[1] - ticks[0] < 60 ? 8 : 5)) },
          { ...axis, size: 46, space: 32, values: (_, ticks) => ticks.map((n) => (Number.isInteger(n) || this.unit === UNITS.ms ? this.unit.axis(n) : '')) },
        ],
        series: [{}, ...series],
        cursor: { y: false, points: { show: false }, drag: { x: false, y: false }, sync: { key: 'all' } },
        hooks: { setCursor: [(plot) => this.point(plot.cursor.idx)] },
      },
      this.data(),
      this.box,
    );
  }

  point(index) {
    const pointed = index ?? null;
    if (pointed === this.at) return;
    this.at = pointed;
    this.tell();
  }

  /** The legend's numbers, and the sentence. */
  tell() {
    const pointed = this.at !== null && this.at < this.t.length ? this.at : null;
    const value = (series) => {
      if (pointed !== null) return this.unit.show(series.cells[pointed]);
      return series.gauge ? this.unit.show(series.cells.at(-1) ?? 0) : count(series.cells.reduce((a, b) => a + b, 0));
    };
    const make = (series) => el('li', {}, el('span', { class: `swatch ${series.colour}`, 'aria-hidden': 'true' }), el('span', {}, series.label), ' ', el('b', {}));
    keep(this.legend, this.shown, (series) => series.key, make, (item, series) => say(item.lastChild, value(series)));
    mark(this.legend, 'data-when', pointed === null ? 'all' : 'one');
    mark(this.box, 'data-empty', this.shown.length === 0 ? this.empty ?? 'nothing' : '');
    const parts = this.shown.map((series) => {
      const most = series.cells.reduce((a, b) => Math.max(a, b), 0);
      const now = this.unit.show(series.cells.at(-1) ?? 0);
      return `${series.label}: ${series.gauge ? '' : `${count(series.cells.reduce((a, b) => a + b, 0))} in all, `}now ${now}, at most ${this.unit.show(most)} in a second`;
    });
    if (pointed === null) mark(this.box, 'aria-label', `${this.title}. ${parts.join('; ') || this.empty || 'nothing'}.`);
  }
}

/** The seconds that are to be shown, as chosen. */
export function chosenWindow() {
  return Number(at('window').querySelector('input:checked')?.value ?? 300);
}
