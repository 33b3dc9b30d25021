// Two services conflict as two TCP sockets of Linux would: same port, and an address in common.
#include "broker/ports.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace verbena::broker {
namespace {

engine::Gid address_of(const Service& service) {
  engine::Gid gid;
  std::memcpy(gid.bytes.data(), service.address, gid.bytes.size());
  return gid;
}

bool is_any(const engine::Gid& gid) {
  const size_t first = gid.is_ipv4() ? 12 : 0;
  for (size_t i = first; i < gid.bytes.size(); ++i)
    if (gid.bytes[i] != 0) return false;
  return true;
}

// Whether the service answers at `address`.
bool covers(const Service& service, const engine::Gid& address) {
  const engine::Gid own = address_of(service);
  if (own == address) return true;
  if (!is_any(own)) return false;
  return own.is_ipv4() == address.is_ipv4() ||
         (!own.is_ipv4() && (service.flags & kServiceOneFamily) == 0);
}

bool overlap(const Service& a, const Service& b) {
  return covers(a, address_of(b)) || covers(b, address_of(a));
}

}  // namespace

bool PortTable::is_free(const Service& service, bool listens, const Entry* self) const {
  auto [at, end] = entries_.equal_range(key(service.space, service.port));
  for (; at != end; ++at) {
    const Entry& other = at->second;
    if (&other == self || !overlap(service, other.service)) continue;
    const bool both_share = (service.flags & other.service.flags & kServiceReuse) != 0;
    if (!both_share || (listens && other.listens)) return false;
  }
  return true;
}

Result<uint16_t> PortTable::choose(Service service) {
  constexpr uint32_t kCount = kLastEphemeral - kFirstEphemeral + 1;
  const uint32_t start = static_cast<uint32_t>(prng_.next() % kCount);
  for (uint32_t i = 0; i < kCount; ++i) {
    service.port = static_cast<uint16_t>(kFirstEphemeral + (start + i) % kCount);
    if (entries_.count(key(service.space, service.port)) == 0) return service.port;
  }
  return fail(ENOSPC, "every ephemeral rdma_cm port of this host is in use");
}

PortTable::Entry* PortTable::find(uint32_t slot, const Service& service) {
  auto [at, end] = entries_.equal_range(key(service.space, service.port));
  for (; at != end; ++at)
    if (at->second.slot == slot && address_of(at->second.service) == address_of(service))
      return &at->second;
  return nullptr;
}

Result<uint16_t> PortTable::bind(uint32_t slot, const Service& wanted) {
  Service service = wanted;
  const bool listens = (service.flags & kServiceListens) != 0;
  const bool again = (service.flags & kServiceAgain) != 0;
  const auto in_use = [&] {
    return fail(EADDRINUSE, "rdma_cm port " + std::to_string(service.port) +
                                " is in use on this host (another listener, or a bound id)");
  };
  if (listens && !again) {
    Entry* own = find(slot, service);
    if (own == nullptr) return fail(EINVAL, "a port must be bound before it listens");
    if (!is_free(own->service, true, own)) return in_use();
    own->listens = true;
    return service.port;
  }
  if (counts_[slot] >= kMaxPerSlot)
    return fail(ENOSPC, "this process has " + std::to_string(kMaxPerSlot) + " rdma_cm ports");
  if (service.port == 0) {
    Result<uint16_t> chosen = choose(service);
    if (!chosen) return chosen;
    service.port = *chosen;
  } else if (!is_free(service, listens, nullptr)) {
    return in_use();
  }
  service.flags &= kServiceReuse | kServiceOneFamily;
  entries_.emplace(key(service.space, service.port), Entry{slot, service, listens});
  ++counts_[slot];
  return service.port;
}

void PortTable::release(uint32_t slot, const Service& service, int64_t now_ms) {
  auto [at, end] = entries_.equal_range(key(service.space, service.port));
  for (; at != end; ++at) {
    if (at->second.slot != slot || address_of(at->second.service) != address_of(service)) continue;
    if (at->second.listens) left_.push_back({at->first, slot, now_ms});
    if (left_.size() > kMaxLeft) left_.pop_front();
    entries_.erase(at);
    --counts_[slot];
    return;
  }
}

void PortTable::forget(uint32_t slot) {
  if (counts_.erase(slot) == 0) return;
  std::erase_if(entries_, [&](const auto& item) { return item.second.slot == slot; });
  std::erase_if(left_, [&](const Left& left) { return left.slot == slot; });
}

bool PortTable::just_left(uint16_t space, uint16_t port, int64_t now_ms) const {
  return std::any_of(left_.begin(), left_.end(), [&](const Left& left) {
    return left.key == key(space, port) && now_ms - left.at_ms < kLeftMs;
  });
}

std::optional<uint32_t> PortTable::owner(uint16_t space, uint16_t port,
                                         const engine::Gid& address) const {
  const Entry* best = nullptr;
  int best_rank = 0;
  auto [at, end] = entries_.equal_range(key(space, port));
  for (; at != end; ++at) {
    const Entry& entry = at->second;
    if (!covers(entry.service, address)) continue;
    const int rank = 1 + (entry.listens ? 2 : 0) + (address_of(entry.service) == address ? 1 : 0);
    if (rank <= best_rank) continue;
    best = &entry;
    best_rank = rank;
  }
  if (best == nullptr) return std::nullopt;
  return best->slot;
}

}  // namespace verbena::broker
