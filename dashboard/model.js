// The history as the page holds it: a column for each series, one place a second, a quarter of an
// hour at most. What the gateway leaves out (a column of zeros) is zero here.

const ROWS = 900;

export class Model {
  constructor() {
    this.clear();
  }

  /** Forgets everything. */
  clear() {
    this.next = null; // the number of the row that comes next
    this.t = []; // seconds since 1970
    this.columns = new Map();
    this.upstreams = new Map();
    this.events = [];
    this.moves = [];
    this.now = null;
  }

  /** Takes in an answer of /admin/history or an event of /admin/stream. False where rows are missing before it. */
  add(told) {
    const rows = told.t.length;
    if (this.next !== null && rows > 0 && told.first > this.next) return false;
    const known = this.next === null ? 0 : Math.max(0, Math.min(rows, this.next - told.first));
    for (let row = known; row < rows; row++) this.t.push((told.t0 + told.t[row]) / 1000);
    append(this.columns, told.columns, known, rows, this.t.length);
    for (const [name, columns] of Object.entries(told.upstreams)) {
      if (!this.upstreams.has(name)) this.upstreams.set(name, new Map());
      append(this.upstreams.get(name), columns, known, rows, this.t.length);
    }
    for (const [name, columns] of this.upstreams) {
      if (!(name in told.upstreams)) append(columns, {}, known, rows, this.t.length);
    }
    const over = this.t.length - ROWS;
    if (over > 0) {
      this.t.splice(0, over);
      for (const columns of [this.columns, ...this.upstreams.values()]) {
        for (const cells of columns.values()) cells.splice(0, over);
      }
    }
    this.next = Math.max(this.next ?? 0, told.first + rows);
    this.events = merged(this.events, told.events);
    this.moves = merged(this.moves, told.moves);
    this.now = told.now;
    return true;
  }

  /** The cells of a column, as many as there are rows. */
  cells(name, upstream) {
    const columns = upstream === undefined ? this.columns : this.upstreams.get(upstream);
    return columns?.get(name) ?? new Array(this.t.length).fill(0);
  }

  /** The index of the first row of the last `seconds`. */
  from(seconds) {
    if (this.t.length === 0) return 0;
    const start = this.t.at(-1) - seconds;
    let at = Math.max(0, this.t.length - Math.ceil(seconds) - 1);
    while (at < this.t.length && this.t[at] <= start) at++;
    return at;
  }

  /** What a column adds up to over the last `seconds`. */
  sum(name, seconds, upstream) {
    const cells = this.cells(name, upstream);
    let sum = 0;
    for (let at = this.from(seconds); at < cells.length; at++) sum += cells[at];
    return sum;
  }

  /** The largest cell of the last `seconds`. */
  max(name, seconds, upstream) {
    return this.cells(name, upstream).slice(this.from(seconds)).reduce((a, b) => Math.max(a, b), 0);
  }

  /** The newest cell. */
  last(name, upstream) {
    return this.cells(name, upstream).at(-1) ?? 0;
  }

  /** The names of columns that begin with `prefix`, without it. */
  names(prefix) {
    return [...this.columns.keys()].filter((name) => name.startsWith(prefix)).map((name) => name.slice(prefix.length));
  }
}

function append(columns, told, known, rows, length) {
  for (const name of Object.keys(told)) {
    if (!columns.has(name)) columns.set(name, new Array(length - (rows - known)).fill(0));
  }
  for (const [name, cells] of columns) {
    for (let row = known; row < rows; row++) cells.push(told[name]?.[row] ?? 0);
  }
}

/** Both lists, each number once, the newest 256. */
function merged(old, told) {
  const newest = old.at(-1)?.n ?? 0;
  return [...old, ...told.filter((item) => item.n > newest)].slice(-256);
}
