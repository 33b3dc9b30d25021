// Multicast attachments. The engine filters groups per queue pair; the socket of the process joins
// a group with the first attachment and leaves it with the last.
#include <algorithm>
#include <map>

#include "abi/errors.h"
#include "abi/mcast.h"
#include "abi/operations.h"
#include "abi/query.h"

namespace verbena::abi {
namespace {

// Queue pairs attached to each group the socket is a member of. Under the process lock. A forked
// child gets a socket of its own, which is a member of nothing: entries of another generation are
// the parent's.
std::map<Membership, uint32_t>& memberships() {
  static auto* instance = new std::map<Membership, uint32_t>;
  return *instance;
}

// What the device says it can hold: max_mcast_grp, max_mcast_qp_attach.
int check_room(const host::Limits& limits, const Membership& membership) {
  std::erase_if(memberships(), [](const auto& entry) {
    return entry.first.generation != host::fork_generation();
  });
  auto it = memberships().find(membership);
  if (it == memberships().end() && memberships().size() >= limits.max_mcast_grp)
    return refuse(ENOMEM, "ibv_attach_mcast: the device's max_mcast_grp = {} groups are in use",
                  limits.max_mcast_grp);
  if (it != memberships().end() && it->second >= kMulticastQpAttach)
    return refuse(ENOMEM,
                  "ibv_attach_mcast: max_mcast_qp_attach = {} queue pairs are attached to"
                  " {}",
                  kMulticastQpAttach, engine::address_text(membership.group));
  return 0;
}

int join(host::Process& process, const Membership& membership) {
  auto [it, fresh] = memberships().try_emplace(membership, 0);
  if (fresh) {
    int error = process.join_multicast(membership.group, static_cast<int>(membership.interface));
    if (error) {
      memberships().erase(it);
      return error;
    }
  }
  ++it->second;
  return 0;
}

void leave(host::Process& process, const Membership& membership) {
  if (membership.generation != host::fork_generation()) return;
  auto it = memberships().find(membership);
  if (it == memberships().end() || --it->second > 0) return;
  process.leave_multicast(membership.group, static_cast<int>(membership.interface));
  memberships().erase(it);
}

int check(const char* call, const ibv_qp& qp, const engine::Gid& group) {
  if (qp.qp_type != IBV_QPT_UD)
    return refuse(EINVAL, "{}: QP {:#08x} is not a UD queue pair", call, qp.qp_num);
  if (!group.is_multicast())
    return refuse(EINVAL, "{}: {} is not a multicast address", call, engine::address_text(group));
  return 0;
}

auto find_group(QpCore& core, const engine::Gid& group) {
  return std::find_if(core.groups.begin(), core.groups.end(),
                      [&](const Membership& each) { return each.group == group; });
}

engine::Gid group_of(const ibv_gid* gid) {
  engine::Gid group;
  std::copy_n(gid->raw, 16, group.bytes.begin());
  return group;
}

}  // namespace

void leave_groups(host::Process& process, QpCore& core) {
  for (const Membership& each : core.groups) {
    if (core.queue) process.engine().detach_multicast(core.queue, each.group);
    leave(process, each);
  }
  core.groups.clear();
}

}  // namespace verbena::abi

using namespace verbena;
using namespace verbena::abi;

extern "C" {

int ibv_attach_mcast(ibv_qp* base, const ibv_gid* gid, uint16_t) {
  return shielded([&] {
    engine::Gid group = group_of(gid);
    if (int error = check("ibv_attach_mcast", *base, group)) return error;
    auto model = model_of(base->context);
    Membership membership{group, model->ifindex, host::fork_generation()};
    QpCore& core = *cast(base)->core;
    host::Process& process = host::Process::get();
    host::Process::Guard guard(process);
    if (!core.queue) return refuse(EIO, "ibv_attach_mcast: the device was closed");
    if (find_group(core, group) != core.groups.end()) return 0;
    if (int error = check_room(model->limits, membership)) return error;
    if (int error = join(process, membership))
      return refuse(error, "ibv_attach_mcast: cannot join {} on interface {}",
                    engine::address_text(group), membership.interface);
    if (int error = process.engine().attach_multicast(core.queue, group)) {
      leave(process, membership);
      return error;
    }
    core.groups.push_back(membership);
    return 0;
  });
}

int ibv_detach_mcast(ibv_qp* base, const ibv_gid* gid, uint16_t) {
  return shielded([&] {
    engine::Gid group = group_of(gid);
    if (int error = check("ibv_detach_mcast", *base, group)) return error;
    QpCore& core = *cast(base)->core;
    host::Process& process = host::Process::get();
    host::Process::Guard guard(process);
    auto it = find_group(core, group);
    if (it == core.groups.end() || !core.queue)
      return refuse(EINVAL, "ibv_detach_mcast: QP {:#08x} is not attached to {}", base->qp_num,
                    engine::address_text(group));
    process.engine().detach_multicast(core.queue, group);
    Membership membership = *it;
    core.groups.erase(it);
    leave(process, membership);
    return 0;
  });
}

}  // extern "C"
