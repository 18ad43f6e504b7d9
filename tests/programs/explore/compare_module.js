// SPDX-License-Identifier: Apache-2.0
// compare_module.js FOLDER QUESTIONS ANSWERS: asks the module in FOLDER each line of QUESTIONS and
// holds its answers to the lines of ANSWERS, which the native program has given: words, order,
// verdicts and whole numbers equal, other numbers within 1e-12 of each other.
'use strict';
const fs = require('fs');
const path = require('path');
const zlib = require('zlib');

const [folder, questions, answers] = process.argv.slice(2);
const within = 1e-12;

/** The first difference of two values, as a sentence; none: they are the same. */
function difference(where, native, module) {
  if (typeof native === 'number' && typeof module === 'number') {
    if (native === module) return null;
    const whole = Number.isInteger(native) && Number.isInteger(module);
    const apart = Math.abs(native - module) / Math.max(Math.abs(native), Math.abs(module));
    return !whole && apart <= within ? null : `${where}: ${native} and ${module}`;
  }
  if (native === null || module === null || typeof native !== 'object' || typeof module !== 'object')
    return native === module ? null : `${where}: ${JSON.stringify(native)} and ${JSON.stringify(module)}`;
  const keys = Object.keys(native);
  if (keys.join() !== Object.keys(module).join())
    return `${where}: ${keys} and ${Object.keys(module)}`;
  for (const key of keys) {
    const found = difference(`${where}.${key}`, native[key], module[key]);
    if (found) return found;
  }
  return null;
}

function lines(file) {
  return fs.readFileSync(file, 'utf8').split('\n').filter((line) => line !== '');
}

(async () => {
  const load = require(path.resolve(folder, 'planner.js'));
  const wasmBinary = zlib.gunzipSync(fs.readFileSync(path.join(folder, 'planner.wasm.gz')));
  const planner = await load({wasmBinary});
  const ask = (text) => {
    const size = planner.lengthBytesUTF8(text) + 1;
    const at = planner._malloc(size);
    planner.stringToUTF8(text, at, size);
    const answer = planner.UTF8ToString(planner._shardsweep_explore(at));
    planner._free(at);
    return answer;
  };
  const asked = lines(questions);
  const native = lines(answers);
  if (asked.length !== native.length || asked.length === 0) {
    console.error(`${asked.length} questions and ${native.length} answers`);
    process.exit(1);
  }
  let differ = 0;
  let layouts = 0;
  let refused = 0;
  let longest = 0;
  for (let i = 0; i < asked.length; ++i) {
    const from = performance.now();
    const answer = JSON.parse(ask(asked[i]));
    longest = Math.max(longest, performance.now() - from);
    if (answer.error) ++refused;
    layouts += answer.card && answer.card.layouts ? answer.card.layouts.length : 0;
    const found = difference('answer', JSON.parse(native[i]), answer);
    if (!found) continue;
    if (++differ <= 5) console.error(`question ${i + 1}: ${found}\n  ${asked[i]}`);
  }
  console.log(`${asked.length} questions, ${layouts} layouts, ${refused} refused, ${differ} differ, ` +
    `longest ${longest.toFixed(0)} ms`);
  // Questions that the planner refuses would compare nothing.
  process.exit(differ > 0 || layouts < asked.length ? 1 : 0);
})();
