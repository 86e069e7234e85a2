// Checks options that depend on each other.
#include "bench/common/options.h"

#include <string.h>

#include "base/fail.h"
#include "measure/whole_file.h"

enum { GROUP_MAX = 100 };

static bool is_output(const char *path) {
  return path && strcmp(path, "-") == 0;
}

static int check_group(const char *group) {
  size_t size = group ? strlen(group) : 0, right = 0;
  while (right < size && group[right] > ' ' && group[right] < 0x7f && group[right] != '/')
    right++;
  return size == 0 || (right == size && size <= GROUP_MAX)
             ? 0
             : fail(WEFT_ERR_INVALID,
                    "--benchmark-group is \"%.120s\": want at most %d printable characters without blanks and '/'",
                    group, GROUP_MAX);
}

// Two outputs must not have one file: one would overwrite the other without a message.
static int check_files(const struct bench_options *options) {
  const struct {
    const char *option, *path;
  } files[] = {
      {"json", options->json}, {"csv", options->csv}, {"html", options->html}, {"prometheus", options->prometheus}};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    for (size_t k = 0; k < i; k++)
      if (files[i].path && files[k].path && !is_output(files[i].path) &&
          whole_file_is_one(files[i].path, files[k].path))
        return fail(WEFT_ERR_INVALID, "--%s and --%s are both %s: want a file for each", files[k].option,
                    files[i].option, files[i].path);
  return 0;
}

int bench_options_check_input(const struct bench_options *options, const char *input) {
  int err = whole_file_check_input("json", options->json, input);
  err = err ? err : whole_file_check_input("csv", options->csv, input);
  err = err ? err : whole_file_check_input("html", options->html, input);
  return err ? err : whole_file_check_input("prometheus", options->prometheus, input);
}

int bench_options_check(const struct bench_options *options) {
  int err = check_files(options);
  if (err)
    return err;
  if (is_output(options->json) && is_output(options->csv))
    return fail(WEFT_ERR_INVALID, "--json - and --csv - both want standard output: want a file for one of them");
  if (!options->cert_file != !options->key_file)
    return fail(WEFT_ERR_INVALID, "--%s is given without --%s: a client certificate and its key go together",
                options->cert_file ? "cert" : "key", options->cert_file ? "key" : "cert");
  if (!options->user != !options->password)
    return fail(WEFT_ERR_INVALID, "--%s is given without --%s: etcd wants both", options->user ? "user" : "password",
                options->user ? "password" : "user");
  if (options->user && !options->store)
    return fail(WEFT_ERR_INVALID,
                "--user is given without --store: only etcd has users; want --store URL, or a --token "
                "for the embedded store");
  if (options->store && options->rank_server)
    return fail(WEFT_ERR_INVALID, "--store %s and --rank-server %s both name where the workers meet: want one of them",
                options->store, options->rank_server);
  if (options->rank_server && !options->token)
    return fail(WEFT_ERR_INVALID,
                "--rank-server is given without a token: want the token of the worker there, in WEFT_TOKEN or by "
                "--token-file; a worker that made its own token shows it on its terminal");
  return check_group(options->group);
}
