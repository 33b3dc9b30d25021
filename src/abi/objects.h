// What stands behind the pointers programs hold: each object begins with the public struct, so a
// cast is the way in, and holds the engine's object. Counts of users decide EBUSY.
//
// Locks: fields marked (L) are touched under the process lock (host::Process::Guard) only.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>  // std::lock_guard
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "abi/layout.h"
#include "engine/queue_pair.h"
#include "host/config.h"
#include "host/event_channel.h"
#include "host/fork_mutex.h"

namespace verbena::abi {

struct Device {
  ibv_device base;
  uint8_t zeros[kZeroBytesBehindDevice];
  int index = 0;
  host::ForkMutex mutex;
  std::shared_ptr<const host::DeviceModel> model;  // under mutex
};

struct Qp;

struct Context {
  NewestVerbsContext verbs{};
  Device* device = nullptr;
  host::EventChannel async;
  std::vector<Qp*> queue_pairs;            // (L) ended with the context if left over
  std::atomic<uint64_t> device_memory{0};  // bytes of live ibv_dm
  std::atomic<uint32_t> port_events{0};    // in `async`, not taken yet
  std::atomic<uint32_t> holders{1};        // the program, until it closes, and ContextHolds

  Context() { pthread_mutex_init(&base()->mutex, nullptr); }
  ~Context() { pthread_mutex_destroy(&base()->mutex); }
  ibv_context* base() { return &verbs.base.context; }
};

// Programs close a device and destroy its objects afterwards. Those whose end looks into the
// context (the inline verbs of the headers call through it) hold its memory until then.
class ContextHold {
 public:
  ContextHold() = default;
  explicit ContextHold(ibv_context* context);
  ContextHold(ContextHold&& other) noexcept : context_(std::exchange(other.context_, nullptr)) {}
  ContextHold& operator=(ContextHold&& other) noexcept {
    std::swap(context_, other.context_);
    return *this;
  }
  ~ContextHold() {
    if (context_) release(context_);
  }
  // One holder less; the last one frees the context.
  static void release(Context* context) {
    if (--context->holders == 0) delete context;
  }

 private:
  Context* context_ = nullptr;
};

// Shared by a protection domain and its imports.
struct Domain {
  memory::ProtectionDomain engine;
  std::atomic<uint32_t> users{0};    // objects made in it, through any wrapper
  std::atomic<uint32_t> holders{0};  // wrappers (the original and imports)
};

struct Td {
  ibv_td base;
  ContextHold context;
  std::atomic<uint32_t> users{0};
};

struct Pd {
  ibv_pd base;
  Domain* domain = nullptr;
  Pd* parent_of = nullptr;  // a parent domain: the protection domain it extends
  Td* td = nullptr;
  std::atomic<uint32_t> users{0};  // objects that name this wrapper
  bool undone = false;             // an import undone while it had users; under the users' lock
};

struct Dm {
  ibv_dm base;
  ContextHold context;
  uint8_t* memory = nullptr;
  size_t length = 0;  // as asked for
  size_t mapped = 0;
  Dm* original = nullptr;          // of an import
  std::atomic<uint32_t> users{0};  // regions and imports
};

// One registration; `base` objects may be several (imports).
struct Region {
  memory::MemoryRegion engine;
  Domain* domain = nullptr;
  Dm* dm = nullptr;
  void* mapping = nullptr;  // of a dma-buf
  size_t mapping_length = 0;
};

struct Mr {
  ibv_mr base;
  Region* region = nullptr;
  Pd* pd = nullptr;
  bool imported = false;
};

struct Mw {
  ibv_mw base;
  ContextHold context;
  memory::MemoryWindow engine;
  Pd* pd = nullptr;
};

struct CompChannel {
  ibv_comp_channel base;
  host::EventChannel events;
};

struct Cq {
  ibv_cq_ex base;
  ContextHold context;
  std::unique_ptr<engine::CompletionQueue> queue;
  engine::WorkCompletion current;  // start_poll .. end_poll
  Pd* parent_domain = nullptr;
  std::atomic<uint32_t> users{0};      // queue pairs and XRC SRQs
  uint32_t completion_deliveries = 0;  // (L) events put into the channel
  uint32_t async_deliveries = 0;       // (L)

  ibv_cq* plain() { return ibv_cq_ex_to_cq(&base); }
};

struct Xrcd {
  ibv_xrcd base;
  ContextHold context;
  engine::XrcDomain* domain = nullptr;
  std::atomic<uint32_t> users{0};
};

struct Srq {
  ibv_srq base;
  ContextHold context;
  std::unique_ptr<engine::SharedReceiveQueue> queue;
  ibv_srq_type type = IBV_SRQT_BASIC;
  Pd* pd = nullptr;
  Cq* cq = nullptr;
  Xrcd* xrcd = nullptr;
  std::atomic<uint32_t> users{0};
  uint32_t async_deliveries = 0;  // (L)
};

struct Staging;  // wr.h

// A multicast group as one interface of the host is a member of it.
struct Membership {
  engine::Gid group;
  uint32_t interface = 0;
  uint32_t generation = 0;  // host::fork_generation() of the process that joined
  auto operator<=>(const Membership&) const = default;
};

// The engine's queue pair may be shared by several ibv_qp (ibv_open_qp).
struct QpCore {
  engine::QueuePair* queue = nullptr;  // (L) null once the last context that had it was closed
  std::vector<Qp*> handles;            // (L) the first gets the events
  std::vector<Membership> groups;      // (L) multicast attachments
};

struct Qp {
  NewestQpEx base;
  ContextHold context;
  QpCore* core = nullptr;
  std::unique_ptr<Staging> staging;  // with IBV_QP_INIT_ATTR_SEND_OPS_FLAGS
  ibv_qp_cap cap{};
  Pd* pd = nullptr;
  Xrcd* xrcd = nullptr;
  bool signal_all = false;
  uint32_t async_deliveries = 0;  // (L)

  ibv_qp* plain() { return &base.base.qp_base; }
  // The engine's queue pair; null once the device was closed. Locked.
  engine::QueuePair* queue() { return core->queue; }
};

struct Ah {
  ibv_ah base;
  engine::AddressVector route;
  Pd* pd = nullptr;
};

inline Device* cast(ibv_device* p) {
  return reinterpret_cast<Device*>(p);
}
inline Context* cast(ibv_context* p) {
  return reinterpret_cast<Context*>(reinterpret_cast<uint8_t*>(p) -
                                    offsetof(NewestVerbsContext, base.context));
}
inline ContextHold::ContextHold(ibv_context* context) : context_(cast(context)) {
  ++context_->holders;
}
inline Pd* cast(ibv_pd* p) {
  return reinterpret_cast<Pd*>(p);
}
inline Td* cast(ibv_td* p) {
  return reinterpret_cast<Td*>(p);
}
inline Dm* cast(ibv_dm* p) {
  return reinterpret_cast<Dm*>(p);
}
inline Mr* cast(ibv_mr* p) {
  return reinterpret_cast<Mr*>(p);
}
inline Mw* cast(ibv_mw* p) {
  return reinterpret_cast<Mw*>(p);
}
inline CompChannel* cast(ibv_comp_channel* p) {
  return reinterpret_cast<CompChannel*>(p);
}
inline Cq* cast(ibv_cq* p) {
  return reinterpret_cast<Cq*>(p);
}
inline Cq* cast(ibv_cq_ex* p) {
  return reinterpret_cast<Cq*>(p);
}
inline Xrcd* cast(ibv_xrcd* p) {
  return reinterpret_cast<Xrcd*>(p);
}
inline Srq* cast(ibv_srq* p) {
  return reinterpret_cast<Srq*>(p);
}
inline Qp* cast(ibv_qp* p) {
  return reinterpret_cast<Qp*>(p);
}
inline Qp* cast(ibv_qp_ex* p) {
  return reinterpret_cast<Qp*>(p);
}
inline Ah* cast(ibv_ah* p) {
  return reinterpret_cast<Ah*>(p);
}

// Objects another context may name by number (ibv_import_*). Numbers start at 1 and are not reused.
template <typename T>
class Handles {
 public:
  uint32_t add(T* object) {
    std::lock_guard lock(mutex_);
    objects_.emplace(next_, object);
    return next_++;
  }
  void remove(uint32_t handle) {
    std::lock_guard lock(mutex_);
    objects_.erase(handle);
  }
  // Calls `use` with the object while it cannot go away; false when there is none.
  template <typename Use>
  bool with(uint32_t handle, Use&& use) {
    std::lock_guard lock(mutex_);
    auto it = objects_.find(handle);
    if (it == objects_.end()) return false;
    use(it->second);
    return true;
  }

 private:
  host::ForkMutex mutex_;
  std::unordered_map<uint32_t, T*> objects_;
  uint32_t next_ = 1;
};

// Objects that queued work requests point to (regions and windows of a pending bind): their memory
// is used again for the same type only, so a pointer left behind meets a valid, unrelated object
// and fails its protection domain check instead of reading freed memory.
template <typename T>
class Recycler {
 public:
  T* take() {
    std::lock_guard lock(mutex_);
    if (free_.empty()) {
      free_.reserve(++made_);  // so that give() never allocates
      return new T{};
    }
    T* object = free_.back();
    free_.pop_back();
    return object;
  }
  void give(T* object) {
    std::lock_guard lock(mutex_);
    free_.push_back(object);
  }

 private:
  host::ForkMutex mutex_;
  std::vector<T*> free_;
  size_t made_ = 0;
};

// The model of a context's device as of now (addresses of interfaces come and go).
std::shared_ptr<const host::DeviceModel> model_of(Device* device);
inline std::shared_ptr<const host::DeviceModel> model_of(ibv_context* context) {
  return model_of(cast(context)->device);
}

uint32_t next_handle();  // for objects nobody imports

// Fills the address vector of `attr` for the device, checking what ibv_create_ah and ibv_modify_qp
// must refuse: no GRH, empty or missing GID, wrong port. `call` names the caller in the log.
int route_from_attr(const char* call, ibv_context* context, const ibv_ah_attr& attr,
                    engine::AddressVector& route);
void attr_from_route(const engine::AddressVector& route, bool is_global, ibv_ah_attr& attr);

// What struct verbs_context's operations point to, filled by each family.
void fill_operations(NewestVerbsContext& verbs);

}  // namespace verbena::abi
