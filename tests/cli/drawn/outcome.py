"""Judges how a call of the tool ended, and what it left."""
import csv
import io
import json
import pathlib
import re
import signal

import draw

STATUSES = {0, 1, 2, 3, 4, 5, 124}  # as `weft help` documents them; a signal adds 128 + its number
REPORT = re.compile(r"(Address|Leak|Thread|UndefinedBehavior)Sanitizer|runtime error:|==ERROR|Assertion .* failed")
SAMPLE = re.compile(r"^[a-zA-Z_:][\w:]*(\{.*\})? [^ ]+$")


def is_whole(kind, text, killed):
    """Whether the text is a whole document of that kind."""
    if kind == "json":
        try:
            json.loads(text)
        except ValueError:
            return False
        return True
    if kind == "html":
        return text.lstrip().lower().startswith("<!doctype html") and text.rstrip().endswith("</html>")
    if kind == "prometheus":
        return text.endswith("\n") and all(line.startswith("#") or SAMPLE.match(line) for line in text.splitlines())
    rows = list(csv.reader(io.StringIO(text)))  # a table grows row by row
    return text == "" or (text.endswith("\n") and len({len(row) for row in rows}) == 1) or killed


class Judge:
    """Collects the complaints about one call."""

    def __init__(self, call, folder, status, out, err):
        self.call, self.folder, self.status, self.out, self.err = call, pathlib.Path(folder), status, out, err
        self.complaints = []

    def say(self, text):
        self.complaints.append(text)

    def check_status(self):
        call, status = self.call, self.status
        sent = call.signal if not call.to_worker else 0
        if status in STATUSES or (sent and status in (128 + sent, -sent)):
            return
        if status == -signal.SIGPIPE and "broken" in (call.stdout, call.stderr):
            return
        if call.to_worker and status == 128 + call.signal:
            self.say(f"exit status {status}, though the tool itself had no signal")
        else:
            self.say(f"exit status {status}")

    def check_reason(self):
        """An error has a sentence; if the options are wrong, it names an option or a value."""
        if self.call.stderr != "read" or self.status <= 0 or self.status >= 128:
            return
        reported = self.call.command == "doctor" and self.call.stdout == "closed"  # its findings are its sentence
        said = self.err + (self.out if self.status == 1 or self.call.command == "doctor" else "")
        if not said.strip() and not reported:
            self.say(f"exit status {self.status} without a sentence")
        if self.status == 2:
            words = [part for word in self.call.arguments for part in word.split("=", 1)]
            words += [word.lstrip("-") for word in words if word.startswith("--")]
            if not any(word and word in self.err for word in words) and not re.search(r"--[a-z]|is missing", self.err):
                self.say("exit status 2, but no option and no file is named")

    def check_files(self):
        for path, kind in self.call.outputs.items():
            file = self.folder / path
            if path == "-":
                if self.call.stdout == "read" and self.out and self.status >= 0 and len(self.call.outputs) == 1 and \
                        not is_whole(kind, self.out, False):
                    self.say(f"standard output is no {kind}")
                continue
            if path.startswith("/") or not file.is_file() or path == "link":
                continue
            text = file.read_text(errors="replace")
            # A kill or a limit on the size of files may cut the CSV that grows row by row.
            cut = self.status < 0 or self.call.limit != ()
            if not is_whole(kind, text, cut):
                self.say(f"{path} is no whole {kind}: {text[-200:]!r}")
            if text == draw.OLD[kind] and self.status in (4, 5, 124) and kind != "csv" and \
                    path not in self.err and self.call.stderr == "read" and self.opens_all():
                self.say(f"{path} of an earlier run stays beside status {self.status}")

    def opens_all(self):
        """Whether every output can be opened. If one cannot, the others stay as they are."""
        return not self.call.limit and all(path.endswith((".new", ".old")) and "/" not in path or path == "-"
                                           for path in self.call.outputs)

    def check_report(self):
        found = REPORT.search(self.err) or REPORT.search(self.out)
        if found:
            self.say(f"a report of a sanitizer: {found[0]}")

    def all(self):
        self.check_status()
        self.check_reason()
        self.check_files()
        self.check_report()
        return self.complaints
