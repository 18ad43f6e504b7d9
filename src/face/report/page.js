// SPDX-License-Identifier: Apache-2.0
// The page as it is used: the chosen cell, the charts, the choice of trials, their table.

// ---- The table of cells ---------------------------------------------------------------------------
const cells = [...document.querySelectorAll('[data-key]')];
const showCell = (cell) => {
  const panel = byId(`panel-${cell.dataset.key}`);
  for (const other of cells) other.setAttribute('aria-pressed', other === cell);
  choice.cell = cell.dataset.key;
  for (const name of document.querySelectorAll('.chosen-cell')) name.textContent = cell.dataset.name;
  for (const other of document.querySelectorAll('.panel')) other.hidden = other !== panel;
  const none = byId('no-panel');
  if (none) none.hidden = Boolean(panel);
  choose();
};
const moveFrom = (cell, key) => {
  const placeOf = (one) => one.dataset.key.split('-').slice(1).map(Number);
  const [row, column] = placeOf(cell);
  const [down, right] = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]}[key];
  const far = (one) => {
    const [r, c] = placeOf(one);
    return Math.abs(r - row) + Math.abs(c - column);
  };
  const ahead = cells.filter((one) => {
    const [r, c] = placeOf(one);
    return down ? c === column && Math.sign(r - row) === down : r === row && Math.sign(c - column) === right;
  }).sort((a, b) => far(a) - far(b));
  if (ahead.length) ahead[0].focus();
};
for (const cell of cells) {
  cell.addEventListener('mousemove', (event) => pointAt(cell.getAttribute('aria-label'), event.clientX, event.clientY));
  for (const end of ['mouseleave', 'blur']) cell.addEventListener(end, () => pointAt(''));
  cell.addEventListener('click', () => {
    pointAt('');
    showCell(cell);
    const panels = byId('panels');
    if (panels && getComputedStyle(panels).position === 'static') panels.scrollIntoView({block: 'nearest'});
  });
  cell.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') pointAt('');
    else if (event.key.startsWith('Arrow')) moveFrom(cell, event.key);
    else return;
    event.preventDefault();
  });
}

// ---- All trials -------------------------------------------------------------------------------------
const kindOf = (name) => (trials.columns.get(name) || {}).kind;
const listed = ['trial', 'model', 'nodes', 'gpus', 'layout', 'vars', 'outcome', 'tokens_per_s_per_gpu', 'train_step_ms',
  'peak_memory_bytes', 'mfu', 'mark', 'cause'].filter((name) => {
  const column = trials.columns.get(name);
  return column && ('same' in column ? column.same !== null : true) && everything.some((row) => column.at(row) !== null && column.at(row) !== '');
});
const pageSize = 50;
const list = {by: 'tokens_per_s_per_gpu', down: true, first: 0, rows: []};
const heads = new Map();
const trialNamed = (name) => everything.find((row) => value(row, 'trial') === name);

const showTrial = (row) => {
  const box = byId('trial');
  const words = make('dl', undefined, 'words');
  for (const column of trials.columns.values()) {
    const content = column.at(row);
    if (content === null || content === '' || column.name === 'cell') continue;
    words.append(make('dt', column.title), make('dd', String(shown(column.kind, content))));
  }
  const close = make('button', 'Close');
  close.addEventListener('click', () => box.close());
  box.replaceChildren(make('h3', value(row, 'trial')), words);
  if (trials.tails[row]) box.append(make('p', 'The end of its log:'), make('pre', trials.tails[row]));
  box.append(close);
  if (!box.open) box.showModal();
};
const followAddress = () => {
  const name = location.hash.startsWith('#trial=') ? decodeURIComponent(location.hash.slice(7)) : null;
  const row = name === null ? undefined : trialNamed(name);
  if (row !== undefined) showTrial(row);
};
const drawTrials = () => {
  const rows = list.rows.slice(list.first, list.first + pageSize);
  byId('trials').tBodies[0].replaceChildren(...rows.map((row) => {
    const line = make('tr');
    for (const name of listed) {
      const content = value(row, name);
      const sentence = name === 'cause' || name === 'vars';
      const cell = make('td', undefined, typeof content === 'number' ? 'number' : !sentence ? 'name' : content ? 'long' : '');
      if (name === 'trial') {
        const link = make('a', content);
        link.href = `#trial=${encodeURIComponent(content)}`;
        link.addEventListener('click', () => { if (location.hash === link.hash) showTrial(row); });
        cell.append(link);
      } else {
        cell.textContent = shown(kindOf(name), content);
      }
      line.append(cell);
    }
    return line;
  }));
  const last = Math.min(list.first + pageSize, list.rows.length);
  byId('count').textContent = list.rows.length === 0 ? 'No trial matches.'
    : `${digits(list.first + 1)} to ${digits(last)} of ${digits(list.rows.length)}` +
      (list.rows.length < trials.count ? ` (${digits(trials.count)} in all)` : '');
  byId('before').disabled = list.first === 0;
  byId('after').disabled = last >= list.rows.length;
};
const sortTrials = () => {
  const keys = new Map(choice.rows.map((row) => [row, value(row, list.by)]));
  list.rows = [...choice.rows].sort((a, b) => {
    const [x, y] = [keys.get(a), keys.get(b)];
    if (x === null || y === null) return (x === null) - (y === null) || a - b;
    const order = typeof x === 'number' && typeof y === 'number' ? x - y : String(x).localeCompare(String(y), 'en', {numeric: true});
    return (list.down ? -order : order) || a - b;
  });
  list.first = 0;
  for (const [name, head] of heads) head.setAttribute('aria-sort', name !== list.by ? 'none' : list.down ? 'descending' : 'ascending');
  drawTrials();
};
const csvField = (content) => {
  if (content === null) return '';
  let text = String(content);
  // A spreadsheet would calculate these.
  if (typeof content === 'string' && /^[=+\-@\t\r]/.test(text) && !Number.isFinite(Number(text))) text = `'${text}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};
const saveCsv = () => {
  const columns = [...trials.columns.values()].filter((column) => column.name !== 'cell');
  const lines = [columns.map((column) => csvField(column.name)).join(',')]
    .concat(list.rows.map((row) => columns.map((column) => csvField(column.at(row))).join(',')));
  const link = make('a');
  link.href = URL.createObjectURL(new Blob([lines.join('\n') + '\n'], {type: 'text/csv'}));
  link.download = 'trials.csv';
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
};
const makeTable = () => {
  const head = make('tr');
  for (const name of listed) {
    const cell = make('th', undefined, typeof kindOf(name) === 'string' ? 'number' : '');
    const button = make('button', trials.columns.get(name).title);
    cell.scope = 'col';
    button.addEventListener('click', () => {
      list.down = list.by === name ? !list.down : name.startsWith('tokens');
      list.by = name;
      sortTrials();
    });
    cell.append(button);
    heads.set(name, cell);
    head.append(cell);
  }
  byId('trials').tHead.append(head);
  byId('filter').addEventListener('input', () => {
    choice.words = byId('filter').value.toLowerCase().split(/\s+/).filter(Boolean);
    choose();
  });
  byId('before').addEventListener('click', () => { list.first = Math.max(0, list.first - pageSize); drawTrials(); });
  byId('after').addEventListener('click', () => { list.first += pageSize; drawTrials(); });
  byId('csv').addEventListener('click', saveCsv);
  if (!byId('clear')) return;
  byId('only-cell').addEventListener('change', () => { choice.onlyCell = byId('only-cell').checked; choose(); });
  byId('clear').addEventListener('click', () => {
    choice.brushes.clear();
    choice.words = [];
    choice.onlyCell = false;
    byId('filter').value = '';
    byId('only-cell').checked = false;
    choose();
  });
};
const sayChoice = () => {
  if (!byId('chosen')) return;
  const words = [...choice.brushes.values()].map((brush) => brush.words);
  byId('chosen').textContent = choice.rows.length === trials.count ? `All ${plural(trials.count, 'trial')}.`
    : `${digits(choice.rows.length)} of ${plural(trials.count, 'trial')}${words.length ? `: ${words.join(', ')}` : ''}.`;
  byId('clear').disabled = choice.rows.length === trials.count;
};

// ---- Charts of trials -----------------------------------------------------------------------------
const memorySpec = () => {
  const measured = [];
  const oom = [];
  const most = Math.max(trials.limit || 0, everything.reduce((a, row) =>
    (value(row, 'cell') === choice.cell ? Math.max(a, value(row, 'peak_memory_bytes') || 0) : a), 0));
  for (const row of everything) {
    if (value(row, 'cell') !== choice.cell) continue;
    const [speed, memory] = [value(row, 'tokens_per_s_per_gpu'), value(row, 'peak_memory_bytes')];
    if (speed !== null && memory !== null) measured.push([memory, speed, row]);
    else if (value(row, 'outcome') === 'oom' && value(row, 'predicted_tokens_per_s_per_gpu') !== null) oom.push([most, value(row, 'predicted_tokens_per_s_per_gpu'), row]);
  }
  const cell = trials.cells[choice.cell] || {labels: []};
  return {
    title: 'Speed against memory',
    x: {title: 'peak memory per GPU', kind: 'bytes', zero: true},
    y: {title: 'tokens/s/GPU', zero: true},
    kinds: [{name: 'measured', ink: 'k4', dots: measured}, {name: 'out of memory: at the limit, at the predicted speed', ink: 'k5', square: true, dots: oom}],
    limit: trials.limit ? {at: trials.limit, name: `memory of a GPU: ${shown('bytes', trials.limit)}`} : null,
    labels: cell.labels,
    words: (dot) => `${value(dot[2], 'layout')}: ${shown('', dot[1])} tokens/s/GPU${value(dot[2], 'outcome') === 'oom' ? ' predicted, out of memory' : `, ${shown('bytes', dot[0])}`}`,
  };
};
const predictedSpec = () => {
  const dots = [];
  for (const row of everything) {
    const [x, y] = [value(row, 'predicted_tokens_per_s_per_gpu'), value(row, 'tokens_per_s_per_gpu')];
    if (x > 0 && y > 0) dots.push([x, y, row]);
  }
  return {
    title: 'Predicted against measured',
    x: {title: 'predicted tokens/s/GPU', log: true},
    y: {title: 'measured tokens/s/GPU', log: true},
    kinds: [{name: 'a trial', ink: 'k0', dots}],
    diagonal: 'measured as predicted',
    words: (dot) => `${value(dot[2], 'model')}, ${value(dot[2], 'layout')}: predicted ${shown('', dot[0])}, measured ${shown('', dot[1])}`,
  };
};

// ---- Begin ------------------------------------------------------------------------------------------
const begin = () => {
  const first = cells.find((cell) => cell.getAttribute('aria-pressed') === 'true');
  if (!byId('trials')) {
    if (first) showCell(first);
    document.querySelectorAll('figure.lines').forEach(lineChart);
    return;
  }
  makeTable();
  watchers.push(sayChoice, sortTrials);
  document.querySelectorAll('figure.lines').forEach(lineChart);
  for (const [name, specOf] of [['memory-chart', memorySpec], ['predicted-chart', predictedSpec]]) {
    const figure = byId(name);
    if (!figure) continue;
    const place = dotChart(figure, specOf);
    watchers.push(() => place.draw());
  }
  const parallel = byId('parallel-chart');
  if (parallel) parallelChart(parallel);
  if (first) showCell(first);
  else choose();
  addEventListener('hashchange', followAddress);
  byId('trial').addEventListener('close', () => history.replaceState(null, '', location.pathname + location.search));
  followAddress();
};
// The first screen is painted before anything is read.
requestAnimationFrame(() => setTimeout(begin, 0));
