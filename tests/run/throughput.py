"""Throughput runs: many tokens through small windows, with all checks beside the timed operations."""

import itertools
import json
import os

from judge import check_states
from tool import Run, free_port, main, plan_file

# A window of 64 KiB has room for some tens of rows of these, so that each operation takes several pieces.
FLOW = ["--mode", "throughput", "--window", 64 << 10, "--num-tokens", 96]
LAYOUTS = ("per-expert", "rank-major", "packed")
TYPES = ("bf16", "fp8-ue8m0")
SLOWED = "WEFT_TEST_SLOWED" in os.environ
GROWS_AND_SHRINKS = [[0, 1], [0, 1, 2], [0, 2], [0, -2, 3], [0, 2, 3]]


def run_plan(plan, *arguments, negative="killed"):
    with Run(*FLOW, *arguments, plan=plan) as run:
        text = run.expect(0).text()
        results = run.results()
        assert results["passed"] and results["config"]["mode"] == "throughput"
        assert "left_out_why" not in results["config"], results["config"]["left_out_why"]
        check_states(results, json.loads(plan) if isinstance(plan, str) else plan, negative)
        return results, text


def checks_of(results, phase):
    return {row["rank"]: row["checked"] for row in results["phases"][phase]["ranks"] if row["state"] == "passed"}


def every_layout_and_type():
    """Under a sanitizer each layout and each type, and not each with each."""
    pairs = zip(LAYOUTS, (*TYPES, TYPES[0])) if SLOWED else itertools.product(LAYOUTS, TYPES)
    for layout, dtype in pairs:
        results, text = run_plan(GROWS_AND_SHRINKS, "--layout", layout, "--dtype", dtype)
        assert f"{layout} layout" in text and "throughput, rows flow through 64 KiB a peer" in text, text
        for phase in range(len(GROWS_AND_SHRINKS)):  # one of each kind, twice, and two rounds
            assert min(checks_of(results, phase).values()) >= 2 * 3 + 2 * 2, checks_of(results, phase)


def a_route_lives_through_a_change_of_view():
    """Where nobody joins, two operations more are judged: by the route of the phase before, after a leave, too."""
    plan = [[0, 1, 2], [0, 1], [0, 1, 2], [0, 1, 2, 3], [0, -1, 2, 3], [0, 2]]
    results, _ = run_plan(plan)
    checks = [checks_of(results, phase)[0] for phase in range(len(plan))]
    # The rounds of a phase have 3 and 3 operations, 2 and 3, or 3 and 2, by turns; each but the last keeps a route.
    others = [6 + 1, 5 + 1, 5 + 1, 6 + 1, 5 + 1, 5]
    kept = [checks[phase] - checks[0] + others[0] - others[phase] for phase in range(len(plan))]
    assert [kept[1], kept[2], kept[3], kept[5]] == [2, 0, 0, 2], (checks, kept)


def combine_logfmt10():
    run_plan([[0, 1, 2], [0, 1, -2]], "--combine-dtype", "logfmt10")


def an_alignment():
    _, text = run_plan([[0, 1], [0, 1, 2]], "--layout", "packed", "--alignment", 128)
    assert "packed parts aligned to 128 rows" in text, text


def classic():
    run_plan(plan_file("expansion_fault_rejoin"), "--validate-phase-failures")


def few_and_no_tokens():
    run_plan([[0, 1, 2], [0, 1, -2]], "--num-tokens", 0)
    run_plan([[0, 1, 2], [0, 1]], "--num-tokens", 1, "--num-topk", 1, "--num-experts-per-rank", 5)


def many_tokens():
    """4,096 tokens choose the mode themselves; of their values a part is judged, of all else everything."""
    with Run("--num-tokens", 4096, "--iterations", 2, plan=[[0, 1], [0, 1, 2], [0, -1, 2]]) as run:
        text = run.expect(0).text()
        assert "4096 tokens" in text and "throughput, rows flow through 64 MiB a peer" in text, text
        assert all(row["window_bytes"] < 3 * (64 << 20) + (16 << 20)
                   for phase in run.results()["phases"] for row in phase["ranks"]), run.results()["phases"]


def killed_in_mid_flow():
    """A rank dies when half of its rows have left, in pieces of which most are not there yet. The survivors are told
    within one time limit, with every selection that is missing, and what had come is right."""
    timeout_ms = 20000
    plan = [[0, 1, 2], [0, -1, 2], [0, 1, 2]]
    for layout in LAYOUTS:
        results, _ = run_plan(plan, "--num-tokens", 1024, "--layout", layout, "--validate-phase-failures",
                              "--timeout-ms", timeout_ms)
        kill, = [t for t in results["transitions"] if t["change"] == "kill"]
        assert 0 <= kill["detect_us"] <= kill["longest_stall_us"] + 1e6 and kill["detect_us"] < 1e3 * timeout_ms, kill
        lost = {row["rank"]: row["num_lost_selections"] for row in results["phases"][1]["ranks"]}
        assert lost[0] > 0 and lost[2] > 0, lost  # what the dead one's experts were to answer
        others = [row["num_lost_selections"] for phase in (0, 2) for row in results["phases"][phase]["ranks"]]
        assert others == [0] * len(others), "what is missing because of the plan alone is no loss"


def an_agent_learns_what_differs():
    port = free_port()
    plan = [[0, 1], [0, 1, 2]]
    with Run(*FLOW, "--num-agents", 2, "--num-processes", 2, "--store-port", port, plan=plan) as lead:
        with Run("--rank-server", f"127.0.0.1:{port}", "--num-processes", 1, "--window", 1 << 20,
                 job=lead.job) as other:
            assert other.wait() == 2, other.text()
            assert "--window is 1048576 here, but 65536 at the lead" in other.text(), other.text()
        with Run("--rank-server", f"127.0.0.1:{port}", "--num-processes", 1, "--mode", "throughput",
                 job=lead.job) as other:
            other.expect(0)
        lead.expect(0)


def what_does_not_go_together():
    for words, *arguments in (
            (("--num-tokens 1025 is more than the 1024 that --mode latency allows", "want --mode throughput"),
             "--mode", "latency", "--num-tokens", 1025),
            (("--window is given for --mode latency",), "--mode", "latency", "--window", 65536),
            (("--processors is given for --mode latency",), "--mode", "latency", "--processors", 24),
            (("--alignment is given without --layout packed",), "--alignment", 16),
            (("--num-tokens", "32768"), "--num-tokens", 32769)):
        with Run(*arguments, plan=[[0]]) as run:
            run.expect(2)
            assert all(word in run.text() for word in words) and not run.path.exists(), run.text()


def a_window_without_room_for_a_row():
    """The library's own sentence, before anything is started."""
    with Run("--mode", "throughput", "--hidden-dim", 16384, "--window", 4096, plan=[[0, 1]]) as run:
        run.expect(2)
        assert "weft elastic: --window: window_bytes is 4096; " in run.text(), run.text()
        assert "start phase" not in run.text() and not run.path.exists(), run.text()


main({test.__name__: test for test in (
    every_layout_and_type, a_route_lives_through_a_change_of_view, combine_logfmt10, an_alignment, classic,
    few_and_no_tokens, many_tokens, killed_in_mid_flow, an_agent_learns_what_differs, what_does_not_go_together,
    a_window_without_room_for_a_row)})
