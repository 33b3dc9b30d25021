// ibv_post_send and ibv_post_recv: C work requests become the engine's, one by one, up to the first
// that is refused.
#include "abi/post.h"
#include "abi/errors.h"
#include "abi/operations.h"

namespace verbena::abi {
namespace {

static_assert(sizeof(ibv_sge) == sizeof(engine::Sge) &&
              offsetof(ibv_sge, addr) == offsetof(engine::Sge, address) &&
              offsetof(ibv_sge, length) == offsetof(engine::Sge, length) &&
              offsetof(ibv_sge, lkey) == offsetof(engine::Sge, lkey));
static_assert(int{IBV_SEND_FENCE} == engine::kFence &&
              int{IBV_SEND_SIGNALED} == engine::kSignaled &&
              int{IBV_SEND_SOLICITED} == engine::kSolicited &&
              int{IBV_SEND_INLINE} == engine::kInline);
static_assert(int{IBV_WR_RDMA_WRITE} == int(engine::WrOpcode::kRdmaWrite) &&
              int{IBV_WR_SEND_WITH_INV} == int(engine::WrOpcode::kSendWithInv) &&
              int{IBV_WR_BIND_MW} == int(engine::WrOpcode::kBindMw) &&
              int{IBV_WR_ATOMIC_FETCH_AND_ADD} == int(engine::WrOpcode::kAtomicFetchAndAdd) &&
              kWrFlush == int(engine::WrOpcode::kFlush) &&
              kWrAtomicWrite == int(engine::WrOpcode::kAtomicWrite));

// Fields beyond the common ones. EINVAL / EOPNOTSUPP where they make no sense.
int fill_operation(const Qp& qp, const ibv_send_wr& wr, engine::SendRequest& request) {
  switch (static_cast<int>(wr.opcode)) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_RDMA_READ:
    case kWrAtomicWrite:
      request.remote_address = wr.wr.rdma.remote_addr;
      request.rkey = wr.wr.rdma.rkey;
      return 0;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      request.remote_address = wr.wr.atomic.remote_addr;
      request.rkey = wr.wr.atomic.rkey;
      request.compare_add = wr.wr.atomic.compare_add;
      request.swap = wr.wr.atomic.swap;
      return 0;
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_SEND_WITH_INV:
      if (qp.base.base.qp_base.qp_type != IBV_QPT_UD) return 0;
      return fill_datagram(wr.wr.ud.ah, wr.wr.ud.remote_qpn, wr.wr.ud.remote_qkey, request);
    case IBV_WR_LOCAL_INV:
      return 0;
    case IBV_WR_BIND_MW:
      return fill_bind(wr.bind_mw.mw, IBV_MW_TYPE_2, wr.bind_mw.rkey, wr.bind_mw.bind_info,
                       request);
    case IBV_WR_TSO:
    case IBV_WR_DRIVER1:
      return refuse(EOPNOTSUPP,
                    "ibv_post_send: opcode {}: segmentation offload is for raw packets, and there"
                    " are no driver operations",
                    static_cast<int>(wr.opcode));
    default:
      return refuse(EINVAL, "ibv_post_send: opcode {}", static_cast<int>(wr.opcode));
  }
}

int convert(const Qp& qp, const ibv_send_wr& wr, engine::SendRequest& request) {
  if (wr.send_flags & ~kKnownSendFlags)
    return refuse(EOPNOTSUPP,
                  "ibv_post_send: QP {:#08x}: send_flags {:#x} has bits for raw packets or "
                  "unknown ones",
                  qp.base.base.qp_base.qp_num, wr.send_flags);
  if (wr.num_sge < 0)
    return refuse(EINVAL, "ibv_post_send: QP {:#08x}: num_sge {}", qp.base.base.qp_base.qp_num,
                  wr.num_sge);
  request = {};
  request.wr_id = wr.wr_id;
  request.opcode = static_cast<engine::WrOpcode>(wr.opcode);
  request.flags = wr.send_flags;
  request.imm_or_rkey = wr.imm_data;
  request.sges = {reinterpret_cast<const engine::Sge*>(wr.sg_list),
                  static_cast<size_t>(wr.num_sge)};
  request.xrc_srqn =
      qp.base.base.qp_base.qp_type == IBV_QPT_XRC_SEND ? wr.qp_type.xrc.remote_srqn : 0;
  return fill_operation(qp, wr, request);
}

}  // namespace

int refuse_closed() {
  return shielded([] { return refuse(EIO, "post: the device of this queue pair was closed"); });
}

int fill_datagram(ibv_ah* ah, uint32_t qpn, uint32_t qkey, engine::SendRequest& request) {
  if (!ah) return refuse(EINVAL, "post_send: a datagram needs an address handle");
  request.route = &cast(ah)->route;
  request.remote_qpn = qpn;
  request.remote_qkey = qkey;
  return 0;
}

int fill_bind(ibv_mw* mw, ibv_mw_type type, uint32_t rkey, const ibv_mw_bind_info& info,
              engine::SendRequest& request) {
  if (!mw) return refuse(EINVAL, "post_send: bind without a memory window");
  if (mw->type != type)
    return refuse(
        EINVAL,
        "bind: type 1 windows are bound by ibv_bind_mw, type 2 windows by a work request; "
        "this one is type {}",
        static_cast<int>(mw->type));
  if (info.mr && cast(info.mr)->region == nullptr)
    return refuse(EINVAL,
                  "bind: the region is an import, which names no memory here; bind to the "
                  "region that was registered");
  request.sges = {};
  request.bind.window = &cast(mw)->engine;
  request.bind.region = info.mr ? &cast(info.mr)->region->engine : nullptr;
  request.bind.window_serial = cast(mw)->engine.serial;
  request.bind.region_serial = info.mr ? cast(info.mr)->region->engine.serial : 0;
  request.bind.new_rkey = rkey;
  request.bind.address = info.addr;
  request.bind.length = info.length;
  request.bind.access = info.mw_access_flags;
  return 0;
}

int post_send(ibv_qp* base, ibv_send_wr* wr, ibv_send_wr** bad) {
  Qp* qp = cast(base);
  host::Process& process = host::Process::get();
  host::Process::Guard guard(process);
  engine::QueuePair* queue = qp->queue();
  int error = queue ? 0 : refuse_closed();
  Instant now = process.now();
  engine::SendRequest request;
  for (; !error && wr; wr = wr->next) {
    error = shielded([&] {
      int refused = convert(*qp, *wr, request);
      return refused ? refused : queue->post_send(now, request);
    });
    if (error) break;
    if (wr->opcode == IBV_WR_BIND_MW) wr->bind_mw.mw->rkey = wr->bind_mw.rkey;
  }
  if (error) *bad = wr;
  process.transmit();
  return error;
}

int post_bind(ibv_qp* base, ibv_mw* mw, const ibv_mw_bind& bind) {
  constexpr unsigned kKnownFlags = IBV_SEND_FENCE | IBV_SEND_SIGNALED;
  if (bind.send_flags & ~kKnownFlags)
    return refuse(EOPNOTSUPP, "ibv_bind_mw: send_flags {:#x}: fence and signaled are known",
                  bind.send_flags);
  engine::SendRequest request;
  request.wr_id = bind.wr_id;
  request.opcode = engine::WrOpcode::kBindMw;
  request.flags = bind.send_flags;
  uint32_t rkey = ibv_inc_rkey(mw->rkey);
  if (int error = fill_bind(mw, IBV_MW_TYPE_1, rkey, bind.bind_info, request)) return error;
  host::Process& process = host::Process::get();
  host::Process::Guard guard(process);
  engine::QueuePair* queue = cast(base)->queue();
  if (!queue) return refuse_closed();
  if (int error = queue->post_send(process.now(), request)) return error;
  mw->rkey = rkey;
  process.transmit();
  return 0;
}

int post_recv(ibv_qp* base, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  Qp* qp = cast(base);
  host::Process::Guard guard(host::Process::get());
  engine::QueuePair* queue = qp->queue();
  int error = queue ? 0 : refuse_closed();
  for (; !error && wr; wr = wr->next) {
    error = shielded([&] {
      if (wr->num_sge < 0)
        return refuse(EINVAL, "ibv_post_recv: QP {:#08x}: num_sge {}", base->qp_num, wr->num_sge);
      return queue->post_receive(wr->wr_id, {reinterpret_cast<const engine::Sge*>(wr->sg_list),
                                             static_cast<size_t>(wr->num_sge)});
    });
    if (error) break;
  }
  if (queue && queue->state() == engine::QpState::kErr)
    queue->flush_posted(host::Process::get().now());
  if (error) *bad = wr;
  return error;
}

}  // namespace verbena::abi
