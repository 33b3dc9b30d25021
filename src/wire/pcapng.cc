// Blocks are a type, a length, a body and the length again, in the writer's byte order: little
// endian here, as of everything that this project writes to files.
#include "wire/pcapng.h"

#include <cstring>

#include "wire/pcap.h"

namespace verbena::wire {
namespace {

constexpr uint32_t kSectionHeader = 0x0a0d0d0a, kInterface = 1, kEnhancedPacket = 6;
constexpr uint32_t kByteOrder = 0x1a2b3c4d;
constexpr uint16_t kOptionEnd = 0, kUserApplication = 4;
constexpr uint16_t kInterfaceName = 2, kInterfaceSpeed = 8, kTimeResolution = 9, kFcsLength = 13;
constexpr uint16_t kPacketFlags = 2;
constexpr uint32_t kInbound = 1, kOutbound = 2;

template <typename T>
void put(std::vector<uint8_t>& to, T value) {
  const size_t at = to.size();
  to.resize(at + sizeof(T));
  std::memcpy(to.data() + at, &value, sizeof(T));
}

void put_padded(std::vector<uint8_t>& to, const void* from, size_t bytes) {
  const auto* first = static_cast<const uint8_t*>(from);
  to.insert(to.end(), first, first + bytes);
  to.resize((to.size() + 3) / 4 * 4);
}

void put_option(std::vector<uint8_t>& to, uint16_t code, const void* from, size_t bytes) {
  put(to, code);
  put(to, static_cast<uint16_t>(bytes));
  put_padded(to, from, bytes);
}

// Begins a block; end_block() fills its lengths in.
size_t begin_block(std::vector<uint8_t>& to, uint32_t type) {
  const size_t at = to.size();
  put(to, type);
  put(to, uint32_t{0});
  return at;
}

void end_block(std::vector<uint8_t>& to, size_t at) {
  const auto length = static_cast<uint32_t>(to.size() + 4 - at);
  std::memcpy(to.data() + at + 4, &length, 4);
  put(to, length);
}

}  // namespace

void append_pcapng_begin(std::vector<uint8_t>& to, std::string_view application,
                         std::string_view interface_name, uint64_t bits_per_second) {
  // Blocks are padded to whole words from their own beginning.
  to.resize((to.size() + 3) / 4 * 4);
  size_t block = begin_block(to, kSectionHeader);
  put(to, kByteOrder);
  put(to, uint16_t{1});  // version 1.0
  put(to, uint16_t{0});
  put(to, ~uint64_t{0});  // length of the section: not known
  put_option(to, kUserApplication, application.data(), application.size());
  put_option(to, kOptionEnd, nullptr, 0);
  end_block(to, block);

  block = begin_block(to, kInterface);
  put(to, static_cast<uint16_t>(kLinkTypeEthernet));
  put(to, uint16_t{0});
  put(to, kPcapSnapLength);
  put_option(to, kInterfaceName, interface_name.data(), interface_name.size());
  put_option(to, kInterfaceSpeed, &bits_per_second, sizeof(bits_per_second));
  put_option(to, kTimeResolution, &kPicoseconds, 1);
  // Said aloud, or readers take the end of a trailer for an FCS.
  const uint8_t no_fcs = 0;
  put_option(to, kFcsLength, &no_fcs, 1);
  put_option(to, kOptionEnd, nullptr, 0);
  end_block(to, block);
}

void append_pcapng_packet(std::vector<uint8_t>& to, uint64_t time, std::span<const uint8_t> frame,
                          bool outbound) {
  const auto bytes = static_cast<uint32_t>(frame.size());
  const size_t block = begin_block(to, kEnhancedPacket);
  put(to, uint32_t{0});  // the interface
  put(to, static_cast<uint32_t>(time >> 32));
  put(to, static_cast<uint32_t>(time));
  put(to, bytes);
  put(to, bytes);
  put_padded(to, frame.data(), frame.size());
  const uint32_t flags = outbound ? kOutbound : kInbound;
  put_option(to, kPacketFlags, &flags, sizeof(flags));
  put_option(to, kOptionEnd, nullptr, 0);
  end_block(to, block);
}

}  // namespace verbena::wire
