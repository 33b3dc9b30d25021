// A small Door for tests.
#include "peer.h"

#include <dirent.h>
#include <fmt/format.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <fstream>

namespace verbena::host {
namespace {

[[noreturn]] void give_up(const std::string& what) {
  fprintf(stderr, "peer %d: %s\n", getpid(), what.c_str());
  _exit(99);
}

EventChannel* route_event(const engine::Event& event, Delivery& delivery) {
  if (event.kind != engine::Event::kCompletion) return nullptr;
  delivery.object = event.cq;
  return static_cast<EventChannel*>(event.cq->owner);
}

}  // namespace

Peer::Peer(const PeerOptions& options)
    : options_(options), buffer_(options.bytes), cq_(2 * options.depth) {
  Process& process = Process::get();
  Result<void> attached = process.attach();
  if (!attached) give_up("attach: " + attached.error().message);
  Process::Guard guard(process);
  process.event_router(route_event);
  using namespace memory;
  region_ = {.domain = &domain_,
             .iova = reinterpret_cast<uint64_t>(buffer_.data()),
             .length = buffer_.size(),
             .base = buffer_.data(),
             .access = kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic};
  if (process.engine().keys().insert(&region_) == 0) give_up("no key");
  process.publish_key(region_.key);
  cq_.owner = &channel_;
  engine::QpInit init;
  init.type = options.type;
  init.domain = &domain_;
  init.send_cq = init.receive_cq = &cq_;
  init.send = {.work_requests = options.depth, .sges = 1, .inline_bytes = 64};
  init.receive_work_requests = options.depth;
  init.receive_sges = 1;
  Result<engine::QueuePair*> qp = process.engine().create_qp(init);
  if (!qp) give_up("create_qp: " + qp.error().message);
  qp_ = *qp;
  engine::QpAttributes wanted;
  wanted.state = engine::QpState::kInit;
  wanted.access = region_.access;
  Result<void> done = qp_->modify(
      process.now(), wanted,
      engine::kAttrState | engine::kAttrPkeyIndex | engine::kAttrPort | engine::kAttrAccessFlags);
  if (!done) give_up("INIT: " + done.error().message);
}

Peer::~Peer() {
  Process& process = Process::get();
  Process::Guard guard(process);
  process.revoke(*qp_);
  process.engine().destroy_qp(qp_);
  process.withdraw_key(region_.key);
  process.engine().keys().remove(region_.key);
}

std::string Peer::info() const {
  return fmt::format("{} {} {} {}", qp_->qpn(), region_.iova, region_.key, options_.address);
}

void Peer::connect(const std::string& info) {
  uint32_t qpn = 0;
  char address[64] = {};
  if (sscanf(info.c_str(), "%u %lu %u %63s", &qpn, &remote_address_, &remote_key_, address) != 4)
    give_up("bad info: " + info);
  Process& process = Process::get();
  Process::Guard guard(process);
  engine::QpAttributes wanted;
  wanted.state = engine::QpState::kRtr;
  wanted.route.source = *parse_gid(options_.address);
  wanted.route.destination = *parse_gid(address);
  wanted.route_is_global = true;
  wanted.path_mtu = 3;  // 1024 bytes
  wanted.dest_qpn = qpn;
  wanted.rq_psn = wanted.sq_psn = 0x123456;
  wanted.max_dest_rd_atomic = wanted.max_rd_atomic = 16;
  wanted.min_rnr_timer = 12;
  wanted.timeout = options_.timeout;
  wanted.retry_cnt = options_.retry_cnt;
  wanted.rnr_retry = 7;
  Result<engine::Path> path = process.choose_path(wanted.route, qpn);
  if (!path) give_up("choose_path: " + path.error().message);
  wanted.path = *path;
  using namespace engine;
  Result<void> done = qp_->modify(process.now(), wanted,
                                  kAttrState | kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn |
                                      kAttrMaxDestRdAtomic | kAttrMinRnrTimer);
  if (!done) give_up("RTR: " + done.error().message);
  wanted.state = QpState::kRts;
  done = qp_->modify(
      process.now(), wanted,
      kAttrState | kAttrTimeout | kAttrRetryCnt | kAttrRnrRetry | kAttrSqPsn | kAttrMaxQpRdAtomic);
  if (!done) give_up("RTS: " + done.error().message);
}

int Peer::post_send(engine::WrOpcode opcode, size_t offset, size_t length, size_t remote_offset,
                    uint32_t flags) {
  Process& process = Process::get();
  Process::Guard guard(process);
  engine::Sge sge{region_.iova + offset, static_cast<uint32_t>(length), region_.key};
  engine::SendRequest request;
  request.opcode = opcode;
  request.flags = flags;
  request.sges = {&sge, 1};
  request.remote_address = remote_address_ + remote_offset;
  request.rkey = remote_key_;
  int error = qp_->post_send(process.now(), request);
  process.transmit();
  return error;
}

int Peer::post_receive(size_t offset, size_t length) {
  Process::Guard guard(Process::get());
  engine::Sge sge{region_.iova + offset, static_cast<uint32_t>(length), region_.key};
  return qp_->post_receive(offset, {&sge, 1});
}

engine::WorkCompletion Peer::wait(int count, int timeout_ms) {
  engine::WorkCompletion last;
  last.status = engine::WcStatus::kGeneralErr;
  double end = seconds_now() + timeout_ms * 1e-3;
  while (count > 0) {
    engine::WorkCompletion completion;
    int n = poll(completion);
    if (n < 0) give_up("completion queue overrun");
    if (n > 0) {
      last = completion;
      --count;
    } else if (seconds_now() > end) {
      last.status = engine::WcStatus::kGeneralErr;
      return last;
    }
  }
  return last;
}

long background_switches() {
  long total = -1;
  DIR* tasks = opendir("/proc/self/task");
  while (dirent* entry = readdir(tasks)) {
    std::ifstream status(std::string("/proc/self/task/") + entry->d_name + "/status");
    std::string word, name;
    status >> word >> name;
    if (name != "verbena") continue;
    total = 0;
    while (status >> word)
      if (word == "voluntary_ctxt_switches:" || word == "nonvoluntary_ctxt_switches:") {
        long n = 0;
        status >> n;
        total += n;
      }
  }
  closedir(tasks);
  return total;
}

void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}

double seconds_now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + time.tv_nsec * 1e-9;
}

}  // namespace verbena::host
