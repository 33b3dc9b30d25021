// FakePort and the fixture over it. The program's own verbena_rdmacm_port() goes before that of
// libibverbs.so.1.
#include "fake_port.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>

extern "C" verbena::host::CmPort* verbena_rdmacm_port() {
  return &verbena::test::fake();
}

namespace verbena::test {

FakePort& fake() {
  static FakePort port;
  return port;
}

engine::Gid loopback() {
  static constexpr uint8_t kBytes[4] = {127, 0, 0, 1};
  return engine::Gid::from_ipv4(kBytes);
}

sockaddr_in ipv4(const char* text, uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  inet_pton(AF_INET, text, &address.sin_addr);
  return address;
}

Result<void> FakePort::outcome(const std::string& call) {
  calls.push_back(call);
  auto found = errors.find(call);
  if (found != errors.end()) return fail(found->second, call + " fails");
  return {};
}

Result<host::CmBinding> FakePort::bind(cm::PortSpace, uint16_t port, const engine::Gid& address,
                                       bool reuse, bool one_family) {
  if (auto done = outcome("bind"); !done) return tl::unexpected<Error>(done.error());
  bound_port = port != 0 ? port : uint16_t{50000};
  bound_address = address;
  bound_reuse = reuse;
  bound_one_family = one_family;
  listener = {next_++, 1};
  return host::CmBinding{listener, bound_port};
}

Result<void> FakePort::listen(const host::CmBinding&, uint32_t wanted) {
  backlog = wanted;
  return outcome("listen");
}

void FakePort::release(const host::CmBinding&) {
  calls.push_back("release");
}

Result<cm::Handle> FakePort::connect(const cm::ConnectRequest& wanted,
                                     const std::function<void(cm::Handle)>& known) {
  if (auto done = outcome("connect"); !done) return tl::unexpected<Error>(done.error());
  request = wanted;
  last = {next_++, 1};
  known(last);
  std::atomic_ref(connects_).fetch_add(1);
  return last;
}

void FakePort::await_connects(uint32_t count) {
  while (std::atomic_ref(connects_).load() < count) std::this_thread::yield();
}

Result<void> FakePort::accept(cm::Handle, const cm::QpParameters& qp,
                              std::span<const uint8_t> bytes) {
  accepted = qp;
  data.assign(bytes.begin(), bytes.end());
  return outcome("accept");
}

Result<void> FakePort::reject(cm::Handle, uint16_t why, std::span<const uint8_t> bytes) {
  reason = why;
  data.assign(bytes.begin(), bytes.end());
  return outcome("reject");
}

Result<host::CmPort::LocalEnd> FakePort::local_end(const engine::Gid& source, const engine::Gid&,
                                                   uint32_t) {
  if (auto done = outcome("local_end"); !done) return tl::unexpected<Error>(done.error());
  LocalEnd local;
  local.source = local_source != engine::Gid{} ? local_source
                 : source != engine::Gid{}     ? source
                                               : loopback();
  local.interface_index = 1;
  local.mtu = 65536;
  return local;
}

int FakePort::wait_readable(int fd) {
  if (wait_error != 0) return wait_error;
  pollfd ready{fd, POLLIN, 0};
  return poll(&ready, 1, 2000) > 0 ? 0 : ETIME;
}

cm::Event FakePort::event(cm::EventType type) const {
  cm::Event event;
  event.type = type;
  event.connection = last;
  return event;
}

void FakePort::emit_response(uint32_t qpn) {
  cm::Event response = event(cm::EventType::kResponse);
  response.qp.qpn = qpn;
  response.qp.starting_psn = 0x123456;
  response.qp.responder_resources = 5;
  response.qp.initiator_depth = 3;
  response.qp.rnr_retry_count = 6;
  response.private_data.assign(196, 0xab);
  emit(std::move(response));
}

void FakePort::emit_request(bool datagram) {
  last = {next_++, 1};
  cm::Event arrived = event(cm::EventType::kRequest);
  cm::Incoming incoming;
  incoming.listener = listener;
  incoming.route.source = incoming.route.destination = loopback();
  incoming.source_address = incoming.destination_address = loopback();
  incoming.source_port = 1234;
  incoming.destination_port = bound_port;
  incoming.datagram = datagram;
  incoming.path_mtu = 3;
  incoming.ack_timeout = 14;
  arrived.qp.qpn = datagram ? 0 : 0x77;
  arrived.qp.starting_psn = 0x654321;
  arrived.qp.responder_resources = 5;
  arrived.qp.initiator_depth = 3;
  arrived.qp.retry_count = 4;
  arrived.qp.rnr_retry_count = 2;
  arrived.private_data.assign(datagram ? 180 : 56, 0xcd);
  arrived.incoming = incoming;
  emit(std::move(arrived));
}

void FakePort::clear() {
  const Sink sink = sink_;
  const Forked forked = forked_;
  const uint32_t next = next_;
  *this = FakePort();
  sink_ = sink;
  forked_ = forked;
  next_ = next;
}

size_t descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

NoDescriptors::NoDescriptors() {
  getrlimit(RLIMIT_NOFILE, &before_);
  const int lowest = open("/dev/null", O_RDONLY | O_CLOEXEC);
  close(lowest);
  rlimit none = before_;
  none.rlim_cur = static_cast<rlim_t>(lowest);
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
}

NoDescriptors::~NoDescriptors() {
  setrlimit(RLIMIT_NOFILE, &before_);
}

void Rdmacm::SetUp() {
  setenv("VERBENA_DEVICES", "test0=lo", 0);
  fake().clear();
  channel_ = rdma_create_event_channel();
  ASSERT_NE(channel_, nullptr);
}

void Rdmacm::TearDown() {
  ack();
  while (!ids_.empty()) destroy(ids_.back());
  rdma_destroy_event_channel(channel_);
}

rdma_cm_id* Rdmacm::make(rdma_port_space space, bool synchronous) {
  rdma_cm_id* id = nullptr;
  EXPECT_EQ(rdma_create_id(synchronous ? nullptr : channel_, &id, this, space), 0);
  ids_.push_back(id);
  return id;
}

void Rdmacm::destroy(rdma_cm_id* id) {
  std::erase(ids_, id);
  rdma_destroy_ep(id);
}

rdma_cm_id* Rdmacm::routed(rdma_port_space space, bool synchronous) {
  rdma_cm_id* id = make(space, synchronous);
  sockaddr_in to = ipv4("127.0.0.1", 7471);
  EXPECT_EQ(rdma_resolve_addr(id, nullptr, plain(to), 1000), 0);
  if (!synchronous) take(RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_EQ(rdma_resolve_route(id, 1000), 0);
  if (!synchronous) take(RDMA_CM_EVENT_ROUTE_RESOLVED);
  ack();
  return id;
}

void Rdmacm::add_qp(rdma_cm_id* id) {
  ibv_qp_init_attr attr{};
  attr.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1};
  attr.qp_type = id->qp_type;
  ASSERT_EQ(rdma_create_qp(id, nullptr, &attr), 0);
}

rdma_cm_event* Rdmacm::take(rdma_cm_event_type type, int status) {
  rdma_cm_event* event = nullptr;
  EXPECT_EQ(rdma_get_cm_event(channel_, &event), 0);
  if (event == nullptr) return nullptr;
  EXPECT_STREQ(rdma_event_str(event->event), rdma_event_str(type));
  EXPECT_EQ(event->status, status);
  taken_.push_back(event);
  return event;
}

void Rdmacm::ack() {
  for (rdma_cm_event* event : taken_) EXPECT_EQ(rdma_ack_cm_event(event), 0);
  taken_.clear();
}

bool Rdmacm::empty() {
  pollfd ready{channel_->fd, POLLIN, 0};
  return poll(&ready, 1, 0) == 0;
}

}  // namespace verbena::test
