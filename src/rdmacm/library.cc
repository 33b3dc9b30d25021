// What all parts of the library share: its lock, the way into the engine's process, refusals, and
// what a fork leaves of it.
#include <errno.h>
#include <string.h>

#include <atomic>
#include <new>

#include "rdmacm/id.h"
#include "rdmacm/wall.h"

namespace verbena::rdmacm {
namespace {

std::atomic<host::CmPort*> g_port{nullptr};
std::atomic<uint32_t> g_generation{0};

alignas(std::mutex) unsigned char g_mutex[sizeof(std::mutex)];

// In the child of a fork: a thread that held the lock is not here. Objects of before are known by
// their generation; what they say of the parent's connections is dropped when they are met.
void forked() {
  new (g_mutex) std::mutex;
  g_generation.fetch_add(1);
}

}  // namespace

std::mutex& library() {
  static auto* mutex = new (g_mutex) std::mutex;
  return *mutex;
}

host::CmPort& port() {
  if (host::CmPort* known = g_port.load(std::memory_order_acquire)) return *known;
  static const bool once = [] {
    library();
    host::CmPort* found = verbena_rdmacm_port();
    found->sink(on_cm_event);
    found->forked(forked);
    g_port.store(found, std::memory_order_release);
    return true;
  }();
  static_cast<void>(once);
  return *g_port.load(std::memory_order_acquire);
}

uint32_t generation() {
  return g_generation.load(std::memory_order_relaxed);
}

int refuse(int error) {
  errno = error;
  return -1;
}

int refuse(int error, const char* call, const std::string& why) {
  if (port().explaining()) {
    const char* name = strerrorname_np(error);
    port().explain(std::string(call) + ": " + why + " (" + (name != nullptr ? name : "?") + ")");
  }
  return refuse(error);
}

int refuse(const char* call, const Error& error) {
  return refuse(error.code, call, error.message);
}

int refuse(const rdma_cm_id& id, int error, const char* call, const std::string& why) {
  const std::string addresses = port().explaining() ? addresses_of(id) : "";
  if (addresses.empty()) return refuse(error, call, why);
  return refuse(error, (std::string(call) + " (" + addresses + ")").c_str(), why);
}

int refuse(const rdma_cm_id& id, const char* call, const Error& error) {
  return refuse(id, error.code, call, error.message);
}

int refuse_null(const char* call) {
  return shielded([&] { return refuse(EINVAL, call, "an argument is a null pointer"); });
}

}  // namespace verbena::rdmacm
