"""The layers of src/, as tests/lint/layers.txt lists them."""
import collections
import pathlib

Layer = collections.namedtuple("Layer", "name files folders")


def read(root):
    """The layers, from the bottom up."""
    layers = []
    for line in (pathlib.Path(root) / "tests/lint/layers.txt").read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        name, files, folders, _ = line.split(None, 3)
        layers.append(Layer(name, int(files), folders == "free"))
    return layers
