"""Programs with the command lines of other programs: `weft.compat.elastic`."""
