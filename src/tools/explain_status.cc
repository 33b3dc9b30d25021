// The work completion statuses (ibv_wc_status, 0..23). Order and numbers are the ABI's.
#include "tools/explain_text.h"

namespace verbena::tools {
namespace {

constexpr const char* kNotHere =
    "Belongs to reliable datagram or end-to-end contexts, which no current adapter has.";

constexpr Explanation kStatuses[] = {
    {0, "IBV_WC_SUCCESS", "success", "Every operation that worked.",
     "Nothing is wrong.\n"
     "For a SEND or WRITE on RC it says the peer acknowledged, not that its program looked.",
     "Nothing."},
    {1, "IBV_WC_LOC_LEN_ERR", "local length error",
     "Receiver: the arriving message. Sender: your own work request.",
     "The message is longer than the buffers of the receive work request it consumed.\n"
     "The work request is longer than the port's max_msg_sz.\n"
     "An atomic whose scatter/gather entries hold fewer than 8 bytes, or an ATOMIC WRITE of other "
     "than 8.\n"
     "Not on UD: a datagram above the port's MTU completes with success and is not sent, and one "
     "that does not fit its receive buffer (40 bytes of it are the GRH area) is dropped and "
     "counted; VERBENA_LOG=explain names both.",
     "Post receives as large as the largest message (UD: plus 40 bytes), or send less."},
    {2, "IBV_WC_LOC_QP_OP_ERR", "local QP operation error", "Sender or receiver: your own side.",
     "The queue pair could not carry the work request out as written: an opcode its transport or "
     "state does not allow, or too many scatter/gather entries.",
     "Compare opcode and flags with the queue pair's type and its capabilities (ibv_query_qp)."},
    {3, "IBV_WC_LOC_EEC_OP_ERR", "local EE context operation error", "Nobody today.", kNotHere,
     "Nothing to change; report it, it is a defect."},
    {4, "IBV_WC_LOC_PROT_ERR", "local protection error", "Your own side, before anything is sent.",
     "An lkey that names no memory region, or one of another protection domain.\n"
     "An address or length outside the region (registered fewer bytes than used).\n"
     "A receive or READ buffer in a region without IBV_ACCESS_LOCAL_WRITE.\n"
     "The region was deregistered while the work request was still queued.",
     "Check each ibv_sge against its ibv_reg_mr: addr >= mr->addr, addr+length <= mr->addr+"
     "mr->length, lkey == mr->lkey, same protection domain as the queue pair."},
    {5, "IBV_WC_WR_FLUSH_ERR", "Work Request Flushed Error",
     "Every work request still queued when the queue pair entered the error state.",
     "It is a consequence: an earlier completion of this queue pair failed, the peer "
     "disconnected, or the program moved the queue pair to ERR.",
     "Look for the first completion with another status on either side; that one is the cause."},
    {6, "IBV_WC_MW_BIND_ERR", "memory management operation error",
     "Your own side: bind, local invalidate.",
     "The memory region lacks IBV_ACCESS_MW_BIND, or the window's range or rights exceed it.\n"
     "Region, window and queue pair are not of one protection domain.\n"
     "A type 1 window was bound with a work request, or a type 2 one with ibv_bind_mw.",
     "Register the region with IBV_ACCESS_MW_BIND and the rights the window gives away."},
    {7, "IBV_WC_BAD_RESP_ERR", "bad response error", "Sender: a response made no sense.",
     "The peer answered with an opcode or length the request cannot have.\n"
     "Two hosts use the same address, or a queue pair number was reused too early.",
     "Capture UDP port 4791 and look at the response; check that QPNs and PSNs of both sides were "
     "exchanged for this very connection."},
    {8, "IBV_WC_LOC_ACCESS_ERR", "local access error", "Receiver: an arriving RDMA operation.",
     "The local region does not permit what the local operation wanted to do with it.",
     "Check the access flags of the local memory region and of the queue pair."},
    {9, "IBV_WC_REM_INV_REQ_ERR", "remote invalid request error",
     "Sender: the peer refused the request as such.",
     "The message was longer than the peer's receive buffer (the peer sees a local length "
     "error).\n"
     "The operation is not enabled at the peer's queue pair (qp_access_flags at INIT).\n"
     "More RDMA READs or atomics outstanding than the peer's max_dest_rd_atomic.\n"
     "An atomic whose remote address is not 8-byte aligned.",
     "Give the peer's queue pair the access flags and max_dest_rd_atomic you use, and larger "
     "receives."},
    {10, "IBV_WC_REM_ACCESS_ERR", "remote access error",
     "Sender: the peer refused the memory access.",
     "The rkey is wrong, stale (deregistered, then used) or of another protection domain.\n"
     "remote_addr or length leaves the peer's region.\n"
     "The peer's region or queue pair lacks IBV_ACCESS_REMOTE_WRITE, _READ or _ATOMIC.\n"
     "lkey was sent instead of rkey, or in the wrong byte order.",
     "Compare remote_addr, length and rkey with the peer's ibv_reg_mr; set the remote access flag "
     "at both ibv_reg_mr and ibv_modify_qp(INIT) of the peer."},
    {11, "IBV_WC_REM_OP_ERR", "remote operation error",
     "Sender: the peer could not finish the operation.",
     "The peer's own receive work request was faulty (its completion says local protection "
     "error).\n"
     "The peer's process went away in the middle of the operation.",
     "Read the peer's completions; its status names the cause."},
    {12, "IBV_WC_RETRY_EXC_ERR", "transport retry counter exceeded",
     "Sender: no acknowledgement came, retry_cnt times.",
     "The peer's process has ended or its queue pair is not in RTR/RTS yet.\n"
     "Wrong destination: GID, GID index, QPN, or starting PSN (rq_psn of the peer must be your "
     "sq_psn).\n"
     "A firewall or route drops UDP port 4791, or the path MTU is larger than the network "
     "carries.\n"
     "A loss so heavy, or a timeout so short, that retry_cnt tries were not enough.",
     "See that the peer runs (verbena stats there), that UDP 4791 passes, and that both sides "
     "use the same path_mtu; raise timeout (4.096 us * 2^timeout) and retry_cnt."},
    {13, "IBV_WC_RNR_RETRY_EXC_ERR", "RNR retry counter exceeded",
     "Sender: the peer had no receive work request, rnr_retry times.",
     "The peer posted no receives, too few, or posts them slower than you send.\n"
     "rnr_retry is 0 and a receive was merely late.",
     "Post receives before connecting and keep them posted; set rnr_retry to 7 (for ever) or "
     "min_rnr_timer higher at the peer."},
    {14, "IBV_WC_LOC_RDD_VIOL_ERR", "local RDD violation error", "Nobody today.", kNotHere,
     "Nothing to change; report it, it is a defect."},
    {15, "IBV_WC_REM_INV_RD_REQ_ERR", "remote invalid RD request", "Nobody today.", kNotHere,
     "Nothing to change; report it, it is a defect."},
    {16, "IBV_WC_REM_ABORT_ERR", "aborted error", "Sender: the peer gave the operation up.",
     "The peer suspended or aborted the operation; with shared receive queues of XRC, its owner "
     "went away.",
     "Look at the peer's log for why it aborted."},
    {17, "IBV_WC_INV_EECN_ERR", "invalid EE context number", "Nobody today.", kNotHere,
     "Nothing to change; report it, it is a defect."},
    {18, "IBV_WC_INV_EEC_STATE_ERR", "invalid EE context state", "Nobody today.", kNotHere,
     "Nothing to change; report it, it is a defect."},
    {19, "IBV_WC_FATAL_ERR", "fatal error", "Your own device.",
     "The device can no longer be used: an IBV_EVENT_DEVICE_FATAL comes with it.",
     "Close the context and open it again; the explain log (VERBENA_LOG=explain) has the reason."},
    {20, "IBV_WC_RESP_TIMEOUT_ERR", "response timeout error",
     "Sender: a response did not come in time.",
     "The peer accepted the request and then fell silent.",
     "See that the peer's process still runs and makes progress."},
    {21, "IBV_WC_GENERAL_ERR", "general error", "Either side.",
     "An error that no other status describes.",
     "Run with VERBENA_LOG=explain; the line beside this completion has the reason."},
    {22, "IBV_WC_TM_ERR", "TM error", "Tag-matching shared receive queues.",
     "A tag-matching operation failed.", "Verbena's devices offer no tag matching; turn it off."},
    {23, "IBV_WC_TM_RNDV_INCOMPLETE", "TM software rendezvous",
     "Tag-matching shared receive queues.", "A rendezvous message must be completed by software.",
     "Verbena's devices offer no tag matching; turn it off."},
};
static_assert(sizeof(kStatuses) / sizeof(kStatuses[0]) == 24);

}  // namespace

std::span<const Explanation> status_explanations() {
  return kStatuses;
}

}  // namespace verbena::tools
