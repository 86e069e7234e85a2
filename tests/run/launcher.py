"""Agents started by srun or mpirun, by the variables that these set."""

import contextlib

from tool import Run, free_port, main

PLAN = [[0, 1], [0, 1, 2], [0, -2]]
TASKS = 3
TOKEN = {"WEFT_TOKEN": "of-the-launcher"}


def srun(task):
    return {"SLURM_PROCID": task, "SLURM_STEP_NUM_TASKS": TASKS, "SLURM_STEP_NUM_NODES": 1, "SLURM_JOB_ID": 7,
            "SLURM_STEP_ID": 0}


def mpirun(task):
    """Inside an allocation of Slurm, whose variables are then those of the step that started mpirun."""
    return {**srun(0), "OMPI_COMM_WORLD_RANK": task, "OMPI_COMM_WORLD_SIZE": TASKS, "OMPI_COMM_WORLD_LOCAL_SIZE": TASKS}


def pmi(task):
    return {"PMI_RANK": task, "PMI_SIZE": TASKS}


def agent(variables, *arguments, **how):
    return Run("--launcher", *arguments, plan=PLAN, environment={**TOKEN, **{k: str(v) for k, v in variables.items()}},
               **how)


def each_is_one_rank(launcher, *more):
    def test():
        port = free_port()
        with contextlib.ExitStack() as stack:
            runs = [stack.enter_context(agent(launcher(task), "--store-port", port, *more, job="launched"))
                    for task in range(TASKS)]
            for run in runs:
                run.expect_status(0)
            assert [r["state"] for r in runs[0].results()["phases"][1]["ranks"]] == ["passed"] * 3
            for task, run in enumerate(runs):
                folder = run.path if task == 0 else run.path.with_name(f"{run.path.name}-task{task}")
                assert len(list(folder.glob("rank-*.log"))) == 1, (task, list(folder.iterdir()))
    return test


def what_is_missing():
    """No launcher, no token, no host of task 0, another number of agents: each error says what would help."""
    for variables, arguments, words in (
            ({}, (), "no launcher has started this process: want srun"),
            ({**srun(0), "WEFT_TOKEN": ""}, (), "3 agents need one token: set WEFT_TOKEN before srun"),
            (pmi(1), (), "PMI does not say where its task 0 runs: give all tasks --rank-server"),
            (srun(0), ("--num-agents", 2), "--num-agents is 2, and srun has started 3"),
            (srun("x"), (), "SLURM_PROCID is 'x', and should be a number"),
            ({**srun(3)}, (), "SLURM_PROCID is 3, and SLURM_STEP_NUM_TASKS is 3: the first should be less")):
        with agent(variables, *arguments) as run:
            run.expect(2)
            assert words in run.text(), (words, run.text())


main({
    "by_srun": each_is_one_rank(srun),
    "by_mpirun": each_is_one_rank(mpirun),
    "by_pmi": each_is_one_rank(pmi, "--rank-server", "127.0.0.1"),
    "what_is_missing": what_is_missing,
})
