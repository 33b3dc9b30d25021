// ibv_modify_qp: the transition table, then the values, then the change. Every refusal names the
// attribute and what would be right.
#include <cerrno>

#include <fmt/format.h>

#include "engine/device.h"
#include "engine/queue_pair.h"
#include "engine/transitions.h"

namespace verbena::engine {

namespace {

Result<void> check_mask(QpType type, QpState from, QpState to, uint32_t mask) {
  Transition rule = transition(type, from, to);
  if (!rule.allowed)
    return fail(EINVAL, fmt::format("modify_qp: an {} queue pair cannot go from {} to {}",
                                    name(type), name(from), name(to)));
  uint32_t given = mask & ~kAttrState;
  if (uint32_t missing = rule.required & ~given)
    return fail(EINVAL, fmt::format("modify_qp {} {} -> {}: {} is required and not in attr_mask",
                                    name(type), name(from), name(to), attribute_name(missing)));
  if (uint32_t extra = given & ~(rule.required | rule.optional))
    return fail(EINVAL, fmt::format("modify_qp {} {} -> {}: {} is not allowed in this transition",
                                    name(type), name(from), name(to), attribute_name(extra)));
  return {};
}

Result<void> check_route(const QpAttributes& a) {
  if (!a.route_is_global)
    return fail(EINVAL,
                "modify_qp: IBV_QP_AV has ah_attr.is_global 0; RoCE needs a GRH: set is_global = 1,"
                " grh.dgid to the peer's GID and grh.sgid_index to yours");
  if (a.route.destination == Gid{})
    return fail(EINVAL, "modify_qp: IBV_QP_AV has an all-zero grh.dgid; use the peer's GID");
  if (a.route.source == Gid{})
    return fail(EINVAL, "modify_qp: IBV_QP_AV grh.sgid_index names an empty GID table entry");
  return {};
}

Result<void> check_values(const Device& device, QpType type, const QpAttributes& a, uint32_t mask) {
  const DeviceOptions& options = device.options();
  if ((mask & kAttrPort) && a.port != 1)
    return fail(EINVAL, fmt::format("modify_qp: IBV_QP_PORT {} does not exist; the device has"
                                    " port 1",
                                    a.port));
  if ((mask & kAttrPkeyIndex) && a.pkey_index != 0)
    return fail(EINVAL, fmt::format("modify_qp: IBV_QP_PKEY_INDEX {} is outside the P_Key table,"
                                    " which has one entry",
                                    a.pkey_index));
  if ((mask & kAttrQkey) && (a.qkey & 0x80000000u))
    return fail(EPERM, fmt::format("modify_qp: IBV_QP_QKEY {:#x} has bit 31 set, which only a"
                                   " privileged consumer may use",
                                   a.qkey));
  if (mask & kAttrPathMtu) {
    if (a.path_mtu < 1 || a.path_mtu > 5)
      return fail(EINVAL, fmt::format("modify_qp: IBV_QP_PATH_MTU code {} is not 1..5"
                                      " (256..4096 bytes)",
                                      a.path_mtu));
    if (path_mtu_bytes(a.path_mtu) > options.port_mtu)
      return fail(EINVAL, fmt::format("modify_qp: IBV_QP_PATH_MTU {} bytes is above the port's"
                                      " active MTU of {}",
                                      path_mtu_bytes(a.path_mtu), options.port_mtu));
  }
  if (mask & kAttrAv)
    if (auto checked = check_route(a); !checked) return checked;
  if ((mask & kAttrTimeout) && a.timeout > 31)
    return fail(EINVAL, fmt::format("modify_qp: IBV_QP_TIMEOUT {} is above 31", a.timeout));
  if ((mask & kAttrRetryCnt) && a.retry_cnt > 7)
    return fail(EINVAL, fmt::format("modify_qp: IBV_QP_RETRY_CNT {} is above 7", a.retry_cnt));
  if ((mask & kAttrRnrRetry) && a.rnr_retry > 7)
    return fail(EINVAL, fmt::format("modify_qp: IBV_QP_RNR_RETRY {} is above 7", a.rnr_retry));
  if ((mask & kAttrMinRnrTimer) && a.min_rnr_timer > 31)
    return fail(EINVAL,
                fmt::format("modify_qp: IBV_QP_MIN_RNR_TIMER {} is above 31", a.min_rnr_timer));
  if ((mask & kAttrMaxQpRdAtomic) && a.max_rd_atomic > options.max_rd_atomic)
    return fail(EINVAL, fmt::format("modify_qp: IBV_QP_MAX_QP_RD_ATOMIC {} is above the device's"
                                    " {}",
                                    a.max_rd_atomic, options.max_rd_atomic));
  if ((mask & kAttrMaxDestRdAtomic) && a.max_dest_rd_atomic > options.max_rd_atomic)
    return fail(EINVAL, fmt::format("modify_qp: IBV_QP_MAX_DEST_RD_ATOMIC {} is above the"
                                    " device's {}",
                                    a.max_dest_rd_atomic, options.max_rd_atomic));
  if ((mask & kAttrDestQpn) && a.dest_qpn > kPsnMask)
    return fail(EINVAL,
                fmt::format("modify_qp: IBV_QP_DEST_QPN {:#x} does not fit 24 bits", a.dest_qpn));
  if (mask & kAttrAltPath)
    return fail(EOPNOTSUPP,
                "modify_qp: IBV_QP_ALT_PATH: this device has one port and no"
                " automatic path migration");
  if ((mask & kAttrPathMigState) && a.path_mig_state != MigState::kMigrated)
    return fail(EOPNOTSUPP,
                "modify_qp: IBV_QP_PATH_MIG_STATE: this device has no automatic path"
                " migration; only MIGRATED");
  if ((mask & kAttrRateLimit) && a.rate_limit != 0)
    return fail(EOPNOTSUPP, "modify_qp: IBV_QP_RATE_LIMIT: packet pacing is not offered");
  if (type == QpType::kUd && (mask & kAttrAccessFlags))
    return fail(EINVAL, "modify_qp: IBV_QP_ACCESS_FLAGS has no meaning for UD");
  return {};
}

void copy_attributes(QpAttributes& to, const QpAttributes& from, uint32_t mask) {
  if (mask & kAttrEnSqdAsyncNotify) to.sqd_async_notify = from.sqd_async_notify;
  if (mask & kAttrAccessFlags) to.access = from.access;
  if (mask & kAttrPkeyIndex) to.pkey_index = from.pkey_index;
  if (mask & kAttrPort) to.port = from.port;
  if (mask & kAttrQkey) to.qkey = from.qkey;
  if (mask & kAttrPathMtu) to.path_mtu = from.path_mtu;
  if (mask & kAttrTimeout) to.timeout = from.timeout;
  if (mask & kAttrRetryCnt) to.retry_cnt = from.retry_cnt;
  if (mask & kAttrRnrRetry) to.rnr_retry = from.rnr_retry;
  if (mask & kAttrRqPsn) to.rq_psn = from.rq_psn & kPsnMask;
  if (mask & kAttrSqPsn) to.sq_psn = from.sq_psn & kPsnMask;
  if (mask & kAttrMaxQpRdAtomic) to.max_rd_atomic = from.max_rd_atomic;
  if (mask & kAttrMaxDestRdAtomic) to.max_dest_rd_atomic = from.max_dest_rd_atomic;
  if (mask & kAttrMinRnrTimer) to.min_rnr_timer = from.min_rnr_timer;
  if (mask & kAttrDestQpn) to.dest_qpn = from.dest_qpn & kPsnMask;
  if (mask & kAttrAv) {
    to.route = from.route;
    to.route_is_global = true;
    // The road is fixed once packets can flow: both ends count PSNs by it.
    if (to.state == QpState::kInit) to.path = from.path;
  }
}

// Half of an XRC queue pair has no use for the other half's attributes; programs give them all the
// same, and the kernel's verbs take them out before they look.
uint32_t without_other_half(QpType type, uint32_t mask) {
  if (type == QpType::kXrcSend) return mask & ~(kAttrMaxDestRdAtomic | kAttrMinRnrTimer);
  if (type == QpType::kXrcRecv) return mask & ~(kAttrMaxQpRdAtomic | kAttrRetryCnt | kAttrRnrRetry);
  return mask;
}

}  // namespace

Result<void> QueuePair::modify(Instant now, const QpAttributes& wanted, uint32_t mask) {
  if (abandoned_)
    return fail(EIO,
                "modify_qp: the queue pair belongs to the process that forked this one; create"
                " another here");
  mask = without_other_half(type(), mask);
  QpState from = state();
  if (mask & kAttrCurState) {
    if (wanted.current_state != from)
      return fail(EINVAL, fmt::format("modify_qp: IBV_QP_CUR_STATE says {}, the queue pair is in"
                                      " {}",
                                      name(wanted.current_state), name(from)));
    if (from != QpState::kRtr && from != QpState::kRts && from != QpState::kSqd &&
        from != QpState::kSqe)
      return fail(EINVAL,
                  fmt::format("modify_qp: IBV_QP_CUR_STATE is not allowed in {}", name(from)));
  }
  QpState to = (mask & kAttrState) ? wanted.state : from;
  if (auto checked = check_mask(type(), from, to, mask); !checked) return checked;
  if (auto checked = check_values(device_, type(), wanted, mask); !checked) return checked;
  copy_attributes(attributes_, wanted, mask);

  if (to == QpState::kReset) {
    reset();
    return {};
  }
  if (to == QpState::kErr) {
    enter_error(now);
    return {};
  }
  attributes_.state = to;
  if (from == QpState::kInit && to == QpState::kRtr)
    responder_.start(Psn(attributes_.rq_psn), attributes_.max_dest_rd_atomic);
  if (from == QpState::kRtr && to == QpState::kRts) {
    requester_.start(Psn(attributes_.sq_psn));
    datagram_psn_ = Psn(attributes_.sq_psn);
  }
  if (from == QpState::kSqd && (mask & kAttrMaxDestRdAtomic))
    responder_.resize(attributes_.max_dest_rd_atomic);
  if (mask & (kAttrRetryCnt | kAttrRnrRetry)) requester_.reload_retries();
  if (from == QpState::kRts && to == QpState::kSqd) {
    if (!(mask & kAttrEnSqdAsyncNotify)) attributes_.sqd_async_notify = false;
    if (requester_.drained()) requester_.report_drained();
  }
  wake();
  return {};
}

}  // namespace verbena::engine
