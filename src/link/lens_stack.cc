// Builds the stack from the bottom up.
#include "link/lens_stack.h"

namespace verbena::link {

Result<std::unique_ptr<LensStack>> LensStack::open(engine::PacketSink& below,
                                                   const LensOptions& options) {
  if (options.fault.empty() && options.pcap.empty() && !options.trace) return nullptr;
  std::unique_ptr<LensStack> stack(new LensStack);
  stack->top_ = &below;
  if (!options.fault.empty()) {
    Result<FaultPlan> plan = parse_fault_plan(options.fault);
    if (!plan) return tl::unexpected<Error>(plan.error());
    stack->fault_ = std::make_unique<FaultLens>(*stack->top_, *plan, options.spoil_next);
    stack->top_ = stack->fault_.get();
  }
  if (!options.pcap.empty()) {
    Result<PcapWriter> capture = PcapWriter::open(options.pcap);
    if (!capture) return tl::unexpected<Error>(capture.error());
    stack->capture_ = std::move(*capture);
    stack->pcap_ = std::make_unique<PcapLens>(*stack->top_, stack->capture_);
    stack->top_ = stack->pcap_.get();
  }
  if (options.trace) {
    stack->trace_ = std::make_unique<TraceLens>(*stack->top_, options.trace);
    stack->top_ = stack->trace_.get();
  }
  return stack;
}

void LensStack::received(const engine::RxPacket& packet) {
  if (pcap_) pcap_->received(packet);
  if (trace_) trace_->received(packet);
}

void LensStack::on_time(Instant now) {
  if (fault_) fault_->on_time(now);
}

}  // namespace verbena::link
