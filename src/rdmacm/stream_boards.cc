// What two ends of a stream tell each other: where the other may write, how many messages it may
// send, and which memory of the program is mapped.
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>

#include "rdmacm/id.h"
#include "rdmacm/stream.h"

namespace verbena::rdmacm {
namespace {

constexpr int kRemoteWrite = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
constexpr uint32_t kInlineBytes = 64;

ibv_mr* enroll(const Stream& stream, void* bytes, size_t length, int access) {
  return ibv_reg_mr(stream.id->pd, bytes, length, access);
}

int make_buffers(Stream& stream) {
  stream.received.reset(new uint8_t[kReceiveBytes]());
  stream.received_mr = enroll(stream, stream.received.get(), kReceiveBytes, kRemoteWrite);
  stream.slots.reset(new uint8_t[size_t{kSendSlots} * kSlotBytes]);
  stream.slots_mr = enroll(stream, stream.slots.get(), size_t{kSendSlots} * kSlotBytes,
                           int{IBV_ACCESS_LOCAL_WRITE});
  stream.board.assign(mapping_place(kRanges, stream.mapping_count), 0);
  stream.board_mr = enroll(stream, stream.board.data(), stream.board.size(), kRemoteWrite);
  stream.mappings.assign(stream.mapping_count, {});
  if (stream.received_mr == nullptr || stream.slots_mr == nullptr || stream.board_mr == nullptr)
    return errno;
  for (uint32_t slot = 0; slot < kSendSlots; ++slot) stream.free_slots.push_back(slot);
  return 0;
}

// An entry of our board as the peer left it.
template <typename Entry>
Entry entry(const Stream& stream, uint64_t place) {
  Entry out;
  memcpy(&out, stream.board.data() + place, sizeof out);
  return out;
}

// An entry of the peer's board.
template <typename Entry>
void write_entry(Stream& stream, uint32_t word, const Entry& value, uint64_t place) {
  const Entry bytes = stream.swap ? swapped(value) : value;
  post_control(stream, word, &bytes, sizeof bytes, place);
}

std::optional<uint32_t> free_index(const Stream& stream) {
  for (uint32_t index = 0; index < stream.peer_mapping_count; ++index)
    if (std::none_of(stream.own_mappings.begin(), stream.own_mappings.end(),
                     [&](const OwnMapping& each) { return each.index == index; }))
      return index;
  return std::nullopt;
}

}  // namespace

std::optional<Greeting> parse_greeting(std::span<const uint8_t> private_data) {
  Greeting greeting;
  if (private_data.size() < sizeof greeting) return std::nullopt;
  memcpy(&greeting, private_data.data(), sizeof greeting);
  const bool known = greeting.version == Greeting::kVersion && greeting.credits > 0 &&
                     greeting.board.length > 0 && greeting.buffer.length > 0;
  return known ? std::optional(greeting) : std::nullopt;
}

int prepare(Stream& stream) {
  if (int error = make_buffers(stream); error != 0) return error;
  constexpr uint32_t kSends = kSendSlots + kControlMessages;
  if (int error = watch_completions(stream, kReceives + kSends); error != 0) return error;
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = stream.cq;
  attr.qp_type = IBV_QPT_RC;
  attr.sq_sig_all = 1;
  attr.cap.max_send_wr = kSends;
  attr.cap.max_recv_wr = kReceives;
  attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
  attr.cap.max_inline_data = kInlineBytes;
  if (rdma_create_qp(stream.id, nullptr, &attr) != 0) return errno;
  for (uint32_t i = 0; i < kReceives; ++i) post_receive(stream);
  return 0;
}

bool take_greeting(Stream& stream, const rdma_cm_event& event) {
  const auto* data = static_cast<const uint8_t*>(event.param.conn.private_data);
  if (data == nullptr) return false;
  const std::optional<Greeting> theirs = parse_greeting({data, event.param.conn.private_data_len});
  if (!theirs) return false;
  stream.greeted = true;
  stream.may_send = theirs->credits;
  stream.targets[0] = theirs->buffer.get();
  stream.peer_board = theirs->board.get();
  stream.peer_range = 1 % stream.peer_board.length;
  stream.swap = (theirs->flags & Greeting::kBigEndian) != 0;
  if ((theirs->flags & Greeting::kHasMappings) != 0)
    stream.peer_mapping_count = unscaled(theirs->mappings);
  return true;
}

Greeting greeting_of(const Stream& stream) {
  Greeting ours;
  ours.credits = kCredits;
  ours.mappings = scaled(stream.mapping_count);
  ours.board =
      Range{reinterpret_cast<uintptr_t>(stream.board.data()), stream.board_mr->rkey, kRanges};
  ours.buffer =
      Range{reinterpret_cast<uintptr_t>(stream.received.get()), stream.received_mr->rkey, kHalf};
  return ours;
}

void take_range(Stream& stream) {
  stream.targets[stream.next_range] = entry<Range>(stream, stream.next_range * sizeof(Range));
  stream.next_range = (stream.next_range + 1) % kRanges;
}

void take_mapping(Stream& stream, uint32_t index) {
  if (index < stream.mappings.size())
    stream.mappings[index] = entry<Mapping>(stream, mapping_place(kRanges, index));
}

void give_back(Stream& stream) {
  if (stream.state != StreamState::kConnected || stream.control >= kControlMessages) return;
  const bool half = stream.freed >= kHalf;
  if (!half && static_cast<int16_t>(stream.read - stream.tell_at) < 0) return;
  stream.tell_at = static_cast<uint16_t>(stream.read + kCredits / 2);
  const uint32_t credits = word(Kind::kCredits, static_cast<uint16_t>(stream.read + kCredits));
  if (!half) return post_control(stream, credits, nullptr, 0, 0);
  const Range range{reinterpret_cast<uintptr_t>(stream.received.get() + stream.free_at),
                    stream.received_mr->rkey, kHalf};
  write_entry(stream, credits, range, uint64_t{stream.peer_range} * sizeof(Range));
  stream.freed -= kHalf;
  stream.offered += kHalf;
  stream.free_at = (stream.free_at + kHalf) % kReceiveBytes;
  stream.peer_range = (stream.peer_range + 1) % stream.peer_board.length;
}

void say(Stream& stream, Control control) {
  post_control(stream, word(Kind::kControl, control), nullptr, 0, 0);
}

bool tell_mappings(Stream& stream) {
  for (OwnMapping& each : stream.own_mappings) {
    if (each.told) continue;
    if (stream.state != StreamState::kConnected || stream.control >= kControlMessages ||
        stream.sent == stream.may_send)
      return false;
    const Mapping mapping{each.offset,
                          {reinterpret_cast<uintptr_t>(each.mr->addr), each.mr->rkey,
                           static_cast<uint32_t>(each.mr->length)}};
    ++stream.sent;  // it takes a credit, as bytes do
    each.told = true;
    write_entry(stream, word(Kind::kMapped, *each.index), mapping,
                mapping_place(stream.peer_board.length, *each.index));
  }
  return true;
}

off_t map_memory(Stream& stream, void* bytes, size_t length, int prot, off_t offset) {
  constexpr const char* kCall = "riomap";
  if ((prot & ~PROT_WRITE) != 0) return refuse(EINVAL, kCall, "prot is PROT_WRITE or PROT_NONE");
  if (stream.id->pd == nullptr || length == 0 || length > UINT32_MAX)
    return refuse(EINVAL, kCall, "the socket has no device yet, or the length is none");
  OwnMapping mapping;
  if ((prot & PROT_WRITE) != 0) {
    mapping.index = free_index(stream);
    if (!mapping.index)
      return refuse(ENOMEM, kCall,
                    "the peer has no room for another mapping; it sets RDMA_IOMAPSIZE before it "
                    "connects or listens");
  }
  mapping.told = !mapping.index;
  mapping.mr =
      enroll(stream, bytes, length, mapping.index ? kRemoteWrite : int{IBV_ACCESS_LOCAL_WRITE});
  if (mapping.mr == nullptr) return -1;
  mapping.offset =
      offset == -1 ? reinterpret_cast<uintptr_t>(bytes) : static_cast<uint64_t>(offset);
  stream.own_mappings.push_back(mapping);
  tell_mappings(stream);
  return static_cast<off_t>(mapping.offset);
}

int unmap_memory(Stream& stream, void* bytes, size_t length) {
  auto found = std::find_if(
      stream.own_mappings.begin(), stream.own_mappings.end(),
      [&](const OwnMapping& each) { return each.mr->addr == bytes && each.mr->length == length; });
  if (found == stream.own_mappings.end())
    return refuse(EINVAL, "riounmap", "no mapping has this address and length");
  ibv_dereg_mr(found->mr);
  stream.own_mappings.erase(found);
  return 0;
}

}  // namespace verbena::rdmacm
