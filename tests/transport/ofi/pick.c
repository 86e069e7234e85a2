// Which entries of libfabric's list the transport ofi uses. The lists are made up, as libfabric would return them on
// the machine of tests/topology/host_p5en.xml: a domain of each adapter, and the interfaces of TCP.
#include "cmocka_all.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "topology/served/exports.h"
#include "topology/support/hosts.h"
#include "transport/ofi/pick.h"

enum { MOST = 40, NAME = 48 };

static struct offer {
  struct fi_info info;
  struct fi_fabric_attr fabric;
  struct fi_domain_attr domain;
  struct fid_nic nic;
  struct fi_device_attr device;
  char provider[NAME], name[NAME], device_name[NAME];
  struct sockaddr_storage own;
} offers[MOST];
static size_t num_offers;

static void offer(const char *provider, const char *domain, const char *device) {
  assert_true(num_offers < MOST);
  struct offer *made = &offers[num_offers];
  memset(made, 0, sizeof *made);
  snprintf(made->provider, NAME, "%s", provider);
  snprintf(made->name, NAME, "%s", domain);
  snprintf(made->device_name, NAME, "%s", device);
  made->fabric.prov_name = made->provider;
  made->domain.name = made->name;
  made->device.name = made->device_name;
  made->nic.device_attr = &made->device;
  made->info.fabric_attr = &made->fabric;
  made->info.domain_attr = &made->domain;
  made->info.nic = *device ? &made->nic : NULL;
  if (num_offers > 0)
    offers[num_offers - 1].info.next = &made->info;
  num_offers++;
}

static void picks(const char *nics, const char *expected) {
  const struct fi_info *picked = ofi_pick(&offers[0].info, false, nics);
  assert_non_null(picked);
  assert_string_equal(picked->domain_attr->name, expected);
}

static void offer_those_of(const struct topology_choice *choice) {
  num_offers = 0;
  for (size_t n = 0; n < choice->num_nics; n++)
    if (!*choice->nics[n].rdma)
      offer("tcp", choice->nics[n].interface, "");
  for (size_t n = 0; n < choice->num_nics; n++) {
    char domain[NAME];
    snprintf(domain, sizeof domain, "%s-rdm", choice->nics[n].rdma);
    if (*choice->nics[n].rdma)
      offer("efa", domain, choice->nics[n].rdma);
  }
}

static void each_rank_takes_the_adapter_that_weft_env_names(void **state) {
  (void)state;
  static const char *const expected[] = {"rdmap85s0-rdm",  "rdmap86s0-rdm",  "rdmap110s0-rdm", "rdmap111s0-rdm",
                                         "rdmap135s0-rdm", "rdmap136s0-rdm", "rdmap160s0-rdm", "rdmap161s0-rdm"};
  struct topology_choice *choice = host_choose("p5en", "", NULL);
  offer_those_of(choice);
  for (int gpu = 0; gpu < 8; gpu++) {
    struct topology_export exports[TOPOLOGY_EXPORTS];
    const struct topology_exports_facts facts = {.choice = choice, .ranked = true, .gpu = gpu};
    size_t count = topology_exports(&facts, exports), at = 0;
    while (at < count && strcmp(exports[at].name, "WEFT_OFI_NICS") != 0)
      at++;
    assert_true(at < count && exports[at].set);
    picks(exports[at].value, expected[gpu]);
  }
  topology_choice_free(choice);
}

static void what_is_not_there_or_worse_is_passed_over(void **state) {
  (void)state;
  struct topology_choice *choice = host_choose("p5en", "", NULL);
  offer_those_of(choice);
  topology_choice_free(choice);
  picks(NULL, "rdmap85s0-rdm");
  picks("", "rdmap85s0-rdm");
  picks("mlx5_0,rdmap16", "rdmap85s0-rdm");      // a beginning is no name
  picks("enp99s0", "rdmap85s0-rdm");             // there is a better provider than that of this one
  picks(",mlx5_0,rdmap163s0", "rdmap163s0-rdm"); // the first that is there
  picks("rdmap163s0,rdmap85s0", "rdmap163s0-rdm");
}

static void a_nic_is_known_by_its_device_too(void **state) {
  (void)state;
  num_offers = 0;
  offer("tcp;ofi_rxm", "eth0", "eth0");
  offer("verbs;ofi_rxm", "first", "mlx5_1");
  offer("verbs;ofi_rxm", "second", "mlx5_10");
  offer("shm", "shm", "");
  picks("mlx5_10", "second");
  picks("mlx5_1", "first");
  picks("eth0", "first");
  picks("shm", "first");
}

// An interface of TCP with an address of its own.
static void offer_tcp(const char *interface, int family, const char *text) {
  offer("tcp", interface, "");
  struct offer *made = &offers[num_offers - 1];
  void *address = family == AF_INET ? (void *)&((struct sockaddr_in *)&made->own)->sin_addr
                                    : (void *)&((struct sockaddr_in6 *)&made->own)->sin6_addr;
  made->own.ss_family = (sa_family_t)family;
  assert_int_equal(inet_pton(family, text, address), 1);
  made->info.addr_format = family == AF_INET ? FI_SOCKADDR_IN : FI_SOCKADDR_IN6;
  made->info.src_addr = &made->own;
}

static void an_address_that_others_reach_goes_before_loopback(void **state) {
  (void)state;
  num_offers = 0;
  offer_tcp("lo", AF_INET, "127.0.0.1");
  offer_tcp("lo", AF_INET6, "::1");
  picks(NULL, "lo");
  offer_tcp("eth0", AF_INET6, "fe80::1"); // of one link
  picks(NULL, "lo");
  offer_tcp("eth1", AF_INET6, "fd00::1");
  picks(NULL, "eth1");
  picks("eth0", "eth0"); // whoever names it means it
  offer_tcp("eth2", AF_INET, "10.0.0.1");
  picks(NULL, "eth2");
  picks("lo", "lo");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_rank_takes_the_adapter_that_weft_env_names),
      cmocka_unit_test(what_is_not_there_or_worse_is_passed_over),
      cmocka_unit_test(a_nic_is_known_by_its_device_too),
      cmocka_unit_test(an_address_that_others_reach_goes_before_loopback),
  };
  return cmocka_run_group_tests_name("libfabric's offers", tests, NULL, NULL);
}
