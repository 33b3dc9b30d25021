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
    return fail(EINVAL, fmt::format("an {} queue pair cannot go from {} to {}", name(type),
                                    name(from), name(to)));
  uint32_t given = mask & ~kAttrState;
  if (uint32_t missing = rule.required & ~given)
    return fail(EINVAL, fmt::format("{} {} -> {}: {} is required and not in attr_mask", name(type),
                                    name(from), name(to), attribute_name(missing)));
  if (uint32_t extra = given & ~(rule.required | rule.optional))
    return fail(EINVAL, fmt::format("{} {} -> {}: {} is not allowed in this transition", name(type),
                                    name(from), name(to), attribute_name(extra)));
  return {};
}

// Wrong whatever the state: of each attribute given, what is right and why this is not.
Result<void> check_values(const QpInit& init, const QpAttributes& a, uint32_t mask) {
  if ((mask & kAttrPort) && a.port != 1)
    return fail(EINVAL,
                fmt::format("IBV_QP_PORT {} does not exist; the device has port 1", a.port));
  if ((mask & kAttrPkeyIndex) && a.pkey_index != 0)
    return fail(EINVAL, fmt::format("IBV_QP_PKEY_INDEX {} is outside the P_Key table; RoCE has one"
                                    " entry, index 0",
                                    a.pkey_index));
  if ((mask & kAttrQkey) && (a.qkey & kPrivilegedQkey))
    return fail(EPERM, fmt::format("IBV_QP_QKEY {:#x} has bit 31 set, which only a privileged"
                                   " consumer may use",
                                   a.qkey));
  if ((mask & kAttrPathMtu) && (a.path_mtu < 1 || a.path_mtu > 5))
    return fail(EINVAL,
                fmt::format("IBV_QP_PATH_MTU code {} is not 1..5 (256..4096 bytes)", a.path_mtu));
  if ((mask & kAttrPathMtu) && path_mtu_bytes(a.path_mtu) > init.port_mtu)
    return fail(EINVAL, fmt::format("IBV_QP_PATH_MTU {} bytes is above the {} that the port"
                                    " carries (its interface's MTU less the headers)",
                                    path_mtu_bytes(a.path_mtu), init.port_mtu));
  if ((mask & kAttrAltPath) ||
      ((mask & kAttrPathMigState) && a.path_mig_state != MigState::kMigrated))
    return fail(EOPNOTSUPP,
                fmt::format("{}: this device has one port and no automatic path migration",
                            attribute_name(mask & (kAttrAltPath | kAttrPathMigState))));
  if ((mask & kAttrRateLimit) && a.rate_limit != 0)
    return fail(EOPNOTSUPP, "IBV_QP_RATE_LIMIT: packet pacing is not offered");
  if (mask & kAttrCap) return fail(EOPNOTSUPP, "IBV_QP_CAP: work queues are not resized");
  if (init.type == QpType::kUd && (mask & kAttrAccessFlags))
    return fail(EINVAL, "IBV_QP_ACCESS_FLAGS has no meaning for UD");
  struct Limit {
    uint32_t attribute, value, most;
  };
  for (const Limit& limit : {Limit{kAttrTimeout, a.timeout, 31},
                             {kAttrRetryCnt, a.retry_cnt, 7},
                             {kAttrRnrRetry, a.rnr_retry, 7},
                             {kAttrMinRnrTimer, a.min_rnr_timer, 31},
                             {kAttrMaxQpRdAtomic, a.max_rd_atomic, init.max_rd_atomic},
                             {kAttrMaxDestRdAtomic, a.max_dest_rd_atomic, init.max_dest_rd_atomic},
                             {kAttrDestQpn, a.dest_qpn, kPsnMask}})
    if ((mask & limit.attribute) && limit.value > limit.most)
      return fail(EINVAL, fmt::format("{} {} is above {}", attribute_name(limit.attribute),
                                      limit.value, limit.most));
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
    to.route_is_global = from.route_is_global;
    to.path = from.path;
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
                "the queue pair belongs to the process that forked this one; create"
                " another here");
  mask = without_other_half(type(), mask);
  QpState from = state();
  if (mask & kAttrCurState) {
    if (wanted.current_state != from)
      return fail(EINVAL, fmt::format("IBV_QP_CUR_STATE says {}, the queue pair is in"
                                      " {}",
                                      name(wanted.current_state), name(from)));
    if (from != QpState::kRtr && from != QpState::kRts && from != QpState::kSqd &&
        from != QpState::kSqe)
      return fail(EINVAL, fmt::format("IBV_QP_CUR_STATE is not allowed in {}", name(from)));
  }
  QpState to = (mask & kAttrState) ? wanted.state : from;
  if (auto checked = check_values(init_, wanted, mask); !checked) return checked;
  if (auto checked = check_mask(type(), from, to, mask); !checked) return checked;
  if ((mask & kAttrAv) && from != QpState::kInit && wanted.path != attributes_.path)
    return fail(EINVAL,
                "IBV_QP_AV leads over another road (shared memory, UDP) than before; the road is"
                " fixed once packets can flow, as both ends count PSNs by it. Take the queue pair"
                " through RESET to move it");
  copy_attributes(attributes_, wanted, mask);

  if (to == QpState::kReset) {
    reset();
    return {};
  }
  if (to == QpState::kErr) {
    enter_error(now, "ibv_modify_qp to ERR");
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
