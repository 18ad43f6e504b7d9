// ---- What is asked: the form, and its state in the link ------------------------------------------
const presets = JSON.parse(textOf('presets'));
const first = {
  model: 'llama-3-8b', cluster: 'h100-8x', gpus: 64, seq_len: 4096, batch_tokens: '4Mi', dtype: 'bf16',
  family: '', locks: {}, layout: '', trainer: '', numbers: null, rates: null,
};
let state = structuredClone(first);
let vocabulary = null;
let last = null;  // the card that is shown
let lastCounts = [];

function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key in made && key !== 'list') made[key] = value; else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

/** A number as a sweep file writes it: the planner reads its unit. */
const written = (text) => String(text).replaceAll(',', '').trim();

function stateOfLink() {
  const read = structuredClone(first);
  try {
    const text = decodeURIComponent(location.hash.slice(1));
    if (text) Object.assign(read, JSON.parse(text));
  } catch (error) {
    say('#wrong', 'The link could not be read; these are the defaults.');
  }
  if (typeof read.locks !== 'object' || read.locks === null) read.locks = {};
  return read;
}

function linkOf() {
  const told = {};
  for (const [key, value] of Object.entries(state)) {
    if (JSON.stringify(value) !== JSON.stringify(first[key])) told[key] = value;
  }
  const text = Object.keys(told).length === 0 ? '' : '#' + encodeURIComponent(JSON.stringify(told));
  return location.href.split('#')[0] + text;
}

// A cluster that was measured stands in the list of clusters; its models in that of models.
const measuredIn = (one) => `${one.cluster.name}, as measured in ${one.name}`;
const learntOf = () => state.rates ? undefined : presets.learnt.find((one) => measuredIn(one) === state.cluster);
for (const one of presets.learnt) {
  presets.clusters[measuredIn(one)] = one.cluster;
  for (const model of one.models) {
    const its = presets.models[model.name];
    const other = its && JSON.stringify({...its, note: ''}) !== JSON.stringify({...model, note: ''});
    presets.models[other ? `${model.name} of ${one.name}` : model.name] = model;
  }
}
/** The trainer in whose words layouts of a family are written; empty: none. */
const wordsOf = (name) => vocabulary.families.find((one) => one.name === name).words;
/** A page of one's own measurements begins with what was measured fastest. */
function firstMeasured() {
  const one = presets.learnt[0];
  if (!one) return {};
  const run = one.runs[0];
  const shape = one.models[run.model];
  const model = Object.keys(presets.models).find((name) => presets.models[name] === shape) || shape.name;
  return {model, cluster: measuredIn(one), gpus: run.gpus, seq_len: run.seq_len, dtype: run.dtype,
    batch_tokens: String(batchOf(run)), family: one.family};
}
/** Tokens per train step, of the label of a run's layout. */
function batchOf(run) {
  const number = (name) => Number((run.layout.match(new RegExp(`(?:^| )${name}(\\d+)`)) || [0, 1])[1]);
  return number('dp') * number('mb') * number('ga') * run.seq_len;
}

const modelOf = () => state.numbers || presets.models[state.model];
const clusterOf = () => state.rates || presets.clusters[state.cluster];

function question(words, more = {}) {
  const locks = Object.entries(state.locks).map(([name, value]) => `${name}=${value}`).join(' ');
  return {
    ask: words, model: modelOf(), cluster: clusterOf(), gpus: written(state.gpus), seq_len: written(state.seq_len),
    batch_tokens: written(state.batch_tokens), dtype: state.dtype, family: state.family, locks, layout: state.layout,
    trainer: state.trainer,
    presets: {model: state.numbers ? '' : state.model, cluster: state.rates || learntOf() ? '' : state.cluster},
    learnt: learntOf(), ...more,
  };
}

// ---- Controls, made of the program's own tables ---------------------------------------------------
function choice(id, words, chosen, use) {
  const select = element('select', {id});
  for (const word of words) select.append(element('option', {value: word, textContent: word}));
  select.value = chosen;
  select.addEventListener('change', () => use(select.value));
  return select;
}

function labelled(text, control, title = '') {
  return element('label', {title}, text, control);
}

function entry(id, value, use) {
  const input = element('input', {id, value: value === undefined ? '' : value, autocomplete: 'off'});
  input.addEventListener('input', () => use(input.value));
  return input;
}

/** Numbers of a model or a cluster; changing one makes them one's own. */
function numberFields(keys, values, change) {
  const fields = element('div', {className: 'fields'});
  for (const key of keys) {
    if (key.kind === 'toggle') {
      const box = element('input', {type: 'checkbox', checked: Boolean(values[key.name])});
      box.addEventListener('change', () => change(key.name, box.checked));
      fields.append(element('label', {title: key.meaning}, box, key.name.replaceAll('_', ' ')));
      continue;
    }
    const unit = key.unit ? `, ${key.unit}` : '';
    const input = entry(`${key.name}-number`, values[key.name], (text) => {
      const number = Number(text.replaceAll(',', ''));
      change(key.name, text.trim() === '' ? undefined : number);
    });
    fields.append(labelled(key.name.replaceAll('_', ' ') + unit, input, key.meaning));
  }
  return fields;
}

function withValue(object, name, value) {
  const copy = {...object, [name]: value};
  if (value === undefined) delete copy[name];
  return copy;
}

function readConfig(text) {
  slow.ask('config', {ask: ['config'], config: text, name: 'config'}, (answer) => {
    const read = answer.config || {why: answer.error};
    if (read.why) return say('#config-says', read.why);
    state.numbers = read.model;
    changed('numbers');
    // The form is new.
    $('#config-box').open = true;
    say('#config-says', `Read: ${read.parameters}. ${read.note}`);
  });
}

/** Pasted text is read as soon as it is whole. */
function isWhole(text) {
  try {
    return typeof JSON.parse(text) === 'object';
  } catch (error) {
    return false;
  }
}

function modelControls() {
  const own = 'numbers of your own';
  const model = choice('model', [...Object.keys(presets.models), own], state.numbers ? own : state.model, (word) => {
    state.numbers = word === own ? {...modelOf(), name: 'my-model'} : null;
    if (word !== own) state.model = word;
    changed('numbers');
  });
  const text = element('textarea', {id: 'config', placeholder: '{"hidden_size": 4096, …}', spellcheck: false});
  const read = element('button', {type: 'button', id: 'read-config', textContent: 'Read it'});
  read.addEventListener('click', () => readConfig(text.value));
  text.addEventListener('input', () => { if (isWhole(text.value)) readConfig(text.value); });
  text.addEventListener('drop', (event) => {
    const file = event.dataTransfer.files[0];
    if (!file) return;
    event.preventDefault();
    file.text().then((content) => { text.value = content; readConfig(content); });
  });
  return [
    element('div', {className: 'wide'}, labelled('Model', model), element('p', {id: 'parameters', className: 'faint'})),
    element('details', {id: 'model-numbers'}, element('summary', {textContent: 'Its numbers'}),
      numberFields(vocabulary.model, modelOf(), (name, value) => {
        state.numbers = withValue({...modelOf(), name: state.numbers ? state.numbers.name : 'my-model'}, name, value);
        $('#model').value = own;
        changed();
      })),
    element('details', {id: 'config-box'}, element('summary', {textContent: 'Paste or drop a config.json'}), text, read,
      element('p', {id: 'config-says', className: 'faint', role: 'status'})),
  ];
}

function clusterControls() {
  const own = 'numbers of your own';
  const cluster = choice('cluster', [...Object.keys(presets.clusters), own], state.rates ? own : state.cluster, (word) => {
    state.rates = word === own ? {...clusterOf(), name: 'my-cluster', note: ''} : null;
    if (word !== own) state.cluster = word;
    if (learntOf()) {
      state.family = learntOf().family;
      $('#family').value = state.family;
    }
    changed('numbers');
  });
  const change = (name, value) => {
    state.rates = withValue({...clusterOf(), name: 'my-cluster', note: ''}, name, value);
    $('#cluster').value = own;
    changed();
  };
  const peaks = element('div', {className: 'fields'});
  for (const word of vocabulary.peaks) {
    const input = entry(`peak-${word}`, (clusterOf().peak_flops || {})[word], (text) => {
      const number = text.trim() === '' ? undefined : Number(text);
      change('peak_flops', withValue(clusterOf().peak_flops || {}, word, number));
    });
    peaks.append(labelled(`peak ${word}, FLOP/s`, input));
  }
  return [
    element('div', {className: 'wide'}, labelled('Cluster', cluster)),
    element('details', {id: 'cluster-numbers'}, element('summary', {textContent: 'Its numbers'}),
      numberFields(vocabulary.cluster.filter((key) => key.kind !== 'toggle'), clusterOf(), change), peaks),
  ];
}

function lockControl(axis) {
  const held = state.locks[axis.name];
  const use = (value) => {
    if (value === '') delete state.locks[axis.name]; else state.locks[axis.name] = value;
    label.classList.toggle('locked', value !== '');
    changed();
  };
  const id = `lock-${axis.name}`;
  let control;
  if (axis.kind === 'integer') {
    control = entry(id, held, use);
    control.placeholder = axis.suggested ? 'free' : axis.default;
  } else {
    const words = axis.kind === 'toggle' ? ['true', 'false'] : axis.words;
    control = choice(id, ['', ...words], held || '', use);
    control.options[0].textContent = axis.suggested ? 'free' : `${axis.default} (default)`;
  }
  const label = labelled(axis.name.replaceAll('_', ' '), control, axis.meaning);
  label.classList.toggle('locked', held !== undefined);
  return label;
}

function makeForm() {
  const form = $('#ask');
  const set = (name) => (value) => { state[name] = value; changed(); };
  const suggested = vocabulary.axes.filter((axis) => axis.suggested).map(lockControl);
  const others = vocabulary.axes.filter((axis) => !axis.suggested).map(lockControl);
  form.replaceChildren(
    element('h2', {textContent: 'What do you train, on what?'}), ...modelControls(), ...clusterControls(),
    labelled('GPUs', entry('gpus', state.gpus, set('gpus'))),
    labelled('Sequence, tokens', entry('seq_len', state.seq_len, set('seq_len'))),
    labelled('Batch, tokens', entry('batch_tokens', state.batch_tokens, set('batch_tokens'))),
    labelled('Precision', choice('dtype', vocabulary.dtypes, state.dtype, set('dtype'))),
    element('div', {className: 'wide'}, labelled('Trainer', choice('family', vocabulary.families.map((one) => one.name), state.family, (name) => {
      state.family = name;
      // Its flags are in its own words, unless somebody chooses others.
      const own = wordsOf(name);
      if (own) $('#trainer').value = state.trainer = own;
      changed();
    }))),
    element('h2', {textContent: 'Hold fixed'}), ...suggested,
    element('details', {id: 'more-locks'}, element('summary', {textContent: 'More axes'}),
      element('div', {className: 'fields'}, ...others)),
    element('h2', {textContent: 'Why not this one?'}),
    element('div', {className: 'wide'}, labelled('A layout, or a part of one',
      Object.assign(entry('layout', state.layout, set('layout')), {placeholder: 'tp=8 pp=4'}))));
}

// ---- Asking and showing ---------------------------------------------------------------------------
let quick = null;  // answers the card
let slow = null;   // numbers of GPUs, splits, flags
let timer = 0;

function say(selector, text) {
  const place = $(selector);
  place.textContent = text;
  place.hidden = text === '';
}

/** `what`: numbers, if a preset has changed them, and their fields have to follow. */
function changed(what) {
  if (what === 'numbers') makeForm();
  history.replaceState(null, '', linkOf());
  clearTimeout(timer);
  timer = setTimeout(answerAll, 60);
  for (const panel of document.querySelectorAll(panels)) panel.classList.add('stale');
}

// Each shows what was asked before until its own answer is there.
const panels = '.answers > section, #held, #batch-says';
const of_slow = ['#held', '#batch-says', '#gpus-card', '#splits-card', '#sizes-card'];

function fresh(...selectors) {
  for (const selector of selectors) $(selector).classList.remove('stale');
}

function answerAll() {
  const asked = question(state.layout.trim() === '' ? ['card'] : ['card', 'why_not']);
  const begun = performance.now();
  quick.ask('card', asked, (answer) => {
    document.body.dataset.cardMs = Math.round(performance.now() - begun);
    showCard(answer);
  });
  slow.ask('batch', question(['batch']), (answer) => {
    const batch = answer.batch || {};
    say('#batch-says', batch.text || '');
    $('#batch-says').className = batch.too_few ? 'note' : 'faint';
  });
  slow.ask('held', question(['held']), (answer) => {
    say('#held', last && answer.held ? answer.held.text || '' : '');
    fresh('#held');
  });
  slow.ask('gpus', question(['gpus']), (answer) => {
    showGpus(answer.gpus);
    fresh('#gpus-card');
  });
  slow.ask('splits', question(['splits', 'sizes']), (answer) => {
    showPairs(answer.splits, 'splits', 'tp', 'pp', '#split-says');
    showPairs(answer.sizes, 'sizes', 'micro_batch', 'zero', '#size-says');
    fresh('#splits-card', '#sizes-card');
    document.body.dataset.allMs = Math.round(performance.now() - begun);
    document.body.dataset.answers = Number(document.body.dataset.answers || 0) + 1;
  });
}

function list(selector, texts) {
  $(selector).replaceChildren(...texts.map((text) => element('li', {textContent: text})));
}

/** One bar of parts, each wide as its share of `whole`, and under it what they are. */
function bar(title, parts, whole, limit) {
  const stack = element('div', {className: 'stack', role: 'img',
    'aria-label': title + ': ' + parts.map((part) => `${part.name} ${part.text}`).join(', ')});
  const keys = element('ul', {className: 'keys'});
  parts.forEach((part, at) => {
    // What is 0.0 % of the bar is no part to see.
    if (part.size < 0.0005 * whole) return;
    const piece = element('i', {className: `k${at % 8}`, title: `${part.name} ${part.text}`});
    piece.style.width = `${100 * part.size / whole}%`;
    stack.append(piece);
    keys.append(element('li', {}, element('span', {className: `key k${at % 8}`}), `${part.name} ${part.text}`));
  });
  if (limit) {
    const line = element('u', {title: 'memory of a GPU'});
    line.style.left = `${100 * limit / whole}%`;
    stack.append(line);
  }
  return element('div', {}, element('div', {className: 'name', textContent: title}), stack, keys);
}

function showBars(layouts, capacity) {
  const most = {step: 0, memory: capacity};
  for (const {layout} of layouts) {
    most.step = Math.max(most.step, layout.step.seconds);
    most.memory = Math.max(most.memory, layout.memory.bytes);
  }
  $('#step-bars').replaceChildren(...layouts.map(({name, layout}) => bar(`${name}: ${layout.step.text}`,
    layout.step.parts.map((part) => ({...part, size: part.seconds})), most.step)));
  $('#memory-bars').replaceChildren(...layouts.map(({name, layout}) => bar(
    `${name}: ${layout.memory.text}, ${layout.memory.range} by the optimistic and the pessimistic estimate`,
    layout.memory.classes.map((part) => ({...part, size: part.bytes})), most.memory, capacity)));
}

function showCard(answer) {
  for (const panel of document.querySelectorAll(panels)) {
    if (!of_slow.some((selector) => panel.matches(selector))) panel.classList.remove('stale');
  }
  const card = answer.card || {};
  last = card.layouts && card.layouts.length > 0 ? card : null;
  say('#wrong', answer.error || card.why || '');
  for (const id of ['#bars', '#recipe', '#trust-card']) $(id).hidden = !last;
  $('#actions').hidden = !last;
  $('#asked').hidden = !last;
  $('#others-box').hidden = !last || last.others.length === 0;
  const batches = card.batches || [];
  $('#batches').hidden = batches.length === 0;
  $('#batches').replaceChildren(...batches.map((tokens) => element('button', {
    type: 'button', textContent: `Use a batch of ${tokens}`, onclick: () => {
      const field = $('#batch_tokens');
      field.value = tokens;
      field.dispatchEvent(new Event('input'));
    }})));
  if (card.parameters_text) say('#parameters', card.parameters_text);
  if (!last) {
    $('#use').textContent = answer.error ? 'This cannot be answered' :
      batches.length > 0 ? 'This batch cannot be shared out' :
        card.odd_batch ? 'The batch does not divide' : 'No layout fits';
    for (const id of ['#headline', '#limit', '#measured']) say(id, '');
    list('#others', []);
    say('#held', '');
  } else {
    const best = last.layouts[0];
    say('#asked', last.asked);
    $('#use').textContent = best.label;
    say('#headline', best.headline);
    say('#limit', best.limit);
    say('#measured', [best.measured && !last.measured.includes(best.label) ? `This layout was ${best.measured.sentence}.` : '', last.measured].filter(Boolean).join(' '));
    list('#others', last.others);
    list('#trust', last.trust);
    list('#step-memory', last.memory);
    list('#step-batch', last.batch);
    list('#step-throughput', last.throughput);
    showFlow(last.flow);
    list('#rules', last.rules.map((rule) => `${rule.rule}: ` +
      `${rule.applies ? rule.holds ? 'holds' : 'does not hold' : 'does not apply'} (${rule.why}) [${rule.source}]`));
    say('#judged', `${last.fitting.toLocaleString('en')} of ${last.judged.toLocaleString('en')} layouts fit.`);
  }
  showWhyNot(answer.why_not);
}

function showWhyNot(answer) {
  $('#why-card').hidden = !answer;
  const layouts = last ? [{name: 'chosen', layout: last.layouts[0]}] : [];
  if (answer) {
    say('#why', answer.why);
    say('#place', answer.place_text || '');
    say('#why-layout', answer.layout ? `${answer.layout.label}: ${answer.layout.headline}` +
      (answer.layout.measured ? ` It was ${answer.layout.measured.sentence}.` : '') : '');
    if (answer.layout) layouts.push({name: 'yours', layout: answer.layout});
  }
  if (last) showBars(layouts, last.capacity_bytes);
}

/** tokens/s per GPU over numbers of GPUs; the table below it says the same, and more. */
function curve(counts) {
  const width = Math.max(260, $('#curve').clientWidth);
  const height = 190;
  const speedOf = (one) => one.layout ? one.layout.tokens_per_s_per_gpu : 0;
  const shown = counts.filter((one) => speedOf(one) > 0 || one.measured);
  const most = Math.max(...shown.map((one) => Math.max(speedOf(one), one.measured ? one.measured.tokens_per_s_per_gpu : 0)));
  const every = Math.ceil(shown.length * 46 / width);  // labels that have room
  const at = (index, speed) => [40 + index * (width - 80) / Math.max(1, shown.length - 1),
    height - 34 - (height - 70) * speed / most];
  const svg = (name, attributes, text = '') => {
    const made = document.createElementNS('http://www.w3.org/2000/svg', name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    return made;
  };
  const picture = svg('svg', {viewBox: `0 0 ${width} ${height}`, width, height, class: 'curve', role: 'img',
    'aria-label': 'tokens/s per GPU over GPUs'});
  if (shown.length === 0) return picture;
  const line = shown.map((one, i) => speedOf(one) > 0 ? at(i, speedOf(one)).join(' ') : '').filter(Boolean);
  if (line.length > 0) picture.append(svg('path', {d: 'M' + line.join('L')}));
  shown.forEach((one, i) => {
    const now = one.gpus === Number(state.gpus);
    const [x, y] = at(i, speedOf(one) || one.measured.tokens_per_s_per_gpu);
    if (speedOf(one) > 0) picture.append(svg('circle', {cx: x, cy: y, r: now ? 7 : 4, class: now ? 'now' : ''}));
    if (one.measured) {
      const [, top] = at(i, one.measured.tokens_per_s_per_gpu);
      const diamond = svg('path', {class: 'seen', d: `M${x} ${top - 6}l6 6l-6 6l-6 -6z`});
      diamond.append(svg('title', {}, one.measured.sentence));
      picture.append(diamond);
    }
    if (i % every !== 0 && !now) return;
    if (speedOf(one) > 0) picture.append(svg('text', {x, y: y - 12}, one.layout.speed));
    picture.append(svg('text', {x, y: height - 10}, String(one.gpus)));
  });
  return picture;
}

function showGpus(answer) {
  $('#gpus-card').hidden = !answer || Boolean(answer.why);
  if ($('#gpus-card').hidden) return;
  say('#least', answer.least === null ? 'It fits on none of these numbers of GPUs.' : `Least GPUs with this batch: ${answer.least}, of those in the table.`);
  // Numbers of GPUs on which nothing fits for one reason are one line.
  const lines = [];
  for (const one of answer.counts) {
    const before = lines[lines.length - 1];
    if (before && !one.layout && !before.layout && !one.measured && !before.measured && one.why === before.why)
      before.to = one.gpus;
    else lines.push({...one});
  }
  const rows = lines.map((one) => element('tr', one.gpus === Number(state.gpus) ? {className: 'now'} : {},
    element('td', {className: 'number', textContent: one.gpus.toLocaleString('en') +
      (one.to ? ` to ${one.to.toLocaleString('en')}` : '')}),
    element('td', {className: 'number', textContent: one.layout ? one.layout.speed : ''}),
    element('td', {className: 'number seen', textContent: one.measured ? `◆ ${one.measured.speed}` : '',
      title: one.measured ? `${one.measured.label}, ${one.measured.sentence}` : ''}),
    element('td', {className: 'number', textContent: one.efficiency_text || ''}),
    element('td', {className: 'number', textContent: one.gpu_hours_text || ''}),
    element('td', {textContent: one.layout ? one.layout.label : one.why})));
  lastCounts = answer.counts;
  $('#counts').parentElement.classList.toggle('unmeasured', !answer.counts.some((one) => one.measured));
  $('#seen-key').hidden = !answer.counts.some((one) => one.measured);
  $('#curve').replaceChildren(curve(answer.counts));
  $('#counts').replaceChildren(...rows);
}

/** A heatmap of two axes; pressing a cell compares its layout, or says why none fits. */
function showPairs(cells, name, across, down, says) {
  const wrong = !Array.isArray(cells);
  $(`#${name}-card`).hidden = wrong;
  if (wrong) return;
  const columns = [...new Set(cells.map((cell) => cell[across]))];
  const lines = [...new Set(cells.map((cell) => cell[down]))];
  const speedOf = (cell) => cell.layout ? 1 / cell.layout.step.seconds : 0;
  const most = Math.max(...cells.map(speedOf));
  const head = element('tr', {}, element('th', {textContent: `${down} \\ ${across}`.replaceAll('_', ' ')}),
    ...columns.map((value) => element('th', {scope: 'col', textContent: across.length > 3 ? value : `${across} ${value}`})));
  const rows = lines.map((line) => element('tr', {}, element('th', {scope: 'row', textContent: `${down} ${line}`}),
    ...columns.map((column) => {
      const cell = cells.find((one) => one[across] === column && one[down] === line);
      if (!cell) return element('td');
      const step = cell.layout ? Math.max(1, Math.ceil(8 * speedOf(cell) / most)) : 0;
      const text = cell.layout ? cell.layout.speed || cell.layout.step.text : 'no';
      const button = element('button', {type: 'button', className: `cell s${step}`, textContent: text,
        title: cell.layout ? cell.layout.label : cell.why});
      button.addEventListener('click', () => {
        say(says, cell.layout ? `${cell.layout.label}: ${cell.layout.headline}` : cell.why);
        $('#layout').value = state.layout = cell.layout ? cell.layout.label : `${across}=${column} ${down}=${line}`;
        changed();
      });
      if (cell.layout && speedOf(cell) === most) button.dataset.best = '';
      if (cell.measured) {
        button.append(element('span', {className: 'seen', textContent: `◆ ${cell.measured.speed}`}));
        button.title += `. ${cell.measured.label}, ${cell.measured.sentence}`;
      }
      return element('td', {}, button);
    })));
  $(`#${name}`).replaceChildren(element('thead', {}, head), element('tbody', {}, ...rows));
}

/** The playbook's flowchart, as far as the answers lead. */
function showFlow(steps) {
  $('#flow').replaceChildren(...steps.map((step) => element('li', {className: step.yes ? 'yes' : 'no'},
    element('span', {textContent: step.question}), element('b', {textContent: step.yes ? 'yes' : 'no'}),
    element('span', {className: 'faint', textContent: step.why}))));
}

function showText(title, text, file) {
  say('#text-title', title);
  say('#text', text);
  $('#text-card').hidden = false;
  const save = $('#save');
  save.hidden = !file;
  if (file) {
    save.download = file;
    save.href = 'data:text/plain;charset=utf-8,' + encodeURIComponent(text);
  }
}

function useButtons() {
  $('#sweep').addEventListener('click', () => slow.ask('sweep', question(['sweep']), (answer) => {
    const made = answer.sweep || {why: answer.error};
    showText(made.text ? 'sweep.yaml: shardsweep plan sweep.yaml' : 'No sweep file', made.text || made.why, made.text && 'sweep.yaml');
  }));
  $('#trainer').replaceChildren(...vocabulary.trainers.map((word) => element('option', {value: word, textContent: word})));
  $('#trainer').value = state.trainer;
  $('#trainer').addEventListener('change', () => { state.trainer = $('#trainer').value; changed(); });
  $('#flags').addEventListener('click', () => {
    if (!last) return;
    slow.ask('flags', question(['flags'], {layout: last.layouts[0].label}), (answer) => {
      const made = answer.flags || {why: answer.error};
      // A flag a line, as a shell takes it.
      const text = (made.text || made.why).replaceAll(' --', ' \\\n--');
      showText(`${last.layouts[0].label} in the words of ${state.trainer}: the layout alone, beside your model and data`, text);
    });
  });
  $('#copy').addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(linkOf());
      say('#copied', 'Copied.');
    } catch (error) {
      showText('The link', linkOf());
    }
  });
}

async function start() {
  const served = !document.getElementById('planner-wasm');
  if (!served && (typeof DecompressionStream === 'undefined' || typeof WebAssembly === 'undefined'))
    return say('#wrong', 'This browser has no DecompressionStream or no WebAssembly: a browser of 2023 or later has both.');
  const wasm = served ? null : await unpacked('planner-wasm');
  quick = new Planner(wasm);
  slow = new Planner(wasm);
  quick.ask('vocabulary', {ask: ['vocabulary']}, (answer) => {
    if (!answer.vocabulary) return say('#wrong', answer.error);
    vocabulary = answer.vocabulary;
    const usual = vocabulary.usual_family;
    Object.assign(first, {family: usual, trainer: wordsOf(usual)}, firstMeasured());
    state = stateOfLink();
    makeForm();
    useButtons();
    say('#short-names', 'Short: ' + vocabulary.axes.filter((axis) => axis.suggested && axis.short && axis.short !== axis.name)
      .map((axis) => `${axis.short} ${axis.name.replaceAll('_', ' ')}`).join(', ') + '; full or selective: recomputation.');
    addEventListener('hashchange', () => { state = stateOfLink(); makeForm(); changed(); });
    addEventListener('resize', () => $('#curve').replaceChildren(curve(lastCounts)));
    answerAll();
  });
}

start().catch((error) => say('#wrong', `The page could not start: ${error.message}`));
