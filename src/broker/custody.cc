// Leases change here and nowhere else.
#include "broker/custody.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include "broker/message.h"
#include "broker/multicast.h"
#include "broker/restoration.h"
#include "broker/slot_segment.h"

namespace verbena::broker {

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

Result<void> Custody::open(uint16_t port) {
  Result<void> opened = sockets_.open(port);
  return opened ? make_page() : opened;
}

Result<void> Custody::restore(uint16_t port, std::vector<Claim>& claims) {
  std::vector<SlotSockets> former;
  uint32_t last = 0;
  for (Claim& claim : claims) {
    former.push_back(std::move(claim.sockets));
    last = std::max(last, claim.request.slot);
  }
  Result<void> opened = sockets_.open_behind(port, std::move(former), last);
  if (opened) opened = make_page();
  if (!opened) return opened;
  // How often the other slots were leased nobody knows: not so often.
  const auto unused = static_cast<uint32_t>(now_ms());
  for (link::SlotRow& row : page_->rows) row.generation.store(unused, std::memory_order_relaxed);
  for (Claim& claim : claims) {
    claim.row.generation = claim.generation;
    publish(claim.request.slot, claim.request, ::geteuid(), std::move(claim.row));
    change_groups(claim.request.slot, true);
  }
  return {};
}

Result<void> Custody::make_page() {
  page_fd_.reset(::memfd_create("verbena-host", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!page_fd_.valid() || ::ftruncate(page_fd_.get(), sizeof(link::HostPage)) != 0) {
    return fail(errno, std::string("cannot make the host page: ") + std::strerror(errno));
  }
  void* memory = ::mmap(nullptr, sizeof(link::HostPage), PROT_READ | PROT_WRITE, MAP_SHARED,
                        page_fd_.get(), 0);
  if (memory == MAP_FAILED) {
    return fail(errno, std::string("cannot map the host page: ") + std::strerror(errno));
  }
  // From here on nobody else can map it writable.
  ::fcntl(page_fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE);
  page_ = static_cast<link::HostPage*>(memory);
  page_->magic = link::kHostPageMagic;
  page_->bytes = sizeof(link::HostPage);
  return {};
}

std::optional<uint32_t> Custody::lowest_free() const {
  for (uint32_t slot = link::kFirstSlot; slot <= link::kLastSlot; ++slot) {
    if (!leases_[slot].used) return slot;
  }
  return std::nullopt;
}

std::optional<uint32_t> Custody::find(uint64_t token) const {
  for (uint32_t slot = link::kFirstSlot; slot <= link::kLastSlot; ++slot) {
    if (leases_[slot].used && leases_[slot].token == token) return slot;
  }
  return std::nullopt;
}

void Custody::grant(uint32_t slot, const Request& request, uint32_t uid, LeaseRow row) {
  sockets_.drain(slot);
  row.generation = page_->rows[slot].generation.load(std::memory_order_relaxed) + 1;
  publish(slot, request, uid, std::move(row));
}

void Custody::publish(uint32_t slot, const Request& request, uint32_t uid, LeaseRow row) {
  constexpr auto relaxed = std::memory_order_relaxed;
  link::SlotRow& shown = page_->rows[slot];
  shown.pid.store(request.pid, relaxed);
  shown.uid.store(uid, relaxed);
  shown.pid_namespace.store(request.pid_namespace, relaxed);
  shown.access_class.store(request.access_class, relaxed);
  shown.start_time.store(request.start_time, relaxed);
  shown.generation.store(row.generation, std::memory_order_release);
  uint32_t local = request.local_ok ? uint32_t{link::kSlotLocalOk} : 0;
  shown.flags.store(link::kSlotAlive | local, std::memory_order_release);
  record(slot, std::move(row));
}

void Custody::record(uint32_t slot, LeaseRow row) {
  if (!leases_[slot].used) ++lease_count_;
  leases_[slot] = std::move(row);
  leases_[slot].used = true;
}

void Custody::release(uint32_t slot, bool publish) {
  if (!leases_[slot].used) return;
  if (publish) {
    page_->rows[slot].flags.store(0, std::memory_order_release);
    change_groups(slot, false);
    sockets_.drain(slot);
  }
  leases_[slot] = LeaseRow{};
  --lease_count_;
}

// pread, not a mapping: the file is sealed against shrinking, but nothing here needs to rely on it.
bool Custody::released_by_owner(uint32_t slot) const {
  uint32_t released = 0;
  ssize_t n = ::pread(leases_[slot].segment.get(), &released, sizeof(released),
                      offsetof(SegmentHeader, released));
  return n == sizeof(released) && released != 0;
}

void Custody::change_groups(uint32_t slot, bool join) {
  Membership memberships[kMaxMemberships] = {};
  ssize_t n = ::pread(leases_[slot].segment.get(), memberships, sizeof(memberships),
                      offsetof(SegmentHeader, memberships));
  if (n != sizeof(memberships)) return;
  const SlotSockets& own = sockets_.at(slot);
  for (const Membership& membership : memberships) {
    if (!membership.used) continue;
    change_membership(own.udp4.get(), own.udp6.get(), membership.group, membership.interface_index,
                      join);
  }
}

}  // namespace verbena::broker
