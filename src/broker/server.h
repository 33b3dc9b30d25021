// The broker at work: answers clients, notices deaths, keeps the standby informed, and leaves with
// the last client. One thread, one epoll; nothing here is on the data path.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>

#include "broker/custody.h"
#include "broker/message.h"

namespace verbena::broker {

// What an epoll event is about (its upper 32 bits); the lower 32 are a descriptor or a slot.
enum class Tag : uint32_t { kListener = 1, kConnection, kProcess, kStandby, kSlotZero };
inline constexpr uint64_t kStandbyTag = uint64_t{static_cast<uint32_t>(Tag::kStandby)} << 32;

int64_t now_ms();  // monotonic

class Server {
 public:
  // `listener` is bound to the abstract name and listening.
  Server(link::Fd listener, Custody custody)
      : listener_(std::move(listener)), custody_(std::move(custody)) {}

  // Serves until no lease is left (plus a short linger, so that programs run one after another
  // meet the same broker).
  void run();

 private:
  struct Connection {
    link::Fd fd;
    uint32_t uid = 0;
    pid_t pid = 0;  // 0: not visible from here
    uint32_t slot = 0;
  };

  // Standby (standby.cc).
  void start_standby();
  void stop_standby();
  void live_as_standby(link::Fd updates);
  void tell_standby(const Update& update, std::span<const int> fds);
  void apply(const Update& update, Received& message);

  void begin_serving();
  void serve_until_idle();
  bool has_pending_client() const;
  void on_listener();
  void refuse_next_client();
  void on_connection(int fd);
  void on_process_exit(uint32_t slot);
  void on_standby();
  void on_slot_zero();
  void close_connection(int fd);
  void release(uint32_t slot);
  void sweep_released();

  Reply handle(Connection& from, const Request& request, Received& message, int* fds,
               size_t* fd_count);
  Reply attach(Connection& from, const Request& request, Received& message, int* fds,
               size_t* fd_count);
  Reply reclaim(Connection& from, const Request& request);
  void bind_connection(uint32_t slot, Connection& from);
  Reply open_peer(const Request& request, int* fds, size_t* fd_count);
  void watch(int fd, uint64_t tag);

  link::Fd listener_;
  Custody custody_;
  link::Fd epoll_;
  link::Fd spare_;    // given up to accept, and refuse, one client when no descriptor is left
  link::Fd standby_;  // our end of the updates socket
  pid_t standby_pid_ = 0;
  int64_t standby_started_ms_ = 0;
  std::map<int, Connection> connections_;
};

// EMFILE with advice when the limit on open files (inherited from the program that started this
// broker) is too low to serve anybody.
Result<void> check_file_limit();

// Answers every client with `error` for a moment: what a broker that cannot have the port does, so
// that the reason reaches the user instead of a log file nobody knows.
void refuse_clients(int listener, const Error& error);

}  // namespace verbena::broker
