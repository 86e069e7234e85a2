"""A store that dies during a run and restarts, with its data or empty: the run goes on and ends with right results."""

from judge import check_states
from relay import Relay
from stores import Etcd, Serve
from tool import Run, main, wait_for

PLAN = [[0, 1, 2], [0, 1, 2, 3], [0, -1, 2, 3], [0, 1, 2]]
ITERATIONS = 400  # of a phase: it lasts until the store is gone


def reaches(run, *lines):
    for line in lines:
        wait_for(f"'{line}'", lambda: line in run.text() or run.process.poll() is not None)
        assert run.process.poll() is None, run.text()


def in_a_phase(run, store, number):
    """Dead while every rank is in the phase; all of them go through to its end without it."""
    count = run.text().count(f"-> end phase {number}")
    reaches(run, f"-> start phase {number}")
    store.kill()
    reaches(run, f"-> end phase {number}")
    wait_for("operations without a store", lambda: run.text().count(f"-> end phase {number}") >= count + 3)


def in_a_transition(run, store, number):
    """Dead when the lead has begun the phase: a rank has been launched and has not joined."""
    wait_for(f"phase {number}", lambda: any(e["kind"] == "phase_begin" and e["phase"] == number for e in run.events()))
    store.kill()


def in_a_kill(run, store, number):
    """Dead when a rank has just died as planned."""
    wait_for("the kill", lambda: any(e["kind"] == "exit" and e["status"] == -9 for e in run.events()))
    store.kill()


def dies(kind, when, number, empty):
    def test():
        with kind() as store:
            with Run("--store", store.url, "--iterations", ITERATIONS, plan=PLAN) as run:
                wait_for("the run directory", (run.path / "events.jsonl").exists)
                when(run, store, number)
                if empty and kind is Etcd:
                    store.lose_all()
                store.start()
                run.expect(0)
                assert run.results()["passed"], run.text()
                check_states(run.results(), PLAN, iterations=ITERATIONS)
                forgot = [e for e in run.events() if e["kind"] == "store_forgot"]
                assert bool(forgot) == empty, (forgot, run.text())
            wait_for("the end of the run's keys", lambda: not store.keys())
    return test


def an_empty_etcd_that_looks_like_the_old_one():
    """The same cluster, and past the revision that the watches know: only leases tell that it is another one."""
    with Etcd() as etcd, Relay(etcd.port) as relay:
        with Run("--store", relay.url, "--iterations", ITERATIONS, plan=PLAN) as run:
            reaches(run, "-> start phase 1")
            relay.refusing = True
            etcd.kill()
            etcd.lose_all()
            etcd.start()
            etcd.grow(300)
            relay.refusing = False
            run.expect(0)
            check_states(run.results(), PLAN, iterations=ITERATIONS)
            assert [e for e in run.events() if e["kind"] == "store_forgot"], run.text()
        wait_for("the end of the run's keys", lambda: not etcd.keys())


def an_outage_is_reported_once():
    """By the agents, as they wait, with the time until which they do; and when it is over. Not by each rank."""
    arguments = ["--num-agents", 2, "--num-processes", 2, "--iterations", 1000000]
    with Serve() as store, Run(*arguments, "--store", store.url, plan=PLAN) as lead:
        with Run("--num-processes", 2, "--store", store.url, job=lead.job) as other:
            wait_for("phase 0", lambda: (lead.text() + other.text()).count("-> start phase 0") == 3)
            store.kill()
            for run in (lead, other):
                told = f"weft elastic: the store {store.url} does not answer; waiting for it until "
                wait_for("the notice", lambda run=run, told=told: told in run.text())
            store.start()
            for run in (lead, other):
                wait_for("its end", lambda run=run: f"the store {store.url} answers again, after" in run.text())
            for run in (lead, other):
                assert run.text().count("does not answer") == run.text().count("answers again") == 1, run.text()
            lead.process.terminate()
            lead.expect_status(128 + 15)
            other.wait()
            lead.expect_nothing_left()


main({
    "an_outage_is_reported_once": an_outage_is_reported_once,
    "an_empty_etcd_that_looks_like_the_old_one": an_empty_etcd_that_looks_like_the_old_one,
    "an_embedded_store_dies_in_a_phase_and_comes_back_empty": dies(Serve, in_a_phase, 1, True),
    "an_embedded_store_dies_in_a_transition_and_comes_back_empty": dies(Serve, in_a_transition, 1, True),
    "an_embedded_store_dies_in_a_kill_and_comes_back_empty": dies(Serve, in_a_kill, 2, True),
    "etcd_is_killed_in_a_phase_and_restarted": dies(Etcd, in_a_phase, 1, False),
    "etcd_is_killed_in_a_transition_and_restarted": dies(Etcd, in_a_transition, 1, False),
    "etcd_is_killed_in_a_kill_and_restarted": dies(Etcd, in_a_kill, 2, False),
    "etcd_is_killed_in_a_phase_and_restarted_empty": dies(Etcd, in_a_phase, 1, True),
    "etcd_is_killed_in_a_transition_and_restarted_empty": dies(Etcd, in_a_transition, 1, True),
    "etcd_is_killed_in_a_kill_and_restarted_empty": dies(Etcd, in_a_kill, 2, True),
}, at_once=2)
