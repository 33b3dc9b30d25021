// Defects that other RoCE stacks have or had. Each test of the known_defects files is named after
// the defect and asserts, packet by packet, that this engine does not have it. What an older test
// already asserts is not repeated:
//
// clang-format off
//   defect                                             asserted by
//   retry_cnt 7 retries for ever                       Timer.RetryCountSevenIsEight...
//   timers in jiffies, RNR code 25 mistyped            Timer.EveryRnrCodeIsWaitedExactly
//   resent before the RNR timer fires                  Timer.NothingLeavesDuringAnRnrWait...
//   rnr_retry 7 is finite                              Timer.RnrRetrySevenIsForEver
//   unknown opcode read beyond its packet              Packet.RefusesWhatIsNoPacket (wire)
//   no NAK for a bad opcode without a receive          Refusal.InvalidRequest
//   class C error without an async event               Refusal.InvalidRequest
//   short receive buffer answered with NAK 0x63        Refusal.ReceiveTooShortOnBothSides
//   wrong length inside a WRITE                        Refusal.WithinAWrite
//   bind of a window whose range wraps                 Window.BindsThatMustFail
//   message length wraps 32 bits                       Queue.LengthsAreCappedNotWrapped
//   R_Key of an empty READ or WRITE is checked         Responder.{Read,Write}OfNothing...
//   R_Key of a duplicate READ is not checked again     Responder.LateRepetitionOfAReadWhoseKey...
//   duplicate READ of another range answered           Responder.DuplicateReadOfAnotherRange...
//   duplicates without limit fill the answers          Responder.RepeatedRequestsCannotFill...
//   depth 0 crashes on a READ                          Refusal.InvalidRequest
//   a gap in READ responses waits for the timeout      Requester.GapInReadResponsesIs...
//   a second NAK is ignored                            Requester.ObeysASecondNakAtOnce
//   credits never sent, never honoured                 {Responder.Advertises,Requester.Credits}...
//   no coalescing of acknowledgements                  Responder.MergesAcknowledgementsThatWait
//   periodic loss never gets through                   Scenario.PeriodicLossGetsThrough (sim)
//   path MTU above the port's accepted                 State.ModifyNamesWhatIsWrong
//   flush completions do not count as solicited        State.SolicitedArmFiresFor...
//   max_dest_rd_atomic 129 reads back as 0             State.ModifyNamesWhatIsWrong
//   flow label ignored for the UDP source port         UdpSourcePort.FollowsTheFlowLabel (wire)
//   bad GRH header checksum in UD receives             Grh.Ipv4 (wire), Datagram.ArrivesBehind...
//   atomic replay keeps the packet, not the value      known_defects_replay_test.cc
//   RNR                                                known_defects_rnr_test.cc
//   short packets, address overflow                    known_defects_length_test.cc
//   completion queue overrun                           overrun_test.cc
// clang-format on
#include "rig.h"

namespace verbena::engine::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// --- the order of the responder's checks (IBA 9.7.4.1): the first objection wins

struct Answer {
  uint32_t psn;
  uint8_t syndrome;
  bool operator==(const Answer&) const = default;
};

std::vector<Answer> answers(Rig& rig) {
  std::vector<Answer> all;
  for (const Sent& sent : rig.transmit()) {
    EXPECT_EQ(sent.opcode(), Opcode::kRcAcknowledge);
    all.push_back({sent.psn(), sent.syndrome()});
  }
  return all;
}

TEST(KnownOrder, OpcodeIsJudgedBeforeThePsn) {
  Rig rig;
  rig.receive(rig.packet(Opcode::kRcSendMiddle, 205, true), bytes(3));  // ahead and nonsense
  EXPECT_EQ(answers(rig), (std::vector<Answer>{{200, 0x60}}));
  rig.receive(rig.packet(Opcode::kRcSendMiddle, 150), bytes(3));  // behind and nonsense
  EXPECT_THAT(rig.transmit(), IsEmpty());
  EXPECT_EQ(rig.qp->state(), QpState::kRts);
}

TEST(KnownOrder, MissingReceiveHidesAMissingPermission) {
  Rig rig({.access = memory::kRemoteRead});
  rig.receive(rig.write_request(Opcode::kRcWriteOnlyImm, 200, 0, 8), bytes(8));
  EXPECT_EQ(answers(rig), (std::vector<Answer>{{200, 0x61}}));
}

TEST(KnownOrder, WrongLengthHidesAMissingReceive) {
  Rig rig;
  rig.receive(rig.packet(Opcode::kRcSendOnly, 200, true), bytes(257));
  EXPECT_EQ(answers(rig), (std::vector<Answer>{{200, 0x20 | 12}}));
  EXPECT_EQ(rig.qp->state(), QpState::kRts);
}

TEST(KnownOrder, BadKeyHidesAWrongLength) {
  for (bool atomic : {false, true}) {
    Rig rig;
    wire::Packet p = atomic ? rig.atomic(Opcode::kRcFetchAdd, 200, 65, 1)
                            : rig.write_request(Opcode::kRcWriteOnly, 200, 0, 9);
    p.reth.rkey = p.atomic.rkey = 0xdead;
    rig.receive(p, bytes(atomic ? 0 : 8));
    EXPECT_EQ(answers(rig), (std::vector<Answer>{{200, 0x61}}));
  }
}

TEST(KnownOrder, HalfThePsnSpaceIsMeasuredWrongly) {
  for (uint32_t base : {200u, 0u, 0xffffffu}) {
    Rig rig({.rq_psn = base});
    auto at = [&](int32_t distance) { return (base + static_cast<uint32_t>(distance)) & 0xffffff; };
    rig.receive(rig.write_request(Opcode::kRcWriteOnly, at(-0x7fffff), 0, 4), bytes(4));
    auto behind = rig.transmit();  // a duplicate: the newest acknowledgement
    ASSERT_THAT(behind, SizeIs(1));
    EXPECT_EQ(behind[0].psn(), at(-1));
    EXPECT_EQ(behind[0].syndrome() & 0xe0, 0);
    rig.receive(rig.write_request(Opcode::kRcWriteOnly, at(0x7fffff), 0, 4), bytes(4));
    EXPECT_EQ(answers(rig), (std::vector<Answer>{{base, 0x60}}));
    EXPECT_EQ(rig.memory[0], 0);
  }
}

// --- what rxe does and we do not

TEST(KnownRxe, MigReqIsAlwaysZero) {
  Rig rig;
  rig.send(4);
  auto sent = rig.transmit();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_TRUE(sent[0].header.mig_req);
  for (bool migrated : {false, true}) {  // both are taken
    wire::Packet p = rig.write_request(Opcode::kRcWriteOnly, migrated ? 201 : 200, 0, 4);
    p.mig_req = migrated;
    rig.receive(p, bytes(4));
    auto answer = rig.transmit();
    ASSERT_THAT(answer, SizeIs(1));
    EXPECT_TRUE(answer[0].header.mig_req);
    EXPECT_EQ(answer[0].header.pkey, 0xffff);
  }
}

TEST(KnownRxe, FlightOfMoreThan128PacketsWaits) {
  Rig rig;
  rig.send(300 * 256);
  EXPECT_THAT(rig.transmit(), SizeIs(300));
}

TEST(KnownRxe, FlightHasNoBound) {
  Rig rig({.mtu = 5});
  rig.send(200 * 4096);
  EXPECT_THAT(rig.transmit(), SizeIs(64)) << "256 KiB";
  rig.ack(119);
  EXPECT_THAT(rig.transmit(), SizeIs(20));
}

TEST(KnownRxe, CongestionNotificationIsTakenForAResponse) {
  Rig rig;
  rig.send(4);
  rig.transmit();
  wire::Packet p = rig.packet(Opcode::kCnp, 0);
  p.becn = true;
  rig.receive(p, std::vector<uint8_t>(16));
  EXPECT_EQ(rig.counters().rp_cnp_handled, 1u);
  EXPECT_THAT(rig.transmit(), IsEmpty());
  EXPECT_THAT(rig.poll_send(), IsEmpty());
  rig.ack(100);
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:SUCCESS"));
}

TEST(KnownRxe, LossInsideAResendCostsATimeout) {
  Rig rig;
  rig.send(8 * 256);
  ASSERT_THAT(rig.transmit(), SizeIs(8));
  rig.ack(102, 0x60);
  ASSERT_THAT(rig.transmit(), SizeIs(6));
  rig.ack(104, 0x60);  // the resend lost another one
  EXPECT_THAT(summary(rig.transmit()), ElementsAre("RC_SEND_MIDDLE 104", "RC_SEND_MIDDLE 105",
                                                   "RC_SEND_MIDDLE 106", "RC_SEND_LAST 107"));
  EXPECT_EQ(rig.counters().local_ack_timeout_err, 0u);
}

TEST(KnownRxe, MisalignedAtomicIsRefusedWhenPosted) {
  Rig rig;
  ASSERT_EQ(rig.post(rig.remote(WrOpcode::kAtomicFetchAndAdd, {rig.sge(64, 8)}, 0x10001, 0x77)), 0);
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_FETCH_ADD 100"));
  EXPECT_EQ(sent[0].header.atomic.address, 0x10001u);
  rig.ack(100, 0x61);
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("1:REM_INV_REQ_ERR"));
}

TEST(KnownRxe, UnsignaledFailureIsSilent) {
  Rig rig;
  rig.write(8, 0);
  rig.write(8, 0);
  rig.transmit();
  rig.ack(101, 0x62);
  EXPECT_THAT(summary(rig.poll_send()), ElementsAre("2:REM_ACCESS_ERR"))
      << "the first succeeded and says nothing";
  EXPECT_EQ(rig.qp->state(), QpState::kErr);
}

}  // namespace
}  // namespace verbena::engine::test
