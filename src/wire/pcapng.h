// Writes the pcapng capture format (draft-ietf-opsawg-pcapng): unlike pcap it names the interface,
// counts time as finely as the writer likes and says which way a frame went.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace verbena::wire {

inline constexpr uint8_t kPicoseconds = 12;  // a unit of time is 10^-12 s

// Appends the blocks that a file begins with: a section and its only interface, of Ethernet frames.
// `application`: who writes. Each text at most 65535 bytes.
void append_pcapng_begin(std::vector<uint8_t>& to, std::string_view application,
                         std::string_view interface_name, uint64_t bits_per_second);

// Appends one frame at `time` picoseconds since 1970.
void append_pcapng_packet(std::vector<uint8_t>& to, uint64_t time, std::span<const uint8_t> frame,
                          bool outbound);

}  // namespace verbena::wire
