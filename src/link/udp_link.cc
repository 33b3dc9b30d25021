// Joins the two halves.
#include "link/udp_link.h"

namespace verbena::link {

Result<std::unique_ptr<UdpLink>> UdpLink::open(const UdpOptions& options) {
  Result<UdpSender> sender =
      UdpSender::open(options.port, options.udp6 >= 0, options.segmentation, options.interface_of);
  if (!sender) return tl::unexpected<Error>(sender.error());
  UdpReceiver receiver(options.udp4, options.udp6, options.slot, options.port);
  return std::unique_ptr<UdpLink>(new UdpLink(std::move(*sender), std::move(receiver)));
}

}  // namespace verbena::link
