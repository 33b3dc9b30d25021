// The rings behind selective repeat; see reorder.h.
#include "engine/reorder.h"

#include <bit>

namespace verbena::engine {

namespace {

// The answer to one READ request may span more PSNs than the window has.
constexpr uint32_t kLeastWindowBits = 64;

}  // namespace

HeldPackets::HeldPackets(uint32_t packets)
    : limit_(packets), mask_(std::bit_ceil(packets) - 1), slots_(size_t{mask_} + 1) {}

HeldPackets::Added HeldPackets::add(Instant now, const RxPacket& packet) {
  std::unique_ptr<Held>& to = slot(packet.header.psn);
  if (to) return Added::kAlready;
  auto held = std::make_unique<Held>();
  held->header = packet.header;
  held->length = packet.payload.length;
  held->at = now;
  if (!packet.payload.segments.empty()) {
    held->bytes.resize(packet.payload.length);
    if (!packet.payload.copy_out(0, held->bytes.data(), held->bytes.size())) return Added::kLost;
  }
  to = std::move(held);
  ++count_;
  return Added::kHeld;
}

std::unique_ptr<HeldPackets::Held> HeldPackets::take(Psn psn) {
  std::unique_ptr<Held>& from = slot(psn);
  if (!from || from->header.psn != psn) return nullptr;
  --count_;
  return std::move(from);
}

void HeldPackets::drop(Psn from, uint32_t count) {
  for (uint32_t i = 0; count_ > 0 && i < std::min(count, limit_ + 1); ++i) take(from + i);
}

const HeldPackets::Held& HeldPackets::first_behind(Psn expected) const {
  const Held* first = nullptr;
  for (uint32_t ahead = 1; !first; ++ahead)
    first = slots_[(expected + ahead).value() & mask_].get();
  return *first;
}

void HeldPackets::clear() {
  if (count_ == 0) return;
  for (std::unique_ptr<Held>& held : slots_) held.reset();
  count_ = 0;
}

AnsweredWindow::AnsweredWindow(uint32_t packets)
    : mask_(std::bit_ceil(std::max(packets, kLeastWindowBits)) - 1), words_((mask_ + 1) / 64) {}

}  // namespace verbena::engine
