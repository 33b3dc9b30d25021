// Timeouts and RNR waits to the picosecond, and how many tries there are.
#include "rig.h"

namespace verbena::engine::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

TEST(Timer, AckTimeoutIsFourMicrosecondsTimesAPowerOfTwo) {
  EXPECT_EQ(ack_timeout(1).ps, 8'192'000);
  EXPECT_EQ(ack_timeout(14).ps, 67'108'864'000);
  EXPECT_EQ(ack_timeout(18).ps, 1'073'741'824'000);
  EXPECT_EQ(ack_timeout(31).ps, 8'796'093'022'208'000);
  for (uint8_t code : {1, 8, 14, 31}) {
    Rig rig({.timeout = code});
    rig.send(10);
    rig.transmit();
    EXPECT_EQ(rig.device.next_deadline(), rig.now + ack_timeout(code));
  }
}

TEST(Timer, TimeoutZeroIsNever) {
  Rig rig({.timeout = 0});
  rig.send(10);
  rig.transmit();
  EXPECT_EQ(rig.device.next_deadline(), kNever);
}

TEST(Timer, RunsFromTheLastProgress) {
  Rig rig({.timeout = 10});
  rig.send(10);
  rig.send(10);
  rig.transmit();
  rig.pass(microseconds(100));
  rig.ack(100);
  EXPECT_EQ(rig.device.next_deadline(), rig.now + ack_timeout(10));
}

TEST(Timer, RetryCountSevenIsEightTransmissions) {
  Rig rig({.timeout = 8});
  rig.send(10);
  rig.send(10);
  Instant start = rig.now;
  EXPECT_THAT(rig.transmit(), SizeIs(2));
  for (int retry = 1; retry <= 7; ++retry) {
    rig.time(start + ack_timeout(8) * retry - picoseconds(1) - Instant{});
    EXPECT_THAT(rig.transmit(), IsEmpty());
    rig.pass(picoseconds(1));
    EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_SEND_ONLY 100")) << "one packet to try";
    EXPECT_THAT(rig.poll_send(), IsEmpty());
  }
  rig.time(start + ack_timeout(8) * 8 - Instant{});
  auto done = rig.poll_send();
  ASSERT_THAT(summary(done), ElementsAre("1:RETRY_EXC_ERR", "2:WR_FLUSH_ERR"));
  EXPECT_EQ(done[0].vendor_error, 0x81u);
  EXPECT_EQ(done[0].timestamp, start + ack_timeout(8) * 8);
  EXPECT_EQ(rig.qp->state(), QpState::kErr);
  EXPECT_EQ(rig.device.next_deadline(), kNever);
  EXPECT_EQ(rig.counters().local_ack_timeout_err, 8u);
  EXPECT_EQ(rig.counters().retry_exceeded_err, 1u);
}

TEST(Timer, RetryCountZeroIsOneTransmission) {
  Rig rig({.retry_cnt = 0});
  rig.send(10);
  rig.transmit();
  rig.pass(ack_timeout(14));
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:RETRY_EXC_ERR"));
}

TEST(Timer, ProgressRestoresTheRetries) {
  Rig rig({.timeout = 8, .retry_cnt = 1});
  for (int i = 0; i < 4; ++i) rig.send(10);
  rig.transmit();
  for (uint32_t psn = 100; psn < 104; ++psn) {
    rig.pass(ack_timeout(8));
    rig.transmit();
    rig.ack(psn);
    rig.transmit();
  }
  EXPECT_THAT(rig.poll_send(), SizeIs(4));
}

TEST(Timer, AfterATimeoutTheFlightGrowsFromOnePacket) {
  Rig rig({.timeout = 8});
  rig.send(20 * 256);
  EXPECT_THAT(rig.transmit(), SizeIs(20));
  rig.pass(ack_timeout(8));
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_SEND_FIRST 100"));
  EXPECT_TRUE(sent[0].header.ack_request);
  rig.ack(100);
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_SEND_MIDDLE 101", "RC_SEND_MIDDLE 102"));
  rig.ack(102);
  EXPECT_THAT(rig.transmit(), SizeIs(4));
}

TEST(Timer, EveryRnrCodeIsWaitedExactly) {
  constexpr int64_t kTenMicroseconds[32] = {65536, 1,    2,    3,     4,     6,     8,     12,
                                            16,    24,   32,   48,    64,    96,    128,   192,
                                            256,   384,  512,  768,   1024,  1536,  2048,  3072,
                                            4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152};
  for (uint8_t code = 0; code < 32; ++code) {
    Rig rig;
    rig.send(10);
    rig.send(10);
    rig.transmit();
    rig.ack(100, static_cast<uint8_t>(0x20 | code));
    Instant due = rig.now + microseconds(10) * kTenMicroseconds[code];
    EXPECT_EQ(rig.device.next_deadline(), due);
    rig.time(due - picoseconds(1) - Instant{});
    EXPECT_THAT(rig.transmit(), IsEmpty()) << "nothing may leave before the wait is over";
    rig.pass(picoseconds(1));
    EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_SEND_ONLY 100", "RC_SEND_ONLY 101"));
  }
}

TEST(Timer, RnrRetriesExhausted) {
  Rig rig({.rnr_retry = 3});
  rig.send(10);
  rig.send(10);
  for (int transmission = 1; transmission <= 4; ++transmission) {
    EXPECT_THAT(rig.transmit(), SizeIs(2)) << transmission;
    rig.ack(100, 0x21);
    if (transmission < 4) {
      EXPECT_THAT(rig.poll_send(), IsEmpty());
    }
    rig.pass(microseconds(10));
  }
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:RNR_RETRY_EXC_ERR", "2:WR_FLUSH_ERR"));
  EXPECT_EQ(rig.counters().rnr_nak_retry_err, 1u);
  EXPECT_EQ(rig.counters().rcvd_rnr_err, 4u);
}

TEST(Timer, RnrRetrySevenIsForEver) {
  Rig rig({.rnr_retry = 7});
  rig.send(10);
  for (int i = 0; i < 100; ++i) {
    ASSERT_THAT(rig.transmit(), SizeIs(1));
    rig.ack(100, 0x21);
    rig.pass(microseconds(10));
  }
  EXPECT_THAT(rig.poll_send(), IsEmpty());
  rig.transmit();
  rig.ack(100);
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:SUCCESS"));
}

TEST(Timer, NothingLeavesDuringAnRnrWaitWhateverArrives) {
  Rig rig;
  rig.send(10);
  rig.send(10);
  rig.transmit();
  rig.ack(100, 0x2e);
  Instant due = rig.device.next_deadline();
  rig.ack(100, 0x60);  // a stale NAK
  rig.ack(100, 0x2e);  // the RNR NAK again
  rig.send(10);
  EXPECT_THAT(rig.transmit(), IsEmpty());
  EXPECT_EQ(rig.device.next_deadline(), due);
  EXPECT_EQ(rig.counters().rcvd_rnr_err, 2u);
}

TEST(Timer, LongestLossOfReadAsksForOnePacketInTheEnd) {
  Rig rig({.timeout = 8});
  rig.read(40 * 256);
  EXPECT_EQ(rig.transmit()[0].header.reth.length, 40u * 256);
  rig.pass(ack_timeout(8));
  EXPECT_EQ(rig.transmit()[0].header.reth.length, 40u * 256);
  rig.pass(ack_timeout(8));
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_READ_REQUEST 100"));
  EXPECT_EQ(sent[0].header.reth.length, 256u);
  rig.read_response(Opcode::kRcReadResponseOnly, 100, bytes(256));
  sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_READ_REQUEST 101"));
  EXPECT_EQ(sent[0].header.reth.length, 39u * 256);
}

}  // namespace
}  // namespace verbena::engine::test
