// Rings of work requests: copying in what the caller posted.
#include "engine/work_queue.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <utility>

namespace verbena::engine {

SendQueue::SendQueue(SendQueueLimits limits)
    : limits_(limits),
      mask_(std::bit_ceil(std::max(1u, limits.work_requests)) - 1),
      ring_(size_t{mask_} + 1),
      sges_((size_t{mask_} + 1) * limits.sges),
      inline_((size_t{mask_} + 1) * limits.inline_stride()) {}

SendWork& SendQueue::push(const SendRequest& request) {
  SendWork& work = ring_[tail_++ & mask_];
  work = SendWork{};
  work.wr_id = request.wr_id;
  work.opcode = request.opcode;
  work.flags = static_cast<uint8_t>(request.flags);
  work.imm_or_rkey = request.imm_or_rkey;
  if (request.route)
    std::construct_at(
        &work.target.datagram,
        DatagramTarget{*request.route, request.remote_qpn & kPsnMask, request.remote_qkey});
  else if (request.opcode == WrOpcode::kBindMw)
    std::construct_at(&work.target.bind, request.bind);
  else
    work.target.remote = {request.remote_address,
                          request.compare_add,
                          request.swap,
                          request.rkey,
                          request.xrc_srqn,
                          request.flush_placement,
                          request.flush_selectivity};
  uint64_t length = 0;
  if (request.flags & kInline) {
    work.is_inline = true;
    uint8_t* to = inline_bytes(work);
    for (const Sge& sge : request.sges) {
      if (sge.length == 0) continue;
      std::memcpy(to + length, reinterpret_cast<const void*>(sge.address), sge.length);
      length += sge.length;
    }
  } else {
    work.sge_count = static_cast<uint8_t>(request.sges.size());
    std::copy(request.sges.begin(), request.sges.end(), sges_.get() + slot_of(work) * limits_.sges);
    for (const Sge& sge : request.sges) length += sge.length;
  }
  if (request.opcode == WrOpcode::kFlush) length = request.flush_length;
  work.length = static_cast<uint32_t>(std::min<uint64_t>(length, UINT32_MAX));
  return work;
}

ReceiveQueue::ReceiveQueue(uint32_t work_requests, uint32_t sges) : max_sges_(sges) {
  allocate(work_requests);
}

ReceiveQueue::Storage ReceiveQueue::allocate(uint32_t work_requests) {
  uint32_t slots = std::bit_ceil(std::max(1u, work_requests));
  Storage storage{Slots<ReceiveWork>(slots), Slots<Sge>(size_t{slots} * max_sges_)};
  std::swap(storage, storage_);
  limit_ = work_requests;
  mask_ = slots - 1;
  return storage;
}

void ReceiveQueue::push(uint64_t wr_id, std::span<const Sge> sges) {
  uint32_t slot = tail_++ & mask_;
  uint64_t length = 0;
  for (const Sge& sge : sges) length += sge.length;
  Sge* to = storage_.sges.get() + size_t{slot} * max_sges_;
  std::copy(sges.begin(), sges.end(), to);
  storage_.ring[slot] = {wr_id, static_cast<uint32_t>(std::min<uint64_t>(length, UINT32_MAX)),
                         static_cast<uint32_t>(sges.size()), to};
}

bool ReceiveQueue::pop(ReceiveWork& to) {
  if (head_ == tail_) return false;
  const ReceiveWork& from = storage_.ring[head_++ & mask_];
  Sge* sges = to.sges;
  to = from;
  to.sges = sges;
  std::copy(from.sges, from.sges + from.sge_count, sges);
  return true;
}

bool ReceiveQueue::resize(uint32_t work_requests) {
  if (size() > work_requests) return false;
  uint32_t old_mask = mask_, from = head_, end = tail_;
  Storage old = allocate(work_requests);
  head_ = tail_ = 0;
  for (; from != end; ++from) {
    const ReceiveWork& work = old.ring[from & old_mask];
    push(work.wr_id, {work.sges, work.sge_count});
  }
  return true;
}

}  // namespace verbena::engine
