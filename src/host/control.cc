// Slow-path questions of the Door: which road a queue pair takes, what same-host peers may still
// read, which multicast groups reach this process.
#include <errno.h>

#include "host/process.h"
#include "host/process_state.h"
#include "link/host_page.h"
#include "link/slot.h"

namespace verbena::host {

Result<engine::Path> Process::choose_path(const engine::AddressVector& route,
                                          uint32_t destination_qpn) {
  if (!links_) return fail(ENOTCONN, "no links: attach() comes before a queue pair is connected");
  State& state = *state_;
  uint32_t scope = 0;
  if (route.source.is_link_local()) scope = state.addresses.interface_of(route.source);
  Result<void> routed = check_route(route, scope);
  if (!routed) return tl::unexpected<Error>(routed.error());
  bool own = !route.destination.is_multicast() && state.addresses.contains_now(route.destination);
  if (!own || !links_->eligible(destination_qpn)) return engine::Path::kWire;
  if (Result<void> road = links_->prepare(destination_qpn); !road)
    return tl::unexpected<Error>(road.error());
  return engine::Path::kLocal;
}

void Process::revoke(engine::QueuePair& qp) {
  if (links_) links_->revoke(qp.qpn());
}

void Process::destroy(engine::QueuePair* qp) {
  revoke(*qp);
  engine_->forget(qp);
  engine_->destroy_qp(qp);
}

void Process::publish_key(uint32_t key) {
  std::vector<uint32_t>& keys = state_->keys;
  uint32_t index = memory::key_index(key);
  if (index >= keys.size()) keys.resize(index + 1);
  keys[index] = key;
  if (links_) links_->publish_key(key);
}

void Process::withdraw_key(uint32_t key) {
  std::vector<uint32_t>& keys = state_->keys;
  uint32_t index = memory::key_index(key);
  if (index < keys.size() && keys[index] == key) keys[index] = 0;
  if (links_) links_->withdraw_key(key);
}

int Process::join_multicast(const engine::Gid& group, int interface_index) {
  return links_ ? links_->join(group, static_cast<uint32_t>(interface_index)) : ENOTCONN;
}

int Process::leave_multicast(const engine::Gid& group, int interface_index) {
  return links_ ? links_->leave(group, static_cast<uint32_t>(interface_index)) : ENOTCONN;
}

}  // namespace verbena::host
