// Judging completions.
#include <algorithm>

#include <fmt/format.h>

#include "end.h"
#include "wire/grh.h"

namespace verbena::sim::test {

using engine::QpType;
using engine::WcOpcode;
using engine::WcStatus;
using engine::WorkCompletion;

void End::retire(const Posted& posted, WcStatus status) {
  ++completed;
  if (status != WcStatus::kSuccess || !posted.cell) return;
  posted.cell->steps.push_back({*posted.original, posted.addend});
  auto* at = reinterpret_cast<uint8_t*>(posted.original);
  std::memcpy(landing_.expected.data() + (at - landing_.at(0)), at, 8);
}

void End::check_send(const WorkCompletion& c) {
  host_.world->note(c.wr_id << 8 | static_cast<uint64_t>(c.status));
  if (c.qp_num != qp_->qpn()) complain("a completion with a foreign QP number");
  if (c.wr_id == 0) {  // a bind of bind_windows()
    if (c.status != WcStatus::kSuccess) complain("a memory window was refused");
    return;
  }
  // Unsignaled requests before it succeeded silently.
  while (!outstanding_.empty() && outstanding_.front().wr_id != c.wr_id) {
    if (outstanding_.front().signaled || failed_)
      return complain(
          fmt::format("wr_id {} completed while {} had not", c.wr_id, outstanding_.front().wr_id));
    retire(outstanding_.front(), WcStatus::kSuccess);
    outstanding_.pop_front();
  }
  if (outstanding_.empty())
    return complain(fmt::format("wr_id {} completed twice or was never posted", c.wr_id));
  Posted posted = outstanding_.front();
  outstanding_.pop_front();
  retire(posted, c.status);
  if (c.status == WcStatus::kSuccess) {
    if (!posted.signaled) complain("an unsignaled request completed");
    if (failed_) complain("a success behind an error");
    if (c.opcode != posted.opcode) complain(fmt::format("wr_id {}: wrong opcode", c.wr_id));
    if (c.byte_len != posted.length)
      complain(
          fmt::format("wr_id {}: byte_len {} instead of {}", c.wr_id, c.byte_len, posted.length));
  }
  WcStatus wanted = finished_ ? WcStatus::kWrFlushErr : posted.status;
  bool fine = c.status == wanted;
  if (outlook == Outlook::kMayFail) {
    bool planned = posted.status != WcStatus::kSuccess && c.status == posted.status;
    fine = planned || c.status == WcStatus::kWrFlushErr ||
           (!failed_ && (c.status == WcStatus::kSuccess || c.status == WcStatus::kRetryExcErr));
  }
  if (!fine)
    complain(fmt::format("wr_id {} completed with {} instead of {}", c.wr_id, name(c.status),
                         name(wanted)));
  failed_ |= c.status != WcStatus::kSuccess;
}

void End::check_receive(const WorkCompletion& c) {
  host_.world->note(c.wr_id << 16 | static_cast<uint64_t>(c.status) | uint64_t{c.byte_len} << 32);
  if (c.qp_num != qp_->qpn()) complain("a receive completion with a foreign QP number");
  size_t box = c.wr_id / kBoxStride;
  auto slot = static_cast<uint32_t>(c.wr_id % kBoxStride);
  if (box >= inboxes_.size() || inboxes_[box].order.empty() || inboxes_[box].order.front() != slot)
    return complain(fmt::format("receive wr_id {} completed out of order", c.wr_id));
  Inbox& inbox = inboxes_[box];
  inbox.order.pop_front();
  if (c.status != WcStatus::kSuccess) {
    receive_failed_ = true;
    bool fine = c.status == WcStatus::kWrFlushErr ? finished_ || outlook != Outlook::kSuccess
                                                  : outlook != Outlook::kSuccess;
    if (!fine) complain(fmt::format("a receive completed with {}", name(c.status)));
    return;
  }
  if (finished_) complain("a receive succeeded after ERR");
  ++received_;
  const Message* message = nullptr;
  if (reliable()) {
    auto& due = peer_->due_[box];
    if (due.empty()) return complain("a message arrived that was not sent");
    message = &peer_->sent_[due.front()];
    due.pop_front();
  } else {
    if (!(c.flags & engine::kWcWithImm) || c.imm_or_rkey >= peer_->sent_.size())
      return complain("an immediate that was not sent");
    if (!plan_.disorders() && static_cast<int64_t>(c.imm_or_rkey) <= last_received_)
      complain("messages out of order or twice");
    last_received_ = c.imm_or_rkey;
    message = &peer_->sent_[c.imm_or_rkey];
  }
  check_message(c, inbox, slot, *message);
  inbox.free.push_back(slot);
}

void End::check_message(const WorkCompletion& c, Inbox& inbox, uint32_t slot,
                        const Message& message) {
  bool ud = pair_.type == QpType::kUd;
  WcOpcode opcode = message.write ? WcOpcode::kRecvRdmaWithImm : WcOpcode::kRecv;
  uint32_t flags = (message.with_imm ? engine::kWcWithImm : 0u) |
                   (message.with_inv ? engine::kWcWithInv : 0u) | (ud ? engine::kWcGrh : 0u);
  if (c.opcode != opcode || c.flags != flags) complain("a receive with wrong opcode or flags");
  if (flags & (engine::kWcWithImm | engine::kWcWithInv) && c.imm_or_rkey != message.imm_or_rkey)
    complain("a receive with a wrong immediate or key");
  uint32_t extra = ud ? wire::kGrhBytes : 0;
  if (c.byte_len != message.length + extra)
    return complain(fmt::format("a receive of {} bytes instead of {}", c.byte_len, message.length));
  std::vector<uint8_t> got;
  for (const engine::Sge& sge : inbox.slots[slot]) {
    const uint8_t* from = inbox.area.memory_of(sge);
    got.insert(got.end(), from, from + sge.length);
  }
  size_t filled = message.write ? 0 : c.byte_len;
  // A longer UC message that lost its end may have been here before.
  bool clean = pair_.type != QpType::kUc;
  if (clean && std::any_of(got.begin() + static_cast<long>(filled), got.end(),
                           [](uint8_t b) { return b != kUntouched; }))
    complain("bytes behind a received message were written");
  if (message.write) {
    if (!reliable() && !plan_.disorders() && message.length > 0 &&
        std::memcmp(target_.at(message.write_offset), message.content.data(), message.length) != 0)
      complain("a UC WRITE completed and its bytes are not there");
    return;
  }
  if (ud) check_datagram(c, got);
  if (!std::equal(message.content.begin(), message.content.end(), got.begin() + extra))
    complain("a received message has wrong bytes");
}

void End::check_datagram(const WorkCompletion& c, std::vector<uint8_t>& got) {
  if (c.source_qp != peer_->qp_->qpn()) complain("a datagram with a wrong source QP");
  auto source = World::gid(peer_->host_.index), destination = World::gid(host_.index);
  if (got[20] != 0x45 || std::memcmp(&got[32], &source.bytes[12], 4) != 0 ||
      std::memcmp(&got[36], &destination.bytes[12], 4) != 0)
    complain("a datagram with a wrong GRH area");
}

}  // namespace verbena::sim::test
