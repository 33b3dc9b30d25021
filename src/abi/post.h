// Parts of a work request that ibv_post_send() and the ibv_wr_*() calls fill alike. 0 or errno.
#pragma once

#include "abi/objects.h"

namespace verbena::abi {

int fill_datagram(ibv_ah* ah, uint32_t qpn, uint32_t qkey, engine::SendRequest& request);
int fill_bind(ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info& info,
              engine::SendRequest& request);

}  // namespace verbena::abi
