#!/usr/bin/env python3
"""Loads a page in headless Chromium through the DevTools pipe and reports what a reader would stumble over, one problem
a line.

usage: check_page.py [--quick] PAGE [SCREENSHOT_FOLDER]      exit 0 no problem, 1 problems, 3 no Chromium

With --quick it is loaded three times only, narrow and light, wide and dark; the other theme is then looked at without
loading it again. The page is loaded as it is, at three widths, light and dark, with and without scripts, and as
printed. Problems: script errors and refused resources, requests to anything but the page itself, text of a chart that
overlaps other text or leaves its drawing, a page wider than its window, scripted controls that do nothing, tables cut
or broken inside a word, text with too little contrast, and content that only scripts would show.
"""
import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import tempfile
import time

TIMEOUT_S = 120

LAYOUT = r"""
(() => {
  const problems = [];
  const shown = (element) => { const box = element.getBoundingClientRect(); return box.width > 0 && box.height > 0; };
  const charts = [...document.querySelectorAll('svg.chart')].filter(shown);
  if (!charts.length) problems.push('no chart is visible');
  for (const chart of charts) {
    const name = chart.querySelector('title').textContent;
    const frame = chart.getBoundingClientRect();
    const texts = [...chart.querySelectorAll('text')].map((text) => [text.textContent, text.getBoundingClientRect()]);
    if (!texts.length) problems.push(`chart '${name}' has no text`);
    for (const [text, box] of texts)
      if (box.left < frame.left - 0.5 || box.right > frame.right + 0.5 || box.top < frame.top - 0.5 ||
          box.bottom > frame.bottom + 0.5)
        problems.push(`cut: '${text}' leaves the chart '${name}'`);
    for (let a = 0; a < texts.length; ++a)
      for (let b = a + 1; b < texts.length; ++b) {
        const [one, two] = [texts[a][1], texts[b][1]];
        const across = Math.min(one.right, two.right) - Math.max(one.left, two.left),
            down = Math.min(one.bottom, two.bottom) - Math.max(one.top, two.top);
        if (across > 0.5 && down > 1.5)
          problems.push(`overlap: '${texts[a][0]}' and '${texts[b][0]}' in chart '${name}'`);
      }
  }
  if (document.documentElement.scrollWidth > innerWidth + 1)
      problems.push(`the page is ${document.documentElement.scrollWidth} px wide in a window of ${innerWidth}`);
  const clipped = [...document.querySelectorAll('h1,h2,h3,p,figcaption,li,button')].filter(shown).filter((each) =>
      each.getBoundingClientRect().right > innerWidth + 1);
  for (const each of clipped) problems.push(`past the window's edge: '${each.textContent.slice(0, 60)}'`);
  return problems;
})()
"""

# Tables: no line ends inside a word or number (behind a sign of it it may), on paper nothing is cut, and a window of
# 800 px or more shows all columns (tables of others with a recomputed column beside each of theirs may scroll).
TABLES = r"""
(() => {
  const problems = [], paper = matchMedia('print').matches;
  for (const table of document.querySelectorAll('table')) {
    const box = table.getBoundingClientRect(), scroll = table.closest('.scroll'), place = table.closest('[id]').id;
    if (!box.width) continue;
    if (paper && box.right > innerWidth + 1)
      problems.push(`table ${place} is cut at the edge of the paper: ${Math.round(box.right)} of ${innerWidth} px`);
    if (!paper && innerWidth >= 800 && !table.closest('details') && !place.startsWith('recomputed') &&
        scroll.scrollWidth > scroll.clientWidth + 1)
      problems.push(`table ${place} needs ${scroll.scrollWidth} px of ${scroll.clientWidth}`);
    if (table.classList.contains('tight')) continue;
    for (const cell of table.querySelectorAll('th,td')) {
      if (cell.getClientRects()[0].height < 1.6 * parseFloat(getComputedStyle(cell).fontSize) ||
          cell.classList.contains('p')) continue;
      const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
      for (let node = walker.nextNode(); node; node = walker.nextNode())
        for (let at = 1; at < node.length; ++at) {
          if (/[\s\/_-]/.test(node.data[at - 1]) || /\s/.test(node.data[at])) continue;
          const range = document.createRange();
          range.setStart(node, at - 1), range.setEnd(node, at);
          const above = range.getBoundingClientRect();
          range.setStart(node, at), range.setEnd(node, at + 1);
          if (range.getBoundingClientRect().top > above.bottom - 1)
              problems.push(`broken inside a word: '${node.data}' in table ${place}`);
        }
    }
  }
  return problems;
})()
"""

CONTRAST = r"""
(() => {
  const problems = new Set();
  const parse = (colour) => { const all = (colour.match(/[\d.]+/g) || []).map(Number); return all.length < 3 ||
      all[3] === 0 ? null : all.slice(0, 3); };
  const light = (rgb) => { const [r, g, b] = rgb.map((c) => {
      c /= 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; });
      return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)];
      return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05); };
  const ground = (element) => { for (; element; element = element.parentElement) {
      const found = parse(getComputedStyle(element).backgroundColor); if (found) return found;
      } return [255, 255, 255]; };
  let counted = 0;
  for (const element of document.querySelectorAll('body *')) {
    const is_svg_text = element.tagName === 'text';
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    const box = element.getBoundingClientRect();
    if (!own || !box.width || !box.height || element.closest('script,style,title,desc')) continue;
    const style = getComputedStyle(element);
    const colour = parse(is_svg_text ? style.fill : style.color);
    const on_fill = is_svg_text && element.previousElementSibling &&
        element.previousElementSibling.tagName === 'rect' && /on-/.test(element.getAttribute('class'));
    const back = on_fill ? parse(getComputedStyle(element.previousElementSibling).fill)
        : ground(is_svg_text ? element.closest('svg').parentElement : element);
    ++counted;
    if (!colour || ratio(colour, back) < 4.5)
      problems.add(`contrast ${colour ? ratio(colour, back).toFixed(2) : '?'}: '${element.textContent.slice(0, 40)}'`);
  }
  for (const group of document.querySelectorAll('svg.chart g.series')) {
    const colour = parse(getComputedStyle(group).stroke), back = ground(group.closest('svg').parentElement);
    ++counted;
    if (!colour || ratio(colour, back) < 3)
      problems.add(`contrast of series ${group.getAttribute('class')}: ` +
        `${colour ? ratio(colour, back).toFixed(2) : '?'}`);
  }
  if (counted < 10) problems.add('too little to measure contrast on');
  return [...problems];
})()
"""

# Every number of every table is text of the page, and every drawn point has a text, whether scripts run or not.
CONTENT = r"""
(() => {
  const problems = [];
  const tables = [...document.querySelectorAll('table')];
  if (!tables.length) problems.push('no table');
  for (const table of tables) {
    if (!table.caption || !table.caption.textContent.trim()) problems.push('a table has no caption');
    for (const cell of table.querySelectorAll('thead th')) if (cell.scope !== 'col')
        problems.push(`column head without scope: ${cell.textContent}`);
    for (const row of table.tBodies[0].rows) for (const cell of row.cells) if (!cell.textContent.trim())
        problems.push('a table cell shows nothing');
  }
  for (const point of document.querySelectorAll('.pt'))
    if (!(point.getAttribute('aria-label') || (point.querySelector('title') || {}).textContent))
        problems.push('a point has no text');
  let level = 0;
  for (const heading of document.querySelectorAll('h1,h2,h3,h4')) {
    const next = Number(heading.tagName[1]);
    if (next > level + 1) problems.push(`heading '${heading.textContent}' skips a level`);
    level = next;
  }
  const ids = [...document.querySelectorAll('[id]')].map((each) => each.id);
  for (const id of ids.filter((each, index) => ids.indexOf(each) !== index)) problems.push(`id '${id}' occurs twice`);
  for (const link of document.querySelectorAll('a[href]')) {
    const to = link.getAttribute('href');
    if (to[0] !== '#' || !document.getElementById(to.slice(1))) problems.push(`link to nowhere: ${to}`);
  }
  for (const chart of document.querySelectorAll('svg.chart'))
    for (const id of chart.getAttribute('aria-labelledby').split(' ')) if (!document.getElementById(id))
        problems.push(`aria-labelledby ${id} is missing`);
  return problems;
})()
"""

CONTROLS = r"""
(async () => {
  const problems = [];
  const root = document.documentElement, buttons = [...document.querySelectorAll('button')];
  const theme = buttons.find((each) => each.textContent.startsWith('Theme'));
  if (!theme) return ['no theme switch'];
  const paper = () => getComputedStyle(document.body).backgroundColor;
  const seen = new Set();
  for (let click = 0; click < 3; ++click) { theme.click(); seen.add(paper()); }
  if (seen.size !== 2) problems.push('the theme switch does not change the page');
  if (root.dataset.theme) problems.push('three clicks do not lead back to the automatic theme');
  for (const tools of document.querySelectorAll('figure .tools[role=group]')) {
    const figure = tools.closest('figure'), control = tools.querySelector('button');
    const hidden = () => figure.querySelectorAll('.series.off').length;
    control.click();
    if (!hidden() || control.getAttribute('aria-pressed') !== 'false')
        problems.push(`'${control.textContent}' hides nothing`);
    control.click();
    if (hidden()) problems.push(`'${control.textContent}' stays hidden`);
  }
  const chart = [...document.querySelectorAll('svg.chart')].find((each) => each.getBoundingClientRect().width &&
      each.querySelector('.pt'));
  const first = chart && chart.querySelector('.pt[tabindex="0"]'), tip = document.getElementById('tip');
  if (!first) return [...problems, 'no point can be reached by keyboard'];
  first.focus();
  const text = tip.textContent;
  if (tip.hidden || !text || text !== first.getAttribute('aria-label')) problems.push('a focused point shows no text');
  first.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight', bubbles: true, cancelable: true }));
  if (document.activeElement === first || tip.textContent === text)
      problems.push('the right arrow does not move to the next point');
  document.activeElement.blur();
  if (!tip.hidden) problems.push('the tooltip stays');
  let copied = null;
  const write = async (content) => { copied = content; };
  Object.defineProperty(navigator, 'clipboard', { value: { writeText: write }, configurable: true });
  const copy = buttons.find((each) => each.textContent === 'Copy as CSV');
  if (!copy) return [...problems, 'no table can be copied'];
  copy.click();
  await new Promise((resolve) => setTimeout(resolve, 50));
  const table = copy.closest('.table, details').querySelector('table');
  if (!copied || copied.split('\r\n').length !== table.rows.length + 1)
      problems.push('copying a table as CSV does not give its rows');
  return problems;
})()
"""


def find_browser():
    return next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))),
                None)


class Browser:
    """A headless Chromium that is spoken to over file descriptors 3 and 4; messages end with a zero byte."""

    def __init__(self, program, profile):
        self.to_read, to_us = os.pipe()
        from_us, self.to_write = os.pipe()
        arguments = [program, "--headless=new", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run",
                     "--hide-scrollbars", "--disable-dev-shm-usage",
                     f"--user-data-dir={profile}"]
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")

        def place_pipes():
            os.dup2(from_us, 100), os.dup2(to_us, 101)  # clear of 3 and 4 first
            os.dup2(100, 3), os.dup2(101, 4)
            os.close(100), os.close(101)

        self.process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, close_fds=False,
                                        preexec_fn=place_pipes, start_new_session=True)
        os.close(to_us), os.close(from_us)
        self.pending, self.events, self.number = b"", [], 0
        target = self.call("Target.createTarget", {"url": "about:blank"}, session=None)["targetId"]
        self.session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True},
                                 session=None)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")

    def message(self, deadline):
        while b"\0" not in self.pending:
            ready, _, _ = select.select([self.to_read], [], [], max(0.0, deadline - time.monotonic()))
            chunk = os.read(self.to_read, 1 << 20) if ready else b""
            if not chunk:
                raise RuntimeError("Chromium does not answer")
            self.pending += chunk
        text, self.pending = self.pending.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, parameters=None, session=True):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters or {}}
        if session:
            request["sessionId"] = self.session
        os.write(self.to_write, json.dumps(request).encode() + b"\0")
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            answer = self.message(deadline)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def load(self, url):
        self.events.clear()
        self.call("Page.navigate", {"url": url})
        deadline = time.monotonic() + TIMEOUT_S
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.message(deadline))

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", {"expression": expression, "returnByValue": True, "awaitPromise": True})
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"])[:600])
        return result["result"].get("value")

    def close(self):
        try:
            os.killpg(self.process.pid, 9)
        except ProcessLookupError:
            pass
        self.process.wait()


def event_problems(events, url):
    for event in events:
        method, details = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            described = details["exceptionDetails"].get("exception", {}).get("description")
            yield "script error: " + str(described or details["exceptionDetails"].get("text"))[:300]
        elif method == "Runtime.consoleAPICalled" and details.get("type") == "error":
            yield "console error: " + json.dumps(details.get("args"))[:300]
        elif method == "Log.entryAdded" and details["entry"]["level"] in ("error", "warning"):
            yield "browser message: " + details["entry"]["text"][:300]
        elif method == "Network.requestWillBeSent" and details["request"]["url"].split("#")[0] != url:
            yield "request to " + details["request"]["url"][:120]


def check_variant(browser, url, width, theme, has_scripts, folder):
    where = f"{width} px, {theme}, {'with' if has_scripts else 'without'} scripts"
    browser.call("Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1,
                                                        "mobile": False})
    browser.call("Emulation.setEmulatedMedia",
                 {"media": "screen", "features": [{"name": "prefers-color-scheme", "value": theme}]})
    browser.call("Emulation.setScriptExecutionDisabled", {"value": not has_scripts})
    browser.load(url)
    checks = [LAYOUT, TABLES, CONTRAST, CONTENT] + ([CONTROLS, LAYOUT] if has_scripts else [])
    problems = []
    for check in checks:  # first as it opens; with every data table open after that
        problems += browser.evaluate(check)
        browser.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    problems += event_problems(browser.events, url)
    if folder:
        browser.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = false; })")
        shot = browser.call("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": True})["data"]
        (folder / f"{width}-{theme}-{'scripts' if has_scripts else 'plain'}.png").write_bytes(base64.b64decode(shot))
    return [f"{where}: {problem}" for problem in problems]


def check_other_theme(browser, width, theme, folder):
    """The page that is open, in the other theme: what loading it again would not change is not looked at again."""
    browser.call("Emulation.setEmulatedMedia",
                 {"media": "screen", "features": [{"name": "prefers-color-scheme", "value": theme}]})
    problems = browser.evaluate(CONTRAST) + browser.evaluate(LAYOUT)
    expected = "rgb(255, 255, 255)" if theme == "light" else "rgb(20, 23, 28)"
    if (paper := browser.evaluate("getComputedStyle(document.body).backgroundColor")) != expected:
        problems.append(f"the paper is {paper}, expected {expected}")
    if folder:
        browser.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = false; })")
        shot = browser.call("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": True})["data"]
        (folder / f"{width}-{theme}-switched.png").write_bytes(base64.b64decode(shot))
    return [f"{width} px, {theme}, switched: {problem}" for problem in problems]


def check_print(browser, url, folder):
    browser.call("Emulation.clearDeviceMetricsOverride")
    browser.call("Emulation.setEmulatedMedia",
                 {"media": "", "features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    browser.load(url)
    page = base64.b64decode(browser.call("Page.printToPDF",
                                         {"preferCSSPageSize": True, "printBackground": True})["data"])
    if folder:
        (folder / "print.pdf").write_bytes(page)
    browser.call("Emulation.setEmulatedMedia",
                 {"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    browser.call("Emulation.setDeviceMetricsOverride", {"width": 673, "height": 1000, "deviceScaleFactor": 1,
                                                        "mobile": False})  # A4 less its margins
    problems = browser.evaluate(LAYOUT) + browser.evaluate(TABLES)
    if browser.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)":
        problems.append("the paper is not white")
    if not page.startswith(b"%PDF"):
        problems.append("no PDF comes out")
    return [f"printed: {problem}" for problem in problems]


def main():
    arguments = [word for word in sys.argv[1:] if word != "--quick"]
    is_quick = len(arguments) < len(sys.argv) - 1
    page = pathlib.Path(arguments[0]).resolve()
    folder = pathlib.Path(arguments[1]) if len(arguments) > 1 else None
    program = find_browser()
    if program is None:
        print("no Chromium here (package chromium)")
        return 3
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
    problems = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        try:
            for width in (390, 800, 1280):
                for theme in ("light", "dark"):
                    if not is_quick or (width, theme) in ((390, "light"), (800, "light"), (1280, "dark")):
                        problems += check_variant(browser, page.as_uri(), width, theme, True, folder)
                        if is_quick:
                            problems += check_other_theme(browser, width, "dark" if theme == "light" else "light",
                                                          folder)
            if not is_quick:
                problems += check_variant(browser, page.as_uri(), 1280, "light", False, folder)
                browser.call("Emulation.setScriptExecutionDisabled", {"value": False})
                problems += check_print(browser, page.as_uri(), folder)
        finally:
            browser.close()
    print("\n".join(problems))
    return 1 if problems else 0


sys.exit(main())
