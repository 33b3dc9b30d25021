// Work requests that never reach the wire: binding a type 2 memory window and local invalidation.
// Both run when everything before them has completed (local invalidate fence, IBA 10.6.5.1).
#include <fmt/format.h>

#include "engine/device.h"
#include "engine/queue_pair.h"
#include "engine/requester.h"

namespace verbena::engine {

namespace {

// Local write says nothing about a window; programs pass it along and adapters take it.
constexpr uint32_t kWindowAccess =
    memory::kLocalWrite | memory::kRemoteWrite | memory::kRemoteRead | memory::kRemoteAtomic |
    memory::kZeroBased | memory::kFlushGlobal | memory::kFlushPersistent | memory::kRelaxedOrdering;

}  // namespace

bool Requester::run_local(Instant now, SendWork& work) {
  std::string why;
  bool bind = work.opcode == WrOpcode::kBindMw;
  bool done = bind ? bind_window(work, why) : invalidate(work, why);
  SendWork copy = work;
  if (done) {
    qp_.send_queue_.pop();
    ++next_;
    qp_.complete_send(now, copy, WcStatus::kSuccess);
    return true;
  }
  WcStatus status = bind ? WcStatus::kMwBindErr : WcStatus::kLocQpOpErr;
  qp_.explain(fmt::format("wr_id {:#x} {}: {}", copy.wr_id, name(copy.opcode), why));
  fail_head(now, status);
  return false;
}

// IBA 10.6.7.2 and spec crib 10.
bool Requester::bind_window(const SendWork& work, std::string& why) {
  const BindRequest& bind = work.target.bind;
  memory::MemoryWindow* window = bind.window;
  if (!window) {
    why = "no memory window given";
    return false;
  }
  bool type2 = window->type == 2;
  if (bind.window_serial && window->serial != bind.window_serial) {
    why = "the memory window was deallocated";
  } else if (bind.region && bind.region_serial && bind.region->serial != bind.region_serial) {
    why = "the memory region was deregistered";
  } else if (window->domain != qp_.init_.domain) {
    why = "the memory window belongs to another protection domain";
  } else if (type2 && window->region) {
    why = "a type 2 memory window must be invalidated before it is bound again";
  } else if (bind.length == 0 || !bind.region) {
    if (type2) {
      why = "a type 2 memory window cannot be bound to nothing; use a local invalidate";
    } else {
      window->unbind();
      qp_.device_.keys().rekey(window, static_cast<uint8_t>(bind.new_rkey));
      return true;
    }
  } else if (bind.region->domain != qp_.init_.domain) {
    why = "the memory region belongs to another protection domain";
  } else if (!(bind.region->access & memory::kMwBind)) {
    why = "the memory region was registered without IBV_ACCESS_MW_BIND";
  } else if (bind.region->access & memory::kZeroBased) {
    why = "the memory region is zero-based";
  } else if (bind.access & ~kWindowAccess) {
    why = fmt::format("access flags {:#x} are not for memory windows", bind.access);
  } else if ((bind.access & memory::kZeroBased) && !type2) {
    why = "a type 1 memory window cannot be zero-based";
  } else if ((bind.access & (memory::kRemoteWrite | memory::kRemoteAtomic)) &&
             !(bind.region->access & memory::kLocalWrite)) {
    why = "remote write or atomic needs IBV_ACCESS_LOCAL_WRITE on the memory region";
  } else if (bind.address < bind.region->iova ||
             bind.address - bind.region->iova > bind.region->length ||
             bind.length > bind.region->length - (bind.address - bind.region->iova)) {
    why = fmt::format("the range {:#x} + {} is not inside the memory region ({:#x} + {})",
                      bind.address, bind.length, bind.region->iova, bind.region->length);
  } else {
    window->unbind();
    window->region = bind.region;
    ++bind.region->bound_windows;
    window->address = bind.address;
    window->length = bind.length;
    window->access = bind.access;
    window->qpn = qp_.qpn_;
    qp_.device_.keys().rekey(window, static_cast<uint8_t>(bind.new_rkey));
    return true;
  }
  return false;
}

bool Requester::invalidate(const SendWork& work, std::string& why) {
  memory::MemoryWindow* window = qp_.device_.keys().find_window(work.imm_or_rkey);
  if (!window || window->type != 2 || !window->region || window->domain != qp_.init_.domain ||
      window->qpn != qp_.qpn_) {
    why = fmt::format("rkey {:#x} is no type 2 memory window bound on this queue pair",
                      work.imm_or_rkey);
    return false;
  }
  window->unbind();
  return true;
}

}  // namespace verbena::engine
