"""A headless Chromium, controlled by its DevTools protocol through two pipes. A test starts it once."""
import base64
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import time

DEADLINE_S = 60
NAMES = ("chromium", "chromium-browser", "google-chrome")


def find():
    """The path of the program, or None. Without a snap, Ubuntu's chromium-browser is a script that reports this."""
    for name in NAMES:
        path = shutil.which(name)
        if not path:
            continue
        asked = subprocess.run([path, "--version"], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                               timeout=DEADLINE_S)
        if asked.returncode == 0 and "Chrom" in asked.stdout:
            return path
    return None


def no_pages(weft):
    """The reason why the tool makes no pages, or None. `weft`: a function that runs the tool."""
    asked = weft("report", os.devnull, "--html", "none.html")
    if "libjs-chart.js" in asked.stderr:
        return "this weft was compiled without the chart library libjs-chart.js"
    return None


def require(weft):
    """The path of the program. Skips the test without it, or if the tool makes no pages."""
    program = find()
    why = None if program else "no chromium here (scripts/install-deps.sh --test installs it)"
    why = why or no_pages(weft)
    if why:
        print("skipped: " + why)
        sys.exit(77)
    return program


class Browser:
    def __init__(self, program, folder):
        folder = pathlib.Path(folder)
        to_browser, self.send_fd = os.pipe()
        self.receive_fd, from_browser = os.pipe()

        # In the browser, descriptor 3 must be the pipe that it reads, and 4 the pipe that it writes.
        def place():
            first, second = os.dup(to_browser), os.dup(from_browser)
            os.dup2(first, 3)
            os.dup2(second, 4)

        self.log = open(folder / "browser.log", "wb")
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                 "--disable-crash-reporter", "--disable-breakpad", "--disable-background-networking",
                 "--disable-component-update", "--hide-scrollbars", "--remote-debugging-pipe",
                 f"--user-data-dir={folder / 'profile'}", "about:blank"]
        self.process = subprocess.Popen([program, *flags], preexec_fn=place, close_fds=False, stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=self.log, start_new_session=True,
                                        env={**os.environ, "HOME": str(folder), "TMPDIR": str(folder)})
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.last, self.events = b"", 0, []

    def close(self):
        try:
            self.call("Browser.close")
            self.process.wait(timeout=DEADLINE_S)
        except (AssertionError, OSError, subprocess.TimeoutExpired):
            pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # the browser's helpers that have not ended
        except ProcessLookupError:
            pass
        self.process.wait()
        os.close(self.send_fd)
        os.close(self.receive_fd)
        self.log.close()

    def read(self, deadline, what):
        """Returns the next message; a message ends with a NUL."""
        while b"\0" not in self.buffer:
            left = deadline - time.monotonic()
            ready = left > 0 and select.select([self.receive_fd], [], [], left)[0]
            assert ready, f"the browser does not answer: {what}"
            piece = os.read(self.receive_fd, 1 << 20)
            assert piece, f"the browser ended: {what}"
            self.buffer += piece
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, **parameters):
        self.last += 1
        message = {"id": self.last, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.send_fd, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + DEADLINE_S
        while True:
            answer = self.read(deadline, method)
            if answer.get("id") == self.last:
                assert "error" not in answer, f"{method}: {answer.get('error')}"
                return answer["result"]
            self.events.append(answer)

    def wait(self, method, session):
        """Waits for an event, which may have arrived already, and returns it."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            for event in self.events:
                if event.get("method") == method and event.get("sessionId") == session:
                    return event
            self.events.append(self.read(deadline, method))


class Page:
    """A page of that width in a separate tab, and its errors and warnings."""

    def __init__(self, browser, path, width, height=1200, dark=False):
        self.browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.target = target
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.prefer_dark(dark)
        self.call("Page.navigate", url=pathlib.Path(path).as_uri())
        browser.wait("Page.loadEventFired", self.session)
        self.until("document.body.dataset.tables === 'filled'")

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def prefer_dark(self, dark):
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, condition):
        """Waits until the condition holds, with the deadline of every answer."""
        self.evaluate(f"""new Promise((resolve) => {{
            const look = () => {condition} ? resolve() : setTimeout(look, 5);
            look(); }})""")

    def complaints(self):
        """Errors and warnings of scripts and of the content policy, and all requests for other than files."""
        found = []
        for event in self.browser.events:
            method, what = event.get("method"), event.get("params", {})
            if event.get("sessionId") != self.session:
                continue
            if method == "Runtime.exceptionThrown" or (method == "Runtime.consoleAPICalled"
                                                       and what["type"] in ("error", "warning", "assert")):
                found.append(what)
            if method == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
                found.append(what)
            if method == "Network.requestWillBeSent" and not what["request"]["url"].startswith(("file:", "about:")):
                found.append(what)
        return found

    def table(self, name):
        """The texts of the heads and rows of the table with that id."""
        return self.evaluate(f"""(() => {{
            const table = document.getElementById({json.dumps(name)});
            const texts = (row) => Array.from(row.cells, (cell) => cell.textContent);
            return table && {{ heads: texts(table.tHead.rows[0]), rows: Array.from(table.tBodies[0].rows, texts) }};
        }})()""")

    def empty_charts(self):
        """The names of the charts on which nothing was drawn."""
        return self.evaluate("""Array.from(document.querySelectorAll("canvas")).filter((canvas) => {
            if (canvas.width === 0 || canvas.height === 0) return true;
            const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
            for (let i = 3; i < pixels.length; i += 4) if (pixels[i] !== 0) return false;
            return true; }).map((canvas) => canvas.getAttribute("aria-label"))""")

    def screenshot(self, height=None):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": height or size["height"], "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        return base64.b64decode(shot["data"])

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)
