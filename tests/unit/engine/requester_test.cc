// The requester by packet scripts: what leaves for a posted work request, and what each answer
// does. Numbers are exact: opcode, PSN, flags, lengths, times.
#include "rig.h"

namespace verbena::engine::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

TEST(Requester, ReadOfSeveralPacketsPlacesEachAndCompletesOnce) {
  Rig rig;
  ASSERT_EQ(rig.read(600), 0);
  auto sent = rig.transmit();
  ASSERT_THAT(summary(sent), ElementsAre("RC_READ_REQUEST 100"));
  EXPECT_EQ(sent[0].header.reth.address, 0x10000u);
  EXPECT_EQ(sent[0].header.reth.rkey, 0x77u);
  EXPECT_EQ(sent[0].header.reth.length, 600u);
  EXPECT_TRUE(sent[0].header.ack_request);
  auto data = bytes(600);
  rig.read_response(Opcode::kRcReadResponseFirst, 100, {data.begin(), data.begin() + 256});
  rig.read_response(Opcode::kRcReadResponseMiddle, 101, {data.begin() + 256, data.begin() + 512});
  EXPECT_THAT(rig.poll_send(), IsEmpty());
  rig.read_response(Opcode::kRcReadResponseLast, 102, {data.begin() + 512, data.end()});
  auto done = rig.poll_send();
  ASSERT_THAT(summary(done), ElementsAre("1:SUCCESS"));
  EXPECT_EQ(done[0].opcode, WcOpcode::kRdmaRead);
  EXPECT_EQ(done[0].byte_len, 600u);
  EXPECT_EQ(std::memcmp(rig.memory + 0x80000, data.data(), 600), 0);
  EXPECT_EQ(rig.device.next_deadline(), kNever);
  EXPECT_EQ(rig.counters().implied_nak_seq_err, 0u);
}

}  // namespace
}  // namespace verbena::engine::test
