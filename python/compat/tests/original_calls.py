"""Whether the calls of a class are those that programs are written for."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from typing import Any


def check_calls(owner: Any, calls: str) -> None:
    """Those of a class or a module. Ours have at least the parameters of the originals: in their places, with their
    names and defaults. A call is a line, which goes on in lines that begin with eight blanks."""
    for call in re.sub(r"\n {8}", " ", calls).strip().split("\n"):
        wanted = ast.parse(f"def {call.strip()}: ...").body[0]
        assert isinstance(wanted, ast.FunctionDef)
        names = [one.arg for one in wanted.args.args]
        has = [one for one in inspect.signature(getattr(owner, wanted.name)).parameters.values() if one.name != "self"]
        assert [one.name for one in has][:len(names)] == names, call
        more = [one for one in has[len(names):] if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
        assert all(one.default is not one.empty for one in more), call
        defaults = {one.name: one.default for one in has}
        for name, default in zip(reversed(names), reversed(wanted.args.defaults)):
            said = getattr(sys.modules[owner.__module__], default.id) if isinstance(default, ast.Name) else (
                ast.literal_eval(default))
            assert defaults[name] == said, f"{call}: {name} is {defaults[name]!r}"
