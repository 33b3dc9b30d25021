// A socket that is the kernel's whatever library stands in front of libc. Under rdma-core's
// librspreload the program's socket(2) makes rsockets, and ours would be made of themselves.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

namespace verbena {

// As socket(2): a descriptor, or -1 with errno.
inline int plain_socket(int family, int type, int protocol) {
  return static_cast<int>(::syscall(SYS_socket, family, type, protocol));
}

}  // namespace verbena
