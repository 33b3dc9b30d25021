// errno values in their RDMA sense: what libibverbs and librdmacm calls mean by them.
#include <errno.h>

#include "tools/explain_text.h"

namespace verbena::tools {
namespace {

constexpr Explanation kErrnos[] = {
    {EPERM, "EPERM", "Operation not permitted",
     "ibv_modify_qp, ibv_bind_mw, ibv_advise_mr, verbena run --mode ns.",
     "A privileged setting (a Q_Key with its top bit set, a raw packet queue pair) without the "
     "right to it.\n"
     "ibv_bind_mw: window and region are of different protection domains. ibv_advise_mr: the "
     "region does not allow local write.\n"
     "User namespaces are not allowed here.",
     "Use an unprivileged Q_Key (top bit 0), or run with the capability."},
    {ENOENT, "ENOENT", "No such file or directory",
     "ibv_start_poll, ibv_next_poll, ibv_init_ah_from_wc, ibv_advise_mr, the first queue pair.",
     "ibv_start_poll, ibv_next_poll: no completion is waiting; not an error.\n"
     "The message was sent to an address that is no GID of the device (any more).\n"
     "No region of this protection domain has the lkey.\n"
     "The helper binary verbena-broker is not beside the library.",
     "Poll again later; look at verbena devices; keep the installed folder together."},
    {EIO, "EIO", "Input/output error",
     "ibv_modify_qp, ibv_query_qp, ibv_post_send, ibv_post_recv, ibv_attach_mcast, ibv_start_poll.",
     "The device of the queue pair was closed.\n"
     "A forked child used a queue pair of its parent, which keeps it.\n"
     "ibv_start_poll, ibv_next_poll: the completion queue has overrun; completions are lost.",
     "Close the device last; make queue pairs in the process that uses them; make completion "
     "queues as long as all queues that complete into them."},
    {EINTR, "EINTR", "Interrupted system call", "ibv_get_cq_event, rdma_get_cm_event.",
     "A signal arrived while the call waited.", "Call again, unless the signal meant to stop."},
    {EBADF, "EBADF", "Bad file descriptor", "ibv_get_cq_event, ibv_reg_dmabuf_mr.",
     "The completion channel was destroyed, or the descriptor is none.",
     "Destroy channels only after the threads that wait on them have stopped."},
    {EAGAIN, "EAGAIN", "Resource temporarily unavailable",
     "ibv_get_cq_event and rdma_get_cm_event on a nonblocking channel; the first queue pair.",
     "No event is waiting.\n"
     "For the first queue pair of a process: all 254 slots of this host are taken.",
     "Poll the descriptor; or end RDMA processes you no longer need (verbena stats lists them)."},
    {ENOMEM, "ENOMEM", "Cannot allocate memory", "ibv_post_send, ibv_post_recv, create calls.",
     "The work queue is full: more posted than max_send_wr or max_recv_wr, or completions of "
     "unsignalled work requests were never polled.\n"
     "A create call asked for more than the device has left (ibv_query_device, verbena devices "
     "-v).\n"
     "Registering memory: the pages cannot be had.",
     "Poll completions before posting more, signal at least every max_send_wr-th work request, or "
     "ask for longer queues."},
    {EACCES, "EACCES", "Permission denied", "ibv_reg_mr, attach, rdma_bind_addr.",
     "The memory to register is not writable but local or remote write was asked for.\n"
     "Another user's broker serves this network namespace.",
     "Register read-only memory without write access; let the processes run as one user."},
    {EFAULT, "EFAULT", "Bad address", "ibv_reg_mr, ibv_post_send.",
     "The range to register is not mapped memory.", "Register only memory that is mapped."},
    {EBUSY, "EBUSY", "Device or resource busy", "destroy and dealloc calls.",
     "The object is still in use: a completion queue by queue pairs, a protection domain by "
     "regions, a region by a bound window, a channel by completion queues.",
     "Destroy in reverse order of creation, and acknowledge all events first."},
    {ENODEV, "ENODEV", "No such device", "ibv_open_device, rdma_resolve_addr, verbena run.",
     "The named device does not exist, or its interface is gone.\n"
     "No device carries the local address that leads to the destination.",
     "Look at verbena devices; name another with --device NAME=INTERFACE."},
    {EINVAL, "EINVAL", "Invalid argument",
     "ibv_modify_qp, ibv_post_send, create calls, every call of rdma_cm.",
     "modify: a required attribute is missing from the mask, one is not allowed in this "
     "transition, or the state does not follow (RESET, INIT, RTR, RTS).\n"
     "modify to RTR: sgid_index points to no GID, or the address handle has is_global 0 (RoCE "
     "needs the GRH).\n"
     "post: wrong state, too many scatter/gather entries, an opcode the transport lacks, inline "
     "data longer than max_inline_data.\n"
     "reg_mr: length 0, or remote write without local write.\n"
     "create: a size of 0 or above the device's limit.\n"
     "rdma_cm: a call before its turn (rdma_resolve_addr, rdma_resolve_route, rdma_connect; "
     "rdma_bind_addr, rdma_listen), too much private data, more responder_resources or "
     "initiator_depth than the device has.",
     "VERBENA_LOG=explain names the argument; verbena devices -v prints the limits."},
    {EFBIG, "EFBIG", "File too large", "ibv_get_device_list, verbena commands.",
     "The file that VERBENA_CONFIG names is no configuration: it is too large for one.",
     "Name a TOML file; docs/devices.md shows what belongs there."},
    {EMFILE, "EMFILE", "Too many open files", "ibv_open_device, ibv_create_comp_channel.",
     "The process has reached its limit of file descriptors.", "Raise ulimit -n, or close some."},
    {ENOSPC, "ENOSPC", "No space left on device", "ibv_attach_mcast, attach.",
     "The table of multicast memberships is full, or /dev/shm is.",
     "Leave groups no longer used; free or enlarge /dev/shm (docker run --shm-size)."},
    {ENOSYS, "ENOSYS", "Function not implemented", "Provider-specific calls.",
     "The call belongs to another provider's extension (mlx5dv, efadv).",
     "Let the program use plain verbs; most have an option for it."},
    {ENODATA, "ENODATA", "No data available", "ibv_query_gid_ex.",
     "The entry of the GID table is empty.",
     "Take an index that verbena devices shows, or skip empty entries."},
    {EPROTO, "EPROTO", "Protocol error", "attach.",
     "Another process or the broker is of another build of Verbena.",
     "Use one build for all processes of this host; end the old ones first."},
    {EOPNOTSUPP, "EOPNOTSUPP", "Operation not supported", "create, query, import and post calls.",
     "A feature this device does not offer: an unknown flag or comp_mask bit, raw packets, flow "
     "steering, tag matching, work queues, counters objects, DMA handles.\n"
     "An object of another process was to be imported.",
     "Ask ibv_query_device_ex first, or turn the feature off in the program; VERBENA_LOG=explain "
     "names the bit."},
    {EAFNOSUPPORT, "EAFNOSUPPORT", "Address family not supported by protocol", "ibv_attach_mcast.",
     "An IPv6 group, and this host has no IPv6.", "Use an IPv4 group, or enable IPv6."},
    {EADDRINUSE, "EADDRINUSE", "Address already in use", "rdma_bind_addr, rdma_listen; attach.",
     "Another listener has this rdma_cm port.\n"
     "attach: a process that is not Verbena holds UDP port 4791 (kernel rxe, another stack).",
     "Choose another port, or stop the holder: ss -ulpn 'sport = :4791' shows it."},
    {EADDRNOTAVAIL, "EADDRNOTAVAIL", "Cannot assign requested address", "rdma_bind_addr.",
     "The address belongs to no interface of this network namespace.",
     "Bind to an address that verbena devices lists."},
    {ENETUNREACH, "ENETUNREACH", "Network is unreachable", "ibv_modify_qp(RTR), rdma_resolve_addr.",
     "No route leads from the chosen GID to the destination.",
     "ip route get DESTINATION from SOURCE; choose the GID of the interface that has the route."},
    {ECONNRESET, "ECONNRESET", "Connection reset by peer", "rdma_cm, rsockets.",
     "The peer disconnected or died.", "Look at the peer's log."},
    {ENOTCONN, "ENOTCONN", "Transport endpoint is not connected",
     "ibv_modify_qp(RTR), ibv_attach_mcast, rsockets.",
     "A forked child used a queue pair of its parent before it made one of its own.\n"
     "The rsocket has no peer (yet, or any more).",
     "Make the queue pair in the process that uses it; rconnect or raccept first."},
    {EDESTADDRREQ, "EDESTADDRREQ", "Destination address required", "rsend on a datagram rsocket.",
     "A datagram needs an address, and this rsocket has no peer.",
     "Name it with rsendto, or rconnect first."},
    {EMSGSIZE, "EMSGSIZE", "Message too long", "rsend and rsendto on a datagram rsocket.",
     "A datagram has at most 2032 bytes, 2020 over IPv6.", "Send less at a time, or use a stream."},
    {EPIPE, "EPIPE", "Broken pipe", "rsend, rsendto.",
     "The connection has ended, or rshutdown has closed this direction.",
     "Stop sending; make another rsocket."},
    {EISCONN, "EISCONN", "Transport endpoint is already connected", "rconnect, rsendto.",
     "The rsocket has its peer already; a stream sends to nobody else.",
     "Make an rsocket for each peer; send with rsend."},
    {EALREADY, "EALREADY", "Operation already in progress", "rconnect on a nonblocking rsocket.",
     "The connection is still being made.", "Wait for POLLOUT with rpoll, then read SO_ERROR."},
    {EINPROGRESS, "EINPROGRESS", "Operation now in progress", "rconnect on a nonblocking rsocket.",
     "Nothing is wrong: the connection is being made.",
     "Wait for POLLOUT with rpoll, then read SO_ERROR."},
    {ETIMEDOUT, "ETIMEDOUT", "Connection timed out",
     "The first queue pair, ibv_attach_mcast, rdma_resolve_addr, rdma_connect.",
     "The broker does not answer: it is stopped, or the machine has no time for it.\n"
     "rdma_cm: nobody answers at the destination: no such host, no RDMA there, or UDP 4791 is "
     "dropped on the way.\n"
     "ibv_modify_qp(RTR) does not wait for the peer: one that is silent shows as status 12 "
     "(RETRY_EXC_ERR) of the first work request.",
     "Continue verbena-broker (kill -CONT); ping the address; on the other host see verbena "
     "stats; open UDP 4791 in the firewall."},
    {ECONNREFUSED, "ECONNREFUSED", "Connection refused", "rdma_connect, verbena stats.",
     "The host is there but nothing listens on that rdma_cm port (REJ, reason 8: invalid service "
     "id).\n"
     "verbena stats: no RDMA process runs in this network namespace.",
     "Start the server first, with the same port and port space."},
    {EHOSTUNREACH, "EHOSTUNREACH", "No route to host",
     "ibv_modify_qp(RTR), ibv_resolve_eth_l2_from_gid, rdma_resolve_route.",
     "The routing table calls the destination unreachable.\n"
     "ibv_resolve_eth_l2_from_gid: the neighbour table has no entry for the address.\n"
     "ibv_modify_qp(RTR) asks no neighbour: a host on this network that does not answer ARP shows "
     "as status 12 (RETRY_EXC_ERR) of the first work request, after its retries.",
     "ip route get DESTINATION; check the address and that the host is up."},
    {ESTALE, "ESTALE", "Stale file handle", "ibv_attach_mcast, ibv_detach_mcast.",
     "The broker and its standby died together, and the new one does not know this process.",
     "Restart the programs that use RDMA on this host."},
};

}  // namespace

std::span<const Explanation> errno_explanations() {
  return kErrnos;
}

}  // namespace verbena::tools
