// What congestion control asks of the requester: how many payload bytes are on their way, and
// whether its rate and window let the next packet go.
#include <algorithm>

#include "engine/queue_pair.h"
#include "engine/requester.h"

namespace verbena::engine {

bool Requester::pace_admits(Instant now, const SendWork& work) {
  if (qp_.paced(now)) return false;
  if (!qp_.is_reliable() || needs_response(work.opcode)) return true;
  // A window that shrank below what is in flight, none of which asks for an acknowledgement, would
  // stay closed until the timeout: one more packet goes, and asks.
  return since_ack_request_ > 0 ||
         qp_.pacing_->window_open(payload_bytes(work, offset_, offset_ + 1));
}

// Payload of the packets `from` .. `to` - 1 of a SEND or WRITE.
uint32_t Requester::payload_bytes(const SendWork& work, uint32_t from, uint32_t to) const {
  uint64_t bytes = qp_.packet_bytes();
  uint64_t begin = std::min<uint64_t>(from * bytes, work.length);
  return static_cast<uint32_t>(std::min<uint64_t>(to * bytes, work.length) - begin);
}

// Payload of SENDs and WRITEs with PSNs from `from`, not before the oldest unacknowledged one, up
// to `to`.
uint64_t Requester::payload_between(Psn from, Psn to) const {
  const SendQueue& queue = qp_.send_queue_;
  uint64_t sum = 0;
  for (uint32_t i = queue.head(); i != queue.tail() && queue.at(i).started; ++i) {
    const SendWork& work = queue.at(i);
    if (!work.first_psn.before(to)) break;
    if (work.packets == 0 || needs_response(work.opcode)) continue;
    int32_t begin = std::max(0, from.distance(work.first_psn));
    int32_t end = std::min(static_cast<int32_t>(work.packets), to.distance(work.first_psn));
    if (begin < end)
      sum += payload_bytes(work, static_cast<uint32_t>(begin), static_cast<uint32_t>(end));
  }
  return sum;
}

}  // namespace verbena::engine
