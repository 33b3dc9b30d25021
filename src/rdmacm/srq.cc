// Shared receive queues of an id.
#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <stddef.h>
#include <string.h>

#include "rdmacm/id.h"
#include "rdmacm/wall.h"

namespace verbena::rdmacm {
namespace {

// An XRC queue completes into a completion queue of its own; the library makes one when the program
// brings none. 0 or errno.
int make_xrc_parts(Id& id, ibv_srq_init_attr_ex& attr) {
  if ((attr.comp_mask & IBV_SRQ_INIT_ATTR_XRCD) == 0) {
    attr.xrcd = default_xrcd(id.verbs);
    if (attr.xrcd == nullptr) return errno;
    attr.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD;
  }
  if ((attr.comp_mask & IBV_SRQ_INIT_ATTR_CQ) != 0) return 0;
  if (id.recv_cq == nullptr) {
    id.recv_cq_channel = ibv_create_comp_channel(id.verbs);
    if (id.recv_cq_channel == nullptr) return errno;
    id.recv_cq =
        ibv_create_cq(id.verbs, static_cast<int>(attr.attr.max_wr), &id, id.recv_cq_channel, 0);
    if (id.recv_cq == nullptr) return errno;
  }
  attr.cq = id.recv_cq;
  attr.comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
  return 0;
}

int create_srq(Id& id, ibv_srq_init_attr_ex& attr) {
  constexpr const char* kCall = "rdma_create_srq";
  if (id.srq != nullptr) return refuse(EINVAL, kCall, "the id has a shared receive queue already");
  if (id.verbs == nullptr) return refuse(EINVAL, kCall, "the id is bound to no device");
  if ((attr.comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0) {
    attr.srq_type = IBV_SRQT_BASIC;
    attr.comp_mask |= IBV_SRQ_INIT_ATTR_TYPE;
  }
  if ((attr.comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || attr.pd == nullptr) {
    attr.pd = id.pd;
    attr.comp_mask |= IBV_SRQ_INIT_ATTR_PD;
  }
  if (attr.pd == nullptr || attr.pd->context != id.verbs)
    return refuse(EINVAL, kCall, "the protection domain is of another device than the id");
  if (attr.srq_type == IBV_SRQT_XRC)
    if (int error = make_xrc_parts(id, attr); error != 0) {
      if (id.qp == nullptr) drop_queues(id);
      return refuse(error);
    }
  id.srq = ibv_create_srq_ex(id.verbs, &attr);
  if (id.srq == nullptr) {
    const int error = errno;
    if (id.qp == nullptr) drop_queues(id);
    return refuse(error);
  }
  if (id.pd == nullptr) id.pd = attr.pd;
  return 0;
}

}  // namespace
}  // namespace verbena::rdmacm

using namespace verbena::rdmacm;

extern "C" {

int rdma_create_srq_ex(rdma_cm_id* id, ibv_srq_init_attr_ex* attr) {
  if (id == nullptr || attr == nullptr) return refuse_null(__func__);
  return shielded([&] { return create_srq(*of(id), *attr); });
}

int rdma_create_srq(rdma_cm_id* id, ibv_pd* pd, ibv_srq_init_attr* plain) {
  if (id == nullptr || plain == nullptr) return refuse_null(__func__);
  ibv_srq_init_attr_ex attr{};
  attr.srq_context = plain->srq_context;
  attr.attr = plain->attr;
  attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE;
  // The id's type says it: rdma_create_ep for XRC, then this call (rdma_xserver).
  attr.srq_type = id->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC;
  if (pd != nullptr) {
    attr.comp_mask |= IBV_SRQ_INIT_ATTR_PD;
    attr.pd = pd;
  }
  const int result = rdma_create_srq_ex(id, &attr);
  plain->attr = attr.attr;
  return result;
}

void rdma_destroy_srq(rdma_cm_id* id) {
  if (id == nullptr || id->srq == nullptr) return;
  ibv_destroy_srq(id->srq);
  id->srq = nullptr;
  if (id->qp == nullptr) drop_queues(*of(id));  // otherwise they go with it
}
}
