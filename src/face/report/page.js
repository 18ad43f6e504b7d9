// SPDX-License-Identifier: Apache-2.0
// Everything is on the page already. This shows one cell's panel, and fills the table of trials.
// Text of others comes in through textContent alone.
'use strict';
(() => {
  const byId = (id) => document.getElementById(id);
  const make = (name, text) => {
    const element = document.createElement(name);
    if (text !== undefined) element.textContent = text;
    return element;
  };

  // ---- The heatmap: hover, click, keys --------------------------------------------------------
  const tip = byId('tip');
  const cells = [...document.querySelectorAll('[data-key]')];
  const place = (key) => key.split('-').slice(1).map(Number);
  const choose = (cell) => {
    const panel = byId('panel-' + cell.dataset.key);
    if (!panel) return;
    for (const other of document.querySelectorAll('.panel')) other.hidden = other !== panel;
    for (const other of cells) other.setAttribute('aria-pressed', other === cell);
  };
  const point = (cell, x, y) => {
    tip.textContent = cell.getAttribute('aria-label');
    tip.hidden = false;
    tip.style.left = Math.max(0, Math.min(x + 12, innerWidth - tip.offsetWidth - 8)) + 'px';
    tip.style.top = Math.max(0, Math.min(y + 12, innerHeight - tip.offsetHeight - 8)) + 'px';
  };
  const move = (cell, key) => {
    const [row, column] = place(cell.dataset.key);
    const steps = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]};
    const [down, right] = steps[key];
    const ahead = cells.filter((other) => {
      const [r, c] = place(other.dataset.key);
      return down ? c === column && Math.sign(r - row) === down : r === row && Math.sign(c - column) === right;
    });
    const far = (other) => {
      const [r, c] = place(other.dataset.key);
      return Math.abs(r - row) + Math.abs(c - column);
    };
    ahead.sort((a, b) => far(a) - far(b));
    if (ahead.length) ahead[0].focus();
  };
  cells.forEach((cell, number) => {
    // The tooltip of the page is in place of the browser's.
    const title = cell.querySelector('title');
    if (title) title.remove();
    const panel = byId('panel-' + cell.dataset.key);
    cell.setAttribute('role', 'button');
    cell.setAttribute('aria-pressed', Boolean(panel && !panel.hidden));
    cell.tabIndex = number === 0 ? 0 : -1;
    cell.addEventListener('mousemove', (event) => point(cell, event.clientX, event.clientY));
    cell.addEventListener('mouseleave', () => { tip.hidden = true; });
    cell.addEventListener('blur', () => { tip.hidden = true; });
    cell.addEventListener('focus', () => {
      for (const other of cells) other.tabIndex = other === cell ? 0 : -1;
      const box = cell.getBoundingClientRect();
      point(cell, box.left, box.bottom);
    });
    cell.addEventListener('click', () => choose(cell));
    cell.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' || event.key === ' ') {
        choose(cell);
      } else if (event.key === 'Escape') {
        tip.hidden = true;
      } else if (event.key.startsWith('Arrow')) {
        move(cell, event.key);
      } else {
        return;
      }
      event.preventDefault();
    });
  });

  // ---- All trials -----------------------------------------------------------------------------
  const data = JSON.parse(byId('data').textContent);
  // A list of one number is a text; a column without different values is not in the rows.
  const plain = (datum) => (Array.isArray(datum) ? data.texts[datum[0]] : datum);
  let places = 0;
  const placeOf = data.varies.map((varies) => (varies ? places++ : -1));
  const value = (row, column) => plain(placeOf[column] < 0 ? data.same[column] : row[placeOf[column]]);
  const shownColumns = ['trial', 'model', 'nodes', 'gpus', 'layout', 'vars', 'outcome', 'tokens_per_s_per_gpu',
    'train_step_ms', 'peak_memory_bytes', 'mfu', 'mark', 'cause']
    .map((name) => data.columns.indexOf(name))
    .filter((column) => data.rows.some((row) => {
      const content = value(row, column);
      // Sweeps over gpus have 0 nodes everywhere.
      return content !== null && !(data.columns[column] === 'nodes' && content === 0);
    }));
  const oneWord = ['outcome', 'mark'].map((name) => data.columns.indexOf(name));
  const pageSize = 50;
  let sorted = {column: -1, down: false};
  let first = 0;
  let rows = data.rows;
  const number = (text, digits) => text.toLocaleString('en-US', {maximumFractionDigits: digits});
  const shown = (column, content) => {
    if (content === null) return '';
    const name = data.columns[column];
    if (typeof content !== 'number') return content;
    if (name.endsWith('_bytes')) {
      return content >= 2 ** 30 ? number(content / 2 ** 30, 1) + ' GiB' : number(content / 2 ** 20, 1) + ' MiB';
    }
    if (name.endsWith('_ms')) return content >= 1000 ? number(content / 1000, 2) + ' s' : number(content, 1) + ' ms';
    if (name === 'mfu' || name.endsWith('_spread')) return number(content * 100, 1) + ' %';
    return number(content, content >= 100 ? 0 : 2);
  };
  const showTrial = (row) => {
    const box = byId('trial');
    const list = make('dl');
    const pre = make('pre');
    data.columns.forEach((name, column) => {
      const content = value(row, column);
      if (content === null || content === '') return;
      if (name === 'log_tail') {
        pre.textContent = content;
        return;
      }
      list.append(make('dt', data.titles[column]), make('dd', shown(column, content)));
    });
    const close = make('button', 'Close');
    close.addEventListener('click', () => { box.hidden = true; });
    box.replaceChildren(make('h3', value(row, data.columns.indexOf('trial'))), list);
    if (pre.textContent) box.append(make('p', 'End of its log:'), pre);
    box.append(close);
    box.hidden = false;
    box.focus();
    box.scrollIntoView({block: 'nearest'});
  };
  const draw = () => {
    const body = byId('trials').tBodies[0];
    body.replaceChildren(...rows.slice(first, first + pageSize).map((row) => {
      const line = make('tr');
      for (const column of shownColumns) {
        const content = value(row, column);
        const cell = make('td');
        if (data.columns[column] === 'trial') {
          const button = make('button', content);
          button.addEventListener('click', () => showTrial(row));
          cell.append(button);
        } else {
          cell.textContent = shown(column, content);
        }
        if (typeof content === 'number') cell.className = 'number';
        if (oneWord.includes(column)) cell.className = 'word';
        line.append(cell);
      }
      return line;
    }));
    const last = Math.min(first + pageSize, rows.length);
    byId('count').textContent = rows.length === 0 ? 'no trial matches'
      : `${first + 1} to ${last} of ${number(rows.length, 0)}` +
        (rows.length < data.rows.length ? ` (${number(data.rows.length, 0)} in all)` : '');
    byId('before').disabled = first === 0;
    byId('after').disabled = last >= rows.length;
  };
  const compare = (a, b) => {
    const x = value(a, sorted.column);
    const y = value(b, sorted.column);
    if (x === null || y === null) return (x === null) - (y === null);
    const order = typeof x === 'number' && typeof y === 'number' ? x - y
      : String(x).localeCompare(String(y), 'en', {numeric: true});
    return sorted.down ? -order : order;
  };
  const choseRows = () => {
    const words = byId('filter').value.toLowerCase().split(/\s+/).filter(Boolean);
    rows = data.rows.filter((row) => {
      if (!words.length) return true;
      const text = data.columns.map((_, column) => String(value(row, column) ?? '').toLowerCase()).join('\n');
      return words.every((word) => text.includes(word));
    });
    if (sorted.column >= 0) rows = [...rows].sort(compare);
    first = 0;
    draw();
  };
  const csvField = (content) => {
    if (content === null) return '';
    let text = String(content);
    // A spreadsheet would calculate these.
    if (typeof content === 'string' && /^[=+\-@\t\r]/.test(text) && !Number.isFinite(Number(text))) text = "'" + text;
    return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  };
  const csv = () => [data.columns.map(csvField).join(',')]
    .concat(rows.map((row) => data.columns.map((_, column) => csvField(value(row, column))).join(','))).join('\n') + '\n';
  const head = make('tr');
  for (const column of shownColumns) {
    const cell = make('th');
    const button = make('button', data.titles[column]);
    cell.scope = 'col';
    cell.setAttribute('aria-sort', 'none');
    button.addEventListener('click', () => {
      sorted = {column, down: sorted.column === column ? !sorted.down : data.columns[column].startsWith('tokens')};
      for (const other of head.children) other.setAttribute('aria-sort', 'none');
      cell.setAttribute('aria-sort', sorted.down ? 'descending' : 'ascending');
      choseRows();
    });
    cell.append(button);
    head.append(cell);
  }
  byId('trials').tHead.append(head);
  byId('filter').addEventListener('input', choseRows);
  byId('before').addEventListener('click', () => { first = Math.max(0, first - pageSize); draw(); });
  byId('after').addEventListener('click', () => { first += pageSize; draw(); });
  byId('csv').addEventListener('click', () => {
    const link = make('a');
    link.href = URL.createObjectURL(new Blob([csv()], {type: 'text/csv'}));
    link.download = 'trials.csv';
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
  draw();
})();
