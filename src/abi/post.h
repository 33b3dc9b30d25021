// Parts of a work request that ibv_post_send() and the ibv_wr_*() calls fill alike. 0 or errno.
#pragma once

#include "abi/objects.h"

namespace verbena::abi {

// IBV_SEND_IP_CSUM, the one of ibv_send_flags beside these, is for raw packets.
inline constexpr unsigned kKnownSendFlags =
    IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;

// EIO and its sentence: the queue pair of this post is gone with its device.
int refuse_closed();

int fill_datagram(ibv_ah* ah, uint32_t qpn, uint32_t qkey, engine::SendRequest& request);
int fill_bind(ibv_mw* mw, ibv_mw_type type, uint32_t rkey, const ibv_mw_bind_info& info,
              engine::SendRequest& request);

// ibv_bind_mw() of a type 1 window: a work request of its own. mw->rkey becomes the new key.
int post_bind(ibv_qp* qp, ibv_mw* mw, const ibv_mw_bind& bind);

}  // namespace verbena::abi
