# SPDX-License-Identifier: Apache-2.0
"""A page of `ui` in headless Chromium while time passes: ui_page.py ADDRESS FOLDER WHAT …

  live SHARDSWEEP SWEEP HOLD              seconds from each trial's end to its row on the screen; the sweep goes on
                                          as HOLD, a fifo, is let go
  cost PAGE SERVER SECONDS HOLD COUNT     processor seconds of the server and of the page, while nothing ends and while
                                          COUNT trials end: they stand at the fifos HOLD1, HOLD2, …
  look PAGE…                              pictures of pages, a folder each, and what is wrong with them
"""
import asyncio
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "programs/browser"))
from browser import check, looks, opens, run, until

MOST_S = 2.0

# Tells once a page is painted which trials of its table have ended.
TELLS = """addEventListener('DOMContentLoaded', () => requestAnimationFrame(() => setTimeout(() => {
  const outcome = [...document.querySelectorAll('main th')].findIndex((one) => one.textContent === 'outcome');
  const ended = [...document.querySelectorAll('main tbody tr')].filter((row) => row.cells[outcome]?.textContent);
  seen(JSON.stringify({at: Date.now() / 1000, trials: ended.map((row) =>
    decodeURIComponent(row.querySelector('a').href.split('name=')[1]).split('/')[1])}));
})))"""


def figure(name, **values):
    print(json.dumps({"figure": name, **values}), flush=True)


def let_go(fifo):
    writer = os.open(fifo, os.O_RDWR)
    os.unlink(fifo)
    os.close(writer)


def ends_of(shardsweep, sweep):
    """Seconds since 1970 at which each trial has ended, for those that ran."""
    said = subprocess.run([shardsweep, "query", "--format", "json", f"""SELECT t.slug AS trial, max(a.ended_at) AS at
        FROM trials AS t JOIN attempts AS a ON a.trial = t.id JOIN sweeps AS s ON s.id = t.sweep
        WHERE s.name = '{sweep}' AND t.state = 'ended' GROUP BY 1"""], stdout=subprocess.PIPE, check=True)
    return {row["trial"]: row["at"] / 1e6 for row in json.loads(said.stdout)}


async def use_live(browser, page, folder):
    shardsweep, sweep, hold = sys.argv[4:]
    await browser.call("Runtime.addBinding", name="seen")
    await browser.call("Page.addScriptToEvaluateOnNewDocument", source=TELLS)
    await opens(browser, f"{page}trials?name={sweep}")
    let_go(hold)
    first, loads, told = {}, 0, 0

    async def looks_on():
        nonlocal loads, told
        while told < len(browser.events):
            event = browser.events[told]
            told += 1
            if event.get("method") == "Runtime.bindingCalled":
                loads += 1
                said = json.loads(event["params"]["payload"])
                for trial in said["trials"]:
                    first.setdefault(trial, said["at"])

    follow = subprocess.Popen([shardsweep, "follow", sweep], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while follow.poll() is None:
        await browser.tell("0")
        await looks_on()
        await asyncio.sleep(0.1)
    ends = ends_of(shardsweep, sweep)
    while not ends.keys() <= first.keys():
        await browser.tell("0")
        await looks_on()
        await asyncio.sleep(0.1)
    took = sorted(first[trial] - ended for trial, ended in ends.items())
    figure("ui_live", trials=len(took), seconds=round(max(ends.values()) - min(ends.values()), 1), loads=loads,
           median_s=round(statistics.median(took), 2), p95_s=round(took[int(0.95 * len(took))], 2), worst_s=round(took[-1], 2))
    check(len(took) >= 300, f"{len(took)} trials have ended")
    check(took[-1] <= MOST_S, f"the last row came {took[-1]:.2f} s after its trial's end")


def processes():
    """Parent, processor seconds and command line of each."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            values = (folder / "stat").read_text().rpartition(")")[2].split()
            found[int(folder.name)] = (int(values[1]), (int(values[11]) + int(values[12])) / os.sysconf("SC_CLK_TCK"),
                                       (folder / "cmdline").read_bytes())
        except OSError:  # it has ended
            pass
    return found


class Meter:
    """Processor seconds of the server, of renderers and of the whole browser. A page that is loaded may get another
    renderer: what the one before has used is kept."""

    def __init__(self, server, browser):
        self.server, self.browser = server, browser
        self.last = {}  # by pid: seconds, and whether it is a renderer

    def look(self):
        found = processes()
        family = {self.browser}
        while more := {pid for pid, one in found.items() if one[0] in family} - family:
            family |= more
        for pid in (family | {self.server}) & found.keys():
            self.last[pid] = (found[pid][1], b"--type=renderer" in found[pid][2])

    def read(self):
        self.look()
        its = {pid: one for pid, one in self.last.items() if pid != self.server}
        return (self.last[self.server][0], sum(seconds for seconds, page in its.values() if page),
                sum(seconds for seconds, _ in its.values()))

    async def watch(self, seconds):
        until_s = time.monotonic() + seconds
        while (left := until_s - time.monotonic()) > 0:
            await asyncio.sleep(min(left, 0.5))
            self.look()


async def is_there(browser):
    await until(browser, "document.readyState === 'complete' && "
                "(!document.querySelector('#trials') || document.querySelector('#trials tbody tr')) && "
                "(!document.querySelector('main.explorer') || Number(document.body.dataset.answers) > 0)")


async def use_cost(browser, page, folder):
    name, server, seconds, hold, count = sys.argv[4], int(sys.argv[5]), float(sys.argv[6]), sys.argv[7], int(sys.argv[8])
    begun = time.time()
    await opens(browser, page + name)
    await is_there(browser)
    figure("ui_opened", page=name, seconds=round(time.time() - begun, 2))
    meter = Meter(server, browser.pid)
    for ends in (0, count):
        before, since = meter.read(), len(browser.events)
        for number in range(1, ends + 1):
            await meter.watch(seconds / (ends + 1))
            let_go(f"{hold}{number}")
        await meter.watch(seconds / (ends + 1))
        took = [round(b - a, 2) for a, b in zip(before, meter.read())]
        await browser.tell("0")
        loads = sum(event.get("method") == "Page.loadEventFired" for event in browser.events[since:])
        check(loads > 0 or not ends, f"{loads} loads of {name} while {ends} trials ended")
        figure("ui_cost", page=name, trials_that_end=ends, seconds=seconds, loads=loads,
               **dict(zip(("server_s", "page_s", "browser_s"), took)))


async def use_look(browser, page, folder):
    for name in sys.argv[4:]:
        await opens(browser, page + name)
        await is_there(browser)
        its = folder / (name.split("?")[0] or "first")
        its.mkdir(exist_ok=True)
        print(f"== {name}")
        await looks(browser, its)


sys.exit(run(sys.argv[1], sys.argv[2], {"live": use_live, "cost": use_cost, "look": use_look}[sys.argv[3]]))
