// What each call refuses, with the exact errno, and what it asks of the connection manager.
#include <arpa/inet.h>
#include <netdb.h>
#include <string.h>

#include "fake_port.h"

namespace verbena::test {
namespace {

using States = Rdmacm;

TEST_F(States, ids_are_of_a_known_port_space) {
  rdma_cm_id* id = nullptr;
  EXPECT_REFUSED(EINVAL, rdma_create_id(channel_, &id, nullptr, static_cast<rdma_port_space>(1)));
  EXPECT_REFUSED(EINVAL, rdma_create_id(channel_, nullptr, nullptr, RDMA_PS_TCP));
  fake().errors["open"] = EADDRINUSE;
  EXPECT_REFUSED(EADDRINUSE, rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP));
  fake().errors.clear();
  EXPECT_EQ(make(RDMA_PS_TCP)->qp_type, IBV_QPT_RC);
  EXPECT_EQ(make(RDMA_PS_UDP)->qp_type, IBV_QPT_UD);
  EXPECT_EQ(make()->context, this);
}

TEST_F(States, null_is_refused_everywhere) {
  EXPECT_REFUSED(EINVAL, rdma_destroy_id(nullptr));
  EXPECT_REFUSED(EINVAL, rdma_bind_addr(nullptr, nullptr));
  EXPECT_REFUSED(EINVAL, rdma_listen(nullptr, 1));
  EXPECT_REFUSED(EINVAL, rdma_connect(nullptr, nullptr));
  EXPECT_REFUSED(EINVAL, rdma_accept(nullptr, nullptr));
  EXPECT_REFUSED(EINVAL, rdma_disconnect(nullptr));
  EXPECT_REFUSED(EINVAL, rdma_get_cm_event(channel_, nullptr));
  EXPECT_REFUSED(EINVAL, rdma_ack_cm_event(nullptr));
  EXPECT_REFUSED(EINVAL, rdma_migrate_id(nullptr, channel_));
  rdma_destroy_event_channel(nullptr);
  rdma_destroy_ep(nullptr);
}

TEST_F(States, bind_knows_the_hosts_addresses) {
  rdma_cm_id* id = make();
  sockaddr_in strange = ipv4("203.0.113.9", 7471);
  EXPECT_REFUSED(EADDRNOTAVAIL, rdma_bind_addr(id, plain(strange)));
  sockaddr_in no_family = strange;
  no_family.sin_family = AF_UNIX;
  EXPECT_REFUSED(EAFNOSUPPORT, rdma_bind_addr(id, plain(no_family)));
  sockaddr_in own = ipv4("127.0.0.1", 7471);
  fake().errors["bind"] = EADDRINUSE;
  EXPECT_REFUSED(EADDRINUSE, rdma_bind_addr(id, plain(own)));
  fake().errors.clear();
  EXPECT_EQ(rdma_bind_addr(id, plain(own)), 0);
  EXPECT_EQ(fake().bound_address, loopback());
  ASSERT_NE(id->verbs, nullptr);  // a specific address binds to its device
  EXPECT_EQ(id->port_num, 1);
  EXPECT_EQ(id->pd->context, id->verbs);
  EXPECT_REFUSED(EINVAL, rdma_bind_addr(id, plain(own)));
}

TEST_F(States, bind_to_any_address_and_port) {
  rdma_cm_id* id = make();
  int on = 1;
  EXPECT_EQ(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof on), 0);
  EXPECT_EQ(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof on), 0);
  sockaddr_in any = ipv4("0.0.0.0", 0);
  EXPECT_EQ(rdma_bind_addr(id, plain(any)), 0);
  EXPECT_EQ(ntohs(rdma_get_src_port(id)), 50000);
  EXPECT_EQ(id->verbs, nullptr);
  EXPECT_TRUE(fake().bound_reuse);
  EXPECT_TRUE(fake().bound_one_family);
  EXPECT_REFUSED(EINVAL,
                 rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof on));
  EXPECT_EQ(rdma_listen(id, 17), 0);
  EXPECT_EQ(fake().backlog, 17u);
  EXPECT_REFUSED(EINVAL, rdma_listen(id, 1));
  destroy(id);
  EXPECT_EQ(fake().calls.back(), "release");
}

TEST_F(States, listen_without_bind_takes_any_port_of_ipv4) {
  rdma_cm_id* id = make();
  EXPECT_EQ(rdma_listen(id, -1), 0);
  EXPECT_EQ(fake().backlog, 0u);
  EXPECT_TRUE(fake().bound_address.is_ipv4());
  EXPECT_NE(rdma_get_src_port(id), 0);
}

TEST_F(States, resolving_goes_in_order) {
  rdma_cm_id* id = make();
  EXPECT_REFUSED(EINVAL, rdma_resolve_route(id, 1000));
  EXPECT_REFUSED(EINVAL, rdma_connect(id, nullptr));
  sockaddr_in to = ipv4("127.0.0.1", 7471);
  fake().errors["local_end"] = ENETUNREACH;
  EXPECT_REFUSED(ENETUNREACH, rdma_resolve_addr(id, nullptr, plain(to), 1000));
  EXPECT_TRUE(empty());
  fake().errors.clear();
  static constexpr uint8_t kNoDevice[4] = {192, 0, 2, 1};
  fake().local_source = engine::Gid::from_ipv4(kNoDevice);
  EXPECT_EQ(rdma_resolve_addr(id, nullptr, plain(to), 1000), 0);
  take(RDMA_CM_EVENT_ADDR_ERROR, -ENODEV);
  EXPECT_REFUSED(EINVAL, rdma_resolve_route(id, 1000));
}

TEST_F(States, a_route_has_one_path) {
  rdma_cm_id* id = make();
  uint8_t tos = 0x68, timeout = 15;
  EXPECT_EQ(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1), 0);
  EXPECT_EQ(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1), 0);
  sockaddr_in to = ipv4("127.0.0.1", 7471);
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, plain(to), 1000), 0);
  take(RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_EQ(ntohs(rdma_get_src_port(id)), 40000);
  EXPECT_EQ(ntohs(rdma_get_dst_port(id)), 7471);
  EXPECT_EQ(id->route.num_paths, 0);
  ASSERT_EQ(rdma_resolve_route(id, 1000), 0);
  take(RDMA_CM_EVENT_ROUTE_RESOLVED);
  ASSERT_EQ(id->route.num_paths, 1);
  const ibv_sa_path_rec& path = *id->route.path_rec;
  EXPECT_EQ(memcmp(path.dgid.raw, loopback().bytes.data(), 16), 0);
  EXPECT_EQ(memcmp(path.sgid.raw, loopback().bytes.data(), 16), 0);
  EXPECT_EQ(path.pkey, 0xffff);
  EXPECT_EQ(path.traffic_class, 0x68);
  EXPECT_EQ(path.packet_life_time, 14);
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(id->verbs, 1, &port), 0);
  EXPECT_EQ(path.mtu, port.active_mtu);
  EXPECT_REFUSED(EINVAL, rdma_resolve_addr(id, nullptr, plain(to), 1000));
}

TEST_F(States, options_have_sizes_and_ranges) {
  rdma_cm_id* id = make();
  uint8_t byte = 32;
  int number = 1;
  EXPECT_REFUSED(EINVAL, rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &number, 4));
  EXPECT_REFUSED(EINVAL, rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &byte, 1));
  EXPECT_REFUSED(EINVAL, rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &byte, 1));
  EXPECT_REFUSED(ENOSYS, rdma_set_option(id, RDMA_OPTION_ID, 99, &number, 4));
  EXPECT_REFUSED(ENOSYS, rdma_set_option(id, 9, 0, &byte, 1));
  EXPECT_REFUSED(EOPNOTSUPP, rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &byte, 1));
  byte = 3;
  EXPECT_REFUSED(EINVAL, rdma_set_option(make(RDMA_PS_UDP), RDMA_OPTION_ID,
                                         RDMA_OPTION_ID_ACK_TIMEOUT, &byte, 1));
}

TEST_F(States, connect_checks_its_parameters) {
  rdma_cm_id* id = routed();
  EXPECT_REFUSED(EINVAL, rdma_connect(id, nullptr));  // no queue pair, and none named
  uint8_t bytes[57] = {};
  rdma_conn_param param{};
  param.private_data = bytes;
  param.private_data_len = 57;
  EXPECT_REFUSED(EINVAL, rdma_connect(id, &param));
  param.private_data_len = 56;
  param.responder_resources = 200;
  EXPECT_REFUSED(EINVAL, rdma_connect(id, &param));
  param.responder_resources = RDMA_MAX_RESP_RES;
  param.initiator_depth = 7;
  param.retry_count = 9;
  param.rnr_retry_count = 5;
  param.qp_num = 0x1234;
  fake().errors["connect"] = ENOMEM;
  EXPECT_REFUSED(ENOMEM, rdma_connect(id, &param));
  fake().errors.clear();
  ASSERT_EQ(rdma_connect(id, &param), 0);
  const cm::ConnectRequest& sent = fake().request;
  EXPECT_EQ(sent.space, cm::PortSpace::kTcp);
  EXPECT_EQ(sent.source_port, 40000);
  EXPECT_EQ(sent.destination_port, 7471);
  EXPECT_EQ(sent.private_data.size(), 56u);
  EXPECT_EQ(sent.qp.qpn, 0x1234u);
  EXPECT_EQ(sent.qp.retry_count, 7);
  EXPECT_EQ(sent.qp.rnr_retry_count, 5);
  EXPECT_EQ(sent.qp.initiator_depth, 7);
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(id->verbs, &device), 0);
  EXPECT_EQ(sent.qp.responder_resources, device.max_qp_rd_atom);
  EXPECT_EQ(sent.route.destination, loopback());
  EXPECT_REFUSED(EINVAL, rdma_connect(id, &param));
}

TEST_F(States, queue_pairs_need_a_device_and_come_once) {
  rdma_cm_id* id = make();
  ibv_qp_init_attr attr{};
  attr.qp_type = IBV_QPT_RC;
  EXPECT_REFUSED(EINVAL, rdma_create_qp(id, nullptr, &attr));
  id = routed();
  add_qp(id);
  ASSERT_NE(id->qp, nullptr);
  EXPECT_EQ(id->qp->state, IBV_QPS_INIT);
  EXPECT_NE(id->send_cq_channel, nullptr);
  EXPECT_EQ(id->recv_cq->cq_context, id);
  attr.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
  EXPECT_REFUSED(EINVAL, rdma_create_qp(id, nullptr, &attr));
  rdma_destroy_qp(id);
  EXPECT_EQ(id->qp, nullptr);
  EXPECT_EQ(id->send_cq, nullptr);
}

TEST_F(States, a_queue_pair_of_no_type_leaves_nothing_behind) {
  rdma_cm_id* id = routed();
  const size_t before = descriptors();
  ibv_qp_init_attr attr{};
  attr.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
  attr.qp_type = static_cast<ibv_qp_type>(99);
  EXPECT_REFUSED(EINVAL, rdma_create_qp(id, nullptr, &attr));
  EXPECT_EQ(id->qp, nullptr);
  EXPECT_EQ(id->send_cq, nullptr);
  EXPECT_EQ(descriptors(), before);
  rdma_addrinfo hints{}, *info = nullptr;
  hints.ai_flags = RAI_PASSIVE;
  ASSERT_EQ(rdma_getaddrinfo("127.0.0.1", "7471", &hints, &info), 0);
  info->ai_qp_type = 99;
  rdma_cm_id* listener = nullptr;
  EXPECT_REFUSED(EINVAL, rdma_create_ep(&listener, info, nullptr, nullptr));
  EXPECT_EQ(listener, nullptr);
  rdma_freeaddrinfo(info);
  EXPECT_EQ(descriptors(), before);
}

// Its shared receive queue has the completion queue: whichever goes last takes it along.
TEST_F(States, an_xrc_receiver_gives_back_its_completion_queue) {
  for (const bool queue_first : {false, true}) {
    rdma_cm_id* id = make(RDMA_PS_IB);
    sockaddr_in own = ipv4("127.0.0.1", 7471);
    ASSERT_EQ(rdma_bind_addr(id, plain(own)), 0);
    id->qp_type = IBV_QPT_XRC_RECV;
    const size_t before = descriptors();
    ibv_srq_init_attr srq{};
    srq.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
    ASSERT_EQ(rdma_create_srq(id, nullptr, &srq), 0) << strerror(errno);
    EXPECT_GT(descriptors(), before);
    ibv_qp_init_attr attr{};
    attr.qp_type = IBV_QPT_XRC_RECV;
    ASSERT_EQ(rdma_create_qp(id, nullptr, &attr), 0) << strerror(errno);
    if (queue_first) rdma_destroy_srq(id);
    rdma_destroy_qp(id);
    EXPECT_EQ(id->qp, nullptr);
    EXPECT_EQ(id->recv_cq == nullptr, queue_first);
    if (!queue_first) rdma_destroy_srq(id);
    EXPECT_EQ(id->recv_cq, nullptr);
    EXPECT_EQ(id->recv_cq_channel, nullptr);
    EXPECT_EQ(descriptors(), before);
    destroy(id);
  }
}

TEST_F(States, a_lack_of_descriptors_is_called_so) {
  rdma_cm_id* id = make();
  sockaddr_in own = ipv4("127.0.0.1", 7471);
  NoDescriptors none;
  EXPECT_REFUSED(EMFILE, rdma_bind_addr(id, plain(own)));
}

TEST_F(States, only_requests_are_accepted_or_rejected) {
  rdma_cm_id* id = routed();
  rdma_conn_param param{};
  EXPECT_REFUSED(EINVAL, rdma_accept(id, &param));
  EXPECT_REFUSED(EINVAL, rdma_reject(id, nullptr, 0));
  EXPECT_REFUSED(EINVAL, rdma_disconnect(id));
  EXPECT_REFUSED(EINVAL, rdma_establish(id));
  EXPECT_REFUSED(EINVAL, rdma_notify(id, IBV_EVENT_COMM_EST));
  EXPECT_REFUSED(EINVAL, rdma_notify(id, IBV_EVENT_QP_FATAL));
}

TEST_F(States, what_is_not_there_says_so) {
  rdma_cm_id* id = make();
  ibv_ece ece{.vendor_id = 7, .options = 7, .comp_mask = 0};
  EXPECT_REFUSED(EOPNOTSUPP, rdma_set_local_ece(id, &ece));
  EXPECT_NE(fake().explained.back().find("rdma_set_local_ece"), std::string::npos);
  EXPECT_EQ(rdma_get_remote_ece(id, &ece), 0);
  EXPECT_EQ(ece.vendor_id, 0u);
}

TEST_F(States, addresses_of_names) {
  rdma_addrinfo* info = nullptr;
  rdma_addrinfo hints{};
  hints.ai_flags = 0x100;
  EXPECT_EQ(rdma_getaddrinfo("127.0.0.1", "1", &hints, &info), EAI_BADFLAGS);
  hints.ai_flags = RAI_NUMERICHOST;
  EXPECT_EQ(rdma_getaddrinfo("no.number", "1", &hints, &info), EAI_NONAME);
  hints.ai_qp_type = IBV_QPT_UD;
  hints.ai_port_space = RDMA_PS_TCP;
  EXPECT_EQ(rdma_getaddrinfo("127.0.0.1", "1", &hints, &info), EAI_SOCKTYPE);
  EXPECT_EQ(rdma_getaddrinfo(nullptr, nullptr, nullptr, &info), EAI_NONAME);
  EXPECT_EQ(info, nullptr);
  hints.ai_port_space = 0;
  ASSERT_EQ(rdma_getaddrinfo("127.0.0.1", "7471", &hints, &info), 0);
  EXPECT_EQ(info->ai_port_space, RDMA_PS_UDP);
  EXPECT_EQ(info->ai_family, AF_INET);
  EXPECT_EQ(ntohs(reinterpret_cast<sockaddr_in*>(info->ai_dst_addr)->sin_port), 7471);
  EXPECT_EQ(info->ai_src_len, sizeof(sockaddr_in));
  rdma_freeaddrinfo(info);
  hints.ai_flags = RAI_PASSIVE;
  ASSERT_EQ(rdma_getaddrinfo(nullptr, "7471", &hints, &info), 0);
  EXPECT_EQ(info->ai_dst_addr, nullptr);
  EXPECT_NE(info->ai_src_addr, nullptr);
  rdma_freeaddrinfo(info);
}

TEST_F(States, devices_stay_open) {
  int count = 0;
  ibv_context** list = rdma_get_devices(&count);
  ASSERT_NE(list, nullptr);
  EXPECT_EQ(count, 1);
  ibv_context* first = list[0];
  EXPECT_EQ(list[1], nullptr);
  rdma_free_devices(list);
  EXPECT_EQ(routed()->verbs, first);
}

}  // namespace
}  // namespace verbena::test
