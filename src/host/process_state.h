// The private half of Process: everything its source files share and its callers need not see.
#pragma once

#include <pthread.h>

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "host/connections.h"
#include "host/counters_publisher.h"
#include "host/explain_log.h"
#include "host/host_addresses.h"
#include "host/links.h"
#include "host/mutex.h"
#include "host/process.h"
#include "host/rest.h"
#include "host/watch.h"
#include "link/fd.h"

namespace verbena::host {

// Serialises what waits for the broker and must not hold the process lock meanwhile: attach() and
// open_connections(). fork waits for it: a child must not get half a lease, that is sockets nobody
// closes there.
inline std::mutex g_attach_mutex;

uint64_t random_number();  // of the kernel, or of the clock where it gives none

struct Process::Progress {
  Instant now;           // when the step began
  Instant end;           // and ended; the same when it did little
  uint32_t packets = 0;  // received
  bool drained = true;   // nothing was left waiting on a link that was looked at
  bool blocked = false;  // a link refused a packet
  bool more = false;     // the transmit budget ran out
};

struct Process::State {
  explicit State(const char* log_setting) : log(log_setting) {}

  Mutex mutex;
  int cancel_state = PTHREAD_CANCEL_ENABLE;  // of the thread that holds the lock
  ExplainLog log;
  Watch watch;
  RestPolicy rest;
  uint32_t dozers = 0;  // polling threads asleep in doze()
  CountersPublisher publisher;
  HostAddresses addresses;

  int machine_fd = -1;  // see Process::watch_machine
  void (*look_at_machine)() = nullptr;

  // Eventfds: the background thread's, and that of all blocked drivers together.
  link::Fd wake_thread;
  link::Fd wake_drivers;
  // The parent's, in a child; freed at its attach().
  std::unique_ptr<Links> abandoned;
  std::unique_ptr<Connections> abandoned_connections;
  uint32_t next_generation = 1;  // of the connection manager's handles: those of the parent are old

  // Living keys by key_index(), 0 where none: published to every segment this process opens.
  std::vector<uint32_t> keys;

  // Pacing of a step.
  Instant wire_seen = kLongAgo;  // a packet came over UDP
  Instant local_seen = kLongAgo;
  Instant last_poll = kLongAgo;
  Instant line_seen = kLongAgo;       // the broker's line was looked at
  uint32_t polls_since_wire = 0;      // empty polls that did not look at the sockets
  uint32_t undrained = 0;             // steps in a row that left packets waiting
  uint32_t posts = 0;                 // transmits since the last step
  Duration retry_after{};             // back-off while a link is full
  std::vector<engine::Event> events;  // swapped with the engine's
  std::vector<std::string> explanations;
};

}  // namespace verbena::host
