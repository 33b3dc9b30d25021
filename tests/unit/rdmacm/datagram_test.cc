// Datagram services (SIDR) and multicast groups.
#include <arpa/inet.h>

#include "fake_port.h"

namespace verbena::test {
namespace {

using Datagrams = Rdmacm;

TEST_F(Datagrams, queue_pairs_are_ready_at_once) {
  rdma_cm_id* id = routed(RDMA_PS_UDP);
  add_qp(id);
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(id->qp, &attr, IBV_QP_STATE | IBV_QP_QKEY, &init), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(attr.qkey, 0x01234567u);
}

TEST_F(Datagrams, a_service_is_looked_up) {
  rdma_cm_id* id = routed(RDMA_PS_UDP);
  uint8_t bytes[181] = {};
  rdma_conn_param param{};
  param.private_data = bytes;
  param.private_data_len = 181;
  EXPECT_REFUSED(EINVAL, rdma_connect(id, &param));
  param.private_data_len = 180;
  ASSERT_EQ(rdma_connect(id, &param), 0);
  EXPECT_EQ(fake().request.space, cm::PortSpace::kUdp);
  cm::Event event = fake().event(cm::EventType::kSidrResponse);
  event.qp.qpn = 0x4321;
  event.qp.qkey = 0x01234567;
  event.private_data.assign(136, 0x22);
  fake().emit(std::move(event));
  const rdma_ud_param& ud = take(RDMA_CM_EVENT_ESTABLISHED)->param.ud;
  EXPECT_EQ(ud.qp_num, 0x4321u);
  EXPECT_EQ(ud.qkey, 0x01234567u);
  EXPECT_EQ(ud.private_data_len, 136);
  EXPECT_EQ(ud.ah_attr.is_global, 1);
  EXPECT_EQ(ud.ah_attr.port_num, 1);
  EXPECT_EQ(memcmp(ud.ah_attr.grh.dgid.raw, loopback().bytes.data(), 16), 0);
}

TEST_F(Datagrams, a_service_that_is_not_there) {
  rdma_cm_id* id = routed(RDMA_PS_UDP);
  ASSERT_EQ(rdma_connect(id, nullptr), 0);
  cm::Event event = fake().event(cm::EventType::kSidrResponse);
  event.status = 1;
  fake().emit(std::move(event));
  take(RDMA_CM_EVENT_UNREACHABLE, 1);
}

TEST_F(Datagrams, a_request_is_answered_with_the_queue_pair) {
  rdma_cm_id* listener = make(RDMA_PS_UDP);
  sockaddr_in own = ipv4("127.0.0.1", 7174);
  ASSERT_EQ(rdma_bind_addr(listener, plain(own)), 0);
  ASSERT_EQ(rdma_listen(listener, 1), 0);
  fake().emit_request(true);
  rdma_cm_event* event = take(RDMA_CM_EVENT_CONNECT_REQUEST);
  rdma_cm_id* child = event->id;
  ids_.push_back(child);
  EXPECT_EQ(event->param.ud.private_data_len, 180);
  EXPECT_REFUSED(EINVAL, rdma_accept(child, nullptr));
  rdma_conn_param param{};
  param.qp_num = 0x99;
  ASSERT_EQ(rdma_accept(child, &param), 0);
  EXPECT_EQ(fake().accepted.qpn, 0x99u);
  EXPECT_EQ(fake().accepted.qkey, 0x01234567u);
}

TEST_F(Datagrams, joining_a_group) {
  sockaddr_in group = ipv4("239.1.2.3", 0), host = ipv4("127.0.0.1", 0);
  EXPECT_REFUSED(EINVAL, rdma_join_multicast(make(RDMA_PS_UDP), plain(group), nullptr));
  EXPECT_REFUSED(EINVAL, rdma_join_multicast(routed(), plain(group), nullptr));
  rdma_cm_id* id = routed(RDMA_PS_UDP);
  EXPECT_REFUSED(EINVAL, rdma_join_multicast(id, plain(host), nullptr));
  add_qp(id);
  int context = 0;
  ASSERT_EQ(rdma_join_multicast(id, plain(group), &context), 0);
  const rdma_ud_param& ud = take(RDMA_CM_EVENT_MULTICAST_JOIN)->param.ud;
  EXPECT_EQ(ud.private_data, &context);
  EXPECT_EQ(ud.qp_num, 0xffffffu);
  EXPECT_EQ(ud.qkey, 0x01234567u);
  const uint8_t expected[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3};
  EXPECT_EQ(memcmp(ud.ah_attr.grh.dgid.raw, expected, 16), 0);
  ibv_gid gid{};
  memcpy(gid.raw, expected, 16);
  EXPECT_EQ(rdma_leave_multicast(id, plain(group)), 0);
  EXPECT_EQ(ibv_detach_mcast(id->qp, &gid, 0), EINVAL);  // detached already
  EXPECT_REFUSED(EADDRNOTAVAIL, rdma_leave_multicast(id, plain(group)));
}

TEST_F(Datagrams, joining_with_options) {
  rdma_cm_id* id = routed(RDMA_PS_UDP);
  add_qp(id);
  sockaddr_in group = ipv4("239.1.2.4", 0);
  rdma_cm_join_mc_attr_ex attr{};
  attr.comp_mask = 1 << 9;
  EXPECT_REFUSED(EOPNOTSUPP, rdma_join_multicast_ex(id, &attr, nullptr));
  attr.comp_mask = RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
  EXPECT_REFUSED(EINVAL, rdma_join_multicast_ex(id, &attr, nullptr));
  attr.comp_mask |= RDMA_CM_JOIN_MC_ATTR_ADDRESS;
  attr.addr = plain(group);
  attr.join_flags = RDMA_MC_JOIN_FLAG_RESERVED;
  EXPECT_REFUSED(EINVAL, rdma_join_multicast_ex(id, &attr, nullptr));
  attr.join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
  ASSERT_EQ(rdma_join_multicast_ex(id, &attr, nullptr), 0);
  take(RDMA_CM_EVENT_MULTICAST_JOIN);
  ibv_gid gid{};
  const uint8_t expected[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 4};
  memcpy(gid.raw, expected, 16);
  EXPECT_EQ(ibv_detach_mcast(id->qp, &gid, 0), EINVAL);  // a sender is not attached
}

}  // namespace
}  // namespace verbena::test
