// The responder, where packets overtake each other: what comes behind a gap is held back whole and
// judged when its turn comes, so that everything happens in the order of its PSNs, as without
// disorder. A gap that outlasts the agreed wait is a loss: a NAK names the packets it has.
#include <fmt/format.h>

#include "engine/device.h"
#include "engine/queue_pair.h"
#include "engine/responder.h"

namespace verbena::engine {

void Responder::hold(Instant now, const RxPacket& packet) {
  Counters& counters = qp_.device_.counters();
  ++counters.out_of_sequence;
  if (nak_sent_) return;  // the message was refused: everything comes again, from its start
  ReorderedRequests& state = *reordered_;
  auto ahead = static_cast<uint32_t>(packet.header.psn.distance(expected_));
  if (ahead > state.held.limit()) {
    // More than a peer that keeps to the agreement sends: it knows nothing of it, or gave up.
    if (!state.gap.asked()) ask_for_missing(now);
    return;
  }
  switch (state.held.add(now, packet)) {
    case HeldPackets::Added::kHeld:
      state.gap.notice(now, state.wait);
      return;
    case HeldPackets::Added::kAlready:
      ++counters.duplicate_request;
      return;
    case HeldPackets::Added::kLost:
      ++counters.rx_payload_lost;
      return;
  }
}

// The expected PSN was `before`: takes what is next in turn as long as there is some.
void Responder::release(Instant now, Psn before) {
  ReorderedRequests& state = *reordered_;
  if (expected_ == before) return;
  while (expected_ != before) {
    // A READ's answer has PSNs of its own: a request that claims one of them has no turn.
    state.held.drop(before, static_cast<uint32_t>(expected_.distance(before)));
    before = expected_;
    std::unique_ptr<HeldPackets::Held> next = state.held.take(expected_);
    if (!next) break;
    RxPacket packet;
    packet.header = next->header;
    memory::Segment bytes{next->bytes.data(), next->bytes.size()};
    packet.payload.length = next->length;
    if (!next->bytes.empty()) packet.payload.segments = {&bytes, 1};
    judge(now, packet);
  }
  state.gap.close();
  if (state.held.empty()) return;
  // The next gap is as old as what stands behind it.
  state.gap.notice(state.held.first_behind(expected_).at, state.wait);
  if (state.gap.due(now)) ask_for_missing(now);
}

void Responder::ask_for_missing(Instant now) {
  ReorderedRequests& state = *reordered_;
  uint32_t missing = 1;
  if (!state.held.empty()) {
    Psn behind = state.held.first_behind(expected_).header.psn;
    missing = std::min(kMostNamedMissing, static_cast<uint32_t>(behind.distance(expected_)));
  }
  state.gap.ask(now, state.wait);
  ++qp_.counters_.naks_sent;
  if (qp_.explaining())
    qp_.explain(
        fmt::format("PSN {:#x} has not come within {} us of what is behind it ({} missing): NAK"
                    " PSN sequence error to {}",
                    expected_.value(), state.wait.ps / 1'000'000, missing, qp_.peer()));
  queue_ack(syndrome::kNakSequence, expected_, static_cast<uint8_t>(missing - 1));
}

void Responder::on_time(Instant now) {
  if (reordered_ && reordered_->gap.due(now)) ask_for_missing(now);
}

}  // namespace verbena::engine
