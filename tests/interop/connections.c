/* One end of rdma_cm connections of which every event, status and byte is checked: the same program
   runs on Linux's connection manager and over Verbena. Prints as exchange does.
     connections TCP_PORT [SERVER]      without SERVER it serves
   VICTIM=client or =server: that end is killed while it is connected, or with EARLY=1 while its
   request waits for an answer; the other end says what it heard. */
#include <arpa/inet.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "both_ends.h"

enum { kCmPort = 7471, kSlot = 16384, kSlots = 32, kBytes = kSlot * kSlots };
enum { kReqBytes = 56, kRepBytes = 196, kRejBytes = 148 }; /* private data on RoCE, IPs taken off */
enum { kNothing = -1, kRejectedByConsumer = 28, kNobodyListens = 8 };

/* An event that was taken and acknowledged. */
struct heard {
  int type, status, bytes;
  struct rdma_cm_id* id;
  uint8_t data[256];
};

/* A connection and what it needs. */
struct end {
  struct rdma_cm_id* id;
  struct ibv_pd* pd;
  struct ibv_cq* cq;
  struct ibv_srq* srq;
  struct ibv_mr* mr;
  uint8_t* memory; /* slots: sends from the first half, receives into the second */
};

static struct rdma_event_channel* channel;
static struct rdma_cm_id* listener;
static int serving;
static struct sockaddr_storage server_address;

static struct heard next_event(int seconds) {
  struct heard h = {kNothing, 0, 0, NULL, {0}};
  struct pollfd ready = {channel->fd, POLLIN, 0};
  struct rdma_cm_event* event;
  for (;;) {
    if (poll(&ready, 1, seconds * 1000) != 1) return h;
    if (rdma_get_cm_event(channel, &event)) die("rdma_get_cm_event");
    if (event->event != RDMA_CM_EVENT_TIMEWAIT_EXIT) break; /* its time is the peer's to choose */
    rdma_ack_cm_event(event);
  }
  h.type = (int)event->event;
  h.status = event->status;
  h.id = event->id;
  h.bytes = event->param.conn.private_data_len;
  if (event->param.conn.private_data)
    memcpy(h.data, event->param.conn.private_data, (size_t)h.bytes);
  rdma_ack_cm_event(event);
  return h;
}

static struct heard expect(const char* name, enum rdma_cm_event_type type) {
  struct heard h = next_event(60);
  if (h.type != (int)type) {
    printf("%s: expected %s, heard %s, status %d\n", name, rdma_event_str(type),
           h.type == kNothing ? "nothing" : rdma_event_str((enum rdma_cm_event_type)h.type),
           h.status);
    exit(99);
  }
  return h;
}

static struct ibv_wc await(struct end* e, int seconds) {
  struct ibv_wc wc;
  memset(&wc, 0, sizeof wc);
  time_t limit = time(NULL) + seconds;
  while (ibv_poll_cq(e->cq, 1, &wc) == 0)
    if (time(NULL) > limit) {
      wc.status = 99; /* none came */
      break;
    }
  return wc;
}

static void receive(struct end* e, int slot, int length) {
  struct ibv_sge sge = {(uintptr_t)e->memory + (size_t)slot * kSlot, (uint32_t)length, e->mr->lkey};
  struct ibv_recv_wr wr = {.wr_id = 100 + (uint64_t)slot, .sg_list = &sge, .num_sge = 1}, *bad;
  if (e->srq ? ibv_post_srq_recv(e->srq, &wr, &bad) : ibv_post_recv(e->id->qp, &wr, &bad))
    die("post a receive");
}

static void send_slot(struct end* e, int slot, int length) {
  struct ibv_sge sge = {(uintptr_t)e->memory + (size_t)slot * kSlot, (uint32_t)length, e->mr->lkey};
  struct ibv_send_wr wr, *bad;
  memset(&wr, 0, sizeof wr);
  wr.wr_id = (uint64_t)slot;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND_WITH_IMM;
  wr.imm_data = htonl((uint32_t)slot);
  wr.send_flags = IBV_SEND_SIGNALED;
  if (ibv_post_send(e->id->qp, &wr, &bad)) die("ibv_post_send");
}

/* A queue pair for the id; a shared receive queue is `like`'s, and so is the rest then. */
static void equip(struct end* e, struct end* like, int shared) {
  if (like) {
    struct rdma_cm_id* id = e->id;
    *e = *like;
    e->id = id;
  } else {
    e->pd = ibv_alloc_pd(e->id->verbs);
    e->cq = ibv_create_cq(e->id->verbs, 256, NULL, NULL, 0);
    if (!e->pd || !e->cq || posix_memalign((void**)&e->memory, 4096, kBytes)) die("set-up");
    memset(e->memory, 0, kBytes);
    e->mr = ibv_reg_mr(e->pd, e->memory, kBytes, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_srq_init_attr attr = {.attr = {64, 1, 0}};
    e->srq = shared ? ibv_create_srq(e->pd, &attr) : NULL;
    if (!e->mr || (shared && !e->srq)) die("set-up");
  }
  struct ibv_qp_init_attr init = {.send_cq = e->cq,
                                  .recv_cq = e->cq,
                                  .srq = e->srq,
                                  .qp_type = IBV_QPT_RC,
                                  .cap = {32, e->srq ? 0 : 32, 1, 1, 0}};
  if (rdma_create_qp(e->id, e->pd, &init)) die("rdma_create_qp");
}

static void drop(struct end* e, int last) {
  if (e->id->qp) rdma_destroy_qp(e->id);
  rdma_destroy_id(e->id);
  if (!last) return;
  if (e->srq) ibv_destroy_srq(e->srq);
  if (e->mr) ibv_dereg_mr(e->mr);
  free(e->memory);
  if (e->cq) ibv_destroy_cq(e->cq);
  if (e->pd) ibv_dealloc_pd(e->pd);
}

/* The client's id with its route; no queue pair yet. */
static struct rdma_cm_id* way_to_server(const char* name, int port_offset) {
  struct rdma_cm_id* id;
  struct sockaddr_storage to = server_address;
  /* The port lies at the same place in both families. */
  ((struct sockaddr_in*)&to)->sin_port = htons((uint16_t)(kCmPort + port_offset));
  if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP)) die("rdma_create_id");
  if (rdma_resolve_addr(id, NULL, (struct sockaddr*)&to, 10000)) die("rdma_resolve_addr");
  expect(name, RDMA_CM_EVENT_ADDR_RESOLVED);
  if (rdma_resolve_route(id, 10000)) die("rdma_resolve_route");
  expect(name, RDMA_CM_EVENT_ROUTE_RESOLVED);
  return id;
}

static struct rdma_conn_param parameters(const uint8_t* data, int bytes, int rnr_retry) {
  struct rdma_conn_param p;
  memset(&p, 0, sizeof p);
  p.private_data = bytes ? data : NULL;
  p.private_data_len = (uint8_t)bytes;
  p.responder_resources = p.initiator_depth = 4;
  p.retry_count = 7;
  p.rnr_retry_count = (uint8_t)rnr_retry;
  return p;
}

/* Both ends connected. Private data goes both ways and is compared; `good` counts that. Receives
   are posted before the peer can send, unless `late`. */
static struct end connected(const char* name, struct end* like, int shared, int late, int rnr_retry,
                            int* good) {
  struct end e = {0};
  uint8_t own[kRepBytes];
  struct heard h;
  *good = 1;
  if (serving) {
    h = expect(name, RDMA_CM_EVENT_CONNECT_REQUEST);
    *good = h.bytes >= kReqBytes && same(h.data, kReqBytes, 11);
    e.id = h.id;
  } else {
    e.id = way_to_server(name, 0);
  }
  equip(&e, like, shared);
  if (!late && !like)
    for (int slot = kSlots / 2; slot < kSlots; ++slot) receive(&e, slot, kSlot);
  fill(own, sizeof own, serving ? 22 : 11);
  struct rdma_conn_param p = parameters(own, serving ? kRepBytes : kReqBytes, rnr_retry);
  if (serving ? rdma_accept(e.id, &p) : rdma_connect(e.id, &p)) die("accept or connect");
  h = expect(name, RDMA_CM_EVENT_ESTABLISHED);
  if (!serving) *good = h.bytes >= kRepBytes && same(h.data, kRepBytes, 22);
  return e;
}

/* Each sends `count` messages of `length`, the first from `slot`, into the other's receives. */
static long talk(struct end* e, int slot, int count, int length) {
  unsigned mine = serving ? 300 : 500, theirs = serving ? 500 : 300;
  meet();
  for (int i = 0; i < count; ++i) {
    fill(e->memory + (size_t)(slot + i) * kSlot, (size_t)length, mine + (unsigned)(slot + i));
    send_slot(e, slot + i, length);
  }
  long wrong = 0;
  for (int seen = 0; seen < 2 * count; ++seen) {
    struct ibv_wc wc = await(e, 60);
    if (wc.status) return 1000 + wc.status;
    if (wc.wr_id < 100) continue;
    unsigned from = ntohl(wc.imm_data);
    const uint8_t* at = e->memory + (wc.wr_id - 100) * kSlot;
    wrong += wc.byte_len != (unsigned)length || !(wc.wc_flags & IBV_WC_WITH_IMM) ||
             !same(at, (size_t)length, theirs + from);
  }
  meet();
  return wrong;
}

/* What is left of a connection that ended: receives that flush, nothing else. */
static int all_flushed(struct end* e, int count) {
  for (int i = 0; i < count; ++i)
    if (await(e, 20).status != IBV_WC_WR_FLUSH_ERR) return 0;
  return 1;
}

/* `first`: -1 both ends at once, else whether this end begins. */
static int part(const char* name, struct end* e, int first) {
  meet();
  if (first && rdma_disconnect(e->id)) die("rdma_disconnect");
  struct heard h = expect(name, RDMA_CM_EVENT_DISCONNECTED);
  if (!first) rdma_disconnect(e->id); /* what rdma_cm(7) asks of the other end */
  return h.id == e->id && h.status == 0;
}

static void plain(void) {
  const char* name = "private data, messages, disconnect";
  for (int who = 0; who < 2; ++who) {
    int good;
    struct end e = connected(name, NULL, 0, 0, 7, &good);
    long wrong = talk(&e, 0, 8, 9001);
    good = good && !wrong && part(name, &e, serving == who);
    good = good && all_flushed(&e, kSlots / 2 - 8);
    result(name, good, "private data, message or event; messages say", wrong);
    drop(&e, 1);
    meet();
  }
}

static void shared_receives(void) {
  const char* name = "three connections, one SRQ";
  struct end e[3];
  int good = 1, one;
  long wrong = 0;
  for (int i = 0; i < 3; ++i) {
    e[i] = connected(name, i ? &e[0] : NULL, 1, 0, 7, &one);
    good = good && one;
    meet();
  }
  for (int i = 0; i < 3; ++i) wrong += talk(&e[i], i * 4, 4, 3000);
  for (int i = 0; i < 3; ++i) good = part(name, &e[i], !serving) && good;
  result(name, good && !wrong, "private data, message or event; messages say", wrong);
  for (int i = 2; i >= 0; --i) drop(&e[i], i == 0);
  meet();
}

/* The receive comes 300 ms late and the message is delivered; none comes, and the tries end. */
static void late_receives(void) {
  int good;
  struct end e = connected("late receive", NULL, 0, 1, 7, &good);
  meet();
  struct ibv_wc wc;
  if (serving) {
    usleep(300000);
    receive(&e, kSlots - 1, kSlot);
  } else {
    fill(e.memory, 5000, 77);
    send_slot(&e, 0, 5000);
  }
  wc = await(&e, 60);
  good = wc.status == 0 && (!serving || same(e.memory + (kSlots - 1) * kSlot, 5000, 77));
  result("late receive", part("late receive", &e, serving) && good, "status", wc.status);
  drop(&e, 1);
  meet();
  e = connected("no receive", NULL, 0, 1, 1, &good);
  meet();
  if (!serving) {
    send_slot(&e, 0, 64);
    wc = await(&e, 60);
    result("no receive", wc.status == IBV_WC_RNR_RETRY_EXC_ERR, "status", wc.status);
  }
  part("no receive", &e, !serving);
  drop(&e, 1);
  meet();
}

static void refusals(void) {
  uint8_t data[kRejBytes];
  fill(data, sizeof data, 33);
  if (serving) {
    struct heard h = expect("reject", RDMA_CM_EVENT_CONNECT_REQUEST);
    if (rdma_reject(h.id, data, kRejBytes)) die("rdma_reject");
    rdma_destroy_id(h.id);
    h = expect("destroyed request", RDMA_CM_EVENT_CONNECT_REQUEST);
    rdma_destroy_id(h.id);
    meet();
    result("refusals", next_event(0).type == kNothing, "an event too many", 0);
    meet();
    return;
  }
  const char* names[] = {"reject with private data", "destroyed request", "nobody listens"};
  int statuses[] = {kRejectedByConsumer, kRejectedByConsumer, kNobodyListens};
  for (int i = 0; i < 3; ++i) {
    struct end e = {0};
    e.id = way_to_server(names[i], i == 2 ? 1 : 0);
    equip(&e, NULL, 0);
    struct rdma_conn_param p = parameters(data, 0, 7);
    if (rdma_connect(e.id, &p)) die("rdma_connect");
    struct heard h = expect(names[i], RDMA_CM_EVENT_REJECTED);
    int good = h.status == statuses[i];
    if (i == 0) good = good && h.bytes >= kRejBytes && same(h.data, kRejBytes, 33);
    result(names[i], good, "status", h.status);
    drop(&e, 1);
  }
  meet();
  meet(); /* between the two the server looks whether there is more to hear */
}

static void disconnect_races(void) {
  const char* name = "both disconnect at once";
  int good = 1, one;
  for (int i = 0; i < 10; ++i) {
    struct end e = connected(name, NULL, 0, 0, 7, &one);
    good = part(name, &e, -1) && all_flushed(&e, kSlots / 2) && one && good;
    drop(&e, 1);
    meet();
  }
  result(name, good, "event, private data or flush", 0);
  name = "one disconnects, one destroys";
  for (int i = 0; i < 10; ++i) {
    struct end e = connected(name, NULL, 0, 0, 7, &one);
    meet();
    if (serving == (i & 1))
      drop(&e, 1); /* no word to rdma_cm */
    else {
      rdma_disconnect(e.id);
      struct heard h = expect(name, RDMA_CM_EVENT_DISCONNECTED);
      good = good && one && h.id == e.id;
      drop(&e, 1);
    }
    meet();
  }
  result(name, good, "event or private data", 0);
}

/* The other end dies without a word; its system has to say it. */
static void killed(int victim) {
  int good;
  struct end e = connected("peer killed", NULL, 0, 0, 7, &good);
  long wrong = talk(&e, 0, 4, 4000);
  if (victim) raise(SIGKILL);
  struct heard h = expect("peer killed", RDMA_CM_EVENT_DISCONNECTED);
  rdma_disconnect(e.id);
  good = good && !wrong && h.id == e.id && all_flushed(&e, kSlots / 2 - 4);
  result("peer killed", good, "event or flush; messages say", wrong);
  drop(&e, 1);
}

/* As above, while the server holds a request that it did not answer. */
static void killed_early(int victim) {
  const char* name = "peer killed before it answered";
  if (serving) {
    struct heard h = expect(name, RDMA_CM_EVENT_CONNECT_REQUEST);
    put("x", 1);
    if (victim) raise(SIGKILL);
    char end;
    if (read(line, &end, 1) == 0) rdma_destroy_id(h.id);
    result(name, 1, "", 0);
    return;
  }
  struct end e = {0};
  e.id = way_to_server(name, 0);
  equip(&e, NULL, 0);
  struct rdma_conn_param p = parameters(NULL, 0, 7);
  if (rdma_connect(e.id, &p)) die("rdma_connect");
  char byte;
  get(&byte, 1);
  if (victim) raise(SIGKILL);
  struct heard h = expect(name, RDMA_CM_EVENT_REJECTED);
  result(name, h.id == e.id && h.status != 0, "status", h.status);
  drop(&e, 1);
}

static void open_ends(const char* server) {
  channel = rdma_create_event_channel();
  if (!channel) die("rdma_create_event_channel");
  struct addrinfo* found;
  if (server) {
    if (getaddrinfo(server, NULL, NULL, &found)) die(server);
    memcpy(&server_address, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return;
  }
  /* The wildcard of IPv6, which is IPv4's too. */
  struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(kCmPort)};
  if (rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) ||
      rdma_bind_addr(listener, (struct sockaddr*)&any) || rdma_listen(listener, 8))
    die("listen");
}

int main(int argc, char** argv) {
  if (argc < 2) return 101;
  serving = argc == 2;
  open_ends(serving ? NULL : argv[2]);
  open_line(serving ? NULL : argv[2], argv[1]);
  const char* victim = getenv("VICTIM");
  const char* early = getenv("EARLY");
  if (victim) {
    int own = !strcmp(victim, serving ? "server" : "client");
    if (early)
      killed_early(own);
    else
      killed(own);
    return failures;
  }
  plain();
  shared_receives();
  late_receives();
  refusals();
  disconnect_races();
  if (listener) rdma_destroy_id(listener);
  rdma_destroy_event_channel(channel);
  return failures;
}
