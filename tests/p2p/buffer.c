// The buffer of a measurement: what becomes of its memory when it is closed.
#include "p2p/buffer.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <weft/agent.h>

#include "cmocka_all.h"

enum { BYTES = 4 << 20 }; // the C library unmaps so much when it is freed

static bool is_busy; // a transfer uses the region

int __real_weft_agent_deregister(weft_agent_t *agent, weft_region_t region);
int __wrap_weft_agent_deregister(weft_agent_t *agent, weft_region_t region);

int __wrap_weft_agent_deregister(weft_agent_t *agent, weft_region_t region) {
  return is_busy ? WEFT_ERR_BUSY : __real_weft_agent_deregister(agent, region);
}

static void test_memory_in_use_stays(void **state) {
  (void)state;
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  struct p2p_buffer buffer;
  weft_agent_t *agent;
  unsigned char resident;
  options.name = "p2p buffer";
  options.transports = "shm";
  assert_int_equal(weft_agent_open(&agent, &options), 0);
  assert_int_equal(p2p_buffer_open(&buffer, agent, P2P_MEMORY_USER, 0, BYTES), 0);
  void *address = buffer.address;
  weft_region_t region = buffer.region;
  is_busy = true;
  p2p_buffer_close(&buffer);
  is_busy = false;
  uintptr_t page = (uintptr_t)address & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
  assert_int_equal(mincore((void *)page, 1, &resident), 0); // it is mapped
  assert_int_equal(__real_weft_agent_deregister(agent, region), 0);
  free(address);
  weft_agent_close(agent);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory_in_use_stays)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
