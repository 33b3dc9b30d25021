// The device: tables of objects, the ready list, the timer heap, and the way in and out.
#include "engine/device.h"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

namespace verbena::engine {

namespace {
constexpr uint32_t kMaxQueuePairs = 65535;  // 16-bit index, 0 is not a queue pair
constexpr uint32_t kMaxSrqs = 65535;
constexpr size_t kMaxExplanations = 10000;  // between two steps; more are dropped
}  // namespace

Device::Device(const DeviceOptions& options)
    : options_(options), keys_(options.seed, options.populate) {
  by_index_.resize(1);
  srqs_.resize(1);
}

Device::~Device() {
  for (QueuePair* qp : by_index_) delete qp;
}

// --- objects

Result<QueuePair*> Device::create_qp(const QpInit& init) {
  if (init.port >= kMaxPorts)
    return fail(EINVAL, fmt::format("create_qp: port {} of {}", init.port, kMaxPorts));
  if (init.lane >= kLanes)
    return fail(EINVAL, fmt::format("create_qp: lane {} of {}", init.lane, kLanes));
  uint32_t index = 0;
  for (uint32_t tried = 0; tried < kMaxQueuePairs; ++tried) {
    uint32_t candidate = next_index_;
    next_index_ = next_index_ == kMaxQueuePairs ? 1 : next_index_ + 1;
    if (candidate >= by_index_.size() || !by_index_[candidate]) {
      index = candidate;
      break;
    }
  }
  if (index == 0)
    return fail(ENOMEM, fmt::format("create_qp: all {} queue pairs are in use", kMaxQueuePairs));
  if (index >= by_index_.size()) by_index_.resize(index + 1);
  auto* qp = new QueuePair(*this, options_.qpn_base | index, init);
  by_index_[index] = qp;
  if (init.domain) ++init.domain->users;
  if (init.send_cq) ++init.send_cq->users;
  if (init.receive_cq) ++init.receive_cq->users;
  if (init.srq) ++init.srq->users;
  if (init.xrc_domain) ++init.xrc_domain->users;
  return qp;
}

void Device::destroy_qp(QueuePair* qp) {
  qp->reset();
  forget(qp);
  forget_ready(qp);
  std::erase_if(attachments_, [qp](const Attachment& a) { return a.qp == qp; });
  const QpInit& init = qp->init();
  if (init.domain) --init.domain->users;
  if (init.send_cq) --init.send_cq->users;
  if (init.receive_cq) --init.receive_cq->users;
  if (init.srq) --init.srq->users;
  if (init.xrc_domain) --init.xrc_domain->users;
  by_index_[qp->qpn() & 0xffff] = nullptr;
  delete qp;
}

void Device::abandon_queue_pairs() {
  for (QueuePair* qp : by_index_) {
    if (!qp) continue;
    qp->reset();
    qp->attributes_.state = QpState::kErr;
    qp->abandoned_ = true;
    forget_ready(qp);
  }
  attachments_.clear();
  events_.clear();
  overrun_.clear();
  lost_completions_.clear();
}

QueuePair* Device::find_qp(uint32_t qpn) {
  uint32_t index = qpn & 0xffff;
  if (index >= by_index_.size()) return nullptr;
  QueuePair* qp = by_index_[index];
  return qp && qp->qpn() == qpn ? qp : nullptr;
}

uint32_t Device::register_srq(SharedReceiveQueue* srq) {
  for (uint32_t number = 1; number <= kMaxSrqs; ++number) {
    if (number == srqs_.size()) srqs_.push_back(nullptr);
    if (!srqs_[number]) {
      srqs_[number] = srq;
      return srq->number = number;
    }
  }
  return 0;
}

void Device::unregister_srq(SharedReceiveQueue* srq) {
  if (srq->number < srqs_.size() && srqs_[srq->number] == srq) srqs_[srq->number] = nullptr;
  for (QueuePair* qp : by_index_)
    if (qp) qp->forget(srq);
  forget(srq);
}

SharedReceiveQueue* Device::find_srq(uint32_t number) {
  return number < srqs_.size() ? srqs_[number] : nullptr;
}

bool Device::take_from_srq(SharedReceiveQueue* srq, ReceiveWork& to) {
  if (!srq->queue.pop(to)) return false;
  if (srq->limit > 0 && srq->queue.size() < srq->limit) {
    srq->limit = 0;  // one shot: modify_srq arms it again (IBA 10.2.9.1)
    report({Event::kSrq, AsyncType::kSrqLimitReached, nullptr, nullptr, srq});
  }
  return true;
}

int Device::attach_multicast(QueuePair* qp, const Gid& group) {
  if (qp->type() != QpType::kUd || !group.is_multicast()) return EINVAL;
  for (const Attachment& a : attachments_)
    if (a.qp == qp && a.group == group) return 0;
  attachments_.push_back({group, qp});
  return 0;
}

int Device::detach_multicast(QueuePair* qp, const Gid& group) {
  size_t erased = std::erase_if(
      attachments_, [&](const Attachment& a) { return a.qp == qp && a.group == group; });
  return erased ? 0 : EINVAL;
}

// --- data

QueuePair* Device::first_receiver(const RxPacket& packet) {
  if (packet.header.dest_qpn != kMulticastQpn) return find_qp(packet.header.dest_qpn);
  for (const Attachment& a : attachments_)
    if (a.group == packet.destination) return a.qp;
  return nullptr;
}

void Device::receive(Instant now, const RxPacket& packet) {
  const wire::Packet& header = packet.header;
  QueuePair* receiver = first_receiver(packet);
  port_ = receiver ? receiver->init().port : 0;
  Counters& counters = this->counters();
  counters.port_rcv_packets += wire_packets(packet.path_mtu, packet.payload.length);
  counters.port_rcv_data += packet.payload.length;
  if ((packet.traffic_class & 3) == 3) ++counters.np_ecn_marked_roce_packets;
  if (header.opcode == wire::Opcode::kCnp) {
    ++counters.rp_cnp_handled;
    if (receiver) receiver->receive_notification(now, packet);
    return;
  }
  if ((header.pkey & 0x7fff) != 0x7fff) {  // our table: one entry, 0xffff, full member
    ++counters.bad_pkey;
    return;
  }
  if (header.dest_qpn == kMulticastQpn) {
    for (size_t i = 0; i < attachments_.size(); ++i) {
      if (attachments_[i].group != packet.destination) continue;
      focus(*attachments_[i].qp);
      attachments_[i].qp->receive(now, packet);
    }
  } else if (receiver) {
    receiver->receive(now, packet);
  } else {
    ++counters.rx_unknown_qp;
  }
  fail_overrun(now);
}

void Device::on_time(Instant now) {
  while (!timers_.empty() && timers_[0]->timer_at_ <= now) {
    focus(*timers_[0]);
    timers_[0]->on_time(now);
  }
  fail_overrun(now);
}

Instant Device::next_deadline() const {
  return timers_.empty() ? kNever : timers_[0]->timer_at_;
}

// --- reports

Counters Device::total_counters() const {
  Counters total;
  auto* sums = reinterpret_cast<uint64_t*>(&total);
  for (const Counters& port : ports_) {
    const auto* values = reinterpret_cast<const uint64_t*>(&port);
    for (int i = 0; i < kCounterCount; ++i) sums[i] += values[i];
  }
  return total;
}

void Device::explain(std::string text) {
  if (options_.explain && explanations_.size() < kMaxExplanations)
    explanations_.push_back(std::move(text));
}

void Device::report(const Event& event) {
  events_.push_back(event);
}

void Device::forget(const void* object) {
  std::erase_if(events_, [object](const Event& e) {
    return e.cq == object || e.qp == object || e.srq == object;
  });
  std::erase_if(overrun_, [object](const CompletionQueue* cq) { return cq == object; });
  std::erase_if(lost_completions_, [object](const QueuePair* qp) { return qp == object; });
}

void Device::push_completion(CompletionQueue* cq, const WorkCompletion& completion,
                             bool solicited) {
  if (!cq) return;
  bool was_overrun = cq->overrun();
  if (!cq->push(completion)) {
    ++counters().cq_overrun;
    QueuePair* qp = find_qp(completion.qp_num);
    bool listed = !lost_completions_.empty() && lost_completions_.back() == qp;
    if (qp && qp->state() != QpState::kErr && !listed) lost_completions_.push_back(qp);
    if (was_overrun) return;
    explain(
        fmt::format("completion queue overrun: {} completions wait and there is no room for"
                    " one more; poll it more often or create it larger",
                    cq->size()));
    report({Event::kCq, AsyncType::kCqErr, cq, nullptr, nullptr});
    overrun_.push_back(cq);
    return;
  }
  if (cq->take_event(solicited)) report({Event::kCompletion, AsyncType::kCqErr, cq});
}

void Device::arm(CompletionQueue& cq, bool solicited_only) {
  if (cq.arm(solicited_only)) report({Event::kCompletion, AsyncType::kCqErr, &cq});
}

// A completion queue in error takes its queue pairs with it (IBA 10.2.6.3, class G). Those that
// report there through an XRC SRQ, or came later, go when a completion of theirs is lost.
void Device::fail_overrun(Instant now) {
  auto fail_one = [this, now](QueuePair* qp) {
    if (qp->state() == QpState::kReset || qp->state() == QpState::kErr) return;
    report({Event::kQp, AsyncType::kQpFatal, nullptr, qp, nullptr});
    qp->enter_error(now, "a completion queue overran");
  };
  while (!overrun_.empty()) {
    CompletionQueue* cq = overrun_.back();
    overrun_.pop_back();
    for (QueuePair* qp : by_index_)
      if (qp && (qp->init().send_cq == cq || qp->init().receive_cq == cq)) fail_one(qp);
  }
  while (!lost_completions_.empty()) {
    QueuePair* qp = lost_completions_.back();
    lost_completions_.pop_back();
    fail_one(qp);
  }
}

// --- timers: a binary heap of queue pairs by deadline; each knows its slot.

void Device::update_timer(QueuePair* qp) {
  Instant wanted = qp->next_deadline();
  if (wanted == kNever) {
    if (qp->timer_slot_ == SIZE_MAX) return;
    size_t slot = qp->timer_slot_;
    qp->timer_slot_ = SIZE_MAX;
    QueuePair* last = timers_.back();
    timers_.pop_back();
    if (last == qp) return;
    timers_[slot] = last;
    last->timer_slot_ = slot;
    sift_up(slot);
    sift_down(last->timer_slot_);
    return;
  }
  if (qp->timer_slot_ == SIZE_MAX) {
    qp->timer_slot_ = timers_.size();
    timers_.push_back(qp);
  } else if (qp->timer_at_ == wanted) {
    return;
  }
  qp->timer_at_ = wanted;
  sift_up(qp->timer_slot_);
  sift_down(qp->timer_slot_);
}

void Device::sift_up(size_t slot) {
  QueuePair* qp = timers_[slot];
  while (slot > 0) {
    size_t parent = (slot - 1) / 2;
    if (timers_[parent]->timer_at_ <= qp->timer_at_) break;
    timers_[slot] = timers_[parent];
    timers_[slot]->timer_slot_ = slot;
    slot = parent;
  }
  timers_[slot] = qp;
  qp->timer_slot_ = slot;
}

void Device::sift_down(size_t slot) {
  QueuePair* qp = timers_[slot];
  for (;;) {
    size_t child = 2 * slot + 1;
    if (child >= timers_.size()) break;
    if (child + 1 < timers_.size() && timers_[child + 1]->timer_at_ < timers_[child]->timer_at_)
      ++child;
    if (qp->timer_at_ <= timers_[child]->timer_at_) break;
    timers_[slot] = timers_[child];
    timers_[slot]->timer_slot_ = slot;
    slot = child;
  }
  timers_[slot] = qp;
  qp->timer_slot_ = slot;
}

}  // namespace verbena::engine
