// Making and changing elements. What comes from outside becomes text here and nothing else; the
// page's policy (trusted-types 'none') would not let it be anything else.

/** Makes an element: attributes (`class`, `aria-…`, `on…` as functions), then children. */
export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === 'function') made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, '');
    else if (value !== false && value != null) made.setAttribute(key, value);
  }
  made.append(...children.flat().filter((child) => child != null && child !== false).map(text));
  return made;
}

function text(child) {
  return child instanceof Node ? child : document.createTextNode(String(child));
}

/** The element of this id. */
export const at = (id) => document.getElementById(id);

/** Sets a text, if it is another. */
export function say(element, words) {
  const said = String(words);
  if (element.textContent !== said) element.textContent = said;
}

/** Sets an attribute, if it is another. */
export function mark(element, name, value) {
  if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

/**
 * Keeps the children of `parent` in step with `items`: one element for each key, made once by
 * `make`, changed by `change`. What is focused stays focused as long as its item is there.
 */
export function keep(parent, items, key, make, change) {
  const known = (parent.kept ??= new Map());
  const wanted = new Set();
  let next = parent.firstElementChild;
  for (const item of items) {
    const id = key(item);
    if (wanted.has(id)) continue;
    wanted.add(id);
    let element = known.get(id);
    if (!element) known.set(id, (element = make(item)));
    change(element, item);
    if (element === next) next = next.nextElementSibling;
    else parent.insertBefore(element, next);
  }
  for (const [id, element] of known) {
    if (wanted.has(id)) continue;
    known.delete(id);
    if (element.contains(document.activeElement)) pass(element);
    element.remove();
  }
}

/** Passes the focus on before its element goes. */
function pass(element) {
  const neighbour = element.nextElementSibling ?? element.previousElementSibling;
  const target = neighbour?.querySelector('button') ?? element.closest('[tabindex]');
  target?.focus({ preventScroll: true });
}

/** The head of a table: a caption for those who do not see its heading, and its columns. */
export function head(table, caption, columns) {
  if (table.tHead) return table.tBodies[0];
  const cells = columns.map(([name, kind]) => el('th', { scope: 'col', class: kind }, name));
  table.append(el('caption', { class: 'quiet' }, caption), el('thead', {}, el('tr', {}, cells)), el('tbody'));
  return table.tBodies[0];
}
