// Datagrams with descriptors over a UNIX SEQPACKET socket (SCM_RIGHTS).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "link/fd.h"

namespace verbena::broker {

inline constexpr size_t kMaxFds = 4;

int64_t now_ms();  // monotonic: for the deadlines of both ends

// Sends the bytes and the descriptors as one message. 0, or an errno. Never raises SIGPIPE.
int send_message(int socket, const void* bytes, size_t length, std::span<const int> fds,
                 int flags = 0);

struct Received {
  int error = 0;  // errno; 0 with length 0 = the peer closed; EMFILE: descriptors were lost
  size_t length = 0;
  size_t fd_count = 0;
  link::Fd fds[kMaxFds];  // close-on-exec
};
Received receive_message(int socket, void* bytes, size_t capacity, int flags = 0);

}  // namespace verbena::broker
