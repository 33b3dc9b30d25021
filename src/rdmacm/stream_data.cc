// A stream's bytes: copied into slots of registered memory and out of them.
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <algorithm>

#include "rdmacm/id.h"
#include "rdmacm/stream.h"

namespace verbena::rdmacm {
namespace {

constexpr uint64_t kNoSlot = ~uint64_t{0};  // wr_id of a message without bytes

uint8_t* bytes_of(Stream& stream, uint32_t slot) {
  return stream.memory.get() + size_t{slot} * kSlotBytes;
}

void post(Stream& stream, uint64_t wr_id, uint32_t length, uint32_t flags) {
  ibv_sge sge{};
  if (length > 0) {
    sge.addr = reinterpret_cast<uintptr_t>(bytes_of(stream, static_cast<uint32_t>(wr_id)));
    sge.length = length;
    sge.lkey = stream.mr->lkey;
  }
  ibv_send_wr wr{}, *bad = nullptr;
  wr.wr_id = wr_id;
  wr.sg_list = &sge;
  wr.num_sge = length > 0 ? 1 : 0;
  wr.opcode = IBV_WR_SEND_WITH_IMM;
  wr.imm_data = htonl(stream.owed | flags);
  if (ibv_post_send(stream.id->qp, &wr, &bad) != 0) {
    stream.state = StreamState::kEnded;
    stream.error = ECONNRESET;
    return;
  }
  stream.owed = 0;
  --stream.credits;
  ++(length > 0 ? stream.sending : stream.control);
}

void take_message(Stream& stream, const ibv_wc& wc) {
  const auto slot = static_cast<uint32_t>(wc.wr_id);
  const uint32_t word = (wc.wc_flags & IBV_WC_WITH_IMM) != 0 ? ntohl(wc.imm_data) : 0;
  // A peer that gives back more than it got would overrun itself; what it claims is bounded here.
  stream.credits = std::min(stream.credits + (word & 0xffff), kReceiveSlots);
  if ((word & kFinished) != 0) stream.peer_finished = true;
  if (wc.byte_len > 0) {
    stream.arrived.push_back({slot, std::min(wc.byte_len, kSlotBytes), 0});
    return;
  }
  post_receive(stream, slot);
  ++stream.owed;
}

// What ended: 0 an orderly end, else errno.
int why_no_bytes(const Stream& stream) {
  return stream.peer_finished ? 0 : stream.error;
}

}  // namespace

void post_receive(Stream& stream, uint32_t slot) {
  ibv_sge sge{reinterpret_cast<uintptr_t>(bytes_of(stream, slot)), kSlotBytes, stream.mr->lkey};
  ibv_recv_wr wr{}, *bad = nullptr;
  wr.wr_id = slot;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ibv_post_recv(stream.id->qp, &wr, &bad);  // refused only when the connection has ended
}

void say(Stream& stream, uint32_t flags) {
  post(stream, kNoSlot, 0, flags);
}

void give_back_credits(Stream& stream) {
  if (stream.state == StreamState::kConnected && stream.owed >= kReceiveSlots / 2 &&
      stream.credits > 0 && stream.control < kControlMessages)
    say(stream, 0);
}

void take_completion(Stream& stream, const ibv_wc& wc) {
  const bool sent = wc.wr_id == kNoSlot || wc.wr_id >= kReceiveSlots;
  if (sent) {
    --(wc.wr_id == kNoSlot ? stream.control : stream.sending);
    if (wc.wr_id != kNoSlot) stream.free_slots.push_back(static_cast<uint32_t>(wc.wr_id));
  }
  if (wc.status != IBV_WC_SUCCESS) {
    if (stream.state == StreamState::kEnded) return;
    stream.state = StreamState::kEnded;
    stream.error = wc.status == IBV_WC_RETRY_EXC_ERR ? ETIMEDOUT : ECONNRESET;
    return;
  }
  if (sent) return;
  // The first message may overtake the event that the connection is established.
  if (stream.state == StreamState::kConnecting) stream.state = StreamState::kConnected;
  take_message(stream, wc);
}

ssize_t send(Stream& stream, Lease& lease, const void* bytes, size_t length, bool may_wait) {
  const auto* from = static_cast<const uint8_t*>(bytes);
  size_t done = 0;
  while (true) {
    progress(stream);
    while (done < length && stream.sendable()) {
      const uint32_t slot = stream.free_slots.back();
      stream.free_slots.pop_back();
      const auto part = static_cast<uint32_t>(std::min<size_t>(length - done, kSlotBytes));
      memcpy(bytes_of(stream, slot), from + done, part);
      post(stream, slot, part, 0);
      done += part;
    }
    if (done == length) return static_cast<ssize_t>(done);
    const bool alive =
        stream.state == StreamState::kConnected || stream.state == StreamState::kConnecting;
    if (!alive || stream.finished) {
      if (done > 0) return static_cast<ssize_t>(done);
      if (stream.state == StreamState::kFresh || stream.state == StreamState::kListening)
        return refuse(ENOTCONN);
      return refuse(stream.error != 0 && !stream.finished ? stream.error : EPIPE);
    }
    if (!may_wait) return done > 0 ? static_cast<ssize_t>(done) : refuse(EAGAIN);
    if (int error = wait(stream, lease); error != 0)
      return done > 0 ? static_cast<ssize_t>(done) : refuse(error);
  }
}

ssize_t receive(Stream& stream, Lease& lease, void* bytes, size_t length, int flags,
                bool may_wait) {
  auto* to = static_cast<uint8_t*>(bytes);
  const bool peek = (flags & MSG_PEEK) != 0, all = (flags & MSG_WAITALL) != 0 && !peek;
  size_t done = 0;
  while (true) {
    progress(stream);
    auto each = stream.arrived.begin();
    while (done < length && each != stream.arrived.end()) {
      const uint32_t part =
          static_cast<uint32_t>(std::min<size_t>(length - done, each->length - each->taken));
      memcpy(to + done, bytes_of(stream, each->slot) + each->taken, part);
      done += part;
      if (!peek) each->taken += part;
      if (peek || each->taken < each->length) {
        ++each;
        continue;
      }
      post_receive(stream, each->slot);
      ++stream.owed;
      each = stream.arrived.erase(each);
    }
    give_back_credits(stream);
    if (done == length || (done > 0 && !all)) return static_cast<ssize_t>(done);
    if (stream.read_shut || stream.peer_finished || stream.state == StreamState::kEnded) {
      const int error = stream.read_shut ? 0 : why_no_bytes(stream);
      return done > 0 || error == 0 ? static_cast<ssize_t>(done) : refuse(error);
    }
    if (stream.state == StreamState::kFresh || stream.state == StreamState::kListening)
      return refuse(ENOTCONN);
    if (!may_wait) return done > 0 ? static_cast<ssize_t>(done) : refuse(EAGAIN);
    if (int error = wait(stream, lease); error != 0)
      return done > 0 ? static_cast<ssize_t>(done) : refuse(error);
  }
}

}  // namespace verbena::rdmacm
