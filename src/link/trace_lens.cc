// Text for people; nothing parses it.
#include "link/trace_lens.h"

#include <arpa/inet.h>

#include <cinttypes>
#include <cstdarg>
#include <cstdio>

namespace verbena::link {
namespace {

__attribute__((format(printf, 2, 3))) void append(std::string& to, const char* format, ...) {
  char text[160];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  to += text;
}

void append_extensions(std::string& to, const wire::Packet& packet) {
  const wire::OpcodeInfo& info = wire::opcode_info(packet.opcode);
  using wire::Header;
  if (info.has(Header::kReth)) {
    append(to, " at 0x%" PRIx64 " rkey 0x%x of %u", packet.reth.address, packet.reth.rkey,
           packet.reth.length);
  }
  if (info.has(Header::kAtomicEth)) {
    append(to, " at 0x%" PRIx64 " rkey 0x%x swap_add %" PRIu64 " compare %" PRIu64,
           packet.atomic.address, packet.atomic.rkey, packet.atomic.swap_add,
           packet.atomic.compare);
  }
  if (info.has(Header::kAeth)) {
    append(to, " syndrome 0x%02x msn %u", packet.aeth.syndrome, packet.aeth.msn);
  }
  if (info.has(Header::kAtomicAckEth)) append(to, " original %" PRIu64, packet.atomic_original);
  if (info.has(Header::kImmDt)) append(to, " imm 0x%08x", ntohl(packet.immediate_be));
  if (info.has(Header::kIeth)) append(to, " invalidate 0x%x", packet.invalidate_rkey);
  if (info.has(Header::kDeth)) {
    append(to, " from qp 0x%06x qkey 0x%x", packet.deth.source_qpn, packet.deth.qkey);
  }
  if (info.has(Header::kXrcEth)) append(to, " srq 0x%06x", packet.xrc_srqn);
}

}  // namespace

std::string describe(const wire::Packet& header, uint32_t payload_bytes, const engine::Gid& source,
                     const engine::Gid& destination, engine::Path path) {
  std::string out(wire::opcode_info(header.opcode).name());
  append(out, " qp 0x%06x psn %u bytes %u ", header.dest_qpn, header.psn.value(), payload_bytes);
  out += engine::address_text(source) + " > " + engine::address_text(destination);
  out += path == engine::Path::kLocal ? " local" : " wire";
  if (header.ack_request) out += " ack";
  if (header.solicited) out += " solicited";
  if (header.becn) out += " becn";
  append_extensions(out, header);
  return out;
}

bool TraceLens::send(const engine::TxPacket& packet) {
  if (!below_.send(packet)) return false;
  const engine::AddressVector nowhere;
  const engine::AddressVector& route = packet.route ? *packet.route : nowhere;
  write_("tx " + describe(packet.header, packet.payload.length, route.source, route.destination,
                          packet.path));
  return true;
}

void TraceLens::received(const engine::RxPacket& packet) {
  write_("rx " + describe(packet.header, packet.payload.length, packet.source, packet.destination,
                          packet.path));
}

}  // namespace verbena::link
