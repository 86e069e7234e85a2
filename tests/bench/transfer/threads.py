#!/usr/bin/env python3
"""weft bench transfer on a host that cannot start as many threads as --num_threads asks for."""
import os
import pathlib
import tempfile
import unittest

import bench
import tool

THREADS = 4
LONG_WARM_UP = ("--start_block_size", 4096, "--max_block_size", 4096, "--num_iter", 64, "--warmup_iter", 4000)


class Threads(bench.BenchTest):
    def test_a_team_that_is_not_whole_does_not_begin(self):
        ran = set()
        for few in range(1, THREADS + 4):  # the agent has some of its own
            with tempfile.TemporaryDirectory() as folder:
                result = tool.weft("bench", "transfer", "--backend", "POSIX", "--filepath", folder, *LONG_WARM_UP,
                                   "--num_threads", THREADS, LD_PRELOAD=os.environ["FEW_THREADS"],
                                   WEFT_FEW_THREADS=str(few))
                self.assertIn(result.returncode, (0, 1, 3), (few, result.stderr))
                self.assertEqual(list(pathlib.Path(folder).iterdir()), [])
            ran |= {number for number in range(THREADS) if f"{number} of {THREADS} threads run" in result.stderr}
        self.assertEqual(ran, set(range(THREADS)))


if __name__ == "__main__":
    unittest.main()
