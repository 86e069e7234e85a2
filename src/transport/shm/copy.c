#include <string.h>

#include "transport/shm/shm.h"

void shm_copy(void *to, const void *from, size_t size) {
  memcpy(to, from, size);
}
