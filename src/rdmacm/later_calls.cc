// Calls that exist so that programs load, and say honestly that they do nothing here: options that
// adapters negotiate (ECE), and the calls of rdma-core v60 that need its address service.
#include <errno.h>

#include "rdmacm/id.h"
#include "rdmacm/wall.h"

using namespace verbena::rdmacm;

namespace {

int unsupported(const char* call, const char* why) {
  return shielded([&] { return refuse(EOPNOTSUPP, call, why); });
}

}  // namespace

extern "C" {

int rdma_set_local_ece(rdma_cm_id* id, ibv_ece* ece) {
  if (id == nullptr || ece == nullptr || id->qp != nullptr) return refuse(EINVAL);
  return unsupported("rdma_set_local_ece", "this device has no vendor options to negotiate");
}

// A peer's options would be of another vendor's device: none that this one could use.
int rdma_get_remote_ece(rdma_cm_id* id, ibv_ece* ece) {
  if (id == nullptr || ece == nullptr || id->qp != nullptr) return refuse(EINVAL);
  *ece = {};
  return 0;
}

int rdma_resolve_addrinfo(rdma_cm_id* id, const char*, const char*, const rdma_addrinfo*) {
  if (id == nullptr) return refuse_null(__func__);
  return unsupported("rdma_resolve_addrinfo", "use rdma_getaddrinfo and rdma_resolve_addr");
}

int rdma_query_addrinfo(rdma_cm_id* id, rdma_addrinfo** info) {
  if (id == nullptr || info == nullptr) return refuse(EINVAL);
  *info = nullptr;
  return unsupported("rdma_query_addrinfo", "use rdma_getaddrinfo and rdma_resolve_addr");
}

int rdma_write_cm_event(rdma_cm_id* id, rdma_cm_event_type, int, uint64_t) {
  if (id == nullptr) return refuse_null(__func__);
  return unsupported("rdma_write_cm_event", "programs cannot put events of their own in a channel");
}
}
