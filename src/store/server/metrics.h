// The counters of an embedded server, as OpenMetrics.
#ifndef STORE_SERVER_METRICS_H
#define STORE_SERVER_METRICS_H

#include <weft/store.h>

#include "base/text/text.h"

// Writes all metrics, to "# EOF". Takes the server's lock. [any]
void server_metrics_write(weft_store_server_t *server, struct text *text);

#endif
