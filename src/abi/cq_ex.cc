// Extended completion queues: the same queue read one completion at a time through accessors.
#include <ctime>

#include "abi/cq.h"
#include "abi/errors.h"
#include "abi/import.h"
#include "abi/operations.h"

namespace verbena::abi {
namespace {

constexpr uint64_t kReadable = uint64_t{IBV_WC_STANDARD_FLAGS} |
                               IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                               IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

int read_one(const char* call, ibv_cq_ex* base) {
  Cq* cq = cast(base);
  int got = host::Process::get().poll(*cq->queue, &cq->current, 1);
  if (got == 0) return ENOENT;
  if (got < 0)
    return shielded([&] {
      return refuse(EIO,
                    "{}: the completion queue has overrun: more than its {} entries came before "
                    "they were polled; make it larger or poll sooner",
                    call, base->cqe);
    });
  base->wr_id = cq->current.wr_id;
  base->status = static_cast<ibv_wc_status>(cq->current.status);
  return 0;
}

int next_poll(ibv_cq_ex* base) {
  return read_one("ibv_next_poll", base);
}

int start_poll(ibv_cq_ex* base, ibv_poll_cq_attr* attr) {
  if (attr->comp_mask)
    return shielded([&] {
      return refuse(EOPNOTSUPP, "ibv_start_poll: comp_mask {:#x}: no bit is defined",
                    attr->comp_mask);
    });
  return read_one("ibv_start_poll", base);
}

void end_poll(ibv_cq_ex*) {}

ibv_wc_opcode read_opcode(ibv_cq_ex* cq) {
  return static_cast<ibv_wc_opcode>(cast(cq)->current.opcode);
}
uint32_t read_vendor_err(ibv_cq_ex* cq) {
  return cast(cq)->current.vendor_error;
}
uint32_t read_byte_len(ibv_cq_ex* cq) {
  return cast(cq)->current.byte_len;
}
__be32 read_imm_data(ibv_cq_ex* cq) {
  return cast(cq)->current.imm_or_rkey;
}
uint32_t read_qp_num(ibv_cq_ex* cq) {
  return cast(cq)->current.qp_num;
}
uint32_t read_src_qp(ibv_cq_ex* cq) {
  return cast(cq)->current.source_qp;
}
unsigned int read_wc_flags(ibv_cq_ex* cq) {
  return cast(cq)->current.flags;
}
uint32_t read_slid(ibv_cq_ex* cq) {
  return cast(cq)->current.source_lid;
}
uint8_t read_sl(ibv_cq_ex* cq) {
  return cast(cq)->current.service_level;
}
uint8_t read_dlid_path_bits(ibv_cq_ex*) {
  return 0;
}
uint64_t read_completion_ts(ibv_cq_ex* cq) {
  return static_cast<uint64_t>(cast(cq)->current.timestamp.ns());
}
uint16_t read_cvlan(ibv_cq_ex*) {
  return 0;
}
uint32_t read_flow_tag(ibv_cq_ex*) {
  return 0;
}
void read_tm_info(ibv_cq_ex*, ibv_wc_tm_info* info) {
  *info = {};
}

// Timestamps count on the engine's clock; the wall clock is that far from it now.
uint64_t read_completion_wallclock_ns(ibv_cq_ex* cq) {
  timespec wall;
  clock_gettime(CLOCK_REALTIME, &wall);
  int64_t wall_ns = int64_t{wall.tv_sec} * 1'000'000'000 + wall.tv_nsec;
  int64_t age = host::Process::get().now().ns() - cast(cq)->current.timestamp.ns();
  return static_cast<uint64_t>(wall_ns - age);
}

void fill_accessors(ibv_cq_ex& cq) {
  cq.start_poll = start_poll;
  cq.next_poll = next_poll;
  cq.end_poll = end_poll;
  cq.read_opcode = read_opcode;
  cq.read_vendor_err = read_vendor_err;
  cq.read_byte_len = read_byte_len;
  cq.read_imm_data = read_imm_data;
  cq.read_qp_num = read_qp_num;
  cq.read_src_qp = read_src_qp;
  cq.read_wc_flags = read_wc_flags;
  cq.read_slid = read_slid;
  cq.read_sl = read_sl;
  cq.read_dlid_path_bits = read_dlid_path_bits;
  cq.read_completion_ts = read_completion_ts;
  cq.read_cvlan = read_cvlan;
  cq.read_flow_tag = read_flow_tag;
  cq.read_tm_info = read_tm_info;
  cq.read_completion_wallclock_ns = read_completion_wallclock_ns;
}

int check_attr(const ibv_cq_init_attr_ex& attr) {
  const char* call = "ibv_create_cq_ex";
  constexpr uint32_t kKnown = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
  if (attr.comp_mask & ~kKnown)
    return refuse(EOPNOTSUPP, "{}: comp_mask {:#x} has unknown bits", call, attr.comp_mask);
  if (attr.wc_flags & ~kReadable)
    return refuse(EOPNOTSUPP,
                  "{}: wc_flags {:#x}: of these {:#x} are not supported (VLAN, flow "
                  "tags, tag matching)",
                  call, attr.wc_flags, attr.wc_flags & ~kReadable);
  if ((attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) &&
      (attr.flags & ~uint32_t{IBV_CREATE_CQ_ATTR_SINGLE_THREADED}))
    return refuse(EOPNOTSUPP, "{}: flags {:#x}: an overrun is always an error here", call,
                  attr.flags);
  if ((attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) &&
      (!attr.parent_domain || !cast(attr.parent_domain)->parent_of))
    return refuse(EINVAL, "{}: parent_domain is not a parent domain", call);
  return 0;
}

}  // namespace

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr) {
  return shielded_pointer<ibv_cq_ex>([&]() -> ibv_cq_ex* {
    if (int error = check_attr(*attr)) {
      errno = error;
      return nullptr;
    }
    CqSpec spec{.entries = attr->cqe,
                .user_context = attr->cq_context,
                .channel = attr->channel,
                .vector = attr->comp_vector};
    Cq* cq = make_cq("ibv_create_cq_ex", context, spec);
    if (!cq) return nullptr;
    fill_accessors(cq->base);
    if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) {
      cq->parent_domain = cast(attr->parent_domain);
      enter_domain(cq->parent_domain);
    }
    return &cq->base;
  });
}

}  // namespace verbena::abi
