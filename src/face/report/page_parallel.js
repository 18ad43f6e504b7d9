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
  {name: 'not measured', ink: 'k1', holds: () => true},
];
const mostLines = 4000;

const parallelChart = (figure) => {
  const axes = parallelAxes();
  if (axes.length < 2) { figure.closest('section').hidden = true; return; }
  const kindOf = everything.map((row) => lineKinds.findIndex((kind) => kind.holds(shareOfBest(row))));
  const ranges = new Map();  // of an axis: [least, most] of what is chosen
  const note = figure.querySelector('.drawn');
  let redraw = () => {};

  const textOf = (axis, v) => (axis.names ? axis.names[Math.round(v)] : shown(axis.kind, v));
  const setRange = (axis, range) => {
    if (range) {
      ranges.set(axis.name, range);
      const holds = (row) => {
        const v = axis.at(row);
        return v !== null && v !== undefined && v >= range[0] && v <= range[1];
      };
      const [from, to] = axis.names ? [Math.ceil(range[0]), Math.floor(range[1])] : range;
      choice.brushes.set(axis.name, {holds, words: from >= to ? `${axis.title} ${textOf(axis, to)}` : `${axis.title} ${textOf(axis, from)} to ${textOf(axis, to)}`});
    } else {
      ranges.delete(axis.name);
      choice.brushes.delete(axis.name);
    }
    choose();
  };

  const place = placeFor(figure, (plot, room) => {
    const width = Math.max(room, axes.length * 84);
    const height = Math.round(Math.max(300, Math.min(460, width * 0.32)));
    const [top, bottom, left, right] = [34, height - 14, 64, width - 74];
    const canvas = canvasOf(plot, width, height);
    const svg = svgOf(plot, width, height, 'Parallel coordinates of all trials');
    plot.style.width = width > room ? `${width}px` : '';
    const step = (right - left) / (axes.length - 1);
    axes.forEach((axis, i) => {
      axis.x = left + i * step;
      const known = everything.map(axis.at).filter((v) => v !== null && v !== undefined);
      axis.scale = scaleOf(axis, known, bottom, top);
      const group = svgElement('g', {tabindex: 0, role: 'slider', class: 'axis', 'aria-label': axis.title, 'aria-orientation': 'vertical',
        'aria-valuemin': 0, 'aria-valuemax': 100, 'aria-valuenow': 0, 'data-axis': axis.name});
      group.append(svgElement('line', {x1: axis.x, x2: axis.x, y1: top, y2: bottom, stroke: 'var(--faint)'}));
      const anchor = i === 0 ? 'middle' : i === axes.length - 1 ? 'middle' : 'middle';
      group.append(svgElement('text', {x: axis.x, y: 14, 'text-anchor': anchor, 'font-weight': 'bold'}, axis.title));
      const ticks = axis.scale.ticks();
      const every = Math.max(1, Math.ceil(ticks.length / ((bottom - top) / 18)));
      ticks.forEach((tick, k) => {
        if (k % every) return;
        group.append(svgElement('text', {x: axis.x + 6, y: axis.scale.at(tick) + 4, 'paint-order': 'stroke', stroke: 'var(--paper)', 'stroke-width': 3}, axis.scale.text(tick)));
      });
      const brush = svgElement('rect', {x: axis.x - 9, width: 18, y: top, height: 0, fill: 'var(--accent)', 'fill-opacity': 0.25, stroke: 'var(--accent)'});
      const catcher = svgElement('rect', {x: axis.x - 16, width: 32, y: top - 8, height: bottom - top + 16, fill: 'transparent', class: 'brush'});
      group.append(brush, catcher);
      svg.append(group);
      const valueAt = (y) => {
        const [a, b] = [axis.scale.at(0), axis.scale.at(1)];
        return (y - a) / (b - a);
      };
      const showBrush = () => {
        const range = ranges.get(axis.name);
        if (range) {
          const [y1, y2] = [axis.scale.at(range[1]), axis.scale.at(range[0])].map((y) => Math.min(bottom + 6, Math.max(top - 6, y)));
          brush.setAttribute('y', y1);
          brush.setAttribute('height', Math.max(3, y2 - y1));
        } else {
          brush.setAttribute('height', 0);
        }
        group.setAttribute('aria-valuetext', range ? choice.brushes.get(axis.name).words : 'all');
      };
      const yOf = (event) => Math.min(bottom + 8, Math.max(top - 8, event.clientY - svg.getBoundingClientRect().top));
      catcher.addEventListener('pointerdown', (event) => {
        const from = yOf(event);
        catcher.setPointerCapture(event.pointerId);
        const move = (next) => {
          const to = yOf(next);
          if (Math.abs(to - from) < 4) return;
          const [low, high] = [valueAt(Math.max(from, to)), valueAt(Math.min(from, to))];
          setRange(axis, [low, high]);
        };
        const up = (last) => {
          catcher.removeEventListener('pointermove', move);
          if (Math.abs(yOf(last) - from) < 4) setRange(axis, null);
        };
        catcher.addEventListener('pointermove', move);
        catcher.addEventListener('pointerup', up, {once: true});
        event.preventDefault();
      });
      // Keys go in steps of a value, or of a tenth of the axis; Shift moves one end alone.
      group.addEventListener('keydown', (event) => {
        const low = axis.names ? 0 : Math.min(...known.slice(0, 1), known.reduce((a, v) => Math.min(a, v), Infinity));
        const high = axis.names ? axis.names.length - 1 : known.reduce((a, v) => Math.max(a, v), -Infinity);
        const by = axis.names ? 1 : (high - low) / 10;
        const half = axis.names ? 0.4 : by / 2;
        const range = ranges.get(axis.name);
        if (event.key === 'Escape' || event.key === 'Delete' || event.key === 'Backspace') setRange(axis, null);
        else if (event.key === 'ArrowUp' || event.key === 'ArrowDown') {
          const up = event.key === 'ArrowUp' ? by : -by;
          if (!range) setRange(axis, up > 0 ? [low - half, low + half] : [high - half, high + half]);
          else if (event.shiftKey) setRange(axis, up > 0 ? [range[0], range[1] + by] : [range[0] - by, range[1]]);
          else if (range[1] + up > low && range[0] + up < high) setRange(axis, [range[0] + up, range[1] + up]);
        } else return;
        event.preventDefault();
      });
      axis.showBrush = showBrush;
      showBrush();
    });

    const lines = () => {
      canvas.clearRect(0, 0, width, height);
      const rows = isChosen();
      const every = Math.max(1, Math.ceil(choice.rows.length / mostLines));
      const everyOther = Math.max(1, Math.ceil(trials.count / mostLines));
      const stroke = (row) => {
        let started = false;
        axes.forEach((axis, i) => {
          const v = axis.at(row);
          if (v === null || v === undefined) { started = false; return; }
          // Trials with one value spread a little, so that they can be told apart.
          const y = axis.scale.at(v) + (axis.names ? ((row * 7919) % 13 - 6) * 0.7 : 0);
          if (started) canvas.lineTo(axis.x, y);
          else canvas.moveTo(axis.x, y);
          started = true;
        });
      };
      canvas.lineWidth = 1;
      canvas.globalAlpha = 0.05;
      canvas.strokeStyle = inkOf('faint');
      canvas.beginPath();
      if (choice.rows.length < trials.count) for (let row = 0; row < trials.count; row += everyOther) if (!rows[row]) stroke(row);
      canvas.stroke();
      for (let kind = lineKinds.length - 1; kind >= 0; --kind) {
        canvas.globalAlpha = choice.rows.length > 300 ? 0.3 : 0.75;
        canvas.strokeStyle = inkOf(lineKinds[kind].ink);
        canvas.beginPath();
        for (let i = 0; i < choice.rows.length; i += every) if (kindOf[choice.rows[i]] === kind) stroke(choice.rows[i]);
        canvas.stroke();
      }
      note.textContent = every > 1 ? `One line in ${every} is drawn.` : '';
    };
    redraw = () => {
      axes.forEach((axis) => axis.showBrush());
      lines();
    };
    lines();
    legendFor(figure, lineKinds.filter((_, i) => kindOf.includes(i)).map((kind) => ({name: kind.name, colour: inkOf(kind.ink), line: true})));
  });
  watchers.push(() => {
    for (const name of [...ranges.keys()]) if (!choice.brushes.has(name)) ranges.delete(name);
    redraw();
  });
  return place;
};
