"""Reads the tool's commands and their options from its help, which the tool makes from the tables of its parser."""
import dataclasses
import re
import subprocess

OPTION = re.compile(r"^ {2}(?:-(?P<letter>\w), | {4})--(?P<name>[\w-]+)(?: (?P<metavar>[^ ,]+))?(?:,| |$)")
NOTE = re.compile(r"\[([^]]*)\]")
RANGE = re.compile(r"^(\d+) to (\d+)")


@dataclasses.dataclass
class Option:
    name: str
    metavar: str  # "" for a flag
    least: int = -1  # of a number; -1: it is none
    most: int = -1
    choices: tuple = ()


def parse(text):
    """The options of a command's help."""
    found, notes = [], []
    for line in text.splitlines():
        if line == "Examples:":
            break
        match = OPTION.match(line)
        if match:
            found.append(Option(match["name"], match["metavar"] or ""))
            notes.append("")
        elif found:
            notes[-1] += " " + line.strip()
    for option, note in zip(found, notes):
        for part in NOTE.findall(note):
            values = re.sub(r";? ?default:.*", "", part)
            numbers = RANGE.match(values)
            if numbers:
                option.least, option.most = int(numbers[1]), int(numbers[2])
            elif re.fullmatch(r"[\w-]+(, [\w-]+)+", values):
                option.choices = tuple(values.split(", "))
    return [option for option in found if option.name != "help"]


def read(weft, environment):
    """Command -> its options, for every command of the overview."""
    def ask(*arguments):
        return subprocess.run([weft, *arguments], env=environment, capture_output=True, text=True, check=True,
                              timeout=60).stdout
    overview = ask("help").split("Commands:\n")[1].split("\n\n")[0]
    names = [re.match(r"  ((?:bench |slurm )?[\w-]+)", line)[1] for line in overview.splitlines()]
    return {name: parse(ask(*name.split(), "--help")) for name in names}
