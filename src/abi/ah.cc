// Address handles: where a datagram goes, given directly or read back from a received message.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "abi/errors.h"
#include "abi/import.h"
#include "abi/operations.h"
#include "base/endian.h"
#include "wire/headers.h"

namespace verbena::abi {
namespace {

std::atomic<uint32_t> live_handles{0};

constexpr size_t kIpv4Offset = 20;  // of the IPv4 header in the 40 bytes of a received GRH area

// IPv4 when its header, checksum included, is right; an IPv6 address there by chance is not.
bool holds_ipv4(const uint8_t* area) {
  return area[kIpv4Offset] == 0x45 &&
         wire::ipv4_checksum(wire::load<wire::Ipv4Header>(area + kIpv4Offset)) == 0;
}

struct ReceivedHeader {
  engine::Gid source;
  engine::Gid destination;
  uint32_t flow_label = 0;
  uint8_t hop_limit = 0;
  uint8_t traffic_class = 0;
};

ReceivedHeader read_header(const ibv_grh& grh) {
  const uint8_t* area = reinterpret_cast<const uint8_t*>(&grh);
  ReceivedHeader header;
  if (holds_ipv4(area)) {
    const uint8_t* ip = area + kIpv4Offset;
    header.source = engine::Gid::from_ipv4(ip + 12);
    header.destination = engine::Gid::from_ipv4(ip + 16);
    header.hop_limit = ip[8];
    header.traffic_class = ip[1];
    return header;
  }
  uint32_t word = byteswap32(grh.version_tclass_flow);
  std::copy_n(grh.sgid.raw, 16, header.source.bytes.begin());
  std::copy_n(grh.dgid.raw, 16, header.destination.bytes.begin());
  header.flow_label = word & 0xfffff;
  header.traffic_class = static_cast<uint8_t>(word >> 20);
  header.hop_limit = grh.hop_limit;
  return header;
}

// The local GID a message to `destination` came to. A group is nobody's: any of its family answers.
int find_gid(const host::DeviceModel& model, const engine::Gid& destination) {
  for (size_t i = 0; i < model.gids.size(); ++i)
    if (model.gids[i].gid == destination) return static_cast<int>(i);
  if (!destination.is_multicast()) return -1;
  for (size_t i = 0; i < model.gids.size(); ++i)
    if (!model.gids[i].empty() && model.gids[i].gid.is_ipv4() == destination.is_ipv4())
      return static_cast<int>(i);
  return -1;
}

int init_from_wc(ibv_context* context, uint8_t port, const ibv_wc& wc, const ibv_grh* grh,
                 ibv_ah_attr& attr) {
  attr = {};
  attr.dlid = wc.slid;
  attr.src_path_bits = wc.dlid_path_bits;
  attr.port_num = port;
  if (!(wc.wc_flags & IBV_WC_GRH)) return 0;
  ReceivedHeader header = read_header(*grh);
  auto model = model_of(context);
  int index = find_gid(*model, header.destination);
  if (index < 0)
    return refuse(ENOENT,
                  "ibv_init_ah_from_wc: the message was sent to {}, which is not a GID of "
                  "{} now",
                  engine::address_text(header.destination), model->name);
  attr.is_global = 1;
  std::copy_n(header.source.bytes.begin(), 16, attr.grh.dgid.raw);
  attr.grh.sgid_index = static_cast<uint8_t>(index);
  attr.grh.flow_label = header.flow_label;
  attr.grh.hop_limit = header.hop_limit;
  attr.grh.traffic_class = header.traffic_class;
  return 0;
}

bool parse_mac(const std::string& text, uint8_t* mac) {
  unsigned parts[6];
  if (std::sscanf(text.c_str(), "%x:%x:%x:%x:%x:%x", &parts[0], &parts[1], &parts[2], &parts[3],
                  &parts[4], &parts[5]) != 6)
    return false;
  for (int i = 0; i < 6; ++i) mac[i] = static_cast<uint8_t>(parts[i]);
  return true;
}

// The kernel's neighbour table, as far as it is public without netlink.
bool find_neighbour(const std::string& address, uint8_t* mac) {
  std::FILE* table = std::fopen("/proc/net/arp", "re");
  if (!table) return false;
  char line[256], ip[64], flags[16], hardware[32];
  bool found = false;
  while (!found && std::fgets(line, sizeof line, table))
    found = std::sscanf(line, "%63s %*s %15s %31s", ip, flags, hardware) == 3 && address == ip &&
            std::strcmp(flags, "0x0") != 0 && parse_mac(hardware, mac);
  std::fclose(table);
  return found;
}

void multicast_mac(const engine::Gid& gid, uint8_t* mac) {
  if (gid.is_ipv4()) {
    const uint8_t made[6] = {
        0x01, 0x00, 0x5e, static_cast<uint8_t>(gid.bytes[13] & 0x7f), gid.bytes[14], gid.bytes[15]};
    std::copy_n(made, 6, mac);
    return;
  }
  mac[0] = mac[1] = 0x33;
  std::copy_n(gid.bytes.begin() + 12, 4, mac + 2);
}

int resolve_mac(ibv_context* context, const engine::Gid& gid, uint8_t* mac) {
  auto model = model_of(context);
  if (gid.is_multicast()) {
    multicast_mac(gid, mac);
    return 0;
  }
  for (const host::GidEntry& entry : model->gids) {
    if (entry.gid != gid) continue;
    std::copy_n(model->mac.begin(), 6, mac);
    return 0;
  }
  // A link-local address made from a MAC tells it (RFC 4291, appendix A).
  if (gid.bytes[0] == 0xfe && gid.bytes[1] == 0x80 && gid.bytes[11] == 0xff &&
      gid.bytes[12] == 0xfe) {
    const uint8_t made[6] = {static_cast<uint8_t>(gid.bytes[8] ^ 2),
                             gid.bytes[9],
                             gid.bytes[10],
                             gid.bytes[13],
                             gid.bytes[14],
                             gid.bytes[15]};
    std::copy_n(made, 6, mac);
    return 0;
  }
  if (gid.is_ipv4() && find_neighbour(engine::address_text(gid), mac)) return 0;
  return refuse(EHOSTUNREACH, "ibv_resolve_eth_l2_from_gid: no neighbour entry for {}",
                engine::address_text(gid));
}

}  // namespace
}  // namespace verbena::abi

using namespace verbena;
using namespace verbena::abi;

extern "C" {

ibv_ah* ibv_create_ah(ibv_pd* base, ibv_ah_attr* attr) {
  return shielded_pointer<ibv_ah>([&]() -> ibv_ah* {
    auto ah = std::make_unique<Ah>();
    if (int error = route_from_attr("ibv_create_ah", base->context, *attr, ah->route)) {
      errno = error;
      return nullptr;
    }
    uint32_t limit = model_of(base->context)->limits.max_ah;
    if (live_handles >= limit)
      return refuse_null(ENOMEM, "ibv_create_ah: the device's max_ah = {} are in use", limit);
    ah->pd = cast(base);
    ah->base = {base->context, base, next_handle()};
    enter_domain(ah->pd);
    ++live_handles;
    return &ah.release()->base;
  });
}

int ibv_destroy_ah(ibv_ah* base) {
  return shielded([&] {
    leave_domain(cast(base)->pd);
    delete cast(base);
    --live_handles;
    return 0;
  });
}

int ibv_init_ah_from_wc(ibv_context* context, uint8_t port, ibv_wc* wc, ibv_grh* grh,
                        ibv_ah_attr* attr) {
  return minus_one(shielded([&] { return init_from_wc(context, port, *wc, grh, *attr); }));
}

ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, uint8_t port) {
  ibv_ah_attr attr;
  if (ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr)) return nullptr;
  return ibv_create_ah(pd, &attr);
}

int ibv_resolve_eth_l2_from_gid(ibv_context* context, ibv_ah_attr* attr, uint8_t* mac,
                                uint16_t* vid) {
  return shielded([&] {
    engine::AddressVector route;
    if (int error = route_from_attr("ibv_resolve_eth_l2_from_gid", context, *attr, route))
      return error;
    if (vid) *vid = 0xffff;  // no VLAN
    return resolve_mac(context, route.destination, mac);
  });
}

}  // extern "C"
