// The port table as programs see it through rdma_bind_addr: who conflicts with whom, and who gets a
// request.
#include "broker/ports.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <set>

namespace verbena::broker {
namespace {

constexpr uint16_t kTcp = 0x0106, kUdp = 0x0111;

engine::Gid ipv4(uint8_t last) {
  const uint8_t address[4] = {192, 0, 2, last};
  return engine::Gid::from_ipv4(address);
}
const uint8_t kZero[4] = {};
const engine::Gid kAnyIpv4 = engine::Gid::from_ipv4(kZero);
const engine::Gid kAny{};
engine::Gid ipv6(uint8_t last) {
  engine::Gid gid;
  gid.bytes[0] = 0xfd;
  gid.bytes[15] = last;
  return gid;
}

Service at(const engine::Gid& address, uint16_t port, uint32_t flags = 0, uint16_t space = kTcp) {
  Service service;
  service.space = space;
  service.port = port;
  service.flags = flags;
  std::memcpy(service.address, address.bytes.data(), sizeof(service.address));
  return service;
}

int code(const Result<uint16_t>& result) {
  return result ? 0 : result.error().code;
}

TEST(Ports, OneOwnerForAnAddress) {
  PortTable table(1);
  EXPECT_EQ(table.bind(1, at(ipv4(1), 7000)).value_or(0), 7000);
  EXPECT_EQ(code(table.bind(2, at(ipv4(1), 7000))), EADDRINUSE);
  EXPECT_EQ(code(table.bind(2, at(kAnyIpv4, 7000))), EADDRINUSE);
  EXPECT_EQ(code(table.bind(2, at(kAny, 7000))), EADDRINUSE);
  EXPECT_EQ(code(table.bind(2, at(ipv4(2), 7000))), 0);
  EXPECT_EQ(code(table.bind(2, at(ipv6(1), 7000))), 0);
  EXPECT_EQ(code(table.bind(2, at(ipv4(1), 7000, 0, kUdp))), 0) << "another port space";
  EXPECT_EQ(table.owner(kTcp, 7000, ipv4(1)), 1u);
  EXPECT_EQ(table.owner(kTcp, 7000, ipv4(2)), 2u);
  EXPECT_EQ(table.owner(kTcp, 7000, ipv4(3)), std::nullopt);
}

TEST(Ports, WildcardsOfOneFamilyLeaveTheOtherAlone) {
  PortTable table(1);
  EXPECT_EQ(code(table.bind(1, at(kAny, 3260, kServiceOneFamily))), 0);
  EXPECT_EQ(code(table.bind(1, at(kAnyIpv4, 3260))), 0) << "as tgtd binds";
  EXPECT_EQ(table.owner(kTcp, 3260, ipv4(1)), 1u);
  EXPECT_EQ(table.owner(kTcp, 3260, ipv6(1)), 1u);
  EXPECT_EQ(code(table.bind(2, at(kAny, 3260))), EADDRINUSE);
}

TEST(Ports, AWildcardOfBothFamiliesTakesIpv4Too) {
  PortTable table(1);
  EXPECT_EQ(code(table.bind(1, at(kAny, 80))), 0);
  EXPECT_EQ(code(table.bind(2, at(ipv4(1), 80))), EADDRINUSE);
  EXPECT_EQ(table.owner(kTcp, 80, ipv4(9)), 1u);
}

TEST(Ports, AnExactAddressComesBeforeAny) {
  PortTable table(1);
  EXPECT_EQ(code(table.bind(1, at(kAnyIpv4, 80, kServiceReuse))), 0);
  EXPECT_EQ(code(table.bind(2, at(ipv4(5), 80, kServiceReuse))), 0);
  EXPECT_EQ(table.owner(kTcp, 80, ipv4(5)), 2u);
  EXPECT_EQ(table.owner(kTcp, 80, ipv4(6)), 1u);
}

TEST(Ports, SharersMayNotBothListen) {
  PortTable table(1);
  EXPECT_EQ(code(table.bind(1, at(ipv4(1), 80, kServiceReuse))), 0);
  EXPECT_EQ(code(table.bind(2, at(ipv4(1), 80))), EADDRINUSE) << "it does not share";
  EXPECT_EQ(code(table.bind(2, at(ipv4(1), 80, kServiceReuse))), 0);
  EXPECT_EQ(code(table.bind(2, at(ipv4(1), 80, kServiceReuse | kServiceListens))), 0);
  EXPECT_EQ(table.owner(kTcp, 80, ipv4(1)), 2u) << "who listens comes first";
  EXPECT_EQ(code(table.bind(1, at(ipv4(1), 80, kServiceReuse | kServiceListens))), EADDRINUSE);
  table.release(2, at(ipv4(1), 80), 0);
  EXPECT_EQ(code(table.bind(1, at(ipv4(1), 80, kServiceReuse | kServiceListens))), 0);
  EXPECT_EQ(code(table.bind(3, at(ipv4(1), 80, kServiceReuse | kServiceListens))), EINVAL);
}

TEST(Ports, AListenersPortIsRememberedForAMoment) {
  constexpr int64_t kThen = 1'000'000;
  PortTable table(1);
  ASSERT_EQ(code(table.bind(1, at(ipv4(1), 80))), 0);
  ASSERT_EQ(code(table.bind(1, at(ipv4(1), 80, kServiceListens))), 0);
  ASSERT_EQ(code(table.bind(1, at(ipv4(1), 81))), 0);
  EXPECT_FALSE(table.just_left(kTcp, 80, kThen)) << "it is there";
  table.release(1, at(ipv4(1), 80), kThen);
  table.release(1, at(ipv4(1), 81), kThen);
  EXPECT_TRUE(table.just_left(kTcp, 80, kThen));
  EXPECT_TRUE(table.just_left(kTcp, 80, kThen + PortTable::kLeftMs - 1));
  EXPECT_FALSE(table.just_left(kTcp, 80, kThen + PortTable::kLeftMs));
  EXPECT_FALSE(table.just_left(kUdp, 80, kThen)) << "another port space";
  EXPECT_FALSE(table.just_left(kTcp, 81, kThen)) << "it did not listen";
  table.forget(1);
  EXPECT_FALSE(table.just_left(kTcp, 80, kThen)) << "its process is gone";
}

TEST(Ports, WhatIsRememberedHasABound) {
  PortTable table(1);
  for (uint16_t port = 1; port <= PortTable::kMaxLeft + 1; ++port) {
    ASSERT_EQ(code(table.bind(1, at(ipv4(1), port))), 0);
    ASSERT_EQ(code(table.bind(1, at(ipv4(1), port, kServiceListens))), 0);
    table.release(1, at(ipv4(1), port), 0);
  }
  EXPECT_FALSE(table.just_left(kTcp, 1, 0)) << "the oldest is forgotten";
  EXPECT_TRUE(table.just_left(kTcp, 2, 0));
}

TEST(Ports, EphemeralOnesDifferAndLieInLinuxsRange) {
  PortTable table(7);
  std::set<uint16_t> seen;
  for (int i = 0; i < 2000; ++i) {
    const uint16_t port = table.bind(1, at(kAnyIpv4, 0)).value_or(0);
    EXPECT_GE(port, PortTable::kFirstEphemeral);
    EXPECT_LE(port, PortTable::kLastEphemeral);
    EXPECT_TRUE(seen.insert(port).second) << port;
  }
  EXPECT_EQ(table.size(), 2000u);
  table.forget(1);
  EXPECT_EQ(table.size(), 0u);
}

TEST(Ports, AProcessHasABoundAndItsEndFreesAll) {
  PortTable table(1);
  for (size_t i = 0; i < PortTable::kMaxPerSlot; ++i)
    ASSERT_EQ(code(table.bind(1, at(kAnyIpv4, 0))), 0);
  EXPECT_EQ(code(table.bind(1, at(kAnyIpv4, 0))), ENOSPC);
  EXPECT_EQ(code(table.bind(2, at(kAnyIpv4, 0))), 0);
  table.forget(1);
  EXPECT_EQ(code(table.bind(1, at(kAnyIpv4, 0))), 0);
}

TEST(Ports, ANewBrokerIsToldAgain) {
  PortTable table(1);
  EXPECT_EQ(code(table.bind(1, at(ipv4(1), 80, kServiceListens | kServiceAgain))), 0);
  EXPECT_EQ(table.owner(kTcp, 80, ipv4(1)), 1u);
}

}  // namespace
}  // namespace verbena::broker
