// One line per packet, in words (VERBENA_TRACE): what left, what came, on which path.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "engine/transfer.h"

namespace verbena::link {

// "RC_SEND_ONLY qp 0x010011 psn 5 bytes 64 10.0.0.1 > 10.0.0.2 local ack", with RETH, AETH, DETH
// and atomic fields where the opcode has them. QP numbers print in hex.
std::string describe(const wire::Packet& header, uint32_t payload_bytes, const engine::Gid& source,
                     const engine::Gid& destination, engine::Path path);

class TraceLens : public engine::PacketSink {
 public:
  // `write` gets whole lines without a newline.
  using Write = std::function<void(std::string_view line)>;
  TraceLens(engine::PacketSink& below, Write write) : below_(below), write_(std::move(write)) {}

  bool send(const engine::TxPacket& packet) override;
  void received(const engine::RxPacket& packet);

 private:
  engine::PacketSink& below_;
  Write write_;
};

}  // namespace verbena::link
