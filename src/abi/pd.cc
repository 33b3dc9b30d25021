// Protection domains, thread domains, parent domains and XRC domains: identities that other objects
// belong to, refused to go (EBUSY) while something does.
#include <fcntl.h>
#include <sys/stat.h>

#include <map>

#include "abi/errors.h"
#include "abi/import.h"
#include "abi/operations.h"

namespace verbena::abi {
namespace {

// XRC domains opened through a file are shared by everybody in this process who opens that file.
struct XrcRegistry {
  struct Entry {
    engine::XrcDomain domain;
    uint32_t holders = 0;
    bool named = false;
    dev_t device = 0;
    ino_t inode = 0;
  };
  host::ForkMutex mutex;
  std::map<uint32_t, std::unique_ptr<Entry>> entries;  // by domain handle
};

XrcRegistry& xrc_registry() {
  static XrcRegistry* instance = new XrcRegistry;
  return *instance;
}

XrcRegistry::Entry* find_named(XrcRegistry& registry, const struct stat& file) {
  for (auto& [handle, entry] : registry.entries)
    if (entry->named && entry->device == file.st_dev && entry->inode == file.st_ino)
      return entry.get();
  return nullptr;
}

int check_xrcd_attr(const ibv_xrcd_init_attr& attr) {
  constexpr uint32_t kNeeded = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  if (attr.comp_mask & ~kNeeded)
    return refuse(EOPNOTSUPP, "ibv_open_xrcd: comp_mask {:#x} has unknown bits", attr.comp_mask);
  if (attr.comp_mask != kNeeded)
    return refuse(EINVAL, "ibv_open_xrcd: comp_mask must name both fd and oflags");
  if (attr.oflags & ~(O_CREAT | O_EXCL))
    return refuse(EINVAL, "ibv_open_xrcd: oflags {:#o}: only O_CREAT and O_EXCL mean something",
                  attr.oflags);
  if (attr.fd == -1 && !(attr.oflags & O_CREAT))
    return refuse(EINVAL,
                  "ibv_open_xrcd: without a file (fd -1) the domain is new, so oflags must "
                  "contain O_CREAT");
  return 0;
}

// The domain `attr` asks for, with one holder more. Errors: what the kernel gives.
int open_domain(const ibv_xrcd_init_attr& attr, engine::XrcDomain*& domain) {
  struct stat file{};
  if (attr.fd != -1 && fstat(attr.fd, &file) != 0)
    return refuse(EBADF, "ibv_open_xrcd: fd {} is not open", attr.fd);
  XrcRegistry& registry = xrc_registry();
  std::lock_guard lock(registry.mutex);
  XrcRegistry::Entry* entry = attr.fd == -1 ? nullptr : find_named(registry, file);
  if (entry && (attr.oflags & O_EXCL))
    return refuse(EINVAL, "ibv_open_xrcd: O_EXCL, but this file has an XRC domain already");
  if (!entry && !(attr.oflags & O_CREAT))
    return refuse(EAGAIN, "ibv_open_xrcd: this file has no XRC domain yet; give O_CREAT");
  if (!entry) {
    auto made = std::make_unique<XrcRegistry::Entry>();
    made->domain.handle = next_handle();
    made->named = attr.fd != -1;
    made->device = file.st_dev;
    made->inode = file.st_ino;
    entry = made.get();
    registry.entries.emplace(made->domain.handle, std::move(made));
  }
  ++entry->holders;
  domain = &entry->domain;
  return 0;
}

void close_domain(engine::XrcDomain* domain) {
  XrcRegistry& registry = xrc_registry();
  std::lock_guard lock(registry.mutex);
  auto it = registry.entries.find(domain->handle);
  if (--it->second->holders == 0) registry.entries.erase(it);
}

}  // namespace

namespace {
std::atomic<uint32_t> live_domains{0};
host::ForkMutex users_mutex;  // orders the last user of an undone import against unimport
}  // namespace

void enter_domain(Pd* pd) {
  ++pd->users;
  ++pd->domain->users;
}

void leave_domain(Pd* pd) {
  std::lock_guard lock(users_mutex);
  --pd->domain->users;
  if (--pd->users > 0 || !pd->undone) return;
  release_domain(pd->domain);
  delete pd;
}

void unimport_domain(Pd* pd) {
  std::lock_guard lock(users_mutex);
  if (pd->users > 0) {
    pd->undone = true;
    return;
  }
  release_domain(pd->domain);
  delete pd;
}

Handles<Pd>& pd_handles() {
  static auto* instance = new Handles<Pd>;
  return *instance;
}

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr) {
  return shielded_pointer<ibv_td>([&]() -> ibv_td* {
    if (attr->comp_mask)
      return refuse_null(EOPNOTSUPP, "ibv_alloc_td: comp_mask {:#x}: no bit is defined",
                         attr->comp_mask);
    auto* td = new Td{};
    td->base.context = context;
    td->context = ContextHold(context);
    return &td->base;
  });
}

int dealloc_td(ibv_td* td) {
  if (cast(td)->users)
    return shielded([&] { return refuse(EBUSY, "ibv_dealloc_td: a parent domain uses it"); });
  delete cast(td);
  return 0;
}

ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attr) {
  return shielded_pointer<ibv_pd>([&]() -> ibv_pd* {
    constexpr uint32_t kKnown =
        IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    if (attr->comp_mask & ~kKnown)
      return refuse_null(EOPNOTSUPP, "ibv_alloc_parent_domain: comp_mask {:#x} has unknown bits",
                         attr->comp_mask);
    if (!attr->pd) return refuse_null(EINVAL, "ibv_alloc_parent_domain: pd is null");
    if ((attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) && (!attr->alloc || !attr->free))
      return refuse_null(EINVAL, "ibv_alloc_parent_domain: allocators need both alloc and free");
    Pd* real = cast(attr->pd);
    if (real->parent_of || real->base.context != context)
      return refuse_null(EINVAL,
                         "ibv_alloc_parent_domain: pd must be a protection domain of the "
                         "same context");
    // The allocators serve providers that share queues with hardware; our queues are private, and
    // the manual leaves it to the provider which memory it asks them for.
    auto* parent = new Pd{};
    parent->base = {context, real->base.handle};
    parent->domain = real->domain;
    parent->parent_of = real;
    parent->td = attr->td ? cast(attr->td) : nullptr;
    ++real->users;
    if (parent->td) ++parent->td->users;
    return &parent->base;
  });
}

ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* attr) {
  return shielded_pointer<ibv_xrcd>([&]() -> ibv_xrcd* {
    int error = check_xrcd_attr(*attr);
    auto xrcd = std::make_unique<Xrcd>();
    if (!error) error = open_domain(*attr, xrcd->domain);
    if (error) {
      errno = error;
      return nullptr;
    }
    xrcd->base.context = context;
    xrcd->context = ContextHold(context);
    return &xrcd.release()->base;
  });
}

int close_xrcd(ibv_xrcd* base) {
  return shielded([&] {
    Xrcd* xrcd = cast(base);
    if (xrcd->users)
      return refuse(EBUSY, "ibv_close_xrcd: {} SRQs or queue pairs use it", xrcd->users.load());
    close_domain(xrcd->domain);
    delete xrcd;
    return 0;
  });
}

}  // namespace verbena::abi

using namespace verbena::abi;

extern "C" {

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  return shielded_pointer<ibv_pd>([&]() -> ibv_pd* {
    uint32_t limit = model_of(context)->limits.max_pd;
    if (live_domains >= limit)
      return refuse_null(ENOMEM, "ibv_alloc_pd: the device's max_pd = {} domains are in use",
                         limit);
    auto pd = std::make_unique<Pd>();
    pd->domain = new Domain{};
    ++live_domains;
    pd->domain->holders = 1;
    pd->base = {context, pd_handles().add(pd.get())};
    pd->domain->engine.handle = pd->base.handle;
    return &pd.release()->base;
  });
}

int ibv_dealloc_pd(ibv_pd* base) {
  return shielded([&] {
    Pd* pd = cast(base);
    if (pd->users)
      return refuse(EBUSY,
                    "ibv_dealloc_pd: {} objects (regions, windows, queues, address handles "
                    "or parent domains) still belong to it",
                    pd->users.load());
    if (pd->parent_of) {
      --pd->parent_of->users;
      if (pd->td) --pd->td->users;
      delete pd;
      return 0;
    }
    if (pd->domain->users)
      return refuse(EBUSY, "ibv_dealloc_pd: {} objects made through an import still belong to it",
                    pd->domain->users.load());
    pd_handles().remove(base->handle);
    release_domain(pd->domain);
    delete pd;
    --live_domains;
    return 0;
  });
}

}  // extern "C"
