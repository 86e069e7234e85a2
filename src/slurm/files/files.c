// Reads files and recognises their kinds.
#include "slurm/files/files.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fail.h"
#include "slurm/schema/keys.h"

static const struct slurm_schema *const schemas[] = {
    [SLURM_KIND_TEST] = &slurm_keys_test,
    [SLURM_KIND_SCENARIO] = &slurm_keys_scenario,
    [SLURM_KIND_SYSTEM] = &slurm_keys_system,
};
enum { KINDS = sizeof schemas / sizeof *schemas };

static size_t count_known(const struct slurm_schema *schema, const struct toml_value *root) {
  size_t known = 0;
  for (size_t i = 0; i < root->count; i++)
    known += slurm_schema_find(schema, root->children[i].key) != NULL;
  return known;
}

// A file has the kind of most of its keys; keys that only one kind has are preferred, if there are any.
static bool find_kind(const struct toml_value *root, enum slurm_file_kind *kind) {
  size_t best = 0, second = 0;
  if (toml_get(root, "Tests")) {
    *kind = SLURM_KIND_SCENARIO;
    return true;
  }
  for (size_t i = 0; i < KINDS; i++) {
    size_t known = count_known(schemas[i], root);
    if (known > best) {
      second = best;
      best = known;
      *kind = (enum slurm_file_kind)i;
    } else if (known > second) {
      second = known;
    }
  }
  return best > second;
}

// Finds the file in the list, also if the list has it under another path.
static struct slurm_file *find(const struct slurm_files *files, const struct stat *status) {
  for (size_t i = 0; i < files->count; i++)
    if (files->list[i].device == status->st_dev && files->list[i].inode == status->st_ino)
      return &files->list[i];
  return NULL;
}

// Reports the last error, at the place in the file that the error's text begins with.
static void report_last_error(const struct slurm_file *file, struct slurm_faults *faults) {
  const char *why = weft_last_error();
  struct toml_place at = slurm_place(file->path);
  size_t length = strlen(file->path);
  int used = 0;
  if (strncmp(why, file->path, length) == 0)
    sscanf(why + length, ":%u:%u: %n", &at.line, &at.column, &used);
  if (!used && strncmp(why, file->path, length) == 0 && strncmp(why + length, ": ", 2) == 0)
    used = 2;
  slurm_fault(faults, used > 2 ? at : slurm_place(file->path), "%s", used ? why + length + used : why);
  faults->unread = true;
}

static int add(struct slurm_files *files, struct slurm_memory *memory, const char *path, bool of_folder,
               struct slurm_faults *faults) {
  struct slurm_file file = {.path = slurm_memory_keep(memory, path), .of_folder = of_folder};
  struct stat status = {0};
  if (stat(path, &status) == 0 && (find(files, &status) || (of_folder && !S_ISREG(status.st_mode))))
    return 0; // in a folder, ignore a FIFO, which may have no writer
  file.device = status.st_dev;
  file.inode = status.st_ino;
  int err = toml_load(&file.root, file.path);
  if (err == WEFT_ERR_UNSUPPORTED || err == WEFT_ERR_NOMEM)
    return err;
  if (err) {
    if (!of_folder) // a file of a folder that nobody named is ignored
      report_last_error(&file, faults);
    return 0;
  }
  bool known = find_kind(file.root, &file.kind);
  if (!known || (of_folder && file.kind != SLURM_KIND_TEST)) {
    if (!of_folder) {
      slurm_fault(faults, (struct toml_place){file.path, 1, 1},
                  "it is neither a test, a scenario nor a system: want test_template_name and [cmd_args], [[Tests]], "
                  "or scheduler and [[partitions]]");
      faults->unread = true;
    }
    toml_free(file.root);
    return 0;
  }
  struct slurm_file *list = slurm_memory_room(memory, files->list, files->count, sizeof *list);
  if (!list) {
    toml_free(file.root);
    return fail(WEFT_ERR_NOMEM, "no memory for %s", path);
  }
  files->list = list;
  list[files->count++] = file;
  return 0;
}

static int is_toml(const struct dirent *entry) {
  size_t length = strlen(entry->d_name);
  return length > 5 && strcmp(entry->d_name + length - 5, ".toml") == 0;
}

static int add_folder(struct slurm_files *files, struct slurm_memory *memory, const char *path,
                      struct slurm_faults *faults) {
  struct dirent **names = NULL;
  int count = scandir(path, &names, is_toml, alphasort), err = 0;
  if (count < 0)
    slurm_fault(faults, slurm_place("--tests-dir"), "cannot read the folder %s: %m", path);
  for (int i = 0; i < count; i++) {
    if (!err)
      err = add(files, memory, slurm_memory_print(memory, "%s/%s", path, names[i]->d_name), true, faults);
    free(names[i]);
  }
  free(names);
  return err;
}

// Adds the file of an option, which has to have the option's kind.
static int add_of_kind(struct slurm_files *files, struct slurm_memory *memory, const char *path,
                       enum slurm_file_kind kind, const char *option, struct slurm_faults *faults) {
  size_t before = files->count;
  int err = path ? add(files, memory, path, false, faults) : 0;
  if (!err && files->count > before && files->list[before].kind != kind)
    slurm_fault(faults, files->list[before].root->at, "%s names this file, which is %s; want %s", option,
                schemas[files->list[before].kind]->what, schemas[kind]->what);
  return err;
}

static void check_one(const struct slurm_files *files, enum slurm_file_kind kind, struct slurm_faults *faults) {
  const struct slurm_file *first = slurm_files_first(files, kind);
  for (size_t i = 0; i < files->count; i++)
    if (files->list[i].kind == kind && &files->list[i] != first)
      slurm_fault(faults, files->list[i].root->at, "it is %s, as %s is: want one", schemas[kind]->what, first->path);
}

int slurm_files_load(struct slurm_files *files, struct slurm_memory *memory, const struct slurm_request *request,
                     struct slurm_faults *faults) {
  int err = add_of_kind(files, memory, request->system, SLURM_KIND_SYSTEM, "--system-config", faults);
  if (!err)
    err = add_of_kind(files, memory, request->scenario, SLURM_KIND_SCENARIO, "--test-scenario", faults);
  for (size_t i = 0; !err && i < request->num_files; i++)
    err = add(files, memory, request->files[i], false, faults);
  if (!err && request->tests_dir)
    err = add_folder(files, memory, request->tests_dir, faults);
  check_one(files, SLURM_KIND_SCENARIO, faults);
  check_one(files, SLURM_KIND_SYSTEM, faults);
  for (size_t i = 0; i < files->count; i++)
    if (!files->list[i].of_folder)
      slurm_file_check(&files->list[i], faults);
  return err;
}

void slurm_files_free(struct slurm_files *files) {
  for (size_t i = 0; i < files->count; i++)
    toml_free(files->list[i].root);
}

struct slurm_file *slurm_files_test(struct slurm_files *files, const char *name) {
  for (size_t i = 0; i < files->count; i++) {
    const struct toml_value *found = toml_get(files->list[i].root, "name");
    if (files->list[i].kind == SLURM_KIND_TEST && found && strcmp(found->text, name) == 0)
      return &files->list[i];
  }
  return NULL;
}

struct slurm_file *slurm_files_path(struct slurm_files *files, struct slurm_memory *memory, const char *path,
                                    struct toml_place at, struct slurm_faults *faults) {
  if (add(files, memory, path, false, faults))
    slurm_fault(faults, at, "%s", weft_last_error());
  struct stat status;
  struct slurm_file *file = stat(path, &status) == 0 ? find(files, &status) : NULL;
  if (file && file->kind == SLURM_KIND_TEST)
    return file;
  if (file) // else its fault is reported already
    slurm_fault(faults, at, "%s is %s; want a test", path, schemas[file->kind]->what);
  return NULL;
}

const struct slurm_file *slurm_files_first(const struct slurm_files *files, enum slurm_file_kind kind) {
  for (size_t i = 0; i < files->count; i++)
    if (files->list[i].kind == kind)
      return &files->list[i];
  return NULL;
}

void slurm_file_check(struct slurm_file *file, struct slurm_faults *faults) {
  if (!file->checked)
    slurm_schema_check(schemas[file->kind], file->root, faults);
  file->checked = true;
}

const char *slurm_file_relative(struct slurm_memory *memory, const char *file, const char *path) {
  const char *slash = strrchr(file, '/');
  if (*path == '/' || !slash)
    return path;
  return slurm_memory_print(memory, "%.*s/%s", (int)(slash - file), file, path);
}
