// Multicast groups of an id. On RoCE nobody is asked to let us in: the queue pair is attached and
// the host's IGMP or MLD does the rest, when the program takes the event (rdma_join_multicast(3)).
#include <errno.h>

#include <algorithm>

#include "rdmacm/id.h"
#include "rdmacm/wall.h"

namespace verbena::rdmacm {
namespace {

constexpr uint32_t kMulticastQpn = 0xffffff;
constexpr uint8_t kMulticastHops = 1;  // as Linux
constexpr uint32_t kKnownMask = RDMA_CM_JOIN_MC_ATTR_RESERVED - 1;

void detach(Group& group) {
  if (!group.attached || group.qp == nullptr) return;
  const ibv_gid gid = to_verbs(group.gid);
  ibv_detach_mcast(group.qp, &gid, 0);
  group.attached = false;
}

int join(Id& id, const char* call, const sockaddr* address, uint32_t flags, void* context) {
  if (id.verbs == nullptr)
    return refuse(EINVAL, call, "the id is bound to no device; bind or resolve an address first");
  if (id.type() != IBV_QPT_UD)
    return refuse(EINVAL, call, "multicast is for datagram ids (RDMA_PS_UDP, RDMA_PS_IPOIB)");
  std::optional<engine::Gid> gid = gid_of(address);
  if (!gid || !gid->is_multicast())
    return refuse(EINVAL, call, "the address is no multicast group of IPv4 or IPv6");
  Group group;
  group.gid = *gid;
  group.context = context;
  const bool receives = flags == RDMA_MC_JOIN_FLAG_FULLMEMBER;
  group.qp = receives ? id.qp : nullptr;
  id.groups.push_back(group);
  auto record = std::make_unique<Record>();
  record->id = record->owner = &id;
  record->event = RDMA_CM_EVENT_MULTICAST_JOIN;
  record->group = *gid;
  rdma_ud_param& ud = record->param.ud;
  ud.private_data = context;
  ud.qp_num = kMulticastQpn;
  ud.qkey = RDMA_UDP_QKEY;
  ud.ah_attr = address_handle(id, *gid);
  ud.ah_attr.grh.hop_limit = kMulticastHops;
  {
    Lock lock(library());
    push(id, std::move(record));
  }
  return complete(id);
}

}  // namespace

void act_on_join(Record& record) {
  Id& id = *of(record.id);
  for (Group& group : id.groups) {
    if (group.gid != *record.group || group.attached || group.qp == nullptr || id.qp != group.qp)
      continue;
    const ibv_gid gid = to_verbs(group.gid);
    if (int error = ibv_attach_mcast(id.qp, &gid, 0); error != 0) {
      record.event = RDMA_CM_EVENT_MULTICAST_ERROR;
      record.status = -error;
    } else {
      group.attached = true;
    }
  }
}

void leave_all_groups(Id& id) {
  for (Group& group : id.groups)
    if (group.qp == id.qp) detach(group);  // else the queue pair went before, with its groups
  id.groups.clear();
}

}  // namespace verbena::rdmacm

using namespace verbena::rdmacm;

extern "C" {

int rdma_join_multicast(rdma_cm_id* id, sockaddr* address, void* context) {
  if (id == nullptr || address == nullptr) return refuse_null(__func__);
  return shielded([&] {
    return join(*of(id), "rdma_join_multicast", address, RDMA_MC_JOIN_FLAG_FULLMEMBER, context);
  });
}

int rdma_join_multicast_ex(rdma_cm_id* id, rdma_cm_join_mc_attr_ex* attr, void* context) {
  constexpr const char* kCall = "rdma_join_multicast_ex";
  if (id == nullptr || attr == nullptr) return refuse_null(__func__);
  return shielded([&] {
    if ((attr->comp_mask & ~kKnownMask) != 0)
      return refuse(EOPNOTSUPP, kCall, "comp_mask names a field that is not known here");
    if ((attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_ADDRESS) == 0 || attr->addr == nullptr)
      return refuse(EINVAL, kCall, "comp_mask does not name the address");
    uint32_t flags = RDMA_MC_JOIN_FLAG_FULLMEMBER;
    if ((attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS) != 0) flags = attr->join_flags;
    if (flags >= RDMA_MC_JOIN_FLAG_RESERVED)
      return refuse(EINVAL, kCall, "join_flags has an unknown value");
    return join(*of(id), kCall, attr->addr, flags, context);
  });
}

int rdma_leave_multicast(rdma_cm_id* base, sockaddr* address) {
  constexpr const char* kCall = "rdma_leave_multicast";
  if (base == nullptr || address == nullptr) return refuse_null(__func__);
  return shielded([&] {
    Id& id = *of(base);
    std::optional<verbena::engine::Gid> gid = gid_of(address);
    auto group = std::find_if(id.groups.begin(), id.groups.end(),
                              [&](const Group& each) { return gid && each.gid == *gid; });
    if (group == id.groups.end())
      return refuse(EADDRNOTAVAIL, kCall, "the id has not joined this group");
    if (group->qp == id.qp) detach(*group);
    id.groups.erase(group);
    return 0;
  });
}
}
