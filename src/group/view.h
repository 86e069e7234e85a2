// Makes views; group.h has the functions that read them.
#ifndef GROUP_VIEW_H
#define GROUP_VIEW_H

#include "group/group.h"

// A view with room for `count` members and one reference; the caller fills it in before others can see it. NULL: no
// memory.
struct group_view *group_view_new(uint64_t epoch, uint32_t count);

bool group_view_has(const struct group_view *view, int32_t rank, uint64_t incarnation); // NULL has no member
bool group_view_equal(const struct group_view *a, const struct group_view *b);

#endif
