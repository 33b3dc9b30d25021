// A stream of bytes over a reliable connection: what an rsocket is inside. The wire format is this
// library's own, both ends need it.
//
// Each message is one SEND with immediate: bytes of the stream, or none. The immediate gives back
// receive buffers (lower 16 bits, "credits") and may say that no more will come (kFinished). Who
// has one credit left sends no bytes, so that credits can always travel back.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

namespace verbena::rdmacm {

inline constexpr uint32_t kSlotBytes = 16384;
inline constexpr uint32_t kReceiveSlots = 64;  // also the credits of the peer at first
inline constexpr uint32_t kSendSlots = 32;
inline constexpr uint32_t kControlMessages = 8;  // without bytes, in flight at most
inline constexpr uint32_t kFinished = 1u << 16;  // in the immediate

// Private data of REQ and REP.
struct Greeting {
  uint8_t magic[4] = {'V', 'B', 'R', 'S'};
  uint8_t version = 1;
  uint8_t credits = kReceiveSlots;
  uint8_t reserved[2] = {};
};

enum class StreamState : uint8_t { kFresh, kListening, kConnecting, kConnected, kEnded };

// Bytes that came and were not read to their end.
struct Arrived {
  uint32_t slot = 0, length = 0, taken = 0;
};

struct Stream {
  std::mutex mutex;  // of all below; before the library's and the process's locks
  std::condition_variable changed;
  bool watched = false;  // a thread sleeps on fd
  uint64_t version = 0;  // counts what happened

  int fd = -1;  // epoll of both channels: the program's number of the socket
  rdma_event_channel* channel = nullptr;
  rdma_cm_id* id = nullptr;
  ibv_comp_channel* completions = nullptr;
  ibv_cq* cq = nullptr;
  ibv_mr* mr = nullptr;
  std::unique_ptr<uint8_t[]> memory;  // receive slots, then send slots

  StreamState state = StreamState::kFresh;
  int error = 0;  // why it ended
  int flags = 0;  // O_NONBLOCK
  bool peer_finished = false, finished = false, read_shut = false;
  std::deque<Arrived> arrived;
  std::vector<uint32_t> free_slots;
  uint32_t sending = 0, control = 0;  // messages in flight, with bytes and without
  uint32_t credits = 0, owed = 0;     // ours, and those of the peer that lie here
  std::deque<rdma_cm_event*> requests;

  Stream() = default;
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  bool sendable() const {
    return state == StreamState::kConnected && !finished && !free_slots.empty() && credits > 1;
  }
  bool readable() const {
    return !arrived.empty() || peer_finished || state == StreamState::kEnded;
  }
};

using Lease = std::unique_lock<std::mutex>;

// --- life (stream.cc); locked unless said otherwise. 0 or errno.
int open_stream(Stream& stream, rdma_cm_id* id);  // id null: a new one. Not locked.
int prepare(Stream& stream);                      // queue pair and buffers
// Makes `stream`, new, the answer to a request, which is acknowledged. Not locked.
int accept_stream(Stream& stream, rdma_cm_event* request);
void progress(Stream& stream);           // takes all that happened
int wait(Stream& stream, Lease& lease);  // until something happens; EINTR
void arm(Stream& stream);                // fd becomes readable at the next completion
void finish(Stream& stream);             // no more bytes from here

// --- bytes (stream_data.cc); -1 with errno
ssize_t send(Stream& stream, Lease& lease, const void* bytes, size_t length, bool may_wait);
ssize_t receive(Stream& stream, Lease& lease, void* bytes, size_t length, int flags, bool may_wait);
void take_completion(Stream& stream, const ibv_wc& wc);
void give_back_credits(Stream& stream);
void post_receive(Stream& stream, uint32_t slot);
void say(Stream& stream, uint32_t flags);  // a message without bytes

// --- the program's numbers (rsocket.cc)
std::shared_ptr<Stream> find_stream(int fd);  // null with EBADF
short ready(const Stream& stream, short events);

}  // namespace verbena::rdmacm
