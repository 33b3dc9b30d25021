// What a process does with the broker: takes a slot, learns its neighbours, gives the slot back.
// Every call may block for a round trip (about 50 us) or a broker start, but Lease::open_area(),
// which the data path uses.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/result.h"
#include "broker/protocol.h"
#include "broker/slot_segment.h"
#include "link/fd.h"
#include "link/host_page.h"
#include "link/peers.h"
#include "wire/headers.h"

namespace verbena::broker {

struct AttachOptions {
  std::string broker_path;          // the verbena-broker binary, absolute
  std::string name = kDefaultName;  // abstract socket name; others only in tests
  uint16_t port = wire::kRoceUdpPort;
  bool local = true;      // VERBENA_LOCAL != off
  int timeout_ms = 2000;  // for start and answer together
};

// A mapped segment of this or another process.
class Segment {
 public:
  Segment() = default;
  Segment(Segment&& other) noexcept : memory_(std::exchange(other.memory_, nullptr)) {}
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();

  // Maps `fd` if it is a whole, unshrinkable segment of this build; errno EPROTO otherwise.
  static Result<Segment> map(int fd, bool check_header);
  SlotSegment* get() const { return memory_; }
  SlotSegment* operator->() const { return memory_; }

 private:
  SlotSegment* memory_ = nullptr;
};

struct PeerSegment {
  Segment segment;
  link::Fd wakeup;
  uint32_t generation = 0;
};

// The read-only view of the host page.
class HostView {
 public:
  HostView() = default;
  HostView(HostView&& other) noexcept : page_(std::exchange(other.page_, nullptr)) {}
  HostView& operator=(HostView&& other) noexcept;
  ~HostView();
  static Result<HostView> map(int fd);
  // Another page at the same place, under the eyes of its readers.
  Result<void> remap(int fd);
  const link::HostPage* get() const { return page_; }

 private:
  const link::HostPage* page_ = nullptr;
};

// One process's slot. Thread-safe: requests take turns.
//
// Fork rule: in a forked child the lease belongs to the parent. The descriptors are closed there by
// a pthread_atfork handler; the object stays readable, its destructor only unmaps, and every
// request answers ESTALE. The child attaches anew for a slot of its own.
class Lease : public link::PeerDirectory {
 public:
  ~Lease() override;  // detaches
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  uint8_t slot() const { return slot_; }
  uint32_t generation() const { return generation_; }
  uint64_t token() const { return identity_.token; }
  const std::string& broker_name() const { return options_.name; }
  int udp4() const { return udp4_.get(); }
  int udp6() const { return udp6_.get(); }      // -1 where the kernel has no IPv6
  int wakeup() const { return wakeup_.get(); }  // eventfd that peers write when we sleep
  SlotSegment& segment() const { return *segment_.get(); }
  const link::HostPage& host_page() const override { return *host_.get(); }
  bool abandoned() const { return abandoned_; }

  // Another process's segment. ENOENT: nobody has the slot. ETIMEDOUT: the broker does not answer.
  Result<PeerSegment> open_peer(uint8_t slot);
  // The same for the local link, which comes again when the answer is late.
  link::Opened open_area(uint8_t slot, int patience_ms, link::PeerArea& out) override;

  // Joins and leaves multicast groups on the slot's sockets. `group` in GID form; interface_index
  // 0 lets the kernel choose. ENOSPC: kMaxMemberships reached; else the kernel's errno.
  Result<void> join(const uint8_t (&group)[16], uint32_t interface_index);
  Result<void> leave(const uint8_t (&group)[16], uint32_t interface_index);

  // Keeps the line to the broker: claims the slot from the next one when this one ends and, when
  // that had no standby either, starts one. Never waits. To be called again when poll(2) has
  // something to say of `line`, or `again_ms` have passed (negative: no need).
  struct Kept {
    pollfd line{-1, 0, 0};
    int again_ms = -1;
    // The descriptors udp4() and udp6() stand for new sockets: who sleeps on them has the old ones.
    bool moved = false;
    std::string explanation;  // for the explain log; mostly empty
  };
  Kept keep();

  void detach();  // gives the slot back; idempotent
  // atfork handlers
  void pause_for_fork() { mutex_.lock(); }
  void go_on_after_fork() { mutex_.unlock(); }
  void close_in_child();

 private:
  friend Result<std::unique_ptr<Lease>> attach(const AttachOptions& options);
  Lease() = default;

  Result<void> start(const AttachOptions& options);
  Result<void> accept_lease(struct Answer& answer);
  Result<PeerSegment> find_peer(uint8_t slot, int wait_ms, int patience_ms);
  Result<void> put_open(uint8_t slot);
  Result<struct Answer> hear_open(int wait_ms);
  void lose_connection();
  // (claim.cc)
  Result<void> reconnect();
  Result<void> hear_claim(int wait_ms);
  Result<void> move_to(struct Answer& answer);
  void settle_claim(Kept& kept);
  void find_broker(Kept& kept);

  AttachOptions options_;
  std::mutex mutex_;
  link::Fd connection_;
  link::Fd segment_fd_, wakeup_, udp4_, udp6_;
  Segment segment_;
  HostView host_;
  Request identity_;  // as sent at attach
  uint8_t slot_ = 0;
  uint32_t generation_ = 0;
  // What was asked on connection_ and has not been answered: after a broker's death the claim to
  // our slot, and one slot to open. Answers that came when nobody waited for them are kept.
  std::optional<Request> claim_, question_;
  std::map<uint8_t, PeerSegment> heard_;
  // While no broker serves us: when to try next, how long the wait after another refusal is, and
  // when one was started last.
  int64_t next_try_ms_ = 0, patience_ms_ = 0, spawned_ms_ = 0;
  bool moved_ = false;     // not told by keep() yet
  bool given_up_ = false;  // no broker will know this lease any more
  bool attached_ = false;
  bool abandoned_ = false;
};

// Registers the fork handlers of the leases (see Lease), once. Handlers that take locks under which
// leases are used must be registered later: fork then takes those first.
void watch_forks();

// Takes a slot; starts the broker when there is none. Errors carry a sentence for the user:
// ENOENT/EACCES broker binary, EADDRINUSE port 4791 held by a foreigner (named), EACCES another
// uid's broker, EAGAIN no slot free, ETIMEDOUT.
Result<std::unique_ptr<Lease>> attach(const AttachOptions& options);

// What attach() would certainly refuse now (EACCES, EADDRINUSE, with its sentence), found without
// taking a slot or starting a broker. Success promises nothing.
Result<void> check_reach(const AttachOptions& options = {});

// Reads other processes' pages without a slot (verbena stats, verbena doctor). Starts no broker:
// ECONNREFUSED when none runs.
class Observer {
 public:
  static Result<Observer> open(const std::string& name = kDefaultName);
  const link::HostPage& host_page() const { return *host_.get(); }
  Result<PeerSegment> open_peer(uint8_t slot);

 private:
  link::Fd connection_;
  HostView host_;
};

}  // namespace verbena::broker
