// Judges the connection to a peer: its address, connections both ways, packet sizes.
#include "doctor/peer/peer.h"

#include <string.h>

enum { MAX_IPV4 = 65535 }; // bytes of a packet

// The bytes of an echo request that fill a packet of the size `mtu`: the headers of IP and ICMP take the rest.
static int fill_of(const struct doctor_peer_facts *peer, int mtu) {
  int headers = strchr(peer->address, ':') ? 48 : 28;
  return (mtu > headers ? mtu : 1500) - headers;
}

static void judge_silence(const struct doctor_peer_facts *peer, struct doctor_report *report) {
  if (peer->reach == DOCTOR_REFUSED) {
    doctor_find(report, DOCTOR_PROBLEM, "%s (%s) refuses connections at port %s", peer->name, peer->address,
                peer->port);
    doctor_means(report,
                 "the host is reachable, but nothing listens at this port, or a firewall refuses the connection");
    doctor_fix(report, "run 'weft doctor --listen %s' there", peer->port);
  } else if (peer->reach == DOCTOR_SILENT) {
    doctor_find(report, DOCTOR_PROBLEM, "%s (%s) does not answer at port %s", peer->name, peer->address, peer->port);
    doctor_means(report, "a firewall drops the packets, or the host does not exist");
    doctor_fix(report, "let TCP port %s of that host through ('nft list ruleset', 'iptables -L', the provider's rules)",
               peer->port);
  } else {
    doctor_find(report, DOCTOR_PROBLEM, "%s (%s) cannot be reached: %s", peer->name, peer->address,
                strerror(peer->reach_errno));
    doctor_means(report, "there is no route to it from here");
    doctor_fix(report, "'ip route get %s' shows the route that is used", peer->address);
  }
}

void doctor_judge_peer(const struct doctor_facts *facts, struct doctor_report *report) {
  const struct doctor_peer_facts *peer = &facts->peer;
  if (!peer->asked)
    return;
  if (*peer->error) {
    doctor_find(report, DOCTOR_PROBLEM, "%s: %s", peer->name, peer->error);
    doctor_means(report, "the route to it is not known");
    doctor_fix(report, "see /etc/hosts and /etc/resolv.conf, or give its address; a port is a number");
  } else if (peer->reach != DOCTOR_REACHED) {
    judge_silence(peer, report);
  } else if (!peer->answered) {
    doctor_find(report, DOCTOR_PROBLEM, "%s (%s) accepts connections at port %s, but %s", peer->name, peer->address,
                peer->port,
                peer->wrong_answer ? "has another token, or is not 'weft doctor --listen'" : "sends nothing");
    doctor_means(report, "connections to that host work; connections back and large packets were not tested");
    doctor_fix(report, "run 'weft doctor --listen 0' there, and then run here the command that it prints");
  } else {
    doctor_find(report, DOCTOR_OK, "%s (%s) answers at port %s; connected in %.3g ms through %s", peer->name,
                peer->address, peer->port, peer->connect_ms,
                *peer->interface ? peer->interface : "an unknown interface");
  }
}

void doctor_judge_peer_back(const struct doctor_facts *facts, struct doctor_report *report) {
  const struct doctor_peer_facts *peer = &facts->peer;
  if (!peer->answered)
    return;
  if (peer->back == DOCTOR_REACHED) {
    doctor_find(report, DOCTOR_OK, "%s can connect to this host", peer->name);
    return;
  }
  static const char *const how[] = {[DOCTOR_NOT_TRIED] = "did not try to connect",
                                    [DOCTOR_REACHED] = "",
                                    [DOCTOR_REFUSED] = "is refused when it connects",
                                    [DOCTOR_SILENT] = "gets no answer when it connects",
                                    [DOCTOR_UNREACHABLE] = "finds no route when it connects"};
  doctor_find(report, peer->back == DOCTOR_NOT_TRIED ? DOCTOR_NOTE : DOCTOR_PROBLEM, "%s %s to this host", peer->name,
              how[peer->back]);
  doctor_means(report, "ranks there can reach a rank here only after it has connected to them");
  doctor_fix(report, "let TCP connections from that host to the ports above 1023 of this host through");
}

void doctor_judge_peer_mtu(const struct doctor_facts *facts, struct doctor_report *report) {
  const struct doctor_peer_facts *peer = &facts->peer;
  int own = peer->interface_mtu > MAX_IPV4 ? MAX_IPV4 : peer->interface_mtu; // loopback has a little more
  int other = peer->peer_mtu > MAX_IPV4 ? MAX_IPV4 : peer->peer_mtu;
  if (!peer->asked || *peer->error)
    return;
  if (peer->bulk_sent && !peer->bulk_came) {
    doctor_find(report, DOCTOR_PROBLEM, "small messages return from %s, but 256 KiB do not (MTU %d here, %d there)",
                peer->name, own, other);
    doctor_means(report, "something between the hosts drops large packets without notice");
    doctor_fix(
        report,
        "'ping -M do -s %d %s' tries one packet; set the same MTU on both hosts and on the switches between them",
        fill_of(peer, own), peer->address);
  } else if (peer->answered && other > 0 && own > 0 && other != own) {
    doctor_find(report, DOCTOR_NOTE, "the MTU is %d at %s here, and %d at %s", own, peer->interface, other, peer->name);
    doctor_means(report, "TCP settles on the smaller one; RDMA over Ethernet may drop what is larger");
    doctor_fix(report, "run 'ip link set dev INTERFACE mtu %d' on both hosts", own > other ? own : other);
  } else if (peer->path_mtu > 0 && own > 0 && peer->path_mtu < own) {
    doctor_find(report, DOCTOR_NOTE,
                "the path to %s takes packets of at most %d bytes, but the interface %s has an MTU of %d", peer->name,
                peer->path_mtu, peer->interface, own);
    doctor_means(report, "a tunnel or a router between the hosts limits the size of packets");
    doctor_fix(report, "use one MTU on the whole path, or a path without the tunnel");
  } else if (peer->answered && peer->bulk_came) {
    doctor_find(report, DOCTOR_OK, "256 KiB returned whole; the MTU is %d", own);
  }
}
