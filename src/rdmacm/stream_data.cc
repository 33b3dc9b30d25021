// A stream's bytes: copied into slots of registered memory and written from there to the peer's
// buffer; read from our own, where the peer wrote them.
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <algorithm>

#include "rdmacm/id.h"
#include "rdmacm/stream.h"

namespace verbena::rdmacm {
namespace {

bool post(Stream& stream, ibv_send_wr& wr) {
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(stream.id->qp, &wr, &bad) == 0) return true;
  end(stream, ECONNRESET);
  return false;
}

// The first `length` bytes of the slot go to `to`. `imm`: what the peer hears; nothing: that bytes
// were written is not said.
void post_slot(Stream& stream, uint32_t slot, uint32_t length, const Range& to,
               std::optional<uint32_t> imm) {
  ibv_sge sge{reinterpret_cast<uintptr_t>(stream.slots.get() + size_t{slot} * kSlotBytes), length,
              stream.slots_mr->lkey};
  ibv_send_wr wr{};
  wr.wr_id = slot;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = imm ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
  wr.imm_data = htonl(imm.value_or(0));
  wr.wr.rdma.remote_addr = to.address;
  wr.wr.rdma.rkey = to.key;
  if (post(stream, wr)) ++stream.sending;
}

// As many of the bytes as one message takes. 0: `offset` lies in no mapping of the peer.
uint32_t send_some(Stream& stream, const uint8_t* bytes, size_t length,
                   std::optional<uint64_t> offset) {
  Range* target = &stream.targets[stream.target];
  std::optional<Range> mapped;
  for (const Mapping& each : stream.mappings)
    if (offset && !mapped) mapped = each.from(*offset);
  if (offset && !mapped) return 0;
  const uint32_t room = std::min(mapped ? mapped->length : target->length, kSlotBytes);
  const auto part = static_cast<uint32_t>(std::min<size_t>(length, room));
  const uint32_t slot = stream.free_slots.back();
  stream.free_slots.pop_back();
  memcpy(stream.slots.get() + size_t{slot} * kSlotBytes, bytes, part);
  if (mapped) {
    post_slot(stream, slot, part, *mapped, std::nullopt);
    return part;
  }
  post_slot(stream, slot, part, *target, word(Kind::kData, part));
  ++stream.sent;
  target->address += part;
  target->length -= part;
  if (target->length == 0) stream.target = (stream.target + 1) % kRanges;
  return part;
}

// The peer broke the protocol.
void renounce(Stream& stream) {
  end(stream, EPROTO);
  rdma_disconnect(stream.id);
}

void take_data(Stream& stream, uint32_t length) {
  if (length > stream.offered || stream.arrived.size() >= kCredits) return renounce(stream);
  stream.offered -= length;
  if (length > 0)
    stream.arrived.push_back(length);
  else
    ++stream.read;
}

void take_control(Stream& stream, uint32_t number) {
  if (number == kKeepalive) return;
  stream.peer_finished = true;
  if (number == kDisconnect || stream.finished) end(stream, 0);
}

void take_message(Stream& stream, const ibv_wc& wc) {
  post_receive(stream);
  if (wc.opcode != IBV_WC_RECV_RDMA_WITH_IMM) return;
  const uint32_t said = ntohl(wc.imm_data), number = number_of(said);
  switch (kind_of(said)) {
    case Kind::kData:
      return take_data(stream, number);
    case Kind::kCredits:
      stream.may_send = static_cast<uint16_t>(number);
      if (wc.byte_len == sizeof(Range)) take_range(stream);
      return;
    case Kind::kMapped:
      ++stream.read;
      if (wc.byte_len == sizeof(Mapping)) take_mapping(stream, number);
      return;
    case Kind::kControl:
      return take_control(stream, number);
    default:
      return;  // reserved
  }
}

// What ended: 0 an orderly end, else errno.
int why_no_bytes(const Stream& stream) {
  return stream.peer_finished ? 0 : stream.error;
}

// Why nothing more can be sent, -1 with errno.
int no_more(const Stream& stream) {
  if (stream.state == StreamState::kFresh || stream.state == StreamState::kListening)
    return refuse(ENOTCONN);
  return refuse(stream.error != 0 && !stream.finished ? stream.error : EPIPE);
}

void copy_out(const Stream& stream, uint32_t at, uint8_t* to, uint32_t length) {
  const uint32_t first = std::min(length, kReceiveBytes - at);
  memcpy(to, stream.received.get() + at, first);
  memcpy(to + first, stream.received.get(), length - first);
}

// Bytes that have come, at most `length`.
size_t take_bytes(Stream& stream, uint8_t* to, size_t length) {
  size_t done = 0;
  while (done < length && !stream.arrived.empty()) {
    uint32_t& left = stream.arrived.front();
    const auto part = static_cast<uint32_t>(std::min<size_t>(length - done, left));
    copy_out(stream, stream.read_at, to + done, part);
    done += part;
    stream.read_at = (stream.read_at + part) % kReceiveBytes;
    stream.freed += part;
    left -= part;
    if (left > 0) break;
    stream.arrived.pop_front();
    ++stream.read;
  }
  return done;
}

// The same, and they stay.
size_t peek_bytes(const Stream& stream, uint8_t* to, size_t length) {
  size_t done = 0;
  for (const uint32_t left : stream.arrived) {
    const auto part = static_cast<uint32_t>(std::min<size_t>(length - done, left));
    const auto at = static_cast<uint32_t>((stream.read_at + done) % kReceiveBytes);
    copy_out(stream, at, to + done, part);
    done += part;
    if (done == length) break;
  }
  return done;
}

}  // namespace

void post_receive(Stream& stream) {
  ibv_recv_wr wr{}, *bad = nullptr;
  wr.wr_id = kReceiveId;
  ibv_post_recv(stream.id->qp, &wr, &bad);  // refused only when the connection has ended
}

void post_control(Stream& stream, uint32_t imm, const void* bytes, uint32_t length,
                  uint64_t place) {
  ibv_sge sge{reinterpret_cast<uintptr_t>(bytes), length, 0};
  ibv_send_wr wr{};
  wr.wr_id = kControlId;
  wr.sg_list = &sge;
  wr.num_sge = length > 0 ? 1 : 0;
  wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  wr.send_flags = IBV_SEND_INLINE;
  wr.imm_data = htonl(imm);
  wr.wr.rdma.remote_addr = stream.peer_board.address + place;
  wr.wr.rdma.rkey = stream.peer_board.key;
  if (post(stream, wr)) ++stream.control;
}

void take_completion(Stream& stream, const ibv_wc& wc) {
  if (wc.wr_id < kSendSlots) {
    --stream.sending;
    stream.free_slots.push_back(static_cast<uint32_t>(wc.wr_id));
  } else if (wc.wr_id == kControlId) {
    --stream.control;
  }
  if (wc.status != IBV_WC_SUCCESS)
    return end(stream, wc.status == IBV_WC_RETRY_EXC_ERR ? ETIMEDOUT : ECONNRESET);
  if (wc.wr_id != kReceiveId) return;
  // The first message may overtake the event that the connection is established.
  if (stream.state == StreamState::kConnecting) establish(stream);
  take_message(stream, wc);
}

ssize_t send_bytes(Stream& stream, Lease& lease, const void* bytes, size_t length, bool may_wait,
                   std::optional<uint64_t> offset) {
  const auto* from = static_cast<const uint8_t*>(bytes);
  size_t done = 0;
  while (true) {
    stream.progress();
    // Mappings are told before the bytes that may speak of them.
    while (done < length && stream.sendable() && tell_mappings(stream)) {
      const uint32_t part = send_some(stream, from + done, length - done,
                                      offset ? std::optional(*offset + done) : std::nullopt);
      if (part == 0) return static_cast<ssize_t>(done);
      done += part;
    }
    if (done == length) return static_cast<ssize_t>(done);
    const bool alive =
        stream.state == StreamState::kConnected || stream.state == StreamState::kConnecting;
    if (!alive || stream.finished) return done > 0 ? static_cast<ssize_t>(done) : no_more(stream);
    if (!may_wait) return done > 0 ? static_cast<ssize_t>(done) : refuse(EAGAIN);
    if (int error = stream.wait(lease); error != 0)
      return done > 0 ? static_cast<ssize_t>(done) : refuse(error);
  }
}

ssize_t receive_bytes(Stream& stream, Lease& lease, void* bytes, size_t length, int flags,
                      bool may_wait) {
  auto* to = static_cast<uint8_t*>(bytes);
  const bool peek = (flags & MSG_PEEK) != 0, all = (flags & MSG_WAITALL) != 0 && !peek;
  size_t done = 0;
  while (true) {
    stream.progress();
    done += peek ? peek_bytes(stream, to, length) : take_bytes(stream, to + done, length - done);
    give_back(stream);
    if (done == length || (done > 0 && !all)) return static_cast<ssize_t>(done);
    if (stream.read_shut || stream.peer_finished || stream.state == StreamState::kEnded) {
      const int error = stream.read_shut ? 0 : why_no_bytes(stream);
      return done > 0 || error == 0 ? static_cast<ssize_t>(done) : refuse(error);
    }
    if (stream.state == StreamState::kFresh || stream.state == StreamState::kListening)
      return refuse(ENOTCONN);
    if (!may_wait) return done > 0 ? static_cast<ssize_t>(done) : refuse(EAGAIN);
    if (int error = stream.wait(lease); error != 0)
      return done > 0 ? static_cast<ssize_t>(done) : refuse(error);
  }
}

}  // namespace verbena::rdmacm
