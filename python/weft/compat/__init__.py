"""Programs that take the command lines of others: `weft.compat.elastic`."""
