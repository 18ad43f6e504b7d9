// SPDX-License-Identifier: Apache-2.0
// The trials, read from the page, and which of them are chosen. Text of others reaches the page
// through textContent alone. Nothing here decides what is faster: the page says it already.
const byId = (id) => document.getElementById(id);
const make = (name, text, className) => {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
};
const plural = (count, noun) => `${count.toLocaleString('en-US')} ${noun}${count === 1 ? '' : 's'}`;

// ---- Reading: page_data.cpp writes it ---------------------------------------------------------
const alphabet = [...Array(92)].map((_, i) => String.fromCharCode(35 + i)).filter((c) => c !== '<' && c !== '\\');
const digit = new Map(alphabet.map((c, i) => [c, i]));
const codesOf = (text, width) => {
  const codes = new Uint32Array(text.length / width);
  for (let i = 0, at = 0; i < codes.length; ++i) {
    let code = 0;
    for (let k = 0; k < width; ++k) code = code * alphabet.length + digit.get(text[at++]);
    codes[i] = code;
  }
  return codes;
};
/// Each line: how much of its beginning and of its end it has from the line before, and the rest.
const frontCoded = (text) => {
  let before = '';
  return text.split('\n').map((line) => {
    const [head, tail] = [digit.get(line[0]), digit.get(line[1])];
    before = before.slice(0, head) + line.slice(2) + before.slice(before.length - tail);
    return before;
  });
};
const read = (column, count) => {
  if ('same' in column) return () => column.same;
  if (column.front !== undefined) {
    const texts = frontCoded(column.front);
    return (row) => texts[row] || null;
  }
  const values = column.front_values === undefined ? column.values : frontCoded(column.front_values);
  const codes = codesOf(column.codes, column.width);
  if (column.after) {
    const end = (row) => column.hashes.slice(row * column.length, (row + 1) * column.length);
    return (row) => value(row, column.after) + values[codes[row] - 1] + end(row);
  }
  if (column.scale) {
    const [low, step] = column.scale;
    return (row) => (codes[row] === 0 ? null : Number(Math.exp(low + (codes[row] - 1) * step).toPrecision(5)));
  }
  return (row) => (codes[row] === 0 ? null : values[codes[row] - 1]);
};
const trials = (() => {
  // A page of a heatmap alone has none.
  const raw = byId('data') ? JSON.parse(byId('data').textContent) : {count: 0, columns: [], cells: {}, tails: {}};
  const columns = new Map();
  for (const column of raw.columns) columns.set(column.name, {...column, at: read(column, raw.count)});
  return {count: raw.count, columns, cells: raw.cells, tails: raw.tails, limit: raw.limit, size: raw.size};
})();
const value = (row, name) => {
  const column = trials.columns.get(name);
  return column ? column.at(row) : null;
};

// ---- Values as people read them ----------------------------------------------------------------
const digits = (number, most) => number.toLocaleString('en-US', {maximumFractionDigits: most});
const shown = (kind, content) => {
  if (content === null || content === undefined) return '';
  if (typeof content !== 'number') return content;
  if (kind === 'bytes') {
    for (const [unit, size] of [['GiB', 2 ** 30], ['MiB', 2 ** 20], ['KiB', 2 ** 10]]) {
      if (Math.abs(content) >= size) return `${digits(content / size, 1)} ${unit}`;
    }
    return `${digits(content, 0)} B`;
  }
  if (kind === 'ms') return content >= 1000 ? `${digits(content / 1000, 2)} s` : `${digits(content, 1)} ms`;
  if (kind === 'share') return `${digits(content * 100, 1)} %`;
  if (kind === 'time') return new Date(content / 1000).toISOString().slice(0, 16).replace('T', ' ') + ' UTC';
  const size = Math.abs(content);
  return digits(content, size >= 100 ? 0 : size >= 10 ? 1 : size >= 0.01 ? 3 : 6);
};

// ---- Which trials are chosen --------------------------------------------------------------------
/// `brushes`: of each column a test of its values, with its words.
const choice = {cell: null, onlyCell: false, words: [], brushes: new Map(), rows: []};
const watchers = [];
const everything = Array.from({length: trials.count}, (_, row) => row);
const wordsOf = (row) => {
  let text = '';
  for (const column of trials.columns.values()) text += `${column.at(row) ?? ''}\n`;
  return text.toLowerCase();
};
let texts = null;
const choose = () => {
  if (choice.words.length && !texts) texts = everything.map(wordsOf);
  choice.rows = everything.filter((row) =>
    (!choice.onlyCell || value(row, 'cell') === choice.cell) &&
    [...choice.brushes.values()].every((brush) => brush.holds(row)) &&
    choice.words.every((word) => texts[row].includes(word)));
  for (const watch of watchers) watch();
};
const isChosen = () => {
  const rows = new Uint8Array(trials.count);
  for (const row of choice.rows) rows[row] = 1;
  return rows;
};
const tip = byId('tip');
const pointAt = (text, x, y) => {
  tip.textContent = text;
  tip.hidden = !text;
  tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${Math.max(4, Math.min(y + 14, innerHeight - tip.offsetHeight - 8))}px`;
};
