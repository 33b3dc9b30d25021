// The broker at work: answers clients, notices deaths, keeps the standby informed, and leaves with
// the last client. One thread, one epoll; nothing here is on the data path.
#pragma once

#include <sys/epoll.h>
#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "broker/custody.h"
#include "broker/management.h"
#include "broker/message.h"
#include "broker/ports.h"
#include "broker/restoration.h"

namespace verbena::broker {

// What an epoll event is about: the kind in the upper 8 bits; below it a descriptor, or the slot
// and the generation of a lease. The generation matters: events of one wait are older than what
// the events before them did, and a freed slot may have a new owner by then.
enum class Tag : uint8_t { kListener = 1, kConnection, kProcess, kStandby, kSlotZero };
constexpr uint64_t tag(Tag kind, uint64_t value = 0) {
  return uint64_t{static_cast<uint8_t>(kind)} << 56 | value;
}
constexpr uint64_t process_tag(uint32_t slot, uint32_t generation) {
  return tag(Tag::kProcess, uint64_t{slot} << 32 | generation);
}

class Server {
 public:
  // `listener` is bound to the abstract name and listening.
  Server(link::Fd listener, Custody custody)
      : listener_(std::move(listener)),
        custody_(std::move(custody)),
        ports_(static_cast<uint64_t>(now_ms())) {}

  // The custody was restored: the rest of what `from` has is taken up by run().
  void resume(Restoration& from);

  // Serves until no lease is left (plus a short linger, so that programs run one after another
  // meet the same broker).
  void run();

 private:
  struct Connection {
    link::Fd fd;
    uint32_t uid = 0;
    pid_t pid = 0;  // 0: not visible from here
    uint32_t slot = 0;
    bool manages = false;           // of a connection manager; its end ends no lease
    std::unique_ptr<Reply> unsaid;  // there was no room for it; nothing more is read before
    std::deque<MadMessage> late;  // nor for these, which came before `unsaid` or have to follow it
  };

  // Standby (standby.cc).
  void start_standby();
  void stop_standby();
  void live_as_standby(link::Fd updates);
  void tell_standby(const Update& update, std::span<const int> fds);
  void apply(const Update& update, Received& message);

  // After a restoration (adoption.cc).
  void adopt_claims();
  void answer_claims();

  void begin_serving();
  void serve_until_idle();
  bool has_pending_client() const;
  void on_listener();
  Connection* admit(link::Fd fd);  // null: refused, and told so
  void refuse_next_client();
  void on_connection(int fd);
  void dispatch(uint64_t tag);
  void on_process_exit(uint32_t slot, uint32_t generation);
  void on_standby();

  // Management datagrams (management_requests.cc).
  void on_slot_zero();
  void watch_slot_zero();
  int look_again();  // at datagrams that wait for a service; ms as epoll_wait wants them
  Management::Fate deliver(const cm::Destination& to, const MadMessage& message);
  void forward(int manager, const MadMessage& message, bool may_wait);
  void say_goodbye_for(uint32_t slot);
  Reply manage(Connection& from, const Request& request);
  Reply bind_port(const Connection& from, const Request& request);
  void end_management(uint32_t slot);

  void close_connection(int fd);
  void release(uint32_t slot);
  void sweep_released();

  Reply handle(Connection& from, const Request& request, Received& message, int* fds,
               size_t* fd_count);
  Reply attach(Connection& from, const Request& request, Received& message, int* fds,
               size_t* fd_count);
  Reply reclaim(Connection& from, const Request& request, int* fds, size_t* fd_count);
  Reply show_lease(uint32_t slot, int* fds, size_t* fd_count);
  void bind_connection(uint32_t slot, Connection& from);
  Reply open_peer(const Request& request, int* fds, size_t* fd_count);
  void watch(int fd, uint64_t tag, uint32_t events = EPOLLIN);  // from now on for these
  void watch_connection(Connection& connection);
  void say_unsaid(Connection& to);
  bool say_late(Connection& to);  // false: it is closed

  link::Fd listener_;
  Custody custody_;
  link::Fd epoll_;
  link::Fd spare_;    // given up to accept, and refuse, one client when no descriptor is left
  link::Fd standby_;  // our end of the updates socket
  pid_t standby_pid_ = 0;
  int64_t standby_started_ms_ = 0;
  std::map<int, Connection> connections_;
  std::vector<Claim> claims_;  // of a restoration; gone when they have been answered
  std::vector<link::Fd> others_;
  PortTable ports_;
  std::unique_ptr<Management> management_;
  bool took_over_ = false;      // after another broker's death
  int64_t lines_until_ = 0;     // then: processes have so long to open their managers' lines again
  int64_t slot_zero_from_ = 0;  // when its datagrams are first looked at; -1: they are watched
};

// A descriptor of the process at the other end, to hear of its death; not valid where the kernel
// has none.
link::Fd open_process(int connection, pid_t pid);

// A segment that its owner could shrink would let it fault its readers.
bool segment_is_sound(int fd);

// A reply that says no.
Reply refuse(int error, const std::string& text);

// EMFILE with advice when the limit on open files (inherited from the program that started this
// broker) is too low to serve anybody.
Result<void> check_file_limit();

// Answers every client with `error` for a moment: what a broker that cannot have the port does, so
// that the reason reaches the user instead of a log file nobody knows.
void refuse_clients(int listener, const Error& error);

}  // namespace verbena::broker
