// Leaves out UCX's POSIX shared memory in the versions of UCX that end the process because of it.
//
// From 1.16 on UCX opens a peer's POSIX segment to find out whether it reaches the peer that way, and before 1.19 it
// may choose the paths of a connection only once. It chooses them when the connection is made, and again when the
// peer's own request to connect arrives. If the peer has ended in between, its segment does not exist any more, so the
// second choice differs. With POSIX segments alone there is nothing else to choose, which is only an error. UCX does
// not open System V segments beforehand: they carry the same data as POSIX segments.
#include <stdio.h>
#include <string.h>

#include "transport/ucx/ucx.h"

// UCX's names that include POSIX shared memory, and the other transports of each name.
static const struct {
  const char *name, *others;
} families[] = {{"posix", "sysv"}, {"mm", "sysv,xpmem"}, {"sm", "sysv,xpmem,knem,cma"}, {"shm", "sysv,xpmem,knem,cma"}};

static const char *others_of(const char *name, size_t length) {
  if (length > 0 && *name == '\\') // UCX: this very name, and no family
    name++, length--;
  for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
    if (strlen(families[i].name) == length && memcmp(name, families[i].name, length) == 0)
      return families[i].others;
  }
  return NULL;
}

static bool stands_in(const char *list, const char *name, size_t length) {
  for (size_t at; *list; list += at + (list[at] == ',')) {
    at = strcspn(list, ",");
    if (at == length && memcmp(list, name, length) == 0)
      return true;
  }
  return false;
}

struct names {
  char *text;
  size_t size, used;
  bool full;
};

// Once each: UCX warns of a name that stands twice.
static void add(struct names *names, const char *list) {
  for (size_t length; *list; list += length + (list[length] == ',')) {
    length = strcspn(list, ",");
    if (length == 0 || stands_in(names->text, list, length))
      continue;
    int size = snprintf(names->text + names->used, names->size - names->used, "%s%.*s", names->used ? "," : "",
                        (int)length, list);
    names->full |= (size_t)size >= names->size - names->used;
    if (names->full)
      return;
    names->used += (size_t)size;
  }
}

static void add_but_posix(struct names *names, const char *list) {
  for (size_t length; *list && !names->full; list += length + (list[length] == ',')) {
    char one[64];
    length = strcspn(list, ",");
    const char *others = others_of(list, length);
    snprintf(one, sizeof one, "%.*s", (int)length, list);
    names->full |= length >= sizeof one;
    add(names, others ? others : one);
  }
}

static bool leaves_out(const char *list) {
  for (size_t length; *list; list += length + (list[length] == ',')) {
    length = strcspn(list, ",");
    if (others_of(list, length))
      return true;
  }
  return false;
}

bool ucx_without_posix(const char *list, char *out, size_t size) {
  struct names names = {.text = out, .size = size};
  *out = '\0';
  if (stands_in(list, "all", 3)) {
    add(&names, "^posix");
  } else if (*list == '^') {
    add(&names, list);
    if (!leaves_out(list + 1))
      add(&names, "posix");
  } else {
    add_but_posix(&names, list);
  }
  return !names.full;
}
