// Options of streams. What only tunes is taken and has no effect here.
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rdma/rsocket.h>
#include <string.h>

#include <algorithm>
#include <utility>

#include "rdmacm/id.h"
#include "rdmacm/stream.h"

namespace verbena::rdmacm {
namespace {

bool tunes(int level, int option) {
  switch (level) {
    case SOL_SOCKET:
      return option == SO_RCVBUF || option == SO_SNDBUF || option == SO_KEEPALIVE ||
             option == SO_OOBINLINE;
    case IPPROTO_TCP:
      return option == TCP_NODELAY || option == TCP_MAXSEG || option == TCP_KEEPIDLE ||
             option == TCP_KEEPINTVL || option == TCP_KEEPCNT;
    case SOL_RDMA:
      return option == RDMA_SQSIZE || option == RDMA_RQSIZE || option == RDMA_INLINE ||
             option == RDMA_ROUTE;
    default:
      return false;
  }
}

}  // namespace

int Stream::set_option(int level, int option, const void* value, socklen_t length) {
  if (value == nullptr) return refuse(EFAULT);
  if (level == SOL_SOCKET && option == SO_LINGER) {
    if (length < sizeof lingering) return refuse(EINVAL);
    memcpy(&lingering, value, sizeof lingering);
    return 0;
  }
  int on = 0;
  memcpy(&on, value, std::min<size_t>(length, sizeof on));
  const bool reuse = level == SOL_SOCKET && (option == SO_REUSEADDR || option == SO_REUSEPORT);
  if (reuse || (level == IPPROTO_IPV6 && option == IPV6_V6ONLY))
    return rdma_set_option(id, RDMA_OPTION_ID,
                           reuse ? RDMA_OPTION_ID_REUSEADDR : RDMA_OPTION_ID_AFONLY, &on,
                           sizeof on);
  if (level == IPPROTO_IP && option == IP_TOS) {
    auto tos = static_cast<uint8_t>(on);
    return rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof tos);
  }
  if (level == SOL_RDMA && option == RDMA_IOMAPSIZE) {
    if (state != StreamState::kFresh && state != StreamState::kListening)
      return refuse(EINVAL, "rsetsockopt", "RDMA_IOMAPSIZE comes before the connection");
    if (on < 0) return refuse(EINVAL);
    mapping_count = unscaled(scaled(static_cast<uint32_t>(on)));
    return 0;
  }
  return tunes(level, option) ? 0 : refuse(ENOTSUP, "rsetsockopt", "the option is not known");
}

int Stream::get_option(int level, int option, void* value, socklen_t* length) {
  if (value == nullptr || length == nullptr) return refuse(EFAULT);
  if (level == SOL_SOCKET && option == SO_LINGER) {
    *length = std::min<socklen_t>(*length, sizeof lingering);
    memcpy(value, &lingering, *length);
    return 0;
  }
  int number = 0;
  if (level == SOL_SOCKET && option == SO_ERROR) {
    progress();
    number = std::exchange(error, 0);
  } else if (level == SOL_SOCKET && option == SO_TYPE) {
    number = SOCK_STREAM;
  } else if (level == SOL_SOCKET && (option == SO_RCVBUF || option == SO_SNDBUF)) {
    number = static_cast<int>(option == SO_RCVBUF ? kReceiveBytes : kSendSlots * kSlotBytes);
  } else if (level == SOL_RDMA && (option == RDMA_SQSIZE || option == RDMA_RQSIZE)) {
    number = static_cast<int>(option == RDMA_SQSIZE ? kSendSlots : kReceives);
  } else if (level == SOL_RDMA && option == RDMA_IOMAPSIZE) {
    number = static_cast<int>(mapping_count);
  } else if (level == SOL_SOCKET && option == SO_ACCEPTCONN) {
    number = state == StreamState::kListening ? 1 : 0;
  } else if (level == SOL_SOCKET && (option == SO_REUSEADDR || option == SO_REUSEPORT)) {
    number = of(id)->reuse ? 1 : 0;
  } else if (level == IPPROTO_IPV6 && option == IPV6_V6ONLY) {
    number = of(id)->one_family ? 1 : 0;
  } else if (level == IPPROTO_IP && option == IP_TOS) {
    number = of(id)->tos;
  } else if (level == IPPROTO_TCP && option == TCP_NODELAY) {
    number = 1;
  } else if (!tunes(level, option)) {
    return refuse(ENOTSUP, "rgetsockopt", "the option is not known");
  }
  *length = std::min<socklen_t>(*length, sizeof number);
  memcpy(value, &number, *length);
  return 0;
}

}  // namespace verbena::rdmacm
