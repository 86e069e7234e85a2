// What remote.c needs of publish.c: the requests of a link.
#ifndef EP_PUBLISH_H
#define EP_PUBLISH_H

#include "ep/remote.h"

// Makes all requests of a link whose peer is connected. [turn]
int ep_publish_prepare(struct ep_remote *remote);
void ep_publish_cancel(struct ep_remote *remote);          // asks all to end [turn]
bool ep_publish_under_way(const struct ep_remote *remote); // whether any has not [turn]
void ep_publish_unprepare(struct ep_remote *remote);       // [turn]
void ep_publish_free(struct ep_remote *remote);

// The link of that number, NULL when it has gone. [turn]
struct ep_remote *ep_remote_find(struct ep_net *net, uint64_t id);

#endif
