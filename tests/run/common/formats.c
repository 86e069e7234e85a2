// Parts that need no processes: names of keys, shared settings, tasks, records, and which ranks take part in a phase.
#include "cmocka_all.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "plan/plan.h"
#include "run/common/config_json.h"
#include "run/common/current.h"
#include "run/common/keys.h"
#include "run/common/phase_record.h"
#include "run/common/rank_env.h"
#include "run/common/roster.h"
#include "secure/secret.h"

static void keys_give_back_what_was_put_into_them(void **state) {
  (void)state;
  struct run_keys keys;
  char key[RUN_KEY_SIZE];
  uint32_t first = 0, second = 0;
  run_keys_init(&keys, "job", "0f1e");
  assert_string_equal(keys.live, "/weft/job/run");
  run_key(key, &keys, "record/%u/%d", 3u, 17);
  assert_string_equal(key, "/weft/job/0f1e/record/3/17");
  assert_true(run_key_pair(&keys, key, "record", &first, &second));
  assert_int_equal(first, 3);
  assert_int_equal(second, 17);
  assert_false(run_key_pair(&keys, key, "launch", &first, &second));
  assert_false(run_key_pair(&keys, "/weft/job/0f1e/record/3/17x", "record", &first, &second));
  assert_false(run_key_pair(&keys, "/weft/job/0f1e/record/3", "record", &first, &second));
  assert_false(run_key_pair(&keys, "/weft/job/0f1e/record/-3/17", "record", &first, &second));
  assert_false(run_key_pair(&keys, "/weft/job/0f1e/record/3/ 17", "record", &first, &second));
  assert_false(run_key_pair(&keys, "/weft/job/0f1e/record/03/17", "record", &first, &second));
  assert_false(run_key_pair(&keys, "/weft/other/0f1e/record/3/17", "record", &first, &second));
  assert_string_equal(run_key_tail(&keys, "/weft/job/0f1e/agent/2", "agent"), "2");
  assert_null(run_key_tail(&keys, "/weft/job/0f1e/agents/2", "agent"));
  assert_true(run_key_is(&keys, "/weft/job/0f1e/current", "current"));
  assert_false(run_key_is(&keys, "/weft/job/0f1e/current/1", "current"));
}

static void a_job_name_is_checked(void **state) {
  (void)state;
  char longest[RUN_JOB_MAX + 2];
  memset(longest, 'a', sizeof longest);
  longest[RUN_JOB_MAX + 1] = '\0';
  assert_int_equal(run_keys_check_job(longest), WEFT_ERR_INVALID);
  longest[RUN_JOB_MAX] = '\0';
  assert_int_equal(run_keys_check_job(longest), 0);
  assert_int_equal(run_keys_check_job("a.B_c-9"), 0);
  assert_int_equal(run_keys_check_job(""), WEFT_ERR_INVALID);
  assert_int_equal(run_keys_check_job("a/b"), WEFT_ERR_INVALID);
}

static const struct run_config sample = {
    .num_agents = 3,
    .num_tokens = 17,
    .experts_per_rank = 5,
    .hidden = 512,
    .topk = 6,
    .dtype = WEFT_EP_FP8_POW2,
    .combine_dtype = WEFT_EP_COMBINE_LOGFMT10,
    .layout = WEFT_EP_PACKED,
    .mode = WEFT_EP_THROUGHPUT,
    .window_bytes = 3000000000,
    .alignment = 128,
    .processors = 24,
    .left_out = 1u << RUN_FEATURE_ROUTES,
    .memory = WEFT_EP_MEMORY_CUDA,
    .timeout_ms = 1234,
    .startup_timeout_s = 9,
    .iterations = 7,
    .warmup = 2,
    .seed = UINT64_MAX - 1,
    .validate_phase_failures = true,
    .digests = true,
    .negative = RUN_NEGATIVE_LEAVE,
    .agents = RUN_AGENTS_ELASTIC,
};

static void settings_come_back_from_json_as_they_were(void **state) {
  (void)state;
  json_t *json = run_settings_to_json(&sample), *again;
  struct run_config read = {.job = "kept"};
  assert_int_equal(run_settings_from_json(&read, json), 0);
  again = run_settings_to_json(&read);
  assert_true(json_equal(json, again));
  assert_int_equal(read.seed, UINT64_MAX - 1);
  assert_int_equal(read.dtype, WEFT_EP_FP8_POW2);
  assert_int_equal(read.layout, WEFT_EP_PACKED);
  assert_int_equal(read.mode, WEFT_EP_THROUGHPUT);
  assert_int_equal(read.window_bytes, 3000000000);
  assert_int_equal(read.alignment, 128);
  assert_int_equal(read.left_out, 1u << RUN_FEATURE_ROUTES);
  assert_int_equal(read.combine_dtype, WEFT_EP_COMBINE_LOGFMT10);
  assert_int_equal(read.negative, RUN_NEGATIVE_LEAVE);
  assert_int_equal(read.agents, RUN_AGENTS_ELASTIC);
  assert_true(read.digests);
  assert_string_equal(read.job, "kept");
  json_decref(json);
  json_decref(again);
}

static void settings_with_any_field_missing_or_wrong_name_it(void **state) {
  (void)state;
  json_t *json = run_settings_to_json(&sample);
  const char *key;
  json_t *value;
  json_object_foreach(json, key, value) {
    struct run_config read = {0};
    json_t *broken = json_copy(json);
    json_object_del(broken, key);
    assert_int_equal(run_settings_from_json(&read, broken), WEFT_ERR_PROTOCOL);
    assert_non_null(strstr(weft_last_error(), key));
    json_object_set_new(broken, key, json_real(1.5));
    assert_int_equal(run_settings_from_json(&read, broken), WEFT_ERR_PROTOCOL);
    assert_non_null(strstr(weft_last_error(), key));
    json_decref(broken);
  }
  json_decref(json);
}

static void the_phase_and_the_losses_come_back_and_amend_the_plan(void **state) {
  (void)state;
  struct run_current current = {.phase = 1}, read = {.phase = 9};
  struct plan *plan = NULL;
  assert_int_equal(plan_from_text(&plan, "[[0,1],[0,1],[0,1]]", 19), 0);
  assert_int_equal(run_current_add(&current, &(struct run_lost){0, 7, false}), 0); // whom the plan does not know
  assert_int_equal(run_current_add(&current, &(struct run_lost){1, 1, true}), 0);
  json_t *json = run_current_to_json(&current);
  assert_int_equal(run_current_from_json(&read, json), 0);
  assert_int_equal(read.phase, 1);
  assert_int_equal(read.num_lost, 2);
  assert_true(read.lost[1].leaves && !read.lost[0].leaves);
  assert_true(run_current_has_lost(&read, 1, 1) && !run_current_has_lost(&read, 2, 1));
  run_current_amend(&read, 0, plan);
  assert_int_equal(plan_rank_role(plan, 1, 1), PLAN_NOT_MEMBER);
  assert_int_equal(plan_rank_role(plan, 2, 1), PLAN_REJOINS);
  json_object_set_new(json_array_get(json_object_get(json, "lost"), 1), "rank", json_integer(-1));
  assert_int_equal(run_current_from_json(&read, json), WEFT_ERR_PROTOCOL);
  assert_non_null(strstr(weft_last_error(), "lost"));
  assert_int_equal(read.num_lost, 2);
  json_object_del(json, "phase");
  assert_int_equal(run_current_from_json(&read, json), WEFT_ERR_PROTOCOL);
  assert_non_null(strstr(weft_last_error(), "phase"));
  json_decref(json);
  run_current_free(&current);
  run_current_free(&read);
  plan_free(plan);
}

static void a_seed_is_decimal_and_of_64_bits(void **state) {
  (void)state;
  static const char *const wrong[] = {"18446744073709551616", "-5", " 5", "+5", "5 ", ""};
  json_t *json = run_settings_to_json(&sample);
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    struct run_config read = {.seed = 1};
    json_object_set_new(json, "seed", json_string(wrong[i]));
    assert_int_equal(run_settings_from_json(&read, json), WEFT_ERR_PROTOCOL);
    assert_non_null(strstr(weft_last_error(), "seed"));
    assert_int_equal(read.seed, 1);
  }
  json_decref(json);
}

static void a_task_comes_back_from_text_with_and_without_secrets(void **state) {
  (void)state;
  struct run_task task = {.endpoints = "http://h:1",
                          .token = "s\"e",
                          .job = "j",
                          .run = "r",
                          .rank = 4095,
                          .slot = 3,
                          .phase = 2,
                          .launch_ns = 1ull << 60,
                          .agent_pid = 77,
                          .message_fd = 3};
  struct run_task read;
  json_t *owner = NULL;
  char *text = run_task_to_text(&task);
  assert_int_equal(run_task_from_text(&read, text, &owner), 0);
  assert_string_equal(read.token, "s\"e");
  assert_null(read.password);
  assert_int_equal(read.rank, 4095);
  assert_int_equal(read.launch_ns, 1ull << 60);
  assert_int_equal(read.agent_pid, 77);
  run_task_free(owner);
  free(text);
  assert_int_equal(run_task_from_text(&read, "{\"rank\": 1}", &owner), WEFT_ERR_PROTOCOL);
  assert_int_equal(run_task_from_text(&read, "nonsense", &owner), WEFT_ERR_PROTOCOL);
}

static void hand_over(int fd) {
  char number[16];
  snprintf(number, sizeof number, "%d", fd);
  setenv(RUN_TASK_VARIABLE, number, 1);
}

static void a_task_comes_back_from_a_descriptor_once(void **state) {
  (void)state;
  struct run_task task = {.endpoints = "https://h:1", .token = "t", .password = "p", .job = "j", .run = "r"}, read;
  json_t *owner = NULL;
  int fd = -1;
  assert_int_equal(run_task_to_descriptor(&task, &fd), 0);
  assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
  assert_int_equal(write(fd, "x", 1), -1); // sealed
  hand_over(fd);
  assert_int_equal(run_task_receive(&read, &owner), 0);
  assert_string_equal(read.password, "p");
  assert_null(getenv(RUN_TASK_VARIABLE));
  assert_int_equal(fcntl(fd, F_GETFD), -1); // closed
  run_task_free(owner);
  assert_int_equal(run_task_receive(&read, &owner), WEFT_ERR_INVALID);
}

static void a_descriptor_that_no_agent_made_is_refused(void **state) {
  (void)state;
  static const char *const numbers[] = {"", "x", "-1", " 3", "3 ", "99999999999999999999", "1000000", "0x3"};
  struct run_task task;
  json_t *owner = NULL;
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    setenv(RUN_TASK_VARIABLE, numbers[i], 1);
    assert_int_equal(run_task_receive(&task, &owner), WEFT_ERR_PROTOCOL);
    assert_null(getenv(RUN_TASK_VARIABLE));
  }
  int pipe_fds[2], open_memory = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  assert_int_equal(pipe(pipe_fds), 0); // one that would be waited at
  hand_over(pipe_fds[0]);
  assert_int_equal(run_task_receive(&task, &owner), WEFT_ERR_PROTOCOL);
  assert_int_equal(write(open_memory, "{}", 2), 2);
  hand_over(open_memory); // one that others can still change
  assert_int_equal(run_task_receive(&task, &owner), WEFT_ERR_PROTOCOL);
  assert_int_equal(ftruncate(open_memory, 1 << 30), 0); // and one that is far too large
  assert_int_equal(fcntl(open_memory, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK), 0);
  hand_over(open_memory);
  assert_int_equal(run_task_receive(&task, &owner), WEFT_ERR_PROTOCOL);
  close(open_memory);
  close(pipe_fds[0]);
  close(pipe_fds[1]);
}

static void a_task_that_is_spoilt_is_refused_without_a_word_of_it(void **state) {
  (void)state;
  struct run_task task = {.endpoints = "https://h:1", .token = "hush", .job = "j", .run = "r"}, read;
  char *text = run_task_to_text(&task);
  json_t *owner = NULL;
  for (size_t size = strlen(text); size-- > 0;) { // every beginning of it
    int fd = -1;
    char *cut = strndup(text, size ? size : 1);
    assert_int_equal(secret_to_descriptor(cut, &fd), 0);
    hand_over(fd);
    assert_int_equal(run_task_receive(&read, &owner), WEFT_ERR_PROTOCOL);
    assert_null(strstr(weft_last_error(), "hush"));
    free(cut);
  }
  free(text);
}

static struct run_record sample_record(void) {
  struct run_record record = {.rank = {.rank = 7,
                                       .local_rank = 2,
                                       .gpu = -1,
                                       .window_bytes = 1ull << 40,
                                       .host = "h",
                                       .incarnation = UINT64_MAX,
                                       .state = RESULTS_FAILED,
                                       .reason = "why \xE2\x80\x93 so",
                                       .checked = 6,
                                       .num_lost_selections = 9,
                                       .worst_diff = 1e-7,
                                       .both = {20, 5.5, 1.25, 5, 9, 9.5}},
                              .boot = "b",
                              .launch_us = -1,
                              .connect_us = 2.5,
                              .first_dispatch_us = 3,
                              .stall_us = 4,
                              .median_us = 5,
                              .learned_ns = 1ull << 62,
                              .joining = {7, 1ull << 61, 2, 3, 4, 5},
                              .num_stalls = 2,
                              .stalls = {{11, 12, 13}, {14, 15, 16}},
                              .num_turns = 1,
                              .turns = {{17, 18, 19}}};
  int32_t ranks[] = {1, 5, 9};
  struct run_view view = {12, 345, 678, 3, ranks};
  struct run_loss loss = {5, 999, "process died"};
  record.rank.num_dispatch_rows = 3;
  record.rank.dispatch_rows = calloc(3, sizeof *record.rank.dispatch_rows);
  record.rank.dispatch_rows[1] = 1ull << 50;
  assert_int_equal(run_record_add_view(&record, &view), 0);
  assert_int_equal(run_record_add_loss(&record, &loss), 0);
  return record;
}

static void a_record_comes_back_from_json_as_it_was(void **state) {
  (void)state;
  struct run_record record = sample_record(), read = {0};
  json_t *json = run_record_to_json(&record), *again;
  assert_int_equal(run_record_from_json(&read, json), 0);
  assert_int_equal(read.rank.incarnation, UINT64_MAX);
  assert_int_equal(read.rank.state, RESULTS_FAILED);
  assert_int_equal(read.rank.num_dispatch_rows, 3);
  assert_true(read.rank.dispatch_rows[1] == 1ull << 50 && read.rank.dispatch_rows[2] == 0);
  assert_int_equal(read.num_views, 1);
  assert_int_equal(read.views[0].ranks[2], 9);
  assert_string_equal(read.losses[0].detail, "process died");
  assert_memory_equal(&read.joining, &record.joining, sizeof read.joining);
  assert_int_equal(read.num_stalls, 2);
  assert_memory_equal(read.stalls, record.stalls, sizeof read.stalls);
  assert_int_equal(read.turns[0].ns, 19);
  again = run_record_to_json(&read);
  assert_true(json_equal(json, again));
  json_decref(json);
  json_decref(again);
  run_record_free(&record);
  run_record_free(&read);
}

// Whatever came, the longest since any operation is there, and each that turned a view, as far as there is room.
static void the_longest_stalls_since_any_time_are_kept(void **state) {
  (void)state;
  struct run_record record = {.stall_us = -1};
  static const uint64_t ns[] = {5000, 9000, 3000, 7000, 7000, 1000};
  for (uint64_t op = 0; op < 6; op++)
    run_record_note_stall(&record, &(struct run_stall){op, op, ns[op]}, false);
  assert_int_equal(record.num_stalls, 3);
  assert_int_equal(record.stalls[0].op, 1);
  assert_int_equal(record.stalls[1].op, 4);
  assert_int_equal(record.stalls[2].op, 5);
  run_record_note_stall(&record, &(struct run_stall){6, 6, 20000}, true);
  assert_int_equal(record.num_stalls, 3);
  assert_int_equal(record.num_turns, 1);
  assert_true(record.stall_us == 20);
  for (uint64_t op = 7; op < 7 + 2 * RUN_MAX_STALLS; op++)
    run_record_note_stall(&record, &(struct run_stall){op, op, 900 - op}, op % 2 == 0);
  assert_int_equal(record.num_stalls, RUN_MAX_STALLS);
  assert_int_equal(record.num_turns, RUN_MAX_TURNS);
  assert_int_equal(record.turns[RUN_MAX_TURNS - 1].op, 6 + 2 * RUN_MAX_STALLS);
  assert_true(record.stall_us == 20);
}

static void a_record_with_any_field_missing_or_wrong_names_it(void **state) {
  (void)state;
  struct run_record record = sample_record(), read = {0};
  json_t *json = run_record_to_json(&record);
  const char *key;
  json_t *value;
  json_object_foreach(json, key, value) {
    json_t *broken = json_copy(json);
    json_object_del(broken, key);
    assert_int_equal(run_record_from_json(&read, broken), WEFT_ERR_PROTOCOL);
    assert_non_null(strstr(weft_last_error(), key));
    json_object_set_new(broken, key, json_true());
    assert_int_equal(run_record_from_json(&read, broken), WEFT_ERR_PROTOCOL);
    assert_non_null(strstr(weft_last_error(), key));
    json_decref(broken);
  }
  json_t *broken = json_copy(json);
  json_object_set_new(broken, "dispatch_rows", json_pack("[i, i]", 1, -1));
  assert_int_equal(run_record_from_json(&read, broken), WEFT_ERR_PROTOCOL);
  assert_non_null(strstr(weft_last_error(), "dispatch_rows"));
  assert_null(read.rank.dispatch_rows);
  json_decref(broken);
  json_object_set_new(json, "views", json_pack("[{s:i}]", "epoch", 1));
  assert_int_equal(run_record_from_json(&read, json), WEFT_ERR_PROTOCOL);
  assert_int_equal(read.num_views, 0);
  json_decref(json);
  run_record_free(&record);
}

// A number that does not fit must not become another one, nor a text another one.
static void what_does_not_fit_a_record_is_refused(void **state) {
  (void)state;
  char detail[RUN_DETAIL_SIZE + 1] = {0};
  memset(detail, 'd', sizeof detail - 1);
  struct {
    const char *name;
    json_t *value;
  } wrong[] = {
      {"rank", json_integer(1ll << 32)},
      {"local_rank", json_integer(INT64_MIN)},
      {"checked", json_string("              -6")},
      {"both",
       json_pack("{s:i, s:f, s:f, s:f, s:f, s:f}", "count", -1, "avg", 1., "min", 1., "p50", 1., "p99", 1., "max", 1.)},
      {"views", json_pack("[{s:i, s:i, s:i, s:[I]}]", "epoch", 1, "op", 1, "time_ns", 1, "ranks", (json_int_t)1 << 32)},
      {"views", json_pack("[{s:i, s:i, s:i, s:[s]}]", "epoch", 1, "op", 1, "time_ns", 1, "ranks", "5")},
      {"views", json_pack("[{s:i, s:i, s:i, s:[]}]", "epoch", 1, "op", -1, "time_ns", 1, "ranks")},
      {"stalls", json_pack("[[i, i]]", 1, 2)},
      {"stalls", json_pack("[[i, i, i]]", 1, -2, 3)},
      {"turns", json_pack("[[i, i, i, i]]", 1, 2, 3, 4)},
      {"losses", json_pack("[{s:I, s:i, s:s}]", "rank", (json_int_t)1 << 32, "time_ns", 1, "detail", "")},
      {"losses", json_pack("[{s:i, s:i, s:s}]", "rank", 1, "time_ns", 1, "detail", detail)},
  };
  struct run_record record = sample_record(), read = {0};
  json_t *json = run_record_to_json(&record);
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    assert_non_null(wrong[i].value);
    json_t *broken = json_copy(json);
    json_object_set_new(broken, wrong[i].name, wrong[i].value);
    assert_int_equal(run_record_from_json(&read, broken), WEFT_ERR_PROTOCOL);
    assert_non_null(strstr(weft_last_error(), wrong[i].name));
    json_decref(broken);
  }
  json_decref(json);
  run_record_free(&record);
}

static void a_phase_starts_with_its_victims_unless_they_leave(void **state) {
  (void)state;
  static const char text[] = "[[0, 1, 2, 3], [0, -1, -3, 2, 4], [0, 2]]";
  struct plan *plan;
  int32_t ranks[8];
  assert_int_equal(plan_from_text(&plan, text, sizeof text - 1), 0);
  assert_int_equal(run_roster_start(plan, RUN_NEGATIVE_KILL, 1, ranks), 5);
  for (int32_t i = 0; i < 5; i++)
    assert_int_equal(ranks[i], i);
  assert_int_equal(run_roster_start(plan, RUN_NEGATIVE_LEAVE, 1, ranks), 3);
  assert_int_equal(ranks[1], 2);
  assert_true(run_roster_equal(&plan->phases[1].live, ranks, 3));
  assert_false(run_roster_equal(&plan->phases[2].live, ranks, 3));
  assert_true(run_roster_dies(plan, RUN_NEGATIVE_KILL, 1, 3));
  assert_false(run_roster_dies(plan, RUN_NEGATIVE_LEAVE, 1, 3));
  assert_false(run_roster_leaves(plan, RUN_NEGATIVE_KILL, 1, 3));
  assert_true(run_roster_leaves(plan, RUN_NEGATIVE_LEAVE, 1, 3));
  assert_true(run_roster_leaves(plan, RUN_NEGATIVE_KILL, 2, 4));
  assert_false(run_roster_leaves(plan, RUN_NEGATIVE_KILL, 2, 3));
  plan_free(plan);
}

static void one_that_leaves_waits_only_where_nobody_stays(void **state) {
  (void)state;
  static const char text[] = "[[0, 1, 2], [0, 3], [4], [4, 5], [-5, 6]]";
  struct plan *plan;
  assert_int_equal(plan_from_text(&plan, text, sizeof text - 1), 0);
  assert_false(run_roster_waits(plan, RUN_NEGATIVE_KILL, 0, 0));
  assert_false(run_roster_waits(plan, RUN_NEGATIVE_KILL, 1, 1)); // rank 0 stays
  assert_true(run_roster_waits(plan, RUN_NEGATIVE_KILL, 2, 0));
  assert_false(run_roster_waits(plan, RUN_NEGATIVE_KILL, 2, 3));
  assert_false(run_roster_waits(plan, RUN_NEGATIVE_KILL, 2, 4));
  assert_false(run_roster_waits(plan, RUN_NEGATIVE_KILL, 4, 4)); // rank 5 stays until it dies
  assert_true(run_roster_waits(plan, RUN_NEGATIVE_LEAVE, 4, 4));
  plan_free(plan);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keys_give_back_what_was_put_into_them),
      cmocka_unit_test(a_job_name_is_checked),
      cmocka_unit_test(settings_come_back_from_json_as_they_were),
      cmocka_unit_test(settings_with_any_field_missing_or_wrong_name_it),
      cmocka_unit_test(the_phase_and_the_losses_come_back_and_amend_the_plan),
      cmocka_unit_test(a_seed_is_decimal_and_of_64_bits),
      cmocka_unit_test(a_task_comes_back_from_text_with_and_without_secrets),
      cmocka_unit_test(a_task_comes_back_from_a_descriptor_once),
      cmocka_unit_test(a_descriptor_that_no_agent_made_is_refused),
      cmocka_unit_test(a_task_that_is_spoilt_is_refused_without_a_word_of_it),
      cmocka_unit_test(a_record_comes_back_from_json_as_it_was),
      cmocka_unit_test(the_longest_stalls_since_any_time_are_kept),
      cmocka_unit_test(a_record_with_any_field_missing_or_wrong_names_it),
      cmocka_unit_test(what_does_not_fit_a_record_is_refused),
      cmocka_unit_test(a_phase_starts_with_its_victims_unless_they_leave),
      cmocka_unit_test(one_that_leaves_waits_only_where_nobody_stays),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
