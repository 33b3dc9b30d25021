// A call that fails leaves one line in the explain log: which call, of which addresses, why, and
// the errno's name.
#include "fake_port.h"

namespace verbena::test {
namespace {

using ExplainLines = Rdmacm;
using Lines = std::vector<std::string>;

// What was explained since the last call.
Lines said() {
  Lines lines;
  lines.swap(fake().explained);
  return lines;
}

TEST_F(ExplainLines, name_call_addresses_and_errno) {
  rdma_cm_id* id = make();
  sockaddr_in strange = ipv4("203.0.113.9", 7471);
  EXPECT_REFUSED(EADDRNOTAVAIL, rdma_bind_addr(id, plain(strange)));
  EXPECT_EQ(said(),
            Lines{"rdma_bind_addr: 203.0.113.9 is no address of this host (EADDRNOTAVAIL)"});
  sockaddr_in own = ipv4("127.0.0.1", 7471);
  ASSERT_EQ(rdma_bind_addr(id, plain(own)), 0);
  EXPECT_EQ(said(), Lines{});
  EXPECT_REFUSED(EINVAL, rdma_bind_addr(id, plain(own)));
  const Lines bound = said();
  ASSERT_EQ(bound.size(), 1u);
  EXPECT_EQ(bound[0].find("rdma_bind_addr (127.0.0.1:"), 0u) << bound[0];
  EXPECT_NE(bound[0].find("): the id is bound already (EINVAL)"), std::string::npos) << bound[0];
}

TEST_F(ExplainLines, name_both_ends_of_a_route) {
  rdma_cm_id* id = routed();
  said();
  EXPECT_REFUSED(EINVAL, rdma_connect(id, nullptr));
  const Lines lines = said();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].find("rdma_connect (127.0.0.1:40000 -> 127.0.0.1:7471): "), 0u) << lines[0];
  EXPECT_NE(lines[0].find("(EINVAL)"), std::string::npos) << lines[0];
}

TEST_F(ExplainLines, name_the_attribute_and_its_limit) {
  rdma_cm_id* id = routed();
  uint8_t bytes[57] = {};
  rdma_conn_param param{};
  param.private_data = bytes;
  param.private_data_len = sizeof bytes;
  said();
  EXPECT_REFUSED(EINVAL, rdma_connect(id, &param));
  EXPECT_EQ(said(), Lines{"rdma_connect (127.0.0.1:40000 -> 127.0.0.1:7471): 57 bytes of private "
                          "data, at most 56 fit (EINVAL)"});
  fake().errors["connect"] = ENOMEM;
  param.private_data_len = 0;
  EXPECT_REFUSED(ENOMEM, rdma_connect(id, &param));
  const Lines lines = said();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("(ENOMEM)"), std::string::npos) << lines[0];
}

TEST_F(ExplainLines, say_why_an_address_has_no_device) {
  static constexpr uint8_t kNoDevice[4] = {203, 0, 113, 9};
  fake().local_source = engine::Gid::from_ipv4(kNoDevice);
  sockaddr_in to = ipv4("127.0.0.1", 7471);
  rdma_cm_id* id = make();
  said();
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, plain(to), 1000), 0);
  take(RDMA_CM_EVENT_ADDR_ERROR, -ENODEV);
  EXPECT_EQ(said(), Lines{"rdma_resolve_addr: 127.0.0.1 is not reached: no device has the address "
                          "203.0.113.9; `verbena devices` shows which there are"});
}

TEST_F(ExplainLines, null_pointers_are_told_by_call) {
  EXPECT_REFUSED(EINVAL, rdma_listen(nullptr, 1));
  EXPECT_REFUSED(EINVAL, rdma_resolve_addr(nullptr, nullptr, nullptr, 0));
  EXPECT_REFUSED(EINVAL, rdma_create_id(channel_, nullptr, nullptr, RDMA_PS_TCP));
  EXPECT_REFUSED(EINVAL, rdma_get_cm_event(channel_, nullptr));
  EXPECT_EQ(said(), (Lines{"rdma_listen: an argument is a null pointer (EINVAL)",
                           "rdma_resolve_addr: an argument is a null pointer (EINVAL)",
                           "rdma_create_id: an argument is a null pointer (EINVAL)",
                           "rdma_get_cm_event: an argument is a null pointer (EINVAL)"}));
}

}  // namespace
}  // namespace verbena::test
