// A queue pair: its attributes and state, and the two machines that work for it. This file is what
// the rest of the house sees; the protocol lives in requester*.cc, responder*.cc, datagram.cc.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/address.h"
#include "engine/chain.h"
#include "engine/completion_queue.h"
#include "engine/congestion/notification.h"
#include "engine/counters.h"
#include "engine/pacing.h"
#include "engine/reorder.h"
#include "engine/requester.h"
#include "engine/responder.h"
#include "engine/shared_receive_queue.h"
#include "engine/transfer.h"
#include "engine/work_queue.h"

namespace verbena::engine {

class Device;

constexpr wire::Transport transport_of(QpType type) {
  switch (type) {
    case QpType::kRc:
      return wire::Transport::kRc;
    case QpType::kUc:
      return wire::Transport::kUc;
    case QpType::kUd:
      return wire::Transport::kUd;
    case QpType::kXrcSend:
    case QpType::kXrcRecv:
      return wire::Transport::kXrc;
  }
  return wire::Transport::kRc;
}

// Queue pairs of one lane share a turn; whoever drives the device decides between lanes (a fabric's
// host: its priorities).
inline constexpr uint8_t kLanes = 8;
inline constexpr uint8_t kAllLanes = 0xff;

struct QpInit {
  QpType type = QpType::kRc;
  memory::ProtectionDomain* domain = nullptr;  // not for XRC receive
  CompletionQueue* send_cq = nullptr;          // not for XRC receive
  CompletionQueue* receive_cq = nullptr;       // not for XRC
  SharedReceiveQueue* srq = nullptr;
  XrcDomain* xrc_domain = nullptr;  // XRC receive
  SendQueueLimits send;
  uint32_t receive_work_requests = 0;
  uint32_t receive_sges = 0;
  bool signal_all = false;  // sq_sig_all
  uint8_t port = 0;         // whose counters it moves, below kMaxPorts
  uint8_t lane = 0;         // below kLanes
  // What the device of this queue pair can do.
  uint32_t port_mtu = 4096;           // bytes: largest path MTU and datagram
  uint32_t max_rd_atomic = 128;       // READs and atomics outstanding as requester
  uint32_t max_dest_rd_atomic = 128;  // as responder; at most 255
};

// Fields as in struct ibv_qp_attr; units as there.
struct QpAttributes {
  QpState state = QpState::kReset;
  QpState current_state = QpState::kReset;
  uint8_t path_mtu = 1;  // code 1..5
  MigState path_mig_state = MigState::kMigrated;
  uint32_t qkey = 0;
  uint32_t rq_psn = 0;
  uint32_t sq_psn = 0;
  uint32_t dest_qpn = 0;
  uint32_t access = 0;  // memory::Access bits
  AddressVector route;
  bool route_is_global = false;  // a GRH was given
  Path path = Path::kWire;       // chosen by the host before RTR
  uint16_t pkey_index = 0;
  bool sqd_async_notify = false;
  uint8_t max_rd_atomic = 0;
  uint8_t max_dest_rd_atomic = 0;
  uint8_t min_rnr_timer = 0;
  uint8_t port = 1;
  uint8_t timeout = 0;
  uint8_t retry_cnt = 0;
  uint8_t rnr_retry = 0;
  uint32_t rate_limit = 0;
};

// What one queue pair wants from Device::transmit().
enum class TransmitState : uint8_t {
  kIdle,     // nothing to send until something arrives, is posted or a timer fires
  kMore,     // budget used up
  kBlocked,  // the link refused a packet
};

class QueuePair {
 public:
  QueuePair(Device& device, uint32_t qpn, const QpInit& init);

  uint32_t qpn() const { return qpn_; }
  QpType type() const { return init_.type; }
  QpState state() const { return attributes_.state; }
  const QpInit& init() const { return init_; }
  const QpAttributes& attributes() const { return attributes_; }
  // What ibv_query_qp reports: the attributes, with sq_psn the next PSN to be sent and rq_psn the
  // next one expected once the queue pair sends and receives.
  QpAttributes current_attributes() const;
  const QpCounters& counters() const { return counters_; }

  // The parent's, in a forked child: modify() refuses with EIO, what is posted flushes.
  bool abandoned() const { return abandoned_; }

  // ibv_modify_qp. The error names the attribute (EINVAL) or the limit.
  Result<void> modify(Instant now, const QpAttributes& wanted, uint32_t mask);

  // ibv_post_send / ibv_post_recv of one request. 0 or errno: EINVAL (state, opcode, SGE count,
  // inline size), ENOMEM (queue full), EOPNOTSUPP. The cause goes to the explain log.
  int post_send(Instant now, const SendRequest& request);
  int check_send(const SendRequest& request) const;  // whether post_send() would take it
  // post_send() of a request that check_send() has taken; send_room() has room for it.
  void post_checked(Instant now, const SendRequest& request);
  int post_receive(uint64_t wr_id, std::span<const Sge> sges);
  // After receives were posted: in ERR they complete at once, as sends do, whoever drives the
  // device.
  void flush_posted(Instant now);

  // Send work requests that fit now.
  uint32_t send_room() const { return send_queue_.room(); }

  // One packet that the device found to be for this queue pair.
  void receive(Instant now, const RxPacket& packet);
  // The same of a CNP; one from another address than the peer's changes nothing.
  void receive_notification(Instant now, const RxPacket& packet);
  // Sends the CNP that Device::owe_notification() announced. False: refused.
  bool send_notification(PacketSink& sink);
  // Sends at most `budget` packets: what is owed to the peer first, then work requests.
  TransmitState transmit(Instant now, PacketSink& sink, uint32_t budget);
  // Runs the timer that expired: RNR wait or acknowledgement timeout (IBA 9.7.6.1.3, 9.7.5.2.8).
  // Nothing happens before next_deadline().
  void on_time(Instant now);
  Instant next_deadline() const {
    Instant deadline = std::min(requester_.deadline(), responder_.deadline());
    return pacing_ ? std::min(deadline, pacing_->wakes_at()) : deadline;
  }
  // With acknowledgements_apart: sends the acknowledgements that stand first among the responses.
  TransmitState transmit_answers(PacketSink& sink, uint32_t& budget);

  // How fast requests and READ responses leave. Null: as fast as the port. To be set before RTS;
  // RESET takes it away.
  void congestion(std::unique_ptr<CongestionControl> control);
  // The control in use; null when there is none.
  CongestionControl* congestion() const { return pacing_ ? &pacing_->control() : nullptr; }

  // How much disorder both ends have agreed to live with. To be set before RTR; RESET takes it
  // away. Counts for a reliable queue pair on the wire only: the local road keeps the order.
  void tolerate_disorder(const ReorderSettings& settings) { disorder_ = settings; }
  const ReorderSettings& disorder() const { return disorder_; }
  bool reorders() const {
    return disorder_.packets > 0 && is_reliable() && attributes_.path == Path::kWire;
  }

  // Moves to ERR and flushes everything posted, in order (IBA 10.3.1). `now` stamps completions,
  // `cause` goes into the log beside their number.
  void enter_error(Instant now, const std::string& cause);
  // SQE: a local send error on UC/UD; receive side goes on.
  void enter_send_error(Instant now, const std::string& cause);
  // `srq` is about to be destroyed.
  void forget(const SharedReceiveQueue* srq);

  // True when a message of `bytes` that came over the local road could not have come over the
  // wire, because the two ends cut messages at different path MTUs.
  bool path_mtu_differs(const RxPacket& packet, uint64_t bytes) const;
  // Bytes a full packet carries: the path MTU, or kLocalPathMtu for RC and XRC on the local path.
  uint32_t packet_bytes() const;
  bool is_reliable() const { return init_.type != QpType::kUc && init_.type != QpType::kUd; }
  void* owner = nullptr;  // the Door's object

 private:
  friend class Device;
  friend class Requester;
  friend class Responder;

  bool acceptable(const RxPacket& packet);
  void note_congestion(Instant now, const RxPacket& packet);
  bool admit_datagram(const RxPacket& packet, uint64_t needed);
  void receive_datagram(Instant now, const RxPacket& packet);
  TransmitState transmit_datagrams(Instant now, PacketSink& sink, uint32_t& budget);
  bool send_datagram(Instant now, SendWork& work, PacketSink& sink, bool& blocked);
  int check_datagram(const SendRequest& request) const;
  uint32_t flush_receives(Instant now);  // how many
  void explain_flush(uint32_t sends, uint32_t receives, const std::string& cause);
  void explain_posted_flush();
  // "QP 0x010001 (192.0.2.2)": the other end of a connection.
  std::string peer() const;
  void reset();
  // Counts a packet that carries data, or asks for some, and has left.
  void sent(Instant now, const TxPacket& packet);
  // Whether a packet that carries data may leave now; if not, a timer wakes the queue pair.
  bool paced(Instant now) { return pacing_ && !pacing_->allows(now); }
  void wake();  // puts the queue pair on the device's ready list
  void complete_send(Instant now, const SendWork& work, WcStatus status);
  // Completes the taken receive work request.
  void complete_receive(Instant now, WorkCompletion completion, bool solicited);
  // Makes a receive work request the taken one, from `srq` or the own queue; true if one is taken.
  bool take_receive(SharedReceiveQueue* srq);
  // Copies a payload into the bytes that `sges` describe, from `offset` on, their keys checked for
  // local write in `domain`.
  struct Scattered {
    memory::KeyError error = memory::KeyError::kNone;  // of SGE number `sge`
    bool lost = false;                                 // the payload vanished
    size_t sge = 0;
    size_t bytes = 0;  // placed; fewer than the payload has when the SGEs end before it
  };
  Scattered scatter(std::span<const Sge> sges, const memory::ProtectionDomain* domain,
                    const memory::Payload& payload, uint64_t offset);
  // The same into the taken receive work request, whose length was checked.
  Scattered scatter(const memory::Payload& payload, uint64_t offset) {
    return scatter({taken_.sges, taken_.sge_count}, taken_domain_, payload, offset);
  }
  int refuse(int code, const std::string& why) const;
  void explain(const std::string& text) const;
  bool explaining() const;

  Device& device_;
  uint32_t qpn_;
  QpInit init_;
  QpAttributes attributes_;
  ReorderSettings disorder_;
  SendQueue send_queue_;
  std::unique_ptr<ReceiveQueue> receive_queue_;  // null with an SRQ
  std::unique_ptr<Sge[]> taken_sges_;
  ReceiveWork taken_;  // the receive work request of the message in progress
  bool has_taken_ = false;
  const SharedReceiveQueue* taken_srq_ = nullptr;  // where it came from; null: the own queue
  CompletionQueue* taken_cq_ = nullptr;
  memory::ProtectionDomain* taken_domain_ = nullptr;
  Requester requester_;
  Responder responder_;
  Psn datagram_psn_;
  std::unique_ptr<Pacing> pacing_;              // null without congestion control
  std::unique_ptr<Notification> notification_;  // null until a mark arrived that is to be told

  QpCounters counters_;

  bool abandoned_ = false;
  ChainLink<QueuePair> ready_;      // on the device's ready list of its lane
  ChainLink<QueuePair> answering_;  // on its list of those that owe acknowledgements
  ChainLink<QueuePair> notifying_;  // on its list of those that owe a CNP
  Instant timer_at_ = kNever;       // key in the device's timer heap
  size_t timer_slot_ = SIZE_MAX;    // place in it; SIZE_MAX: not in the heap
  bool comm_established_ = false;
  bool last_wqe_reported_ = false;
  bool posted_flush_told_ = false;  // in this stay in ERR or SQE
};

}  // namespace verbena::engine
