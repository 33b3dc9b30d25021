// One end of a simulated connection: its queue pair, its memory, the random work requests it posts,
// and the checks of every completion it gets. What must come out is computed when work is posted.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "area.h"
#include "plan.h"

namespace verbena::sim::test {

inline constexpr uint8_t kUntouched = 0xee;  // inbox bytes that no message wrote

// A message that takes a receive work request, as its sender posted it.
struct Message {
  std::vector<uint8_t> content;  // of a SEND; empty for WRITE with immediate
  bool write = false;
  size_t write_offset = 0;  // of a WRITE
  size_t inbox = 0;         // which of the peer's inboxes takes it
  uint32_t length = 0;
  bool with_imm = false;
  bool with_inv = false;
  uint32_t imm_or_rkey = 0;
};

// Fetch-and-adds on a cell that many ends share: their originals must form one chain.
struct SharedCell {
  uint64_t* value;
  std::vector<std::pair<uint64_t, uint64_t>> steps;  // original, addend
};

// The receive side: work requests in slots of the inbox, of a queue pair or an SRQ.
struct Inbox {
  Area area;
  uint32_t slot_bytes = 0;
  std::vector<std::vector<engine::Sge>> slots;  // SGEs of the posted receive, by slot
  std::vector<uint32_t> free;
  std::deque<uint32_t> order;  // slots in posting order
  engine::SharedReceiveQueue* srq = nullptr;
};

// What an end's queue pair may do besides succeeding.
enum class Outlook : uint8_t {
  kSuccess,  // everything succeeds
  kMistake,  // everything before the mistake succeeds, it fails as planned, the rest flushes
  kMayFail,  // successes, then perhaps one error, then flushes
};

class End {
 public:
  struct Host {  // what the ends of one host share
    World* world;
    size_t index;
    memory::ProtectionDomain* domain;
    engine::XrcDomain* xrc_domain;
    Area* cells;  // for atomics of everybody
    std::vector<SharedCell>* shared_cells;
    uint64_t first_iova;  // of the end's own areas
  };
  using Fail = std::function<void(const std::string&)>;

  End(const Plan& plan, const PairPlan& pair, int side, const Host& host, uint64_t seed, Fail fail);

  // Joins the two; both reach RTS.
  static void connect(End& a, End& b);

  void bind_windows();
  void plan_mistake() { mistake_at_ = static_cast<uint32_t>(prng_.below(work_)); }
  void post_work();      // a few random work requests, if there is room
  void post_receives();  // a few receive work requests, if there are free slots
  bool all_posted() const { return posted_ == work_; }
  bool all_received() const { return received_ == peer_->messages_; }
  // Whether receives may still be needed.
  bool expects() const {
    return receives && !failed_ && !receive_failed_ &&
           (!peer_->all_posted() || (reliable() && !all_received()));
  }
  void step();    // polls
  void finish();  // moves to ERR: the receives left over flush
  void check_end();

  engine::QueuePair* qp() const { return qp_; }
  size_t host() const { return host_.index; }
  const PairPlan& pair() const { return pair_; }
  End* peer() const { return peer_; }
  Outlook outlook = Outlook::kSuccess;
  bool sends = true;     // posts work
  bool receives = true;  // has an inbox of its own
  uint64_t completed = 0;

 private:
  using MakeArea = std::function<Area(size_t length, uint32_t access)>;
  void make_inboxes(const MakeArea& area);

  struct Posted {
    uint64_t wr_id = 0;
    engine::WcOpcode opcode{};
    uint32_t length = 0;
    bool signaled = false;
    engine::WcStatus status = engine::WcStatus::kSuccess;
    // READ: the peer's bytes that must not change until it has completed.
    bool reads = false;
    size_t read_offset = 0;
    // Fetch-and-add on a shared cell.
    SharedCell* cell = nullptr;
    uint64_t addend = 0;
    uint64_t* original = nullptr;
  };

  bool reliable() const {
    return pair_.type == engine::QpType::kRc || pair_.type == engine::QpType::kXrcSend;
  }
  uint32_t draw_length();
  std::vector<engine::Sge> gather(uint32_t length, std::vector<uint8_t>& content);
  std::vector<engine::Sge> land(uint32_t length, std::vector<size_t>& offsets);
  void draw_request(engine::SendRequest& request, Posted& posted);
  void draw_send(engine::SendRequest& request, Posted& posted);
  void draw_write(engine::SendRequest& request, Posted& posted, bool immediate);
  void draw_read(engine::SendRequest& request, Posted& posted);
  void draw_atomic(engine::SendRequest& request, Posted& posted);
  void draw_flush(engine::SendRequest& request, Posted& posted);
  void spoil(engine::SendRequest& request, Posted& posted);
  void announce(Message message);
  uint32_t target_key() const;
  bool overlaps_read(size_t offset, size_t length) const;

  void check_send(const engine::WorkCompletion& c);
  void retire(const Posted& posted, engine::WcStatus status);
  void check_receive(const engine::WorkCompletion& c);
  void check_message(const engine::WorkCompletion& c, Inbox& inbox, uint32_t slot,
                     const Message& message);
  static constexpr uint32_t kBoxStride = 1000;  // receive wr_id = inbox * this + slot
  void check_datagram(const engine::WorkCompletion& c, std::vector<uint8_t>& got);
  void check_unreliable_target();
  void complain(const std::string& what) const;

  const Plan& plan_;
  PairPlan pair_;
  int side_;
  Host host_;
  Prng prng_;
  Fail fail_;
  uint32_t unit_;  // bytes of a full packet
  std::unique_ptr<engine::CompletionQueue> send_cq_, receive_cq_;
  std::vector<std::unique_ptr<engine::SharedReceiveQueue>> srqs_;
  engine::QueuePair* qp_ = nullptr;
  End* peer_ = nullptr;
  Area source_, target_, constant_, landing_;
  std::vector<Inbox> inboxes_;  // one; two for XRC targets
  size_t landing_used_ = 0;
  size_t target_used_ = 0;  // unreliable: every WRITE has its own place
  uint64_t private_cell_ = 0;
  size_t private_cell_index_ = 0;

  std::vector<std::unique_ptr<memory::MemoryWindow>> windows_;
  std::vector<uint32_t> live_windows_;  // rkeys the peer may use

  uint32_t work_ = 0;
  uint32_t posted_ = 0;
  uint32_t mistake_at_ = UINT32_MAX;
  bool mistaken_ = false;
  bool failed_ = false;  // an error completion was seen
  bool receive_failed_ = false;
  std::deque<Posted> outstanding_;
  std::vector<Message> sent_;              // in order
  std::vector<std::deque<uint32_t>> due_;  // reliable: indices into sent_, by the peer's inbox
  uint32_t messages_ = 0;
  uint32_t received_ = 0;
  int64_t last_received_ = -1;
  bool finished_ = false;
  std::vector<engine::Sge> sges_;  // of the request being drawn
};

}  // namespace verbena::sim::test
