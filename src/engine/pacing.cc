// When the next packet may leave, and what congestion control hears of those that arrived.
#include "engine/pacing.h"

#include <algorithm>

#include "engine/responder.h"

namespace verbena::engine {

namespace {

constexpr uint8_t kHopLimit = 64;  // that packets begin with, as AddressVector::ttl()

// The time that `bytes` take at `rate` bits per second, rounded up.
Duration time_of(uint32_t bytes, uint64_t rate) {
  constexpr uint64_t kByte = 8'000'000'000'000;  // picosecond bits per second
  if (bytes < 2'000'000) return {static_cast<int64_t>((bytes * kByte + rate - 1) / rate)};
  // More than 64 bits hold on the way.
  return {static_cast<int64_t>((Instant::Picoseconds{bytes} * kByte + rate - 1) / rate)};
}

}  // namespace

bool Pacing::allows(Instant now) {
  uint64_t rate = control_->rate(now);
  if (port_rate_ != 0 && rate >= port_rate_) return true;
  Instant eligible = last_sent_ + time_of(last_bytes_, rate);
  if (eligible <= now) return true;
  wakes_at_ = std::max(std::min(eligible, control_->next_change(now)), now + picoseconds(1));
  return false;
}

void Pacing::asked(Instant now, Psn psn) {
  if (asked_count_ == asked_.size()) return;
  uint32_t tail = (asked_head_ + asked_count_++) % kMostAsked;
  asked_[tail] = {psn, static_cast<uint64_t>(now.ps)};
}

// How long ago the packet with this PSN was sent; 0: not known. Those before it are forgotten.
Duration Pacing::round_trip_to(Instant now, Psn psn) {
  while (asked_count_ > 0) {
    const Asked& oldest = asked_[asked_head_];
    int32_t distance = oldest.psn.distance(psn);
    if (distance > 0) break;
    asked_head_ = (asked_head_ + 1) % kMostAsked;
    --asked_count_;
    if (distance == 0) return {static_cast<int64_t>(static_cast<uint64_t>(now.ps) - oldest.at)};
  }
  return {};
}

void Pacing::arrived(Instant now, const RxPacket& packet) {
  // Telemetry of a READ response is of the other way.
  bool answers = wire::opcode_info(packet.header.opcode).operation == wire::Operation::kAcknowledge;
  ecn_echo_ = packet.header.becn;
  telemetry_ = answers ? packet.telemetry : nullptr;
  bool positive = (packet.header.aeth.syndrome & syndrome::kTypeMask) == syndrome::kAck;
  round_trip_ = answers && positive ? round_trip_to(now, packet.header.psn) : Duration{};
  switches_ = static_cast<uint8_t>(kHopLimit - std::min(kHopLimit, packet.hop_limit));
  reported_ = false;
}

void Pacing::acknowledged(Instant now, uint32_t packets, uint32_t bytes, uint32_t unacknowledged) {
  reported_ = true;
  acknowledged_packets_ += packets;
  in_flight_ -= std::min<uint64_t>(in_flight_, bytes);
  Acknowledged what;
  what.bytes = bytes;
  what.round_trip = round_trip_;
  what.switches = switches_;
  what.ecn_echo = ecn_echo_;
  what.next_psn = acknowledged_packets_;
  what.sent_psn = acknowledged_packets_ + unacknowledged;
  if (telemetry_) what.hops = {telemetry_->hops, telemetry_->count};
  control_->on_acknowledged(now, what);
}

}  // namespace verbena::engine
