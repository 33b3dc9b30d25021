// Places are taken again once a peer has marked them, or once the payload they came from is no
// longer on offer.
#include "link/staging.h"

#include <algorithm>
#include <cstring>

#include "memory/fault_guard.h"

namespace verbena::link {
namespace {

// A peer that fetches nothing (stopped, or waiting for another queue pair) keeps its places for so
// many looks.
constexpr uint32_t kPatience = 1000;
// A peer that has overtaken the staging is met again so many chunks ahead of it.
constexpr uint64_t kLead = 4;

}  // namespace

void mark_fetched(Staging& staging, uint64_t number) {
  std::atomic<uint64_t>& fetched = staging.places[number % kStagedChunks].fetched;
  uint64_t seen = fetched.load(std::memory_order_relaxed);
  while (seen < number && !fetched.compare_exchange_weak(seen, number, std::memory_order_release,
                                                         std::memory_order_relaxed)) {
  }
}

bool fetch_staged(const Staging& staging, uint64_t number, size_t offset, uint8_t* to,
                  size_t length) {
  const size_t place = number % kStagedChunks;
  const std::atomic<uint64_t>& holds = staging.places[place].holds;
  if (holds.load(std::memory_order_acquire) != number) return false;
  const uint8_t* from = staging.bytes[place] + offset;
  if (!memory::guarded([&] { std::memcpy(to, from, length); })) return false;
  std::atomic_thread_fence(std::memory_order_acquire);
  return holds.load(std::memory_order_relaxed) == number;
}

uint64_t Stager::offer(const memory::Payload& payload, uint32_t qpn, uint32_t region_key) {
  if (payload.length < kMinBytes || payload.foreign || payload.segments.size() > kMaxSegments ||
      offers_.size() == kMaxOffers)
    return 0;
  Offer& offer = offers_.emplace_back();
  offer.first = next_number_;
  offer.bytes = payload.length;
  offer.qpn = qpn;
  offer.region_key = region_key;
  offer.segments = static_cast<uint32_t>(payload.segments.size());
  std::copy(payload.segments.begin(), payload.segments.end(), offer.segment.begin());
  next_number_ = offer.end();
  return offer.first;
}

bool Stager::is_fetched(uint64_t number) const {
  return staging_.places[number % kStagedChunks].fetched.load(std::memory_order_acquire) >= number;
}

void Stager::drop_fetched() {
  while (!offers_.empty() &&
         (offers_.front().segments == 0 || is_fetched(offers_.front().end() - 1)))
    offers_.pop_front();
  if (fruitless_ < kPatience || offers_.empty()) return;
  offers_.pop_front();
  fruitless_ = 0;
}

// The offer that next_chunk_ lies in, after skipping what needs no staging; null: none.
Stager::Offer* Stager::next_offer() {
  if (offers_.empty()) return nullptr;
  next_chunk_ = std::max(next_chunk_, offers_.front().first);
  if (is_fetched(next_chunk_)) {
    do ++next_chunk_;
    while (next_chunk_ < next_number_ && is_fetched(next_chunk_));
    next_chunk_ += kLead;
  }
  for (;;) {
    auto at = std::upper_bound(offers_.begin(), offers_.end(), next_chunk_,
                               [](uint64_t chunk, const Offer& o) { return chunk < o.end(); });
    if (at == offers_.end()) return nullptr;
    next_chunk_ = std::max(next_chunk_, at->first);
    if (at->segments != 0) return &*at;
    next_chunk_ = at->end();
  }
}

bool Stager::stage() {
  if (offers_.empty()) return false;
  drop_fetched();
  Offer* offer = next_offer();
  if (!offer) return false;
  const uint64_t held =
      staging_.places[next_chunk_ % kStagedChunks].holds.load(std::memory_order_relaxed);
  if (held >= offers_.front().first && !is_fetched(held)) {
    ++fruitless_;
    return false;
  }
  fruitless_ = 0;
  if (!copy(*offer, next_chunk_)) offer->segments = 0;
  ++next_chunk_;
  return true;
}

bool Stager::copy(Offer& offer, uint64_t number) {
  const size_t place = number % kStagedChunks;
  const size_t offset = (number - offer.first) * kStagedChunkBytes;
  const size_t length = std::min<size_t>(kStagedChunkBytes, offer.bytes - offset);
  memory::Payload payload;
  payload.segments = {offer.segment.data(), offer.segments};
  payload.length = offer.bytes;
  std::atomic<uint64_t>& holds = staging_.places[place].holds;
  holds.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  if (!payload.copy_out(offset, staging_.bytes[place], length)) return false;
  holds.store(number, std::memory_order_release);
  staged_bytes_ += length;
  return true;
}

void Stager::forget_queue_pair(uint32_t qpn) {
  for (Offer& offer : offers_)
    if (offer.region_key == 0 && offer.qpn == qpn) offer.segments = 0;
}

void Stager::forget_region(uint32_t key) {
  for (Offer& offer : offers_)
    if (offer.region_key == key) offer.segments = 0;
}

}  // namespace verbena::link
