// Completion queues of sockets.
#include "rdmacm/completions.h"

#include <errno.h>

namespace verbena::rdmacm {

int Completions::open(Socket& socket, ibv_context* verbs, uint32_t entries) {
  channel = ibv_create_comp_channel(verbs);
  if (channel == nullptr) return errno;
  cq = ibv_create_cq(verbs, static_cast<int>(entries), nullptr, channel, 0);
  if (cq == nullptr) return errno;
  return socket.watch(channel->fd);
}

void Completions::close() {
  if (cq != nullptr) ibv_destroy_cq(cq);
  if (channel != nullptr) ibv_destroy_comp_channel(channel);
  cq = nullptr;
  channel = nullptr;
}

void Completions::arm() {
  if (cq == nullptr) return;
  ibv_cq* which = nullptr;
  void* context = nullptr;
  while (ibv_get_cq_event(channel, &which, &context) == 0) ibv_ack_cq_events(which, 1);
  ibv_req_notify_cq(cq, 0);
}

}  // namespace verbena::rdmacm
