// Views: immutable, counted references, searched by rank.
#include "group/view.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

struct counted_view {
  atomic_uint references;
  struct group_view view; // last: its members follow
};

static struct counted_view *counted(const struct group_view *view) {
  return (struct counted_view *)((char *)view - offsetof(struct counted_view, view));
}

struct group_view *group_view_new(uint64_t epoch, uint32_t count) {
  size_t members = count * sizeof(struct group_member);
  struct counted_view *created = malloc(sizeof *created + members);
  if (!created) {
    fail(WEFT_ERR_NOMEM, "no memory for a view of %u members", count);
    return NULL;
  }
  atomic_init(&created->references, 1);
  created->view.epoch = epoch;
  created->view.count = count;
  if (members > 0)
    memset(created->view.members, 0, members);
  return &created->view;
}

const struct group_view *group_view_ref(const struct group_view *view) {
  if (view)
    atomic_fetch_add_explicit(&counted(view)->references, 1, memory_order_relaxed);
  return view;
}

void group_view_unref(const struct group_view *view) {
  if (view && atomic_fetch_sub_explicit(&counted(view)->references, 1, memory_order_acq_rel) == 1)
    free(counted(view));
}

const struct group_member *group_view_find(const struct group_view *view, int32_t rank) {
  uint32_t low = 0, high = view ? view->count : 0;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (view->members[middle].rank == rank)
      return &view->members[middle];
    if (view->members[middle].rank < rank)
      low = middle + 1;
    else
      high = middle;
  }
  return NULL;
}

bool group_view_has(const struct group_view *view, int32_t rank, uint64_t incarnation) {
  const struct group_member *member = group_view_find(view, rank);
  return member && member->incarnation == incarnation;
}

bool group_view_equal(const struct group_view *a, const struct group_view *b) {
  if (a == b)
    return true;
  if (a->epoch != b->epoch || a->count != b->count)
    return false;
  for (uint32_t i = 0; i < a->count; i++)
    if (a->members[i].rank != b->members[i].rank || a->members[i].incarnation != b->members[i].incarnation)
      return false;
  return true;
}
