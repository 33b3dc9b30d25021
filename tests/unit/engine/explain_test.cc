// What the engine tells the explain log: one line per cause, the peer named by number and address.
#include <utility>

#include "rig.h"

namespace verbena::engine::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<std::string> lines(Rig& rig) {
  return std::exchange(rig.device.explanations(), {});
}

TEST(Explain, AFlushIsOneLinePerCause) {
  Rig rig;
  for (int i = 0; i < 3; ++i) rig.send(10);
  rig.post_recv(7, {rig.sge(0, 10)});
  rig.post_recv(8, {rig.sge(0, 10)});
  ASSERT_TRUE(rig.modify(rig.qp, QpState::kErr));
  EXPECT_THAT(lines(rig),
              ElementsAre(HasSubstr("state ERR: 3 send and 2 receive work requests flush"
                                    " (WR_FLUSH_ERR): ibv_modify_qp to ERR")));
  for (int i = 0; i < 3; ++i) {
    rig.send(10);
    rig.post_recv(9, {rig.sge(0, 10)});
    rig.transmit();
  }
  EXPECT_THAT(lines(rig), ElementsAre(HasSubstr("work requests posted now flush")));
}

TEST(Explain, AFlushNamesTheRequestThatFailed) {
  Rig rig;
  rig.send(10);
  rig.send(10);
  rig.transmit();
  rig.ack(100, 0x62);
  EXPECT_THAT(lines(rig),
              ElementsAre(HasSubstr("refused by QP 0x004321 (10.0.0.2) at PSN 0x64: remote access"),
                          HasSubstr("1 send and 0 receive work requests flush (WR_FLUSH_ERR): wr_id"
                                    " 0x1 before them failed with REM_ACCESS_ERR")));
}

TEST(Explain, NothingFlushedIsNoLine) {
  Rig rig;
  ASSERT_TRUE(rig.modify(rig.qp, QpState::kErr));
  EXPECT_THAT(lines(rig), IsEmpty());
}

TEST(Explain, ReceivedNaksNameThePeer) {
  Rig rig;
  rig.send(10);
  rig.send(10);
  rig.transmit();
  rig.ack(100, 0x60);
  EXPECT_THAT(lines(rig), ElementsAre(HasSubstr(
                              "NAK PSN sequence error from QP 0x004321 (10.0.0.2): a packet was"
                              " lost, it expects PSN 0x64")));
}

TEST(Explain, AStarvingSenderIsToldLessAndLessOften) {
  Rig rig({.rnr_retry = 7});
  rig.send(10);
  for (int i = 0; i < 9; ++i) {
    rig.transmit();
    rig.ack(100, 0x20 | 1);
    rig.pass(microseconds(11));
  }
  auto all = lines(rig);
  ASSERT_THAT(all, SizeIs(4)) << "the 1st, 2nd, 4th and 8th";
  EXPECT_THAT(all[0], HasSubstr("RNR NAK number 1 in a row from QP 0x004321 (10.0.0.2) at PSN 0x64:"
                                " it has no receive work request; trying again in 10 us"
                                " (rnr_retry 7: for ever)"));
  EXPECT_THAT(all[3], HasSubstr("RNR NAK number 8 in a row"));
}

TEST(Explain, SentNaksNameThePeer) {
  Rig rig;
  rig.receive(rig.packet(Opcode::kRcSendOnly, 203, true), bytes(4));
  EXPECT_THAT(lines(rig),
              ElementsAre(HasSubstr("NAK PSN sequence error to QP 0x004321 (10.0.0.2)")));
}

TEST(Explain, Addresses) {
  EXPECT_EQ(address_text(gid(9)), "10.0.0.9");
  Gid six;
  six.bytes[0] = 0xfd;
  six.bytes[15] = 2;
  EXPECT_EQ(address_text(six), "fd00::2");
  EXPECT_EQ(address_text(Gid{}), "::");
  six = {};
  six.bytes[15] = 1;
  EXPECT_EQ(address_text(six), "::1");
  six.bytes = {0x20, 1, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0xab, 0xcd, 0, 0};
  EXPECT_EQ(address_text(six), "2001:0:7::abcd:0");
}

}  // namespace
}  // namespace verbena::engine::test
