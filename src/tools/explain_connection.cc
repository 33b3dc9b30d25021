// rdma_cm's events (rdma_cm_event_type, 0..15; order and numbers are the ABI's) and the reasons of
// REJ and SIDR_REP, whose words are the connection manager's own.
#include <vector>

#include "cm/reasons.h"
#include "tools/explain_text.h"

namespace verbena::tools {
namespace {

constexpr Explanation kEvents[] = {
    {0, "RDMA_CM_EVENT_ADDR_RESOLVED", "the destination's address leads to a device",
     "Active side, after rdma_resolve_addr.", "Nothing is wrong.",
     "Call rdma_resolve_route; a queue pair can be made now."},
    {1, "RDMA_CM_EVENT_ADDR_ERROR", "no device for this address",
     "Active side, after rdma_resolve_addr; the status is a negative errno.",
     "The route to the destination leaves by an interface that has no RDMA device, or whose "
     "address is not in its GID table (ENODEV).",
     "Compare ip route get DESTINATION with verbena devices; name the interface with --device, or "
     "bind to an address that has a device."},
    {2, "RDMA_CM_EVENT_ROUTE_RESOLVED", "the route is known",
     "Active side, after rdma_resolve_route.", "Nothing is wrong.", "Call rdma_connect."},
    {3, "RDMA_CM_EVENT_ROUTE_ERROR", "the route could not be resolved",
     "Active side, after rdma_resolve_route. Verbena never gives it: RoCE asks nobody.",
     "Linux: the subnet manager (InfiniBand) does not answer.",
     "Look at the kernel log of the host that reports it."},
    {4, "RDMA_CM_EVENT_CONNECT_REQUEST", "somebody asks for a connection",
     "Passive side, on the listener's channel; event->id is a new id.", "Nothing is wrong.",
     "Make a queue pair on event->id, post receives, then rdma_accept or rdma_reject. A request "
     "neither accepted nor rejected ends with UNREACHABLE at the peer."},
    {5, "RDMA_CM_EVENT_CONNECT_RESPONSE", "the peer accepted an id without a queue pair",
     "Active side, only for an id whose queue pair the program made by itself.",
     "Nothing is wrong.",
     "Move the queue pair to RTR and RTS (rdma_init_qp_attr), then rdma_establish."},
    {6, "RDMA_CM_EVENT_CONNECT_ERROR", "the connection broke off while it was being made",
     "Either side; the status is a negative errno.",
     "The peer accepted, and our queue pair could not be moved to RTR or RTS with what it said.",
     "VERBENA_LOG=explain names the attribute that was refused."},
    {7, "RDMA_CM_EVENT_UNREACHABLE", "nobody answered, or the service was refused",
     "Either side. The status is -110 (ETIMEDOUT) after all retries, about a minute; for "
     "RDMA_PS_UDP a positive one is the SIDR status.",
     "The host is down, the address is another host's, or a firewall drops UDP port 4791.\n"
     "No RDMA program runs there: over Verbena nobody holds port 4791 then, so nobody says no.\n"
     "The server took the request and neither accepted nor rejected it.\n"
     "RDMA_PS_UDP, status 1: nothing listens on that port; 2: the program rejected.",
     "ping the address; on the other host see verbena stats (does the server run?); open UDP 4791 "
     "in both directions."},
    {8, "RDMA_CM_EVENT_REJECTED", "the peer answered no",
     "Either side; the status is the REJ's reason (verbena explain REJ 8).",
     "Reason 8: nothing listens on that port.\n"
     "Reason 28: the peer's program rejected, destroyed the request or ended.\n"
     "Reason 10: the peer believes the queue pair is still connected.",
     "verbena explain REJ NUMBER says more of each; VERBENA_LOG=explain on the other side says "
     "why."},
    {9, "RDMA_CM_EVENT_ESTABLISHED", "the connection is there",
     "Both sides; RDMA_PS_UDP: the service's queue pair is known.", "Nothing is wrong.",
     "Send. The passive side may have received data before this event."},
    {10, "RDMA_CM_EVENT_DISCONNECTED", "the connection has ended",
     "Both sides, each once; the status is 0, or -110 (ETIMEDOUT) when the peer did not answer.",
     "Either program called rdma_disconnect or rdma_destroy_id, or ended.\n"
     "A process was killed: its host's broker says goodbye for it.",
     "If it was not meant: look at the other side's output and log. The queue pair is in error and "
     "its work requests flush (status 5)."},
    {11, "RDMA_CM_EVENT_DEVICE_REMOVAL", "the device goes away",
     "Every id of the device. Verbena never gives it: its devices stay while the process lives.",
     "Linux: the driver is being unloaded.", "Destroy the device's ids and queue pairs."},
    {12, "RDMA_CM_EVENT_MULTICAST_JOIN", "the group was joined", "After rdma_join_multicast.",
     "Nothing is wrong.", "Make an address handle of event->param.ud.ah_attr and send to it."},
    {13, "RDMA_CM_EVENT_MULTICAST_ERROR", "the group could not be joined",
     "After rdma_join_multicast; the status is a negative errno.",
     "The queue pair is no UD queue pair, or has as many groups as there may be.\n"
     "The interface does not do multicast, or the broker does not answer.",
     "ip link show DEV must say MULTICAST; VERBENA_LOG=explain names the cause."},
    {14, "RDMA_CM_EVENT_ADDR_CHANGE", "the interface's address changed",
     "Ids bound to the interface. Verbena never gives it; GIDs change by IBV_EVENT_GID_CHANGE.",
     "Linux: bonding failed over to another adapter.", "Connect again."},
    {15, "RDMA_CM_EVENT_TIMEWAIT_EXIT", "the queue pair number has rested long enough",
     "Both sides, some seconds after DISCONNECTED.", "Nothing is wrong.",
     "Nothing, unless the program uses one queue pair for the next connection."},
};

std::vector<Explanation> of_reasons(std::span<const cm::Reason> reasons, const char* where) {
  std::vector<Explanation> list;
  for (const cm::Reason& reason : reasons)
    list.push_back({reason.number, reason.name, reason.text, where, reason.causes, reason.change});
  return list;
}

}  // namespace

std::span<const Explanation> event_explanations() {
  return kEvents;
}

std::span<const Explanation> reject_explanations() {
  static const auto* list =
      new std::vector<Explanation>(of_reasons(cm::reject_reasons(),
                                              "A REJ of the connection manager: the status of "
                                              "RDMA_CM_EVENT_REJECTED."));
  return *list;
}

std::span<const Explanation> sidr_explanations() {
  static const auto* list = new std::vector<Explanation>(
      of_reasons(cm::sidr_statuses(),
                 "The answer to a lookup of a datagram service (RDMA_PS_UDP): "
                 "the status of RDMA_CM_EVENT_UNREACHABLE."));
  return *list;
}

}  // namespace verbena::tools
