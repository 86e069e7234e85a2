"""Agents whose network to the store is cut, for less and for longer than their lease. Operations go on meanwhile.

All ranks share one network namespace. Each agent reaches the store, in another namespace, by its own link. (hosts.py
has agents that are cut from each other.)
"""

import time

from judge import check_states
from namespaces import FarServe, Namespaces
from tool import Run, main, wait_for

TOKEN = {"WEFT_TOKEN": "s3cret"}
PLAN = [[0, 1, 2, 3], [0, 1, -2, 3, 4], [0, 1, 2, 3]]
LEASE = 10  # seconds
SHORT = 2  # seconds; a lease may be a quarter old, and connections take some time to come back
ITERATIONS = 300


def lasts(seconds):
    """The time for which a link is cut is the subject of the test."""
    end = time.monotonic() + seconds
    wait_for("the end of the cut", lambda: time.monotonic() > end)


def in_phase_0(run):
    wait_for("phase 0", lambda: run.text().count("-> start phase 0") >= 2)


class Two:
    """Two agents of one run, each behind its own link."""

    def __init__(self, namespaces, *arguments):
        shared = ["--num-agents", 2, "--num-processes", 3, "--iterations", ITERATIONS, *arguments]
        self.lead = Run(*shared, "--store", namespaces.url(0), plan=PLAN, environment=TOKEN, inside=namespaces.inside())
        try:
            wait_for("the lead", lambda: "waiting for agents" in self.lead.text())
        except BaseException:  # nobody leaves the block that would close it
            self.lead.close()
            raise
        self.other = Run("--store", namespaces.url(1), "--num-processes", 3, job=self.lead.job, environment=TOKEN,
                         inside=namespaces.inside())

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.other.close()
        self.lead.close()


def cut(link, seconds, run):
    """A test that cuts the link in phase 0, and joins it after so long."""
    with Namespaces() as namespaces, FarServe(namespaces, TOKEN["WEFT_TOKEN"]):
        with Two(namespaces) as two:
            in_phase_0(two.lead)
            namespaces.cut(link)
            lasts(seconds)
            namespaces.join(link)
            run(two)
            for one in (two.lead, two.other):
                one.expect_nothing_left()


def both_end_right(two):
    two.lead.expect(0)
    two.other.expect(0)
    check_states(two.lead.results(), PLAN, iterations=ITERATIONS)


def the_second_agent_is_cut_off_for_less_than_a_lease():
    cut(1, SHORT, both_end_right)


def the_lead_is_cut_off_for_less_than_a_lease():
    cut(0, SHORT, both_end_right)


def the_second_agent_is_cut_off_for_longer_than_a_lease():
    def ends(two):
        two.lead.expect(5)
        assert "agent 1 on" in two.lead.results()["error"], two.lead.text()
        assert two.other.wait() == 5, two.other.text()
        assert "agent 1 on" in two.other.text() and "ended the run" in two.other.text(), two.other.text()
    cut(1, LEASE + 4, ends)


def the_lead_is_cut_off_for_longer_than_a_lease():
    def ends(two):
        two.lead.expect(5)
        assert "agent 1 on" in two.lead.results()["error"], two.lead.text()
        assert two.other.wait() == 5, two.other.text()
        assert f"the lead of job '{two.lead.job}' has ended or is unreachable" in two.other.text(), two.other.text()
    cut(0, LEASE + 4, ends)


def the_only_agent_is_cut_off_for_longer_than_a_lease_and_goes_on():
    with Namespaces() as namespaces, FarServe(namespaces, TOKEN["WEFT_TOKEN"]):
        with Run("--store", namespaces.url(0), "--iterations", ITERATIONS, plan=PLAN, environment=TOKEN,
                 inside=namespaces.inside()) as run:
            in_phase_0(run)
            namespaces.cut(0)
            wait_for("the end of the phase without a store", lambda: run.text().count("-> end phase 0") == 4)
            lasts(LEASE + 4)
            namespaces.join(0)
            run.expect(0)
            check_states(run.results(), PLAN, iterations=ITERATIONS)
            assert [e for e in run.events() if e["kind"] == "store_restored"]


main({test.__name__: test for test in (
    the_second_agent_is_cut_off_for_less_than_a_lease,
    the_lead_is_cut_off_for_less_than_a_lease,
    the_second_agent_is_cut_off_for_longer_than_a_lease,
    the_lead_is_cut_off_for_longer_than_a_lease,
    the_only_agent_is_cut_off_for_longer_than_a_lease_and_goes_on,
)}, at_once=5)
