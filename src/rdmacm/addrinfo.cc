// rdma_getaddrinfo: names and services by the C library, then the local address by which each
// destination is reached.
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/id.h"
#include "rdmacm/wall.h"

namespace verbena::rdmacm {
namespace {

constexpr int kKnownFlags = RAI_PASSIVE | RAI_NUMERICHOST | RAI_NOROUTE | RAI_FAMILY;

// What the caller asks for, in the terms of getaddrinfo(3).
addrinfo to_plain(const rdma_addrinfo* hints) {
  addrinfo plain{};
  plain.ai_socktype = SOCK_STREAM;
  if (hints == nullptr) return plain;
  if ((hints->ai_flags & RAI_PASSIVE) != 0) plain.ai_flags |= AI_PASSIVE;
  if ((hints->ai_flags & RAI_NUMERICHOST) != 0) plain.ai_flags |= AI_NUMERICHOST;
  if ((hints->ai_flags & RAI_FAMILY) != 0) plain.ai_family = hints->ai_family;
  if (hints->ai_qp_type == IBV_QPT_UD || hints->ai_port_space == RDMA_PS_UDP)
    plain.ai_socktype = SOCK_DGRAM;
  return plain;
}

// A queue pair type goes with a port space, and the other way round.
int choose_kind(rdma_addrinfo& info, const rdma_addrinfo* hints) {
  info.ai_port_space = hints != nullptr ? hints->ai_port_space : 0;
  info.ai_qp_type = hints != nullptr ? hints->ai_qp_type : 0;
  if (info.ai_qp_type == 0) {
    const bool datagram = info.ai_port_space == RDMA_PS_UDP || info.ai_port_space == RDMA_PS_IPOIB;
    info.ai_qp_type = datagram ? IBV_QPT_UD : IBV_QPT_RC;
  }
  if (info.ai_port_space == 0)
    info.ai_port_space = info.ai_qp_type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP;
  const bool mismatch = info.ai_qp_type == IBV_QPT_UD ? info.ai_port_space == RDMA_PS_TCP
                                                      : info.ai_port_space == RDMA_PS_UDP;
  return mismatch ? EAI_SOCKTYPE : 0;
}

sockaddr* copy(const sockaddr* address, socklen_t length) {
  auto* out = static_cast<sockaddr*>(calloc(1, sizeof(sockaddr_storage)));
  if (out != nullptr) memcpy(out, address, length);
  return out;
}

// The source: the hint's, or the one that the routing table chooses. None is no error here.
void choose_source(rdma_addrinfo& info, const rdma_addrinfo* hints) {
  if (hints != nullptr && hints->ai_src_addr != nullptr && hints->ai_src_len > 0 &&
      hints->ai_src_len <= sizeof(sockaddr_storage)) {
    info.ai_src_addr = copy(hints->ai_src_addr, hints->ai_src_len);
    info.ai_src_len = hints->ai_src_len;
    return;
  }
  std::optional<engine::Gid> to = gid_of(info.ai_dst_addr);
  if (!to || is_any(*to)) return;
  Result<host::CmPort::LocalEnd> local = port().local_end({}, *to, scope_of(info.ai_dst_addr));
  if (!local) return;
  sockaddr_storage source;
  fill_address(source, local->source, 0, scope_of(info.ai_dst_addr));
  const auto* plain = reinterpret_cast<const sockaddr*>(&source);
  info.ai_src_addr = copy(plain, length_of(plain));
  if (info.ai_src_addr != nullptr) info.ai_src_len = length_of(plain);
}

// One result, of the address of one end. Null: out of memory.
rdma_addrinfo* make_info(const rdma_addrinfo& kind, const rdma_addrinfo* hints, bool is_source,
                         const sockaddr* address, socklen_t length, const char* name) {
  auto* info = static_cast<rdma_addrinfo*>(calloc(1, sizeof(rdma_addrinfo)));
  if (info == nullptr) return nullptr;
  info->ai_flags = hints != nullptr ? hints->ai_flags : 0;
  info->ai_family = address->sa_family;
  info->ai_qp_type = kind.ai_qp_type;
  info->ai_port_space = kind.ai_port_space;
  sockaddr* own = copy(address, length);
  if (own == nullptr) {
    free(info);
    return nullptr;
  }
  (is_source ? info->ai_src_addr : info->ai_dst_addr) = own;
  (is_source ? info->ai_src_len : info->ai_dst_len) = length;
  if (name != nullptr) (is_source ? info->ai_src_canonname : info->ai_dst_canonname) = strdup(name);
  if (!is_source) choose_source(*info, hints);
  return info;
}

int from_names(const char* node, const char* service, const rdma_addrinfo& kind,
               const rdma_addrinfo* hints, rdma_addrinfo** result) {
  const addrinfo plain = to_plain(hints);
  addrinfo* list = nullptr;
  if (int error = getaddrinfo(node, service, &plain, &list); error != 0) return error;
  const bool passive = hints != nullptr && (hints->ai_flags & RAI_PASSIVE) != 0;
  rdma_addrinfo** end = result;
  int error = list == nullptr ? EAI_NONAME : 0;
  for (addrinfo* each = list; each != nullptr && error == 0; each = each->ai_next) {
    if (each->ai_family != AF_INET && each->ai_family != AF_INET6) continue;
    *end = make_info(kind, hints, passive, each->ai_addr, each->ai_addrlen, each->ai_canonname);
    if (*end == nullptr)
      error = EAI_MEMORY;
    else
      end = &(*end)->ai_next;
  }
  freeaddrinfo(list);
  if (error == 0 && *result == nullptr) error = EAI_FAMILY;
  return error;
}

int get(const char* node, const char* service, const rdma_addrinfo* hints, rdma_addrinfo** result) {
  if (hints != nullptr && (hints->ai_flags & ~kKnownFlags) != 0) return EAI_BADFLAGS;
  rdma_addrinfo kind{};
  if (int error = choose_kind(kind, hints); error != 0) return error;
  int error = 0;
  if (node != nullptr || service != nullptr) {
    error = from_names(node, service, kind, hints, result);
  } else if (hints == nullptr) {
    return EAI_NONAME;
  } else {
    // Without names: the hints' own addresses; a source alone is one (pyverbs, multicast groups).
    const bool is_source = (hints->ai_flags & RAI_PASSIVE) != 0 || hints->ai_dst_addr == nullptr;
    const sockaddr* address = is_source ? hints->ai_src_addr : hints->ai_dst_addr;
    const socklen_t length = is_source ? hints->ai_src_len : hints->ai_dst_len;
    if (address == nullptr || length == 0 || length > sizeof(sockaddr_storage)) return EAI_NONAME;
    if (!gid_of(address)) return EAI_FAMILY;
    *result = make_info(kind, hints, is_source, address, length, nullptr);
    if (*result == nullptr) error = EAI_MEMORY;
  }
  if (error != 0 && *result != nullptr) {
    rdma_freeaddrinfo(*result);
    *result = nullptr;
  }
  return error;
}

}  // namespace
}  // namespace verbena::rdmacm

using namespace verbena::rdmacm;

extern "C" {

int rdma_getaddrinfo(const char* node, const char* service, const rdma_addrinfo* hints,
                     rdma_addrinfo** result) {
  if (result == nullptr) return refuse_null(__func__);
  *result = nullptr;
  return shielded([&] { return get(node, service, hints, result); });
}

void rdma_freeaddrinfo(rdma_addrinfo* info) {
  while (info != nullptr) {
    rdma_addrinfo* next = info->ai_next;
    free(info->ai_src_addr);
    free(info->ai_dst_addr);
    free(info->ai_src_canonname);
    free(info->ai_dst_canonname);
    free(info->ai_route);
    free(info->ai_connect);
    free(info);
    info = next;
  }
}
}
