// Attach, find the neighbours, survive the broker's death, leave no trace after fork.
#include "broker/client.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "broker/connect.h"
#include "broker/identity.h"
#include "broker/port_holder.h"
#include "broker/spawn.h"

namespace verbena::broker {
namespace {

constexpr int kMaxLosses = 3;  // connections that may end before an answer

// Living leases of this process, for the atfork handler.
std::mutex g_leases_mutex;
std::vector<Lease*>& living_leases() {
  static auto* leases = new std::vector<Lease*>;  // forks happen in exit handlers too
  return *leases;
}

// No request is under way meanwhile: the child would get descriptors that come with its answer.
void before_fork() {
  g_leases_mutex.lock();
  for (Lease* lease : living_leases()) lease->pause_for_fork();
}
void after_fork_in_parent() {
  for (Lease* lease : living_leases()) lease->go_on_after_fork();
  g_leases_mutex.unlock();
}
void after_fork_in_child() {
  for (Lease* lease : living_leases()) {
    lease->go_on_after_fork();  // locked by the thread that forked: this one
    lease->close_in_child();
  }
  living_leases().clear();
  g_leases_mutex.unlock();
}

void remember(Lease* lease) {
  watch_forks();
  std::lock_guard<std::mutex> lock(g_leases_mutex);
  living_leases().push_back(lease);
}

void forget(Lease* lease) {
  std::lock_guard<std::mutex> lock(g_leases_mutex);
  std::erase(living_leases(), lease);
}

Result<link::Fd> make_segment() {
  link::Fd fd(::memfd_create("verbena-slot", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid() || ::ftruncate(fd.get(), kSegmentBytes) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return fail(errno, std::string("cannot make shared memory for the local link: ") +
                           std::strerror(errno));
  }
  return fd;
}

}  // namespace

void watch_forks() {
  static const int registered =
      ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  static_cast<void>(registered);
}

Segment::~Segment() {
  if (memory_) ::munmap(memory_, kSegmentBytes);
}
Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(memory_, other.memory_);
  return *this;
}

Result<Segment> Segment::map(int fd, bool check_header) {
  struct stat info;
  int seals = ::fcntl(fd, F_GET_SEALS);
  if (::fstat(fd, &info) != 0 || info.st_size != static_cast<off_t>(kSegmentBytes) || seals < 0 ||
      !(seals & F_SEAL_SHRINK)) {
    return fail(EPROTO, "slot segment of another build");
  }
  void* memory =
      ::mmap(nullptr, kSegmentBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (memory == MAP_FAILED) {
    return fail(errno, std::string("cannot map a slot segment: ") + std::strerror(errno));
  }
  Segment out;
  out.memory_ = static_cast<SlotSegment*>(memory);
  if (check_header && (out->header.magic != kSegmentMagic || out->header.bytes != kSegmentBytes ||
                       out->local.version != link::kLocalAreaVersion)) {
    return fail(EPROTO, "slot segment of another build");
  }
  return out;
}

HostView::~HostView() {
  if (page_) ::munmap(const_cast<link::HostPage*>(page_), sizeof(link::HostPage));
}
HostView& HostView::operator=(HostView&& other) noexcept {
  std::swap(page_, other.page_);
  return *this;
}

Result<HostView> HostView::map(int fd) {
  struct stat info;
  if (::fstat(fd, &info) != 0 || info.st_size != sizeof(link::HostPage)) {
    return fail(EPROTO, "host page of another build");
  }
  void* memory = ::mmap(nullptr, sizeof(link::HostPage), PROT_READ, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    return fail(errno, std::string("cannot map the host page: ") + std::strerror(errno));
  }
  HostView out;
  out.page_ = static_cast<const link::HostPage*>(memory);
  if (out.page_->magic != link::kHostPageMagic) return fail(EPROTO, "host page of another build");
  return out;
}

Result<void> HostView::remap(int fd) {
  Result<HostView> other = map(fd);  // found sound
  if (!other) return tl::unexpected<Error>(other.error());
  void* memory = ::mmap(const_cast<link::HostPage*>(page_), sizeof(link::HostPage), PROT_READ,
                        MAP_SHARED | MAP_FIXED, fd, 0);
  if (memory != MAP_FAILED) return {};
  return fail(errno, std::string("cannot map the host page: ") + std::strerror(errno));
}

Result<std::unique_ptr<Lease>> attach(const AttachOptions& options) {
  std::unique_ptr<Lease> lease(new Lease);
  Result<void> started = lease->start(options);
  if (!started) return tl::unexpected<Error>(started.error());
  remember(lease.get());
  return lease;
}

Result<void> Lease::start(const AttachOptions& options) {
  options_ = options;
  Result<link::Fd> made = make_segment();
  if (!made) return tl::unexpected<Error>(made.error());
  segment_fd_ = std::move(*made);
  Result<Segment> mapped = Segment::map(segment_fd_.get(), false);
  if (!mapped) return tl::unexpected<Error>(mapped.error());
  segment_ = std::move(*mapped);
  segment_->header.magic = kSegmentMagic;
  segment_->header.bytes = kSegmentBytes;
  segment_->local.version = link::kLocalAreaVersion;
  wakeup_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wakeup_.valid()) return fail(errno, std::string("no eventfd: ") + std::strerror(errno));

  identity_.type = RequestType::kAttach;
  describe_self(identity_, options.local);
  while (identity_.token == 0) {
    if (::getrandom(&identity_.token, sizeof(identity_.token), 0) < 0) identity_.token = 0;
  }
  int fds[2] = {segment_fd_.get(), wakeup_.get()};
  Result<Answer> answer = connect_and_ask(options, identity_, fds, /*may_spawn=*/true);
  if (!answer) return tl::unexpected<Error>(answer.error());
  return accept_lease(*answer);
}

Result<void> Lease::accept_lease(Answer& answer) {
  if (answer.message.fd_count < 2 || !link::is_process_slot(answer.reply.slot)) {
    return fail(EPROTO, "malformed answer of the broker");
  }
  Result<HostView> host = HostView::map(answer.message.fds[0].get());
  if (!host) return tl::unexpected<Error>(host.error());
  host_ = std::move(*host);
  udp4_ = std::move(answer.message.fds[1]);
  udp6_ = std::move(answer.message.fds[2]);
  connection_ = std::move(answer.connection);
  slot_ = static_cast<uint8_t>(answer.reply.slot);
  generation_ = answer.reply.generation;
  segment_->header.slot = slot_;
  segment_->header.generation.store(generation_, std::memory_order_release);
  attached_ = true;
  return {};
}

Lease::~Lease() {
  forget(this);
  detach();
}

void Lease::detach() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!attached_ || abandoned_) return;
  attached_ = false;
  // Sockets first: when the broker hears of it, the port has one holder less.
  udp4_.reset();
  udp6_.reset();
  segment_->header.released.store(1, std::memory_order_release);
  Request bye;
  bye.type = RequestType::kDetach;
  Result<Answer> answer = ask(connection_.get(), bye, {}, options_.timeout_ms);
  connection_.reset();
}

void Lease::close_in_child() {
  abandoned_ = true;
  connection_.reset();
  segment_fd_.reset();
  wakeup_.reset();
  udp4_.reset();
  udp6_.reset();
}

namespace {

Result<PeerSegment> take_peer(Answer& answer, uint8_t slot) {
  if (answer.message.fd_count != 2 || answer.reply.slot != slot)
    return fail(EPROTO, "malformed answer of the broker");
  Result<Segment> mapped = Segment::map(answer.message.fds[0].get(), true);
  if (!mapped) return tl::unexpected<Error>(mapped.error());
  PeerSegment out;
  out.segment = std::move(*mapped);
  out.wakeup = std::move(answer.message.fds[1]);
  out.generation = answer.reply.generation;
  return out;
}

}  // namespace

Result<PeerSegment> Lease::open_peer(uint8_t slot) {
  std::lock_guard<std::mutex> lock(mutex_);
  return find_peer(slot, options_.timeout_ms, options_.timeout_ms);
}

link::Opened Lease::open_area(uint8_t slot, int patience_ms, link::PeerArea& out) {
  std::lock_guard<std::mutex> lock(mutex_);
  // A broker that is late already gets no more of the caller's time.
  bool late = question_.has_value() || claim_.has_value();
  Result<PeerSegment> peer = find_peer(slot, late ? 0 : patience_ms, patience_ms);
  if (!peer) {
    const int code = peer.error().code;
    const bool no_broker = code == ECONNREFUSED && !given_up_;  // yet: see keep()
    return code == ETIMEDOUT || no_broker ? link::Opened::kLater
           : code == ENOMEM               ? link::Opened::kNoRoom
                                          : link::Opened::kNobody;
  }
  auto keeper = std::make_shared<PeerSegment>(std::move(*peer));
  out.area = &keeper->segment->local;
  out.wakeup = keeper->wakeup.get();
  out.generation = keeper->generation;
  out.keeper = std::move(keeper);
  return link::Opened::kOpen;
}

// One question at a time: whoever finds another one pending takes its answer first, and has
// `patience_ms` for his own then, because the broker is at work.
Result<PeerSegment> Lease::find_peer(uint8_t slot, int wait_ms, int patience_ms) {
  if (abandoned_) return fail(ESTALE, "this slot belongs to the parent process");
  if (!attached_) return fail(ENOTCONN, "the slot was given back");
  int64_t deadline = now_ms() + wait_ms;
  for (int losses = 0; losses < kMaxLosses;) {
    if (auto found = heard_.extract(slot)) return std::move(found.mapped());
    Result<void> put;
    if (!question_) put = put_open(slot);
    Result<Answer> answer =
        put ? hear_open(static_cast<int>(std::max<int64_t>(deadline - now_ms(), 0)))
            : Result<Answer>(tl::unexpected<Error>(put.error()));
    if (!answer && is_lost_connection(answer.error())) {
      lose_connection();
      ++losses;
      continue;
    }
    if (!answer && answer.error().code == ETIMEDOUT) return tl::unexpected<Error>(answer.error());
    const bool ours = !question_ || question_->slot == slot;
    const uint8_t asked = ours ? slot : static_cast<uint8_t>(question_->slot);
    question_.reset();
    Result<PeerSegment> peer = answer ? take_peer(*answer, asked)
                                      : Result<PeerSegment>(tl::unexpected<Error>(answer.error()));
    if (ours) return peer;
    if (peer) heard_[asked] = std::move(*peer);
    deadline = now_ms() + patience_ms;
  }
  return fail(ETIMEDOUT, "the broker ended, and the next one is not there yet");
}

// Without a connection (the broker died) our slot is claimed from the next one in the same breath.
Result<void> Lease::put_open(uint8_t slot) {
  if (!connection_.valid())
    if (Result<void> claimed = reconnect(); !claimed) return claimed;
  Request open;
  open.type = RequestType::kOpenPeer;
  open.slot = slot;
  Result<void> put = put_request(connection_.get(), open);
  if (put) question_ = open;
  return put;
}

Result<Answer> Lease::hear_open(int wait_ms) {
  if (claim_) {
    if (Result<void> claimed = hear_claim(wait_ms); !claimed) {
      if (claimed.error().code != ETIMEDOUT && !is_lost_connection(claimed.error()))
        lose_connection();
      return tl::unexpected<Error>(claimed.error());
    }
  }
  return hear_answer(connection_.get(), *question_, wait_ms);
}

void Lease::lose_connection() {
  connection_.reset();
  claim_.reset();
  question_.reset();
}

Result<void> check_reach(const AttachOptions& options) {
  Result<link::Fd> connection = connect_now(options.name);
  if (connection) return {};
  if (connection.error().code == EACCES) return tl::unexpected<Error>(connection.error());
  if (connection.error().code != ECONNREFUSED || !held_by_strangers(options.port)) return {};
  return fail(EADDRINUSE, describe_port_holder(options.port));
}

Result<Observer> Observer::open(const std::string& name) {
  AttachOptions options;
  options.name = name;
  Request observe;
  observe.type = RequestType::kObserve;
  Result<Answer> answer = connect_and_ask(options, observe, {}, /*may_spawn=*/false);
  if (!answer) return tl::unexpected<Error>(answer.error());
  if (answer->message.fd_count != 1) return fail(EPROTO, "malformed answer of the broker");
  Result<HostView> host = HostView::map(answer->message.fds[0].get());
  if (!host) return tl::unexpected<Error>(host.error());
  Observer out;
  out.host_ = std::move(*host);
  out.connection_ = std::move(answer->connection);
  return out;
}

Result<PeerSegment> Observer::open_peer(uint8_t slot) {
  Request open;
  open.type = RequestType::kOpenPeer;
  open.slot = slot;
  Result<Answer> answer = ask(connection_.get(), open, {}, AttachOptions{}.timeout_ms);
  if (!answer) return tl::unexpected<Error>(answer.error());
  return take_peer(*answer, slot);
}

}  // namespace verbena::broker
