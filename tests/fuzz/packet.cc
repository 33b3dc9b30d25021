// Fuzz: a UDP payload as parse() meets it. What parses has to account for every byte and come out
// of emit_headers the same, apart from bits that the standard reserves and we have no use for.
#include <cstring>

#include "base/check.h"
#include "wire/headers.h"
#include "wire/packet.h"

using namespace verbena::wire;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Parsed parsed = parse({data, size});
  if (parsed.error != ParseError::kNone) return 0;
  const OpcodeInfo& info = opcode_info(parsed.packet.opcode);
  CHECK(info.known);
  CHECK(info.header_length + parsed.payload.size() + parsed.packet.pad_count + kIcrcBytes == size);
  CHECK(parsed.payload.data() == data + info.header_length);

  uint8_t headers[kMaxHeaderBytes];
  CHECK(emit_headers(parsed.packet, headers) == info.header_length);
  Bth sent = load<Bth>(data);
  sent.congestion &= Bth::kFecn | Bth::kBecn;
  CHECK(std::memcmp(headers, &sent, sizeof(sent)) == 0);

  uint8_t again[kMaxHeaderBytes + 8] = {};
  std::memcpy(again, headers, info.header_length);
  const size_t length = size_t{info.header_length} + parsed.packet.pad_count + kIcrcBytes;
  const Parsed second = parse({again, length});
  CHECK(second.error == ParseError::kNone);
  CHECK(second.payload.empty());
  uint8_t headers_again[kMaxHeaderBytes];
  CHECK(emit_headers(second.packet, headers_again) == info.header_length);
  CHECK(std::memcmp(headers, headers_again, info.header_length) == 0);
  return 0;
}
