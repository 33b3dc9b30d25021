// GIDs as people write them.
#include "engine/address.h"

#include <arpa/inet.h>

namespace verbena::engine {

std::string address_text(const Gid& gid) {
  char text[INET6_ADDRSTRLEN] = {};
  bool ipv4 = gid.is_ipv4();
  inet_ntop(ipv4 ? AF_INET : AF_INET6, gid.bytes.data() + (ipv4 ? 12 : 0), text, sizeof text);
  return text;
}

}  // namespace verbena::engine
