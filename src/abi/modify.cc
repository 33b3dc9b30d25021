// ibv_modify_qp and ibv_query_qp: attributes between the verbs' structs and the engine's, the
// address vector resolved against the GID table, and the road chosen before RTR.
#include <algorithm>

#include "abi/errors.h"
#include "abi/operations.h"
#include "abi/query.h"

namespace verbena::abi {
namespace {

static_assert(int{IBV_QPS_RTS} == int(engine::QpState::kRts) &&
              int{IBV_QPS_ERR} == int(engine::QpState::kErr));
static_assert(int{IBV_QP_AV} == int{engine::kAttrAv} &&
              int{IBV_QP_DEST_QPN} == int{engine::kAttrDestQpn} &&
              int{IBV_QP_RATE_LIMIT} == int{engine::kAttrRateLimit} &&
              int{IBV_QP_MAX_DEST_RD_ATOMIC} == int{engine::kAttrMaxDestRdAtomic});

constexpr uint32_t kKnownMask = ((1u << 21) - 1) | IBV_QP_RATE_LIMIT;

// What the engine's types cannot hold. Everything else it checks itself.
int check_values(const ibv_qp& qp, const ibv_qp_attr& attr, uint32_t mask) {
  const char* call = "ibv_modify_qp";
  if (uint32_t unknown = mask & ~kKnownMask)
    return refuse(EOPNOTSUPP, "{}: QP {:#08x}: attr_mask {:#x} has unknown bits {:#x}", call,
                  qp.qp_num, mask, unknown);
  if ((mask & IBV_QP_STATE) && attr.qp_state > IBV_QPS_ERR)
    return refuse(EINVAL, "{}: QP {:#08x}: qp_state {}", call, qp.qp_num,
                  static_cast<int>(attr.qp_state));
  if ((mask & IBV_QP_CUR_STATE) && attr.cur_qp_state > IBV_QPS_ERR)
    return refuse(EINVAL, "{}: QP {:#08x}: cur_qp_state {}", call, qp.qp_num,
                  static_cast<int>(attr.cur_qp_state));
  // Programs pass a region's flags along: those that say nothing of a queue pair do no harm.
  constexpr uint32_t kQpAccess =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
      IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND |
      IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE | kAccessFlushGlobal | kAccessFlushPersistent;
  uint32_t unknown = mask & IBV_QP_ACCESS_FLAGS ? attr.qp_access_flags & ~kQpAccess : 0;
  if (unknown)
    return refuse(EOPNOTSUPP, "{}: QP {:#08x}: qp_access_flags {:#x} has unknown bits {:#x}", call,
                  qp.qp_num, attr.qp_access_flags, unknown);
  return 0;
}

// A value of a wider type, kept wrong when it is.
template <typename Wide>
uint8_t narrow(Wide value) {
  return static_cast<uint8_t>(std::min<uint32_t>(static_cast<uint32_t>(value), UINT8_MAX));
}

engine::QpAttributes engine_attributes(const ibv_qp_attr& attr, uint32_t mask) {
  engine::QpAttributes to;
  to.state = static_cast<engine::QpState>(mask & IBV_QP_STATE ? attr.qp_state : 0);
  to.current_state = static_cast<engine::QpState>(mask & IBV_QP_CUR_STATE ? attr.cur_qp_state : 0);
  to.path_mtu = narrow(attr.path_mtu);
  to.path_mig_state = static_cast<engine::MigState>(narrow(attr.path_mig_state));
  to.qkey = attr.qkey;
  to.rq_psn = attr.rq_psn;
  to.sq_psn = attr.sq_psn;
  to.dest_qpn = attr.dest_qp_num;
  to.access = attr.qp_access_flags;
  to.pkey_index = attr.pkey_index;
  to.sqd_async_notify = attr.en_sqd_async_notify != 0;
  to.max_rd_atomic = attr.max_rd_atomic;
  to.max_dest_rd_atomic = attr.max_dest_rd_atomic;
  to.min_rnr_timer = attr.min_rnr_timer;
  to.port = attr.port_num;
  to.timeout = attr.timeout;
  to.retry_cnt = attr.retry_cnt;
  to.rnr_retry = attr.rnr_retry;
  if (mask & IBV_QP_RATE_LIMIT) to.rate_limit = attr.rate_limit;
  return to;
}

bool is_connected(const engine::QueuePair& queue) {
  return queue.type() != engine::QpType::kUd;
}

// Locked. Chooses the road of a connected queue pair that gets its address vector. A forked child's
// copy of its parent's gets none: modify() refuses it, and the child may have no links to ask.
int choose_path(host::Process& process, const engine::QueuePair& queue, uint32_t mask,
                engine::QpAttributes& wanted) {
  if (!(mask & IBV_QP_AV) || !is_connected(queue) || queue.abandoned()) {
    wanted.path = queue.attributes().path;
    return 0;
  }
  uint32_t peer = mask & IBV_QP_DEST_QPN ? wanted.dest_qpn : queue.attributes().dest_qpn;
  auto path = process.choose_path(wanted.route, peer);
  if (!path)
    return refuse(path.error().code, "ibv_modify_qp: QP {:#08x}: {}", queue.qpn(),
                  path.error().message);
  wanted.path = *path;
  return 0;
}

// The port of an InfiniBand personality knows its peers by LID: the last two bytes of an address.
int route_from_lid(const char* call, const host::DeviceModel& model, const ibv_ah_attr& attr,
                   engine::AddressVector& route) {
  route.destination = model.gid_of_lid(attr.dlid);
  if (route.destination == engine::Gid{})
    return refuse(EINVAL, "{}: is_global is 0 and dlid is 0; give the peer's LID", call);
  route.source_gid_index = static_cast<uint8_t>(model.lid_gid_index());
  route.source = model.gids[route.source_gid_index].gid;
  route.service_level = attr.sl;
  route.port = attr.port_num;
  return 0;
}

}  // namespace

int route_from_attr(const char* call, ibv_context* context, const ibv_ah_attr& attr,
                    engine::AddressVector& route) {
  auto model = model_of(context);
  if (!attr.is_global && model->lid() == 0)
    return refuse(EINVAL,
                  "{}: is_global is 0; RoCE needs a GRH: set is_global = 1, grh.dgid and "
                  "grh.sgid_index. For programs that know LIDs only (qperf without rdma_cm), "
                  "configure the device with `lid = true`, see docs/devices.md",
                  call);
  if (attr.port_num != 1)
    return refuse(EINVAL, "{}: port_num {}; the device has port 1", call, attr.port_num);
  if (!attr.is_global) return route_from_lid(call, *model, attr, route);
  if (attr.grh.sgid_index >= model->gids.size() || model->gids[attr.grh.sgid_index].empty())
    return refuse(EINVAL,
                  "{}: sgid_index {} holds no GID; {} has {} entries (see "
                  "`ibv_devinfo -v`)",
                  call, attr.grh.sgid_index, model->name, model->gids.size());
  route.source = model->gids[attr.grh.sgid_index].gid;
  std::copy_n(attr.grh.dgid.raw, 16, route.destination.bytes.begin());
  if (route.destination == engine::Gid{})
    return refuse(EINVAL, "{}: grh.dgid is zero; give the peer's GID", call);
  if (route.source.is_ipv4() != route.destination.is_ipv4())
    return refuse(EINVAL,
                  "{}: sgid_index {} is {} but grh.dgid is {}; choose a source GID of the "
                  "peer's family",
                  call, attr.grh.sgid_index, engine::address_text(route.source),
                  engine::address_text(route.destination));
  route.flow_label = attr.grh.flow_label & 0xfffff;
  route.hop_limit = attr.grh.hop_limit;
  route.traffic_class = attr.grh.traffic_class;
  route.source_gid_index = attr.grh.sgid_index;
  route.service_level = attr.sl;
  route.port = attr.port_num;
  return 0;
}

void attr_from_route(const engine::AddressVector& route, bool is_global, ibv_ah_attr& attr) {
  attr = {};
  attr.sl = route.service_level;
  attr.port_num = route.port;
  if (!is_global) {
    const auto& bytes = route.destination.bytes;
    attr.dlid = static_cast<uint16_t>(bytes[14] << 8 | bytes[15]);
    return;
  }
  attr.is_global = 1;
  std::copy_n(route.destination.bytes.begin(), 16, attr.grh.dgid.raw);
  attr.grh.flow_label = route.flow_label;
  attr.grh.sgid_index = route.source_gid_index;
  attr.grh.hop_limit = route.hop_limit;
  attr.grh.traffic_class = route.traffic_class;
}

}  // namespace verbena::abi

using namespace verbena;
using namespace verbena::abi;

extern "C" {

int ibv_modify_qp(ibv_qp* base, ibv_qp_attr* attr, int attr_mask) {
  return shielded([&] {
    auto mask = static_cast<uint32_t>(attr_mask);
    if (int error = check_values(*base, *attr, mask)) return error;
    engine::QpAttributes wanted = engine_attributes(*attr, mask);
    if (mask & IBV_QP_AV) {
      if (int error = route_from_attr("ibv_modify_qp", base->context, attr->ah_attr, wanted.route))
        return error;
      wanted.route_is_global = attr->ah_attr.is_global != 0;
    }
    host::Process& process = host::Process::get();
    host::Process::Guard guard(process);
    engine::QueuePair* queue = cast(base)->queue();
    if (!queue) return refuse(EIO, "ibv_modify_qp: the device was closed");
    if (int error = choose_path(process, *queue, mask, wanted)) return error;
    if (auto done = queue->modify(process.now(), wanted, mask); !done)
      return refuse(done.error().code, "ibv_modify_qp: QP {:#08x}: {}", base->qp_num,
                    done.error().message);
    base->state = static_cast<ibv_qp_state>(queue->state());
    process.transmit();
    return 0;
  });
}

int ibv_query_qp(ibv_qp* base, ibv_qp_attr* attr, int, ibv_qp_init_attr* init) {
  Qp* qp = cast(base);
  engine::QpAttributes from;
  int closed = shielded([&] {
    host::Process::Guard guard(host::Process::get());
    if (!qp->queue()) return refuse(EIO, "ibv_query_qp: the device was closed");
    from = qp->queue()->current_attributes();
    return 0;
  });
  if (closed) return closed;
  *attr = {};
  attr->qp_state = attr->cur_qp_state = static_cast<ibv_qp_state>(from.state);
  attr->path_mtu = static_cast<ibv_mtu>(from.path_mtu);
  attr->path_mig_state = static_cast<ibv_mig_state>(from.path_mig_state);
  attr->qkey = from.qkey;
  attr->rq_psn = from.rq_psn;
  attr->sq_psn = from.sq_psn;
  attr->dest_qp_num = from.dest_qpn;
  attr->qp_access_flags = from.access;
  attr->cap = qp->cap;
  attr_from_route(from.route, from.route_is_global, attr->ah_attr);
  attr->pkey_index = from.pkey_index;
  attr->en_sqd_async_notify = from.sqd_async_notify;
  attr->max_rd_atomic = from.max_rd_atomic;
  attr->max_dest_rd_atomic = from.max_dest_rd_atomic;
  attr->min_rnr_timer = from.min_rnr_timer;
  attr->port_num = from.port;
  attr->timeout = from.timeout;
  attr->retry_cnt = from.retry_cnt;
  attr->rnr_retry = from.rnr_retry;
  attr->rate_limit = from.rate_limit;
  *init = {};
  init->qp_context = base->qp_context;
  init->send_cq = base->send_cq;
  init->recv_cq = base->recv_cq;
  init->srq = base->srq;
  init->cap = qp->cap;
  init->qp_type = base->qp_type;
  init->sq_sig_all = qp->signal_all;
  base->state = attr->qp_state;
  return 0;
}

// Delivery order of bytes inside a message is not promised: a copy may fill it in any order.
int ibv_query_qp_data_in_order(ibv_qp*, ibv_wr_opcode, uint32_t) {
  return 0;
}

}  // extern "C"
