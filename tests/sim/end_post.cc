// Drawing and posting random work requests, and computing what they must do.
#include <algorithm>

#include <fmt/format.h>

#include "end.h"

namespace verbena::sim::test {

using engine::QpType;
using engine::SendRequest;
using engine::WcOpcode;
using engine::WcStatus;
using engine::WrOpcode;

uint32_t End::draw_length() {
  bool local = unit_ == engine::kLocalPathMtu;
  if (pair_.type == QpType::kUd) {
    const uint32_t few[] = {0, 1, unit_ - 1, unit_, static_cast<uint32_t>(prng_.below(unit_))};
    return few[prng_.below(5)];
  }
  switch (prng_.below(local ? 14 : 9)) {
    case 0:
      return static_cast<uint32_t>(prng_.below(2));
    case 1:
      return unit_ - 1;
    case 2:
      return unit_;
    case 3:
      return unit_ + 1;
    case 4:
      return static_cast<uint32_t>(prng_.below(local ? 2 * unit_ : 8 * unit_));
    case 5:
      if (local || unit_ > 1024 || prng_.below(4) != 0) break;
      return static_cast<uint32_t>(prng_.between(63 * unit_, 70 * unit_));
    default:
      break;
  }
  return static_cast<uint32_t>(prng_.below(local ? 20'000 : 3 * unit_));
}

// A random split of `length` bytes of the source into SGEs, some of them empty.
std::vector<engine::Sge> End::gather(uint32_t length, std::vector<uint8_t>& content) {
  std::vector<engine::Sge> sges;
  uint32_t left = length;
  uint64_t pieces = prng_.between(1, 4);
  for (uint64_t i = 0; i < pieces; ++i) {
    auto n = i + 1 == pieces ? left : static_cast<uint32_t>(prng_.below(uint64_t{left} + 1));
    auto offset = static_cast<size_t>(prng_.below(source_.size() - n + 1));
    sges.push_back(source_.sge(offset, n));
    content.insert(content.end(), source_.at(offset), source_.at(offset) + n);
    left -= n;
  }
  return sges;
}

// Fresh bytes of the landing area for `length` bytes, with gaps between the pieces. Empty when
// the area is used up; `offsets` gives the place of every byte's piece, in order.
std::vector<engine::Sge> End::land(uint32_t length, std::vector<size_t>& offsets) {
  std::vector<engine::Sge> sges;
  if (landing_used_ + length + 64 > landing_.size()) return sges;
  uint32_t left = length;
  uint64_t pieces = prng_.between(1, 4);
  for (uint64_t i = 0; i < pieces; ++i) {
    auto n = i + 1 == pieces ? left : static_cast<uint32_t>(prng_.below(uint64_t{left} + 1));
    sges.push_back(landing_.sge(landing_used_, n));
    offsets.push_back(landing_used_);
    landing_used_ += n + prng_.below(9);
    left -= n;
  }
  return sges;
}

uint32_t End::target_key() const {
  const std::vector<uint32_t>& live = peer_->live_windows_;
  if (live.empty()) return peer_->target_.key();
  return live[live.size() / 2];
}

bool End::overlaps_read(size_t offset, size_t length) const {
  for (const Posted& p : outstanding_)
    if (p.reads && offset < p.read_offset + p.length && p.read_offset < offset + length)
      return true;
  return false;
}

void End::announce(Message message) {
  if (!mistaken_) {
    if (reliable()) due_[message.inbox].push_back(static_cast<uint32_t>(sent_.size()));
    ++messages_;
  }
  sent_.push_back(std::move(message));
}

void End::draw_send(SendRequest& request, Posted& posted) {
  Message message;
  posted.opcode = WcOpcode::kSend;
  uint64_t kind = prng_.below(reliable() ? 4 : 2);
  message.with_imm = kind == 1 || !reliable();
  std::vector<uint32_t>& live = peer_->live_windows_;
  message.with_inv = kind == 2 && !live.empty() && !mistaken_ && outlook == Outlook::kSuccess;
  message.imm_or_rkey = static_cast<uint32_t>(sent_.size());
  request.opcode = message.with_imm ? WrOpcode::kSendWithImm : WrOpcode::kSend;
  if (message.with_inv) {
    request.opcode = WrOpcode::kSendWithInv;
    message.imm_or_rkey = live.back();
    live.pop_back();
    request.flags |= engine::kFence;  // READs through the window come first
  }
  request.imm_or_rkey = message.imm_or_rkey;
  message.length = posted.length;
  message.content.reserve(posted.length);
  // For XRC the message says which of the two SRQs it goes to.
  message.inbox = pair_.type == QpType::kXrcSend ? prng_.below(2) : 0;
  if (pair_.type == QpType::kXrcSend) request.xrc_srqn = peer_->inboxes_[message.inbox].srq->number;
  request.sges = sges_ = gather(posted.length, message.content);
  if (prng_.below(3) == 0) request.flags |= engine::kSolicited;
  announce(std::move(message));
}

void End::draw_write(SendRequest& request, Posted& posted, bool immediate) {
  Message message;
  posted.opcode = WcOpcode::kRdmaWrite;
  request.opcode = immediate ? WrOpcode::kRdmaWriteWithImm : WrOpcode::kRdmaWrite;
  Area& target = peer_->target_;
  size_t offset = prng_.below(target.size() - posted.length + 1);
  if (!reliable()) {
    if (target_used_ + posted.length > target.size()) posted.length = 0;
    offset = target_used_;
    target_used_ += posted.length;
  }
  std::vector<uint8_t> content;
  request.sges = sges_ = gather(posted.length, content);
  request.remote_address = target.address(offset);
  request.rkey = target_key();
  request.imm_or_rkey = static_cast<uint32_t>(sent_.size());
  if (overlaps_read(offset, posted.length)) request.flags |= engine::kFence;
  if (!mistaken_ && posted.length > 0)
    std::memcpy(target.expected.data() + offset, content.data(), posted.length);
  if (pair_.type == QpType::kXrcSend) request.xrc_srqn = peer_->inboxes_[0].srq->number;
  if (!immediate) return;
  message.write = message.with_imm = true;
  message.write_offset = offset;
  message.content = std::move(content);
  message.length = posted.length;
  message.imm_or_rkey = request.imm_or_rkey;
  announce(std::move(message));
}

void End::draw_read(SendRequest& request, Posted& posted) {
  std::vector<size_t> places;
  sges_ = land(posted.length, places);
  if (sges_.empty()) posted.length = 0;
  posted.opcode = WcOpcode::kRdmaRead;
  request.opcode = WrOpcode::kRdmaRead;
  request.sges = sges_;
  bool constant = prng_.below(2) == 0;
  Area& area = constant ? peer_->constant_ : peer_->target_;
  size_t offset = prng_.below(area.size() - posted.length + 1);
  request.remote_address = area.address(offset);
  request.rkey = constant ? area.key() : target_key();
  if (!constant) {
    posted.reads = true;
    posted.read_offset = offset;
  }
  if (pair_.type == QpType::kXrcSend) request.xrc_srqn = peer_->inboxes_[0].srq->number;
  if (mistaken_) return;
  for (size_t i = 0; i < sges_.size(); ++i) {
    std::memcpy(landing_.expected.data() + places[i], area.expected.data() + offset,
                sges_[i].length);
    offset += sges_[i].length;
  }
}

// Fetch-and-add on a cell shared with everybody, or an operation on a cell of our own.
void End::draw_atomic(SendRequest& request, Posted& posted) {
  landing_used_ = (landing_used_ + 7) & ~size_t{7};
  std::vector<size_t> places;
  if (landing_used_ + 64 > landing_.size()) {
    posted.length = 0;
    return draw_write(request, posted, false);
  }
  size_t place = landing_used_;
  landing_used_ += 8;
  sges_ = {landing_.sge(place, 8)};
  request.sges = sges_;
  posted.length = 8;
  request.rkey = peer_->host_.cells->key();
  if (pair_.type == QpType::kXrcSend) request.xrc_srqn = peer_->inboxes_[0].srq->number;
  auto* result = reinterpret_cast<uint64_t*>(landing_.at(place));
  if (prng_.below(2) == 0) {
    size_t index = prng_.below(4);
    request.opcode = WrOpcode::kAtomicFetchAndAdd;
    posted.opcode = WcOpcode::kFetchAdd;
    request.remote_address = peer_->host_.cells->address(index * 8);
    request.compare_add = posted.addend = prng_.between(1, 1000);
    posted.cell = &(*peer_->host_.shared_cells)[index];
    posted.original = result;
    return;
  }
  request.remote_address = peer_->host_.cells->address(private_cell_index_ * 8);
  uint64_t original = private_cell_;
  if (prng_.below(2) == 0) {
    request.opcode = WrOpcode::kAtomicCmpAndSwp;
    posted.opcode = WcOpcode::kCompSwap;
    bool hits = prng_.below(3) != 0;
    request.compare_add = hits ? original : original + 1;
    request.swap = prng_.next();
    if (hits && !mistaken_) private_cell_ = request.swap;
  } else {
    request.opcode = WrOpcode::kAtomicFetchAndAdd;
    posted.opcode = WcOpcode::kFetchAdd;
    request.compare_add = prng_.next();
    if (!mistaken_) private_cell_ += request.compare_add;
  }
  if (!mistaken_) std::memcpy(landing_.expected.data() + place, &original, 8);
}

void End::draw_flush(SendRequest& request, Posted& posted) {
  Area& target = peer_->target_;
  if (pair_.type == QpType::kXrcSend) request.xrc_srqn = peer_->inboxes_[0].srq->number;
  request.rkey = target.key();
  if (prng_.below(2) == 0) {
    request.opcode = WrOpcode::kFlush;
    posted.opcode = WcOpcode::kFlush;
    posted.length = static_cast<uint32_t>(prng_.below(5000));
    request.flush_length = posted.length;
    request.remote_address = target.address(0);
    request.flush_placement = 1;
    return;
  }
  request.opcode = WrOpcode::kAtomicWrite;
  posted.opcode = WcOpcode::kAtomicWrite;
  posted.length = 8;
  size_t offset = prng_.below(target.size() / 8) * 8;
  std::vector<uint8_t> content;
  request.sges = sges_ = gather(8, content);
  request.remote_address = target.address(offset);
  if (overlaps_read(offset, 8)) request.flags |= engine::kFence;
  if (!mistaken_) std::memcpy(target.expected.data() + offset, content.data(), 8);
}

// Makes the drawn request one that must fail.
void End::spoil(SendRequest& request, Posted& posted) {
  posted = Posted{.wr_id = posted.wr_id, .length = 64, .signaled = posted.signaled};
  posted.opcode = WcOpcode::kRdmaWrite;
  posted.status = WcStatus::kRemAccessErr;
  request.opcode = WrOpcode::kRdmaWrite;
  sges_ = {source_.sge(0, 64)};
  request.remote_address = peer_->target_.address(0);
  request.rkey = peer_->target_.key();
  switch (plan_.mistake) {
    case Mistake::kNone:
    case Mistake::kBadRkey:
      request.rkey ^= 0x10;
      break;
    case Mistake::kOutOfRange:
      request.remote_address = peer_->target_.address(peer_->target_.size() - 63);
      break;
    case Mistake::kNoPermission:
      request.rkey = peer_->constant_.key();
      request.remote_address = peer_->constant_.address(0);
      break;
    case Mistake::kMisalignedAtomic:
      request.opcode = WrOpcode::kAtomicFetchAndAdd;
      request.rkey = peer_->host_.cells->key();
      request.remote_address = peer_->host_.cells->address(4);
      sges_ = {source_.sge(0, 8)};
      posted.status = WcStatus::kRemInvReqErr;
      break;
    case Mistake::kTooLongSend:
      request.opcode = WrOpcode::kSend;
      sges_.clear();
      for (uint32_t n = peer_->inboxes_[0].slot_bytes + 1; n > 0;) {
        auto part = static_cast<uint32_t>(std::min<size_t>(n, source_.size()));
        sges_.push_back(source_.sge(0, part));
        n -= part;
      }
      posted.status = WcStatus::kRemInvReqErr;
      ++messages_;  // it takes a receive
      break;
    case Mistake::kBadLkey:
      sges_[0].lkey ^= 0x20;
      posted.status = WcStatus::kLocProtErr;
      break;
  }
  request.sges = sges_;
}

void End::draw_request(SendRequest& request, Posted& posted) {
  posted.length = draw_length();
  uint64_t kind = prng_.below(reliable() ? 20 : 10);
  if (pair_.type == QpType::kUd || kind < 6)
    draw_send(request, posted);
  else if (kind < 10)
    draw_write(request, posted, kind < 8);
  else if (kind < 14)
    draw_read(request, posted);
  else if (kind < 18)
    draw_atomic(request, posted);
  else
    draw_flush(request, posted);
}

void End::post_work() {
  for (uint64_t n = prng_.between(1, 6); n > 0 && !all_posted(); --n) {
    if (outstanding_.size() >= pair_.depth) break;
    SendRequest request;
    Posted posted;
    bool mistake = posted_ == mistake_at_;
    if (mistake) mistaken_ = true;
    posted.wr_id = request.wr_id = ++posted_;
    // An unsignaled request keeps its slot until a signaled one behind it completes.
    bool last = all_posted() || outstanding_.size() + 1 >= pair_.depth;
    posted.signaled = pair_.signal_all || last || prng_.chance_ppm(pair_.signal_ppm);
    if (!pair_.signal_all && posted.signaled) request.flags |= engine::kSignaled;
    draw_request(request, posted);
    if (prng_.below(10) == 0) request.flags |= engine::kFence;
    if (mistake) {
      spoil(request, posted);
    } else if (mistaken_) {
      posted.status = WcStatus::kWrFlushErr;
    }
    bool fits = posted.length <= 64 &&
                (posted.opcode == WcOpcode::kSend || posted.opcode == WcOpcode::kRdmaWrite ||
                 posted.opcode == WcOpcode::kAtomicWrite);
    if (fits && !mistake && prng_.below(2)) {
      request.flags |= engine::kInline;  // addresses are read now, not looked up by key
      for (engine::Sge& sge : sges_)
        sge.address = reinterpret_cast<uint64_t>(source_.memory_of(sge));
    }
    engine::AddressVector route;
    if (pair_.type == QpType::kUd) {
      route.source = World::gid(host_.index);
      route.destination = World::gid(peer_->host_.index);
      request.route = &route;
      request.remote_qpn = peer_->qp_->qpn();
      request.remote_qkey = 0x2345;
    }
    outstanding_.push_back(posted);
    int code = qp_->post_send(host_.world->now(), request);
    if (code != 0) complain(fmt::format("post_send of {} gave {}", name(request.opcode), code));
  }
  host_.world->service(host_.index);
}

}  // namespace verbena::sim::test
