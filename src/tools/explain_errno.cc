// errno values in their RDMA sense: what libibverbs and librdmacm calls mean by them.
#include <errno.h>

#include "tools/explain_text.h"

namespace verbena::tools {
namespace {

constexpr Explanation kErrnos[] = {
    {EPERM, "EPERM", "Operation not permitted", "ibv_reg_mr, ibv_modify_qp, verbena run --mode ns.",
     "A privileged setting (a Q_Key with its top bit set, a raw packet queue pair) without the "
     "right to it.\n"
     "User namespaces are not allowed here.",
     "Use an unprivileged Q_Key (top bit 0), or run with the capability."},
    {ENOENT, "ENOENT", "No such file or directory", "ibv_open_device, ibv_get_pkey_index, attach.",
     "The helper binary verbena-broker is not beside the library.\n"
     "The P_Key is not in the port's table (Verbena has only 0xffff).",
     "Keep the installed folder together; use P_Key 0xffff."},
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
    {EINVAL, "EINVAL", "Invalid argument", "ibv_modify_qp, ibv_post_send, create calls.",
     "modify: a required attribute is missing from the mask, one is not allowed in this "
     "transition, or the state does not follow (RESET, INIT, RTR, RTS).\n"
     "modify to RTR: sgid_index points to no GID, or the address handle has is_global 0 (RoCE "
     "needs the GRH).\n"
     "post: wrong state, too many scatter/gather entries, an opcode the transport lacks, inline "
     "data longer than max_inline_data.\n"
     "reg_mr: length 0, or remote write without local write.\n"
     "create: a size of 0 or above the device's limit.",
     "VERBENA_LOG=explain names the argument; verbena devices -v prints the limits."},
    {EMFILE, "EMFILE", "Too many open files", "ibv_open_device, ibv_create_comp_channel.",
     "The process has reached its limit of file descriptors.", "Raise ulimit -n, or close some."},
    {ENOSPC, "ENOSPC", "No space left on device", "ibv_attach_mcast, attach.",
     "The table of multicast memberships is full, or /dev/shm is.",
     "Leave groups no longer used; free or enlarge /dev/shm (docker run --shm-size)."},
    {ENOSYS, "ENOSYS", "Function not implemented", "Provider-specific calls.",
     "The call belongs to another provider's extension (mlx5dv, efadv).",
     "Let the program use plain verbs; most have an option for it."},
    {EPROTO, "EPROTO", "Protocol error", "attach.",
     "Another process or the broker is of another build of Verbena.",
     "Use one build for all processes of this host; end the old ones first."},
    {EOPNOTSUPP, "EOPNOTSUPP", "Operation not supported", "create and query calls.",
     "A feature this device does not offer: a create flag, a comp_mask bit, device memory, flow "
     "steering, tag matching, on-demand paging.",
     "Ask ibv_query_device_ex first, or turn the feature off in the program (perftest: no --odp, "
     "no DC)."},
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
    {ETIMEDOUT, "ETIMEDOUT", "Connection timed out",
     "rdma_resolve_addr, rdma_connect, ibv_modify_qp(RTR).",
     "Nobody answers at the destination: no such host, no RDMA there, or UDP 4791 is dropped on "
     "the way.",
     "ping the address; on the other host see verbena stats; open UDP 4791 in the firewall."},
    {ECONNREFUSED, "ECONNREFUSED", "Connection refused", "rdma_connect, verbena stats.",
     "The host is there but nothing listens on that rdma_cm port (REJ, reason 8: invalid service "
     "id).\n"
     "verbena stats: no RDMA process runs in this network namespace.",
     "Start the server first, with the same port and port space."},
    {EHOSTUNREACH, "EHOSTUNREACH", "No route to host", "ibv_modify_qp(RTR), rdma_resolve_route.",
     "The destination is on this network but does not answer ARP or neighbour discovery.",
     "Check the address and that the host is up."},
    {ESTALE, "ESTALE", "Stale file handle", "Calls of a forked child.",
     "The object was made by the parent before fork; its slot belongs to the parent.",
     "Open the device again in the child, or fork before opening."},
};

}  // namespace

std::span<const Explanation> errno_explanations() {
  return kErrnos;
}

}  // namespace verbena::tools
