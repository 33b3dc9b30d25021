// The numbers are the standard's (IBA 12.6.7.2, 12.11.2.2); causes and advice are for programs on
// rdma_cm, most of whose peers are Verbena or Linux.
#include "cm/reasons.h"

#include <fmt/format.h>

#include <algorithm>

namespace verbena::cm {
namespace {

constexpr const char* kPathCauses =
    "The peer's connection manager does not accept this value of the request's path.";
constexpr const char* kPathChange =
    "rdma_cm fills the path from the route: look at the peer's kernel log; over Verbena it is not "
    "given, so the peer is another connection manager.";
constexpr const char* kAlternateCauses =
    "The request named an alternate path, which RoCE has no use for and Verbena never sends.";
constexpr const char* kAlternateChange = "Send the request without an alternate path.";

constexpr Reason kReasons[] = {
    {1, "IB_CM_REJ_NO_QP", "no queue pair available",
     "The peer has no queue pair left for the connection.",
     "End connections that are no longer needed, or raise the limit there."},
    {2, "IB_CM_REJ_NO_EEC", "no end-to-end context available",
     "A request for reliable datagrams, which no current adapter has.",
     "Connect with RDMA_PS_TCP (RC) or look up a service with RDMA_PS_UDP (UD)."},
    {3, "IB_CM_REJ_NO_RESOURCES", "no resources available",
     "The peer ran out of memory, connection ids or backlog.",
     "Try again later; make fewer connections at once, or give rdma_listen a larger backlog."},
    {4, "IB_CM_REJ_TIMEOUT", "timeout: no answer came, or whoever asked gave up",
     "The peer waited for our REP or RTU longer than its retries last.\n"
     "The peer's program destroyed its id, or ended, before the connection was there.",
     "Accept sooner after RDMA_CM_EVENT_CONNECT_REQUEST; see whether the peer's program ended "
     "first, and why."},
    {5, "IB_CM_REJ_UNSUPPORTED", "unsupported request",
     "The peer's connection manager does not know a feature of the request.",
     "Look at the peer's log for the feature."},
    {6, "IB_CM_REJ_INVALID_COMM_ID", "invalid communication ID: nobody waits for this answer",
     "The peer forgot the request before the reply came: it gave up, was killed or was started "
     "again.",
     "Accept sooner after RDMA_CM_EVENT_CONNECT_REQUEST; let the client connect again."},
    {7, "IB_CM_REJ_INVALID_COMM_INSTANCE", "invalid communication instance",
     "The message names a connection that the peer has with somebody else.",
     "Connect again; if it comes back, two hosts use one address."},
    {8, "IB_CM_REJ_INVALID_SERVICE_ID", "invalid service ID: nothing listens on that port",
     "The server is not running, has ended, or listens on another rdma_cm port.\n"
     "It listens on another address or in another port space (RDMA_PS_TCP, RDMA_PS_UDP, "
     "RDMA_PS_IB). A TCP socket's port is none of rdma_cm's.\n"
     "The server runs in another network namespace or on another host than this address.",
     "Start the server first; compare address, port and port space of rdma_bind_addr there with "
     "rdma_resolve_addr here."},
    {9, "IB_CM_REJ_INVALID_TRANSPORT_TYPE", "invalid transport service type",
     "The request is for a transport the listener does not offer (reliable datagram, an extended "
     "one other than XRC).",
     "Make queue pairs of one type (RC, UC or XRC) on both sides."},
    {10, "IB_CM_REJ_STALE_CONN", "stale connection: this queue pair is still connected",
     "The client's process was started again, or lost its connection, and reused a queue pair "
     "number before the peer had noticed.\n"
     "One queue pair was given to two rdma_cm ids.",
     "Connect again: the peer ends the old connection when it says this. Make a new queue pair for "
     "each connection."},
    {11, "IB_CM_REJ_RDC_NOT_EXIST", "reliable datagram channel does not exist",
     "A request for reliable datagrams, which no current adapter has.",
     "Connect with RDMA_PS_TCP (RC) or look up a service with RDMA_PS_UDP (UD)."},
    {12, "IB_CM_REJ_INVALID_GID", "invalid GID: the address is none of the receiver's",
     "The request's addresses are not those of the peer's device: network address translation on "
     "the way, or an alias.\n"
     "Its private data does not begin with the IP header that rdma_cm writes.",
     "Connect to the address the peer's device has (verbena devices there); let no translation "
     "stand between."},
    {13, "IB_CM_REJ_INVALID_LID", "invalid LID", kPathCauses, kPathChange},
    {14, "IB_CM_REJ_INVALID_SL", "invalid service level", kPathCauses, kPathChange},
    {15, "IB_CM_REJ_INVALID_TRAFFIC_CLASS", "invalid traffic class", kPathCauses,
     "Set another RDMA_OPTION_ID_TOS, or none."},
    {16, "IB_CM_REJ_INVALID_HOP_LIMIT", "invalid hop limit", kPathCauses, kPathChange},
    {17, "IB_CM_REJ_INVALID_PACKET_RATE", "invalid packet rate", kPathCauses, kPathChange},
    {18, "IB_CM_REJ_INVALID_ALT_GID", "invalid GID of the alternate path", kAlternateCauses,
     kAlternateChange},
    {19, "IB_CM_REJ_INVALID_ALT_LID", "invalid LID of the alternate path", kAlternateCauses,
     kAlternateChange},
    {20, "IB_CM_REJ_INVALID_ALT_SL", "invalid service level of the alternate path",
     kAlternateCauses, kAlternateChange},
    {21, "IB_CM_REJ_INVALID_ALT_TRAFFIC_CLASS", "invalid traffic class of the alternate path",
     kAlternateCauses, kAlternateChange},
    {22, "IB_CM_REJ_INVALID_ALT_HOP_LIMIT", "invalid hop limit of the alternate path",
     kAlternateCauses, kAlternateChange},
    {23, "IB_CM_REJ_INVALID_ALT_PACKET_RATE", "invalid packet rate of the alternate path",
     kAlternateCauses, kAlternateChange},
    {24, "IB_CM_REJ_PORT_CM_REDIRECT", "port and connection manager redirection",
     "The service moved: the rejection names another port and another connection manager.",
     "Resolve the address again; redirections are not followed."},
    {25, "IB_CM_REJ_PORT_REDIRECT", "port redirection",
     "The service moved: the rejection names another port of the peer.",
     "Resolve the address again; redirections are not followed."},
    {26, "IB_CM_REJ_INVALID_MTU", "invalid path MTU",
     "The request's path MTU is no size there is, or larger than the peer's interface carries.",
     "Give both interfaces the same MTU (ip link set DEV mtu N), or cap the path MTU with mtu = N "
     "in the file of VERBENA_CONFIG."},
    {27, "IB_CM_REJ_INSUFFICIENT_RESP_RESOURCES", "insufficient responder resources",
     "The peer serves fewer READs and atomics at once than were asked for.",
     "Lower initiator_depth in rdma_conn_param, or raise responder_resources at the peer."},
    {28, "IB_CM_REJ_CONSUMER_DEFINED", "consumer reject: the program said no",
     "The program called rdma_reject; the event's private data may say why.\n"
     "It destroyed the request's id, or its listener, or ended, without accepting.\n"
     "rdma_accept failed there, or the queue pair could not be moved to RTS.",
     "Read the peer's output; run it with VERBENA_LOG=explain."},
    {29, "IB_CM_REJ_INVALID_RNR_RETRY", "RNR retry count rejected",
     "The peer does not accept the request's rnr_retry_count.",
     "Set another rnr_retry_count (0 to 7) in rdma_conn_param."},
    {30, "IB_CM_REJ_DUPLICATE_LOCAL_COMM_ID", "duplicate local communication ID",
     "Two requests came from one address with one communication id: a process started again, or "
     "two hosts that use one address.",
     "Connect again; if it comes back, look for a second host with this address."},
    {31, "IB_CM_REJ_INVALID_CLASS_VERSION", "invalid class version",
     "The peer speaks another version of the connection manager's protocol.",
     "Use a peer that speaks version 2, as all current ones do."},
    {32, "IB_CM_REJ_INVALID_FLOW_LABEL", "invalid flow label", kPathCauses, kPathChange},
    {33, "IB_CM_REJ_INVALID_ALT_FLOW_LABEL", "invalid flow label of the alternate path",
     kAlternateCauses, kAlternateChange},
    {35, "IB_CM_REJ_VENDOR_OPTION_NOT_SUPPORTED", "vendor option not supported",
     "The program called rdma_reject_ece: it wants enhanced connection options that this side has "
     "not.",
     "Turn enhanced connection establishment (ECE) off in the program."},
};

constexpr Reason kStatuses[] = {
    {1, "IB_SIDR_UNSUPPORTED", "unsupported service ID: no datagram service on that port",
     "The server is not running, or listens on another rdma_cm port or port space.",
     "Start the server first; compare address, port and port space (RDMA_PS_UDP) of both."},
    {2, "IB_SIDR_REJECT", "rejected by the program",
     "The program called rdma_reject, or destroyed the request without accepting.",
     "Read the peer's output; run it with VERBENA_LOG=explain."},
    {3, "IB_SIDR_NO_QP", "no queue pair available", "The service has no queue pair left.",
     "Try again later, or raise the limit there."},
    {4, "IB_SIDR_REDIRECT", "redirected to another service",
     "The service moved; redirections are not followed.", "Resolve the address again."},
    {5, "IB_SIDR_UNSUPPORTED_VERSION", "unsupported version",
     "The peer speaks another version of the protocol.",
     "Use a peer that speaks version 2, as all current ones do."},
};

std::string text_of(const char* kind, std::span<const Reason> table, uint16_t number) {
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const Reason& entry) { return entry.number == number; });
  return fmt::format("{} {} ({})", kind, number,
                     found == table.end() ? "no reason that the standard knows" : found->text);
}

}  // namespace

std::span<const Reason> reject_reasons() {
  return kReasons;
}

std::span<const Reason> sidr_statuses() {
  return kStatuses;
}

std::string reject_text(uint16_t reason) {
  return text_of("REJ", kReasons, reason);
}

std::string sidr_text(uint8_t status) {
  return text_of("SIDR status", kStatuses, status);
}

}  // namespace verbena::cm
