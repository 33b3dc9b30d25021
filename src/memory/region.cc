// The key table: allocation of keys and the local and remote access checks.
#include "memory/region.h"

#include <utility>

#include "memory/fault_guard.h"

namespace verbena::memory {

const char* describe(KeyError error) {
  switch (error) {
    case KeyError::kNone:
      return "allowed";
    case KeyError::kUnknownKey:
      return "no memory region or window has this key";
    case KeyError::kOtherDomain:
      return "the key belongs to another protection domain";
    case KeyError::kOtherQueuePair:
      return "the memory window is bound to another queue pair";
    case KeyError::kNotBound:
      return "the memory window is not bound";
    case KeyError::kNoPermission:
      return "the key does not grant this kind of access";
    case KeyError::kOutOfRange:
      return "the range is not inside the registered range";
    case KeyError::kNotPresent:
      return "the range is not mapped (any more); unmapped before ibv_dereg_mr?";
  }
  return "?";
}

KeyTable::Entry* KeyTable::claim() {
  uint32_t index;
  if (!free_.empty()) {
    index = free_.back();
    free_.pop_back();
  } else {
    if (entries_.empty()) entries_.emplace_back();  // index 0 is never given out
    if (entries_.size() >= kMaxKeys) return nullptr;
    index = static_cast<uint32_t>(entries_.size());
    entries_.emplace_back();
  }
  uint64_t random = prng_.next();
  entries_[index].key = static_cast<uint32_t>(random & 0xf0000000u) | index << 8 |
                        static_cast<uint32_t>(random & 0xff);
  return &entries_[index];
}

uint32_t KeyTable::insert(MemoryRegion* region) {
  Entry* entry = claim();
  if (!entry) return 0;
  entry->region = region;
  region->serial = next_serial();
  return region->key = entry->key;
}

uint32_t KeyTable::insert(MemoryWindow* window) {
  Entry* entry = claim();
  if (!entry) return 0;
  entry->window = window;
  window->serial = next_serial();
  return window->key = entry->key;
}

void KeyTable::remove(uint32_t key) {
  if (!find(key)) return;
  uint32_t index = key_index(key);
  entries_[index] = Entry{};
  free_.push_back(index);
  std::swap(free_.back(), free_[prng_.below(free_.size())]);
}

uint32_t KeyTable::rekey(MemoryWindow* window, uint8_t consumer_bits) {
  const Entry* found = find(window->key);
  if (!found || found->window != window) return 0;
  Entry& entry = entries_[key_index(window->key)];
  entry.key = (entry.key & ~0xffu) | consumer_bits;
  return window->key = entry.key;
}

const KeyTable::Entry* KeyTable::find(uint32_t key) const {
  uint32_t index = key_index(key);
  if (index >= entries_.size()) return nullptr;
  const Entry& entry = entries_[index];
  if (entry.key != key || (!entry.region && !entry.window)) return nullptr;
  return &entry;
}

MemoryRegion* KeyTable::find_region(uint32_t key) const {
  const Entry* entry = find(key);
  return entry ? entry->region : nullptr;
}

MemoryWindow* KeyTable::find_window(uint32_t key) const {
  const Entry* entry = find(key);
  return entry ? entry->window : nullptr;
}

Grant KeyTable::within(const MemoryRegion& region, uint64_t offset, uint64_t length, bool write,
                       bool touch) const {
  if (offset > region.length || length > region.length - offset)
    return {KeyError::kOutOfRange, nullptr, region.backing};
  // Not base + offset: null regions and those of the whole address space have no base.
  uint8_t* address = reinterpret_cast<uint8_t*>(reinterpret_cast<uintptr_t>(region.base) + offset);
  if (!touch) return {KeyError::kNone, address, region.backing, region.key};
  if (region.backing == Backing::kOnDemand && length > 0 && populate_ &&
      !populate_(address, length, write))
    return {KeyError::kNotPresent, nullptr, region.backing};
  // Reads happen later and elsewhere: whether they can is asked here. Writes tell by themselves.
  if (region.backing == Backing::kHost && !write && !present(address, length, false))
    return {KeyError::kNotPresent, nullptr, region.backing};
  return {KeyError::kNone, address, region.backing, region.key};
}

Grant KeyTable::check_local(uint32_t lkey, const ProtectionDomain* domain, uint64_t address,
                            uint64_t length, bool write) const {
  const Entry* entry = find(lkey);
  if (!entry || !entry->region) return {};
  const MemoryRegion& region = *entry->region;
  if (region.domain != domain) return {KeyError::kOtherDomain};
  if (write && !(region.access & kLocalWrite)) return {KeyError::kNoPermission};
  if (address < region.iova) return {KeyError::kOutOfRange};
  return within(region, address - region.iova, length, write, true);
}

Grant KeyTable::check_remote(uint32_t rkey, const ProtectionDomain* domain, uint32_t qpn,
                             uint64_t address, uint64_t length, uint32_t needed, bool touch) const {
  const Entry* entry = find(rkey);
  if (!entry) return {};
  bool write = (needed & (kRemoteWrite | kRemoteAtomic)) != 0;
  if (entry->region) {
    const MemoryRegion& region = *entry->region;
    if (region.domain != domain) return {KeyError::kOtherDomain};
    if ((region.access & needed) != needed) return {KeyError::kNoPermission};
    if (address < region.iova) return {KeyError::kOutOfRange};
    return within(region, address - region.iova, length, write, touch);
  }
  const MemoryWindow& window = *entry->window;
  if (window.domain != domain) return {KeyError::kOtherDomain};
  if (!window.region) return {KeyError::kNotBound};
  if (window.type == 2 && window.qpn != qpn) return {KeyError::kOtherQueuePair};
  if ((window.access & needed) != needed) return {KeyError::kNoPermission};
  uint64_t start = (window.access & kZeroBased) ? 0 : window.address;
  if (address < start || address - start > window.length ||
      length > window.length - (address - start))
    return {KeyError::kOutOfRange};
  uint64_t offset_in_region = window.address - window.region->iova + (address - start);
  return within(*window.region, offset_in_region, length, write, touch);
}

}  // namespace verbena::memory
