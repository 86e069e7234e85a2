// Writes manual pages and completion scripts to the folders where man and the shells look for them.
#include "cli/completion/install.h"

#include "base/fail.h"
#include "cli/command/help.h"
#include "cli/completion/completion.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

// The content of a file: for all commands, or for one.
struct content {
  void (*of_all)(FILE *out, const struct cli_command *const *list);
  const struct cli_command *const *list;
  const struct cli_command *command; // where of_all is NULL
};

static int make_folders(char *path) {
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
      return fail_errno(errno, "cannot make the folder %s", path);
    *slash = '/';
  }
  return 0;
}

static int write_file(const char *folder, const char *name, const struct content *content) {
  char path[PATH_MAX];
  if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
    return fail(WEFT_ERR_INVALID, "the path %s/%s is too long: want at most %d characters", folder, name, PATH_MAX - 1);
  int err = make_folders(path);
  if (err)
    return err;
  FILE *out = fopen(path, "we");
  if (!out)
    return fail_errno(errno, "cannot write %s", path);
  if (content->of_all)
    content->of_all(out, content->list);
  else
    cli_help_write_command_manual(out, content->command);
  bool failed = ferror(out);
  if (fclose(out) != 0 || failed)
    return fail_errno(errno, "cannot write %s", path);
  return 0;
}

static int write_page(const char *folder, const struct cli_command *command) {
  char page[64], name[96];
  cli_help_name_page(command, page, sizeof page);
  snprintf(name, sizeof name, "man/man1/%s.1", page);
  return write_file(folder, name, &(struct content){.command = command});
}

int cli_completion_install(const char *folder, const struct cli_command *const *list) {
  static const struct {
    const char *name;
    void (*write)(FILE *out, const struct cli_command *const *list);
  } files[] = {
      {"man/man1/weft.1", cli_help_write_manual},
      {"bash-completion/completions/weft", cli_completion_write_bash},
      {"zsh/site-functions/_weft", cli_completion_write_zsh},
      {"fish/vendor_completions.d/weft.fish", cli_completion_write_fish},
  };
  int err = 0;
  for (size_t i = 0; !err && i < sizeof files / sizeof files[0]; i++)
    err = write_file(folder, files[i].name, &(struct content){.of_all = files[i].write, .list = list});
  for (size_t i = 0; !err && list[i]; i++)
    if (!list[i]->hidden)
      err = write_page(folder, list[i]);
  return err;
}
