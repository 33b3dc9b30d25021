// A registered piece of memory between guard zones, with the image it should have in the end.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "engine/device.h"

namespace verbena::sim::test {

class Area {
 public:
  static constexpr size_t kGuard = 64;
  static constexpr uint8_t kGuardByte = 0xa5;

  Area() = default;
  // `iova` is what peers and SGEs call the first byte: a number of the plan's, not of this run.
  Area(engine::Device& device, memory::ProtectionDomain* domain, uint64_t iova, size_t length,
       uint32_t access)
      : storage_(new uint64_t[(length + 2 * kGuard + 7) / 8]), expected(length) {
    std::memset(storage_.get(), kGuardByte, length + 2 * kGuard);
    base_ = reinterpret_cast<uint8_t*>(storage_.get()) + kGuard;
    std::memset(base_, 0, length);
    region_ = std::make_unique<memory::MemoryRegion>();
    region_->domain = domain;
    region_->iova = iova;
    region_->length = length;
    region_->base = base_;
    region_->access = access;
    device.keys().insert(region_.get());
  }

  size_t size() const { return expected.size(); }
  uint8_t* at(size_t offset) { return base_ + offset; }
  uint64_t address(size_t offset) const { return region_->iova + offset; }
  uint8_t* memory_of(const engine::Sge& sge) { return base_ + (sge.address - region_->iova); }
  uint32_t key() const { return region_->key; }
  memory::MemoryRegion* region() { return region_.get(); }
  engine::Sge sge(size_t offset, uint32_t length) const { return {address(offset), length, key()}; }

  // Random bytes, also in the image.
  void fill(Prng& prng) {
    for (size_t i = 0; i + 8 <= size(); i += 8) {
      uint64_t word = prng.next();
      std::memcpy(base_ + i, &word, 8);
    }
    std::memcpy(expected.data(), base_, size());
  }
  bool guards_intact() const {
    for (size_t i = 0; i < kGuard; ++i)
      if (base_[-1 - static_cast<long>(i)] != kGuardByte || base_[size() + i] != kGuardByte)
        return false;
    return true;
  }
  // The first byte that differs from the image; size() when none does.
  size_t first_difference() const {
    if (std::memcmp(base_, expected.data(), size()) == 0) return size();
    size_t i = 0;
    while (base_[i] == expected[i]) ++i;
    return i;
  }

 private:
  std::unique_ptr<uint64_t[]> storage_;
  uint8_t* base_ = nullptr;
  std::unique_ptr<memory::MemoryRegion> region_;

 public:
  std::vector<uint8_t> expected;
};

}  // namespace verbena::sim::test
