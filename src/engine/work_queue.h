// Work queues: rings of posted work requests, sized at creation, never grown. A slot keeps its
// SGEs (or inline bytes) in side arrays so that an idle queue costs untouched pages only.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>

#include "base/psn.h"
#include "base/slots.h"
#include "engine/address.h"
#include "engine/verbs.h"
#include "memory/region.h"

namespace verbena::engine {

// Layout of struct ibv_sge.
struct Sge {
  uint64_t address;
  uint32_t length;
  uint32_t lkey;
};

struct BindRequest {
  memory::MemoryWindow* window = nullptr;
  memory::MemoryRegion* region = nullptr;
  uint32_t new_rkey = 0;
  uint64_t address = 0;
  uint64_t length = 0;
  uint32_t access = 0;
  // Which objects the pointers meant when the request was posted: both may be gone, or their memory
  // another's, when its turn comes. 0: not checked.
  uint32_t window_serial = 0;
  uint32_t region_serial = 0;
};

// What the Door hands to post_send.
struct SendRequest {
  uint64_t wr_id = 0;
  WrOpcode opcode = WrOpcode::kSend;
  uint32_t flags = 0;         // SendFlags
  uint32_t imm_or_rkey = 0;   // immediate (network order) or rkey to invalidate
  std::span<const Sge> sges;  // with kInline: addresses are read now, lkeys ignored
  uint64_t remote_address = 0;
  uint32_t rkey = 0;
  uint64_t compare_add = 0;
  uint64_t swap = 0;
  const AddressVector* route = nullptr;  // UD
  uint32_t remote_qpn = 0;               // UD
  uint32_t remote_qkey = 0;              // UD
  uint32_t xrc_srqn = 0;                 // XRC
  BindRequest bind;                      // kBindMw
  uint64_t flush_length = 0;             // kFlush
  uint8_t flush_placement = 0;
  uint8_t flush_selectivity = 0;
};

// Where a work request goes: one of three forms, by the queue pair's type and the opcode.
struct RemoteTarget {  // connected
  uint64_t address = 0;
  uint64_t compare_add = 0;
  uint64_t swap = 0;
  uint32_t rkey = 0;
  uint32_t xrc_srqn = 0;
  uint8_t flush_placement = 0;
  uint8_t flush_selectivity = 0;
};
struct DatagramTarget {
  AddressVector route;
  uint32_t qpn = 0;
  uint32_t qkey = 0;
};

// A slot of the send queue. Kept small: an idle queue pair is mostly these.
struct SendWork {
  uint64_t wr_id = 0;
  uint32_t length = 0;  // bytes of the message
  uint32_t imm_or_rkey = 0;
  Psn first_psn;         // valid once started
  uint32_t packets = 0;  // PSNs the message takes, 0 for local operations
  WrOpcode opcode = WrOpcode::kSend;
  uint8_t flags = 0;
  uint8_t sge_count = 0;
  bool is_inline = false;
  bool started = false;  // PSNs are assigned
  union Target {
    RemoteTarget remote;
    DatagramTarget datagram;  // UD
    BindRequest bind;         // kBindMw
    Target() : remote{} {}
  } target;

  Psn last_psn() const { return first_psn + (packets ? packets - 1 : 0); }
  bool is_signaled(bool all) const { return all || (flags & kSignaled); }
};

struct SendQueueLimits {
  uint32_t work_requests = 0;
  uint32_t sges = 0;
  uint32_t inline_bytes = 0;  // bytes a caller may post inline
  bool atomic_write = false;  // ATOMIC WRITE keeps its 8 bytes inline, whatever the caller may

  // Bytes each slot has for inline data.
  uint32_t inline_stride() const { return std::max(inline_bytes, atomic_write ? 8u : 0u); }
};

class SendQueue {
 public:
  explicit SendQueue(SendQueueLimits limits);

  const SendQueueLimits& limits() const { return limits_; }
  bool empty() const { return head_ == tail_; }
  bool full() const { return tail_ - head_ >= limits_.work_requests; }
  uint32_t room() const { return limits_.work_requests - (tail_ - head_); }
  uint32_t head() const { return head_; }
  uint32_t tail() const { return tail_; }
  SendWork& at(uint32_t index) { return ring_[index & mask_]; }
  const SendWork& at(uint32_t index) const { return ring_[index & mask_]; }
  // The SGEs (empty when inline) and the inline bytes of a slot of this queue.
  std::span<const Sge> sges(const SendWork& work) const {
    return {sges_.get() + slot_of(work) * limits_.sges, work.sge_count};
  }
  uint8_t* inline_bytes(const SendWork& work) {
    return inline_.get() + slot_of(work) * limits_.inline_stride();
  }
  // Copies the request into the next slot (bytes too when inline). Room and sizes were checked.
  SendWork& push(const SendRequest& request);
  void pop() { ++head_; }
  void clear() { head_ = tail_; }

 private:
  size_t slot_of(const SendWork& work) const { return static_cast<size_t>(&work - ring_.get()); }

  SendQueueLimits limits_;
  uint32_t mask_;      // slots - 1; their number is a power of two
  uint32_t head_ = 0;  // free-running
  uint32_t tail_ = 0;
  Slots<SendWork> ring_;
  Slots<Sge> sges_;
  Slots<uint8_t> inline_;
};

// A slot of a receive queue or shared receive queue.
struct ReceiveWork {
  uint64_t wr_id = 0;
  uint32_t length = 0;  // bytes of all SGEs, capped at 2^32-1
  uint32_t sge_count = 0;
  Sge* sges = nullptr;
};

class ReceiveQueue {
 public:
  ReceiveQueue(uint32_t work_requests, uint32_t sges);

  uint32_t capacity() const { return limit_; }
  uint32_t max_sges() const { return max_sges_; }
  uint32_t size() const { return tail_ - head_; }
  bool full() const { return size() >= limit_; }
  void push(uint64_t wr_id, std::span<const Sge> sges);
  // Copies the oldest request to `to`, whose `sges` points at an array of max_sges(); false when
  // empty.
  bool pop(ReceiveWork& to);
  // Changes the capacity. False, and nothing changed, when more requests wait than would fit; nor
  // is anything when it throws std::bad_alloc.
  bool resize(uint32_t work_requests);
  void clear() { head_ = tail_; }

 private:
  struct Storage {
    Slots<ReceiveWork> ring;
    Slots<Sge> sges;
  };
  // Returns what it replaces. Throws std::bad_alloc with nothing changed.
  Storage allocate(uint32_t work_requests);

  uint32_t limit_ = 0;
  uint32_t max_sges_;
  uint32_t mask_ = 0;
  uint32_t head_ = 0;
  uint32_t tail_ = 0;
  Storage storage_;
};

}  // namespace verbena::engine
