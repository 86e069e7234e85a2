"""Where the second version of the original keeps its buffers."""
