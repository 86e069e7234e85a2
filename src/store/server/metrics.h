// What an embedded server counts, as OpenMetrics.
#ifndef STORE_SERVER_METRICS_H
#define STORE_SERVER_METRICS_H

#include <weft/store.h>

#include "base/text/text.h"

// All of it, to "# EOF". Takes the server's lock. [any]
void server_metrics_write(weft_store_server_t *server, struct text *text);

#endif
