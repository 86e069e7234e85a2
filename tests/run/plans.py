"""Whole runs that have to pass: plans, kinds of data, their output and their files."""

import json
import os
import signal
import subprocess

from digests import ENOUGH, digests_of
from judge import check_states
from tool import SOURCE, WEFT, Run, main, plan_file, wait_for

REPORT = ("results.json", "config.json", "plan.json", "host.json", "events.jsonl")


def run_plan(plan, *arguments, negative="killed"):
    with Run(*arguments, plan=plan) as run:
        run.expect(0)
        results = run.results()
        assert results["passed"] and results["exit_status"] == 0 and results["error"] == ""
        check_states(results, json.loads(plan) if isinstance(plan, str) else plan, negative)
        return results, run.events(), run.text()


def classic(name):
    return lambda: run_plan(plan_file(name))


def fault_and_rejoin():
    results, events, _ = run_plan(plan_file("expansion_fault_rejoin"), "--validate-phase-failures")
    rank6 = [row for phase in results["phases"] for row in phase["ranks"] if row["rank"] == 6]
    assert rank6[1]["incarnation"] != rank6[3]["incarnation"], "a rejoin is a new incarnation"
    kills = [t for t in results["transitions"] if t["change"] == "kill"]
    assert len(kills) == 1 and kills[0]["rank"] == 6 and kills[0]["phase"] == 2
    assert kills[0]["detect_us"] >= 0 and kills[0]["detect_median_us"] >= kills[0]["detect_us"]
    assert any(row["num_lost_selections"] > 0 for row in results["phases"][2]["ranks"])
    exits = [e for e in events if e["kind"] == "exit" and e["rank"] == 6]
    assert [e["status"] for e in exits] == [-9, 0] and all(e["planned"] for e in exits), exits
    launches = {(e["phase"], e["rank"]): e["time_ns"] for e in events if e["kind"] == "launch"}
    for t in (t for t in results["transitions"] if t["change"] == "join" and t["phase"] > 0):
        agreed = [e["time_ns"] for e in events
                  if e["kind"] == "committed" and (e["rank"], e["epoch"]) == (t["rank"], t["epoch"])]
        told = launches[t["phase"], t["rank"]] + 1000 * (t["launch_us"] + t["connect_us"])
        assert abs(agreed[-1] - told) < 1000, f"connected when the view with it was agreed on, no earlier one: {t}"
        assert t["longest_stall_us"] >= t["membership_stall_us"] >= 0, t
    lost = {e["rank"] for e in events if e["kind"] == "peer_lost" and e["peer"] == 6}
    assert lost and lost <= {0, 1, 2, 3, 4, 7}, lost  # who is last may learn it from the view without rank 6


def the_matrix_says_what_each_rank_sends_to_each_other():
    """Rows by destination are those that the library itself counts as bytes; times follow the plan."""
    results, _, _ = run_plan(plan_file("expansion_fault_rejoin"))
    last = 0
    for phase in results["phases"]:
        assert last <= phase["begin_s"] < phase["end_s"] <= results["elapsed_s"], (last, phase["begin_s"])
        last, ranks, sizes = phase["end_s"], phase["ranks"], set()
        for i, rank in enumerate(ranks):
            rows, number = rank["dispatch_rows"], rank["both"]["count"]
            assert len(rows) == (len(ranks) if rank["state"] == "passed" else 0), rank
            for other, count in zip(ranks, rows):
                assert (count > 0) == (other["state"] == "passed"), (rank["rank"], other["rank"], count)
            if rows:
                sizes.add(round(rank["dispatch_wire_bytes"] * number / (sum(rows) - rows[i])))
        assert len(sizes) == 1, f"a row has one size: {sizes}"
    for change in results["transitions"]:
        phase = results["phases"][change["phase"]]
        assert phase["begin_s"] <= change["time_s"] <= phase["end_s"], change


def a_join_has_all_its_times():
    """A rank alone has agreed with itself before anybody hears of it."""
    for _ in range(4):
        results, _, _ = run_plan([[0]])
        join, = results["transitions"]
        times = [join[name] for name in ("launch_us", "connect_us", "first_dispatch_us")]
        assert None not in times and min(times) >= 0, join


def several_kills_a_join_and_a_leave_at_once():
    run_plan([[0, 1, 2, 3, 4], [0, 1, -2, -3, 5], [0, 2, 5]])


def the_last_survivor_goes_on():
    run_plan([[0, 1], [0, -1], [0, 1]])


def negative_leaves():
    results, events, _ = run_plan([[0, 1, 2], [0, -1, 2], [0, 1, 2]], "--negative", "leave", negative="left")
    assert [t["change"] for t in results["transitions"] if t["phase"] == 1] == ["leave"]
    assert not [e for e in events if e["kind"] == "exit" and e["status"] != 0]


def ranks_that_are_killed_from_outside():
    """The phase waits for it, the survivors are judged in the view without them, and they come back."""
    plan = [[0, 1, 2, 3], [0, -1, 2, -3], [0, 1, 2, 3]]
    with Run("--negative", "lost", "--validate-phase-failures", plan=plan) as run:
        wait_for("the phase", lambda: run.text().count("-> start phase 1") == 4)
        for rank in (1, 3):
            os.kill(next(e["pid"] for e in run.events() if e["kind"] == "launch" and e["rank"] == rank), signal.SIGKILL)
        run.expect(0)
        check_states(run.results(), plan)
        exits = [e for e in run.events() if e["kind"] == "exit" and e["rank"] in (1, 3)]
        assert [(e["status"], e["planned"]) for e in exits] == [(-9, True)] * 2 + [(0, True)] * 2, exits


def views_change_between_steps():
    _, events, _ = run_plan([[0, 1, 2], [0, 1, 2, 3], [0, -1, 2, 3], [0, 1, 3]], "--operations-per-step", 7)
    begun = {event["epoch"]: event["op"] for event in events if event["kind"] == "activated"}
    assert len(begun) >= 4 and all(op % 7 == 0 for op in begun.values()), begun


def all_ranks_are_replaced():
    run_plan([[0, 1], [2], [0, 1], [3, 4]])
    run_plan([[0, 1], [-1, 2]])
    run_plan([[0, 1], [0], [1, 2], [3, -1]], "--negative", "leave", negative="left")


def odd_and_sparse_ranks():
    run_plan([[1, 5, 9], [1, 5, 9, 2, 13], [13, 5, 9]])


def data(*arguments):
    return lambda: run_plan([[0, 1, 2], [0, 1, 2, 3], [0, -1, 2, 3]], *arguments, "--validate-phase-failures")


def a_few_tokens_and_experts():
    run_plan([[0, 1, 2], [0, 1, -2]], "--num-tokens", "0")
    run_plan([[0, 1, 2], [0, 1, -2]], "--num-tokens", "1", "--num-topk", "1", "--num-experts-per-rank", "5")


def what_is_short_is_said():
    """Processors, where more ranks ran than may be used; experts, where a token cannot select as many as it is to."""
    one = min(os.sched_getaffinity(0))
    alone = ["taskset", "-c", str(one)]
    for plan, short, topk in (([[0, 1], [0, 1, 2]], "3 ranks on 1 usable processor of", "top-k 4 to 6 (of 8: as many"),
                              ([[0]], None, "top-k 2 (of 8: there are no more experts)")):
        with Run(plan=plan, inside=alone) as run:
            text = run.expect(0).text()
            assert topk in text and (short in text if short else "too few processors" not in text), text
            row, = run.results()["processors"]
            assert (row["usable"], row["ranks"]) == (1, max(map(len, plan))), row


def all_prints_are_there():
    plan = [[0, 1], [0, 1, 2], [0, 2]]
    with Run("--json", plan=plan) as run:
        run.expect(0)
        run.output.seek(0)
        printed = json.load(run.output)
        assert printed["passed"] is True and printed == run.results()
        for name in REPORT[:-1]:
            json.loads((run.path / name).read_text())
        kinds = {event["kind"] for event in run.events()}
        assert {"run_begin", "launch", "connected", "committed", "activated", "phase_end", "exit", "run_end"} <= kinds
        assert all(event["time_ns"] > 0 for event in run.events())
        text = run.text()
        for phase, ranks in enumerate(plan):
            for rank in ranks:
                log = (run.path / f"rank-{rank}.log").read_text()
                for line in (f"global_rank={rank}, local_rank=", f"-> start phase {phase}", f"-> end phase {phase}",
                             f"[rank {rank}] Dispatch + combine bandwidth: ", f"[rank {rank}] Dispatch bandwidth: "):
                    assert line in log and line in text, (line, log)
    with Run(plan=plan) as run:
        report = run.expect(0).text()
        again = subprocess.run([WEFT, "report", run.path], capture_output=True, text=True, check=True).stdout
        assert again.strip() in report, "`weft report` makes the very report of the run again"


def a_quiet_run_prints_only_its_report():
    with Run("--quiet", plan=[[0, 1]]) as run:
        text = run.expect(0).text()
        again = subprocess.run([WEFT, "report", run.path], capture_output=True, text=True, check=True).stdout
        assert text.strip() == again.strip(), text
        assert "-> start phase 0" in (run.path / "rank-0.log").read_text()


def the_same_seed_dispatches_the_same_bytes():
    def run(seed):
        results, events, _ = run_plan([[0, 1, 2]], "--seed", seed, "--num-topk", 2, "--digests")
        rows = results["phases"][0]["ranks"]
        return [(row["dispatch_wire_bytes"], row["combine_wire_bytes"]) for row in rows], digests_of(events)
    (sizes, digests), (same_sizes, same_digests), (other_sizes, other_digests) = run(7), run(7), run(8)
    both = digests.keys() & same_digests.keys() & other_digests.keys()
    assert sizes == same_sizes != other_sizes and len(both) >= 3 * ENOUGH, (sizes, same_sizes, other_sizes, both)
    assert all(digests[key] == same_digests[key] != other_digests[key] for key in both), (digests, same_digests)


main({
    **{path.stem: classic(path.stem) for path in sorted((SOURCE / "plans").glob("*.json"))},
    "fault_and_rejoin": fault_and_rejoin,
    "views_change_between_steps": views_change_between_steps,
    "the_matrix_says_what_each_rank_sends_to_each_other": the_matrix_says_what_each_rank_sends_to_each_other,
    "a_join_has_all_its_times": a_join_has_all_its_times,
    "several_kills_a_join_and_a_leave_at_once": several_kills_a_join_and_a_leave_at_once,
    "the_last_survivor_goes_on": the_last_survivor_goes_on,
    "negative_leaves": negative_leaves,
    "ranks_that_are_killed_from_outside": ranks_that_are_killed_from_outside,
    "all_ranks_are_replaced": all_ranks_are_replaced,
    "odd_and_sparse_ranks": odd_and_sparse_ranks,
    "fp8": data("--dtype", "fp8"),
    "fp8_pow2_rank_major": data("--dtype", "fp8-pow2", "--layout", "rank-major"),
    "fp8_ue8m0": data("--dtype", "fp8-ue8m0"),
    "combine_logfmt10": data("--combine-dtype", "logfmt10"),
    "bf16_rank_major": data("--layout", "rank-major"),
    "a_few_tokens_and_experts": a_few_tokens_and_experts,
    "what_is_short_is_said": what_is_short_is_said,
    "all_prints_are_there": all_prints_are_there,
    "a_quiet_run_prints_only_its_report": a_quiet_run_prints_only_its_report,
    "the_same_seed_dispatches_the_same_bytes": the_same_seed_dispatches_the_same_bytes,
})
