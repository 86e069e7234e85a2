// Pages: whole ones of every kind, the policy's hashes, and errors.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/evp.h>
#include <openssl/sha.h>

#include <weft/weft.h>

#include "cmocka_all.h"
#include "measure/support/sample.h"
#include "page/assemble.h"
#include "page/page.h"
#include "support/temporary.h"

static void need_library(void) {
  if (page_has_library() == 0)
    return;
  assert_non_null(strstr(weft_last_error(), "libjs-chart.js"));
  skip();
}

// What the page's function wrote, as text.
struct page {
  char *text;
  size_t size;
};

static FILE *open_page(struct page *page) {
  FILE *out = open_memstream(&page->text, &page->size);
  assert_non_null(out);
  return out;
}

static void check_hash(const char *text, const char *begin, const char *end) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  char hash[2 * SHA256_DIGEST_LENGTH + 16] = "'sha256-";
  SHA256((const unsigned char *)begin, (size_t)(end - begin), digest);
  EVP_EncodeBlock((unsigned char *)hash + strlen(hash), digest, sizeof digest);
  strcat(hash, "'");
  assert_non_null(strstr(text, hash));
}

// Three scripts of which two run, each allowed by the hash of what it is.
static void check_page(const struct page *page) {
  assert_int_equal(strlen(page->text), page->size);
  assert_int_equal(strncmp(page->text, "<!DOCTYPE html>", 15), 0);
  assert_non_null(strstr(page->text, "</html>"));
  assert_non_null(strstr(page->text, "default-src 'none'"));
  int scripts = 0;
  for (const char *at = page->text; (at = strstr(at, "<script>")); scripts++) {
    const char *begin = at + strlen("<script>"), *end = strstr(begin, "</script>");
    assert_non_null(end);
    check_hash(page->text, begin, end);
    at = end;
  }
  assert_int_equal(scripts, 2);
  const char *style = strstr(page->text, "<style>") + strlen("<style>");
  check_hash(page->text, style, strstr(style, "</style>"));
}

// The document in the page; to be freed.
static json_t *document_of(const struct page *page) {
  static const char head[] = "id=\"data\">";
  const char *begin = strstr(page->text, head);
  assert_non_null(begin);
  begin += strlen(head);
  json_t *json = json_loadb(begin, (size_t)(strstr(begin, "</script>") - begin), 0, NULL);
  assert_non_null(json);
  return json;
}

static void a_run_is_a_page(void **state) {
  (void)state;
  need_library();
  void (*const make[])(struct results *) = {sample_passed, sample_failed, sample_wide};
  for (size_t i = 0; i < sizeof make / sizeof *make; i++) {
    struct results results;
    struct page page = {0};
    make[i](&results);
    FILE *out = open_page(&page);
    assert_int_equal(page_of_run(out, &results), 0);
    fclose(out);
    check_page(&page);
    json_t *json = document_of(&page), *cell;
    size_t c, cells = 0;
    for (uint32_t p = 0; p < results.num_phases; p++)
      for (uint32_t r = 0; r < results.phases[p].num_ranks; r++)
        cells += results.phases[p].ranks[r].state != RESULTS_NOT_MEMBER;
    assert_int_equal(json_array_size(json_object_get(json, "cells")), cells);
    size_t columns = json_array_size(json_object_get(json, "columns"));
    json_array_foreach(json_object_get(json, "cells"), c, cell) {
      bool measured = json_array_size(cell) == columns; // else it ends with its count, 0
      assert_true(measured || json_integer_value(json_array_get(cell, json_array_size(cell) - 1)) == 0);
    }
    json_t *rows = json_object_get(json_object_get(json, "transitions"), "rows");
    assert_int_equal(json_array_size(rows), results.num_transitions);
    json_decref(json);
    free(page.text);
    results_free(&results);
  }
}

static void an_empty_run_is_a_page(void **state) {
  (void)state;
  need_library();
  struct results results = {.config = json_object(), .plan = json_array()};
  struct page page = {0};
  FILE *out = open_page(&page);
  assert_int_equal(page_of_run(out, &results), 0);
  fclose(out);
  check_page(&page);
  free(page.text);
  results_free(&results);
}

static void figures_lose_their_samples(void **state) {
  (void)state;
  need_library();
  struct figures figures;
  uint64_t times[] = {1000, 2000, 3000};
  assert_int_equal(figures_begin(&figures, "</script>"), 0);
  json_t *keys = json_pack("{s:s}", "op", "<!--&");
  struct figures_row *row = figures_add_row(&figures, keys, 0);
  json_decref(keys);
  assert_non_null(figures_add_times(row, "latency", times, 3));
  const struct figures *list[] = {&figures, &figures};
  const char *labels[] = {"a", NULL};
  struct page page = {0};
  FILE *out = open_page(&page);
  assert_int_equal(page_of_figures(out, list, labels, 2), 0);
  fclose(out);
  check_page(&page);
  json_t *json = document_of(&page);
  const char *label = NULL, *op = NULL;
  json_t *second = json_array_get(json_object_get(json, "runs"), 1), *shown = NULL;
  assert_int_equal(json_unpack(second, "{s:s, s:{s:[{s:{s:s}, s:[o]}]}}", "label", &label, "figures", "rows", "keys",
                               "op", &op, "figures", &shown),
                   0);
  assert_string_equal(label, "</script>"); // without one of its own, the kind
  assert_string_equal(op, "<!--&");
  assert_null(json_object_get(shown, "samples"));
  assert_int_equal(json_array_size(figures.rows[0].figures[0].samples), 3);
  json_decref(json);
  free(page.text);
  figures_free(&figures);
}

static void errors_are_said(void **state) {
  (void)state;
  struct results results;
  json_t *no = json_pack("{s:s}", "weft_comparison", "1");
  assert_int_equal(page_of_comparison(stdout, no), WEFT_ERR_INVALID);
  json_decref(no);
  need_library();
  sample_passed(&results);
  FILE *full = fopen("/dev/full", "w");
  assert_non_null(full);
  assert_int_equal(page_of_run(full, &results), WEFT_ERR_LIMIT);
  fclose(full);
  assert_int_equal(page_save_run("/dev/full", &results), WEFT_ERR_SYSTEM);
  assert_non_null(strstr(weft_last_error(), "/dev/full: it is not a regular file"));
  assert_int_equal(page_check("/nowhere/page.html"), WEFT_ERR_SYSTEM);
  char path[256];
  support_temporary(path, sizeof path, "weft-page");
  assert_non_null(mkdtemp(path));
  char file[300];
  snprintf(file, sizeof file, "%s/page.html", path);
  assert_int_equal(page_check(file), 0);
  assert_int_equal(page_check_files(file, NULL), 0);
  assert_int_equal(page_check_files(file, "/nowhere/page.prom"), WEFT_ERR_SYSTEM);
  assert_int_equal(page_check_files(file, file), WEFT_ERR_INVALID);
  assert_int_equal(access(file, F_OK), -1);
  assert_int_equal(page_save_run(file, &results), 0);
  assert_int_equal(unlink(file), 0);
  assert_int_equal(rmdir(path), 0); // nothing else was left there
  results_free(&results);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_run_is_a_page),
      cmocka_unit_test(an_empty_run_is_a_page),
      cmocka_unit_test(figures_lose_their_samples),
      cmocka_unit_test(errors_are_said),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
