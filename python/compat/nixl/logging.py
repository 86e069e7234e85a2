"""Loggers of the module nixl. NIXL_LOG_LEVEL (DEBUG, INFO, WARNING, ERROR, ...) sets the level of all of them."""

from __future__ import annotations

import logging
import os

_ready = False


def setup_logging() -> None:
    """Sets the level from NIXL_LOG_LEVEL, once. A level that does not exist is a warning, and changes nothing."""
    global _ready
    if _ready:
        return
    _ready = True
    wanted = os.environ.get("NIXL_LOG_LEVEL", "").upper()
    wanted = {"TRACE": "DEBUG", "WARN": "WARNING"}.get(wanted, wanted)
    top = logging.getLogger("nixl")
    if not wanted:
        return
    level = logging.getLevelName(wanted)
    if isinstance(level, int):
        top.setLevel(level)
    else:
        top.warning("NIXL_LOG_LEVEL=%s is no level: want DEBUG, INFO, WARNING, ERROR or CRITICAL", wanted)


def get_logger(name: str) -> logging.Logger:
    """The logger `nixl.NAME`; leading underscores of the name are left out, and so is a leading "nixl."."""
    setup_logging()
    return logging.getLogger("nixl." + name.removeprefix("nixl.").lstrip("_"))
