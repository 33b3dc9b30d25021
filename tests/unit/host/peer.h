// One end of a queue pair driven through Process, as the Door would: what the tests of the host
// room run in child processes.
#pragma once

#include <string>
#include <vector>

#include "host/process.h"

namespace verbena::host {

struct PeerOptions {
  engine::QpType type = engine::QpType::kRc;
  std::string address = "127.0.0.1";
  size_t bytes = 1 << 20;  // of the buffer
  uint32_t depth = 128;    // work requests, each queue
  uint8_t timeout = 14;    // local ACK timeout code
  uint8_t retry_cnt = 7;
};

class Peer {
 public:
  // Attaches the process and makes a queue pair in INIT with one region and one completion queue.
  // Ends the process with a message when something fails: these run in children.
  explicit Peer(const PeerOptions& options = {});
  ~Peer();

  std::string info() const;               // what the other end needs, as text
  void connect(const std::string& info);  // INIT -> RTR -> RTS

  uint8_t* bytes() { return buffer_.data(); }
  int post_send(engine::WrOpcode opcode, size_t offset, size_t length, size_t remote_offset,
                uint32_t flags = engine::kSignaled);
  int post_receive(size_t offset, size_t length);
  // Polls until `count` completions came; the last one is returned. Status kGeneralErr after
  // `timeout_ms`.
  engine::WorkCompletion wait(int count = 1, int timeout_ms = 10000);
  int poll(engine::WorkCompletion& to) { return Process::get().poll(cq_, &to, 1); }
  void arm() { Process::get().arm(cq_, false); }

  engine::QueuePair& qp() { return *qp_; }
  engine::Path path() const { return qp_->attributes().path; }
  EventChannel& channel() { return channel_; }

 private:
  PeerOptions options_;
  std::vector<uint8_t> buffer_;
  memory::ProtectionDomain domain_;
  memory::MemoryRegion region_;
  EventChannel channel_;
  engine::CompletionQueue cq_;
  engine::QueuePair* qp_ = nullptr;
  uint64_t remote_address_ = 0;
  uint32_t remote_key_ = 0;
};

// Context switches that the background thread of this process made so far; -1 if there is none.
long background_switches();
// Pins the calling thread to a processor.
void pin(int cpu);
double seconds_now();

}  // namespace verbena::host
