"""The package in which the second version of the original has its buffers."""
