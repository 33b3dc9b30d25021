// Series that have grown to their bound lose every second point, and nothing else.
#include "sim/samples.h"

#include <gtest/gtest.h>

namespace verbena::sim {
namespace {

TEST(Samples, ThinningKeepsEverySecondPointAndDoublesTheInterval) {
  Samples samples;
  samples.interval = 10;
  samples.ports.resize(1);
  samples.flows.push_back({7, {}, {}, {}});
  for (uint32_t i = 1; i <= 6; ++i) {
    samples.at.push_back(10 * i);
    samples.received_bytes.push_back(100 * i);
    samples.paused_ports.push_back(i);
    samples.rates.push_back(i);
    samples.alphas.push_back(i);
    samples.ports[0].queue_bytes.push_back(1000 * i);
    samples.ports[0].stopped.push_back(static_cast<uint8_t>(i));
    samples.flows[0].received.push_back(i);
    samples.flows[0].rates.push_back(i);
    samples.flows[0].alphas.push_back(static_cast<float>(i));
  }
  samples.ports[0].skip = 2;
  samples.thin();
  EXPECT_EQ(samples.interval, 20);
  EXPECT_EQ(samples.at, (std::vector<fabric::Time>{20, 40, 60}));
  EXPECT_EQ(samples.received_bytes, (std::vector<uint64_t>{200, 400, 600}));
  EXPECT_EQ(samples.paused_ports, (std::vector<uint32_t>{2, 4, 6}));
  EXPECT_EQ(samples.rates, (std::vector<uint64_t>{2, 4, 6}));
  EXPECT_EQ(samples.alphas, (std::vector<double>{2, 4, 6}));
  EXPECT_EQ(samples.ports[0].queue_bytes, (std::vector<uint32_t>{2000, 4000, 6000}));
  EXPECT_EQ(samples.ports[0].stopped, (std::vector<uint8_t>{2, 4, 6}));
  EXPECT_EQ(samples.ports[0].skip, 1u);
  EXPECT_EQ(samples.ports[0].mean(), 5000);
  EXPECT_EQ(samples.flows[0].received, (std::vector<uint64_t>{2, 4, 6}));
  EXPECT_EQ(samples.flows[0].alphas, (std::vector<float>{2, 4, 6}));
}

TEST(Samples, FullOnlyAtAnEvenNumber) {
  Samples samples;
  samples.ports.resize(Samples::kMostOfPorts / 4);
  samples.at.resize(3);
  EXPECT_FALSE(samples.full());
  samples.at.resize(4);
  EXPECT_TRUE(samples.full());
  samples.at.resize(5);
  EXPECT_FALSE(samples.full());
  samples.at.resize(6);
  EXPECT_TRUE(samples.full());
}

}  // namespace
}  // namespace verbena::sim
