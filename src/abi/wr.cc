// The ibv_wr_*() family. Nothing is posted before ibv_wr_complete(); an error in any call makes the
// whole batch fail there, as the manual demands.
#include <algorithm>
#include <cstring>

#include "abi/errors.h"
#include "abi/post.h"
#include "abi/wr.h"

namespace verbena::abi {
namespace {

using engine::SendRequest;
using engine::WrOpcode;

constexpr uint32_t kAtomicWriteBytes = 8;

template <typename... Args>
void fail_batch(Staging& staging, int code, fmt::format_string<Args...> format, Args&&... args) {
  if (staging.error) return;
  staging.error = shielded([&] { return refuse(code, format, std::forward<Args>(args)...); });
}

SendRequest& current(Staging& staging) {
  if (staging.error || staging.requests.empty()) return staging.overflow;
  return staging.requests.back();
}

// Opens a request of `opcode`, which the queue pair must have been created for (`operation`).
SendRequest& open(ibv_qp_ex* base, WrOpcode opcode, uint64_t operation) {
  Staging& staging = *cast(base)->staging;
  uint32_t qpn = base->qp_base.qp_num;
  if (!(staging.operations & operation))
    fail_batch(staging, EOPNOTSUPP,
               "ibv_wr_*: QP {:#08x} was not created with send_ops_flags {:#x}", qpn, operation);
  else if (base->wr_flags & ~kKnownSendFlags)
    fail_batch(staging, EOPNOTSUPP, "ibv_wr_*: QP {:#08x}: wr_flags {:#x} has unknown bits", qpn,
               base->wr_flags);
  else if (staging.requests.size() == staging.max_requests)
    fail_batch(staging, ENOMEM,
               "ibv_wr_*: QP {:#08x}: the batch is longer than the send queue ({})", qpn,
               staging.max_requests);
  if (staging.error) return staging.overflow;
  SendRequest& request = staging.requests.emplace_back();
  request.wr_id = base->wr_id;
  request.opcode = opcode;
  request.flags = base->wr_flags & ~unsigned{IBV_SEND_INLINE};  // set by wr_set_inline_data
  return request;
}

engine::Sge* sge_slots(Staging& staging) {
  return staging.sges.get() + (staging.requests.size() - 1) * staging.max_sges;
}
uint8_t* inline_slot(Staging& staging) {
  return staging.inline_bytes.get() + (staging.requests.size() - 1) * staging.inline_stride;
}

void address_remote(SendRequest& request, uint32_t rkey, uint64_t remote_address) {
  request.rkey = rkey;
  request.remote_address = remote_address;
}

void wr_atomic_cmp_swp(ibv_qp_ex* qp, uint32_t rkey, uint64_t address, uint64_t compare,
                       uint64_t swap) {
  SendRequest& request = open(qp, WrOpcode::kAtomicCmpAndSwp, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP);
  address_remote(request, rkey, address);
  request.compare_add = compare;
  request.swap = swap;
}
void wr_atomic_fetch_add(ibv_qp_ex* qp, uint32_t rkey, uint64_t address, uint64_t add) {
  SendRequest& request =
      open(qp, WrOpcode::kAtomicFetchAndAdd, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD);
  address_remote(request, rkey, address);
  request.compare_add = add;
}
void wr_bind_mw(ibv_qp_ex* qp, ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info* info) {
  SendRequest& request = open(qp, WrOpcode::kBindMw, IBV_QP_EX_WITH_BIND_MW);
  Staging& staging = *cast(qp)->staging;
  if (staging.error) return;
  staging.error = shielded([&] { return fill_bind(mw, IBV_MW_TYPE_2, rkey, *info, request); });
  if (!staging.error) staging.binds.emplace_back(mw, rkey);
}
void wr_local_inv(ibv_qp_ex* qp, uint32_t rkey) {
  open(qp, WrOpcode::kLocalInv, IBV_QP_EX_WITH_LOCAL_INV).imm_or_rkey = rkey;
}
void wr_rdma_read(ibv_qp_ex* qp, uint32_t rkey, uint64_t address) {
  address_remote(open(qp, WrOpcode::kRdmaRead, IBV_QP_EX_WITH_RDMA_READ), rkey, address);
}
void wr_rdma_write(ibv_qp_ex* qp, uint32_t rkey, uint64_t address) {
  address_remote(open(qp, WrOpcode::kRdmaWrite, IBV_QP_EX_WITH_RDMA_WRITE), rkey, address);
}
void wr_rdma_write_imm(ibv_qp_ex* qp, uint32_t rkey, uint64_t address, __be32 immediate) {
  SendRequest& request = open(qp, WrOpcode::kRdmaWriteWithImm, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM);
  address_remote(request, rkey, address);
  request.imm_or_rkey = immediate;
}
void wr_send(ibv_qp_ex* qp) {
  open(qp, WrOpcode::kSend, IBV_QP_EX_WITH_SEND);
}
void wr_send_imm(ibv_qp_ex* qp, __be32 immediate) {
  open(qp, WrOpcode::kSendWithImm, IBV_QP_EX_WITH_SEND_WITH_IMM).imm_or_rkey = immediate;
}
void wr_send_inv(ibv_qp_ex* qp, uint32_t rkey) {
  open(qp, WrOpcode::kSendWithInv, IBV_QP_EX_WITH_SEND_WITH_INV).imm_or_rkey = rkey;
}
void wr_send_tso(ibv_qp_ex* qp, void*, uint16_t, uint16_t) {
  fail_batch(*cast(qp)->staging, EOPNOTSUPP, "ibv_wr_send_tso: only for raw packets");
}
void wr_flush(ibv_qp_ex* qp, uint32_t rkey, uint64_t address, size_t length, uint8_t type,
              uint8_t level) {
  SendRequest& request = open(qp, WrOpcode::kFlush, kQpExWithFlush);
  Staging& staging = *cast(qp)->staging;
  if (type == 0 || (type & ~(kFlushGlobal | kFlushPersistent)) || level > kFlushRegion)
    return fail_batch(staging, EINVAL, "ibv_wr_flush: type {:#x}, level {}", type, level);
  address_remote(request, rkey, address);
  request.flush_length = length;
  request.flush_placement = type;
  request.flush_selectivity = level;
}
void wr_atomic_write(ibv_qp_ex* qp, uint32_t rkey, uint64_t address, const void* value) {
  SendRequest& request = open(qp, WrOpcode::kAtomicWrite, IBV_QP_EX_WITH_ATOMIC_WRITE);
  Staging& staging = *cast(qp)->staging;
  if (staging.error) return;
  address_remote(request, rkey, address);
  uint8_t* bytes = inline_slot(staging);
  std::memcpy(bytes, value, kAtomicWriteBytes);
  engine::Sge* sge = sge_slots(staging);
  *sge = {reinterpret_cast<uint64_t>(bytes), kAtomicWriteBytes, 0};
  request.sges = {sge, 1};
  request.flags |= engine::kInline;
}

void wr_set_ud_addr(ibv_qp_ex* qp, ibv_ah* ah, uint32_t qpn, uint32_t qkey) {
  Staging& staging = *cast(qp)->staging;
  if (staging.error) return;
  staging.error = shielded([&] { return fill_datagram(ah, qpn, qkey, current(staging)); });
}
void wr_set_xrc_srqn(ibv_qp_ex* qp, uint32_t number) {
  current(*cast(qp)->staging).xrc_srqn = number;
}
void wr_set_sge_list(ibv_qp_ex* qp, size_t count, const ibv_sge* list) {
  Staging& staging = *cast(qp)->staging;
  if (count > staging.max_sges)
    fail_batch(staging, EINVAL, "ibv_wr_set_sge_list: {} SGEs; QP {:#08x} takes up to {}", count,
               qp->qp_base.qp_num, staging.max_sges);
  if (staging.error || staging.requests.empty()) return;
  engine::Sge* slots = sge_slots(staging);
  if (count) std::memcpy(slots, list, count * sizeof *slots);
  staging.requests.back().sges = {slots, count};
}
void wr_set_sge(ibv_qp_ex* qp, uint32_t lkey, uint64_t address, uint32_t length) {
  ibv_sge sge{address, length, lkey};
  wr_set_sge_list(qp, 1, &sge);
}
void wr_set_inline_data_list(ibv_qp_ex* qp, size_t count, const ibv_data_buf* list) {
  Staging& staging = *cast(qp)->staging;
  size_t total = 0;
  for (size_t i = 0; i < count && total <= staging.max_inline; ++i)
    total += std::min<size_t>(list[i].length, staging.max_inline + size_t{1});
  if (total > staging.max_inline)
    fail_batch(staging, EINVAL,
               "ibv_wr_set_inline_data: more than the {} bytes QP {:#08x} was "
               "created for",
               staging.max_inline, qp->qp_base.qp_num);
  if (staging.error || staging.requests.empty()) return;
  SendRequest& request = staging.requests.back();
  request.flags |= engine::kInline;
  request.sges = {};
  if (total == 0) return;
  uint8_t* bytes = inline_slot(staging);
  size_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    if (list[i].length) std::memcpy(bytes + at, list[i].addr, list[i].length);
    at += list[i].length;
  }
  engine::Sge* sge = sge_slots(staging);
  *sge = {reinterpret_cast<uint64_t>(bytes), static_cast<uint32_t>(total), 0};
  request.sges = {sge, 1};
}
void wr_set_inline_data(ibv_qp_ex* qp, void* address, size_t length) {
  ibv_data_buf buffer{address, length};
  wr_set_inline_data_list(qp, 1, &buffer);
}

void wr_start(ibv_qp_ex* qp) {
  Staging& staging = *cast(qp)->staging;
  staging.lock();
  staging.requests.clear();
  staging.binds.clear();
  staging.error = 0;
}

// All of the batch or nothing: every request is looked at before the first is posted.
int post_batch(Qp& qp, Staging& staging) {
  if (staging.error) return staging.error;
  host::Process& process = host::Process::get();
  host::Process::Guard guard(process);
  engine::QueuePair* queue = qp.queue();
  if (!queue) return refuse_closed();
  if (staging.requests.size() > queue->send_room())
    return shielded([&] {
      return refuse(ENOMEM, "ibv_wr_complete: QP {:#08x} has room for {} work requests, not {}",
                    queue->qpn(), queue->send_room(), staging.requests.size());
    });
  Instant now = process.now();
  int error = shielded([&] {
    for (const SendRequest& request : staging.requests)
      if (int refused = queue->check_send(request)) return refused;
    return 0;
  });
  if (!error)
    error = shielded([&] {
      for (const SendRequest& request : staging.requests) queue->post_checked(now, request);
      for (auto [window, rkey] : staging.binds) window->rkey = rkey;
      return 0;
    });
  process.transmit();
  return error;
}

int wr_complete(ibv_qp_ex* base) {
  Qp& qp = *cast(base);
  Staging& staging = *qp.staging;
  int error = post_batch(qp, staging);
  staging.requests.clear();
  staging.unlock();
  return error;
}

void wr_abort(ibv_qp_ex* qp) {
  Staging& staging = *cast(qp)->staging;
  staging.requests.clear();
  staging.unlock();
}

}  // namespace

void Staging::lock() {
  uint32_t seen = generation.load();
  if (seen != host::fork_generation() &&
      generation.compare_exchange_strong(seen, host::fork_generation()))
    mutex.unlock();  // whoever held it is a thread of the parent
  mutex.lock();
}

uint64_t send_operations_of(ibv_qp_type type) {
  constexpr uint64_t kSends = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  constexpr uint64_t kUc = kSends | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                           IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV;
  constexpr uint64_t kRc = kUc | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_READ |
                           IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
                           IBV_QP_EX_WITH_ATOMIC_WRITE | kQpExWithFlush;
  switch (type) {
    case IBV_QPT_RC:
    case IBV_QPT_XRC_SEND:
      return kRc;
    case IBV_QPT_UC:
      return kUc;
    case IBV_QPT_UD:
      return kSends;
    default:
      return 0;
  }
}

std::unique_ptr<Staging> make_staging(const ibv_qp_cap& cap, ibv_qp_type, uint64_t operations) {
  auto staging = std::make_unique<Staging>();
  staging->operations = operations;
  staging->max_requests = cap.max_send_wr;
  staging->max_sges = cap.max_send_sge;
  staging->max_inline = cap.max_inline_data;
  bool writes_inline = operations & IBV_QP_EX_WITH_ATOMIC_WRITE;
  staging->inline_stride =
      writes_inline ? std::max(cap.max_inline_data, kAtomicWriteBytes) : cap.max_inline_data;
  size_t slots = cap.max_send_wr;
  staging->requests.reserve(slots);
  staging->sges = std::make_unique_for_overwrite<engine::Sge[]>(slots * staging->max_sges);
  staging->inline_bytes = std::make_unique_for_overwrite<uint8_t[]>(slots * staging->inline_stride);
  return staging;
}

void fill_work_request_calls(NewestQpEx& qp) {
  ibv_qp_ex& base = qp.base;
  base.wr_atomic_cmp_swp = wr_atomic_cmp_swp;
  base.wr_atomic_fetch_add = wr_atomic_fetch_add;
  base.wr_bind_mw = wr_bind_mw;
  base.wr_local_inv = wr_local_inv;
  base.wr_rdma_read = wr_rdma_read;
  base.wr_rdma_write = wr_rdma_write;
  base.wr_rdma_write_imm = wr_rdma_write_imm;
  base.wr_send = wr_send;
  base.wr_send_imm = wr_send_imm;
  base.wr_send_inv = wr_send_inv;
  base.wr_send_tso = wr_send_tso;
  base.wr_set_ud_addr = wr_set_ud_addr;
  base.wr_set_xrc_srqn = wr_set_xrc_srqn;
  base.wr_set_inline_data = wr_set_inline_data;
  base.wr_set_inline_data_list = wr_set_inline_data_list;
  base.wr_set_sge = wr_set_sge;
  base.wr_set_sge_list = wr_set_sge_list;
  base.wr_start = wr_start;
  base.wr_complete = wr_complete;
  base.wr_abort = wr_abort;
  base.wr_atomic_write = wr_atomic_write;
  qp.wr_flush = wr_flush;
}

}  // namespace verbena::abi
