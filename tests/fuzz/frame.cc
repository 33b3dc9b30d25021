// Fuzz: a frame from a raw link. Its ICRC, its GRH area and the search for a hidden IPv4
// identification have to agree with each other whatever the bytes are.
#include "wire/frame.h"
#include "base/check.h"
#include "wire/grh.h"
#include "wire/icrc.h"
#include "wire/packet.h"

using namespace verbena::wire;

namespace {

void check_identification(const Frame& frame) {
  static IdSolver solver;
  Ipv4Header blank = frame.ip4;
  blank.identification = 0;
  const uint32_t computed = icrc_of_payload(icrc_begin(blank, frame.udp), frame.udp_payload);
  const auto id =
      solver.solve(computed ^ icrc_of(frame), icrc_bytes_after_id(frame.ip4.total_length));
  CHECK(id.has_value() && *id == frame.ip4.identification);
}

void check_grh(const Frame& frame) {
  uint8_t source[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  uint8_t destination[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  std::memcpy(source + 12, frame.ip4.source, 4);
  std::memcpy(destination + 12, frame.ip4.destination, 4);
  uint8_t area[kGrhBytes];
  fill_grh_area(area, source, destination, frame.ip4.tos, frame.ip4.ttl,
                static_cast<uint16_t>(frame.udp_payload.size()));
  const auto rebuilt = load<Ipv4Header>(area + 20);
  CHECK(ipv4_checksum(rebuilt) == 0);
  CHECK(rebuilt.total_length == frame.ip4.total_length);
}

void check(const Frame& frame, std::span<const uint8_t> bytes) {
  CHECK(frame.udp_payload.size() >= 16);
  CHECK(frame.udp_payload.data() >= bytes.data());
  CHECK(frame.udp_payload.data() + frame.udp_payload.size() <= bytes.data() + bytes.size());
  (void)icrc_carried(frame);
  (void)icrc_of(frame);
  (void)parse(frame.udp_payload);
  if (!frame.ipv6) {
    check_identification(frame);
    check_grh(frame);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> bytes(data, size);
  if (const auto frame = parse_ethernet(bytes)) check(*frame, bytes);
  if (const auto frame = parse_ip(bytes)) check(*frame, bytes);
  return 0;
}
