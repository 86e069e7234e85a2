// Admission to the server of metrics. A caller that has sent the head of a request (secure/lobby.h) gets one of a
// bounded number of places. When all are taken, a newcomer takes the place of the oldest caller that has not yet asked
// for something that it may have. So silent callers, however many, delay no scrape.
#ifndef METRICS_DOOR_H
#define METRICS_DOOR_H

#include <microhttpd.h>

enum { METRICS_CONNECTIONS = 32 };

struct metrics_door;

// Takes the listener over when it succeeds.
int metrics_door_make(struct metrics_door **door, int listener);
// Accepts in a thread of its own, for the daemon.
int metrics_door_start(struct metrics_door *door, struct MHD_Daemon *daemon);
// The connection has sent a request that is allowed. [daemon]
void metrics_door_known(struct metrics_door *door, struct MHD_Connection *connection);
// MHD_NotifyConnectionCallback; `arg` is the door. [daemon]
void metrics_door_notified(void *arg, struct MHD_Connection *connection, void **context,
                           enum MHD_ConnectionNotificationCode what);
// Ends the thread. NULL is legal, also if it was not started.
void metrics_door_stop(struct metrics_door *door);
void metrics_door_free(struct metrics_door *door);

#endif
