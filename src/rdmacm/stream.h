// A stream of bytes over a reliable connection: what an rsocket of SOCK_STREAM is inside.
// stream_wire.h has the protocol.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "rdmacm/completions.h"
#include "rdmacm/socket.h"
#include "rdmacm/stream_wire.h"

namespace verbena::rdmacm {

inline constexpr uint32_t kReceiveBytes = 1 << 20;  // two ranges that the peer fills in turn
inline constexpr uint32_t kHalf = kReceiveBytes / 2;
inline constexpr uint16_t kCredits = 384;   // messages that may wait here to be read
inline constexpr uint32_t kReceives = 400;  // some more: the protocol's control has no credits
inline constexpr uint32_t kSlotBytes = 16384;
inline constexpr uint32_t kSendSlots = 32;
inline constexpr uint32_t kControlMessages = 4;  // from no slot, in flight at most
// wr_ids: of a write from a slot its number, of one from none, and of a receive.
inline constexpr uint64_t kControlId = kSendSlots, kReceiveId = kSendSlots + 1;

enum class StreamState : uint8_t { kFresh, kListening, kConnecting, kConnected, kEnded };

// Memory of the program that riomap registered.
struct OwnMapping {
  ibv_mr* mr = nullptr;
  uint64_t offset = 0;
  std::optional<uint32_t> index;  // on the peer's board; none: local only
  bool told = false;              // the peer knows
};

struct Stream final : Socket {
  rdma_event_channel* channel = nullptr;
  rdma_cm_id* id = nullptr;
  Completions completions;
  StreamState state = StreamState::kFresh;
  int error = 0;               // why it ended; 0 when SO_ERROR has told
  bool bound = false;          // by the program
  linger lingering{};          // SO_LINGER
  bool was_connected = false;  // before it ended
  bool outcome_due = false;    // rconnect said EINPROGRESS: the next one says what came of it
  bool greeted = false;
  bool peer_finished = false, finished = false, read_shut = false;
  bool told_finished = false, parted = false;  // kShutdown, kDisconnect were said
  std::deque<rdma_cm_event*> requests;

  // What comes in. The peer fills `received` in the order of its addresses, round and round.
  std::unique_ptr<uint8_t[]> received;
  ibv_mr* received_mr = nullptr;
  std::deque<uint32_t> arrived;     // lengths of messages not read to their end
  uint32_t read_at = 0;             // offset of the next byte to read
  uint32_t offered = kHalf;         // bytes of ranges given to the peer and not filled yet
  uint32_t freed = kHalf;           // bytes read and not given again
  uint32_t free_at = kHalf;         // their offset
  uint16_t read = 0;                // messages
  uint16_t tell_at = kCredits / 2;  // the peer hears of credits when `read` gets there

  // What goes out.
  std::unique_ptr<uint8_t[]> slots;
  ibv_mr* slots_mr = nullptr;
  std::vector<uint32_t> free_slots;
  uint32_t sending = 0, control = 0;   // messages in flight, from slots and from none
  uint16_t sent = 0, may_send = 0;     // messages; equal: no credits
  std::array<Range, kRanges> targets;  // at the peer, filled in turn
  uint32_t target = 0;

  // The boards. Ours is `board`: entries are copied from it when the peer says that it wrote them.
  std::vector<uint8_t> board;
  ibv_mr* board_mr = nullptr;
  uint32_t next_range = 1;        // that the peer will write here
  std::vector<Mapping> mappings;  // the peer's memory
  uint32_t mapping_count = 0;     // room for them, RDMA_IOMAPSIZE
  Range peer_board;               // length: ranges
  uint32_t peer_range = 1;        // that we write next there
  uint32_t peer_mapping_count = 0;
  bool swap = false;  // the peer has the other byte order
  std::vector<OwnMapping> own_mappings;

  ~Stream() override;

  bool sendable() const {
    return state == StreamState::kConnected && !finished && !free_slots.empty() &&
           sent != may_send && targets[target].length != 0;
  }
  bool readable() const {
    return !arrived.empty() || peer_finished || read_shut || state == StreamState::kEnded;
  }
  // An accepted stream has a peer at once, although the peer's last word may be on its way.
  bool has_peer() const {
    return state == StreamState::kConnected || state == StreamState::kEnded ||
           (state == StreamState::kConnecting && greeted);
  }

  // --- the calls (stream_socket.cc)
  int bind(const sockaddr* address, socklen_t length) override;
  int listen(int backlog) override;
  int accept(Lease& lease, sockaddr* address, socklen_t* length) override;
  int connect(Lease& lease, const sockaddr* address, socklen_t length) override;
  int shutdown(int how) override;
  void close(Lease& lease) override;
  ssize_t send(Lease& lease, const msghdr& message, int flags) override;
  ssize_t receive(Lease& lease, msghdr& message, int flags) override;
  int peer_name(sockaddr* address, socklen_t* length) override;
  int own_name(sockaddr* address, socklen_t* length) override;
  off_t map(void* bytes, size_t length, int prot, off_t offset) override;
  int unmap(void* bytes, size_t length) override;
  ssize_t write_mapped(Lease& lease, const void* bytes, size_t length, uint64_t offset,
                       int flags) override;
  short ready(short events) const override;
  // (stream_options.cc)
  int set_option(int level, int option, const void* value, socklen_t length) override;
  int get_option(int level, int option, void* value, socklen_t* length) override;
  // (stream.cc)
  void arm() override;

 protected:
  void take_all() override;
};

// --- life (stream.cc); locked unless said otherwise. 0 or errno.
int open_stream(Stream& stream, rdma_cm_id* id);  // id null: a new one. Not locked.
// Makes `stream`, new, the answer to a request, which is acknowledged. Not locked.
int accept_stream(Stream& stream, rdma_cm_event* request);
int renew(Stream& stream);     // after a refusal, or of a listener: as it was before the attempt
void say_end(Stream& stream);  // tells the peer what was shut, as soon as it can
void establish(Stream& stream);
void end(Stream& stream, int error);  // of the stream: its calls fail with `error`

// --- buffers and boards (stream_boards.cc)
int prepare(Stream& stream);  // queue pair and buffers; 0 or errno
bool take_greeting(Stream& stream, const rdma_cm_event& event);
Greeting greeting_of(const Stream& stream);
void post_receive(Stream& stream);
void take_range(Stream& stream);                    // the peer wrote one to our board
void take_mapping(Stream& stream, uint32_t index);  // the same
void give_back(Stream& stream);                     // what was read, to the peer
void say(Stream& stream, Control control);
// Tells the peer of new mappings. False: some have to wait.
bool tell_mappings(Stream& stream);
// riomap and riounmap; -1 with errno
off_t map_memory(Stream& stream, void* bytes, size_t length, int prot, off_t offset);
int unmap_memory(Stream& stream, void* bytes, size_t length);

// --- bytes (stream_data.cc); -1 with errno. `offset`: into a mapping of the peer.
ssize_t send_bytes(Stream& stream, Lease& lease, const void* bytes, size_t length, bool may_wait,
                   std::optional<uint64_t> offset = std::nullopt);
ssize_t receive_bytes(Stream& stream, Lease& lease, void* bytes, size_t length, int flags,
                      bool may_wait);
void take_completion(Stream& stream, const ibv_wc& wc);
// A write from no slot: `length` bytes inline, to `place` on the peer's board.
void post_control(Stream& stream, uint32_t word, const void* bytes, uint32_t length,
                  uint64_t place);

}  // namespace verbena::rdmacm
