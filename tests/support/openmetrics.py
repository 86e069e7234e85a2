"""A strict reader of OpenMetrics 1.0. It knows the parts of the format that Weft uses; anything else is an error."""
import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"')
NUMBER = re.compile(r"-?(?:[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)$")
SUFFIXES = {
    "counter": ["_total"],
    "gauge": [""],
    "info": ["_info"],
    "histogram": ["_bucket", "_count", "_sum"],
}


def read_labels(text):
    labels, at = {}, 0
    while at < len(text):
        found = LABEL.match(text, at)
        assert found, f"labels: {text[at:]}"
        assert found[1] not in labels, f"the label {found[1]} twice"
        labels[found[1]] = re.sub(r"\\(.)", lambda escaped: "\n" if escaped[1] == "n" else escaped[1], found[2])
        at = found.end()
        if at < len(text):
            assert text[at] == "," and at + 1 < len(text), text
            at += 1
    return labels


def read(text):
    """Reads the families, by name: their type, and their values by (suffix, labels)."""
    assert text.endswith("# EOF\n") and text.count("# EOF") == 1, "no # EOF at the end"
    families, name = {}, None
    for line in text.splitlines()[:-1]:
        meta = re.match(rf"# (TYPE|UNIT|HELP) ({NAME}) (.+)$", line)
        if meta:
            if meta[1] == "TYPE":
                assert meta[2] not in families, f"the family {meta[2]} twice"
                name = meta[2]
                families[name] = {"type": meta[3], "values": {}}
                assert meta[3] in SUFFIXES, line
            assert meta[2] == name and not families[name]["values"], f"out of place: {line}"
            assert meta[1] == "TYPE" or meta[1] not in families[name], f"twice: {line}"
            families[name][meta[1]] = meta[3]
            if meta[1] == "UNIT":
                assert name.endswith("_" + meta[3]), f"the unit is no part of the name: {line}"
            continue
        sample = re.match(rf"({NAME})(?:\{{(.*)\}})? (\S+)$", line)
        assert sample and name, f"no sample: {line}"
        family = families[name]
        suffix = sample[1][len(name):]
        assert sample[1].startswith(name) and suffix in SUFFIXES[family["type"]], f"not of {name}: {line}"
        assert NUMBER.match(sample[3]), line
        key = (suffix, tuple(sorted(read_labels(sample[2] or "").items())))
        assert key not in family["values"], f"twice: {line}"
        family["values"][key] = float(sample[3])
    for name, family in families.items():
        if family["type"] == "histogram":
            check_histogram(name, family["values"])
    return families


def check_histogram(name, values):
    series = {}
    for (suffix, labels), value in values.items():
        rest = tuple(label for label in labels if label[0] != "le")
        part = series.setdefault(rest, {"buckets": []})
        if suffix == "_bucket":
            part["buckets"].append((float(dict(labels)["le"]), value))
        else:
            part[suffix] = value
    for labels, part in series.items():
        bounds = [bound for bound, _ in part["buckets"]]
        counts = [count for _, count in part["buckets"]]
        assert bounds == sorted(set(bounds)) and bounds[-1] == float("inf"), f"{name} {labels}: {bounds}"
        assert counts == sorted(counts) and counts[-1] == part["_count"], f"{name} {labels}: {counts}"
        assert part["_sum"] >= 0


def value(families, name, suffix="", **labels):
    return families[name]["values"].get((suffix, tuple(sorted(labels.items()))))
