// The bench of the packet-script tests.
#include "rig.h"

#include <fmt/format.h>

namespace verbena::engine::test {

bool Catcher::send(const TxPacket& packet) {
  if (sent.size() >= room) return false;
  Sent s{packet.header, {}, *packet.route, packet.by_reference};
  s.payload.resize(packet.payload.length);
  EXPECT_TRUE(packet.payload.copy_out(0, s.payload.data(), s.payload.size()));
  sent.push_back(std::move(s));
  return true;
}

Rig::Rig(const RigOptions& wanted) : options(wanted), device(wanted.device) {
  storage = std::make_unique<uint8_t[]>(kMemory + 4096);
  memory = storage.get() + (4096 - reinterpret_cast<uintptr_t>(storage.get()) % 4096);
  region = {.domain = &domain, .iova = address(0), .length = kMemory, .base = memory};
  region.access = kAllAccess;
  device.keys().insert(&region);
  send_cq = std::make_unique<CompletionQueue>(options.cqe);
  receive_cq = std::make_unique<CompletionQueue>(options.cqe);
  route = {.source = gid(1), .destination = gid(2)};
  if (options.use_srq || options.type == QpType::kXrcRecv) {
    srq = std::make_unique<SharedReceiveQueue>(&domain, options.srq_work_requests, options.sges);
    srq->xrc_domain = &xrc_domain;
    if (options.type == QpType::kXrcRecv) srq->completions = receive_cq.get();
    device.register_srq(srq.get());
  }
  qp = make(options);
  take_events();
}

Rig::~Rig() {
  for (QueuePair* each : std::vector<QueuePair*>(device.queue_pairs()))
    if (each) device.destroy_qp(each);
}

QueuePair* Rig::make(const RigOptions& o) {
  QpInit init{.type = o.type, .domain = &domain, .send_cq = send_cq.get()};
  init.receive_cq = receive_cq.get();
  init.send = {o.work_requests, o.sges, o.inline_bytes};
  init.receive_work_requests = o.work_requests;
  init.receive_sges = o.sges;
  init.signal_all = o.signal_all;
  init.port = o.port;
  init.lane = o.lane;
  init.port_mtu = o.port_mtu;
  init.max_dest_rd_atomic = o.max_dest;
  if (o.use_srq) init.srq = srq.get();
  if (o.type == QpType::kXrcSend) init.receive_cq = nullptr;
  if (o.type == QpType::kXrcRecv) {
    init.domain = nullptr;
    init.send_cq = init.receive_cq = nullptr;
    init.xrc_domain = &xrc_domain;
    init.send = {};
  }
  QueuePair* made = *device.create_qp(init);
  if (o.control) made->congestion(o.control());
  made->tolerate_disorder(o.disorder);
  RigOptions saved = options;
  options = o;
  for (QpState to : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
    if (static_cast<int>(to) > static_cast<int>(o.state)) break;
    auto done = modify(made, to);
    EXPECT_TRUE(done) << done.error().message;
  }
  options = saved;
  return made;
}

Result<void> Rig::modify(QueuePair* which, QpState to) {
  QpAttributes a;
  a.state = to;
  uint32_t mask = kAttrState;
  bool ud = which->type() == QpType::kUd;
  bool requester = which->type() == QpType::kRc || which->type() == QpType::kXrcSend;
  bool responder = which->type() == QpType::kRc || which->type() == QpType::kXrcRecv;
  QpState from = which->state();
  if (from == QpState::kReset && to == QpState::kInit) {
    mask |= kAttrPkeyIndex | kAttrPort | (ud ? kAttrQkey : kAttrAccessFlags);
    a.access = options.access;
    a.qkey = options.qkey;
  } else if (from == QpState::kInit && to == QpState::kRtr && !ud) {
    mask |= kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn;
    if (responder) mask |= kAttrMaxDestRdAtomic | kAttrMinRnrTimer;
    a.route = route;
    a.route_is_global = true;
    a.path = options.path;
    a.path_mtu = options.mtu;
    a.dest_qpn = kPeerQpn;
    a.rq_psn = options.rq_psn;
    a.max_dest_rd_atomic = options.max_dest_rd_atomic;
    a.min_rnr_timer = options.min_rnr_timer;
  } else if (from == QpState::kRtr && to == QpState::kRts) {
    mask |= kAttrSqPsn;
    if (requester) mask |= kAttrTimeout | kAttrRetryCnt | kAttrRnrRetry | kAttrMaxQpRdAtomic;
    if (which->type() == QpType::kXrcRecv) mask |= kAttrTimeout;
    a.sq_psn = options.sq_psn;
    a.timeout = options.timeout;
    a.retry_cnt = options.retry_cnt;
    a.rnr_retry = options.rnr_retry;
    a.max_rd_atomic = options.max_rd_atomic;
  }
  return which->modify(now, a, mask);
}

SendRequest Rig::request(WrOpcode opcode, std::initializer_list<Sge> sges, uint32_t flags) {
  lists_.push_back(std::make_unique<std::vector<Sge>>(sges));
  SendRequest r;
  r.wr_id = lists_.size();
  r.opcode = opcode;
  r.sges = *lists_.back();
  r.flags = flags;
  if (options.type == QpType::kUd) {
    r.route = &route;
    r.remote_qpn = kPeerQpn;
    r.remote_qkey = options.qkey;
  }
  return r;
}

SendRequest Rig::remote(WrOpcode opcode, std::initializer_list<Sge> sges, uint64_t address,
                        uint32_t rkey, uint32_t flags) {
  SendRequest r = request(opcode, sges, flags);
  r.remote_address = address;
  r.rkey = rkey;
  return r;
}

std::vector<Sent> Rig::transmit() {
  sink.sent.clear();
  while (device.transmit(now, sink) == TransmitResult::kMore) {
  }
  return std::move(sink.sent);
}

void Rig::time(Duration to) {
  now = Instant{to.ps};
  device.on_time(now);
}

wire::Packet Rig::packet(Opcode opcode, uint32_t psn, bool ack_request) const {
  wire::Packet p;
  p.opcode = opcode;
  p.dest_qpn = qp->qpn();
  p.psn = Psn(psn);
  p.ack_request = ack_request;
  if (srq) p.xrc_srqn = srq->number;
  return p;
}

void Rig::receive(const wire::Packet& header, std::vector<uint8_t> payload) {
  RxPacket rx;
  rx.header = header;
  rx.source = gid(2);
  rx.destination = gid(1);
  rx.path = options.path;
  receive(rx, std::move(payload));
}

void Rig::receive(RxPacket rx, std::vector<uint8_t> payload) {
  memory::Segment segment{payload.data(), payload.size()};
  rx.payload = {{&segment, payload.empty() ? size_t{0} : size_t{1}},
                static_cast<uint32_t>(payload.size()),
                nullptr};
  rx.header.pad_count = static_cast<uint8_t>(-payload.size() & 3);
  device.receive(now, rx);
}

void Rig::ack(uint32_t psn, uint8_t syndrome, uint32_t msn) {
  wire::Packet p = packet(Opcode::kRcAcknowledge, psn);
  if (options.type == QpType::kXrcSend) p.opcode = Opcode::kXrcAcknowledge;
  p.aeth = {syndrome, msn};
  receive(p);
}

void Rig::read_response(Opcode opcode, uint32_t psn, std::vector<uint8_t> payload) {
  wire::Packet p = packet(opcode, psn);
  p.aeth = {0x1f, 0};
  receive(p, std::move(payload));
}

wire::Packet Rig::write_request(Opcode opcode, uint32_t psn, size_t offset, uint32_t length) const {
  wire::Packet p = packet(opcode, psn, true);
  p.reth = {address(offset), region.key, length};
  return p;
}

wire::Packet Rig::atomic(Opcode opcode, uint32_t psn, size_t offset, uint64_t swap_add,
                         uint64_t compare) const {
  wire::Packet p = packet(opcode, psn, true);
  p.atomic = {address(offset), region.key, swap_add, compare};
  return p;
}

std::vector<WorkCompletion> Rig::poll(CompletionQueue& cq) const {
  std::vector<WorkCompletion> all(cq.size());
  all.resize(cq.pop(all.data(), static_cast<uint32_t>(all.size())));
  return all;
}

std::vector<Event> Rig::take_events() {
  return std::exchange(device.events(), {});
}

std::vector<AsyncType> Rig::take_async() {
  std::vector<AsyncType> types;
  for (const Event& event : take_events())
    if (event.kind != Event::kCompletion && event.kind != Event::kLeftService)
      types.push_back(event.type);
  return types;
}

std::vector<uint8_t> bytes(size_t count, uint8_t first) {
  std::vector<uint8_t> all(count);
  for (size_t i = 0; i < count; ++i) all[i] = static_cast<uint8_t>(first + i * 7);
  return all;
}

std::vector<std::string> summary(const std::vector<WorkCompletion>& completions) {
  std::vector<std::string> all;
  for (const WorkCompletion& c : completions)
    all.push_back(fmt::format("{}:{}", c.wr_id, name(c.status)));
  return all;
}

std::vector<std::string> summary(const std::vector<Sent>& packets) {
  std::vector<std::string> all;
  for (const Sent& s : packets)
    all.push_back(fmt::format("{} {}", wire::opcode_info(s.header.opcode).name(), s.psn()));
  return all;
}

}  // namespace verbena::engine::test
