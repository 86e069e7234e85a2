// Reads an option of UCX's configuration as the transport ucx has set it.
#include "transport/support/ucx_config.h"

#include "cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/ucx/ucx.h"

void ucx_config_value(const struct transport_options *options, const char *name, char *out, size_t size) {
  ucp_config_t *config = NULL;
  char *text = NULL, start[64];
  size_t length = 0;
  assert_int_equal(ucx_config(options, &config), 0);
  FILE *stream = open_memstream(&text, &length);
  assert_non_null(stream);
  ucp_config_print(config, stream, NULL, UCS_CONFIG_PRINT_CONFIG);
  assert_int_equal(fclose(stream), 0);
  snprintf(start, sizeof start, "%s=", name);
  const char *value = strstr(text, start);
  assert_non_null(value);
  value += strlen(start);
  snprintf(out, size, "%.*s", (int)strcspn(value, "\n"), value);
  free(text);
  ucp_config_release(config);
}
