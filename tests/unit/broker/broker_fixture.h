// For tests that start brokers: a network namespace of their own, and no broker left behind.
#pragma once

#include <gtest/gtest.h>

#include "broker/client.h"
#include "lab.h"

namespace verbena::broker {

// How tests attach: with the broker of this build.
inline AttachOptions lab_options(int timeout_ms = 2000) {
  AttachOptions options;
  options.broker_path = VERBENA_BROKER_PATH;
  options.timeout_ms = timeout_ms;
  return options;
}

class BrokerFixture : public ::testing::Test {
 protected:
  void SetUp() override { REQUIRE_PRIVATE_NETWORK(); }
  void TearDown() override {
    if (!lab::enter_private_network()) return;
    EXPECT_TRUE(lab::eventually([] { return lab::count_processes("verbena-broker") == 0; }))
        << "a broker was left behind";
  }
};

}  // namespace verbena::broker
