// What modify_qp refuses: the error names the attribute, and nothing has changed.
#include "rig.h"

namespace verbena::engine::test {
namespace {

using testing::HasSubstr;

void refused(Rig& rig, const QpAttributes& a, uint32_t mask, int code, const char* text) {
  auto done = rig.qp->modify(rig.now, a, mask);
  ASSERT_FALSE(done) << text;
  EXPECT_EQ(done.error().code, code);
  EXPECT_THAT(done.error().message, HasSubstr(text));
}

RigOptions from(QpState state) {
  return {.state = state, .port_mtu = 1024, .max_dest = 100};
}

TEST(Modify, ToInitNamesWhatIsWrong) {
  Rig rig(from(QpState::kReset));
  QpAttributes a;
  a.state = QpState::kRts;
  refused(rig, a, kAttrState, EINVAL, "cannot go from RESET to RTS");
  a.state = QpState::kErr;
  refused(rig, a, kAttrState, EINVAL, "RESET to ERR");
  a.state = QpState::kInit;
  uint32_t init = kAttrState | kAttrPkeyIndex | kAttrPort | kAttrAccessFlags;
  refused(rig, a, init & ~kAttrPort, EINVAL, "IBV_QP_PORT is required");
  refused(rig, a, init | kAttrQkey, EINVAL, "IBV_QP_QKEY is not allowed");
  refused(rig, a, init | kAttrCap, EOPNOTSUPP, "IBV_QP_CAP");
  a.port = 2;
  refused(rig, a, init, EINVAL, "IBV_QP_PORT 2");
  a.port = 1;
  a.pkey_index = 1;
  refused(rig, a, init, EINVAL, "IBV_QP_PKEY_INDEX 1");
  a.pkey_index = 0;
  refused(rig, a, init | kAttrCurState, EINVAL, "");
  ASSERT_TRUE(rig.qp->modify(rig.now, a, init));
}

TEST(Modify, ToRtrNamesWhatIsWrong) {
  Rig rig(from(QpState::kInit));
  QpAttributes a;
  a.state = QpState::kRtr;
  uint32_t rtr = kAttrState | kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn |
                 kAttrMaxDestRdAtomic | kAttrMinRnrTimer;
  a.path_mtu = 1;
  a.route = rig.route;
  a.path_mtu = 6;
  refused(rig, a, rtr, EINVAL, "IBV_QP_PATH_MTU code 6");
  a.path_mtu = 4;
  refused(rig, a, rtr, EINVAL, "2048 bytes is above the 1024 that the port");
  a.path_mtu = 3;
  a.max_dest_rd_atomic = 101;
  refused(rig, a, rtr, EINVAL, "IBV_QP_MAX_DEST_RD_ATOMIC 101 is above 100");
  a.max_dest_rd_atomic = 1;
  a.min_rnr_timer = 32;
  refused(rig, a, rtr, EINVAL, "IBV_QP_MIN_RNR_TIMER 32");
  a.min_rnr_timer = 1;
  a.dest_qpn = 1 << 24;
  refused(rig, a, rtr, EINVAL, "IBV_QP_DEST_QPN");
  a.dest_qpn = 1;
  refused(rig, a, rtr | kAttrAltPath, EOPNOTSUPP, "IBV_QP_ALT_PATH");
  ASSERT_TRUE(rig.qp->modify(rig.now, a, rtr));
}

TEST(Modify, ToRtsNamesWhatIsWrong) {
  Rig rig(from(QpState::kRtr));
  QpAttributes a;
  a.state = QpState::kRts;
  uint32_t rts =
      kAttrState | kAttrTimeout | kAttrRetryCnt | kAttrRnrRetry | kAttrSqPsn | kAttrMaxQpRdAtomic;
  a.timeout = 32;
  refused(rig, a, rts, EINVAL, "IBV_QP_TIMEOUT 32");
  a.timeout = 1;
  a.retry_cnt = 8;
  refused(rig, a, rts, EINVAL, "IBV_QP_RETRY_CNT 8");
  a.retry_cnt = 7;
  a.rnr_retry = 8;
  refused(rig, a, rts, EINVAL, "IBV_QP_RNR_RETRY 8");
  a.rnr_retry = 7;
  a.current_state = QpState::kRts;
  refused(rig, a, rts | kAttrCurState, EINVAL, "IBV_QP_CUR_STATE says RTS");
  EXPECT_EQ(rig.qp->state(), QpState::kRtr) << "a refused modify changes nothing";
  a.current_state = QpState::kRtr;
  ASSERT_TRUE(rig.qp->modify(rig.now, a, rts | kAttrCurState));
}

TEST(Modify, PrivilegedQkeyIsRefused) {
  Rig rig({.type = QpType::kUd, .state = QpState::kReset});
  QpAttributes a;
  a.state = QpState::kInit;
  a.qkey = 0x80010000;
  auto done = rig.qp->modify(rig.now, a, kAttrState | kAttrPkeyIndex | kAttrPort | kAttrQkey);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, EPERM);
}

}  // namespace
}  // namespace verbena::engine::test
