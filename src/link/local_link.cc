// Records: RecordHeader, Body, then payload bytes or (address, length) pairs.
#include "link/local_link.h"

#include <unistd.h>

#include <bit>
#include <cstring>

#include "link/slot.h"

namespace verbena::link {
namespace {

struct RemotePiece {
  uint64_t address;
  uint64_t length;
};

constexpr uint8_t kMaxPathMtuCode = 5;
constexpr std::chrono::milliseconds kMaxAwait{100};
constexpr size_t kRecordsPerTurn = 64;  // of one sender, before the next one's turn

}  // namespace

struct LocalLink::Body {
  uint64_t first_chunk;  // kReference: number of its first chunk (link/staging.h), or 0
  PacketImage image;
  uint8_t source[16];
  uint8_t destination[16];
  uint32_t generation;  // of the sender's lease
  uint32_t source_qpn;
  uint32_t epoch;
  uint32_t region_key;
  uint32_t region_epoch;  // when it was sent
  uint32_t payload_bytes;
  uint32_t segments;  // kReference: pairs that follow
  uint8_t traffic_class;
  uint8_t hop_limit;
  uint8_t forwarded;  // came over the wire to another slot
  uint8_t path_mtu;   // code, engine::TxPacket
  uint8_t reserved[4];
};

// What a record says besides its payload.
struct LocalLink::Out {
  const wire::Packet& header;
  const engine::Gid& source;
  const engine::Gid& destination;
  uint8_t traffic_class;
  uint8_t hop_limit;
  bool forwarded;
  bool by_reference;
  uint32_t source_qpn;
  uint32_t region_key;
  uint8_t path_mtu;
};

LocalLink::LocalLink(PeerDirectory& directory, LocalArea& own, uint8_t slot, uint32_t generation,
                     int wakeup)
    : directory_(directory),
      own_(own),
      slot_(slot),
      generation_(generation),
      wakeup_(wakeup),
      reader_(directory.host_page()),
      stager_(own.staging) {}

// The process that has the slot now, its ring open; null when nobody has it. One load of the host
// page while nothing changes.
LocalLink::Peer* LocalLink::peer(uint8_t slot, int patience_ms) {
  Peer& peer = peers_[slot];
  const SlotRow& row = directory_.host_page().rows[slot];
  const uint32_t generation = row.generation.load(std::memory_order_acquire);
  if (!(row.flags.load(std::memory_order_acquire) & kSlotAlive)) return nullptr;
  if (peer.opened.area && peer.opened.generation == generation) return &peer;
  if (!is_process_slot(slot)) return nullptr;
  if (peer.refused_generation != generation) peer.refusals = 0;
  // A broker that could not be asked now may be later: again after 1, 2, 4, ... packets.
  if (peer.refusals > 0 && !std::has_single_bit(++peer.refusals)) return nullptr;
  peer.opened = {};
  peer.writer = {};
  if (slot == slot_) {
    peer.opened = {nullptr, &own_, wakeup_, generation};
  } else {
    Opened opened = directory_.open_area(slot, patience_ms, peer.opened);
    bool usable = opened == Opened::kOpen && peer.opened.generation == generation;
    if (opened != Opened::kLater)
      peer.asked_since.reset();
    else if (!peer.asked_since)
      peer.asked_since = std::chrono::steady_clock::now();
    if (!usable) peer.opened = {};
    peer.no_room = opened == Opened::kNoRoom;
    if (opened == Opened::kNobody || peer.no_room) {
      peer.refused_generation = generation;
      if (peer.refusals == 0) peer.refusals = 1;
    }
    if (!usable) return nullptr;
  }
  peer.refusals = 0;
  peer.asked_since.reset();
  peer.writer = RingWriter(peer.opened.area->rings[slot_]);
  return &peer;
}

// Whether packets of or to `slot` are kept because the broker is about to say where its ring is. On
// a crowded machine that takes a while, and a loss costs a whole timeout; but one stopped broker
// must not stop the traffic with everybody else.
bool LocalLink::awaits(uint8_t slot) const {
  const Peer& peer = peers_[slot];
  return peer.asked_since && std::chrono::steady_clock::now() - *peer.asked_since < kMaxAwait;
}

bool LocalLink::send(const engine::TxPacket& packet) {
  const engine::AddressVector& route = *packet.route;
  Out out{packet.header,
          route.source,
          route.destination,
          route.traffic_class,
          route.ttl(),
          false,
          packet.by_reference && packet.payload.length > kReferenceAbove,
          packet.source_qpn,
          packet.region_key,
          packet.path_mtu};
  return write(slot_of(packet.header.dest_qpn), out, packet.payload);
}

bool LocalLink::forward(uint8_t slot, const engine::RxPacket& packet) {
  Out out{packet.header,
          packet.source,
          packet.destination,
          packet.traffic_class,
          packet.hop_limit,
          true,
          false,
          0,
          0,
          0};
  uint64_t before = counters_.tx_packets;
  return write(slot, out, packet.payload) && counters_.tx_packets != before;
}

inline LocalLink::Body LocalLink::describe(const Out& out, uint32_t payload_bytes,
                                           size_t segments) const {
  Body body{};
  body.image = image_of(out.header);
  std::memcpy(body.source, out.source.bytes.data(), 16);
  std::memcpy(body.destination, out.destination.bytes.data(), 16);
  body.generation = generation_;
  body.source_qpn = out.source_qpn;
  body.epoch = own_.qp_epoch[out.source_qpn & 0xffff].load(std::memory_order_relaxed);
  body.region_key = out.region_key;
  body.region_epoch = static_cast<uint32_t>(
      own_.region[region_index(out.region_key)].load(std::memory_order_relaxed));
  body.payload_bytes = payload_bytes;
  body.segments = static_cast<uint32_t>(segments);
  body.traffic_class = out.traffic_class;
  body.hop_limit = out.hop_limit;
  body.forwarded = out.forwarded;
  body.path_mtu = out.path_mtu;
  return body;
}

bool LocalLink::write(uint8_t slot, const Out& out, const memory::Payload& payload) {
  Peer* to = peer(slot);
  if (!to) {
    if (awaits(slot)) return false;
    ++counters_.tx_no_peer;
    return true;
  }
  const size_t count = out.by_reference ? payload.segments.size() : 0;
  if (out.by_reference ? count > kMaxRecordSegments : payload.length > kInlineBytes) {
    ++counters_.tx_oversize;
    return true;
  }
  const uint32_t bytes =
      static_cast<uint32_t>(sizeof(RecordHeader) + sizeof(Body) +
                            (out.by_reference ? count * sizeof(RemotePiece) : payload.length));
  uint8_t* at = to->writer.reserve(bytes);
  if (!at) {
    ++counters_.tx_full;
    return false;
  }
  RecordHeader header{
      (bytes + kRecordAlign - 1) & ~(kRecordAlign - 1),
      static_cast<uint32_t>(out.by_reference ? RecordKind::kReference : RecordKind::kInline)};
  Body body = describe(out, payload.length, count);
  if (out.by_reference && slot != slot_)
    body.first_chunk = stager_.offer(payload, out.source_qpn, out.region_key);
  std::memcpy(at, &header, sizeof(header));
  std::memcpy(at + sizeof(header), &body, sizeof(body));
  uint8_t* rest = at + sizeof(header) + sizeof(body);
  if (out.by_reference) {
    for (const memory::Segment& segment : payload.segments) {
      RemotePiece piece{reinterpret_cast<uint64_t>(segment.address), segment.length};
      std::memcpy(rest, &piece, sizeof(piece));
      rest += sizeof(piece);
    }
    ++counters_.tx_by_reference;
  } else if (!payload.copy_out(0, rest, payload.length)) {
    return true;  // never published: the space is used by the next record
  }
  to->writer.commit();
  ++counters_.tx_packets;
  counters_.tx_bytes += payload.length;
  if (to->rung) {
    to->rung = false;
    dirty_[dirty_count_++] = slot;
  }
  return true;
}

void LocalLink::flush() {
  for (size_t i = 0; i < dirty_count_; ++i) {
    Peer& to = peers_[dirty_[i]];
    to.rung = true;
    LocalArea* area = to.opened.area;
    if (!area) continue;
    // Sequentially consistent against prepare_sleep(): either the sleeper sees the bell or we see
    // the sleeper.
    area->doorbell[slot_ / 64].fetch_or(uint64_t{1} << slot_ % 64, std::memory_order_seq_cst);
    if (area->sleeping.load(std::memory_order_seq_cst) &&
        area->sleeping.exchange(0, std::memory_order_seq_cst)) {
      uint64_t one = 1;
      ++counters_.wakeups;
      ssize_t n = ::write(to.opened.wakeup, &one, sizeof(one));
      (void)n;  // a full counter wakes the sleeper just as well
    }
  }
  dirty_count_ = 0;
}

size_t LocalLink::receive(Visitor visit, size_t budget) {
  const size_t all = budget;
  for (size_t word = 0; word < pending_.size(); ++word) {
    uint64_t bits = pending_[word];
    if (own_.doorbell[word].load(std::memory_order_relaxed)) {
      bits |= own_.doorbell[word].exchange(0, std::memory_order_seq_cst);
    }
    pending_[word] = 0;
    for (; bits; bits &= bits - 1) {
      uint8_t slot = static_cast<uint8_t>(word * 64 + static_cast<size_t>(std::countr_zero(bits)));
      if (!drain(slot, visit, budget)) pending_[word] |= uint64_t{1} << slot % 64;
    }
  }
  return all - budget;
}

// True: the ring of `slot` was emptied.
bool LocalLink::drain(uint8_t slot, Visitor& visit, size_t& budget) {
  if (!is_process_slot(slot)) return true;
  RingReader& reader = readers_[slot];
  if (!reader.valid()) reader = RingReader(own_.rings[slot]);
  for (size_t turn = kRecordsPerTurn; turn > 0 && budget > 0; --turn) {
    uint32_t kind = 0;
    std::span<uint8_t> record = reader.next(kind);
    if (record.empty()) break;
    if (kind == static_cast<uint32_t>(RecordKind::kReference) && eligible(slot) && !peer(slot) &&
        awaits(slot))
      break;
    visit_record(slot, kind, record, visit);
    reader.pop();
    --budget;
  }
  reader.publish();
  return reader.empty();
}

// Payload that stays with the sender: `segments` become addresses of his, which the reader fetches
// from; that can only read the sender. False: the record is refused and counted.
inline bool LocalLink::refer_to_sender(uint8_t slot, const Body& body,
                                       std::span<const uint8_t> pieces,
                                       std::span<memory::Segment> segments) {
  const size_t count = body.segments;
  if (count > segments.size() || count * sizeof(RemotePiece) > pieces.size() || !eligible(slot)) {
    ++counters_.rx_malformed;
    return false;
  }
  Peer* from = peer(slot);
  if (!from) {
    ++counters_.rx_no_peer;
    return false;
  }
  uint64_t total = 0;
  for (size_t i = 0; i < count; ++i) {
    RemotePiece piece;
    std::memcpy(&piece, pieces.data() + i * sizeof(piece), sizeof(piece));
    if (piece.length > UINT32_MAX) total = UINT64_MAX / 2;
    total += piece.length & UINT32_MAX;
    segments[i] = {reinterpret_cast<uint8_t*>(piece.address), piece.length};
  }
  if (total != body.payload_bytes) {
    ++counters_.rx_malformed;
    return false;
  }
  reader_.refer_to({from->opened.area, slot, body.generation, body.source_qpn, body.epoch,
                    body.region_key, body.region_epoch, body.first_chunk});
  ++counters_.rx_by_reference;
  return true;
}

void LocalLink::visit_record(uint8_t slot, uint32_t kind, std::span<uint8_t> record,
                             Visitor& visit) {
  const bool reference = kind == static_cast<uint32_t>(RecordKind::kReference);
  Body body;
  engine::RxPacket packet;
  if ((!reference && kind != static_cast<uint32_t>(RecordKind::kInline)) ||
      record.size() < sizeof(body)) {
    ++counters_.rx_malformed;
    return;
  }
  std::memcpy(&body, record.data(), sizeof(body));
  std::span<uint8_t> rest = record.subspan(sizeof(body));
  const bool known = packet_of(body.image, packet.header);
  const uint8_t destination_slot = slot_of(packet.header.dest_qpn);
  const bool payload_allowed = wire::opcode_info(body.image.opcode).has_payload;
  if (!known || destination_slot != slot_ || (body.payload_bytes && !payload_allowed) ||
      body.path_mtu > kMaxPathMtuCode) {
    ++counters_.rx_malformed;
    return;
  }
  if (body.generation !=
      directory_.host_page().rows[slot].generation.load(std::memory_order_acquire)) {
    ++counters_.rx_stale;
    return;
  }
  std::array<memory::Segment, kMaxRecordSegments> segments;
  size_t count = 1;
  if (reference) {
    if (!refer_to_sender(slot, body, rest, segments)) return;
    count = body.segments;
    packet.payload.foreign = &reader_;
  } else {
    if (body.payload_bytes > rest.size() || body.payload_bytes > kInlineBytes) {
      ++counters_.rx_malformed;
      return;
    }
    segments[0] = {rest.data(), body.payload_bytes};
  }
  packet.payload.segments = {segments.data(), count};
  packet.payload.length = body.payload_bytes;
  std::memcpy(packet.source.bytes.data(), body.source, 16);
  std::memcpy(packet.destination.bytes.data(), body.destination, 16);
  packet.path = body.forwarded ? engine::Path::kWire : engine::Path::kLocal;
  packet.path_mtu = body.path_mtu;
  packet.traffic_class = body.traffic_class;
  packet.hop_limit = body.hop_limit;
  ++counters_.rx_packets;
  counters_.rx_bytes += body.payload_bytes;
  counters_.rx_forwarded += body.forwarded != 0;
  visit(packet);
  if (reference) reader_.done(body.payload_bytes);
}

bool LocalLink::prepare_sleep() {
  own_.sleeping.store(1, std::memory_order_seq_cst);
  bool work = false;
  for (size_t word = 0; word < pending_.size(); ++word) {
    work |= pending_[word] != 0 || own_.doorbell[word].load(std::memory_order_seq_cst) != 0;
  }
  if (work) own_.sleeping.store(0, std::memory_order_seq_cst);
  return !work;
}

void LocalLink::finish_sleep() {
  own_.sleeping.store(0, std::memory_order_relaxed);
  uint64_t count;
  ssize_t n = ::read(wakeup_, &count, sizeof(count));
  (void)n;  // EAGAIN: nobody rang
}

void LocalLink::revoke(uint32_t qpn) {
  own_.qp_epoch[qpn & 0xffff].fetch_add(1, std::memory_order_seq_cst);
  stager_.forget_queue_pair(qpn);
}
void LocalLink::publish_key(uint32_t rkey) {
  std::atomic<uint64_t>& word = own_.region[region_index(rkey)];
  uint32_t epoch = static_cast<uint32_t>(word.load(std::memory_order_relaxed)) + 1;
  word.store(region_word(rkey, epoch), std::memory_order_seq_cst);
}
void LocalLink::withdraw_key(uint32_t rkey) {
  std::atomic<uint64_t>& word = own_.region[region_index(rkey)];
  uint32_t epoch = static_cast<uint32_t>(word.load(std::memory_order_relaxed));
  word.store(region_word(0, epoch), std::memory_order_seq_cst);
  stager_.forget_region(rkey);
}

uint64_t LocalLink::ring_resets() const {
  uint64_t total = 0;
  for (const RingReader& reader : readers_) {
    if (reader.valid()) total += reader.resets();
  }
  return total;
}

}  // namespace verbena::link
