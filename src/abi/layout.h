// The binary layout programs were compiled against, newest form. The system headers are older than
// some programs we serve, so the parts that grew since are declared here, in our own words, and
// every size and offset is asserted. Sizes by rdma-core release are in docs of the ABI tests.
#pragma once

#include <cstddef>
#include <cstdint>

#include <infiniband/verbs.h>

// The headers wrap these exported functions in macros; here they are defined.
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace verbena::abi {

// struct verbs_context of rdma-core 64: grows upward, so the newest members stand first and every
// older program finds its own at an unchanged distance from the end. The six newest operations
// (DMA handles, extended registration and what follows) are null: their inline callers check.
struct NewestVerbsContext {
  void* newer_operations[6];
  verbs_context base;
};
static_assert(sizeof(ibv_context) == 328 && sizeof(ibv_context_ops) == 256);
static_assert(offsetof(ibv_context, cmd_fd) == 264 && offsetof(ibv_context, async_fd) == 268 &&
              offsetof(ibv_context, num_comp_vectors) == 272 &&
              offsetof(ibv_context, abi_compat) == 320);
static_assert(offsetof(ibv_context, ops) + offsetof(ibv_context_ops, poll_cq) == 96 &&
              offsetof(ibv_context, ops) + offsetof(ibv_context_ops, post_send) == 208 &&
              offsetof(ibv_context, ops) + offsetof(ibv_context_ops, post_recv) == 216);
static_assert(sizeof(verbs_context) == 648 && sizeof(NewestVerbsContext) == 696);

// struct ibv_qp_ex of rdma-core 50: ends with the FLUSH operation.
struct NewestQpEx {
  ibv_qp_ex base;
  void (*wr_flush)(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_address, size_t length,
                   uint8_t type, uint8_t level);
};
static_assert(sizeof(ibv_qp) == 160 && sizeof(ibv_qp_ex) == 352 && sizeof(NewestQpEx) == 360);
inline constexpr uint64_t kQpExWithFlush = 1 << 11;
// type and level of wr_flush().
inline constexpr uint8_t kFlushGlobal = 1;
inline constexpr uint8_t kFlushPersistent = 2;
inline constexpr uint8_t kFlushRange = 0;
inline constexpr uint8_t kFlushRegion = 1;
inline constexpr uint32_t kAccessFlushGlobal = 1 << 8;
inline constexpr uint32_t kAccessFlushPersistent = 1 << 9;
// Opcodes newer than the headers (the enumerators have these values where they exist).
inline constexpr int kWrFlush = 14;
inline constexpr int kWrAtomicWrite = 15;

// struct ibv_port_attr of rdma-core 50. ibv_query_port() as exported writes the 48 bytes of
// rdma-core 14; the operation writes as many as its caller knows.
struct NewestPortAttr {
  ibv_port_attr base;
  uint32_t active_speed_ex;
};
static_assert(sizeof(ibv_port_attr) == 52 && sizeof(NewestPortAttr) == 56);
inline constexpr size_t kExportedPortAttrBytes = 48;

// struct ibv_mr_init_attr of rdma-core 59, for ibv_reg_mr_ex().
struct MrInitAttr {
  size_t length;
  int access;
  uint64_t comp_mask;  // MrInitMask
  uint64_t iova;
  void* address;
  int fd;
  uint64_t fd_offset;
  void* dmah;
};
static_assert(sizeof(MrInitAttr) == 64);
enum MrInitMask : uint64_t {
  kMrIova = 1,
  kMrAddress = 2,
  kMrFd = 4,
  kMrFdOffset = 8,
  kMrDmah = 16
};

static_assert(sizeof(ibv_device) == 664);
static_assert(sizeof(ibv_device_attr) == 232 && sizeof(ibv_device_attr_ex) == 400);
static_assert(sizeof(ibv_wc) == 48 && sizeof(ibv_send_wr) == 128 && sizeof(ibv_recv_wr) == 32);
static_assert(sizeof(ibv_cq) == 128 && sizeof(ibv_cq_ex) == 288 && sizeof(ibv_srq) == 128);
static_assert(sizeof(ibv_mr) == 48 && sizeof(ibv_sge) == 16);
static_assert(sizeof(ibv_qp_attr) == 144 && sizeof(ibv_qp_init_attr) == 64 &&
              sizeof(ibv_qp_init_attr_ex) == 136);
static_assert(sizeof(ibv_cq_init_attr_ex) == 56 && sizeof(ibv_parent_domain_init_attr) == 48);

// The is-it-mine tests of installed vendor libraries read a pointer just behind struct ibv_device.
inline constexpr size_t kZeroBytesBehindDevice = 128;

}  // namespace verbena::abi
