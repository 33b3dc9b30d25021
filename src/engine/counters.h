// Counters: one list gives the struct, the text, JSON and Prometheus names. Names follow the
// hw_counters of Linux RDMA drivers so that existing dashboards read them.
#pragma once

#include <cstdint>

namespace verbena::engine {

// X(name, unit, help)
#define VERBENA_ENGINE_COUNTERS(X)                                                          \
  X(port_xmit_packets, "packets", "packets sent")                                           \
  X(port_rcv_packets, "packets", "packets received that passed all checks of the link")     \
  X(port_xmit_data, "bytes", "payload bytes sent")                                          \
  X(port_rcv_data, "bytes", "payload bytes received")                                       \
  X(tx_write_requests, "requests", "RDMA WRITE requests sent")                              \
  X(tx_read_requests, "requests", "RDMA READ requests sent")                                \
  X(tx_atomic_requests, "requests", "atomic requests sent")                                 \
  X(rx_write_requests, "requests", "RDMA WRITE requests received")                          \
  X(rx_read_requests, "requests", "RDMA READ requests received")                            \
  X(rx_atomic_requests, "requests", "atomic requests received")                             \
  X(rdma_sends, "messages", "SEND messages completed by the requester")                     \
  X(rdma_recvs, "messages", "SEND messages delivered to a receive work request")            \
  X(out_of_sequence, "packets", "requests ahead of the expected PSN")                       \
  X(duplicate_request, "packets", "requests behind the expected PSN")                       \
  X(packet_seq_err, "packets", "PSN sequence NAKs received")                                \
  X(implied_nak_seq_err, "events", "gaps in READ responses that made the requester resend") \
  X(rcvd_rnr_err, "packets", "RNR NAKs received")                                           \
  X(send_rnr_err, "packets", "RNR NAKs sent")                                               \
  X(rnr_nak_retry_err, "work requests", "work requests failed: RNR retries used up")        \
  X(local_ack_timeout_err, "events", "acknowledgement timer expiries")                      \
  X(retry_exceeded_err, "work requests", "work requests failed: transport retries used up") \
  X(req_remote_access_errors, "packets", "remote access NAKs received")                     \
  X(req_remote_invalid_request, "packets", "invalid request NAKs received")                 \
  X(req_remote_op_errors, "packets", "remote operational NAKs received")                    \
  X(resp_remote_access_errors, "packets", "remote access NAKs sent")                        \
  X(resp_remote_invalid_request, "packets", "invalid request NAKs sent")                    \
  X(resp_remote_op_errors, "packets", "remote operational NAKs sent")                       \
  X(req_cqe_error, "completions", "completions with an error, requester side")              \
  X(req_cqe_flush_error, "completions", "flushed work requests, requester side")            \
  X(resp_cqe_error, "completions", "completions with an error, responder side")             \
  X(resp_cqe_flush_error, "completions", "flushed work requests, responder side")           \
  X(resp_local_length_error, "messages", "messages longer than the receive work request")   \
  X(rx_icrc_encapsulated, "packets", "packets dropped: wrong ICRC")                         \
  X(rx_malformed, "packets", "packets dropped: not a packet this device knows")             \
  X(rx_unknown_qp, "packets", "packets dropped: no such queue pair, or not ready for it")   \
  X(rx_wrong_transport, "packets", "packets dropped: opcode of another transport service")  \
  X(rx_wrong_address, "packets", "packets dropped: addresses differ from the queue pair's") \
  X(bad_pkey, "packets", "packets dropped: P_Key mismatch")                                 \
  X(qkey_viol_cntr, "packets", "datagrams dropped: Q_Key mismatch")                         \
  X(rx_no_receive, "packets", "datagrams or UC messages dropped: no receive work request")  \
  X(rx_bad_response, "packets", "responses outside the requester's window, ignored")        \
  X(rx_payload_lost, "packets", "same-host packets whose payload could not be fetched")     \
  X(rp_cnp_handled, "packets", "CNPs received")                                             \
  X(np_cnp_sent, "packets", "CNPs sent")                                                    \
  X(np_ecn_marked_roce_packets, "packets", "packets received with the CE mark")             \
  X(cq_overrun, "completions", "completions lost because the completion queue was full")

struct Counters {
#define VERBENA_FIELD(name, unit, help) uint64_t name = 0;
  VERBENA_ENGINE_COUNTERS(VERBENA_FIELD)
#undef VERBENA_FIELD
};

struct CounterInfo {
  const char* name;
  const char* unit;
  const char* help;
};

#define VERBENA_COUNT(name, unit, help) +1
inline constexpr int kCounterCount = 0 VERBENA_ENGINE_COUNTERS(VERBENA_COUNT);
#undef VERBENA_COUNT
static_assert(sizeof(Counters) == kCounterCount * sizeof(uint64_t));

inline constexpr CounterInfo kCounterInfo[kCounterCount] = {
#define VERBENA_INFO(name, unit, help) {#name, unit, help},
    VERBENA_ENGINE_COUNTERS(VERBENA_INFO)
#undef VERBENA_INFO
};

// What one queue pair counts for itself, for `verbena stats`.
struct QpCounters {
  uint64_t packets_sent = 0;
  uint64_t packets_received = 0;
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
  uint64_t retransmissions = 0;  // times the requester went back
  uint64_t timeouts = 0;
  uint64_t naks_sent = 0;
  uint64_t naks_received = 0;
  uint64_t rnr_sent = 0;
  uint64_t rnr_received = 0;
  uint64_t completions = 0;
  uint64_t errors = 0;
  uint64_t bytes_delivered = 0;  // payload of SENDs, WRITEs and READ responses, each byte once
};

}  // namespace verbena::engine
