// Memory windows. Binding a type 1 window is a verb of its own; like an adapter we turn it into a
// work request on the queue pair, so that it is ordered with what was posted before.
#include "abi/errors.h"
#include "abi/import.h"
#include "abi/operations.h"
#include "abi/post.h"

namespace verbena::abi {
namespace {

std::atomic<uint32_t> live_windows{0};

// Queued binds point to windows: their memory is only ever a window's (see Recycler).
Recycler<Mw>& windows() {
  static auto* instance = new Recycler<Mw>;
  return *instance;
}

// Gives the window's memory back; what it was. Locked: a bind that waits may name it.
Mw retire(Mw* mw) {
  Mw was = std::exchange(*mw, Mw{});
  windows().give(mw);
  --live_windows;
  return was;
}

}  // namespace

ibv_mw* alloc_mw(ibv_pd* base, ibv_mw_type type) {
  return shielded_pointer<ibv_mw>([&]() -> ibv_mw* {
    if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
      return refuse_null(EINVAL, "ibv_alloc_mw: type {}: there are types 1 and 2",
                         static_cast<int>(type));
    uint32_t limit = model_of(base->context)->limits.max_mw;
    if (live_windows >= limit)
      return refuse_null(ENOMEM, "ibv_alloc_mw: the device's max_mw = {} windows are in use",
                         limit);
    Pd* pd = cast(base);
    Mw* mw = windows().take();
    ++live_windows;
    mw->pd = pd;
    mw->context = ContextHold(base->context);
    mw->engine.domain = &pd->domain->engine;
    mw->engine.type = static_cast<uint8_t>(type);
    host::Process& process = host::Process::get();
    uint32_t key;
    Mw failed;
    {
      host::Process::Guard guard(process);
      key = process.engine().keys().insert(&mw->engine);
      if (!key) failed = retire(mw);
    }
    if (!key)
      return refuse_null(ENOMEM, "ibv_alloc_mw: all memory keys of this process are in use");
    mw->base = {base->context, base, key, next_handle(), type};
    enter_domain(pd);
    return &mw->base;
  });
}

int dealloc_mw(ibv_mw* base) {
  return shielded([&] {
    Mw* mw = cast(base);
    Mw was;
    {
      host::Process& process = host::Process::get();
      host::Process::Guard guard(process);
      process.engine().keys().remove(mw->engine.key);
      mw->engine.unbind();
      was = retire(mw);
    }
    leave_domain(was.pd);
    return 0;
  });
}

int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind) {
  return shielded([&] {
    const ibv_mw_bind_info& info = bind->bind_info;
    if (!info.mr && (info.addr || info.length))
      return refuse(EINVAL, "ibv_bind_mw: a range but no region");
    if (info.mr && (mw->pd != info.mr->pd))
      return refuse(EPERM, "ibv_bind_mw: window and region belong to different protection domains");
    return post_bind(qp, mw, *bind);
  });
}

}  // namespace verbena::abi
