// Completion queues and channels: create, poll, arm, wait, resize, destroy.
#include <algorithm>

#include "abi/cq.h"
#include "abi/errors.h"
#include "abi/events.h"
#include "abi/import.h"
#include "abi/operations.h"

namespace verbena::abi {
namespace {

std::atomic<uint32_t> live_queues{0};

// Completions converted at a time: on the stack, so bounded.
constexpr int kPollBatch = 16;

static_assert(int{IBV_WC_SUCCESS} == int(engine::WcStatus::kSuccess) &&
              int{IBV_WC_LOC_LEN_ERR} == int(engine::WcStatus::kLocLenErr) &&
              int{IBV_WC_LOC_PROT_ERR} == int(engine::WcStatus::kLocProtErr) &&
              int{IBV_WC_WR_FLUSH_ERR} == int(engine::WcStatus::kWrFlushErr) &&
              int{IBV_WC_MW_BIND_ERR} == int(engine::WcStatus::kMwBindErr) &&
              int{IBV_WC_REM_ACCESS_ERR} == int(engine::WcStatus::kRemAccessErr) &&
              int{IBV_WC_RETRY_EXC_ERR} == int(engine::WcStatus::kRetryExcErr) &&
              int{IBV_WC_RNR_RETRY_EXC_ERR} == int(engine::WcStatus::kRnrRetryExcErr) &&
              int{IBV_WC_GENERAL_ERR} == int(engine::WcStatus::kGeneralErr));
static_assert(int{IBV_WC_SEND} == int(engine::WcOpcode::kSend) &&
              int{IBV_WC_RDMA_READ} == int(engine::WcOpcode::kRdmaRead) &&
              int{IBV_WC_FETCH_ADD} == int(engine::WcOpcode::kFetchAdd) &&
              int{IBV_WC_BIND_MW} == int(engine::WcOpcode::kBindMw) &&
              int{IBV_WC_LOCAL_INV} == int(engine::WcOpcode::kLocalInv) &&
              int{IBV_WC_RECV} == int(engine::WcOpcode::kRecv) &&
              int{IBV_WC_RECV_RDMA_WITH_IMM} == int(engine::WcOpcode::kRecvRdmaWithImm));
static_assert(int{IBV_WC_GRH} == engine::kWcGrh && int{IBV_WC_WITH_IMM} == engine::kWcWithImm &&
              int{IBV_WC_WITH_INV} == engine::kWcWithInv);

inline void convert(const engine::WorkCompletion& from, ibv_wc& to) {
  to.wr_id = from.wr_id;
  to.status = static_cast<ibv_wc_status>(from.status);
  to.opcode = static_cast<ibv_wc_opcode>(from.opcode);
  to.vendor_err = from.vendor_error;
  to.byte_len = from.byte_len;
  to.imm_data = from.imm_or_rkey;
  to.qp_num = from.qp_num;
  to.src_qp = from.source_qp;
  to.wc_flags = from.flags;
  to.pkey_index = 0;
  to.slid = from.source_lid;
  to.sl = from.service_level;
  to.dlid_path_bits = 0;
}

int check_size(const char* call, ibv_context* context, uint64_t entries) {
  uint32_t limit = model_of(context)->limits.max_cqe;
  if (entries >= 1 && entries <= limit) return 0;
  return refuse(EINVAL, "{}: {} entries; the device takes 1..{} (max_cqe)", call,
                static_cast<int64_t>(entries), limit);
}

}  // namespace

Cq* make_cq(const char* call, ibv_context* context, const CqSpec& spec) {
  int error = check_size(call, context, spec.entries);
  if (!error && spec.vector >= static_cast<uint32_t>(context->num_comp_vectors))
    error = refuse(EINVAL, "{}: completion vector {}; the context has 0..{}", call, spec.vector,
                   context->num_comp_vectors - 1);
  if (!error && spec.channel && spec.channel->context != context)
    error = refuse(EINVAL, "{}: the completion channel belongs to another context", call);
  uint32_t limit = model_of(context)->limits.max_cq;
  if (!error && live_queues >= limit)
    error = refuse(ENOMEM, "{}: the device's max_cq = {} queues are in use", call, limit);
  if (error) {
    errno = error;
    return nullptr;
  }
  auto cq = std::make_unique<Cq>();
  cq->queue = std::make_unique<engine::CompletionQueue>(static_cast<uint32_t>(spec.entries));
  cq->queue->owner = cq.get();
  ibv_cq_ex& base = cq->base;
  base.context = context;
  cq->context = ContextHold(context);
  base.channel = spec.channel;
  base.cq_context = spec.user_context;
  base.handle = next_handle();
  base.cqe = static_cast<int>(spec.entries);
  pthread_mutex_init(&base.mutex, nullptr);
  pthread_cond_init(&base.cond, nullptr);
  if (base.channel) __atomic_add_fetch(&base.channel->refcnt, 1, __ATOMIC_RELAXED);
  ++live_queues;
  return cq.release();
}

int poll_cq(ibv_cq* base, int count, ibv_wc* wc) {
  engine::CompletionQueue& queue = *cast(base)->queue;
  host::Process& process = host::Process::get();
  engine::WorkCompletion batch[kPollBatch];
  int done = 0;
  while (done < count) {
    int wanted = std::min(count - done, kPollBatch);
    int got = process.poll(queue, batch, wanted);
    if (got < 0) return done ? done : got;
    for (int i = 0; i < got; ++i) convert(batch[i], wc[done + i]);
    done += got;
    if (got < wanted) break;
  }
  return done;
}

int req_notify_cq(ibv_cq* base, int solicited_only) {
  host::Process::get().arm(*cast(base)->queue, solicited_only != 0);
  return 0;
}

}  // namespace verbena::abi

using namespace verbena;
using namespace verbena::abi;

extern "C" {

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  return shielded_pointer<ibv_comp_channel>([&]() -> ibv_comp_channel* {
    auto channel = std::make_unique<CompChannel>();
    if (channel->events.fd() < 0)
      return refuse_null(errno, "ibv_create_comp_channel: no event descriptor");
    channel->base.context = context;
    channel->base.fd = channel->events.fd();
    return &channel.release()->base;
  });
}

int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  return shielded([&] {
    if (int users = __atomic_load_n(&channel->refcnt, __ATOMIC_RELAXED))
      return refuse(EBUSY, "ibv_destroy_comp_channel: {} completion queues use it", users);
    delete cast(channel);
    return 0;
  });
}

ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* user_context,
                      ibv_comp_channel* channel, int vector) {
  return shielded_pointer<ibv_cq>([&]() -> ibv_cq* {
    CqSpec spec{.entries = static_cast<uint64_t>(static_cast<int64_t>(entries)),
                .user_context = user_context,
                .channel = channel,
                .vector = static_cast<uint32_t>(vector)};
    Cq* cq = make_cq("ibv_create_cq", context, spec);
    return cq ? cq->plain() : nullptr;
  });
}

int ibv_resize_cq(ibv_cq* base, int entries) {
  return shielded([&] {
    auto wanted = static_cast<uint64_t>(static_cast<int64_t>(entries));
    if (int error = check_size("ibv_resize_cq", base->context, wanted)) return error;
    Cq* cq = cast(base);
    host::Process::Guard guard(host::Process::get());
    if (!cq->queue->resize(static_cast<uint32_t>(entries)))
      return refuse(EINVAL,
                    "ibv_resize_cq: {} completions wait, more than the new size {}; poll "
                    "first",
                    cq->queue->size(), entries);
    base->cqe = entries;
    return 0;
  });
}

int ibv_destroy_cq(ibv_cq* base) {
  return shielded([&] {
    Cq* cq = cast(base);
    if (cq->users)
      return refuse(EBUSY, "ibv_destroy_cq: {} queue pairs or SRQs still complete here",
                    cq->users.load());
    uint32_t completions, asyncs;
    {
      host::Process& process = host::Process::get();
      host::Process::Guard guard(process);
      process.engine().forget(cq->queue.get());
      cq->queue->owner = nullptr;
      completions = cq->completion_deliveries;
      if (base->channel) completions -= cast(base->channel)->events.forget(cq);
      asyncs = cq->async_deliveries - cast(base->context)->async.forget(cq);
    }
    wait_for_acknowledgements(base->mutex, base->cond, base->comp_events_completed, completions);
    wait_for_acknowledgements(base->mutex, base->cond, base->async_events_completed, asyncs);
    if (base->channel) __atomic_sub_fetch(&base->channel->refcnt, 1, __ATOMIC_RELAXED);
    if (cq->parent_domain) leave_domain(cq->parent_domain);
    pthread_mutex_destroy(&base->mutex);
    pthread_cond_destroy(&base->cond);
    delete cq;
    --live_queues;
    return 0;
  });
}

int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** user_context) {
  host::Delivery delivery;
  if (int error = cast(channel)->events.pop(delivery)) return minus_one(error);
  *cq = static_cast<Cq*>(delivery.object)->plain();
  *user_context = (*cq)->cq_context;
  return 0;
}

void ibv_ack_cq_events(ibv_cq* cq, unsigned int events) {
  pthread_mutex_lock(&cq->mutex);
  cq->comp_events_completed += events;
  pthread_cond_broadcast(&cq->cond);
  pthread_mutex_unlock(&cq->mutex);
}

}  // extern "C"
