// The requester, where answers overtake each other: READ responses are placed as they come, work
// requests still complete in order, and only what is missing is sent again. What the peer misses it
// says in a NAK (decision 0008); after a timeout one packet asks.
#include <algorithm>
#include <utility>

#include "engine/device.h"
#include "engine/queue_pair.h"
#include "engine/requester.h"

namespace verbena::engine {

namespace {

void raise(Psn& to, Psn psn) {
  if (psn.after(to)) to = psn;
}

bool answers(const wire::OpcodeInfo& info, WrOpcode opcode) {
  if (is_atomic(opcode)) return info.operation == wire::Operation::kAtomicAcknowledge;
  return needs_response(opcode) && info.operation == wire::Operation::kReadResponse;
}

}  // namespace

// --- what is here

// The peer has executed every request before `psn`; answers to READs among them may still come.
void Requester::executed_before(Instant now, Psn psn) {
  if (psn.after(selective_->acknowledged)) {
    selective_->acknowledged = psn;
    reload_retries();  // though the oldest request may be a READ that waits for its answer
  }
  raise(selective_->heard, psn);
  settle(now);
}

// Moves on as far as nothing is missing.
void Requester::settle(Instant now) {
  SelectiveRepeat& state = *selective_;
  const SendQueue& queue = qp_.send_queue_;
  Psn reached = una_;
  for (uint32_t i = queue.head(); i != queue.tail() && queue.at(i).started; ++i) {
    const SendWork& work = queue.at(i);
    Psn end = work.last_psn() + 1;
    if (end.after(sent_limit_)) end = sent_limit_;
    if (!end.after(reached)) continue;
    if (needs_response(work.opcode)) {
      while (reached != end && state.answered.test(reached)) reached += 1;
    } else {
      raise(reached, end.after(state.acknowledged) ? state.acknowledged : end);
    }
    if (reached != end) break;
  }
  if (reached != una_) advance(now, reached);
  if (state.refused && state.refused->psn == una_) {
    RxPacket packet;
    packet.header = *std::exchange(state.refused, std::nullopt);
    return on_fatal_nak(now, packet);
  }
  if (state.heard.after(una_)) state.gap.notice(now, state.wait);
}

// Everything before `to` is done with.
void Requester::forget_answers(Psn to) {
  SelectiveRepeat& state = *selective_;
  for (Psn psn = una_; psn.before(to); psn += 1) state.answered.reset(psn);
  for (Psn* psn : {&state.acknowledged, &state.heard, &state.narrowed}) raise(*psn, to);
  state.probing = false;
  state.gap.close();
  if (to == sent_limit_) state.repairing = false;
}

void Requester::on_answer(Instant now, const RxPacket& packet, const wire::OpcodeInfo& info) {
  SelectiveRepeat& state = *selective_;
  const SendQueue& queue = qp_.send_queue_;
  Psn psn = packet.header.psn;
  uint32_t index = queue.head();
  while (index != queue.tail() && queue.at(index).started && queue.at(index).last_psn().before(psn))
    ++index;
  if (index == queue.tail() || !queue.at(index).started || !answers(info, queue.at(index).opcode)) {
    ++qp_.device_.counters().rx_bad_response;
    return;
  }
  if (state.answered.test(psn)) return;  // a late copy
  executed_before(now, psn);
  if (psn.before(una_)) return;  // what was before it has failed
  // Errors belong to the oldest work request. A younger one's answer that cannot be taken counts as
  // lost, and comes again when the older ones have completed.
  const SendWork& work = queue.at(index);
  bool oldest = index == queue.head();
  if (!is_atomic(work.opcode) && !answer_fits(work, packet)) {
    if (oldest) refuse_answer(now, work, packet);
    return;
  }
  uint64_t original = packet.header.atomic_original;
  memory::Segment segment{reinterpret_cast<uint8_t*>(&original), sizeof(original)};
  memory::Payload payload = packet.payload;
  if (is_atomic(work.opcode)) payload = {{&segment, 1}, sizeof(original), nullptr};
  uint64_t offset = static_cast<uint64_t>(psn.distance(work.first_psn)) * qp_.packet_bytes();
  if (payload.length > 0 &&
      !(oldest ? place(now, work, offset, payload) : place_ahead(work, offset, payload)))
    return;
  qp_.counters_.bytes_delivered += packet.payload.length;
  state.answered.set(psn);
  raise(state.heard, psn + 1);
  settle(now);
}

bool Requester::place_ahead(const SendWork& work, uint64_t offset, const memory::Payload& payload) {
  QueuePair::Scattered done =
      qp_.scatter(qp_.send_queue_.sges(work), qp_.init_.domain, payload, offset);
  return !done.lost && done.error == memory::KeyError::kNone && done.bytes == payload.length;
}

// The peer refused a request and is in error now; the answers to READs before it may still come.
// True: they are awaited.
bool Requester::defer_refusal(Instant now, const RxPacket& packet) {
  executed_before(now, packet.header.psn);
  if (!una_.before(packet.header.psn)) return false;
  selective_->refused = packet.header;
  return true;
}

// --- what is missing

void Requester::on_missing(Instant now, const RxPacket& packet) {
  Psn psn = packet.header.psn;
  bool probed = selective_->probing;
  executed_before(now, psn);
  bool stale = psn.before(selective_->acknowledged);  // a later answer overtook it
  if (waiting_rnr_ || stale || !psn.before(sent_limit_)) return;
  selective_->probing = probed;  // it says that what is behind the gap has arrived
  repair(now, psn, psn + (packet.header.missing_behind + 1u), false, "PSN sequence NAK");
}

void Requester::ask_for_answers(Instant now) {
  SelectiveRepeat& state = *selective_;
  state.gap.ask(now, state.wait);
  if (waiting_rnr_ || !state.heard.after(una_)) return;
  ++qp_.device_.counters().implied_nak_seq_err;
  repair(now, una_, state.heard, true, "lost READ or atomic responses");
}

// Sends what is missing from `from` up to `end`, and then goes on where it is now. `exact`: asks
// for no answer behind `end`.
void Requester::repair(Instant now, Psn from, Psn end, bool exact, const char* cause) {
  SelectiveRepeat& state = *selective_;
  if (end.after(sent_limit_)) end = sent_limit_;
  Psn at = transmit_psn();
  bool comes = !at.after(from) && (!state.repairing || from.before(state.repair_end));
  if (comes && !state.probing) return;
  if (!spend_retry(now, cause)) return;
  ++qp_.counters_.retransmissions;
  if (!from.before(state.narrowed)) {  // once for all that one window loses
    state.narrowed = sent_limit_;
    if (qp_.device_.options().loss_window) narrow();
    if (qp_.pacing_) qp_.pacing_->control().on_loss(now, Loss::kReported);
  }
  if (!state.repairing) state.resume = state.probing ? sent_limit_ : at;
  state.probing = false;
  state.repairing = end.before(state.resume);  // else everything from there on is due anyway
  state.repair_end = end;
  state.exact = exact;
  failed_ahead_ = false;
  seek(from);
  deadline_ = kNever;
  arm_timer(now);
  qp_.wake();
}

// --- where to send next

bool Requester::is_done(const SendWork& work, Psn psn) const {
  return needs_response(work.opcode) ? selective_->answered.test(psn)
                                     : psn.before(selective_->acknowledged);
}

// Past what needs no repetition; and behind a repair back to where it began.
void Requester::steer() {
  SelectiveRepeat& state = *selective_;
  const SendQueue& queue = qp_.send_queue_;
  for (;;) {
    Psn at = transmit_psn();
    if (!at.before(sent_limit_)) return;
    if (state.repairing && !at.before(state.repair_end)) {
      state.repairing = false;
      if (state.resume.after(at)) seek(state.resume);
      continue;
    }
    Psn to = at;
    for (uint32_t i = next_; to.before(sent_limit_) && is_done(queue.at(i), to);) {
      to += 1;
      if (to.after(queue.at(i).last_psn())) ++i;
    }
    if (to == at) return;
    seek(to);
  }
}

// After a timeout the peer tells what it lacks, so one packet is enough.
bool Requester::waits_for_probe() const {
  return selective_->probing && transmit_psn() != una_;
}

bool Requester::asks_what_is_missing(Psn psn) const {
  return selective_->probing || (selective_->repairing && psn + 1 == selective_->repair_end);
}

// How many of the `most` responses from `psn` on a request that is made again asks for.
uint32_t Requester::unanswered_packets(Psn psn, uint32_t most) const {
  const SelectiveRepeat& state = *selective_;
  if (state.repairing && state.exact && psn.before(state.repair_end))
    most = std::min(most, static_cast<uint32_t>(state.repair_end.distance(psn)));
  uint32_t packets = 1;
  while (packets < most && !state.answered.test(psn + packets)) ++packets;
  return packets;
}

}  // namespace verbena::engine
