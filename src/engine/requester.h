// The requester half of a connected queue pair (RC, UC, XRC): turns posted work requests into
// request packets, takes acknowledgements and READ responses, repairs losses. IBA 9.7.3, 9.7.5,
// 9.7.6; what differs from Linux rxe on purpose: a second NAK is obeyed at once, a gap in READ
// responses is a NAK, retry_cnt 7 means seven retries.
#pragma once

#include "base/psn.h"
#include "engine/transfer.h"
#include "engine/verbs.h"
#include "engine/work_queue.h"

namespace verbena::engine {

class QueuePair;
enum class TransmitState : uint8_t;

class Requester {
 public:
  explicit Requester(QueuePair& qp) : qp_(qp) {}

  void start(Psn first);                 // RTR -> RTS
  void reset();
  TransmitState transmit(Instant now, PacketSink& sink, uint32_t& budget);
  void receive(Instant now, const RxPacket& packet);  // ACK, NAK, READ response, atomic response
  void on_time(Instant now);
  Instant deadline() const { return deadline_; }
  // All posted work completes with WR_FLUSH_ERR, in order.
  void flush(Instant now);
  // Head of the send queue fails: real status, then ERR (RC) or SQE (UC).
  void fail_head(Instant now, WcStatus status);
  // The retry counters were changed by modify_qp.
  void reload_retries();
  // SQD: true once every started work request has completed.
  bool drained() const;

  Psn next_psn() const { return sent_limit_; }

 private:
  enum class Gate : uint8_t { kOpen, kWait, kFailed };

  Gate admit(Instant now, SendWork& work);
  Gate run_local(Instant now, SendWork& work);
  WcStatus bind_window(const SendWork& work, std::string& why);
  WcStatus invalidate(const SendWork& work, std::string& why);
  Gate send_next(Instant now, SendWork& work, PacketSink& sink, bool& blocked);
  void build_header(const SendWork& work, uint32_t offset_packets, TxPacket& packet) const;
  bool gather(const SendWork& work, uint64_t offset, uint32_t length, TxPacket& packet,
              std::string& why);
  void count_request(const SendWork& work);

  void acknowledge_before(Instant now, Psn psn);   // everything before `psn` is done
  void complete_head_run(Instant now);
  void on_ack(Instant now, const RxPacket& packet);
  void on_read_response(Instant now, const RxPacket& packet);
  void on_atomic_response(Instant now, const RxPacket& packet);
  void on_nak(Instant now, const RxPacket& packet);
  void on_rnr(Instant now, const RxPacket& packet);
  bool ack_reaches(Instant now, Psn psn, Psn& stop_at);
  void progress(Instant now);
  void go_back(Instant now, Psn psn);
  bool spend_retry(Instant now, WcStatus status, const char* cause);
  void seek(Psn psn);
  void arm_timer(Instant now);
  SendWork* work_at(Psn psn);
  bool scatter_response(const SendWork& work, uint64_t offset, const memory::Payload& payload,
                        bool& lost, std::string& why);
  uint32_t packets_of(const SendWork& work) const;
  uint32_t chunk_packets(const SendWork& work, uint32_t offset) const;

  QueuePair& qp_;
  Psn una_;               // oldest PSN not acknowledged
  Psn sent_limit_;        // one after the highest PSN ever sent
  uint32_t next_ = 0;     // send queue index of the work request to transmit next
  uint32_t offset_ = 0;   // its next packet
  uint32_t reads_in_flight_ = 0;  // READ requests and atomics sent and not answered
  uint32_t ssn_ = 0;
  uint32_t credit_limit_ = 0;     // highest SSN a SEND may have; valid if credits_known_
  bool credits_known_ = false;
  uint32_t window_packets_ = 0;   // PSNs in flight at most
  uint32_t since_ack_request_ = 0;
  uint8_t retries_left_ = 0;
  uint8_t rnr_left_ = 0;
  bool waiting_rnr_ = false;
  bool gap_reported_ = false;     // went back for a READ gap; later out-of-order ones are stale
  bool failed_ahead_ = false;     // next_ cannot be sent; fails when it becomes the head
  WcStatus failed_status_ = WcStatus::kSuccess;
  Instant deadline_ = kNever;
  std::vector<memory::Segment> segments_;  // scratch of gather(); size fixed at creation
};

}  // namespace verbena::engine
