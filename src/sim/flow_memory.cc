// Filling and comparing; see flow_memory.h.
#include "sim/flow_memory.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/check.h"
#include "base/prng.h"

namespace verbena::sim {

namespace {

constexpr size_t kMostComplaints = 8;

}  // namespace

void PayloadVerdict::complain(std::string what) {
  ++errors;
  if (complaints.size() < kMostComplaints) complaints.push_back(std::move(what));
}

FlowMemory::FlowMemory(uint32_t flow, uint64_t work_bytes, uint32_t slots, Adapter& source,
                       Adapter& target, PayloadVerdict& verdict)
    : flow_(flow),
      slots_(slots),
      stride_(work_bytes + kGuard),
      source_{source, nullptr, {}},
      target_{target, nullptr, {}},
      expected_(work_bytes),
      verdict_(verdict) {
  for (Side* side : {&source_, &target_}) register_side(*side);
}

void FlowMemory::register_side(Side& side) {
  const uint64_t length = slots_ * stride_ + kGuard;
  side.bytes = std::make_unique<uint8_t[]>(length);
  std::memset(side.bytes.get(), kUntouched, length);
  side.region.domain = side.adapter.domain();
  // Addresses of the run, not of this process: captures of one seed are alike.
  side.region.iova = (uint64_t{flow_} + 1) << 32;
  side.region.base = side.bytes.get();
  side.region.length = length;
  side.region.access = memory::kLocalWrite | memory::kRemoteWrite | memory::kRemoteRead;
  CHECK(side.adapter.device().keys().insert(&side.region) != 0);
}

FlowMemory::~FlowMemory() {
  for (Side* side : {&source_, &target_}) side->adapter.device().keys().remove(side->region.key);
}

// Bytes that no other work request of the run has.
void FlowMemory::pattern(uint64_t work, uint8_t* to, uint32_t length) const {
  Prng prng((uint64_t{flow_} << 40 ^ work) * 0x9e3779b97f4a7c15ull);
  for (uint32_t at = 0; at < length; at += 8) {
    const uint64_t word = prng.next();
    std::memcpy(to + at, &word, std::min<uint32_t>(8, length - at));
  }
}

bool FlowMemory::untouched(uint64_t from, uint64_t length) const {
  const uint8_t* begin = target_.bytes.get() + from;
  return std::all_of(begin, begin + length, [](uint8_t byte) { return byte == kUntouched; });
}

FlowMemory::Places FlowMemory::prepare(uint64_t work, uint32_t length) {
  if (work >= slots_ && !untouched(offset(work), stride_ - kGuard))
    verdict_.complain(fmt::format("flow {}: message {} was written again after it had completed",
                                  flow_, work - slots_));
  std::memset(slot(target_, work), kUntouched, stride_ - kGuard);
  pattern(work, slot(source_, work), length);
  const uint64_t at = offset(work);
  return {{source_.region.iova + at, length, source_.region.key},
          {target_.region.iova + at, length, target_.region.key}};
}

void FlowMemory::check(uint64_t work, uint32_t length) {
  pattern(work, expected_.data(), length);
  uint8_t* got = slot(target_, work);
  verdict_.checked_bytes += length;
  if (std::memcmp(got, expected_.data(), length) != 0) {
    const uint8_t* wrong = std::mismatch(got, got + length, expected_.data()).first;
    verdict_.complain(fmt::format("flow {}: byte {} of message {} is {:#04x} and should be {:#04x}",
                                  flow_, wrong - got, work, *wrong, expected_[wrong - got]));
  } else if (!untouched(offset(work) + length, stride_ - length)) {
    verdict_.complain(
        fmt::format("flow {}: bytes behind message {} of {} were written", flow_, work, length));
  }
  std::memset(got, kUntouched, stride_ - kGuard);
}

void FlowMemory::check_rest() {
  if (!untouched(0, slots_ * stride_ + kGuard))
    verdict_.complain(fmt::format(
        "flow {}: a message was written after it had completed, or beside its place", flow_));
}

}  // namespace verbena::sim
