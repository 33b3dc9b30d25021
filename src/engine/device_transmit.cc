// The way out: whose turn it is among the queue pairs that have something to send.
#include <algorithm>
#include <bit>

#include "engine/device.h"

namespace verbena::engine {

namespace {
constexpr uint32_t kQpBudget = 64;  // packets a queue pair may send before the next one
}  // namespace

TransmitResult Device::transmit(Instant now, PacketSink& sink, uint32_t budget, uint8_t lane_mask) {
  if (!notifying_.empty()) {
    uint32_t owed = static_cast<uint32_t>(std::min<size_t>(budget, notifying_.size()));
    TransmitResult result = transmit_notifications(now, sink, owed);
    if (result == TransmitResult::kBlocked) return result;
    budget -= owed;
  }
  for (uint32_t lanes = lanes_ready_ & lane_mask; lanes != 0; lanes &= lanes - 1) {
    auto lane = static_cast<uint8_t>(std::countr_zero(lanes));
    if (transmit_lane(now, sink, budget, lane) == TransmitResult::kMore)
      return TransmitResult::kMore;
  }
  fail_overrun(now);
  return lanes_ready_ & lane_mask ? TransmitResult::kBlocked : TransmitResult::kIdle;
}

TransmitResult Device::transmit_lane(Instant now, PacketSink& sink, uint32_t& budget,
                                     uint8_t lane) {
  Ready& ready = ready_[lane];
  bool single = budget == 1;  // is for a packet: looking at a queue pair that has none is free
  // One queue pair that a full link refuses must not stop the others: it goes to the back, and the
  // round ends when everyone left was refused in a row.
  size_t refused = 0;
  while (!ready.empty() && refused < ready.size()) {
    if (budget == 0) return TransmitResult::kMore;
    QueuePair* qp = ready.front();
    uint32_t share = std::min(budget, kQpBudget);
    focus(*qp);
    TransmitState state = qp->transmit(now, sink, share);
    ready.pop_front();
    if (state == TransmitState::kIdle) {
      refused = 0;
      if (!single) --budget;
    } else {
      ready.push_back(qp);
      refused = state == TransmitState::kBlocked ? refused + 1 : 0;
      if (state == TransmitState::kMore) budget -= share;
    }
  }
  if (ready.empty()) lanes_ready_ &= static_cast<uint8_t>(~(1u << lane));
  return ready.empty() ? TransmitResult::kIdle : TransmitResult::kBlocked;
}

TransmitResult Device::transmit_notifications(Instant /*now*/, PacketSink& sink, uint32_t budget) {
  for (; !notifying_.empty(); --budget) {
    if (budget == 0) return TransmitResult::kMore;
    focus(*notifying_.front());
    if (!notifying_.front()->send_notification(sink)) return TransmitResult::kBlocked;
    notifying_.pop_front();
  }
  return TransmitResult::kIdle;
}

TransmitResult Device::transmit_answers(Instant /*now*/, PacketSink& sink, uint32_t budget) {
  while (!answering_.empty()) {
    if (budget == 0) return TransmitResult::kMore;
    QueuePair* qp = answering_.front();
    focus(*qp);
    TransmitState state = qp->transmit_answers(sink, budget);
    if (state == TransmitState::kBlocked) return TransmitResult::kBlocked;
    answering_.pop_front();
    if (state == TransmitState::kMore) answering_.push_back(qp);
  }
  return TransmitResult::kIdle;
}

void Device::wake(QueuePair* qp) {
  uint8_t lane = qp->init().lane;
  if (ready_[lane].push_back(qp)) lanes_ready_ |= static_cast<uint8_t>(1u << lane);
}

void Device::owe_answer(QueuePair* qp) {
  answering_.push_back(qp);
}

void Device::forget_ready(QueuePair* qp) {
  uint8_t lane = qp->init().lane;
  ready_[lane].erase(qp);
  if (ready_[lane].empty()) lanes_ready_ &= static_cast<uint8_t>(~(1u << lane));
  answering_.erase(qp);
}

}  // namespace verbena::engine
