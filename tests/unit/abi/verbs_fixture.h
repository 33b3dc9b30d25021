// A device opened the way programs do it, and owners that destroy what a test made.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>

namespace verbena::test {

// VERBENA_DEVICES is set by ctest; set here too so that the program can be run by hand.
inline ibv_context* open_loopback() {
  setenv("VERBENA_DEVICES", "test0=lo", 0);
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  ibv_context* context = list && count ? ibv_open_device(list[0]) : nullptr;
  if (list) ibv_free_device_list(list);
  return context;
}

// One completion queue for both directions, `work_requests` of one SGE each way.
inline ibv_qp_init_attr qp_attr(ibv_qp_type type, ibv_cq* cq, uint32_t work_requests = 1) {
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = cq;
  attr.cap = {.max_send_wr = work_requests,
              .max_recv_wr = work_requests,
              .max_send_sge = 1,
              .max_recv_sge = 1};
  attr.qp_type = type;
  return attr;
}

inline ibv_qp* make_ud(ibv_pd* pd, ibv_cq* cq) {
  ibv_qp_init_attr init = qp_attr(IBV_QPT_UD, cq, 4);
  return ibv_create_qp(pd, &init);
}

// `fd` names the domain; -1: a private one.
inline ibv_xrcd* make_xrcd(ibv_context* context, int fd) {
  ibv_xrcd_init_attr attr{
      .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = fd, .oflags = O_CREAT};
  return ibv_open_xrcd(context, &attr);
}

// RESET to INIT on port 1, without remote access. 0 or errno.
inline int to_init(ibv_qp* qp) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  return ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

// Wait status of a forked child that runs `body`: 0 when it gave true, SIGALRM when it hung.
template <typename Body>
int in_child(Body&& body) {
  pid_t child = fork();
  if (child == 0) {
    alarm(30);
    _exit(body() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

class Verbs : public testing::Test {
 protected:
  void SetUp() override {
    context_ = open_loopback();
    ASSERT_NE(context_, nullptr);
    pd_ = ibv_alloc_pd(context_);
    ASSERT_NE(pd_, nullptr);
  }
  void TearDown() override {
    if (pd_) {
      EXPECT_EQ(ibv_dealloc_pd(pd_), 0);
    }
    if (context_) {
      EXPECT_EQ(ibv_close_device(context_), 0);
    }
  }

  ibv_qp_init_attr rc_attr(ibv_cq* cq) {
    ibv_qp_init_attr attr = qp_attr(IBV_QPT_RC, cq, 8);
    attr.cap.max_send_sge = attr.cap.max_recv_sge = 2;
    attr.cap.max_inline_data = 64;
    return attr;
  }

  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
};

}  // namespace verbena::test
