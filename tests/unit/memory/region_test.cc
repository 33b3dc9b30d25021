// The key table: fresh keys with random bits, stale keys refused, and no range check that a
// 64-bit wrap gets past.
#include "memory/region.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "memory/payload.h"

namespace verbena::memory {
namespace {

class Keys : public testing::Test {
 protected:
  Keys() {
    region.domain = &domain;
    region.iova = 0x10000;
    region.length = 0x1000;
    region.base = storage;
    region.access = kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic;
    table.insert(&region);
  }
  KeyError remote(uint64_t address, uint64_t length, uint32_t needed = kRemoteWrite) {
    return table.check_remote(region.key, &domain, 1, address, length, needed).error;
  }
  KeyTable table{1};
  ProtectionDomain domain, other;
  MemoryRegion region;
  uint8_t storage[0x1000];
};

TEST_F(Keys, AddressIsInsideTheRegion) {
  Grant grant = table.check_remote(region.key, &domain, 1, 0x10010, 16, kRemoteWrite);
  EXPECT_EQ(grant.error, KeyError::kNone);
  EXPECT_EQ(grant.address, storage + 16);
  EXPECT_EQ(remote(0x10000, 0x1000), KeyError::kNone);
  EXPECT_EQ(remote(0x11000, 0), KeyError::kNone);
  EXPECT_EQ(remote(0x10000, 0x1001), KeyError::kOutOfRange);
  EXPECT_EQ(remote(0xffff, 1), KeyError::kOutOfRange);
  EXPECT_EQ(remote(0x11000, 1), KeyError::kOutOfRange);
  EXPECT_EQ(remote(~0ull, 2), KeyError::kOutOfRange);
  EXPECT_EQ(remote(0x10001, ~0ull), KeyError::kOutOfRange);
}

TEST_F(Keys, DomainAndPermission) {
  EXPECT_EQ(table.check_remote(region.key, &other, 1, 0x10000, 1, kRemoteRead).error,
            KeyError::kOtherDomain);
  region.access = kRemoteRead;
  EXPECT_EQ(remote(0x10000, 1), KeyError::kNoPermission);
  EXPECT_EQ(remote(0x10000, 1, kRemoteRead), KeyError::kNone);
  EXPECT_EQ(table.check_local(region.key, &domain, 0x10000, 1, true).error,
            KeyError::kNoPermission);
  EXPECT_EQ(table.check_local(region.key, &domain, 0x10000, 1, false).error, KeyError::kNone);
  EXPECT_EQ(table.check_local(region.key, &other, 0x10000, 1, false).error, KeyError::kOtherDomain);
}

TEST_F(Keys, StaleKeyIsRefused) {
  uint32_t old = region.key;
  table.remove(old);
  EXPECT_EQ(table.check_local(old, &domain, 0x10000, 1, false).error, KeyError::kUnknownKey);
  // The index comes back sooner or later, the key does not.
  for (int i = 0; i < 100; ++i) {
    table.insert(&region);
    EXPECT_NE(region.key, old);
    table.remove(region.key);
  }
  EXPECT_EQ(table.find_region(old), nullptr);
  table.remove(old);  // harmless
}

TEST_F(Keys, KeysCarryRandomBits) {
  std::set<uint32_t> randoms;
  for (int i = 0; i < 1000; ++i) {
    MemoryRegion other_region = region;
    uint32_t key = table.insert(&other_region);
    EXPECT_EQ(key_index(key), key >> 8 & 0xfffff);
    randoms.insert(key & 0xf00000ff);
    table.remove(key);
  }
  EXPECT_GT(randoms.size(), 800u) << "of 4096 values";
  KeyTable same(1), different(2);
  MemoryRegion a = region, b = region;
  uint32_t first = same.insert(&a);
  EXPECT_NE(first, different.insert(&b));
}

TEST_F(Keys, OnlyTheExactKeyWorks) {
  for (int bit = 0; bit < 32; ++bit)
    EXPECT_EQ(table.check_remote(region.key ^ 1u << bit, &domain, 1, 0x10000, 1, 0).error,
              KeyError::kUnknownKey);
}

TEST_F(Keys, WindowsFollowTheirBinding) {
  MemoryWindow window;
  window.domain = &domain;
  window.type = 2;
  table.insert(&window);
  auto check = [&](uint64_t address, uint64_t length, uint32_t qpn = 7) {
    return table.check_remote(window.key, &domain, qpn, address, length, kRemoteWrite);
  };
  EXPECT_EQ(check(0x10100, 1).error, KeyError::kNotBound);
  window.region = &region;
  window.address = 0x10100;
  window.length = 0x100;
  window.access = kRemoteWrite;
  window.qpn = 7;
  EXPECT_EQ(check(0x10100, 0x100).error, KeyError::kNone);
  EXPECT_EQ(check(0x10180, 4).address, storage + 0x180);
  EXPECT_EQ(check(0x100ff, 1).error, KeyError::kOutOfRange);
  EXPECT_EQ(check(0x10100, 0x101).error, KeyError::kOutOfRange);
  EXPECT_EQ(check(0x10101, ~0ull).error, KeyError::kOutOfRange);
  EXPECT_EQ(check(0x10100, 1, 8).error, KeyError::kOtherQueuePair);
  window.access = kRemoteWrite | kZeroBased;
  EXPECT_EQ(check(0xff, 1).address, storage + 0x1ff);
  EXPECT_EQ(check(0x100, 1).error, KeyError::kOutOfRange);
  uint32_t old = window.key;
  table.rekey(&window, static_cast<uint8_t>(old + 1));
  EXPECT_EQ(table.find_window(old), nullptr);
  EXPECT_EQ(table.find_window(window.key), &window);
  EXPECT_EQ(table.check_local(window.key, &domain, 0x10100, 1, false).error, KeyError::kUnknownKey)
      << "a window is no lkey";
}

TEST_F(Keys, OnDemandMemoryIsMadePresentFirst) {
  static int asked = 0;
  KeyTable lazy(1, [](uint8_t*, size_t length, bool write) {
    ++asked;
    return length < 100 && write;
  });
  region.backing = Backing::kOnDemand;
  lazy.insert(&region);
  EXPECT_EQ(lazy.check_remote(region.key, &domain, 1, 0x10000, 50, kRemoteWrite).error,
            KeyError::kNone);
  EXPECT_EQ(lazy.check_remote(region.key, &domain, 1, 0x10000, 50, kRemoteRead).error,
            KeyError::kNotPresent);
  EXPECT_EQ(lazy.check_remote(region.key, &domain, 1, 0x10000, 200, kRemoteWrite).error,
            KeyError::kNotPresent);
  EXPECT_EQ(asked, 3);
}

// No address and length, however large, get past the range check.
RC_GTEST_PROP(KeyRange, AdmitsExactlyWhatLiesInside,
              (uint64_t iova, uint64_t length, uint64_t address, uint64_t count)) {
  ProtectionDomain domain;
  MemoryRegion region;
  region.domain = &domain;
  region.iova = iova;
  region.length = length % (UINT64_MAX - iova);  // what registration guarantees
  region.access = kRemoteWrite | kLocalWrite;
  KeyTable table(3);
  table.insert(&region);
  using Wide = unsigned __int128;
  bool inside = address >= iova && Wide{address} + count <= Wide{iova} + region.length;
  RC_ASSERT((table.check_remote(region.key, &domain, 1, address, count, kRemoteWrite).error ==
             KeyError::kNone) == inside);
  RC_ASSERT((table.check_local(region.key, &domain, address, count, true).error ==
             KeyError::kNone) == inside);
}

RC_GTEST_PROP(KeyRange, NearTheEdges, (uint64_t iova)) {
  ProtectionDomain domain;
  MemoryRegion region;
  region.domain = &domain;
  region.iova = iova % (UINT64_MAX - 100);
  region.length = 100;
  region.access = kRemoteWrite;
  KeyTable table(3);
  table.insert(&region);
  auto shift = *rc::gen::inRange<int>(-3, 104);
  auto count = *rc::gen::inRange<int>(0, 104);
  uint64_t address = region.iova + static_cast<uint64_t>(static_cast<int64_t>(shift));
  bool inside = shift >= 0 && shift + count <= 100;
  RC_ASSERT((table
                 .check_remote(region.key, &domain, 1, address, static_cast<uint64_t>(count),
                               kRemoteWrite)
                 .error == KeyError::kNone) == inside);
}

TEST(Payload, CopiesAcrossSegments) {
  uint8_t a[] = {1, 2, 3}, b[] = {4}, c[] = {5, 6};
  const Segment segments[] = {{a, 3}, {b, 0}, {b, 1}, {c, 2}};
  Payload payload{segments, 6, nullptr};
  uint8_t out[6] = {};
  EXPECT_TRUE(payload.copy_out(0, out, 6));
  EXPECT_EQ(std::vector<uint8_t>(out, out + 6), (std::vector<uint8_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_TRUE(payload.copy_out(2, out, 3));
  EXPECT_EQ(std::vector<uint8_t>(out, out + 3), (std::vector<uint8_t>{3, 4, 5}));
  EXPECT_TRUE(payload.copy_out(6, out, 0));
  EXPECT_FALSE(payload.copy_out(5, out, 2));
}

}  // namespace
}  // namespace verbena::memory
