// Writes them; see pause.h.
#include "wire/pause.h"

#include <cstring>

#include "wire/headers.h"

namespace verbena::wire {

namespace {

// Returns where the MAC control frame's own part begins.
uint8_t* begin(std::span<uint8_t, kPfcFrameBytes> to, std::span<const uint8_t, 6> source) {
  static constexpr uint8_t kMacControlAddress[6] = {0x01, 0x80, 0xc2, 0x00, 0x00, 0x01};
  std::memset(to.data(), 0, to.size());
  EthernetHeader ethernet;
  std::memcpy(ethernet.destination, kMacControlAddress, 6);
  std::memcpy(ethernet.source, source.data(), 6);
  ethernet.ether_type = kEtherTypeMacControl;
  return store(to.data(), ethernet);
}

}  // namespace

void emit_pfc(std::span<uint8_t, kPfcFrameBytes> to, std::span<const uint8_t, 6> source,
              uint8_t mask, std::span<const uint16_t, 8> quanta) {
  PfcHeader pause;
  pause.opcode = kPfcOpcode;
  pause.class_vector = mask;
  for (size_t p = 0; p < quanta.size(); ++p)
    pause.quanta[p] = (mask >> p & 1) != 0 ? quanta[p] : uint16_t{0};
  store(begin(to, source), pause);
}

void emit_link_pause(std::span<uint8_t, kPfcFrameBytes> to, std::span<const uint8_t, 6> source,
                     uint16_t quanta) {
  LinkPauseHeader pause;
  pause.opcode = kLinkPauseOpcode;
  pause.quanta = quanta;
  store(begin(to, source), pause);
}

}  // namespace verbena::wire
