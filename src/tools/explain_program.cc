// Sentences of RDMA programs that tell no status and no errno: which step failed, and why it
// usually does.
#include <algorithm>

#include "tools/explain_text.h"

namespace verbena::tools {
namespace {

// `words` in lower case; a sentence that holds all of them is meant.
constexpr struct {
  std::string_view words[2];
  Step step;
} kSteps[] = {
    {{"modify qp", "rtr"},
     {"ibv_modify_qp to RTR was refused",
      "ibv_*_pingpong was started without -g, so its address handle has no GRH, which RoCE needs "
      "(EINVAL).\n"
      "No route leads from the chosen GID to the peer's (ENETUNREACH): one is IPv4, the other "
      "IPv6, or they are of different networks.\n"
      "The GID index names no GID, or the path MTU is above the port's (EINVAL).\n"
      "This host's port 4791 belongs to another user or program (EACCES, EADDRINUSE).",
      "verbena run --explain: the line names the attribute and the errno. verbena devices lists "
      "GIDs and MTU; perftest chooses with -x and -m, ibv_*_pingpong with -g and -m."}},
    {{"modify qp", ""},
     {"ibv_modify_qp was refused",
      "An attribute is missing, not allowed in this transition or out of range (EINVAL).\n"
      "To RTR: the peer's address cannot be reached from the chosen GID (ENETUNREACH).",
      "verbena run --explain: the line names the attribute and the errno."}},
    {{"create qp", ""},
     {"ibv_create_qp was refused",
      "The first queue pair takes this process's share of UDP port 4791: it belongs to another "
      "user or program (EACCES, EADDRINUSE), or 254 processes have one already (EAGAIN).\n"
      "A queue is longer than the device allows, or inline data larger (EINVAL, ENOMEM).",
      "verbena run --explain: the line names the cause. verbena devices -v lists the limits, "
      "verbena stats the processes."}},
    {{"unable to connect the hca", ""},
     {"perftest's two sides did not find each other over TCP, before any RDMA",
      "The server is not running yet, or has ended.\n"
      "The address or the TCP port (-p, 18515 by default) is another one.",
      "Start the server first, with the same test and options, then the client with its "
      "address."}},
    {{"unexpected cm event", ""},
     {"perftest -R got another event of rdma_cm than it waited for; the number is the event's",
      "Event 8: the other side said no, most often because it is not running (REJ 8).\n"
      "Event 7: nobody answered there. Event 1: no device leads there.\n"
      "Event 10: the other side ended meanwhile.",
      "verbena explain event NUMBER says more; verbena run --explain names the reason. Start the "
      "server first, with the same test and options and with -R on both sides."}},
    {{"read/write remote address", ""},
     {"ibv_*_pingpong's two sides told each other nothing over TCP: the other one ended",
      "It could not set up its queue pair, or was started with other options.",
      "Read what the other side printed; give both the same -g, -d, -m and -s."}},
    {{"couldn't connect to ", ":"},
     {"the program did not reach its other side over TCP, before any RDMA",
      "The server is not running yet, or has ended.\n"
      "The address or the TCP port (-p, 18515 by default) is another one.",
      "Start the server (without an address) first, then the client with its address."}},
    {{"unable to find the infiniband", ""},
     {"the program sees no such RDMA device",
      "It was started without verbena run (or LD_LIBRARY_PATH), so the system's libibverbs "
      "answered.\n"
      "The name after -d is not one of the devices.",
      "verbena devices lists the names; start both sides with verbena run."}},
    {{"no ib devices found", ""},
     {"the program sees no RDMA device",
      "It was started without verbena run (or LD_LIBRARY_PATH), so the system's libibverbs "
      "answered.\n"
      "No network interface is up and has an address.",
      "verbena devices lists what there is; verbena doctor PROGRAM says which library it takes."}},
};

}  // namespace

const Step* step_in_sentence(std::string_view sentence) {
  std::string small(sentence);
  std::transform(small.begin(), small.end(), small.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const auto& entry : kSteps)
    if (std::all_of(std::begin(entry.words), std::end(entry.words),
                    [&](std::string_view words) { return small.find(words) != std::string::npos; }))
      return &entry.step;
  return nullptr;
}

}  // namespace verbena::tools
