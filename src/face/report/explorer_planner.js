// ---- The planner: compiled to WebAssembly, in a worker of its own, or of the page's server ------
const $ = (selector) => document.querySelector(selector);
const textOf = (id) => document.getElementById(id).textContent;

/** Bytes of a gzip stream that stands in the page as base64. */
async function unpacked(id) {
  const letters = atob(textOf(id).trim());
  const bytes = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const atWork = `
let planner = null;
const ask = (text) => {
  const size = planner.lengthBytesUTF8(text) + 1;
  const at = planner._malloc(size);
  planner.stringToUTF8(text, at, size);
  const answer = planner.UTF8ToString(planner._shardsweep_explore(at));
  planner._free(at);
  return answer;
};
onmessage = async (event) => {
  const {id, wasmBinary, question} = event.data;
  try {
    if (wasmBinary) planner = await shardsweepPlanner({wasmBinary});
    postMessage({id, answer: question === undefined ? '{}' : ask(question)});
  } catch (error) {
    postMessage({id, error: String(error && error.message || error)});
  }
};`;

/** The program's own planner: the same function of the same text. */
async function askServer(question) {
  try {
    const answer = await fetch('ask', {method: 'POST', body: question});
    const text = await answer.text();
    return answer.ok ? {answer: text} : {error: text};
  } catch (error) {
    return {error: `the program does not answer (${error.message})`};
  }
}

/** Answers one question after the other; of those that wait the last one of each kind counts. */
class Planner {
  /** Without a module the page's server answers. */
  constructor(wasmBinary) {
    this.number = 0;
    this.waits = new Map();  // by kind: {question, done}
    this.busy = null;
    if (!wasmBinary) {
      this.post = (message) => askServer(message.question).then((data) => this.answered(data));
      return;
    }
    const source = new Blob([textOf('planner-glue'), atWork], {type: 'text/javascript'});
    const address = URL.createObjectURL(source);
    const worker = new Worker(address);
    this.post = (message) => worker.postMessage(message);
    worker.onmessage = (event) => this.answered(event.data);
    worker.onerror = (event) => this.answered({error: event.message || 'the worker failed'});
    this.send('start', {wasmBinary}, (answer) => { this.ready = !answer.error; });
  }
  ask(kind, question, done) {
    this.waits.set(kind, {question: JSON.stringify(question), done});
    this.next();
  }
  next() {
    if (this.busy || this.waits.size === 0) return;
    const [kind, one] = this.waits.entries().next().value;
    this.waits.delete(kind);
    this.send(kind, {question: one.question}, one.done);
  }
  send(kind, message, done) {
    this.busy = {done};
    this.post({id: ++this.number, ...message});
  }
  answered(data) {
    const {done} = this.busy || {done: () => {}};
    this.busy = null;
    done(data.error ? {error: `The planner stopped: ${data.error}. Load the page again.`} : JSON.parse(data.answer));
    this.next();
  }
}
