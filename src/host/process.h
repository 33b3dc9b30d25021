// One engine inside one process: the lock, the clock, the links, the background thread and the
// rules of fork. Everything the Door needs from the real world is here.
//
// Threads: every call takes the process lock itself unless it says "locked". The Door holds a
// Guard for compound work on engine objects.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cm/manager.h"
#include "engine/device.h"
#include "host/config.h"
#include "host/event_channel.h"

namespace verbena::host {

class Connections;  // the connection manager and its line to the broker (host/connections.h)
class Links;        // the UDP and local links of this process (host/links.h)

class Process {
 public:
  // The process's only engine. Created on first use; never destroyed (threads of the application
  // may still poll while exit handlers run). No thread, socket or file until attach().
  static Process& get();

  // --- what the machine offers
  // The devices of the configuration, read once per call (addresses may have changed). An Error
  // carries the sentence to show (bad TOML, missing interface, ...).
  Result<std::vector<DeviceModel>> devices();

  // --- lock
  class Guard {
   public:
    explicit Guard(Process& process);
    ~Guard();  // delivers pending events, publishes counters, then unlocks

   private:
    Process& process_;
  };
  engine::Device& engine() { return *engine_; }  // locked
  Instant now() const;                           // see host/clock.h

  // --- life
  // Leases a slot from the broker (starting it if needed), opens the links, starts the background
  // thread. Called before the first queue pair; later calls are cheap. Errors: EADDRINUSE (who
  // holds UDP 4791 and what to do), EAGAIN (all 254 slots taken), ECONNREFUSED, EMFILE, EINVAL (a
  // misspelt VERBENA_* variable), ...
  Result<void> attach();

  // --- control helpers
  // The engine's number for the verbs device of that name: QpInit::port. Locked.
  uint8_t port(std::string_view device_name);
  // Which road a connected queue pair takes to `destination_qpn` at `route.destination`: kLocal if
  // the address is one of this host's and the owner of the QPN's slot is eligible (same user, PID
  // namespace, VERBENA_LOCAL not off on either side), by the same rule at both ends. Also checks
  // that the routing table has a way: ENETUNREACH/EHOSTUNREACH with a sentence. No neighbour is
  // asked: a peer that does not answer shows as status 12 of the first work request. Locked.
  Result<engine::Path> choose_path(const engine::AddressVector& route, uint32_t destination_qpn);
  // References to the queue pair's payload that still lie in same-host rings become void. Nobody
  // outside need call it: deliver() does for one that left RTR/RTS, by itself or by modify, before
  // its completions are seen, and destroy() does. Locked.
  void revoke(engine::QueuePair& qp);
  // Ends a queue pair of the engine: with revoke(), and without the events that still name it.
  // Locked.
  void destroy(engine::QueuePair* qp);
  // Key table changes that same-host peers must see. Locked.
  void publish_key(uint32_t key);
  void withdraw_key(uint32_t key);
  // Joins or leaves the IP multicast group on this process's socket. 0 or errno. Locked.
  int join_multicast(const engine::Gid& group, int interface_index);
  int leave_multicast(const engine::Gid& group, int interface_index);

  // --- connection management (host/cm_port.cc)
  // attach(), and the connection manager with its line to the broker. Later calls are cheap.
  Result<void> open_connections();
  Connections* connections() { return connections_.get(); }           // null before. Locked.
  void cm_sink(void (*sink)(cm::Event&& event)) { cm_sink_ = sink; }  // locked
  void cm_forked(void (*forked)()) { cm_forked_ = forked; }
  // What the connection manager wants to say leaves now. Locked.
  void say();
  // What came on its line to the broker is taken now. There are connections(). Locked.
  void hear_broker();
  // The interface that has the address; 0 when none has. Locked.
  uint32_t interface_of(const engine::Gid& gid);

  // --- data
  // ibv_poll_cq: takes up to `count` completions; if none wait, drives the engine once on the
  // caller's thread. Yields after many empty polls when the machine is oversubscribed. Number
  // taken, or -1 when the queue has overrun.
  int poll(engine::CompletionQueue& cq, engine::WorkCompletion* to, int count);
  // Drives the engine once: receive a burst, timers, transmit. Locked.
  void step();
  // After posting: transmit what can go now. Locked.
  void transmit();
  // ibv_req_notify_cq: arms, and makes sure somebody drives the engine while the caller sleeps.
  void arm(engine::CompletionQueue& cq, bool solicited_only);
  // Waits until `fd` is readable, driving the engine meanwhile. 0 or errno: EINTR when a signal
  // handler ran that does not ask for restarts (SA_RESTART), as read(2) would. A cancellation
  // point; no other call here is one.
  int wait_readable(int fd);
  // For a non-blocking look at an event channel: drives the engine once, if there is one to drive.
  void step_if_attached();

  // --- events
  // Where async events of all objects go: the channel of the context that owns the object. The
  // Door registers a function that maps an event to its channel (null: drop). Called locked.
  using Router = EventChannel* (*)(const engine::Event& event, Delivery& delivery);
  void event_router(Router router) { router_ = router; }

  // Has the background thread, while there is one, call `look` (unlocked) when `fd` is readable: a
  // netlink socket that announces changes of the machine. Once per process.
  void watch_machine(int fd, void (*look)());

  // One line for the explain log (VERBENA_LOG=explain[:FILE]; default stderr). No-op when off.
  void explain(const std::string& text);
  bool explaining() const { return explaining_; }

 private:
  friend class Guard;
  struct State;
  struct Progress;  // what one step did
  struct Bed;       // what a thread sleeps on
  struct Driver;    // a thread of the application blocked in wait_readable, driving
  struct Queued;    // one that waits for such a thread to leave

  Process();
  void lock();
  bool try_lock();
  void unlock();
  void finish();  // what every caller owes before it unlocks: events out, sleepers told
  Progress drive(bool look_at_wire, bool thorough);
  engine::TransmitResult push_out(Instant now, bool& sends);
  void poll_step();
  void yield();
  void doze();
  void deliver();
  void wake_late_sleeper();
  void wake_sleeper();
  void wake_thread();
  void wake_drivers();
  void settle_bell();

  Result<void> start_thread();
  void background();
  Instant keep_lease(struct pollfd& line);
  Instant glance(Instant& tick_ends);
  uint32_t drive_connections(Instant now);
  Instant connections_deadline() const;
  void lock_behind_others();
  std::optional<Instant> prepare_sleep(const Progress& last, Bed& bed);
  int drive_until_readable(int fd, bool& step_back);

  static void leave();
  static void before_fork();
  static void after_fork_parent();
  static void after_fork_child();

  std::unique_ptr<engine::Device> engine_;
  std::unique_ptr<Links> links_;
  std::unique_ptr<Connections> connections_;
  void (*cm_sink_)(cm::Event&& event) = nullptr;
  void (*cm_forked_)() = nullptr;
  Router router_ = nullptr;
  bool explaining_ = false;
  std::unique_ptr<State> state_;
};

}  // namespace verbena::host
