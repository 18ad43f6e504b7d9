# SPDX-License-Identifier: Apache-2.0
"""A page in headless Chromium, over the DevTools protocol: opened, asked, measured and kept as pictures.

Needs Debian's chromium and python3-websockets. `check` says what holds; `run` ends with exit code 1 if
anything did not."""
import asyncio
import base64
import json
import pathlib
import shutil
import subprocess
import tempfile

import websockets

FAULTS = []


def check(holds, what):
    print(("ok    " if holds else "FAILED ") + what)
    if not holds:
        FAULTS.append(what)


class Browser:
    """One tab, over the DevTools protocol."""

    def __init__(self, socket, pid):
        self.socket = socket
        self.pid = pid
        self.number = 0
        self.session = None
        self.events = []

    async def call(self, method, **values):
        self.number += 1
        message = {"id": self.number, "method": method, "params": values}
        if self.session:
            message["sessionId"] = self.session
        await self.socket.send(json.dumps(message))
        while True:
            answer = json.loads(await self.socket.recv())
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer.get("result", {})
            self.events.append(answer)

    async def event(self, wanted, since=0):
        """Waits for the first event that is so; one that is here already counts, from number `since` on."""
        while not any(wanted(event) for event in self.events[since:]):
            self.events.append(json.loads(await self.socket.recv()))

    async def tell(self, expression):
        answer = await self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                                 awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    async def key(self, name, code):
        # A button is pressed by the text of Enter.
        text = {"text": "\r"} if name == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            await self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name,
                            windowsVirtualKeyCode=code, **text)

    async def mouse(self, kind, place, **more):
        await self.call("Input.dispatchMouseEvent", type=kind, x=place["x"], y=place["y"], **more)

    async def screenshot(self, file):
        answer = await self.call("Page.captureScreenshot", format="png")
        file.write_bytes(base64.b64decode(answer["data"]))


async def opens(browser, address):
    since = len(browser.events)
    await browser.call("Page.navigate", url=address)
    await browser.event(lambda event: event.get("method") == "Page.loadEventFired", since)


async def until(browser, condition):
    """Looks from outside: the page may be loaded again in the middle."""
    while True:
        try:
            if await browser.tell(f"Boolean({condition})"):
                return
        except RuntimeError:  # it was loaded again
            pass
        await asyncio.sleep(0.02)


FIRST_PAINT = """new Promise((done) => new PerformanceObserver((list) => {
  for (const entry of list.getEntriesByName('first-contentful-paint')) done(entry.startTime);
}).observe({type: 'paint', buffered: true}))"""


# What is wrong with the page as it stands at this width, as words; an empty list is right.
# Texts are looked at one by one: each element with text of its own, and each text of a picture.
MEASURE = """(() => {
  const light = (c) => { const v = c / 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => 0.2126 * light(r) + 0.7152 * light(g) + 0.0722 * light(b);
  const contrast = (a, b) => { const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05); };
  const backOf = (element) => { for (let at = element; at; at = at.parentElement) {
      const rgba = numbers(getComputedStyle(at).backgroundColor);
      if (rgba.length === 3 || rgba[3] > 0.99) return rgba; } return [255, 255, 255]; };
  const boxBehind = (text) => { const boxes = [...text.parentElement.querySelectorAll(':scope > rect')]
      .filter((box) => !/none|rgba/.test(getComputedStyle(box).fill) && getComputedStyle(box).fillOpacity === '1');
    return text.parentElement.tagName === 'g' && boxes.length ? numbers(getComputedStyle(boxes.at(-1)).fill) : null; };
  const seen = (element) => element.getClientRects().length && getComputedStyle(element).visibility !== 'hidden' &&
    !element.closest('script,style,noscript,dialog:not([open]),details:not([open]) > :not(summary)');
  const scrolls = (element) => { for (let at = element; at && at !== document.body; at = at.parentElement) {
      const style = getComputedStyle(at);
      if (/auto|scroll/.test(style.overflowX)) return true; } return false; };
  const wrong = [];
  const least = {contrast: 21, size: 99};
  const say = (what, element) => { if (wrong.length < 12) wrong.push(`${what}: '${element.textContent.trim().slice(0, 50)}'`); };
  const own = (element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  for (const element of document.body.querySelectorAll('*')) {
    if (!own(element) || !seen(element)) continue;
    const style = getComputedStyle(element);
    const picture = element.closest('svg');
    if (picture && !['text', 'tspan'].includes(element.tagName)) continue;
    const box = element.getBoundingClientRect();
    let size = parseFloat(style.fontSize);
    if (picture) {
      size *= element.getScreenCTM().a;
      const all = picture.getBoundingClientRect();
      if (box.left < all.left - 1.5 || box.right > all.right + 1.5) say('cut off by its picture', element);
    } else if (/hidden|clip/.test(style.overflowX) && element.scrollWidth > element.clientWidth + 1) {
      say('cut off', element);
    }
    if (box.width && box.right > innerWidth + 1 && !scrolls(element)) say('beyond the right edge without a scroll bar', element);
    if (size < 11.9) say(`${size.toFixed(1)} px`, element);
    if (element.disabled) continue;
    const own_contrast = contrast(numbers(picture ? style.fill : style.color), picture ? boxBehind(element) || backOf(picture) : backOf(element));
    if (own_contrast < 4.5) say(`contrast ${own_contrast.toFixed(2)}`, element);
    least.contrast = Math.min(least.contrast, own_contrast);
    least.size = Math.min(least.size, size);
  }
  for (const box of document.querySelectorAll('button, td')) {
    if ((box.textContent.trim() || box.firstElementChild) && seen(box) && (box.scrollWidth > box.clientWidth + 2 || box.scrollHeight > box.clientHeight + 2) && box.clientWidth)
      say('wider than its box', box);
  }
  for (const cell of document.querySelectorAll('.cell, td')) {
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    for (let text; (text = texts.nextNode());) for (const word of text.data.matchAll(/(?<!\\S)[A-Za-z]{2,12}(?!\\S)/g)) {
      const range = document.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1) say(`'${word[0]}' is broken`, cell);
    }
  }
  for (const box of document.querySelectorAll('pre, ul, details[open]')) {
    if (seen(box) && !(box.tagName === 'DETAILS' ? [...box.children].slice(1).map((one) => one.textContent).join('') : box.textContent).trim() && box.getBoundingClientRect().height > 12)
      say(`an empty ${box.tagName.toLowerCase()}`, box);
  }
  for (const place of document.querySelectorAll('.plot svg')) {
    const room = place.closest('figure').getBoundingClientRect().width;
    if (place.getBoundingClientRect().width < room * 0.97) say('chart narrower than its place', place);
  }
  const titles = [...document.querySelectorAll('g.axis > text:first-of-type')];
  titles.slice(1).forEach((title, i) => {
    if (titles[i].getBoundingClientRect().right > title.getBoundingClientRect().left - 2) say('title runs into the one before', title);
  });
  for (const line of document.querySelectorAll('.badge')) {
    if (seen(line) && line.getClientRects().length > 1) say('a badge in two lines', line);
  }
  if (document.documentElement.scrollWidth > innerWidth) wrong.push(`the page is ${document.documentElement.scrollWidth - innerWidth} px wider than the window`);
  return {wrong, contrast: least.contrast, size: least.size};
})()"""


async def scrolled(browser):
    """Charts are drawn when somebody comes near them."""
    await browser.tell("""(async () => { for (let y = 0; y < document.body.scrollHeight; y += 600) {
      scrollTo(0, y); await new Promise((done) => setTimeout(done, 30)); } scrollTo(0, 0); 
      await new Promise((done) => setTimeout(done, 60)); })()""")


async def looks(browser, folder):
    """At the widths of a phone, a laptop and a large screen, by day and by night."""
    for width, height, theme in ((390, 844, "light"), (390, 844, "dark"), (1400, 900, "light"),
                                 (1400, 900, "dark"), (2560, 1400, "light"), (2560, 1400, "dark")):
        await browser.call("Emulation.setEmulatedMedia",
                           features=[{"name": "prefers-color-scheme", "value": theme}])
        await browser.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                           deviceScaleFactor=1, mobile=False)
        await scrolled(browser)
        found = await browser.tell(MEASURE)
        check(not found["wrong"], f"{width} px, {theme}: least contrast {found['contrast']:.2f}, smallest text "
              f"{found['size']:.1f} px" + "".join("\n  " + one for one in found["wrong"]))
        await browser.screenshot(folder / f"{theme}-{width}.png")
        tall = await browser.tell("document.documentElement.scrollHeight")
        answer = await browser.call("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                                    clip={"x": 0, "y": 0, "width": width, "height": min(tall, 12000), "scale": 1})
        (folder / f"{theme}-{width}-all.png").write_bytes(base64.b64decode(answer["data"]))
    answer = await browser.call("Page.printToPDF", preferCSSPageSize=True, printBackground=True)
    (folder / "print.pdf").write_bytes(base64.b64decode(answer["data"]))
    await browser.call("Emulation.clearDeviceMetricsOverride")


def address_of(page):
    """Of a file, or what a server has printed."""
    return page if str(page).startswith("http://") else "file://" + str(page)


def troubles(browser, page):
    bad = []
    served = (page[:page.rfind("/") + 1],) if str(page).startswith("http://") else ()
    for event in browser.events:
        values = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            bad.append(json.dumps(values)[:300])
        if event.get("method") == "Runtime.consoleAPICalled" and values["type"] in ("error", "warning"):
            bad.append(json.dumps(values)[:300])
        if event.get("method") == "Log.entryAdded" and values["entry"]["level"] in ("error", "warning"):
            bad.append(values["entry"]["text"])
        if event.get("method") == "Network.requestWillBeSent":
            url = values["request"]["url"]
            if not url.startswith(("file:", "blob:", "data:", *served)):
                bad.append("asked the network for " + url)
    return bad


async def in_chromium(home, page, use):
    """Gives `use` a tab of a headless Chromium whose profile is in the folder `home`; it asks the network for
    `page` alone."""
    browser_process = subprocess.Popen(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0",
         f"--user-data-dir={home}", "--window-size=1280,900", "about:blank"],
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        address = None
        for line in browser_process.stderr:
            if "DevTools listening on " in line:
                address = line.split("DevTools listening on ")[1].strip()
                break
        async with websockets.connect(address, max_size=None) as socket:
            browser = Browser(socket, browser_process.pid)
            target = await browser.call("Target.createTarget", url="about:blank")
            joined = await browser.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
            browser.session = joined["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                await browser.call(domain + ".enable")
            await use(browser)
            bad = troubles(browser, page)
            check(not bad, "no errors, and nothing asked of the network" + "".join("\n  " + b for b in bad))
    finally:
        browser_process.terminate()
        browser_process.wait()


def run(page, folder, use):
    """use(browser, page, folder), and the program's exit code."""
    target_folder = pathlib.Path(folder).resolve()
    target_folder.mkdir(parents=True, exist_ok=True)
    profile = tempfile.mkdtemp()
    try:
        its = page if page.startswith("http://") else pathlib.Path(page).resolve()
        asyncio.run(in_chromium(profile, its, lambda browser: use(browser, its, target_folder)))
    finally:
        shutil.rmtree(profile, ignore_errors=True)
    return 1 if FAULTS else 0
