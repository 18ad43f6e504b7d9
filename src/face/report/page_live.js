// SPDX-License-Identifier: Apache-2.0
// Loads the page again when what it shows has changed: at once, or when a reader who is in the middle
// of something wants it. A page that nobody sees asks for nothing: a browser has six connections.
const own = document.currentScript.dataset;
const say = document.createElement('button');
say.hidden = true;
say.style = 'position: fixed; right: 16px; bottom: 16px; padding: 8px 14px; font: inherit; z-index: 9';
document.body.append(say);
const isAtEnd = () => innerHeight + scrollY >= document.documentElement.scrollHeight - 4;
// A page that is on its way is not asked for again: if changes came faster than a large one is made, none
// would ever arrive.
let loads = false;
const load = () => {
  if (loads) return;
  loads = true;
  history.replaceState({end: isAtEnd() && scrollY > 0}, '');
  location.reload();
};
say.addEventListener('click', load);
if (history.state && history.state.end) addEventListener('load', () => scrollTo(0, document.documentElement.scrollHeight));

// What a reader has chosen in a page of charts would be lost.
let used = false;
for (const kind of ['input', 'click']) {
  addEventListener(kind, (event) => {
    if (event.isTrusted && event.target !== say && document.getElementById('data')) used = true;
  }, true);
}
const isUsed = () => used || document.querySelector('dialog[open]') !== null || String(getSelection()) !== '';
const show = () => {
  if (isUsed()) {
    say.textContent = 'There are new results: show them';
    say.hidden = false;
  } else if (!document.hidden) {
    load();
  }
};
const changed = () => {
  if (isUsed()) return show();
  // A page is loaded in half of the time, and one that is long in loading in a fifth of it. Until then it may
  // be used.
  const took = performance.getEntriesByType('navigation')[0].duration;
  setTimeout(show, Math.max(0, Math.max(2 * took, 5 * took - 1500) - performance.now()));
};

let stream = null;
let failures = 0;
const listen = () => {
  if (document.hidden && stream) stream.close();
  if (document.hidden) stream = null;
  if (document.hidden || stream) return;
  stream = new EventSource(`events?seen=${encodeURIComponent(own.version)}`);
  stream.addEventListener('changed', changed);
  stream.onopen = () => { failures = 0; };
  stream.onerror = () => {
    if (stream.readyState !== EventSource.CLOSED && ++failures < 4) return;
    stream.close();
    say.textContent = 'The program that serves this page has ended, or is out of reach';
    say.hidden = false;
  };
};
if (own.version) {
  document.addEventListener('visibilitychange', listen);
  listen();
} else {
  setInterval(() => { if (!document.hidden && !isUsed()) load(); }, 1000 * own.every);
}
