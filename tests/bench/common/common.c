// Code that the benchmark commands share: local workers that meet on an embedded store, and where rows are written.
#include "base/signal/stop.h"
#include "bench/common/children.h"
#include "bench/common/options.h"
#include "bench/common/output.h"
#include "bench/common/store.h"

#include "base/time/clock.h"
#include "cmocka_all.h"
#include "meet/meet.h"
#include "support/temporary.h"
#include "support/wait.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/err.h>

enum { WORKERS = 3, DEADLINE_MS = 60000 };

static const struct bench_options options = {.group = "test", .startup_timeout_s = 60, .quiet = true};

static int take_part(struct bench_store *store, uint32_t size, uint32_t *rank) {
  struct meet *meet;
  const struct meet_options meet_options = {
      .store = store->client, .prefix = store->prefix, .size = size, .host = "here", .timeout_ms = DEADLINE_MS};
  int err = meet_open(&meet, &meet_options);
  if (err)
    return err;
  err = meet_barrier(meet, "all are here", DEADLINE_MS);
  *rank = meet_rank(meet);
  meet_close(meet);
  return err;
}

static int work(void *arg, uint32_t index, int socket) {
  struct bench_store_place place;
  struct bench_store store;
  uint32_t rank;
  (void)arg;
  (void)index;
  int err = bench_child_receive(socket, &place, sizeof place, DEADLINE_MS);
  if (!err)
    err = bench_store_join(&store, &options, &place);
  if (!err)
    err = take_part(&store, WORKERS, &rank);
  if (!err)
    bench_store_close(&store);
  return err;
}

// Run in a process of its own, which then has threads.
static int lead(void *arg, uint32_t index, int socket) {
  struct bench_children children;
  struct bench_store_place place;
  struct bench_store store;
  uint32_t rank = UINT32_MAX;
  (void)arg;
  (void)index;
  (void)socket;
  int err = bench_children_start(&children, WORKERS - 1, work, NULL);
  if (!err)
    err = bench_store_open(&store, &options, false, "weft bench test");
  if (!err) {
    bench_store_describe(&store, &options, &place);
    err = bench_children_send(&children, &place, sizeof place);
  }
  uint64_t begin = clock_ns();
  if (!err)
    err = take_part(&store, WORKERS, &rank);
  print_message("%d workers were ready after %.1f ms\n", WORKERS, (double)(clock_ns() - begin) / 1e6);
  if (!err)
    err = bench_children_wait(&children, DEADLINE_MS);
  if (err)
    print_error("%s\n", weft_last_error());
  bench_children_end(&children);
  bench_store_close(&store);
  return err ? err : rank < WORKERS ? 0 : WEFT_ERR_DATA;
}

static void local_workers_meet_on_the_store_of_their_parent(void **state) {
  struct bench_children process;
  (void)state;
  assert_int_equal(bench_children_start(&process, 1, lead, NULL), 0);
  assert_int_equal(bench_children_wait(&process, DEADLINE_MS), 0);
  bench_children_end(&process);
}

static int end_as_told(void *arg, uint32_t index, int socket) {
  char byte;
  (void)arg;
  if (index == 0)
    return 0;
  if (index == 1)
    return WEFT_ERR_DATA;
  return bench_child_receive(socket, &byte, 1, DEADLINE_MS);
}

static void how_a_worker_ended_is_reported(void **state) {
  struct bench_children children;
  bool seen[3] = {false};
  char how[128];
  uint32_t index, ended = 0;
  bool well;
  (void)state;
  assert_int_equal(bench_children_start(&children, 3, end_as_told, NULL), 0);
  kill(children.list[2].pid, SIGKILL);
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  while (ended < 3 && !clock_passed(deadline)) {
    if (!bench_children_ended(&children, &index, &well, how, sizeof how))
      continue;
    ended++;
    assert_false(seen[index]);
    seen[index] = true;
    assert_int_equal(well, index == 0);
    const char *const wanted[] = {"exited with status 0", "exited with status 4", "was ended by signal 9 (Killed)"};
    assert_string_equal(how, wanted[index]);
  }
  assert_int_equal(ended, 3);
  assert_int_equal(bench_children_wait(&children, DEADLINE_MS), WEFT_ERR_PEER_LOST);
  assert_non_null(strstr(weft_last_error(), "worker process 1 of this host"));
  bench_children_end(&children);
}

static void a_process_that_has_not_ended_is_named(void **state) {
  struct bench_children children;
  (void)state;
  assert_int_equal(bench_children_start(&children, 3, end_as_told, NULL), 0);
  assert_int_equal(bench_children_wait(&children, 200), WEFT_ERR_TIMEOUT);
  assert_non_null(strstr(weft_last_error(), "2 (process "));
  bench_children_end(&children);
}

static void a_store_that_is_not_there_is_said_to_be_so(void **state) {
  struct bench_options far = options;
  struct bench_store store;
  (void)state;
  far.store = "http://127.0.0.1:1";
  assert_int_equal(bench_store_open(&store, &far, false, "weft bench test"), WEFT_ERR_UNREACHABLE);
  assert_non_null(strstr(weft_last_error(), "http://127.0.0.1:1"));
}

static void others_need_a_token_that_somebody_sees(void **state) {
  struct bench_store store;
  (void)state;
  assert_int_equal(bench_store_open(&store, &options, true, "weft bench test"), WEFT_ERR_INVALID);
  assert_non_null(strstr(weft_last_error(), "WEFT_TOKEN"));
}

static void a_worker_elsewhere_finds_the_store_of_the_first(void **state) {
  struct bench_options first = options, second = options;
  struct bench_store holder, guest, child;
  struct bench_store_place told;
  char place[64];
  (void)state;
  first.token = second.token = "of this test";
  assert_int_equal(bench_store_open(&holder, &first, true, "weft bench test"), WEFT_ERR_INVALID); // a blank
  first.token = second.token = "of-this-test";
  first.store_port = support_free_port();
  first.listen = "127.0.0.1";
  assert_int_equal(bench_store_open(&holder, &first, true, "weft bench test"), 0);
  snprintf(place, sizeof place, "127.0.0.1:%u", first.store_port);
  second.rank_server = place;
  assert_int_equal(bench_options_check(&second), 0);
  assert_int_equal(bench_store_open(&guest, &second, false, "weft bench test"), 0);
  assert_string_equal(guest.prefix, "weft/bench/test/");
  assert_true(guest.follows && !holder.follows);
  bench_store_describe(&guest, &second, &told);
  assert_int_equal(bench_store_join(&child, &second, &told), 0);
  assert_true(child.follows); // as its parent
  bench_store_close(&child);
  bench_store_close(&guest);
  second.token = "another";
  assert_int_equal(bench_store_open(&guest, &second, false, "weft bench test"), WEFT_ERR_AUTH);
  bench_store_close(&holder);
  second.token = NULL;
  assert_int_equal(bench_options_check(&second), WEFT_ERR_INVALID);
}

static void options_that_contradict_each_other_are_refused(void **state) {
  (void)state;
  struct bench_options both = options;
  both.json = both.csv = "-";
  assert_int_equal(bench_options_check(&both), WEFT_ERR_INVALID);
  both = options;
  both.csv = both.prometheus = "out";
  assert_int_equal(bench_options_check(&both), WEFT_ERR_INVALID);
  assert_non_null(strstr(weft_last_error(), "--csv and --prometheus are both out"));
  both.prometheus = "another";
  assert_int_equal(bench_options_check(&both), 0);
  both = options;
  both.store = "http://a:1";
  both.rank_server = "b";
  assert_int_equal(bench_options_check(&both), WEFT_ERR_INVALID);
  both = options;
  both.group = "a/b";
  assert_int_equal(bench_options_check(&both), WEFT_ERR_INVALID);
  assert_int_equal(bench_options_check(&options), 0);
}

// A document of two rows, the second of which is refused.
static void make_figures(struct figures *figures) {
  uint64_t times[100];
  for (uint64_t i = 0; i < 100; i++)
    times[i] = 1000 + i;
  assert_int_equal(figures_begin(figures, "transfer"), 0);
  figures->complete = figures->passed = true;
  for (int i = 0; i < 2; i++) {
    json_t *keys = json_pack("{s:s, s:i}", "op", i ? "READ" : "WRITE", "bytes", 4096 << i);
    struct figures_row *row = figures_add_row(figures, keys, 0);
    json_decref(keys);
    assert_non_null(figures_add_times(row, "latency", times, 100));
    struct figure *bandwidth = figures_add(row, "bandwidth", "GB/s", FIGURE_HIGHER, 4.5);
    bandwidth->bound = 9;
    assert_non_null(figures_add(row, "moved", "bytes", FIGURE_HIGHER, 11044880));
    snprintf(row->slowest, sizeof row->slowest, "rank 1 on \"b\", host");
    snprintf(row->refused, sizeof row->refused, "%s", i ? "both ends are one memory" : "");
    if (i)
      figures_withdraw_rates(row);
  }
}

static char *read_file(const char *path) {
  static char text[65536];
  FILE *file = fopen(path, "re");
  assert_non_null(file);
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  return text;
}

static void rows_go_to_the_table_and_the_files(void **state) {
  char folder[200], json[256], csv[256], prometheus[256], table[256], rate[2], percent[2];
  struct figures figures, again;
  struct bench_output output;
  (void)state;
  support_temporary(folder, sizeof folder, "weft-bench");
  assert_non_null(mkdtemp(folder));
  snprintf(json, sizeof json, "%s/a.json", folder);
  snprintf(csv, sizeof csv, "%s/a.csv", folder);
  snprintf(prometheus, sizeof prometheus, "%s/a.prom", folder);
  snprintf(table, sizeof table, "%s/table", folder);
  make_figures(&figures);
  struct bench_options with = options;
  with.json = json;
  with.csv = csv;
  with.prometheus = prometheus;
  bench_output_init(&output, &with);
  output.out = fopen(table, "we");
  output.more_keys = (const char *const[]){"rank", NULL};
  output.more_times = (const char *const[]){"latency", "gap_after", NULL};
  output.figures = (const char *const[]){"latency", "bandwidth", NULL};
  assert_non_null(figures_add_times(&figures.rows[1], "gap_after", (const uint64_t[]){7000}, 1));
  json_object_set_new(figures.rows[1].keys, "rank", json_integer(7));
  assert_int_equal(bench_output_begin(&output, &figures), 0);
  bench_output_row(&output, &figures, &figures.rows[0]);
  assert_false(bench_output_refused(&output));
  assert_int_equal(figures_load(&again, json), 0); // there already
  assert_int_equal(again.num_rows, 2);
  figures_free(&again);
  bench_output_row(&output, &figures, &figures.rows[1]);
  assert_true(bench_output_refused(&output));
  assert_int_equal(bench_output_end(&output, &figures), 0);
  fclose(output.out);
  const char *text = read_file(table);
  assert_non_null(strstr(text, "p99.9"));
  assert_non_null(strstr(text, "50.00")); // percent of the bound
  assert_non_null(strstr(text, "refused: both ends are one memory"));
  const char *second = strstr(text, "READ");
  assert_int_equal(sscanf(second, "READ %*d %*f %*f %*f %*f %*f %1[-] %1[-]", rate, percent), 2); // no number
  text = read_file(csv);
  assert_int_equal(strncmp(text, "run,op,bytes,rank,latency_us_mean,", 34), 0);
  assert_non_null(strstr(text, "\n0,WRITE,4096,,"));
  assert_non_null(strstr(text, ",4.5,9,11044880,,")); // counts are exact
  assert_non_null(strstr(text, "\n0,READ,8192,7,"));
  assert_non_null(strstr(text, ",,9,11044880,,7,")); // the rate of the refused row
  assert_non_null(strstr(text, ",moved_bound,gap_after_us_mean,gap_after_us_min,"));
  assert_non_null(strstr(text, ",11044880,,,,,,,,,,")); // the first row has none
  assert_non_null(strstr(text, ",11044880,,7,7,7,7,7,7,7,,"));
  assert_non_null(strstr(text, ",\"rank 1 on \"\"b\"\", host\","));
  assert_non_null(strstr(read_file(prometheus), "weft_bench_latency"));
  figures_free(&figures);
  unlink(json);
  unlink(csv);
  unlink(prometheus);
  unlink(table);
  rmdir(folder);
}

static void what_cannot_be_written_is_said_and_the_rest_goes_on(void **state) {
  struct figures figures;
  struct bench_output output;
  (void)state;
  make_figures(&figures);
  struct bench_options with = options;
  with.csv = "/dev/full"; // every write fails there, as on a disk that is full
  bench_output_init(&output, &with);
  char *table = NULL;
  size_t size;
  output.out = open_memstream(&table, &size);
  assert_int_equal(bench_output_begin(&output, &figures), 0);
  bench_output_row(&output, &figures, &figures.rows[0]);
  bench_output_row(&output, &figures, &figures.rows[1]);
  assert_int_equal(bench_output_end(&output, &figures), WEFT_ERR_LIMIT);
  assert_non_null(strstr(weft_last_error(), "/dev/full"));
  fclose(output.out);
  assert_non_null(strstr(table, "READ"));
  free(table);
  with.csv = "/nowhere/a.csv";
  bench_output_init(&output, &with);
  assert_int_equal(bench_output_begin(&output, &figures), WEFT_ERR_SYSTEM);
  assert_non_null(strstr(weft_last_error(), "/nowhere/a.csv"));
  figures_free(&figures);
}

static void a_signal_is_remembered(void **state) {
  (void)state;
  stop_watch("weft bench test");
  assert_int_equal(stop_came(), 0);
  assert_int_equal(stop_check(), 0);
  raise(SIGTERM);
  assert_int_equal(stop_came(), SIGTERM);
  assert_string_equal(stop_name(), "SIGTERM");
  assert_int_equal(stop_check(), WEFT_ERR_CANCELED);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(local_workers_meet_on_the_store_of_their_parent),
      cmocka_unit_test(how_a_worker_ended_is_reported),
      cmocka_unit_test(a_process_that_has_not_ended_is_named),
      cmocka_unit_test(options_that_contradict_each_other_are_refused),
      cmocka_unit_test(rows_go_to_the_table_and_the_files),
      cmocka_unit_test(what_cannot_be_written_is_said_and_the_rest_goes_on),
      cmocka_unit_test(a_store_that_is_not_there_is_said_to_be_so),
      cmocka_unit_test(others_need_a_token_that_somebody_sees),
      cmocka_unit_test(a_worker_elsewhere_finds_the_store_of_the_first),
      cmocka_unit_test(a_signal_is_remembered),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
