// Leaves out variables of sbatch that would have precedence over the lines of a script: an account or a partition that
// the user once set for all jobs would replace the one of this batch. Leaves out all variables of squeue, too. Within a
// job, leaves out the variables that describe it: the new job would inherit them, and its srun takes them for options.
#include "slurm/job/environment.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"

extern char **environ;

enum { MOST_NAME = 64 };

// Options that the script or the command line always decides, sometimes by leaving them out.
static const char *const settled[] = {"ARRAY_INX", "NO_KILL", "NO_REQUEUE", "REQUEUE", "TEST_ONLY", "WAIT"};

// Reads the options of the #SBATCH lines into one text, each at the begin of a line, such as "--time". If the script
// does not exist, sbatch reports that.
static void read_directives(struct text *options, const char *script) {
  static const char head[] = "#SBATCH ";
  FILE *file = script ? fopen(script, "re") : NULL;
  char *line = NULL;
  size_t cap = 0;
  text_add(options, "\n");
  while (file && getline(&line, &cap, file) > 0 && *line == '#')
    if (strncmp(line, head, sizeof head - 1) == 0) {
      const char *option = line + sizeof head - 1;
      text_add(options, "%.*s\n", (int)strcspn(option, "=\n"), option);
    }
  free(line);
  if (file)
    fclose(file);
}

// Whether the script has the option of a variable, for instance --open-mode for OPEN_MODE.
static bool is_said(const char *name, size_t size, const char *directives) {
  char option[MOST_NAME];
  if (size == strlen("TIMELIMIT") && strncmp(name, "TIMELIMIT", size) == 0)
    return strstr(directives, "\n--time\n");
  int length = snprintf(option, sizeof option, "\n--%.*s\n", (int)size, name);
  if (length >= (int)sizeof option)
    return false;
  for (char *at = option; *at; at++)
    *at = *at == '_' ? '-' : (char)tolower((unsigned char)*at);
  return strstr(directives, option);
}

// Whether it is a variable of Slurm's, and none by which commands find and reach Slurm.
static bool describes_job(const char *variable) {
  static const char *const others[] = {"CLUSTERS=", "CONF=", "CONF_SERVER=", "JWT="};
  static const char slurm[] = "SLURM_";
  if (strncmp(variable, slurm, sizeof slurm - 1) != 0)
    return false;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (strncmp(variable + sizeof slurm - 1, others[i], strlen(others[i])) == 0)
      return false;
  return true;
}

static bool is_left_out(const char *variable, const char *directives) {
  static const char squeue[] = "SQUEUE_", sbatch[] = "SBATCH_";
  if (strncmp(variable, squeue, sizeof squeue - 1) == 0 || (getenv("SLURM_JOB_ID") && describes_job(variable)))
    return true;
  if (strncmp(variable, sbatch, sizeof sbatch - 1) != 0)
    return false;
  const char *name = variable + sizeof sbatch - 1;
  size_t size = strcspn(name, "=");
  for (size_t i = 0; i < sizeof settled / sizeof *settled; i++)
    if (strlen(settled[i]) == size && strncmp(name, settled[i], size) == 0)
      return true;
  return is_said(name, size, directives);
}

char **slurm_environment(const char *script) {
  struct text directives = {0};
  size_t count = 0, kept = 0;
  while (environ[count])
    count++;
  char **list = malloc((count + 1) * sizeof *list);
  read_directives(&directives, script);
  if (directives.failed) {
    free(list);
    list = NULL;
  }
  for (size_t i = 0; list && i < count; i++)
    if (!is_left_out(environ[i], directives.data))
      list[kept++] = environ[i];
  if (list)
    list[kept] = NULL;
  text_free(&directives);
  return list;
}
