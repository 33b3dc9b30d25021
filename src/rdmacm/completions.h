// A completion queue whose events make a socket's descriptor readable.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "rdmacm/socket.h"

namespace verbena::rdmacm {

struct Completions {
  ibv_comp_channel* channel = nullptr;
  ibv_cq* cq = nullptr;

  // 0 or errno.
  int open(Socket& socket, ibv_context* verbs, uint32_t entries);
  void close();  // no queue pair uses it any more
  // False: there is none.
  bool take(ibv_wc& wc) { return cq != nullptr && ibv_poll_cq(cq, 1, &wc) > 0; }
  void arm();  // the channel becomes readable at the next completion
};

}  // namespace verbena::rdmacm
