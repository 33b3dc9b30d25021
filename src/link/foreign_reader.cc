// The owner bumps its epoch (or clears its key) before the application may reuse the bytes. If the
// epoch is unchanged after the copy, the copy ended before that.
#include "link/foreign_reader.h"

#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

namespace verbena::link {
namespace {

constexpr size_t kMaxRun = 2 * kStagedChunkBytes;
constexpr size_t kMaxPieces = 16;              // remote pieces per call
constexpr size_t kMaxBytesPerCall = 64 << 20;  // a call cannot be interrupted half way

}  // namespace

bool ForeignReader::vouched() const {
  const SlotRow& row = page_.rows[reference_.slot];
  if (row.generation.load(std::memory_order_acquire) != reference_.generation) return false;
  if (!(row.flags.load(std::memory_order_acquire) & kSlotAlive)) return false;
  const LocalArea& area = *reference_.area;
  // The bytes of a READ response belong to a region: they stay good when the queue pair dies, or
  // the answers before its last NAK would be lost with it. Other bytes are a work request's.
  if (reference_.region_key != 0)
    return area.region[region_index(reference_.region_key)].load(std::memory_order_acquire) ==
           region_word(reference_.region_key, reference_.region_epoch);
  return area.qp_epoch[reference_.source_qpn & 0xffff].load(std::memory_order_acquire) ==
         reference_.epoch;
}

bool ForeignReader::copy_out(std::span<const memory::Segment> segments, size_t offset, uint8_t* to,
                             size_t length) {
  if (!reference_.area || !vouched()) {
    ++counters_.stale;
    return false;
  }
  if (!fetch(segments, offset, to, length)) {
    ++counters_.failed;
    return false;
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!vouched()) {
    ++counters_.stale;
    return false;
  }
  counters_.bytes += length;
  return true;
}

void ForeignReader::done(uint32_t bytes) {
  if (reference_.first_chunk == 0) return;
  // The highest number of each place says it for all below; a record may claim any length.
  const uint64_t chunks = (uint64_t{bytes} + kStagedChunkBytes - 1) / kStagedChunkBytes;
  for (uint64_t i = chunks - std::min<uint64_t>(chunks, kStagedChunks); i < chunks; ++i)
    mark_fetched(reference_.area->staging, reference_.first_chunk + i);
}

bool ForeignReader::fetch(std::span<const memory::Segment> segments, size_t offset, uint8_t* to,
                          size_t length) {
  if (reference_.first_chunk == 0) return read(segments, offset, to, length);
  Staging& staging = reference_.area->staging;
  size_t run = kStagedChunkBytes;  // grows while nothing is staged: fewer calls
  while (length > 0) {
    const uint64_t chunk = reference_.first_chunk + offset / kStagedChunkBytes;
    const size_t inside = offset % kStagedChunkBytes;
    size_t n = std::min(length, kStagedChunkBytes - inside);
    if (fetch_staged(staging, chunk, inside, to, n)) {
      counters_.staged += n;
      run = kStagedChunkBytes;
    } else {
      n = std::min(length, run - inside);
      if (!read(segments, offset, to, n)) return false;
      run = std::min(2 * run, kMaxRun);
    }
    for (size_t done = kStagedChunkBytes - inside; done <= n; done += kStagedChunkBytes)
      mark_fetched(staging, reference_.first_chunk + (offset + done - 1) / kStagedChunkBytes);
    offset += n;
    to += n;
    length -= n;
  }
  return true;
}

bool ForeignReader::read(std::span<const memory::Segment> segments, size_t offset, uint8_t* to,
                         size_t length) {
  const pid_t pid = page_.rows[reference_.slot].pid.load(std::memory_order_relaxed);
  size_t index = 0;
  while (length > 0) {
    iovec remote[kMaxPieces];
    size_t pieces = 0, wanted = 0;
    size_t at = index, skip = offset;
    for (; at < segments.size() && pieces < kMaxPieces && wanted < length; ++at) {
      if (skip >= segments[at].length) {
        skip -= segments[at].length;
        continue;
      }
      size_t n = std::min({segments[at].length - skip, length - wanted,
                           kMaxBytesPerCall - std::min(wanted, kMaxBytesPerCall)});
      if (n == 0) break;
      remote[pieces++] = {segments[at].address + skip, n};
      wanted += n;
      skip = 0;
    }
    if (wanted == 0) return false;  // the segments hold less than was asked for
    iovec local{to, wanted};
    ssize_t n = ::process_vm_readv(pid, &local, 1, remote, pieces, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    size_t done = static_cast<size_t>(n);
    to += done;
    length -= done;
    offset += done;
    while (index < segments.size() && offset >= segments[index].length) {
      offset -= segments[index++].length;
    }
  }
  return true;
}

}  // namespace verbena::link
