// SPDX-License-Identifier: Apache-2.0
// Charts at the width of their place, drawn anew when it changes: axes, lines and names as SVG,
// thousands of dots or lines on a canvas below it.
//
// Decision: A script of our own, and no library, draws charts at the width of their place, so
// that their text has 12 px on a phone and on a wall. The lines of 100,000 trials need a canvas,
// which d3 does not draw. Header, table and details of the cells are HTML that C++ has written:
// they are there without a script.
const inkOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const svgElement = (name, values, text) => {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, content] of Object.entries(values)) element.setAttribute(key, content);
  if (text !== undefined) element.textContent = text;
  return element;
};
const pen = document.createElement('canvas').getContext('2d');
const widthOf = (text) => {
  pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
};

// ---- Scales -------------------------------------------------------------------------------------
/// `axis`: {title, kind, log, zero, whole, names}. Ticks stand at the data where these are few.
const scaleOf = (axis, data, from, to) => {
  const values = data.filter((v) => Number.isFinite(v) && (!axis.log || v > 0));
  const inner = axis.log ? Math.log10 : (v) => v;
  const few = [...new Set(values)].sort((a, b) => a - b);
  let low = values.length ? values.reduce((a, v) => Math.min(a, inner(v)), Infinity) : 0;
  let high = values.length ? values.reduce((a, v) => Math.max(a, inner(v)), -Infinity) : 1;
  if (axis.names) [low, high] = [-0.5, axis.names.length - 0.5];
  else if (axis.zero && !axis.log) [low, high] = [Math.min(0, low), high > 0 ? high * 1.05 : 1];
  else {
    const pad = high > low ? (high - low) * 0.04 : axis.log ? 0.3 : axis.whole ? 1 : Math.max(Math.abs(low) * 0.1, 1e-9);
    [low, high] = [low - pad, high + pad];
  }
  const at = (v) => from + ((inner(v) - low) / (high - low)) * (to - from);
  const room = Math.abs(to - from);
  const ticks = () => {
    if (axis.names) return axis.names.map((_, i) => i);
    const wanted = Math.max(2, Math.min(8, Math.floor(room / (axis.kind === 'bytes' ? 80 : 60))));
    if (axis.exact && few.length <= 12) return few;
    if (axis.log) {
      const all = [];
      for (let power = Math.floor(low); power <= high; ++power) {
        for (const factor of high - low < 2.5 ? [1, 2, 5] : [1]) all.push(factor * 10 ** power);
      }
      return all.filter((v) => inner(v) >= low && inner(v) <= high);
    }
    const rough = (high - low) / wanted;
    const power = 10 ** Math.floor(Math.log10(rough));
    let step = axis.kind === 'bytes' ? 2 ** Math.ceil(Math.log2(rough))
      : power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
    if (axis.whole) step = Math.max(1, step);
    // One tick alone says nothing about distances.
    else while (Math.floor(high / step) <= Math.ceil(low / step)) step /= 2;
    const all = [];
    for (let v = Math.ceil(low / step) * step; v <= high + step * 1e-9; v += step) all.push(Math.abs(v) < step * 1e-6 ? 0 : v);
    return all;
  };
  return {at, ticks, text: (v) => (axis.names ? axis.names[v] : shown(axis.kind, v)), holds: (v) => Number.isFinite(v) && (!axis.log || v > 0)};
};

// ---- A place for a chart --------------------------------------------------------------------------
/// Draws now, when its width, the theme or the choice changes, and for print. Nothing is drawn
/// before somebody could see it.
const places = [];
const placeFor = (figure, draw) => {
  const plot = figure.querySelector('.plot');
  let width = 0;  // of the figure when it was drawn
  let seen = false;
  const now = (forced) => {
    const room = forced || figure.clientWidth;
    if (!room) return;
    width = figure.clientWidth;
    plot.style.width = '';
    plot.replaceChildren();
    draw(plot, room);
  };
  const place = {draw: (forced) => { if (seen || forced) now(forced); }};
  places.push(place);
  new IntersectionObserver((entries, observer) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    seen = true;
    observer.disconnect();
    now();
  }, {rootMargin: '600px'}).observe(plot);
  new ResizeObserver(() => { if (seen && figure.clientWidth !== width) now(); }).observe(figure);
  return place;
};
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => places.forEach((place) => place.draw()));
const printWidth = 1000;
// A canvas keeps the colours that it was drawn with, and the style of paper holds too late for it.
addEventListener('beforeprint', () => {
  document.documentElement.classList.add('printed');
  places.forEach((place) => place.draw(printWidth));
});
addEventListener('afterprint', () => {
  document.documentElement.classList.remove('printed');
  places.forEach((place) => place.draw());
});

const canvasOf = (plot, width, height) => {
  const canvas = make('canvas');
  const zoom = devicePixelRatio || 1;
  canvas.width = width * zoom;
  canvas.height = height * zoom;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  plot.append(canvas);
  const context = canvas.getContext('2d');
  context.scale(zoom, zoom);
  return context;
};
const svgOf = (plot, width, height, title) => {
  plot.style.height = `${height}px`;
  const svg = svgElement('svg', {width, height, viewBox: `0 0 ${width} ${height}`, role: 'group', 'aria-label': title});
  plot.append(svg);
  return svg;
};
const legendFor = (figure, entries) => {
  let list = figure.querySelector('.keys');
  if (!list) {
    list = make('ul', undefined, 'keys');
    figure.querySelector('.plot').after(list);
  }
  list.replaceChildren(...entries.map(({name, colour, dashed, line}) => {
    const item = make('li');
    const key = make('span', undefined, 'key');
    key.style.background = dashed ? `repeating-linear-gradient(90deg, ${colour} 0 4px, transparent 4px 7px)` : colour;
    if (line || dashed) { key.style.height = '3px'; key.style.width = '20px'; key.style.verticalAlign = 'middle'; }
    item.append(key, name);
    return item;
  }));
};

/// Both axes, their ticks and titles; the scales to draw by.
const axesOf = (svg, spec, xs, ys, width, height) => {
  const bottom = height - 42;
  const top = 26;
  const yTexts = scaleOf(spec.y, ys, bottom, top);
  const left = Math.ceil(Math.max(34, ...yTexts.ticks().map((v) => widthOf(yTexts.text(v))))) + 12;
  const right = width - 16;
  const [x, y] = [scaleOf(spec.x, xs, left, right), yTexts];
  const line = (x1, y1, x2, y2, ink, more = {}) =>
    svg.append(svgElement('line', {x1, y1, x2, y2, stroke: `var(--${ink})`, ...more}));
  svg.append(svgElement('text', {x: 2, y: 13, class: 'faint'}, spec.y.title));
  svg.append(svgElement('text', {x: (left + right) / 2, y: height - 6, class: 'faint', 'text-anchor': 'middle'}, spec.x.title));
  for (const tick of y.ticks()) {
    line(left, y.at(tick), right, y.at(tick), 'line', {'stroke-width': 0.5});
    svg.append(svgElement('text', {x: left - 6, y: y.at(tick) + 4, 'text-anchor': 'end'}, y.text(tick)));
  }
  let free = -Infinity;
  for (const tick of x.ticks()) {
    const half = widthOf(x.text(tick)) / 2;
    const place = Math.min(Math.max(x.at(tick), half), width - half - 1);
    line(x.at(tick), bottom, x.at(tick), bottom + 4, 'faint');
    if (place - half < free + 6) continue;
    free = place + half;
    svg.append(svgElement('text', {x: place, y: bottom + 18, 'text-anchor': 'middle'}, x.text(tick)));
  }
  line(left, bottom, right, bottom, 'faint');
  line(left, top, left, bottom, 'faint');
  if (spec.limit) {
    line(x.at(spec.limit.at), top, x.at(spec.limit.at), bottom, 'mark', {'stroke-dasharray': '5 4', 'stroke-width': 1.5});
    const end = x.at(spec.limit.at) > width / 2;
    svg.append(svgElement('text', {x: x.at(spec.limit.at) + (end ? -5 : 5), y: bottom - 8, 'text-anchor': end ? 'end' : 'start'}, spec.limit.name));
  }
  return {x, y, left, right, top, bottom};
};
const heightFor = (width) => Math.round(Math.max(230, Math.min(420, width * 0.45)));

// ---- A chart whose points the page has ------------------------------------------------------------
const seriesColour = (number) => inkOf(`k${number % 8}`);
const lineChart = (figure) => {
  const spec = JSON.parse(figure.querySelector('script').textContent);
  placeFor(figure, (plot, width) => {
    const height = heightFor(width);
    const svg = svgOf(plot, width, height, spec.title);
    const points = spec.series.flatMap((series) => series.points);
    const {x, y} = axesOf(svg, spec, points.map((p) => p[0]), points.map((p) => p[1]), width, height);
    for (const series of spec.series) {
      const colour = `var(--k${series.colour % 8})`;
      const places = series.points.filter((p) => x.holds(p[0]) && y.holds(p[1]));
      if (series.line) {
        svg.append(svgElement('polyline', {points: places.map((p) => `${x.at(p[0]).toFixed(1)},${y.at(p[1]).toFixed(1)}`).join(' '),
          fill: 'none', stroke: colour, 'stroke-width': 2, ...(series.dashed ? {'stroke-dasharray': '5 4'} : {})}));
      }
      if (!series.dots) continue;
      for (const [px, py, title] of places) {
        const dot = svgElement('circle', {cx: x.at(px).toFixed(1), cy: y.at(py).toFixed(1), r: 4, fill: colour, stroke: 'var(--paper)'});
        if (title) {
          dot.addEventListener('mousemove', (event) => pointAt(title, event.clientX, event.clientY));
          dot.addEventListener('mouseleave', () => pointAt(''));
        }
        svg.append(dot);
      }
    }
    legendFor(figure, spec.series.filter((series) => series.name)
      .map((series) => ({name: series.name, colour: seriesColour(series.colour), dashed: series.dashed, line: series.line})));
  });
};

// ---- Dots of trials, of which the chosen ones stand out --------------------------------------------
/// The chosen dots of each kind over the others, which are faint.
const drawDots = (canvas, spec, {x, y}, radius) => {
  const rows = isChosen();
  for (const dim of [true, false]) {
    for (const kind of spec.kinds) {
      canvas.globalAlpha = dim ? 0.13 : 0.85;
      canvas.fillStyle = inkOf(kind.ink);
      canvas.beginPath();
      for (const [dx, dy, row] of kind.dots) {
        if (Boolean(rows[row]) === dim || !x.holds(dx) || !y.holds(dy)) continue;
        const [px, py] = [x.at(dx), y.at(dy)];
        if (kind.square) canvas.rect(px - radius, py - radius, 2 * radius, 2 * radius);
        else { canvas.moveTo(px + radius, py); canvas.arc(px, py, radius, 0, 7); }
      }
      canvas.fill();
    }
  }
};
const drawDiagonal = (svg, all, {x, y}) => {
  const ends = [[Math.max, Math.min, Infinity], [Math.min, Math.max, 0]].map(([inner, outer, from]) =>
    inner(...[0, 1].map((k) => all.reduce((a, d) => outer(a, d[k]), from))));
  svg.append(svgElement('line', {x1: x.at(ends[0]), y1: y.at(ends[0]), x2: x.at(ends[1]), y2: y.at(ends[1]), stroke: 'var(--mark)', 'stroke-dasharray': '5 4', 'stroke-width': 1.5}));
};
/// Names of the first dots, each on the side where it covers no name and no named dot. One without
/// such a side has none.
const drawNames = (svg, labels, all, {x, y}, width) => {
  const named = labels.map(([row, text]) => ({text, dot: all.find((d) => d[2] === row)})).filter((name) => name.dot)
    .map((name) => ({...name, px: x.at(name.dot[0]), py: y.at(name.dot[1]), room: widthOf(name.text) + 12}));
  const taken = [];
  for (const one of named) {
    const free = (left) => left >= 0 && left + one.room <= width &&
      !taken.some((other) => Math.abs(other.y - one.py) < 15 && other.left < left + one.room && left < other.left + other.room);
    const coversDot = (left) => named.some((other) => other !== one && Math.abs(other.py - one.py + 10) < 12 &&
      other.px + 6 > left && other.px - 6 < left + one.room);
    const sides = [one.px, one.px - one.room].filter(free);
    // The fastest has its name in any case.
    const left = sides.find((side) => !coversDot(side)) ?? (one === named[0] ? sides[0] : undefined);
    if (left === undefined) continue;
    const end = left < one.px;
    taken.push({left, room: one.room, y: one.py});
    svg.append(svgElement('circle', {cx: one.px, cy: one.py, r: 5.5, fill: 'none', stroke: 'var(--text)', 'stroke-width': 1.5}));
    svg.append(svgElement('text', {x: end ? one.px - 8 : one.px + 8, y: one.py - 6, 'text-anchor': end ? 'end' : 'start', 'paint-order': 'stroke',
      stroke: 'var(--paper)', 'stroke-width': 3}, one.text));
  }
};
/// The dot next to the mouse is told; a click on it shows its trial.
const dotsAnswer = (svg, all, {x, y}, wordsOf) => {
  const nearest = (event) => {
    const box = svg.getBoundingClientRect();
    const [mx, my] = [event.clientX - box.left, event.clientY - box.top];
    let best = null;
    let least = 100;
    for (const dot of all) {
      const far = (x.at(dot[0]) - mx) ** 2 + (y.at(dot[1]) - my) ** 2;
      if (far < least) [best, least] = [dot, far];
    }
    return best;
  };
  svg.addEventListener('mousemove', (event) => {
    const dot = nearest(event);
    pointAt(dot ? wordsOf(dot) : '', event.clientX, event.clientY);
  });
  svg.addEventListener('mouseleave', () => pointAt(''));
  svg.addEventListener('click', (event) => {
    const dot = nearest(event);
    if (dot) location.hash = `trial=${encodeURIComponent(value(dot[2], 'trial'))}`;
  });
};
/// `specOf` gives kinds: [{name, ink, dots: [[x, y, row]]}], titles, labels. Returns its place.
const dotChart = (figure, specOf) => placeFor(figure, (plot, width) => {
  const height = heightFor(width);
  const spec = specOf();
  const canvas = canvasOf(plot, width, height);
  const svg = svgOf(plot, width, height, spec.title);
  const all = spec.kinds.flatMap((kind) => kind.dots);
  const scales = axesOf(svg, spec, all.map((d) => d[0]).concat(spec.limit ? [spec.limit.at] : []), all.map((d) => d[1]), width, height);
  if (spec.diagonal && all.length) drawDiagonal(svg, all, scales);
  drawDots(canvas, spec, scales, all.length > 2000 ? 2 : 3.5);
  drawNames(svg, spec.labels || [], all, scales, width);
  dotsAnswer(svg, all, scales, spec.words);
  legendFor(figure, spec.kinds.filter((kind) => kind.dots.length).map((kind) => ({name: kind.name, colour: inkOf(kind.ink)}))
    .concat(spec.limit ? [{name: spec.limit.name, colour: inkOf('mark'), dashed: true}] : [])
    .concat(spec.diagonal ? [{name: spec.diagonal, colour: inkOf('mark'), dashed: true}] : []));
});
