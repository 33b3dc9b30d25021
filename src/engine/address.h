// Where a packet goes: the address vector of a queue pair or address handle, by GID.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace verbena::engine {

// 128-bit RoCE GID: an IPv6 address, or an IPv4 address as ::ffff:a.b.c.d (network order).
struct Gid {
  std::array<uint8_t, 16> bytes{};
  auto operator<=>(const Gid&) const = default;
  // By words: links ask both of every packet.
  bool operator==(const Gid& other) const {
    return word(0) == other.word(0) && word(8) == other.word(8);
  }
  bool is_ipv4() const {
    constexpr uint8_t kPrefix[4] = {0, 0, 0xff, 0xff};
    uint32_t prefix, middle;
    std::memcpy(&prefix, kPrefix, sizeof(prefix));
    std::memcpy(&middle, &bytes[8], sizeof(middle));
    return word(0) == 0 && middle == prefix;
  }
  bool is_unspecified() const {  // :: or ::ffff:0.0.0.0
    uint32_t last;
    std::memcpy(&last, &bytes[12], sizeof(last));
    return last == 0 && (is_ipv4() || (word(0) == 0 && word(8) == 0));
  }
  static Gid from_ipv4(const uint8_t* address) {  // 4 bytes, network order
    Gid gid;
    gid.bytes[10] = gid.bytes[11] = 0xff;
    for (size_t i = 0; i < 4; ++i) gid.bytes[12 + i] = address[i];
    return gid;
  }
  bool is_link_local() const {  // fe80::/10: means something together with an interface only
    return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
  }
  bool is_loopback() const {  // 127.0.0.0/8 or ::1
    if (is_ipv4()) return bytes[12] == 127;
    Gid one;
    one.bytes[15] = 1;
    return *this == one;
  }
  bool is_multicast() const { return is_ipv4() ? (bytes[12] & 0xf0) == 0xe0 : bytes[0] == 0xff; }

 private:
  uint64_t word(size_t at) const {
    uint64_t out;
    std::memcpy(&out, &bytes[at], sizeof(out));
    return out;
  }
};

// "192.0.2.2" or "fd00::2".
std::string address_text(const Gid& gid);

// Which road a queue pair's packets take; decided once, at RTR, equally by both ends, because the
// path MTU (and with it the PSN count of a message) differs.
enum class Path : uint8_t {
  kWire,   // RoCE v2 over UDP, the queue pair's path MTU
  kLocal,  // same host: shared-memory ring, kLocalPathMtu, payload by reference
  kAny,    // datagrams: the link chooses per packet
};

struct AddressVector {
  Gid source;  // the local GID at source_gid_index
  Gid destination;
  uint32_t flow_label = 0;  // 20 bits
  uint8_t hop_limit = 64;   // as given; see ttl()
  uint8_t traffic_class = 0;
  uint8_t source_gid_index = 0;
  uint8_t service_level = 0;
  uint8_t port = 1;

  // What packets carry on every road: programs that leave the field 0 mean the default.
  uint8_t ttl() const { return hop_limit ? hop_limit : 64; }
};

}  // namespace verbena::engine
