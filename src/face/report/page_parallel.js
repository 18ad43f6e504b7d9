// SPDX-License-Identifier: Apache-2.0
// Every trial as a line over all axes. Dragging on an axis, or arrow keys on it, choose a part of
// it; what is chosen holds for the other charts and for the table too.
const shareOfBest = (row) => {
  const speed = value(row, 'tokens_per_s_per_gpu');
  const cell = trials.cells[value(row, 'cell')];
  return speed === null || !cell || !cell.best ? null : speed / cell.best;
};
const parallelAxes = () => {
  const axes = [];
  for (const column of trials.columns.values()) {
    if (!column.axis || 'same' in column) continue;
    // Nodes say it already.
    if (column.name === 'gpus' && axes.some((axis) => axis.name === 'nodes')) continue;
    const seen = new Set();
    for (const row of everything) seen.add(column.at(row));
    if (seen.size < 2) continue;
    const names = [...seen].sort((a, b) => (typeof a === 'number' && typeof b === 'number' ? a - b
      : String(a).localeCompare(String(b), 'en', {numeric: true})));
    const number = new Map(names.map((name, i) => [name, i]));
    axes.push({name: column.name, title: column.title, names: names.map((n) => (n === null ? '–' : String(n))), at: (row) => number.get(column.at(row))});
  }
  if (trials.columns.get('peak_memory_bytes')) {
    axes.push({name: 'peak_memory_bytes', title: 'memory', kind: 'bytes', zero: true, at: (row) => value(row, 'peak_memory_bytes')});
  }
  axes.push({name: 'share', title: "of the cell's best", kind: 'share', zero: true, at: shareOfBest});
  return axes.filter((axis) => everything.some((row) => axis.at(row) !== null));
};
/// What a line says by its colour.
const lineKinds = [
  {name: "95 % of the cell's best and more", ink: 's8', holds: (share) => share !== null && share >= 0.95},
  {name: '80 to 95 %', ink: 's6', holds: (share) => share !== null && share >= 0.8},
  {name: 'below 80 %', ink: 's4', holds: (share) => share !== null},
  {name: 'not measured', ink: 'k6', holds: () => true},
];
const mostLines = 4000;

// ---- Which part of each axis is chosen ------------------------------------------------------------
const rangeText = (axis, [low, high]) => {
  const textOf = (v) => (axis.names ? axis.names[Math.round(v)] : shown(axis.kind, v));
  const [from, to] = axis.names ? [Math.ceil(low), Math.floor(high)] : [low, high];
  return `${axis.title} ${from >= to ? textOf(to) : `${textOf(from)} to ${textOf(to)}`}`;
};
/// `ranges`: of an axis, by name, [least, most] of what is chosen. `range` null: all of it.
const setRange = (ranges, axis, range) => {
  if (range) {
    const holds = (row) => {
      const v = axis.at(row);
      return v !== null && v !== undefined && v >= range[0] && v <= range[1];
    };
    ranges.set(axis.name, range);
    choice.brushes.set(axis.name, {holds, words: rangeText(axis, range)});
  } else {
    ranges.delete(axis.name);
    choice.brushes.delete(axis.name);
  }
  choose();
};
const dragChooses = (catcher, yOf, valueAt, set) => catcher.addEventListener('pointerdown', (event) => {
  const least = 4;  // px; less is a click
  const from = yOf(event);
  catcher.setPointerCapture(event.pointerId);
  const move = (next) => {
    const to = yOf(next);
    if (Math.abs(to - from) >= least) set([valueAt(Math.max(from, to)), valueAt(Math.min(from, to))]);
  };
  catcher.addEventListener('pointermove', move);
  catcher.addEventListener('pointerup', (last) => {
    catcher.removeEventListener('pointermove', move);
    if (Math.abs(yOf(last) - from) < least) set(null);
  }, {once: true});
  event.preventDefault();
});
/// In steps of a value, or of a tenth of the axis; Shift moves one end alone.
const keysChoose = (group, axis, known, rangeNow, set) => group.addEventListener('keydown', (event) => {
  const low = axis.names ? 0 : known.reduce((a, v) => Math.min(a, v), Infinity);
  const high = axis.names ? axis.names.length - 1 : known.reduce((a, v) => Math.max(a, v), -Infinity);
  const by = axis.names ? 1 : (high - low) / 10;
  const half = axis.names ? 0.4 : by / 2;
  const range = rangeNow();
  if (event.key === 'Escape' || event.key === 'Delete' || event.key === 'Backspace') set(null);
  else if (event.key === 'ArrowUp' || event.key === 'ArrowDown') {
    const up = event.key === 'ArrowUp' ? by : -by;
    if (!range) set(up > 0 ? [low - half, low + half] : [high - half, high + half]);
    else if (event.shiftKey) set(up > 0 ? [range[0], range[1] + by] : [range[0] - by, range[1]]);
    else if (range[1] + up > low && range[0] + up < high) set([range[0] + up, range[1] + up]);
  } else return;
  event.preventDefault();
});

// ---- One axis: its line, its values, what is chosen of it -------------------------------------------
/// A title in lines that keep off the next axis, which stands `room` px away.
const drawTitle = (group, axis, room) => {
  const most = room / 8;  // letters of a bold title
  const lines = [];
  for (const word of axis.title.split(' ')) {
    const longer = lines.length ? `${lines[lines.length - 1]} ${word}` : word;
    if (lines.length && longer.length <= most) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  const text = svgElement('text', {'text-anchor': 'middle', 'font-weight': 'bold'});
  lines.forEach((line, i) => text.append(svgElement('tspan', {x: axis.x, y: 14 * (i + 1)}, line)));
  group.append(text);
};
/// `frame`: {top, bottom} of the axes and the room between two of them, in px. Gives axis.showBrush.
const drawAxis = (svg, axis, frame, ranges) => {
  const {top, bottom} = frame;
  const known = everything.map(axis.at).filter((v) => v !== null && v !== undefined);
  axis.scale = scaleOf(axis, known, bottom, top);
  const group = svgElement('g', {tabindex: 0, role: 'slider', class: 'axis', 'aria-label': axis.title, 'aria-orientation': 'vertical',
    'aria-valuemin': 0, 'aria-valuemax': 100, 'aria-valuenow': 0, 'data-axis': axis.name});
  group.append(svgElement('line', {x1: axis.x, x2: axis.x, y1: top, y2: bottom, stroke: 'var(--faint)'}));
  drawTitle(group, axis, frame.room);
  const ticks = axis.scale.ticks();
  const every = Math.max(1, Math.ceil(ticks.length / ((bottom - top) / 18)));
  ticks.filter((_, k) => k % every === 0).forEach((tick) => group.append(svgElement('text', {x: axis.x + 6, y: axis.scale.at(tick) + 4,
    'paint-order': 'stroke', stroke: 'var(--paper)', 'stroke-width': 3}, axis.scale.text(tick))));
  const brush = svgElement('rect', {x: axis.x - 9, width: 18, y: top, height: 0, fill: 'var(--accent)', 'fill-opacity': 0.25, stroke: 'var(--accent)'});
  const catcher = svgElement('rect', {x: axis.x - 16, width: 32, y: top - 8, height: bottom - top + 16, fill: 'transparent', class: 'brush'});
  group.append(brush, catcher);
  svg.append(group);
  axis.showBrush = () => {
    const range = ranges.get(axis.name);
    const [y1, y2] = range ? [axis.scale.at(range[1]), axis.scale.at(range[0])].map((y) => Math.min(bottom + 6, Math.max(top - 6, y))) : [top, top];
    brush.setAttribute('y', y1);
    brush.setAttribute('height', range ? Math.max(3, y2 - y1) : 0);
    group.setAttribute('aria-valuetext', range ? choice.brushes.get(axis.name).words : 'all');
  };
  const set = (range) => setRange(ranges, axis, range);
  const yOf = (event) => Math.min(bottom + 8, Math.max(top - 8, event.clientY - svg.getBoundingClientRect().top));
  const valueAt = (y) => {
    const [a, b] = [axis.scale.at(0), axis.scale.at(1)];
    return (y - a) / (b - a);
  };
  dragChooses(catcher, yOf, valueAt, set);
  keysChoose(group, axis, known, () => ranges.get(axis.name), set);
  axis.showBrush();
};

// ---- The lines --------------------------------------------------------------------------------------
const strokeTrial = (canvas, axes, row) => {
  let started = false;
  for (const axis of axes) {
    const v = axis.at(row);
    if (v === null || v === undefined) { started = false; continue; }
    // Trials with one value spread a little, so that they can be told apart.
    const y = axis.scale.at(v) + (axis.names ? ((row * 7919) % 13 - 6) * 0.7 : 0);
    if (started) canvas.lineTo(axis.x, y);
    else canvas.moveTo(axis.x, y);
    started = true;
  }
};
/// The chosen trials in the colours of their kinds, all others faintly below. Returns how many
/// trials one line stands for.
const drawTrialLines = (canvas, axes, kindOf) => {
  const rows = isChosen();
  const every = Math.max(1, Math.ceil(choice.rows.length / mostLines));
  const everyOther = Math.max(1, Math.ceil(trials.count / mostLines));
  canvas.lineWidth = 1;
  canvas.globalAlpha = 0.05;
  canvas.strokeStyle = inkOf('faint');
  canvas.beginPath();
  if (choice.rows.length < trials.count) for (let row = 0; row < trials.count; row += everyOther) if (!rows[row]) strokeTrial(canvas, axes, row);
  canvas.stroke();
  for (let kind = lineKinds.length - 1; kind >= 0; --kind) {
    canvas.globalAlpha = choice.rows.length > 300 ? 0.3 : 0.75;
    canvas.strokeStyle = inkOf(lineKinds[kind].ink);
    canvas.beginPath();
    for (let i = 0; i < choice.rows.length; i += every) if (kindOf[choice.rows[i]] === kind) strokeTrial(canvas, axes, choice.rows[i]);
    canvas.stroke();
  }
  return every;
};

const parallelChart = (figure) => {
  const axes = parallelAxes();
  if (axes.length < 2) { figure.closest('section').hidden = true; return; }
  const kindOf = everything.map((row) => lineKinds.findIndex((kind) => kind.holds(shareOfBest(row))));
  const ranges = new Map();
  let redraw = () => {};
  placeFor(figure, (plot, room) => {
    const width = Math.max(room, axes.length * 84);
    const height = Math.round(Math.max(300, Math.min(460, width * 0.32)));
    const canvas = canvasOf(plot, width, height);
    const svg = svgOf(plot, width, height, 'Parallel coordinates of all trials');
    plot.style.width = width > room ? `${width}px` : '';
    const [left, right] = [64, width - 74];
    const between = (right - left) / (axes.length - 1);
    axes.forEach((axis, i) => {
      axis.x = left + i * between;
      drawAxis(svg, axis, {top: 48, bottom: height - 14, room: between}, ranges);
    });
    redraw = () => {
      axes.forEach((axis) => axis.showBrush());
      canvas.clearRect(0, 0, width, height);
      const every = drawTrialLines(canvas, axes, kindOf);
      figure.querySelector('.drawn').textContent = every > 1 ? `One line in ${every} is drawn.` : '';
    };
    redraw();
    legendFor(figure, lineKinds.filter((_, i) => kindOf.includes(i)).map((kind) => ({name: kind.name, colour: inkOf(kind.ink), line: true})));
  });
  watchers.push(() => {
    for (const name of [...ranges.keys()]) if (!choice.brushes.has(name)) ranges.delete(name);
    redraw();
  });
};
