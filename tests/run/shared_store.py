"""Two jobs can use one store at the same time; two runs of the same name cannot."""

from judge import check_states
from stores import Etcd, Serve
from tool import Run, main, wait_for

PLAN = [[0, 1], [0, 1, 2], [0, -1, 2]]
ITERATIONS = 100


def two_jobs(kind):
    def test():
        with kind() as store:
            arguments = ["--store", store.url, "--iterations", ITERATIONS]
            with Run(*arguments, "--seed", 1, plan=PLAN) as one, Run(*arguments, "--seed", 2, plan=PLAN) as other:
                wait_for("the first run", lambda: "-> start phase 0" in one.text())
                one.pause()  # it begins no other phase before the second is there, however busy this host is
                wait_for("the second run", lambda: "-> start phase 0" in other.text())
                one.resume()
                for run in (one, other):
                    run.expect(0)
                    check_states(run.results(), PLAN, iterations=ITERATIONS)
                runs = [run.results()["run"] for run in (one, other)]
                assert runs[0] != runs[1], runs
                begin, end = zip(*((run.events()[0]["time_ns"], run.events()[-1]["time_ns"]) for run in (one, other)))
                assert max(begin) < min(end), "they ran one after the other: nothing is proved"
            wait_for("the end of the runs' keys", lambda: not store.keys())
    return test


def one_job_name_twice(kind):
    def test():
        with kind() as store:
            with Run("--store", store.url, "--iterations", 500, plan=PLAN) as one:
                wait_for("the run", lambda: any(key.endswith("/agent/0") for key in store.keys()))
                with Run("--store", store.url, plan=PLAN, job=one.job) as other:
                    other.expect_status(3)
                    words = (f"job '{one.job}' is being run by process {one.process.pid} on", "--job")
                    assert all(word in other.text() for word in words), other.text()
                    assert not other.path.exists(), "a run that did not begin has left its directory"
                one.expect(0)
                check_states(one.results(), PLAN, iterations=500)
            wait_for("the end of the run's keys", lambda: not store.keys())
    return test


def a_job_of_that_name_begins_while_the_store_has_lost_the_first():
    """Whoever is first in the empty store has the name; the other says so and leaves nothing."""
    with Serve() as store:
        with Run("--store", store.url, "--iterations", 1000000, plan=PLAN) as one:
            wait_for("phase 0", lambda: one.text().count("-> start phase 0") == 2)
            one.pause()
            store.kill()
            store.start()
            with Run("--store", store.url, "--iterations", 100, plan=PLAN, job=one.job) as other:
                wait_for("the other run", lambda: any(key.endswith("/agent/0") for key in store.keys()))
                one.resume()
                assert one.wait() == 3, one.text()
                assert f"job '{one.job}' is being run by process {other.process.pid}" in one.text(), one.text()
                assert other.wait() == 0, other.text()
                check_states(other.results(), PLAN, iterations=100)
            one.expect_nothing_left()
        wait_for("the end of the runs' keys", lambda: not store.keys())


main({
    "two_jobs_on_an_embedded_store": two_jobs(Serve),
    "two_jobs_on_etcd": two_jobs(Etcd),
    "one_job_name_twice_on_an_embedded_store": one_job_name_twice(Serve),
    "one_job_name_twice_on_etcd": one_job_name_twice(Etcd),
    "a_job_of_that_name_begins_while_the_store_has_lost_the_first":
        a_job_of_that_name_begins_while_the_store_has_lost_the_first,
}, at_once=2)
