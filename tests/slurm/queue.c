// Output of squeue is parsed as jobs, also as heterogeneous ones of the user's, and other lines are reported.
#include "cmocka_all.h"

#include <stdio.h>
#include <string.h>

#include <weft/err.h>
#include <weft/weft.h>

#include "slurm/job/command.h"
#include "slurm/job/job.h"

static void jobs_and_tasks(void **state) {
  struct slurm_jobs jobs = {0};
  (void)state;
  assert_int_equal(slurm_jobs_parse(&jobs, "12|RUNNING|None|n[1-2]|sweep.a|/scratch/sweep\n"
                                           "13_0|PENDING|Resources||sweep.b|/scratch/a|b\n"
                                           "13_1|CANCELLED|None|n3|sweep.b|/scratch/a|b\n"
                                           "14+0|RUNNING|None|n4|coupled|/home/me\n"
                                           "14+1|RUNNING|None|n[5-6]|coupled|/home/me\n"),
                   0);
  assert_int_equal(jobs.count, 5);
  const struct slurm_job *one = slurm_jobs_find(&jobs, 12, -1), *task = slurm_jobs_find(&jobs, 13, 1);
  assert_non_null(one);
  assert_string_equal(one->nodes, "n[1-2]");
  assert_false(slurm_job_waits(one) || slurm_job_ended(one));
  assert_non_null(task);
  assert_true(slurm_job_ended(task));
  assert_true(slurm_job_waits(slurm_jobs_find(&jobs, 13, 0)));
  assert_null(slurm_jobs_find(&jobs, 13, 2));
  assert_null(slurm_jobs_find(&jobs, 15, -1));
  assert_ptr_equal(slurm_jobs_named(&jobs, "sweep.a", "/scratch/sweep", 0), one);
  assert_non_null(slurm_jobs_named(&jobs, "sweep.b", "/scratch/a|b", 0));
  assert_null(slurm_jobs_named(&jobs, "sweep.a", "/scratch/other", 0));
  assert_null(slurm_jobs_named(&jobs, "sweep.a", "/scratch/sweep", one->id));
  slurm_jobs_free(&jobs);
}

// The longest that a batch and a run may have: a job that is not found by its name would be submitted twice.
static void the_longest_names(void **state) {
  struct slurm_jobs jobs = {0};
  char name[256], line[512];
  (void)state;
  snprintf(name, sizeof name, "%0100d.%0100d.step4096.iteration100", 1, 2);
  snprintf(line, sizeof line, "12|PENDING|None||%s|/scratch\n", name);
  assert_int_equal(slurm_jobs_parse(&jobs, line), 0);
  assert_non_null(slurm_jobs_named(&jobs, name, "/scratch", 0));
  slurm_jobs_free(&jobs);
}

static void other_lines(void **state) {
  static const char *const lines[] = {"slurm_load_jobs error: down\n",    "12|RUNNING|None|n1|name\n",
                                      "x|RUNNING|None|n1|name|/dir\n",    "0|RUNNING|None|n1|name|/dir\n",
                                      "12_a|RUNNING|None|n1|name|/dir\n", "12+a|RUNNING|None|n1|name|/dir\n"};
  struct slurm_jobs jobs = {0};
  (void)state;
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    assert_int_equal(slurm_jobs_parse(&jobs, lines[i]), WEFT_ERR_PROTOCOL);
    assert_non_null(strstr(weft_last_error(), "ID|STATE|REASON|NODES|NAME|DIRECTORY"));
    assert_int_equal(jobs.count, 0);
  }
  assert_int_equal(slurm_jobs_parse(&jobs, ""), 0);
  assert_int_equal(jobs.count, 0);
  slurm_jobs_free(&jobs);
}

static void a_command_that_does_not_end(void **state) {
  static const char *const silent[] = {"sh", "-c", "exec sleep 1000", NULL};
  static const char *const closed[] = {"sh", "-c", "echo all; exec >&- 2>&-; exec sleep 1000", NULL};
  static const char *const *const commands[] = {silent, closed};
  (void)state;
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    struct text out = {0};
    assert_int_equal(slurm_command(&out, 200, commands[i], NULL), WEFT_ERR_TIMEOUT);
    assert_non_null(strstr(weft_last_error(), "sh has not answered"));
    text_free(&out);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(jobs_and_tasks), cmocka_unit_test(the_longest_names),
                                     cmocka_unit_test(other_lines), cmocka_unit_test(a_command_that_does_not_end)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
