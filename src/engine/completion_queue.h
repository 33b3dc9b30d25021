// A completion queue: a bounded ring of work completions and a one-shot arm. Overflow is an error
// of the queue (IBV_EVENT_CQ_ERR), never a silent overwrite.
#pragma once

#include "base/slots.h"
#include "engine/verbs.h"

namespace verbena::engine {

struct WorkCompletion {
  uint64_t wr_id = 0;
  WcStatus status = WcStatus::kSuccess;
  WcOpcode opcode = WcOpcode::kSend;
  uint32_t vendor_error = 0;
  uint32_t byte_len = 0;
  uint32_t imm_or_rkey = 0;  // immediate in network order, or the invalidated rkey
  uint32_t qp_num = 0;
  uint32_t source_qp = 0;
  uint32_t flags = 0;  // WcFlags
  uint16_t source_lid = 0;
  uint8_t service_level = 0;
  Instant timestamp;
};

class CompletionQueue {
 public:
  explicit CompletionQueue(uint32_t capacity) { allocate(capacity); }

  uint32_t capacity() const { return limit_; }
  uint32_t size() const { return tail_ - head_; }

  // Adds a completion. False: full; the queue is in error from then on and takes nothing more.
  bool push(const WorkCompletion& completion);
  // The oldest completion, or null.
  const WorkCompletion* front() const { return head_ == tail_ ? nullptr : &ring_[head_ & mask_]; }
  void pop() { ++head_; }
  // Moves up to `count` of the oldest completions to `to`; how many.
  uint32_t pop(WorkCompletion* to, uint32_t count);

  // ibv_req_notify_cq. A later push() (a solicited or erroneous one if `solicited_only`) reports
  // an event once. Arming for any completion wins over arming for solicited ones.
  // True: the event is due at once, since a completion still waits that no event told of. The
  // standard lets such a completion lie (IBA 11.4.2.2: programs poll once more after arming), but
  // adapters report it, and UCX sleeps without that last look.
  bool arm(bool solicited_only);
  // Whether this completion fires the event; disarms when it does.
  bool take_event(bool solicited_or_error);

  bool overrun() const { return overrun_; }
  // Changes the capacity. False, and nothing changed, when more completions wait than would fit;
  // nor is anything when it throws std::bad_alloc.
  bool resize(uint32_t capacity);
  // Removes the completions of one queue pair (reset or destroyed), keeping the others' order.
  void forget(uint32_t qp_num);

  uint32_t users = 0;     // queue pairs and SRQs that report here
  void* owner = nullptr;  // the Door's object

 private:
  enum Arm : uint8_t { kNone, kSolicited, kAny };
  // Returns what it replaces. Throws std::bad_alloc with nothing changed.
  Slots<WorkCompletion> allocate(uint32_t capacity);

  Slots<WorkCompletion> ring_;
  uint32_t mask_ = 0;  // slots - 1; their number is a power of two
  uint32_t head_ = 0;  // free-running
  uint32_t tail_ = 0;
  uint32_t limit_ = 0;
  Arm armed_ = kNone;
  bool untold_ = false;  // since the last event a completion came
  bool untold_solicited_ = false;
  bool overrun_ = false;
};

}  // namespace verbena::engine
