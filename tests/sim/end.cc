// An end's life: construction, posting receives, the final check.
#include "end.h"

#include <algorithm>

#include <fmt/format.h>

namespace verbena::sim::test {

using engine::QpState;
using engine::QpType;

namespace {

constexpr uint32_t kAll = memory::kLocalWrite | memory::kRemoteWrite | memory::kRemoteRead |
                          memory::kRemoteAtomic | memory::kMwBind | memory::kFlushGlobal;
constexpr uint32_t kSlots = 12;
constexpr uint32_t kQkey = 0x2345;

}  // namespace

End::End(const Plan& plan, const PairPlan& pair, int side, const Host& host, uint64_t seed,
         Fail fail)
    : plan_(plan), pair_(pair), side_(side), host_(host), prng_(seed), fail_(std::move(fail)) {
  bool local = plan.local && pair.type != QpType::kUc && pair.type != QpType::kUd;
  unit_ = local ? engine::kLocalPathMtu : plan.mtu();
  bool xrc = pair.type == QpType::kXrcSend;
  sends = (!xrc && !pair.one_way) || side == 0;
  receives = !xrc || side == 1;
  engine::Device& device = host.world->device(host.index);
  uint64_t iova = host.first_iova;
  auto area = [&](size_t length, uint32_t access) {
    iova += 1u << 28;
    return Area(device, host.domain, iova, length, access);
  };
  size_t room = local ? 1'400'000 : 160 * 1024;
  source_ = area(room, memory::kLocalWrite);
  source_.fill(prng_);
  target_ = area(room, kAll);
  constant_ = area(room, memory::kRemoteRead);
  constant_.fill(prng_);
  landing_ = area(room, memory::kLocalWrite);
  send_cq_ = std::make_unique<engine::CompletionQueue>(256);
  receive_cq_ = std::make_unique<engine::CompletionQueue>(256);

  make_inboxes(area);

  engine::QpInit init{.type = xrc && side == 1 ? QpType::kXrcRecv : pair.type,
                      .domain = host.domain,
                      .send_cq = send_cq_.get(),
                      .receive_cq = receive_cq_.get()};
  init.send = {pair.depth, 4, 64};
  init.receive_work_requests = kSlots;
  init.receive_sges = 3;
  init.signal_all = pair.signal_all;
  if (xrc) {
    init.receive_cq = nullptr;
    init.xrc_domain = host.xrc_domain;
    if (side == 1) init.domain = nullptr, init.send_cq = nullptr, init.send = {};
  } else if (pair.srq) {
    init.srq = srqs_[0].get();
  }
  qp_ = *device.create_qp(init);
  work_ = sends ? pair.work : 0;
  due_.resize(2);
  // A cell of one's own in the peer host's cell area: the first 8 are shared.
  private_cell_index_ = 8 + 2 * (qp_->qpn() & 0xff) + static_cast<size_t>(side);
}

void End::make_inboxes(const MakeArea& area) {
  bool local = unit_ == engine::kLocalPathMtu, xrc = pair_.type == QpType::kXrcSend;
  size_t inboxes = !receives ? 0 : xrc ? 2 : 1;
  for (size_t i = 0; i < inboxes; ++i) {
    Inbox& inbox = inboxes_.emplace_back();
    inbox.slot_bytes = local ? 600'000 : 70 * unit_ + 40;
    if (pair_.type == QpType::kUd) inbox.slot_bytes = 4096 + 40;
    inbox.area = area(size_t{kSlots} * inbox.slot_bytes, memory::kLocalWrite);
    inbox.slots.resize(kSlots);
    for (uint32_t slot = 0; slot < kSlots; ++slot) inbox.free.push_back(kSlots - 1 - slot);
    if (!xrc && !pair_.srq) continue;
    auto srq = std::make_unique<engine::SharedReceiveQueue>(host_.domain, kSlots, 3);
    srq->xrc_domain = host_.xrc_domain;
    if (xrc) srq->completions = receive_cq_.get();
    host_.world->device(host_.index).register_srq(srq.get());
    inbox.srq = srq.get();
    srqs_.push_back(std::move(srq));
  }
}

void End::complain(const std::string& what) const {
  fail_(
      fmt::format("host {} QP {:#08x} ({}): {}", host_.index, qp_->qpn(), name(qp_->type()), what));
}

void End::connect(End& a, End& b) {
  a.peer_ = &b;
  b.peer_ = &a;
  for (auto [self, other] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
    QpType type = self->qp_->type();
    engine::QpAttributes at;
    at.access = kAll;
    at.qkey = kQkey;
    at.route.source = World::gid(self->host_.index);
    at.route.destination = World::gid(other->host_.index);
    at.route_is_global = true;
    at.path = self->host_.world->path();
    at.path_mtu = self->plan_.mtu_code;
    at.dest_qpn = other->qp_->qpn();
    at.rq_psn = self->pair_.first_psn[1 - self->side_];
    at.sq_psn = self->pair_.first_psn[self->side_];
    at.max_dest_rd_atomic = at.max_rd_atomic = self->pair_.rd_atomic;
    at.min_rnr_timer = self->pair_.rnr_timer;
    at.timeout = self->pair_.timeout;
    at.retry_cnt = at.rnr_retry = 7;
    self->qp_->tolerate_disorder(self->plan_.disorder);
    using namespace engine;
    uint32_t init = kAttrState | kAttrPkeyIndex | kAttrPort;
    uint32_t rtr = kAttrState, rts = kAttrState | kAttrSqPsn;
    init |= type == QpType::kUd ? kAttrQkey : kAttrAccessFlags;
    if (type != QpType::kUd) rtr |= kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn;
    if (type == QpType::kRc || type == QpType::kXrcRecv)
      rtr |= kAttrMaxDestRdAtomic | kAttrMinRnrTimer;
    if (type == QpType::kRc || type == QpType::kXrcSend)
      rts |= kAttrTimeout | kAttrRetryCnt | kAttrRnrRetry | kAttrMaxQpRdAtomic;
    if (type == QpType::kXrcRecv) rts |= kAttrTimeout;
    for (auto [state, mask] : {std::pair{QpState::kInit, init}, std::pair{QpState::kRtr, rtr},
                               std::pair{QpState::kRts, rts}}) {
      at.state = state;
      auto done = self->qp_->modify(self->host_.world->now(), at, mask);
      if (!done) self->complain(done.error().message);
    }
  }
}

// Three type 2 windows over the target: the peer writes through them until it invalidates one.
void End::bind_windows() {
  engine::Device& device = host_.world->device(host_.index);
  for (int i = 0; i < 3; ++i) {
    auto window = std::make_unique<memory::MemoryWindow>();
    window->domain = host_.domain;
    window->type = 2;
    device.keys().insert(window.get());
    engine::SendRequest request;
    request.opcode = engine::WrOpcode::kBindMw;
    request.bind = {window.get(),    target_.region(),
                    window->key + 1, target_.address(0),
                    target_.size(),  memory::kRemoteWrite | memory::kRemoteRead};
    if (qp_->post_send(host_.world->now(), request) != 0) return;  // a queue of one or two
    host_.world->service(host_.index);
    if (window->region != target_.region()) complain("a memory window was not bound");
    live_windows_.push_back(window->key);
    windows_.push_back(std::move(window));
  }
}

void End::post_receives() {
  for (size_t box = 0; box < inboxes_.size(); ++box) {
    Inbox& inbox = inboxes_[box];
    for (uint64_t n = prng_.below(5); n > 0 && !inbox.free.empty(); --n) {
      uint32_t slot = inbox.free.back();
      size_t begin = size_t{slot} * inbox.slot_bytes;
      std::memset(inbox.area.at(begin), kUntouched, inbox.slot_bytes);
      // Up to three pieces of the slot, in any order of place.
      auto first = static_cast<uint32_t>(prng_.below(inbox.slot_bytes / 4));
      auto second = static_cast<uint32_t>(prng_.below(inbox.slot_bytes / 4));
      uint32_t third = inbox.slot_bytes - first - second;
      std::vector<engine::Sge> sges{inbox.area.sge(begin + third, first),
                                    inbox.area.sge(begin + third + first, second),
                                    inbox.area.sge(begin, third)};
      if (prng_.below(2)) sges = {inbox.area.sge(begin, inbox.slot_bytes)};
      if (inbox.srq) {
        inbox.srq->queue.push(box * kBoxStride + slot, sges);
      } else if (qp_->post_receive(slot, sges) != 0) {
        return complain("a receive work request was refused");
      }
      inbox.free.pop_back();
      inbox.slots[slot] = std::move(sges);
      inbox.order.push_back(slot);
    }
  }
  host_.world->service(host_.index);
}

void End::step() {
  engine::WorkCompletion c;
  while (send_cq_->pop(&c, 1)) check_send(c);
  while (receive_cq_->pop(&c, 1)) check_receive(c);
}

void End::finish() {
  finished_ = true;
  engine::QpAttributes error;
  error.state = QpState::kErr;
  if (!qp_->modify(host_.world->now(), error, engine::kAttrState)) complain("no way to ERR");
  host_.world->service(host_.index);
}

void End::check_end() {
  if (!all_posted()) return complain(fmt::format("{} of {} posted", posted_, work_));
  if (!outstanding_.empty() && outlook != Outlook::kSuccess)
    complain(fmt::format("{} work requests never completed", outstanding_.size()));
  for (const Posted& p : outstanding_)
    if (p.signaled) complain(fmt::format("wr_id {} never completed", p.wr_id));
  bool counts = reliable() && outlook == Outlook::kSuccess;
  if (counts && !all_received())
    complain(fmt::format("{} of {} messages received", received_, peer_->messages_));
  for (Inbox& inbox : inboxes_)
    if (!inbox.srq && !inbox.order.empty()) complain("a receive work request never completed");
  for (Area* area : {&source_, &target_, &constant_, &landing_}) {
    if (!area->guards_intact()) complain("a guard zone was written");
    if (area == &target_ && !reliable() && !plan_.disorders()) check_unreliable_target();
    bool known = area == &source_ || area == &constant_ || counts;
    size_t at = area->first_difference();
    if (known && at != area->size())
      complain(fmt::format("{} byte {:#x} is {:#x} and should be {:#x}",
                           area == &target_    ? "target"
                           : area == &landing_ ? "landing"
                                               : "source",
                           at, *area->at(at), area->expected[at]));
  }
  for (const Inbox& inbox : inboxes_)
    if (!inbox.area.guards_intact()) complain("a guard zone of the inbox was written");
  if (counts && sends && peer_->outlook == Outlook::kSuccess) {
    uint64_t cell;
    std::memcpy(&cell, peer_->host_.cells->at(private_cell_index_ * 8), 8);
    if (cell != private_cell_) complain("the compare-and-swap cell has a wrong value");
  }
  if (counts)
    for (const auto& window : windows_) {
      bool live =
          std::find(live_windows_.begin(), live_windows_.end(), window->key) != live_windows_.end();
      if (live != (window->region != nullptr)) complain("a memory window's binding is wrong");
    }
}

// Every place is written at most once: a byte is the message's or untouched.
void End::check_unreliable_target() {
  for (size_t i = 0; i < target_.size(); ++i)
    if (*target_.at(i) != 0 && *target_.at(i) != target_.expected[i])
      return complain("a UC WRITE put wrong bytes into its target");
}

}  // namespace verbena::sim::test
