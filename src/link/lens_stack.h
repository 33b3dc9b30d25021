// The lenses a user asked for, over one sink: trace(pcap(fault(sink))), so that the capture and
// the trace show what the program sent, and the fault lens decides what becomes of it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "link/fault_lens.h"
#include "link/pcap_lens.h"
#include "link/trace_lens.h"

namespace verbena::link {

struct LensOptions {
  std::string fault;       // VERBENA_FAULT, see parse_fault_plan(); empty: none
  std::string pcap;        // VERBENA_PCAP, a file name with %p for the process id; empty: none
  TraceLens::Write trace;  // VERBENA_TRACE; null: none
  std::function<void()> spoil_next;  // UdpLink::spoil_next
};

class LensStack {
 public:
  // Null when no lens is asked for. EINVAL: a fault that cannot be understood; errno of the
  // capture file.
  static Result<std::unique_ptr<LensStack>> open(engine::PacketSink& below,
                                                 const LensOptions& options);

  engine::PacketSink& top() { return *top_; }
  void received(const engine::RxPacket& packet);
  void on_time(Instant now);
  Instant next_deadline() const { return fault_ ? fault_->next_deadline() : kNever; }
  const FaultLens* fault() const { return fault_.get(); }

 private:
  LensStack() = default;

  engine::PacketSink* top_ = nullptr;
  std::unique_ptr<FaultLens> fault_;
  PcapWriter capture_;
  std::unique_ptr<PcapLens> pcap_;
  std::unique_ptr<TraceLens> trace_;
};

}  // namespace verbena::link
