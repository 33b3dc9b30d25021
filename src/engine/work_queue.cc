// Rings of work requests: copying in what the caller posted.
#include "engine/work_queue.h"

#include <algorithm>
#include <bit>

namespace verbena::engine {

SendQueue::SendQueue(SendQueueLimits limits)
    : limits_(limits),
      capacity_(std::bit_ceil(std::max(1u, limits.work_requests))),
      ring_(std::make_unique_for_overwrite<SendWork[]>(capacity_)),
      sges_(std::make_unique_for_overwrite<Sge[]>(size_t{capacity_} * limits.sges)),
      inline_(std::make_unique_for_overwrite<uint8_t[]>(size_t{capacity_} * limits.inline_bytes)) {}

SendWork& SendQueue::push(const SendRequest& request) {
  uint32_t slot = tail_++ % capacity_;
  SendWork& work = ring_[slot];
  work = SendWork{};
  work.wr_id = request.wr_id;
  work.opcode = request.opcode;
  work.flags = request.flags;
  work.imm_or_rkey = request.imm_or_rkey;
  work.remote_address = request.remote_address;
  work.rkey = request.rkey;
  work.xrc_srqn = request.xrc_srqn;
  work.compare_add = request.compare_add;
  work.swap = request.swap;
  if (request.route) work.route = *request.route;
  work.remote_qpn = request.remote_qpn & kPsnMask;
  work.remote_qkey = request.remote_qkey;
  work.bind = request.bind;
  work.flush_placement = request.flush_placement;
  work.flush_selectivity = request.flush_selectivity;
  work.sges = sges_.get() + size_t{slot} * limits_.sges;
  work.inline_bytes = inline_.get() + size_t{slot} * limits_.inline_bytes;
  if (request.flags & kInline) {
    work.is_inline = true;
    for (const Sge& sge : request.sges) {
      if (sge.length == 0) continue;
      std::memcpy(work.inline_bytes + work.length, reinterpret_cast<const void*>(sge.address),
                  sge.length);
      work.length += sge.length;
    }
  } else {
    work.sge_count = static_cast<uint8_t>(request.sges.size());
    std::copy(request.sges.begin(), request.sges.end(), work.sges);
    uint64_t length = 0;
    for (const Sge& sge : request.sges) length += sge.length;
    work.length = static_cast<uint32_t>(std::min<uint64_t>(length, UINT32_MAX));
  }
  return work;
}

ReceiveQueue::ReceiveQueue(uint32_t work_requests, uint32_t sges) : max_sges_(sges) {
  allocate(work_requests);
}

void ReceiveQueue::allocate(uint32_t work_requests) {
  limit_ = work_requests;
  capacity_ = std::bit_ceil(std::max(1u, work_requests));
  ring_ = std::make_unique_for_overwrite<ReceiveWork[]>(capacity_);
  sges_ = std::make_unique_for_overwrite<Sge[]>(size_t{capacity_} * max_sges_);
}

void ReceiveQueue::push(uint64_t wr_id, std::span<const Sge> sges) {
  uint32_t slot = tail_++ % capacity_;
  uint64_t length = 0;
  for (const Sge& sge : sges) length += sge.length;
  Sge* to = sges_.get() + size_t{slot} * max_sges_;
  std::copy(sges.begin(), sges.end(), to);
  ring_[slot] = {wr_id, static_cast<uint32_t>(std::min<uint64_t>(length, UINT32_MAX)),
                 static_cast<uint32_t>(sges.size()), to};
}

bool ReceiveQueue::pop(ReceiveWork& to) {
  if (head_ == tail_) return false;
  const ReceiveWork& from = ring_[head_++ % capacity_];
  Sge* sges = to.sges;
  to = from;
  to.sges = sges;
  std::copy(from.sges, from.sges + from.sge_count, sges);
  return true;
}

bool ReceiveQueue::resize(uint32_t work_requests) {
  if (size() > work_requests) return false;
  auto old_ring = std::move(ring_);
  auto old_sges = std::move(sges_);
  uint32_t old_capacity = capacity_, from = head_, end = tail_;
  allocate(work_requests);
  head_ = tail_ = 0;
  for (; from != end; ++from) {
    const ReceiveWork& work = old_ring[from % old_capacity];
    push(work.wr_id, {work.sges, work.sge_count});
  }
  return true;
}

}  // namespace verbena::engine
